"""Cubes in the published CosmoFlow files' form (data sets 3Dmap, uint16, and unitPar; many files) through training."""
import json
import unittest

import h5py
import numpy as np

import support

TRAIN = [f"PeterA_2019_05_4parE-rec{n}.h5" for n in (102, 87, 26)]
VALIDATION = [f"PeterA_2019_05_4parE-rec{n}.h5" for n in (53, 62)]

CONFIG = f"""
[data]
files = {json.dumps(TRAIN)}
train = {{ samples = "3Dmap", labels = "unitPar" }}
validation = {{ files = {json.dumps(VALIDATION)}, samples = "3Dmap", labels = "unitPar" }}
[training]
optimizer = {{ name = "adam", learning_rate = 1e-3 }}
batch = 4
epochs = 2
[run]
folder = "run"
threads = 1
"""

# The published network's kinds of layers in its order, small enough for cubes of 16^3 and their halves.
CONV = '{ type = "conv", filters = %d, kernel = [3, 3, 3], padding = "same", stride = [%d, %d, %d], initialiser = "glorot" }'
NORM = '{ type = "batch_norm", momentum = 0.1, epsilon = 1e-3 }'
POOL = '{ type = "average_pool", window = [2, 2, 2] }'
BLOCK = CONV + f', {NORM}, {{ type = "relu" }}'
LAYERS = f"""
[model]
layers = [
  {NORM},
  {BLOCK % (4, 1, 1, 1)}, {POOL},
  {BLOCK % (6, 1, 1, 1)}, {POOL},
  {BLOCK % (8, 2, 2, 2)},
  {{ type = "flatten" }}, {{ type = "dropout", rate = 0.05 }},
  {{ type = "dense", units = 16, initialiser = "glorot" }}, {{ type = "dropout", rate = 0.05 }}, {{ type = "relu" }},
  {{ type = "dense", units = 4, initialiser = "glorot" }},
]
"""
PRESET = '[model]\npreset = "cosmoflow"\n'


def make_cubes(folder, size=(16, 16, 16), counts=(9, 5, 7, 4, 3)):
    """Counts of particles (mean 64) whose spread in channel c follows label c; one number of samples per file."""
    rng = np.random.default_rng(7)
    for name, n in zip(TRAIN + VALIDATION, counts):
        labels = rng.uniform(-1, 1, (n, 4)).astype("float32")
        field = rng.normal(0, 1, (n, *size, 4)) * (8 + 4 * labels[:, None, None, None, :])
        with h5py.File(f"{folder}/{name}", "w") as file:
            file["3Dmap"] = np.clip(np.round(64 + field), 0, 65535).astype("uint16")
            file["unitPar"] = labels


