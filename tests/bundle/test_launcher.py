"""The bundle's launcher script: where it finds CUDA libraries, what it says, what it sets. No CUDA is needed: the
libraries are empty files, the program prints its environment."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

LAUNCHER = pathlib.Path(__file__).resolve().parents[2] / "jobs/packaging/bundle/launcher.sh"
NEEDED = ["libmrmftest_dnn.so.9", "libmrmftest_lt.so.13"]  # names that no real folder holds


class Launcher(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name).resolve()
        self.root = self.folder / "a b" / "mrmf"
        for name in ("bin", "libexec", "lib", "share/mrmf"):
            (self.root / name).mkdir(parents=True)
        for name in ("mrmf", "mpirun"):
            shutil.copy(LAUNCHER, self.root / "bin" / name)
        program = self.root / "libexec/mrmf"
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$LD_LIBRARY_PATH" "$OPAL_PREFIX" "$@"\n')
        program.chmod(0o755)

    def with_module(self):
        (self.root / "libexec/libmrmf_cuda.so").touch()
        (self.root / "share/mrmf/cuda-libraries.txt").write_text(" ".join(NEEDED) + "\n")

    def libraries(self, name, files=NEEDED):
        """A folder under the scratch folder that holds these files."""
        place = self.folder / name
        place.mkdir(parents=True)
        for file in files:
            (place / file).touch()
        return str(place)

    def run_it(self, *words, command=None, cwd=None, **environment):
        """(library path as a list, the other lines, what was said)"""
        done = subprocess.run([command or self.root / "bin/mrmf", *words], cwd=cwd or "/", capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], **environment}, timeout=20)
        self.assertEqual(done.returncode, 0, done.stderr)
        path, *others = done.stdout.splitlines()
        return path.split(":"), others, done.stderr

    def test_the_place_is_found_however_it_is_called(self):
        link = self.folder / "link"
        link.symlink_to(self.root / "bin/mrmf")
        for command, cwd in ((None, None), ("./mrmf", self.root / "bin"), ("bin/mrmf", self.root), (link, None)):
            path, others, _ = self.run_it("two words", "x", command=command, cwd=cwd)
            self.assertEqual(path, [str(self.root / "lib")])
            self.assertEqual(others, [str(self.root), "two words", "x"])

    def test_each_place_is_searched_and_named(self):
        self.with_module()
        half, rest = NEEDED
        path, _, said = self.run_it("doctor", LD_LIBRARY_PATH=self.libraries("own"))
        self.assertEqual(path, [str(self.root / "lib"), str(self.folder / "own")])
        self.assertIn(f"CUDA libraries: {half} (LD_LIBRARY_PATH), {rest} (LD_LIBRARY_PATH)", said)
        self.libraries("toolkit/lib64", [half])
        self.libraries("site/nvidia/dnn/lib", [rest])
        path, _, said = self.run_it("doctor", CUDA_HOME=str(self.folder / "toolkit"), PYTHONPATH=str(self.folder / "site"))
        self.assertEqual(path, [str(self.root / "lib"), str(self.folder / "site/nvidia/dnn/lib"),
                                str(self.folder / "toolkit/lib64")])
        self.assertIn(f"{rest} (python3's nvidia packages)", said)
        self.assertEqual(len(said.splitlines()), 1)

    def test_pips_libraries_win_over_the_toolkits(self):
        self.with_module()
        self.libraries("toolkit/lib64")
        self.libraries("site/nvidia/all/lib")
        path, _, said = self.run_it("doctor", CUDA_HOME=str(self.folder / "toolkit"), PYTHONPATH=str(self.folder / "site"))
        self.assertEqual(path, [str(self.root / "lib"), str(self.folder / "site/nvidia/all/lib")])
        self.assertNotIn("toolkit", said)

    def test_folders_with_spaces_are_searched(self):
        self.with_module()
        place = self.libraries("my libraries")
        path, _, _ = self.run_it("doctor", LD_LIBRARY_PATH=place)
        self.assertIn(place, path)

    def test_what_is_missing_is_one_line(self):
        self.with_module()
        _, _, said = self.run_it("doctor", LD_LIBRARY_PATH=self.libraries("own", NEEDED[:1]))
        self.assertIn(f"missing: {NEEDED[1]}; found: {NEEDED[0]}", said)
        self.assertEqual(len(said.splitlines()), 1)

    def test_without_the_module_only_doctor_speaks(self):
        self.assertIn("without the CUDA module", self.run_it("doctor")[2])
        self.assertEqual(self.run_it("presets")[2], "")

    def test_only_rank_0_speaks(self):
        self.assertEqual(self.run_it("doctor", OMPI_COMM_WORLD_RANK="1")[2], "")

    def test_a_launcher_inside_a_launcher_changes_nothing(self):
        self.with_module()
        path, _, _ = self.run_it(LD_LIBRARY_PATH=self.libraries("own"))
        again, _, _ = self.run_it(LD_LIBRARY_PATH=":".join(path))
        self.assertEqual(path, again)


if __name__ == "__main__":
    unittest.main()
