"""The Python package jobs/packaging/python/mrmf with the program: what it writes, trains, says and leaves behind."""
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import h5py
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "jobs/packaging/python"))
import mrmf  # noqa: E402
from mrmf.errors import error_of  # noqa: E402


def recordings(rows=200, seed=0):
    """Samples of two channels, and labels that follow from them."""
    x = np.random.default_rng(seed).normal(size=(rows, 16, 2)).astype(np.float32)
    return x, x.mean(axis=1)


class InFolder(unittest.TestCase):
    """Each test in a folder of its own, in which nothing but what it expects is left."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        work = Path(folder.name) / "tmp"  # what the package makes and removes again
        work.mkdir()
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(work)

    def assertNothingLeft(self, *names):
        self.assertEqual(sorted(p.name for p in Path(".").iterdir()), sorted(["tmp", *names]))
        self.assertEqual(list(Path("tmp").iterdir()), [])


class Writing(InFolder):
    def test_every_kind_of_array_gives_the_same_file(self):
        x, y = recordings(300)
        np.save("a.npy", x[:100])
        np.save("b.npy", x[100:])
        with h5py.File("source.h5", "w") as file:
            file.create_dataset("x", data=x, chunks=(7, 16, 2))
        kinds = {"array": x, "list": list(x), "files": ["a.npy", Path("b.npy")], "rows": (row for row in x),
                 "map": np.memmap("raw", np.float32, "w+", shape=x.shape)}
        kinds["map"][:] = x
        with h5py.File("source.h5", "r") as file:
            kinds["h5py"] = file["x"]
            for kind, samples in kinds.items():
                with self.subTest(kind):
                    mrmf.write("out.h5", samples, y, overwrite=True)
                    with h5py.File("out.h5", "r") as out:
                        np.testing.assert_array_equal(out["samples"][()], x)
                        np.testing.assert_array_equal(out["labels"][()], y)

    def test_pieces_are_smaller_than_the_array(self):
        from mrmf import writing
        self.addCleanup(setattr, writing, "_PIECE", writing._PIECE)
        writing._PIECE = 1000
        x, _ = recordings(50)
        mrmf.write("a.h5", x)
        mrmf.write("b.h5", iter(x))
        for name in ("a.h5", "b.h5"):
            with h5py.File(name, "r") as file:
                np.testing.assert_array_equal(file["samples"][()], x)

    def test_names_axes_and_units_are_kept(self):
        x, y = recordings(20)
        mrmf.write("a.h5", {"voltage": x, "current": 2 * x}, y, names=("", "parameters"), axes="n t c",
                   units={"voltage": "mV"}, label_names=["g_na", "g_k"])
        with h5py.File("a.h5", "r") as file:
            self.assertEqual(sorted(file), ["current", "parameters", "voltage"])
            self.assertEqual(dict(file["voltage"].attrs), {"axes": "n t c", "units": "mV"})
            self.assertEqual(list(file["parameters"].attrs["names"]), ["g_na", "g_k"])

    def test_wrong_arrays_are_one_line_and_leave_nothing(self):
        x, y = recordings(20)
        cases = [(x, y[:3], "'labels' has 3 rows, and 'samples' 20"),
                 ([[1, 2], [3]], None, "row 1 of 'samples' has shape"),
                 ((row[:1 + i] for i, row in enumerate(x)), None, "row 1 of 'samples' has shape"),
                 (np.array([None, {}]), None, "holds object elements"),
                 (np.array(["a", "b"]), None, "elements; give numbers"),
                 (np.float32(3), None, "is a single value"), (iter([]), None, "has no rows"),
                 (x[:0], None, "has no rows"), ({}, None, "there are no samples"), ("a.h5", None, "is a str")]
        for samples, labels, line in cases:
            with self.subTest(line), self.assertRaises(mrmf.DataError) as caught:
                mrmf.write("a.h5", samples, labels)
            self.assertIn(line, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))
        with self.assertRaisesRegex(mrmf.ConfigError, "there is no folder"):
            mrmf.write("nowhere/a.h5", x)
        self.assertNothingLeft()

    def test_masked_values_are_missing_numbers(self):
        x, y = recordings(20)
        mrmf.write("a.h5", np.ma.masked_greater(x, 1), y)
        with h5py.File("a.h5", "r") as file:
            np.testing.assert_array_equal(file["samples"][()], np.where(x > 1, np.float32(np.nan), x))
        with self.assertRaisesRegex(mrmf.DataError, "'samples' has masked values"):
            mrmf.write("b.h5", np.ma.masked_greater(np.arange(6), 3))
        self.assertNothingLeft("a.h5")

    def test_a_file_that_is_there_stays(self):
        x, _ = recordings(5)
        Path("a.h5").write_text("mine")
        with self.assertRaisesRegex(mrmf.ConfigError, "overwrite=True"):
            mrmf.write("a.h5", x)
        with self.assertRaises(mrmf.DataError):
            mrmf.write("a.h5", x, x[:2], overwrite=True)
        self.assertEqual(Path("a.h5").read_text(), "mine")


class Configurations(InFolder):
    TEXT = '[data]\nfiles = ["a.h5"]\ntrain = { samples = "x", labels = "y" }\n[training]\nbatch = 4\n' \
           'loss = { dice = 1, mse = 0.5 }\n[model]\nlayers = [{ type = "dense", units = 3 }]\n'

    def test_toml_and_back(self):
        config = mrmf.Config.from_toml(self.TEXT)
        self.assertEqual(config, mrmf.Config.from_toml(config.to_toml()))
        self.assertEqual(config.data.train.samples, "x")
        self.assertEqual(config["training.loss"], {"dice": 1, "mse": 0.5})
        config.write("a.toml")
        self.assertEqual(mrmf.Config.read("a.toml"), config)
        self.assertNothingLeft("a.toml")

    def test_keys_are_the_programs_own(self):
        config = mrmf.Config()
        config.training.batch = 64
        config["method.stop.coarse.patience"] = 3
        self.assertEqual(config.to_dict(), {"training": {"batch": 64}, "method": {"stop": {"coarse": {"patience": 3}}}})
        self.assertEqual(config.training.optimizer.beta1, 0.9)
        self.assertIn("learning_rate", dir(config.training.optimizer))
        with self.assertRaisesRegex(AttributeError, "do you mean 'training.batch'"):
            config.training.batc = 3
        with self.assertRaisesRegex(AttributeError, "no key 'nothing'"):
            config.nothing

    def test_errors_carry_file_line_and_advice(self):
        Path("bad.toml").write_text(self.TEXT.replace("batch = 4", "batch = -4"))
        with self.assertRaises(mrmf.ConfigError) as caught:
            mrmf.plan("bad.toml")
        self.assertEqual((caught.exception.file, caught.exception.number), ("bad.toml", 5))
        self.assertIn("at least 1", caught.exception.advice)
        Path("unknown.toml").write_text(self.TEXT.replace("batch = 4", "batc = 4"))
        with self.assertRaises(mrmf.ConfigError) as caught:
            mrmf.Config.read("unknown.toml")
        self.assertEqual((caught.exception.file, caught.exception.number), ("unknown.toml", 5))
        with self.assertRaises(mrmf.ConfigError):
            mrmf.Config({"training": {"batc": 4}})
        with self.assertRaisesRegex(mrmf.ConfigError, "nothing.toml: "):
            mrmf.train("nothing.toml")
        with self.assertRaisesRegex(mrmf.ConfigError, "^the configuration: training.batch is -4"):
            mrmf.plan(mrmf.Config.from_toml(self.TEXT.replace("batch = 4", "batch = -4")))
        self.assertNothingLeft("bad.toml", "unknown.toml")

    def test_exit_codes_are_kinds_of_errors(self):
        kinds = {2: mrmf.ConfigError, 3: mrmf.DataError, 4: mrmf.FaultError, 75: mrmf.Stopped, -9: mrmf.FaultError}
        for code, kind in kinds.items():
            error = error_of(code, "note\nmrmf: error: a.h5: is empty; copy it\n", ["mrmf"])
            self.assertIs(type(error), kind)
            self.assertEqual((error.file, error.advice), ("a.h5", "copy it"))
        self.assertIn("signal 9", str(error_of(-9, "", ["mrmf"])))
        rule = "-" * 74
        of_mpirun = f"{rule}\nmpirun noticed that process rank 1 with PID 0 on node a exited on signal 9 (Killed).\n{rule}\n"
        self.assertIn("signal 9", str(error_of(137, of_mpirun, ["mpirun"])))
        for name in ("run.folder", "training.optimizer.learning_rate"):  # keys, and no files
            self.assertIsNone(error_of(2, f"mrmf: error: {name}: is wrong; mend it", ["mrmf"]).file)
        for name in ("run.toml", "data.h5", "/my data/a.h5"):
            self.assertEqual(error_of(2, f"mrmf: error: {name}: is wrong; mend it", ["mrmf"]).file, name)


class Training(InFolder):
    def test_from_arrays_to_predictions(self):
        x, y = recordings()
        run = mrmf.train(x, y, epochs=3, folder="runs/a", progress=False)
        self.assertTrue(run.done)
        self.assertEqual(len(run.epochs), len(run.history))
        predicted = run.predict(x)
        self.assertEqual(predicted.shape, y.shape)
        self.assertAlmostEqual(run.evaluate(x, y)["mse"], float(np.mean((predicted - y) ** 2)), places=6)
        self.assertAlmostEqual(run.result["validation_loss"], run.epochs[-1]["validation_loss"])
        weights = [name for name in run.parameters if name.endswith("weight")]
        self.assertTrue(weights and all(np.isfinite(run.parameters[name]).all() for name in weights))
        self.assertEqual(run.export("runs/a.onnx"), Path("runs/a.onnx"))
        self.assertGreater(Path("runs/a.onnx").stat().st_size, 1000)
        self.assertEqual(repr(mrmf.load("runs/a")), "mrmf.load('runs/a')")
        self.assertIn("runs/a", mrmf.compare([run]) + "runs/a")
        self.assertNothingLeft("runs")
        self.assertEqual(sorted(os.listdir("runs")), ["a", "a.h5", "a.onnx"])

    def test_a_run_is_the_same_as_one_made_by_hand(self):
        x, y = recordings()
        config = mrmf.init(mrmf.write("a.h5", x, y), output="a.toml", folder="hand")
        config.training.epochs = 2
        config["run.deterministic"] = True
        config.write("b.toml")
        subprocess.run([os.environ["MRMF"], "train", "b.toml"], check=True, stdout=subprocess.DEVNULL)
        run = mrmf.train(config, folder="python", ranks=1, progress=False)
        hand = mrmf.load("hand")
        for name, values in hand.parameters.items():
            np.testing.assert_array_equal(values, run.parameters[name])

    def test_two_ranks(self):
        x, y = recordings()
        run = mrmf.train(x, y, epochs=2, folder="a", ranks=2, progress=False)
        self.assertEqual(run.result["ranks"], 2)

    def test_arrays_of_another_kind_are_the_programs_line(self):
        x, y = recordings()
        run = mrmf.train(x, y, epochs=2, folder="a", progress=False)
        with self.assertRaisesRegex(mrmf.DataError, "the model takes samples of 16x2"):
            run.predict(x[..., :1])
        with self.assertRaisesRegex(mrmf.DataError, "the model reads samples"):
            run.predict({"other": x})
        with self.assertRaisesRegex(mrmf.ConfigError, "no 'class'"):
            run.predict(x, what="class")
        x[3] = np.nan
        with self.assertRaisesRegex(mrmf.DataError, "^the array: .*row 3"):
            run.predict(x)
        with self.assertRaisesRegex(mrmf.ConfigError, "is no run folder"):
            mrmf.load("tmp")
        self.assertNothingLeft("a", "a.h5")

    def test_a_call_that_fails_leaves_nothing_in_the_way_of_the_next(self):
        x, y = recordings()
        with self.assertRaises(mrmf.ConfigError):
            mrmf.train(x, y, folder="a", set={"training.batc": 3}, progress=False)
        with self.assertRaises(mrmf.ConfigError):
            mrmf.train(x, y, folder="a", set={"training.batch": -3}, progress=False)
        self.assertNothingLeft()
        mrmf.train(x, y, epochs=1, folder="a", progress=False)
        with self.assertRaisesRegex(mrmf.ConfigError, "a.h5: holds other arrays"):
            mrmf.train(2 * x, y, epochs=1, folder="a", progress=False)

    def test_an_interrupt_saves_and_the_same_call_goes_on(self):
        x, y = recordings(2000)
        for ranks in (1, 2):
            folder = f"of-{ranks}"
            call = dict(epochs=2000, folder=folder, progress=False, set={"method.name": "baseline"}, ranks=ranks)
            with self.subTest(ranks=ranks):
                stopped = self.interrupted(x, y, 0, **call)
                self.assertFalse(stopped.done)
                done = len(stopped.epochs)
                self.assertGreater(len(self.interrupted(x, y, done + 1, **call).epochs), done)
        self.assertNothingLeft("of-1", "of-1.h5", "of-2", "of-2.h5")

    def interrupted(self, x, y, after, folder, **call):
        """A run that is interrupted after so many epochs."""
        def interrupt():
            records = Path(folder) / "epochs.jsonl"
            while not records.is_file() or records.read_text().count("\n") <= after:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with self.assertRaises(mrmf.Stopped) as caught:
            mrmf.train(x, y, folder=folder, **call)
        return caught.exception.run

    def test_a_python_that_is_killed_leaves_no_program_behind(self):
        x, y = recordings(2000)
        mrmf.write("a.h5", x, y)
        mrmf.init("a.h5", output="a.toml", folder="a")
        script = f"import sys; sys.path.insert(0, {str(ROOT / 'jobs/packaging/python')!r}); import mrmf\n" \
                 "mrmf.train('a.toml', epochs=2000, progress=False)\n"
        python = subprocess.Popen([sys.executable, "-c", script])
        while not Path("a/epochs.jsonl").is_file() or not Path("a/epochs.jsonl").read_text():
            self.assertIsNone(python.poll())
            time.sleep(0.01)
        python.kill()
        python.wait()
        log = Path("a/log.txt")
        while "stopped" not in log.read_text():  # the test's own time limit ends it where nothing comes
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