class Cosmology(support.MrmfTest):
    def train(self, run, *overrides):
        sets = [word for override in overrides for word in ("--set", override)]
        self.mrmf("train", "config.toml", "--set", f"run.folder={run}", *sets)
        return [(e["train_loss"], e["validation_loss"]) for e in self.lines(run + "/epochs.jsonl")]

    def rewrite(self, change):
        """The samples of every file become change(samples)."""
        for name in TRAIN + VALIDATION:
            with h5py.File(self.path(name), "a") as file:
                samples = change(file["3Dmap"][:])
                del file["3Dmap"]
                file["3Dmap"] = samples

    def test_every_method_trains_from_several_files_of_counts(self):
        make_cubes(self.folder)
        self.write("config.toml", CONFIG + LAYERS)
        expected = {"mrt": ["coarse", "finetune"], "mrmf": ["coarse", "dense", "finetune"]}
        self.train("baseline")
        epochs = self.lines("baseline/epochs.jsonl")
        self.assertEqual([e["samples"] for e in epochs], [21, 21])
        for method, roles in expected.items():
            for resolution in ([2, 2, 2], [2, 1, 1]):
                with self.subTest(method=method, resolution=resolution):
                    run = method + "".join(map(str, resolution))
                    losses = self.train(run, f"method.name={method}", f"method.resolutions=[{resolution},[1,1,1]]")
                    stages = self.lines(run + "/stages.jsonl")
                    self.assertEqual([s["role"] for s in stages], roles)
                    self.assertEqual(stages[0]["resolution"], resolution)
                    self.assertEqual([s["epochs"] for s in stages], [2] * len(roles))
                    self.assertTrue(np.isfinite(losses).all())
        self.assertIn("7 samples of 3Dmap", self.mrmf("evaluate", "mrmf222"))
        self.train("interpolated", "method.name=mrmf", "method.top=interpolated",
                   "method.resolutions=[[2,2,2],[1,1,1]]", "training.epochs=1")
        self.assertEqual([s["role"] for s in self.lines("interpolated/stages.jsonl")], ["coarse", "finetune"])

    def test_more_ranks_than_files(self):
        make_cubes(self.folder)
        self.write("config.toml", CONFIG + LAYERS)
        self.mrmf("train", "config.toml", "--set", "training.batch=2", ranks=4)
        self.assertEqual([(e["samples"], e["ranks"]) for e in self.lines("run/epochs.jsonl")], [(21, 4)] * 2)

    def test_it_learns(self):
        make_cubes(self.folder, counts=(40, 30, 30, 12, 12))
        self.write("config.toml", CONFIG + LAYERS)
        losses = self.train("run", "training.epochs=20", "training.optimizer.learning_rate=4e-3", "training.optimizer.rule=cosine",
                            "method.name=mrmf", "method.resolutions=[[2,2,2],[1,1,1]]", "method.stop.dense.epochs=1")
        variance = 1 / 3  # of labels uniform in [-1, 1]: the loss of a model that has learnt nothing
        self.assertLess(losses[-1][1], 0.75 * variance)  # 0.10 to 0.19 with other seeds

    def test_a_resolution_is_the_mean_of_the_counts(self):
        # The coarse stage and a baseline on counts averaged beforehand see the same numbers, bit for bit. Without what
        # is drawn per role: sample order and dropout.
        make_cubes(self.folder)
        self.write("config.toml", CONFIG.replace("[training]", "shuffle = false\n[training]") +
                   LAYERS.replace("rate = 0.05", "rate = 0.0"))
        coarse = {}
        for axis, resolution in enumerate(("[2,1,1]", "[1,2,1]", "[1,1,2]")):
            coarse[axis] = self.train(f"coarse{axis}", "method.name=mrt", f"method.resolutions=[{resolution},[1,1,1]]")
        for axis in coarse:
            make_cubes(self.folder)
            halves = [slice(None)] * 5
            self.rewrite(lambda counts: np.add(*(counts[tuple(halves[:axis + 1] + [slice(first, None, 2)])].astype("f4")
                                                 for first in (0, 1))) / 2)
            self.assertEqual(self.train(f"ready{axis}"), coarse[axis][:2])
        self.assertNotEqual(coarse[0][:2], coarse[1][:2])

    def test_counts_read_as_they_are_however_stored(self):
        make_cubes(self.folder)
        self.write("config.toml", CONFIG + LAYERS)
        losses = self.train("uint16")
        self.rewrite(lambda counts: counts.astype("float32"))
        self.assertEqual(self.train("float32"), losses)
        for name in TRAIN + VALIDATION:  # one sample a chunk, compressed
            with h5py.File(self.path(name), "a") as file:
                counts = file["3Dmap"][:].astype("uint16")
                del file["3Dmap"]
                file.create_dataset("3Dmap", data=counts, chunks=(1, *counts.shape[1:]), compression="gzip")
        self.assertEqual(self.train("chunked"), losses)

    def test_the_published_network_trains(self):
        # Half a cube, the smallest sample that leaves something behind every pool of a halved resolution.
        make_cubes(self.folder, size=(128, 64, 64), counts=(2, 1, 1, 1, 1))
        self.write("config.toml", CONFIG + PRESET)
        losses = self.train("run", "method.name=mrmf", "method.resolutions=[[2,1,1],[1,1,1]]", "training.batch=2",
                            "training.epochs=1", f'data.files=["{TRAIN[0]}"]', f'data.validation.files=["{VALIDATION[0]}"]')
        self.assertEqual(np.shape(losses), (3, 2))
        self.assertTrue(np.isfinite(losses).all())
        self.fails(2, "train", "config.toml", "--set", "method.name=mrt", "--set",
                   "method.resolutions=[[2,2,2],[1,1,1]]", "--set", "run.folder=small", message="pool5: window 2x2x2")

    def test_bad_files_are_named(self):
        make_cubes(self.folder)
        self.write("config.toml", CONFIG + LAYERS)
        with h5py.File(self.path(TRAIN[1]), "a") as file:
            del file["unitPar"]
            file["unitPar"] = np.zeros((4, 4), "float32")
        self.fails(3, "train", "config.toml", message=f"{TRAIN[1]}: data set 'unitPar' has 4 rows for 5 samples")
        make_cubes(self.folder)
        with h5py.File(self.path(VALIDATION[1]), "a") as file:
            del file["3Dmap"]
            file["3Dmap"] = np.zeros((3, 16, 16, 8, 4), "uint16")
        self.fails(3, "train", "config.toml", message=f"{VALIDATION[1]}: data set '3Dmap' has samples of 16x16x8x4")


if __name__ == "__main__":
    support.main()
