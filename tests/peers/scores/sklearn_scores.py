#!/usr/bin/env python3
"""Every number of `mrmf evaluate --json` beside scikit-learn's, on random cases: ignored labels, classes that do not occur,
a single class, ties.

    pip install scikit-learn h5py numpy
    MRMF=build/mrmf tests/peers/scores/sklearn_scores.py [CASES]

A small network is trained once for each task, and then scored on labels that have nothing to do with it. Its own
predictions, from `mrmf predict`, are what scikit-learn gets.
"""
import json
import os
import subprocess
import sys
import tempfile
import warnings

import h5py
import numpy as np
from sklearn import metrics

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "..", "cli"))
import support  # noqa: E402

warnings.filterwarnings("ignore")
IGNORE = 255
CONFIG = """
[data]
files = ["train.h5"]
train = { samples = "x", labels = "y" }
split = { by = "rows", validation = 0.25 }
[training]
loss = LOSS
MORE
batch = 8
epochs = 1
[run]
folder = "NAME"
threads = 1
"""


def mrmf(folder, *words):
    done = subprocess.run([support.MRMF, *words], cwd=folder, env=support.environment(), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"mrmf {' '.join(words)}: {done.stderr}")
    return done.stdout


def train(folder, name, loss, labels, outputs, more="", features=6, positions=0):
    rng = np.random.default_rng(1)
    shape = (64, positions, features) if positions else (64, features)
    with h5py.File(os.path.join(folder, "train.h5"), "w") as file:
        file["x"] = rng.integers(-2, 3, shape).astype("f4")
        file["y"] = labels(rng, 64)
    layer = support.layers(f"conv filters={outputs} kernel=1") if positions else support.layers(f"dense units={outputs}")
    with open(os.path.join(folder, name + ".toml"), "w") as file:
        file.write(CONFIG.replace("LOSS", loss).replace("NAME", name).replace("MORE", more) + layer)
    mrmf(folder, "train", name + ".toml")


def scored(folder, name, x, labels):
    """evaluate's figures and predict's arrays."""
    with h5py.File(os.path.join(folder, "case.h5"), "w") as file:
        file["x"], file["y"] = x, labels
    which = ("--files", "case.h5", "--samples", "x")
    figures = json.JSONDecoder().raw_decode(mrmf(folder, "evaluate", name, *which, "--labels", "y", "--json"))[0]
    mrmf(folder, "predict", name, *which, "-o", "p.h5", "--overwrite")
    with h5py.File(os.path.join(folder, "p.h5")) as file:
        return figures, {key: file[key][...] for key in ("prediction", "probability", "class") if key in file}


class Compared:
    def __init__(self):
        self.count, self.wrong = 0, []

    def same(self, what, found, expected, tolerance=1e-9):
        self.count += 1
        undefined = expected is None or not np.isfinite(expected)
        good = found is None if undefined else found is not None and abs(found - expected) <= tolerance * max(1, abs(expected))
        if not good:
            self.wrong.append(f"{what}: mrmf {found}, scikit-learn {expected}")


def auc(truth, score):
    return metrics.roc_auc_score(truth, score) if 0 < truth.sum() < len(truth) else None


def of_one(truth, said):
    """Precision, recall, F1 and IoU of a class, None where there is nothing to divide by."""
    nan = {"zero_division": np.nan}
    occurs = truth.any() or said.any()
    return {"precision": metrics.precision_score(truth, said, **nan) if said.any() else None,
            "recall": metrics.recall_score(truth, said, **nan) if truth.any() else None,
            "f1": metrics.f1_score(truth, said, **nan) if occurs else None,
            "dice": metrics.f1_score(truth, said, **nan) if occurs else None,
            "iou": metrics.jaccard_score(truth, said, zero_division=0) if occurs else None}


def mean(values):
    values = [v for v in values if v is not None]
    return np.mean(values) if values else None


def compare_classes(compared, case, figures, predicted, labels, background):
    k = predicted["probability"].shape[-1]
    known = labels.ravel() != IGNORE
    truth, said = labels.ravel()[known].astype(int), predicted["class"].ravel()[known]
    p = predicted["probability"].reshape(-1, k)[known].astype(float)
    if not known.any():
        for key in ("accuracy", "balanced_accuracy", "f1", "log_loss", "iou", "dice"):
            compared.same(f"{case} {key}", figures[key], None)
        return
    occurring = np.unique(np.concatenate([truth, said]))
    compared.same(f"{case} accuracy", figures["accuracy"], metrics.accuracy_score(truth, said))
    compared.same(f"{case} balanced", figures["balanced_accuracy"], metrics.balanced_accuracy_score(truth, said))
    compared.same(f"{case} log loss", figures["log_loss"],
                  metrics.log_loss(truth, p / p.sum(axis=1, keepdims=True), labels=range(k)), 1e-5)
    for score in (metrics.precision_score, metrics.recall_score, metrics.f1_score):
        name = score.__name__.split("_")[0]
        for average, key in ("macro", name), ("weighted", name + "_weighted"):
            compared.same(f"{case} {key}", figures[key], score(truth, said, labels=occurring, average=average, zero_division=0))
    ones = [of_one(truth == c, said == c) for c in range(k)]
    aucs = [auc((truth == c).astype(int), p[:, c]) for c in range(k)]
    for c in range(k):
        for key, value in ones[c].items():
            compared.same(f"{case} {key} of {c}", figures["classes"][c][key], value)
        if not background:
            compared.same(f"{case} AUC of {c}", figures["classes"][c]["auc"], aucs[c])
    first = 1 if background else 0
    for key in "iou", "dice":
        compared.same(f"{case} {key}", figures[key], mean([one[key] for one in ones[first:]]))
        if background:
            compared.same(f"{case} {key} with background", figures[key + "_with_background"], mean([one[key] for one in ones]))
    if not background:
        compared.same(f"{case} AUC", figures["auc"], aucs[1] if k == 2 else mean(aucs))
    np.testing.assert_array_equal(figures["confusion"], metrics.confusion_matrix(truth, said, labels=range(k)))


