"""Untied weights: locally connected layers and reconstruction ICA, on one rank and on the ranks of a grid, stopped and
continued, exported, refused; and jobs/giants/run.sh at its smallest size."""
import json
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np

import support

REPOSITORY = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(REPOSITORY, "jobs", "giants"))

HEAD = """
[data]
files = "data.h5"
train = { samples = "train", labels = "%s" }
validation = { samples = "validation", labels = "%s" }
[training]
batch = 8
seed = 2
epochs = 3
optimizer = { name = "sgd", learning_rate = %s, momentum = 0.9 }
[run]
folder = "run"
threads = 1
grid = [1, 1]
"""
UNTIED = HEAD % ("train_label", "validation_label", 0.05) + support.layers(
    "locally_connected filters=4 kernel=[4,3] stride=[2,1]", "l2_pool window=2 stride=1 pooled=2", "local_contrast_norm window=3",
    "locally_connected filters=3 kernel=2", "flatten", "dense units=2")
RICA = HEAD % ("train", "validation", 2.0) + support.layers("rica filters=8 kernel=5 stride=2 sparsity=0.1 pooled=4")


class Giants(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(1)
        with h5py.File(self.path("data.h5"), "w") as file:
            for name, count in (("train", 48), ("validation", 16)):
                rows = rng.normal(0, 1, (count, 13, 15, 2)).cumsum(1).cumsum(2)
                rows = ((rows - rows.mean((1, 2), keepdims=True)) / rows.std((1, 2, 3), keepdims=True)).astype("f4")
                file[name], file[f"{name}_label"] = rows, rows[:, 3, :2, 0] - rows[:, 9, 4:6, 1]

    def train(self, config, folder, *settings, ranks=0, **options):
        self.write("c.toml", config)
        words = [word for setting in (f'run.folder="{folder}"', *settings) for word in ("--set", setting)]
        return self.mrmf("train", "c.toml", *words, ranks=ranks, **options)

    def losses(self, folder):
        return np.array([[one["train_loss"], one["validation_loss"]] for one in self.lines(f"{folder}/epochs.jsonl")])

    def weights(self, folder):
        return self.model_arrays(f"{folder}/checkpoints/final.h5")

    def test_on_grids_as_on_one_rank_with_weights_where_their_positions_lie(self):
        for config in (UNTIED, RICA):
            self.train(config, "one")
            one, weights = self.losses("one"), self.weights("one")
            self.assertLess(one[-1, 0], 0.9 * one[0, 0])
            for ranks, grid in ((2, "[1,2]"), (2, "[2,1]"), (4, "[2,2]")):
                self.train(config, f"on{ranks}", "data.shards=1", f"run.grid={grid}", ranks=ranks)
                np.testing.assert_allclose(self.losses(f"on{ranks}"), one, rtol=2e-4)
                for name, values in self.weights(f"on{ranks}").items():
                    np.testing.assert_allclose(values, weights[name], atol=2e-4 * np.abs(weights[name]).max())
                self.remove(f"on{ranks}")
            self.remove("one")

    def remove(self, folder):
        shutil.rmtree(self.path(folder))

    def test_stopped_and_continued_on_another_grid(self):
        for config in (UNTIED, RICA):
            self.train(config, "whole", "data.shards=1", "run.grid=[2,1]", "training.epochs=4", ranks=2)
            self.train(config, "parts", "data.shards=1", "run.grid=[2,1]", "training.epochs=2", ranks=2)
            self.mrmf("train", "--continue", "parts", "--set", "training.epochs=4", ranks=2)
            np.testing.assert_array_equal(self.losses("parts"), self.losses("whole"))  # bit for bit
            self.train(config, "cut", "data.shards=1", "run.grid=[2,1]", "training.epochs=2", ranks=2)
            self.mrmf("train", "--continue", "cut", "--set", "training.epochs=4", "--set", "run.grid=[1,1]")
            np.testing.assert_allclose(self.losses("cut"), self.losses("whole"), rtol=2e-4)
            for folder in ("whole", "parts", "cut"):
                self.remove(folder)

    def test_reconstruction_ica_against_numpy(self):
        import features
        self.train(RICA, "ica")
        layer = features.Layer(self.path("ica"))
        np.testing.assert_allclose(np.linalg.norm(layer.weight, axis=2), 1, rtol=1e-5)  # rows of length 1
        with h5py.File(self.path("data.h5")) as file:
            samples = file["validation"][:]
        put_together = layer.decode(layer.encode(samples))
        self.mrmf("predict", "ica", "--samples", "validation", "-o", "y.h5")
        with h5py.File(self.path("y.h5")) as file:
            got = file["prediction"][:]
        np.testing.assert_allclose(got[:, :put_together.shape[1], :put_together.shape[2]], put_together,
                                   atol=1e-4 * np.abs(put_together).max())
        best = min(self.losses("ica")[:, 1])
        np.testing.assert_allclose(((got - samples) ** 2).mean(), best, rtol=1e-3)

    def test_rows_have_their_length_whatever_moves_them(self):
        import features
        lion = RICA.replace('name = "sgd", learning_rate = 2.0, momentum = 0.9', 'name = "lion", learning_rate = 1e-3')
        self.assertNotEqual(lion, RICA)
        for folder, *settings in (("whole",), ("votes", "training.communication=vote"), ("shards", "data.shards=4", "run.deterministic=true"),
                                  ("clipped", "training.clip_norm=0.1", "training.accumulate=2")):
            self.train(lion, folder, *settings, ranks=2)
            rows = features.Layer(self.path(folder)).weight
            np.testing.assert_allclose(np.linalg.norm(rows, axis=2), 1, rtol=1e-5, err_msg=folder)

    def test_what_cannot_be_is_refused_in_one_line(self):
        def fails(message, config, *settings, ranks=0):
            self.write("c.toml", config)
            words = [word for setting in settings for word in ("--set", setting)]
            self.fails(2, "train", "c.toml", *words, message=message, ranks=ranks)
        larger = UNTIED.replace("kernel=[4,3]".replace("=", " = "), "kernel = [14, 3]")
        fails("locally_connected1: window 14x3 is larger than its input 13x15x2", larger)
        for window, text in (("4", "4x4 must be odd"), ("[33, 1]", "33x1 must be odd along every axis, so that it has a middle, and at most 31")):
            fails(f"local_contrast_norm1: window {text}", UNTIED.replace('contrast_norm", window = 3', f'contrast_norm", window = {window}'))
        fails("3 groups do not divide 8 filters", RICA.replace("pooled = 4", "pooled = 3"))
        fails("cuts 5 positions of its features along axis 0 into 6 blocks", RICA, "run.grid=[6,1]", ranks=6)
        self.train(UNTIED, "run")
        self.fails(2, "export", "run", "-o", "m.onnx", message="ONNX has no layers of the kind locally_connected")
        self.mrmf("export", "run", "--format", "safetensors", "-o", "m.safetensors")

    def test_memory_and_costs_are_predicted(self):
        self.write("c.toml", RICA)
        plan = json.loads(self.mrmf("inspect", "c.toml", "--json"))
        self.assertIn(str(5 * 6 * 8 * 50), json.dumps(plan))  # weights: 5 x 6 positions, 8 features of 5 x 5 x 2


class Script(support.MrmfTest):
    def test_three_layers_one_on_the_other(self):
        done = subprocess.run([os.path.join(REPOSITORY, "jobs/giants/run.sh"), "test", self.path("giant")],
                              capture_output=True, text=True, timeout=300,
                              env=dict(support.environment(), MRMF=support.MRMF, PYTHON=sys.executable))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        shares = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("unexplained share")]
        self.assertEqual(len(shares), 3)
        self.assertLess(shares[0], 0.6)  # of the first layer, whose samples are white
        with h5py.File(self.path("giant/samples3.h5")) as file:
            self.assertEqual(file["train"].shape[1:], (16, 16, 8))


if __name__ == "__main__":
    support.main()
