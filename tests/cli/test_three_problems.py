"""From a file to a report, with what `mrmf init` writes: windows of subjects with rare classes, volumes with masks of 3 %, and
fields with labels of very different sizes. Every number on the page is that of a formula, written out here."""
import json

import h5py
import numpy as np
import support

STAGES = ["wake", "light", "deep"]
PARAMETERS = ["viscosity", "slope", "pressure"]


def eeg(file, rng):
    n, subjects = 240, 12
    stage = rng.choice(3, n, p=[0.8, 0.14, 0.06]).astype("u1")
    subject = rng.integers(0, subjects, n)
    x = rng.normal(0, 1, (n, 32, 2)) + rng.normal(0, 0.3, (subjects, 1, 2))[subject]
    for c, waves in ((1, 3), (2, 7)):
        x[stage == c] += np.sin(2 * np.pi * waves * np.arange(32) / 32)[:, None]
    file["window"] = x.astype("f4")
    file.create_dataset("stage", data=stage, dtype=h5py.enum_dtype({name: i for i, name in enumerate(STAGES)}, basetype="u1"))
    file["subject"] = np.array([f"s{i:02}" for i in subject], "S3")


def tumours(file, rng):
    mask = np.zeros((30, 12, 12, 12), "u1")
    for one in mask:
        one[tuple(slice(a, a + 4) for a in rng.integers(0, 8, 3))] = 1
    file["scan"] = (mask + rng.normal(0, 0.5, mask.shape)).astype("f4")[..., None]
    file["mask"], file["patient"] = mask, np.repeat(np.arange(15), 2)


def fields(file, rng):
    p = rng.uniform(-1, 1, (100, 3))
    g = np.linspace(-1, 1, 16)
    field = p[:, :1, None] * g[:, None] + p[:, 1:2, None] * g ** 2 + np.sin(3 * p[:, 2:, None] * np.outer(g, g))
    file["field"] = (field + rng.normal(0, 0.1, field.shape)).astype("f4")[..., None]
    file["parameters"] = (p * [1e-3, 1, 1e5] + [0, 0, 3e5]).astype("f4")
    file["parameters"].attrs["names"] = PARAMETERS


def ratio(a, b):
    return float(a / b) if b else None


def mean(values):
    values = [value for value in values if value is not None]
    return float(np.mean(values)) if values else None


def area(truth, score):
    yes, no = score[truth], score[~truth]
    return float(np.mean((yes[:, None] > no) + 0.5 * (yes[:, None] == no))) if len(yes) and len(no) else None