def compare_yes_or_no(compared, case, figures, predicted, labels):
    p, k = predicted["probability"].astype(float), labels.shape[1]
    known, said = labels != IGNORE, predicted["prediction"] > 0
    if known.any():
        compared.same(f"{case} accuracy", figures["accuracy"], np.mean((labels == 1)[known] == said[known]))
        of_label = np.where(labels == 1, p, 1 - p)[known]
        compared.same(f"{case} log loss", figures["log_loss"], -np.mean(np.log(of_label)), 1e-4)
    balanced, ones, aucs = [], [], []
    for c in range(k):
        truth, own = labels[known[:, c], c] == 1, said[known[:, c], c]
        ones.append(of_one(truth, own))
        aucs.append(auc(truth.astype(int), p[known[:, c], c]) if len(truth) else None)
        balanced.append(metrics.balanced_accuracy_score(truth, own) if len(truth) else None)
        for key, value in ones[c].items():
            compared.same(f"{case} {key} of {c}", figures["outputs"][c][key], value)
        compared.same(f"{case} AUC of {c}", figures["outputs"][c]["auc"], aucs[c])
    compared.same(f"{case} balanced", figures["balanced_accuracy"], mean(balanced))
    compared.same(f"{case} AUC", figures["auc"], mean(aucs))
    for key in "f1", "iou", "dice":
        compared.same(f"{case} {key}", figures[key], mean([one[key] for one in ones]))


def compare_numbers(compared, case, figures, predicted, labels):
    said = predicted["prediction"].astype(float)
    r2s, relative = [], []
    for c, one in enumerate(figures["labels"]):
        truth, own = labels[:, c].astype(float), said[:, c]
        compared.same(f"{case} MSE of {c}", one["mse"], metrics.mean_squared_error(truth, own), 1e-6)
        compared.same(f"{case} MAE of {c}", one["mae"], metrics.mean_absolute_error(truth, own), 1e-6)
        compared.same(f"{case} RMSE of {c}", one["rmse"], np.sqrt(metrics.mean_squared_error(truth, own)), 1e-6)
        constant = (truth == truth[0]).all()
        r2s.append(None if constant else metrics.r2_score(truth, own))
        relative.append(None if constant else np.sqrt(metrics.mean_squared_error(truth, own)) / truth.std())
        compared.same(f"{case} R2 of {c}", one["r2"], r2s[-1], 1e-5)
        compared.same(f"{case} relative RMSE of {c}", one["relative_rmse"], relative[-1], 1e-5)
    compared.same(f"{case} R2", figures["r2"], mean(r2s), 1e-5)
    compared.same(f"{case} relative RMSE", figures["relative_rmse"], mean(relative), 1e-5)


def random_classes(rng, shape, k):
    """Labels of some of the classes only, often of one, with ignored ones in between."""
    labels = rng.integers(0, rng.integers(1, k + 1), shape).astype("u1")
    if rng.integers(0, 2):
        labels[rng.random(shape) < rng.choice([0.1, 0.5, 1.0], p=[0.5, 0.4, 0.1])] = IGNORE
    return labels


def main():
    cases, compared = int(sys.argv[1]) if len(sys.argv) > 1 else 200, Compared()
    with tempfile.TemporaryDirectory(prefix="mrmf-scores-") as folder:
        ignore = f"ignore = {IGNORE}"
        for k in 2, 3, 5:
            train(folder, f"classes{k}", '"cross_entropy"', lambda rng, n: rng.integers(0, k, n), k, ignore)
            train(folder, f"masks{k}", '"cross_entropy"', lambda rng, n: rng.integers(0, k, (n, 7, 1)), k, ignore, positions=7)
            train(folder, f"yes{k}", '"binary_cross_entropy"', lambda rng, n: rng.integers(0, 2, (n, k)), k, ignore)
            train(folder, f"numbers{k}", '"mse"', lambda rng, n: rng.normal(0, 1, (n, k)), k)
        for i in range(cases):
            rng = np.random.default_rng(i)
            task, k, n = ("classes", "masks", "yes", "numbers")[i % 4], int(rng.choice([2, 3, 5])), int(rng.integers(1, 60))
            x = rng.integers(-2, 3, (n, 7, 6) if task == "masks" else (n, 6)).astype("f4")  # few values: ties
            x[rng.random(n) < 0.3] = x[0]
            if task == "classes":
                labels = random_classes(rng, n, k)
                compare_classes(compared, f"case {i}", *scored(folder, f"classes{k}", x, labels), labels, False)
            elif task == "masks":
                labels = random_classes(rng, (n, 7, 1), k)
                compare_classes(compared, f"case {i}", *scored(folder, f"masks{k}", x, labels), labels, True)
            elif task == "yes":
                labels = random_classes(rng, (n, k), 2)
                compare_yes_or_no(compared, f"case {i}", *scored(folder, f"yes{k}", x, labels), labels)
            else:
                labels = rng.normal(0, 10.0 ** rng.integers(-3, 4), (n, k)).astype("f4")
                labels[:, rng.integers(0, k)] = 0.5 if rng.integers(0, 3) == 0 else labels[:, 0]
                compare_numbers(compared, f"case {i}", *scored(folder, f"numbers{k}", x, labels), labels)
    for line in compared.wrong[:20]:
        print(line)
    print(f"{cases} cases, {compared.count} numbers, {len(compared.wrong)} differ")
    sys.exit(1 if compared.wrong else 0)


if __name__ == "__main__":
    main()
