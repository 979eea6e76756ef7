"""`cmake --install` into a folder that is then moved: the program runs from anywhere, and a program outside of the sources
trains through the library."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "cli"))
import support  # noqa: E402
import test_examples  # noqa: E402

BUILD = os.environ.get("MRMF_BUILD", str(HERE.parents[1] / "build"))
CMAKE = os.environ.get("CMAKE", "cmake")


def run(words, folder, **variables):
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True, timeout=300,
                          env=dict(support.environment(), **variables))
    return done.returncode, done.stdout + done.stderr


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-install-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        code, cls.log = run([CMAKE, "--install", BUILD, "--prefix", cls.folder / "first"], cls.folder)
        if code != 0:
            raise RuntimeError(cls.log)
        cls.prefix = cls.folder / "some where" / "else"
        cls.prefix.parent.mkdir()
        (cls.folder / "first").rename(cls.prefix)
        cls.mrmf = cls.prefix / "bin" / "mrmf"
        cls.work = cls.folder / "work"
        cls.work.mkdir()
        (cls.work / "mine.toml").write_text(test_examples.CONFIG)
        cls.ok(cls.mrmf, "simulate", "fields", "-n", "60", "--size", "16", "-o", "mydata.h5")

    @classmethod
    def ok(cls, *words, folder=None, **variables):
        code, output = run(words, folder or cls.work, **variables)
        if code != 0:
            raise AssertionError(f"{' '.join(map(str, words))}\n{output}")
        return output

    def library_folder(self):
        (library,) = self.prefix.glob("lib*/**/libmrmf.a")
        return library.parent

    def test_what_is_installed(self):
        for path in ("include/mrmf/mrmf.hpp", "include/mrmf/src/config/config.hpp", "share/man/man1/mrmf.1",
                     "share/bash-completion/completions/mrmf", "share/mrmf/plots/plot.py"):
            self.assertTrue((self.prefix / path).is_file(), f"{path}\n{self.log}")
        self.assertTrue((self.library_folder() / "cmake/mrmf/mrmf-config.cmake").is_file())
        built = os.path.exists(os.path.join(BUILD, "libmrmf_cuda.so"))
        self.assertEqual((self.library_folder() / "mrmf/libmrmf_cuda.so").is_file(), built)
        self.assertEqual(self.ok(self.mrmf, "manual"), (self.prefix / "share/man/man1/mrmf.1").read_text())

    def test_headers_include_what_is_installed(self):
        headers = list((self.prefix / "include/mrmf").rglob("*.hpp"))
        self.assertGreater(len(headers), 50)
        for header in headers:
            for name in re.findall(r'(?m)^#include "(.*)"', header.read_text()):
                self.assertTrue((self.prefix / "include/mrmf" / name).is_file(), f"{header} includes {name}")

    def test_no_file_of_the_package_names_this_machine_s_sources(self):
        for file in (self.library_folder() / "cmake/mrmf").iterdir():
            for place in (str(HERE.parents[1]), str(self.folder)):
                self.assertNotIn(place, file.read_text(), file.name)

    def test_the_program_trains_from_another_folder(self):
        self.ok(self.mrmf, "train", "mine.toml", "--set", "run.folder=runs/program")
        self.assertTrue((self.work / "runs/program/result.json").is_file())
        self.ok(self.mrmf, "plot", "runs/program", "-o", "losses.svg")

    def test_plots_are_drawn_by_the_installed_scripts(self):
        self.ok(self.mrmf, "train", "mine.toml", "--set", "run.folder=runs/drawn")
        script = self.prefix / "share/mrmf/plots/plot.py"
        kept = script.read_text()
        self.addCleanup(script.write_text, kept)
        script.write_text("import sys\nsys.exit('this is the installed one')\n")
        code, output = run([self.mrmf, "plot", "runs/drawn", "-o", "drawn.svg"], self.work)
        self.assertEqual(code, 2)
        self.assertIn("this is the installed one", output)

    @unittest.skipUnless(os.environ.get("MRMF_EMULATED_MODULE"), "no emulated CUDA module is named")
    def test_the_cuda_module_is_found_where_it_is_installed(self):
        place = self.library_folder() / "mrmf/libmrmf_cuda.so"
        place.parent.mkdir(exist_ok=True)
        kept = place.with_suffix(".kept")
        if place.exists():
            place.rename(kept)
            self.addCleanup(kept.rename, place)
        else:
            self.addCleanup(place.unlink)
        words = [self.mrmf, "train", "mine.toml", "--set", "run.device=cuda", "--set", "run.folder=runs/cuda"]
        cache = {"XDG_CACHE_HOME": str(self.work)}
        code, output = run(words, self.work, **cache)
        self.assertEqual(code, 2, output)
        self.assertIn("libmrmf_cuda.so", output)
        shutil.copy(os.environ["MRMF_EMULATED_MODULE"], place)
        self.assertIn("emulated device", self.ok(*words, **cache))

    def test_the_guide_shows_the_program_that_is_tested(self):
        page = (HERE.parents[1] / "docs/guide/installing.md").read_text()
        for name in ("mytrain.cpp", "CMakeLists.txt"):
            self.assertIn("\n" + (HERE / "consumer" / name).read_text() + "```", page, name)

    def errors_and_signals_end_all_ranks(self, mytrain):
        work = self.folder / "ranks"
        work.mkdir()
        shutil.copy(self.work / "mydata.h5", work)
        text = (self.work / "mine.toml").read_text()
        (work / "mine.toml").write_text(text)
        command = support.command(["mine.toml"], ranks=2)
        command[command.index(support.MRMF)] = str(mytrain)
        code, output = run(command, work)
        self.assertEqual(code, 0, output)
        # The root alone sees that the first folder holds a finished run.
        code, output = run(command, work)
        self.assertEqual(code, 1, output)
        self.assertIn("mytrain: run.folder: runs/rate-0.001000 holds a finished run", output)
        shutil.rmtree(work / "runs")
        (work / "mine.toml").write_text(text.replace("epochs = 2", "epochs = 100000"))
        stopped = subprocess.Popen([mytrain, "mine.toml"], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=support.environment())
        self.addCleanup(stopped.kill)
        records, deadline = work / "runs/rate-0.001000/epochs.jsonl", time.monotonic() + 120
        while stopped.poll() is None and not (records.exists() and records.read_text()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        stopped.send_signal(signal.SIGINT)
        output = stopped.communicate(timeout=120)[0]
        self.assertEqual(stopped.returncode, 1, output)
        self.assertIn("mytrain: stopped by a signal; the same call continues the run", output)

    def test_a_program_outside_of_the_sources_trains_through_the_library(self):
        sources = self.work / "mytrain"
        shutil.copytree(HERE / "consumer", sources)
        self.assertLessEqual(len((sources / "mytrain.cpp").read_text().splitlines()), 25)
        self.ok(CMAKE, "-S", sources, "-B", sources / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                "-DCMAKE_BUILD_TYPE=Release")
        self.ok(CMAKE, "--build", sources / "build")
        output = self.ok(sources / "build/mytrain", "mine.toml")
        losses = re.findall(r"rate (\S+): validation loss ([\d.]+)", output)
        self.assertEqual([rate for rate, _ in losses], ["0.001", "0.003", "0.01"])
        self.assertEqual(len({loss for _, loss in losses}), 3)
        for rate, loss in losses:
            result = json.loads((self.work / f"runs/rate-{float(rate):.6f}/result.json").read_text())
            self.assertEqual(f"{result['validation_loss']:.5f}", loss)
        # What the library trained is what the program does. (One rank and one thread: the same bits.)
        self.ok(self.mrmf, "train", "mine.toml", "--set", "run.folder=runs/same", "--set",
                "training.optimizer.learning_rate=0.003")
        result = json.loads((self.work / "runs/same/result.json").read_text())
        self.assertEqual(f"{result['validation_loss']:.5f}", losses[1][1])
        code, output = run([sources / "build/mytrain", "nothing.toml"], self.work)
        self.assertEqual(code, 1)
        self.assertIn("mytrain: nothing.toml: there is no such file", output)
        self.errors_and_signals_end_all_ranks(sources / "build/mytrain")
        sources.joinpath("CMakeLists.txt").write_text(
            sources.joinpath("CMakeLists.txt").read_text().replace("find_package(mrmf 0.2", "find_package(mrmf 99.1"))
        code, output = run([CMAKE, "-S", sources, "-B", sources / "newer", f"-DCMAKE_PREFIX_PATH={self.prefix}"], self.work)
        self.assertEqual(code, 1, output)
        self.assertIn("99.1", output)


if __name__ == "__main__":
    unittest.main(verbosity=1)
