"""Nothing to score is not 0: samples without a label that counts, metrics without a value, batch norms over one value."""
import json
import os

import h5py
import numpy as np
import support

N, TRAIN, IGNORE = 30, 20, 255

MASKS = """
[data]
files = ["DATA"]
train = { samples = "x", labels = "m" }
split = { column = "mark" }
[training]
optimizer = { name = "adam", learning_rate = 1e-2 }
loss = "cross_entropy"
ignore = 255
batch = 2
epochs = 4
[run]
folder = "RUN"
threads = 1
""" + support.layers("conv filters=4 kernel=3 padding=\"same\"", "relu", "conv name=\"head\" filters=2 kernel=1")

NUMBERS = """
[data]
files = ["numbers.h5"]
train = { samples = "x", labels = "y" }
split = { column = "mark" }
[training]
loss = "mse"
metric = "r2"
batch = 4
epochs = 2
[run]
folder = "run"
threads = 1
"""


class Scores(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.masks = rng.integers(0, 2, (N, 16, 16)).astype("u1")
        self.frames = (self.masks[..., None] + 0.5 * rng.normal(0, 1, (N, 16, 16, 1))).astype("f4")
        self.mark = np.arange(N) >= TRAIN

    def write_masks(self, name, ignored):
        masks = self.masks.copy()
        masks[ignored] = IGNORE
        with h5py.File(self.path(name), "w") as file:
            file["x"], file["m"], file["mark"] = self.frames, masks, self.mark
        return masks

    def config(self, data, run, more=""):
        self.write(run + ".toml", MASKS.replace("DATA", data).replace("RUN", run) + more)
        return run + ".toml"

    def scores(self, run):
        return json.JSONDecoder().raw_decode(self.mrmf("evaluate", run, "--json"))[0]

    def result(self, run):
        return json.loads(self.read(run + "/result.json"))

    def test_no_label_of_training_counts_is_an_error(self):
        self.write_masks("all.h5", np.arange(N) < TRAIN)
        config = self.config("all.h5", "all")
        for ranks in 0, 2:
            self.fails(3, "train", config, ranks=ranks, message="no label of the training data ('m' of all.h5) counts: "
                       "all are 255, which training.ignore takes for no label")
            self.assertFalse(os.path.exists(self.path("all/epochs.jsonl")))
        self.fails(3, "train", config, "--set", "data.load=stream", message="no label of the training data")
        self.fails(3, "train", config, "--set", "method.name=mrmf", "--set", "method.resolutions=[[2,2],[1,1]]", "--set",
                   "model.cut=head", message="no label of the training data")

    def test_no_validation_label_counts_there_is_no_score(self):
        self.write_masks("noval.h5", self.mark)
        config = self.config("noval.h5", "noval")
        asked = ("--set", "method.target.validation_loss=100", "--set", "training.early_stopping.patience=1", "--set",
                 "training.optimizer.rule=plateau", "--set", "training.optimizer.patience=0", "--set",
                 "training.optimizer.cooldown=0")
        for ranks, run, more in (0, "noval", ()), (2, "noval2", ()), (0, "stream", ("--set", "data.load=stream")):
            output = self.mrmf("train", config, *asked, *more, "--set", f"run.folder={run}", ranks=ranks)
            self.assertIn("warning: no label of the validation data ('m' of noval.h5) counts", output)
            self.assertIn("final validation loss - after", output)
            self.assertNotIn("nan", output)
            epochs = self.lines(run + "/epochs.jsonl")
            self.assertEqual(len(epochs), 4)
            for epoch in epochs:
                self.assertIsNone(epoch["validation_loss"])
                self.assertIsNone(epoch["validation_dice"])
                self.assertGreater(epoch["train_loss"], 0)
                self.assertEqual(epoch["learning_rate"], 1e-2)  # no plateau of what is not known
            result = self.result(run)
            self.assertIsNone(result["validation_loss"])
            self.assertIsNone(result["validation_dice"])
            self.assertFalse(result["target_reached"])
            self.assertNotIn("best", result)
            [stage] = self.lines(run + "/stages.jsonl")
            self.assertEqual(stage["reason"], "epochs")
            self.assertNotIn("best_epoch", stage)
            self.assertIsNone(stage["last"]["validation_loss"])
            self.assertFalse(os.path.exists(self.path(run + "/checkpoints/best.h5")))
        self.read_by_other_commands()
        self.mrmf("train", "--continue", "noval", "--set", "training.epochs=6")
        self.assertEqual([e["validation_loss"] for e in self.lines("noval/epochs.jsonl")], [None] * 6)

    def read_by_other_commands(self):
        table = self.mrmf("compare", "noval", "noval2", "--target", "0.5")
        self.assertRegex(table, r"validation loss +-\n")
        self.assertNotIn("nan", table)
        self.assertIn("did NOT reach its target: it has no validation loss", table)
        [column] = json.loads(self.mrmf("compare", "noval", "--json"))["columns"]
        self.assertIsNone(column["validation_loss"]["mean"])
        csv = self.mrmf("compare", "noval", "--csv")
        self.assertNotIn("nan", csv)
        self.write("noval.csv", csv)
        self.mrmf("compare", "noval", "--baselines", "noval.csv")
        self.mrmf("report", "noval", "-o", "noval.html")
        self.assertNotRegex(self.read("noval.html"), r"\bnan\b")
        self.mrmf("plot", "noval", "-o", "noval.svg")
        scores = self.scores("noval")
        for name in "loss", "accuracy", "iou", "dice":
            self.assertIsNone(scores[name], name)
        text = self.mrmf("evaluate", "noval")
        self.assertIn("loss -\naccuracy - of the positions with a label", text)
        self.assertIn("warning: no label of the evaluated data", text)
        self.fails(3, "tune", "noval.toml", "--rates", "1e-3", "--folder", "trials",
                   message="trials cannot be compared")

    def test_stages_looks_and_teams_go_without_a_score(self):
        self.write_masks("noval.h5", self.mark)
        config = self.config("noval.h5", "stages")
        mrmf = ("--set", "method.name=mrmf", "--set", "method.resolutions=[[2,2],[1,1]]", "--set", "model.cut=head", "--set",
                "training.epochs=2")
        for run, ranks, more in (("best", 0, ("--set", "method.transfer=best")),
                                 ("slope", 0, ("--set", "method.switch=slope", "--set", "method.top=interpolated", "--set",
                                               "method.probe_epochs=1")),
                                 ("teams", 2, ("--set", "method.teams=concurrent", "--set", "method.team_shares=[1,1]"))):
            output = self.mrmf("train", config, *mrmf, *more, "--set", f"run.folder={run}", ranks=ranks)
            self.assertNotIn("nan", output)
            self.assertTrue(all(e["validation_loss"] is None for e in self.lines(run + "/epochs.jsonl")))
            self.assertIsNone(self.result(run)["validation_loss"])

    def test_samples_without_a_label_are_not_in_the_means(self):
        """The losses are those of the same model on the labelled samples alone, also where whole batches have none."""
        ignored = np.zeros(N, bool)
        ignored[[0, 1, 2, 3, 7, 8, 12, 20, 21, 22, 25]] = True
        masks = self.write_masks("part.h5", ignored)
        with h5py.File(self.path("labelled.h5"), "w") as file:
            for name, rows in ("x", self.frames), ("m", masks), ("mark", self.mark):
                file[name] = rows[~ignored]
        frozen = ("--set", "training.optimizer.learning_rate=1e-30", "--set", "data.shuffle=false")
        for ranks in 0, 2:
            found = {}
            for name in "part", "labelled":
                run = f"{name}{ranks}"
                self.mrmf("train", self.config(name + ".h5", run), *frozen, "--set", "training.epochs=1", ranks=ranks)
                [found[name]] = self.lines(run + "/epochs.jsonl")
            for loss in "train_loss", "validation_loss", "validation_dice":
                self.assertAlmostEqual(found["part"][loss], found["labelled"][loss], delta=1e-6)
        self.assertAlmostEqual(self.scores("part0")["loss"], found["part"]["validation_loss"], delta=1e-5)

    def test_the_metric_of_labels_that_do_not_vary(self):
        rng = np.random.default_rng(1)
        labels = rng.normal(0, 1, (40, 2)).astype("f4")
        labels[20:] = np.float32([0.1, 0.1])  # whose squares are not exact
        with h5py.File(self.path("numbers.h5"), "w") as file:
            file["x"] = rng.normal(0, 1, (40, 16, 1)).astype("f4")
            file["y"], file["mark"] = labels, np.arange(40) >= 20
        self.write("n.toml", NUMBERS + support.layers("flatten", "dense units=2"))
        output = self.mrmf("train", "n.toml", "--set", "method.target.validation_r2=0.001")
        self.assertIn("has no validation r2: the validation labels of every output are all the same", output)
        for epoch in self.lines("run/epochs.jsonl"):
            self.assertIsNone(epoch["validation_r2"])
            self.assertGreater(epoch["validation_loss"], 0)
        self.assertFalse(self.result("run")["target_reached"])
        scores = self.scores("run")
        self.assertEqual([label["r2"] for label in scores["labels"]], [None, None])
        self.assertRegex(self.mrmf("evaluate", "run"), r"\n +1 +\S+ +\S+ +-\n")

    def test_a_batch_norm_over_one_value_is_refused(self):
        rng = np.random.default_rng(0)
        labels = rng.normal(0, 1, 33)
        with h5py.File(self.path("numbers.h5"), "w") as file:
            file["x"] = (labels[:, None, None] + 0.1 * rng.normal(0, 1, (33, 8, 1))).astype("f4")
            file["y"], file["mark"] = labels, np.arange(33) >= 32
        head = NUMBERS.replace('metric = "r2"\n', "")
        flat = support.layers("flatten", "batch_norm name=\"flat\"", "dense units=1")
        self.write("flat.toml", head + flat)
        # After a pool over all positions there is one value, too.
        self.write("pooled.toml", head + support.layers("conv filters=2 kernel=1", "average_pool window=8",
                                                        "batch_norm name=\"pooled\"", "flatten", "dense units=1"))
        wide = head + support.layers("batch_norm", "flatten", "dense units=1")
        self.write("wide.toml", wide)
        message = "in training a batch norm needs more than one value per channel, and batch "
        for name in "flat", "pooled":
            self.fails(2, "train", name + ".toml", "--set", "training.batch=1", message=f"{name}: {message}1 of ")
            self.assertFalse(os.path.exists(self.path("run/epochs.jsonl")))
        self.fails(2, "train", "flat.toml", "--set", "training.batch=2", "--set", "training.accumulate=2",
                   message=f"flat: {message}2 of ")
        local = ("--set", "training.batch_norm=local", "--set", "training.batch=1")
        self.fails(2, "train", "flat.toml", *local, ranks=2, message="one position on a rank in some steps")
        self.mrmf("train", "flat.toml", "--set", "training.batch=1", "--set", "run.folder=two", ranks=2)
        self.mrmf("train", "wide.toml", "--set", "training.batch=1", "--set", "run.folder=wide")
        with h5py.File(self.path("numbers.h5"), "a") as file:
            file["mark"][...] = np.arange(33) >= 3  # steps of two rows and of one
        self.fails(2, "train", "flat.toml", "--set", "training.batch=2", message=f"flat: {message}2 of ")
        self.mrmf("train", "flat.toml", "--set", "training.batch=3", "--set", "run.folder=three")
        with h5py.File(self.path("numbers.h5"), "a") as file:
            file["mark"][...] = np.arange(33) >= 31  # 31 rows in steps of at most 3: none of one row
        self.mrmf("train", "flat.toml", "--set", "training.batch=3", "--set", "run.folder=thirty")


if __name__ == "__main__":
    support.main()
