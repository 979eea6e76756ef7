"""Watching a run: time left, event files for TensorBoard, and plots of what came of it."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest

import h5py
import numpy as np

import events
import people_files
import support

EVENTS = "events.out.tfevents.mrmf"
TENSORBOARD = ("--set", "run.tensorboard=true")


class Watching(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config(replace=[support.MRMF_METHOD])

    def assert_events(self, run):
        """The event file holds what the records hold, in their order."""
        found, records = events.read(self.path(f"{run}/{EVENTS}")), self.lines(f"{run}/epochs.jsonl")
        self.assertEqual([step for _, step, _ in found], list(range(1, len(records) + 1)))
        for (wall, _, values), record in zip(found, records):
            self.assertEqual(wall, record["total_seconds"])
            wanted = {"loss/training": record["train_loss"], "loss/validation": record["validation_loss"],
                      "learning_rate": record["learning_rate"],
                      f"seconds_per_epoch/stage_{record['stage']}_{record['role']}": record["seconds"]}
            wanted |= {f"metric/{key}": value for key, value in record.items() if key == "validation_r2"}
            self.assertEqual(values, {tag: float(np.float32(value)) for tag, value in wanted.items()})

    def test_the_reader_of_events_knows_the_checksum(self):
        self.assertEqual(events.crc32c(b"123456789"), 0xE3069283)  # of RFC 3720

    def test_event_file_holds_the_records(self):
        self.mrmf("train", "config.toml", *TENSORBOARD, "--set", "training.metric=r2")
        self.assert_events("run")
        self.assertIn("metric/validation_r2", events.read(self.path(f"run/{EVENTS}"))[0][2])
        self.assertEqual(len(events.read(self.path(f"run/{EVENTS}"))), 8)
        # A run that begins anew without the key leaves no events of another run behind.
        self.mrmf("train", "config.toml", "--overwrite")
        self.assertNotIn(EVENTS, os.listdir(self.path("run")))

    def test_event_file_after_a_stop_and_a_kill(self):
        """Records go back to the checkpoint, and the events with them."""
        words = ("train", "config.toml", *TENSORBOARD, "--set", "run.checkpoint.epochs=1", "--set", "training.batch=2",
                 "--set", "method.stop.finetune.epochs=12")
        for how, code in ((signal.SIGUSR1, 75), (signal.SIGKILL, -signal.SIGKILL)):
            self.assertEqual(self.interrupted("run", lambda: self.once(how, words))[0], code)
        with open(self.path(f"run/{EVENTS}"), "ab") as file:
            file.write(b"half a fra")  # what a power cut may leave
        output = self.mrmf(*words)
        self.assertRegex(output, "^continues ")
        self.assert_events("run")
        self.assertEqual(len(self.lines("run/epochs.jsonl")), 18)

    def once(self, how, words):
        def count():
            return len(self.read("run/epochs.jsonl").splitlines()) if os.path.exists(self.path("run/epochs.jsonl")) else 0

        process, least = self.launch(*words), count() + 2
        deadline = time.monotonic() + 120
        while process.poll() is None and count() < least:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)
        process.send_signal(how)
        output = process.communicate(timeout=120)[0]
        return process.returncode, output

    def test_event_file_of_two_teams(self):
        self.mrmf("train", "config.toml", *TENSORBOARD, "--set", "method.teams=concurrent", "--set", "method.team_shares=[1,1]",
                  "--set", "training.batch=8", ranks=2)
        self.assert_events("run")
        self.assertEqual(len(self.lines("run/epochs.jsonl")), 8)

    def test_lines_say_how_long_the_phase_and_the_run_still_take(self):
        output = self.mrmf("train", "config.toml")
        lines = [line for line in output.splitlines() if " epoch " in line and "samples/s" in line]
        self.assertEqual(len(lines), 8)
        duration = r"(\d+ s|\d+ min \d\d s)"
        # Coarse: a threshold may end it. When it has ended, only the run takes more.
        self.assertRegex(lines[0], rf"left: phase at most {duration}, run at most {duration}$")
        self.assertRegex(lines[1], rf"left: run at most {duration}$")
        self.assertRegex(lines[-2], rf"left: run {duration}$")  # the last phase has no rule but its epochs
        self.assertNotIn("left:", lines[-1])

    def test_the_live_line_of_a_terminal(self):
        leader, follower = pty.openpty()
        words = support.command(["train", "config.toml", "--set", "training.batch=2", "--set", "method.stop.finetune.epochs=6"])
        run = subprocess.Popen(words, cwd=self.folder, stdout=follower, stderr=follower, env=support.environment())
        os.close(follower)
        seen = b""
        while True:
            try:
                if not select.select([leader], [], [], 120)[0]:
                    break
                seen += os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
        os.close(leader)
        self.assertEqual(run.wait(), 0)
        self.assertRegex(seen.decode(), r"epoch 1/2  step \d+/48 .* left: epoch \d+ s, phase at most \d+ s, run at most \d+ s")


class Pictures(support.MrmfTest):
    def test_times(self):
        support.make_data(self.path("data.h5"))
        self.config(replace=[support.MRMF_METHOD])
        self.mrmf("train", "config.toml", "--set", "run.folder=two")
        self.config()
        for seed in (1, 2):
            self.mrmf("train", "config.toml", "--set", f"training.seed={seed}", "--set", f"run.folder=base{seed}")
        self.mrmf("plot", "base1", "base2", "two", "--what", "times", "-o", "times.svg")
        drawn = self.read("times.svg")
        seconds = lambda run: sum(epoch["seconds"] for epoch in self.lines(f"{run}/epochs.jsonl"))
        for words in ("stage 1", "stage 2", "baseline or finetune", "computing", "communication", "I/O", "mean of 2 runs",
                      f"{seconds('two'):.4g} s", f"{(seconds('base1') + seconds('base2')) / 2:.4g} s"):
            self.assertIn(words, drawn)
        self.mrmf("plot", "two", "--what", "times", "-o", "times.png")
        with open(self.path("times.png"), "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")
        self.fails(2, "plot", "two", "--what", "times", "--mean", "-o", "no.png", message="--x and --mean are for losses")
        self.fails(2, "plot", "two", "--labels", "data.h5:val_y", "-o", "no.png", message="--labels is for --what labels")
        self.write("two/epochs.jsonl", self.read("two/epochs.jsonl").replace('"io_seconds"', '"other"'))
        output = self.fails(3, "plot", "two", "--what", "times", "-o", "no.png", message="the plot was not made")
        self.assertIn("two/epochs.jsonl: an epoch has no 'io_seconds'", output)
        self.assertNotIn("Traceback", output)
        self.assertFalse(os.path.exists(self.path("no.png")))

    def write_predictions(self, **data):
        with h5py.File(self.path("out.h5"), "w") as file:
            for name, values in data.items():
                file[name] = values

    def labels(self, **data):
        with h5py.File(self.path("truth.h5"), "w") as file:
            for name, values in data.items():
                file[name] = values

    def plot(self, what, *labels):
        self.mrmf("plot", "out.h5", "--what", what, "--labels", *labels, "-o", "p", "--overwrite")
        with open(self.path("p.png"), "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")
        return self.read("p.svg")

    def test_predicted_against_true_numbers(self):
        rng = np.random.default_rng(1)
        truth = rng.normal(size=(300, 3))
        said = truth + rng.normal(0, [0.1, 0.5, 2], (300, 3))
        truth[5, 0] = np.nan
        self.write_predictions(prediction=said.astype("float32"))
        self.labels(first=truth[:100], rest=truth[100:])
        drawn = self.plot("labels", "truth.h5:first", "truth.h5:rest")
        whole = np.isfinite(truth).all(axis=1)  # as evaluate leaves out rows
        for i in range(3):
            t, s = (values[whole, i] for values in (truth, said.astype("float32")))
            r2 = 1 - np.sum((t - s) ** 2) / np.sum((t - t.mean()) ** 2)
            self.assertIn(f"output {i + 1}: R² = {r2:.4f}", drawn)
        # In the other order they are other samples' labels.
        self.assertNotIn("output 1: R² = 0.9", self.plot("labels", "truth.h5:rest", "truth.h5:first"))

    def test_it_agrees_with_evaluate(self):
        support.make_data(self.path("data.h5"))
        self.config()
        self.mrmf("train", "config.toml")
        self.mrmf("predict", "run", "-o", "out.h5")
        scores = [float(r2) for r2 in re.findall(r"(-?\d\.\d{3})\d*$", self.mrmf("evaluate", "run"), re.M)]
        drawn = [float(r2) for r2 in re.findall(r"R² = (-?[\d.]+)", self.plot("labels", "data.h5:val_unitStar_par"))]
        self.assertEqual(len(drawn), 2)
        for r2 in drawn:
            self.assertTrue(any(abs(r2 - score) < 2e-3 for score in scores), (drawn, scores))

    def test_labels_in_the_axes_and_rows_of_the_run(self):
        """Validation rows are some of the file's, and channels come first: as the run reads them, not as they are stored."""
        rng = np.random.default_rng(5)
        x = rng.normal(size=(48, 2, 8, 6)).astype("float32")
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"], file["y"] = x, np.stack([x[:, 0] + x[:, 1], x[:, 0] ** 2], axis=1)
            file["kind"] = np.digitize(x.sum(axis=1, keepdims=True), [-1, 1]).astype("uint8")
        conv = '[[model.layers]]\ntype = "conv"\nfilters = %d\nkernel = 1\n'
        text = people_files.config('files = ["data.h5"]\naxes = "n c y x"\ntrain = { samples = "x", labels = "y" }\n'
                                   'split.by = "rows"', "epochs = 3\noptimizer.learning_rate = 0.1", 1)
        text = text[:text.index("[[model.layers]]")]
        self.write("config.toml", text + conv % 2)
        self.mrmf("train", "config.toml")
        self.mrmf("predict", "run", "-o", "out.h5")
        with h5py.File(self.path("out.h5")) as out, h5py.File(self.path("data.h5")) as data:
            said = out["prediction"][...].astype(float).reshape(-1, 2)
            truth = np.moveaxis(data["y"][...], 1, -1)[out["row"][...]].astype(float).reshape(-1, 2)
        self.assertLess(len(said), 48 * 48)
        drawn = self.plot("labels", "data.h5:y")
        for i in range(2):
            r2 = 1 - np.sum((truth[:, i] - said[:, i]) ** 2) / np.sum((truth[:, i] - truth[:, i].mean()) ** 2)
            self.assertIn(f"output {i + 1}: R² = {r2:.4f}", drawn)

        # Classes with an axis for their one channel; one of them is ignored.
        self.write("kinds.toml", text.replace('"y"', '"kind"').replace('"run"', '"kinds"').replace(
            "[method]", 'loss = "cross_entropy"\nclasses = 3\nignore = 2\n[method]') + conv % 3)
        self.mrmf("train", "kinds.toml")
        self.mrmf("predict", "kinds", "-o", "out.h5", "--overwrite")
        with h5py.File(self.path("out.h5")) as out, h5py.File(self.path("data.h5")) as data:
            said, truth = out["class"][...], data["kind"][:, 0][out["row"][...]]
        counts = truth != 2
        drawn = self.plot("confusion", "data.h5:kind")
        self.assertIn(f"accuracy {(said == truth)[counts].mean():.4f}, {np.sum(~counts)} labels left out", drawn)
        found = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "kinds", "--json"))[0]
        self.assertEqual(np.sum(found["confusion"]), counts.sum())
        # Shapes whose numbers would only happen to be as many are refused.
        self.labels(y=np.zeros((48, 6, 8)))
        self.fails(3, "plot", "out.h5", "--what", "confusion", "--labels", "truth.h5:y", "-o", "no.png",
                   message="the plot was not made")
        self.fails(3, "plot", "out.h5", "--what", "confusion", "--labels", "data.h5:kind", "data.h5:kind", "-o", "no.png",
                   message="the plot was not made")

    def test_confusion(self):
        truth = np.array([0, 0, 0, 1, 1, 2, 2, 2, -1, 3])
        said = np.array([0, 0, 1, 1, 1, 0, 2, 2, 2, 2])
        self.write_predictions(prediction=np.zeros((10, 3), "float32"), **{"class": said.astype("uint16")})
        self.labels(y=truth, short=truth[:9], half=truth + 0.5)
        drawn = self.plot("confusion", "truth.h5:y")
        self.assertIn("accuracy 0.7500, 2 labels left out", drawn)
        # Behind the axes' numbers come the counts, row by row.
        texts = re.findall(r"<text[^>]*>(?:<tspan[^>]*>)?\s*(\d+)\s*<", drawn)
        self.assertIn("210020102", "".join(texts))
        output = self.fails(3, "plot", "out.h5", "--what", "confusion", "--labels", "truth.h5:short", "-o", "no.png",
                            message="the plot was not made")
        self.assertIn("10 rows of predictions and 9 of labels", output)
        output = self.fails(3, "plot", "out.h5", "--what", "confusion", "--labels", "truth.h5:half", "-o", "no.png",
                            message="the plot was not made")
        self.assertIn("classes are whole numbers", output)

    def test_confusion_of_yes_or_no(self):
        said = np.array([[0.9, 0.2], [0.6, 0.4], [0.1, 0.8], [0.2, 0.7]], "float32")
        self.write_predictions(prediction=said, probability=said)
        self.labels(y=np.array([[1, 0], [0, 0], [0, 1], [0, 0]], "uint8"))
        drawn = self.plot("confusion", "truth.h5:y")
        for title in ("output 1: accuracy 0.7500", "output 2: accuracy 0.7500"):
            self.assertIn(title, drawn)

    def test_bad_input(self):
        self.write_predictions(prediction=np.zeros((4, 2), "float32"))
        self.labels(y=np.zeros((4, 3)), words=np.array([b"a", b"b"]))
        self.write("text.h5", "no HDF5")
        os.mkfifo(self.path("fifo.h5"))
        for code, words, message in (
                (2, ("out.h5", "--what", "labels"), "needs the true labels: --labels FILE:DATASET"),
                (2, ("out.h5", "out.h5", "--what", "labels", "--labels", "truth.h5:y"), "takes one file"),
                (2, ("out.h5", "--what", "labels", "--labels", "truth.h5"), "give a file and a data set"),
                (3, ("out.h5", "--what", "labels", "--labels", "truth.h5:y"), "do not fit"),
                (3, ("out.h5", "--what", "labels", "--labels", "truth.h5:z"), "has no data set 'z' (there is words, y)"),
                (3, ("out.h5", "--what", "labels", "--labels", "truth.h5:words"), "does not hold rows of numbers"),
                (3, ("text.h5", "--what", "labels", "--labels", "truth.h5:y"), "text.h5: "),
                (3, ("fifo.h5", "--what", "labels", "--labels", "truth.h5:y"), "fifo.h5: no such file, or no plain one"),
                (3, ("out.h5", "--what", "confusion", "--labels", "truth.h5:y"), "holds neither 'class' nor 'probability'")):
            with self.subTest(words):
                output = self.mrmf("plot", *words, "-o", "no.png", code=code)
                self.assertIn(message, output)
                self.assertNotIn("Traceback", output)
                self.assertFalse(os.path.exists(self.path("no.png")))
        self.fails(2, "plot", "out.h5", "-o", "p.gif", message="ends in .png or .svg")
        # Both pictures or none.
        self.write("p.svg", "precious")
        self.labels(y=np.zeros((4, 2)))
        self.fails(2, "plot", "out.h5", "--what", "labels", "--labels", "truth.h5:y", "-o", "p", message="p.svg: is there already")
        self.assertFalse(os.path.exists(self.path("p.png")))


if __name__ == "__main__":
    unittest.main(verbosity=1)