class ThreeProblems(support.MrmfTest):
    def problem(self, make, labels, lines):
        """Init, train and report; scores and predictions of the test split."""
        with h5py.File(self.path("data.h5"), "w") as file:
            make(file, np.random.default_rng(0))
            file["number"] = np.arange(len(file[labels]))
        self.mrmf("init", "data.h5", "-o", "c.toml")
        text = self.read("c.toml")
        for line in (f'labels = "{labels}"', *lines):
            self.assertIn(line, text)
        self.mrmf("train", "c.toml", "--set", "training.epochs=3", "--set", "data.split.test=0.3", "--set", "run.folder=run")
        self.mrmf("predict", "run", "--split", "test", "-o", "p.h5", "--append", labels, "number")
        scores = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--split", "test", "--json"))[0]
        self.mrmf("report", "run", "--split", "test", "-o", "r.html")
        with h5py.File(self.path("p.h5")) as file:
            return scores, self.read("r.html"), {name: file[name][:] for name in file}

    def same(self, scores, page, key, expected):
        """The score is the formula's, and stands on the page."""
        if expected is None:
            return self.assertIsNone(scores[key], key)
        self.assertAlmostEqual(scores[key], expected, delta=2e-4 * max(1, abs(expected)), msg=key)
        self.assertIn(f'<td class="number">{scores[key]:.4f}</td>', page, key)

    def require_classes(self, scores, page, truth, said, p, names, background):
        classes = range(p.shape[-1])
        truth, said, p = truth.ravel(), said.ravel(), p.reshape(-1, len(classes))
        both, found, there = ([np.sum(of(c)) for c in classes] for of in (
            lambda c: (truth == c) & (said == c), lambda c: said == c, lambda c: truth == c))
        columns = {"precision": [ratio(both[c], found[c]) for c in classes], "recall": [ratio(both[c], there[c]) for c in classes],
                   "f1": [ratio(2 * both[c], found[c] + there[c]) for c in classes],
                   "dice": [ratio(2 * both[c], found[c] + there[c]) for c in classes],
                   "iou": [ratio(both[c], found[c] + there[c] - both[c]) for c in classes]}
        if not background:
            columns["auc"] = [area(truth == c, p[:, c]) for c in classes]
        for key, values in columns.items():
            for c in classes:
                self.same(scores["classes"][c], page, key, values[c])
                self.assertEqual(scores["classes"][c].get("name"), names[c] if names else None)
            counted = values[1:] if background and key in ("dice", "iou") else values
            if key in ("precision", "recall"):
                counted = [0.0 if v is None and found[c] + there[c] else v for c, v in enumerate(values)]
            self.same(scores, page, key, mean(counted))
        self.assertAlmostEqual(scores["accuracy"], np.mean(truth == said), delta=1e-9)
        self.assertAlmostEqual(scores["balanced_accuracy"], mean(columns["recall"]), delta=1e-9)
        for name in names:
            self.assertIn(name, page)

    def test_windows_of_subjects_with_rare_classes(self):
        scores, page, p = self.problem(eeg, "stage", ('class_weights = "balanced"', 'by = "groups", column = "subject"'))
        self.require_classes(scores, page, p["stage"], p["class"], p["probability"], STAGES, False)
        with h5py.File(self.path("data.h5")) as file:
            subject = file["subject"][:]
        for split in "train", "validation":
            self.mrmf("predict", "run", "--split", split, "-o", "other.h5", "--append", "number", "--overwrite")
            with h5py.File(self.path("other.h5")) as file:
                self.assertFalse(set(subject[file["number"][:]]) & set(subject[p["number"]]), split)
        # A score of one class by its name.
        self.mrmf("train", "c.toml", "--set", "training.epochs=1", "--set", "run.folder=deep", "--set", "training.metric=recall:deep", "--set",
                  "training.monitor=metric")
        self.assertIn('metric = "recall:2"', self.read("deep/config.toml"))
        self.assertIn("validation_recall:2", self.lines("deep/epochs.jsonl")[0])
        for name, message in (("recall:dep", "the names are wake, light, deep; name one of them"), ("accuracy:deep", "of one class")):
            self.fails(2, "train", "c.toml", "--set", "run.folder=no", "--set", f"training.metric={name}", message=message)

    def test_volumes_with_small_masks(self):
        scores, page, p = self.problem(tumours, "mask", ('loss = ["cross_entropy", "dice"]', "augment = { flip = [0, 1, 2] }",
                                                         'by = "groups", column = "patient"'))
        self.require_classes(scores, page, p["mask"], p["class"], p["probability"], [], True)
        self.assertGreaterEqual(page.count("data:image/png"), 2)  # masks beside the truth

    def test_fields_with_labels_of_very_different_sizes(self):
        scores, page, p = self.problem(fields, "parameters", ('normalise.labels = "mean_std"',))
        said, truth = p["prediction"].astype(float), p["parameters"].astype(float)
        rmse, mae, deviation = np.sqrt(np.mean((said - truth) ** 2, 0)), np.mean(np.abs(said - truth), 0), truth.std(0)
        for c, label in enumerate(scores["labels"]):
            self.assertEqual(label["name"], PARAMETERS[c])
            self.assertIn(PARAMETERS[c], page)
            self.assertAlmostEqual(label["rmse"] / rmse[c], 1, delta=1e-3)
            self.assertAlmostEqual(label["mae"] / mae[c], 1, delta=1e-3)
            for key, value in (("relative_rmse", rmse[c] / deviation[c]), ("relative_mae", mae[c] / deviation[c]),
                               ("r2", 1 - (rmse[c] / deviation[c]) ** 2)):
                self.assertAlmostEqual(label[key], value, delta=1e-3 * max(1, abs(value)))
                self.assertIn(f'<td class="number">{label[key]:.4f}</td>', page)
        for key in "relative_rmse", "relative_mae", "r2":
            self.assertAlmostEqual(scores[key], np.mean([label[key] for label in scores["labels"]]), delta=1e-6)


if __name__ == "__main__":
    support.main()
