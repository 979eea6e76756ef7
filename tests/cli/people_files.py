"""Files as people have them, and configurations for them: shared by the tests that train from them and those of `mrmf init`
and `mrmf data`."""
import json
import os
import re

import h5py
import numpy as np

import support

NETWORK = "\n" + support.layers("conv filters=4 kernel=3", "max_pool window=2", "relu", "flatten", "dense units=%d")


def config(data, training, units, method='name = "baseline"'):
    return (f"[data]\n{data}\n[training]\nbatch = 8\nseed = 2\n{training}\n[method]\n{method}\n"
            f'[run]\nfolder = "run"\nthreads = 1\n' + NETWORK % units)


IMAGES = config("""files = ["images.h5"]
axes = "n y x"
train = { samples = "image", labels = "kind" }
split = { by = "rows", validation = 0.25, seed = 4 }
normalise.samples = "mean_std"
""", 'epochs = 6\nloss = "cross_entropy"\noptimizer.learning_rate = 1e-2', 3)

VOLUMES = config("""files = ["volumes.h5"]
axes = "n c z y x"
train = { samples = "field", labels = "energy" }
split = { by = "column", column = "held_out" }
normalise.samples = "log1p_mean_std"
normalise.labels = "mean_std"
""", 'epochs = 30\noptimizer.learning_rate = 1e-2', 1)

SERIES = config("""files = ["series/*.h5"]
train = { samples = "x", labels = "y" }
split = { by = "files", validation = 0.25 }
not_finite = "skip"
""", "epochs = 2", 2)


def make_images(path):
    """Bright, dark and half images: (n, 16, 16), uint8, big numbers; classes as int64."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(0, 3, 96)
    images = rng.integers(0, 60, (96, 16, 16))
    images[kinds == 1] += 180
    images[kinds == 2, :, 8:] += 180
    with h5py.File(path, "w") as file:
        file["image"] = images.astype("uint8")
        file["kind"] = kinds.astype("int64")
        file["image"].attrs["taken by"] = "a camera"
        file["gain"] = 3.0  # neither a scalar nor a text is in the way
        file["note"] = "from the microscope"


def make_volumes(path):
    """(n, 2, 8, 8, 8), float64, big-endian, channels of very different size; the energy is near 1e6."""
    rng = np.random.default_rng(2)
    level = rng.uniform(0, 2, 80)
    field = np.stack([np.exp(rng.normal(0, 0.2, (80, 8, 8, 8)) + level[:, None, None, None]),
                      1e5 * np.exp(rng.normal(0, 0.2, (80, 8, 8, 8)))], axis=1)
    with h5py.File(path, "w") as file:
        file.create_dataset("field", data=field.astype(">f8"), chunks=(1, 1, 8, 8, 8), compression="gzip")
        file["energy"] = 1e6 + 1e5 * level
        file["held_out"] = np.arange(80) % 4 == 3


def make_series(folder):
    """Twelve files of six series each; four rows are not finite, one of them in its label."""
    rng = np.random.default_rng(3)
    os.makedirs(folder)
    for i in range(12):
        x, y = rng.normal(0, 1, (6, 32, 3)).astype("float32"), rng.normal(0, 1, (6, 2)).astype("float32")
        if i in (1, 4):
            x[2, 5, 1] = np.nan
            x[3, 0, 0] = np.inf
        if i == 7:
            y[0, 1] = np.nan
        with h5py.File(os.path.join(folder, f"{i:02}.h5"), "w") as file:
            file["x"], file["y"] = x, y


class PeopleTest(support.MrmfTest):
    def train(self, text, name="run.toml", status=0, ranks=0, **more):
        self.write(name, text)
        words = ["train", name]
        for key, value in more.items():
            words += ["--set", f"{key.replace('__', '.')}={value}"]
        return self.mrmf(*words, code=status, ranks=ranks)

    def losses(self, run="run"):
        with open(self.path(f"{run}/epochs.jsonl")) as file:
            records = [json.loads(line) for line in file]
        return [r["validation_loss"] for r in records if "validation_loss" in r]

    def predict(self, run="run", *words):
        self.mrmf("predict", run, "-o", "out.h5", "--overwrite", *words)
        with h5py.File(self.path("out.h5")) as file:
            return {name: file[name][()] for name in file}

    def refused(self, text, status, *parts):
        message = self.train(text, status=status)
        for part in parts:
            self.assertIn(part, message)
        folder = re.search(r'folder = "(.*)"', text)[1]
        self.assertFalse(os.path.exists(self.path(folder)), "a refused run leaves a folder behind")


class InitTest(support.MrmfTest):
    """What `mrmf init` makes of a file, and that it trains."""

    def file(self, name, **arrays):
        with h5py.File(self.path(f"{name}.h5"), "w") as file:
            for key, values in arrays.items():
                file[key.replace("__", "/")] = values

    def made(self, name, *options, **arrays):
        """The configuration that init writes for a file of these arrays, and what init says."""
        self.file(name, **arrays)
        said = self.mrmf("init", f"{name}.h5", "-o", f"{name}.toml", "--folder", f"run-{name}", *options)
        return self.read(f"{name}.toml"), said

    def trains(self, name):
        self.mrmf("train", f"{name}.toml", "--set", "training.epochs=1")
