"""Scores of evaluate against formulas written out in NumPy, the same numbers in training and on several ranks, metrics that
fall, and scores of one class."""
import json

import h5py
import numpy as np
import support

N, K, IGNORE = 60, 3, 255

CLASSES = """
[data]
files = ["data.h5"]
train = { samples = "x", labels = "y" }
split = { by = "rows", validation = 0.5 }
[training]
loss = "cross_entropy"
ignore = 255
batch = 6
epochs = 2
[run]
folder = "run"
threads = 1
""" + support.layers("flatten", "dense units=3")


def auc(truth, score):
    yes, no = score[truth], score[~truth]
    return float(np.mean((yes[:, None] > no) + 0.5 * (yes[:, None] == no))) if len(yes) and len(no) else None


def mean(values):
    values = [v for v in values if v is not None]
    return float(np.mean(values)) if values else None


class ScoreFormulas(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.x = rng.integers(-2, 3, (N, 4, 1)).astype("f4")
        self.y = rng.integers(0, K, N).astype("u1")
        self.y[::7] = IGNORE
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"], file["y"] = self.x, self.y
            file["z"] = rng.normal(0, 1, (N, 3)).astype("f4") * [1e-3, 1, 1e5] + [5, 0, 1e6]
        self.write("c.toml", CLASSES)

    def scores(self, *words, ranks=0):
        return json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--json", *words, ranks=ranks))[0]

    def epochs(self):
        return self.lines("run/epochs.jsonl")

    def test_classes(self):
        self.mrmf("train", "c.toml")
        names = ("--files", "case.h5", "--samples", "x")
        for i, labels in enumerate((self.y, np.zeros(N, "u1"), np.full(N, IGNORE, "u1"), np.where(self.y == 1, 2, self.y))):
            with h5py.File(self.path("case.h5"), "w") as file:
                file["x"], file["y"] = self.x, labels
            got = self.scores(*names, "--labels", "y", ranks=(0, 3)[i % 2])
            self.mrmf("predict", "run", *names, "-o", "p.h5", "--overwrite")
            with h5py.File(self.path("p.h5")) as file:
                p, said = file["probability"][:], file["class"][:]
            known = labels != IGNORE
            truth, said, p = labels[known], said[known], p[known].astype(float)
            both = [np.sum((truth == c) & (said == c)) for c in range(K)]
            found, there = [np.sum(said == c) for c in range(K)], [np.sum(truth == c) for c in range(K)]
            ratio = lambda a, b: float(a / b) if b else None
            expected = {"precision": [ratio(both[c], found[c]) for c in range(K)],
                        "recall": [ratio(both[c], there[c]) for c in range(K)],
                        "f1": [ratio(2 * both[c], found[c] + there[c]) for c in range(K)],
                        "iou": [ratio(both[c], found[c] + there[c] - both[c]) for c in range(K)],
                        "auc": [auc(truth == c, p[:, c]) for c in range(K)]}
            for key, values in expected.items():
                for c in range(K):
                    self.same(got["classes"][c][key], values[c], f"{key} of {c}, case {i}")
                occurs = [found[c] + there[c] > 0 for c in range(K)]
                counted = [0.0 if v is None and o and key in ("precision", "recall") else v for v, o in zip(values, occurs)]
                self.same(got[key], mean(counted), f"{key}, case {i}")
                if key in ("precision", "recall", "f1"):
                    weighted = sum((v or 0) * n for v, n in zip(values, there))
                    self.same(got[key + "_weighted"], ratio(weighted, sum(there)), key + " weighted")
            self.same(got["balanced_accuracy"], mean(expected["recall"]), "balanced accuracy")
            self.same(got["log_loss"], float(-np.mean(np.log(p[range(len(p)), truth]))) if len(p) else None, "log loss", 1e-5)
        text = self.mrmf("evaluate", "run", *names, "--labels", "y")
        self.assertIn("balanced accuracy", text)
        self.assertIn("weighted", text)

    def same(self, found, expected, what, delta=1e-9):
        if expected is None:
            self.assertIsNone(found, what)
        else:
            self.assertAlmostEqual(found, expected, delta=delta, msg=what)

    def test_training_measures_what_evaluate_prints(self):
        """On any number of ranks, streamed or not, shard by shard or not."""
        ways = ((0, ()), (3, ("--set", "training.batch=2")), (0, ("--set", "data.load=stream")),
                (0, ("--set", "run.deterministic=true", "--set", "data.shards=3")))
        for metric in "auc", "log_loss", "balanced_accuracy", "f1_weighted", "recall:2", "precision":
            for ranks, more in ways if metric in ("auc", "log_loss") else ways[:1]:
                self.mrmf("train", "c.toml", "--overwrite", "--set", f"training.metric={metric}", *more, ranks=ranks)
                last = self.epochs()[-1]["validation_" + metric]
                got = self.scores("--epoch", "last")
                kind, _, of = metric.partition(":")
                self.same(last, got["classes"][int(of)][kind] if of else got[kind], metric, 1e-6)

    def test_a_metric_that_falls(self):
        self.mrmf("train", "c.toml", "--set", "training.monitor=log_loss", "--set", "training.epochs=6", "--set",
                  "training.optimizer.learning_rate=0.3")
        values = [epoch["validation_log_loss"] for epoch in self.epochs()]
        best = json.loads(self.read("run/result.json"))["best"]
        self.assertEqual(best["epoch"], int(np.argmin(values)) + 1)
        said = self.mrmf("train", "c.toml", "--overwrite", "--set", "method.target.validation_log_loss=5")
        self.assertIn("target validation log_loss 5: reached", said)
        self.assertEqual(len(self.epochs()), 1)
        self.assertIn("validation log_loss <= 5", self.mrmf("plan", "c.toml", "--set", "method.target.validation_log_loss=5"))

    def test_numbers_of_different_sizes(self):
        numbers = ("--set", "data.train.labels=z", "--set", "training.loss=mse", "--set", "training.ignore=")
        for units in "none", "mean_std":
            self.mrmf("train", "c.toml", "--overwrite", *numbers, "--set", f"data.normalise.labels={units}", "--set",
                      "training.metric=relative_rmse")
            got = self.scores("--epoch", "last")
            self.mrmf("predict", "run", "--epoch", "last", "-o", "p.h5", "--overwrite", "--append", "z")
            with h5py.File(self.path("p.h5")) as file:
                said, truth = file["prediction"][:].astype(float), file["z"][:].astype(float)
            rmse, deviation = np.sqrt(np.mean((said - truth) ** 2, axis=0)), truth.std(axis=0)
            for c in range(3):
                self.assertAlmostEqual(got["labels"][c]["relative_rmse"], rmse[c] / deviation[c],
                                       delta=1e-3 * rmse[c] / deviation[c])
                self.assertAlmostEqual(got["labels"][c]["rmse"], rmse[c], delta=1e-3 * rmse[c])
            self.assertAlmostEqual(got["relative_rmse"], np.mean(rmse / deviation), delta=1e-3 * np.mean(rmse / deviation))
            self.assertAlmostEqual(got["relative_rmse"], self.epochs()[-1]["validation_relative_rmse"],
                                   delta=1e-3 * got["relative_rmse"])

    def test_bad_metrics(self):
        for setting, message in (("training.metric=f2", "it must be one of"), ("training.metric=accuracy:1", "of one class"),
                                 ("training.metric=r2", "does not go with training.loss"), ("training.metric=dice:3", "3 channels"),
                                 ("training.monitor=r2", "training.monitor does not go with training.loss"),
                                 ("training.metric=dice:", "of one class")):
            self.fails(2, "train", "c.toml", "--set", setting, message=message)
        self.fails(2, "train", "c.toml", "--set", "training.metric=f1", "--set", "training.monitor=auc",
                   message="a run measures one")
        self.fails(2, "train", "c.toml", "--set", "training.batc=", message="unknown key")


if __name__ == "__main__":
    support.main()
