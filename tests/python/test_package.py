"""The Python package jobs/packaging/python/mrmf with the program: what it writes, trains, says and leaves behind."""
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "jobs/packaging/python"))
import mrmf  # noqa: E402
from mrmf.errors import error_of  # noqa: E402


def recordings(rows=200, seed=0):
    """Samples of two channels, and labels that follow from them."""
    x = np.random.default_rng(seed).normal(size=(rows, 16, 2)).astype(np.float32)
    return x, x.mean(axis=1)


def seconds(call):
    """What a call takes of processors, with the programs that it starts."""
    def spent():
        return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    begin = spent()
    call()
    return spent() - begin


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

    def test_rows_that_are_left_out_are_told_of(self):
        x, y = recordings()
        x[3, 2] = np.nan
        with self.assertWarnsRegex(UserWarning, "a.h5: rows that hold NaN or infinity are left out"):
            mrmf.train(x, y, epochs=1, folder="a", progress=False)
        with self.assertRaisesRegex(mrmf.DataError, "b.h5: .*row 3"):
            mrmf.train(x, y, epochs=1, folder="b", progress=False, set={"data.not_finite": "refuse"})
        self.assertNothingLeft("a", "a.h5")

    def test_a_dict_of_arrays_is_read_as_a_whole(self):
        x, y = recordings()
        parts = {"a": x, "b": x[:, :, :1]}
        run = mrmf.train(parts, y, epochs=1, folder="a", progress=False)
        self.assertEqual(run.config.data.train.samples, ["a", "b"])
        self.assertEqual(run.predict(parts).shape, y.shape)
        self.assertNotIn("files", run.evaluate(parts, y))  # they are gone

    def test_a_run_of_another_version_or_a_damaged_one(self):
        x, y = recordings()
        run = mrmf.train(x, y, epochs=1, folder="a", progress=False)
        config = Path("a/config.toml").read_text()
        Path("a/config.toml").write_text(config.replace("[training]\n", "[training]\nof_later = 1\n"))
        for call in (lambda: run.config, lambda: run.predict(x), run.evaluate):
            with self.assertRaisesRegex(mrmf.ConfigError, "a/config.toml:.* unknown key 'training.of_later'") as caught:
                call()
            self.assertEqual(caught.exception.file, "a/config.toml")
            self.assertGreater(caught.exception.number, 1)
        Path("a/config.toml").write_text(config)
        for name, read in (("epochs.jsonl", lambda: run.epochs), ("result.json", lambda: run.result),
                           ("checkpoints/final.h5", lambda: run.parameters),
                           ("checkpoints/final.h5", lambda: run.predict(x))):
            Path("a", name).write_text("broken\n")
            with self.assertRaisesRegex(mrmf.DataError, f"^a/{name}: "):
                read()
        with self.assertRaisesRegex(mrmf.ConfigError, "ranks is 0"):
            mrmf.train(x, y, epochs=1, folder="b", ranks=0, progress=False)
        with self.assertRaisesRegex(mrmf.DataError, "/proc/nothing: cannot be made"):
            mrmf.train(x, y, epochs=1, folder="/proc/nothing/a", progress=False)
        with self.assertRaisesRegex(mrmf.DataError, "/proc/a.toml: cannot be written"):
            run.config.write("/proc/a.toml")

    def test_more_epochs(self):
        x, y = recordings()
        run = mrmf.train(x, y, epochs=2, folder="a", progress=False)
        before = run.epochs
        with self.assertRaisesRegex(mrmf.ConfigError, "a: the run is done; for more than its 2 epochs"):
            mrmf.train(run, progress=False)
        again = mrmf.train(run, epochs=4, progress=False)
        self.assertEqual(again.epochs[:2], before)
        self.assertEqual(len(again.epochs), 4)
        self.assertTrue(again.done)
        for wrong in (dict(labels=y), dict(overwrite=True), dict(folder="b"), dict(epochs=3), dict(batch=7)):
            with self.subTest(wrong), self.assertRaises(mrmf.ConfigError):
                mrmf.train(run, **{"epochs": 5, "progress": False, **wrong})
        self.assertNothingLeft("a", "a.h5")

    def test_a_thousand_small_samples_are_predicted_in_half_a_second(self):
        x, y = recordings(1000)
        run = mrmf.train(x, y, epochs=1, folder="a", progress=False)
        run.predict(x)
        self.assertLess(min(seconds(lambda: run.predict(x)) for _ in range(10)), 0.5)

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
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs have none

        def interrupt():
            records = Path(folder) / "epochs.jsonl"
            while not records.is_file() or records.read_text().count("\n") <= after:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with self.assertRaises(mrmf.Stopped) as caught:
            mrmf.train(x, y, folder=folder, **call)
        return caught.exception.run

    def test_a_program_that_is_killed(self):
        x, y = recordings(2000)
        threading.Thread(target=self.kill_child, args=("a/epochs.jsonl",)).start()
        with self.assertRaisesRegex(mrmf.FaultError, "ended by signal 9; start it again") as caught:
            mrmf.train(x, y, epochs=2000, folder="a", progress=False)
        self.assertEqual(caught.exception.advice, "start it again, it continues from its last checkpoint")
        self.assertNothingLeft("a", "a.h5")

    @staticmethod
    def kill_child(when):
        """Kills the program that this process has started, when a file has lines."""
        while not Path(when).is_file() or not Path(when).read_text():
            time.sleep(0.01)
        for children in Path("/proc/self/task").glob("*/children"):
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
