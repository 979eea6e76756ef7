"""Untied weights: locally connected layers and reconstruction ICA, on one rank and on the ranks of a grid, stopped and
continued, exported, refused; and jobs/giants/run.sh at its smallest size."""
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

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
UNTIED = HEAD % ("train_label", "validation_label", 0.003) + support.layers(
    "locally_connected filters=4 kernel=[4,3] stride=[2,1]", "l2_pool window=2 stride=1 pooled=2", "local_contrast_norm window=3",
    "locally_connected filters=3 kernel=2", "flatten", "dense units=2")
RICA = HEAD % ("train", "validation", 2.0) + support.layers("rica filters=8 kernel=5 stride=2 sparsity=0.1 pooled=4")


class WithData(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(1)
        with h5py.File(self.path("data.h5"), "w") as file:
            for name, count in (("train", 48), ("validation", 16)):
                rows = rng.normal(0, 1, (count, 13, 15, 2)).cumsum(1).cumsum(2)
                rows = ((rows - rows.mean((1, 2), keepdims=True)) / rows.std((1, 2, 3), keepdims=True)).astype("f4")
                file[name], file[f"{name}_label"] = rows, rows[:, 3, :2, 0] - rows[:, 9, 4:6, 1]

    def train(self, config, folder, *settings, ranks=0, overwrite=False, **options):
        self.write("c.toml", config)
        words = [word for setting in (f'run.folder="{folder}"', *settings) for word in ("--set", setting)]
        words += ["--overwrite"] if overwrite else []
        return self.mrmf("train", "c.toml", *words, ranks=ranks, **options)

    def losses(self, folder):
        return np.array([[one["train_loss"], one["validation_loss"]] for one in self.lines(f"{folder}/epochs.jsonl")])

    def weights(self, folder):
        return self.model_arrays(f"{folder}/checkpoints/final.h5")

    def remove(self, folder):
        shutil.rmtree(self.path(folder))


class Giants(WithData):
    def test_on_grids_as_on_one_rank_with_weights_where_their_positions_lie(self):
        for config, ranks, grid in ((UNTIED, 4, "[2,2]"), (RICA, 2, "[1,2]")):  # tests/mpi/test_grid.cpp has the others
            self.train(config, "one")
            one, weights = self.losses("one"), self.weights("one")
            self.assertLess(one[-1, 0], 0.9 * one[0, 0])
            self.train(config, "grid", "data.shards=1", f"run.grid={grid}", ranks=ranks)
            np.testing.assert_allclose(self.losses("grid"), one, rtol=2e-4)
            for name, values in self.weights("grid").items():
                np.testing.assert_allclose(values, weights[name], atol=2e-4 * np.abs(weights[name]).max())
            self.remove("grid")
            self.remove("one")

    def test_stopped_and_continued_on_another_grid(self):
        # Of reconstruction ICA in Blocks, below.
        self.train(UNTIED, "whole", "data.shards=1", "run.grid=[2,1]", "training.epochs=4", ranks=2)
        self.train(UNTIED, "parts", "data.shards=1", "run.grid=[2,1]", "training.epochs=2", ranks=2)
        shutil.copytree(self.path("parts"), self.path("cut"))
        self.mrmf("train", "--continue", "parts", "--set", "training.epochs=4", ranks=2)
        np.testing.assert_array_equal(self.losses("parts"), self.losses("whole"))  # bit for bit
        self.mrmf("train", "--continue", "cut", "--set", "training.epochs=4", "--set", "run.grid=[1,1]")
        np.testing.assert_allclose(self.losses("cut"), self.losses("whole"), rtol=2e-4)

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

    def test_the_gradient_of_white_crops_of_photographs(self):
        # A prototype in numpy, whose 50,176 weights and direction are those of this generator, had 251.78731 by its
        # formula and by differences of its objective: half the squares and 0.1 times the roots. In between it drew the
        # places of 2,000 crops of 15 photographs, and those of the two in white_crops.json.
        rng = np.random.default_rng(1)
        weights = rng.normal(0, 1, (49, 16, 64)).astype("f4")
        weights /= np.linalg.norm(weights, axis=2, keepdims=True)
        sizes = [(512, 512), (400, 600), (300, 451), (872, 1000), (512, 512), (1411, 1411), (427, 640), *[(512, 512)] * 5,
                 (303, 384), *[(427, 640)] * 2]
        for _ in range(2000 + 2):
            for most in (size - 31 for size in sizes[rng.integers(len(sizes))]):
                rng.integers(most)
        direction = rng.normal(0, 1, weights.shape)
        with open(os.path.join(os.path.dirname(__file__), "white_crops.json"), encoding="utf-8") as file:
            samples = np.array(json.load(file), "f4").reshape(2, 32, 32)
        gradient = self.gradient_of_a_step(samples, weights)
        self.assertAlmostEqual((gradient * direction).sum(), 251.78731, delta=2e-4)
        slope = self.slope(samples.astype("f8"), weights.astype("f8"))
        np.testing.assert_allclose(gradient, slope, atol=1e-6 * np.abs(slope).max())

    def gradient_of_a_step(self, samples, weights):
        """What one step of SGD takes from the weights: the gradient of the sum over samples of half the squares and 0.1
        times the roots, since the learning rate is the number of values of a sample."""
        import features
        with h5py.File(self.path("crops.h5"), "w") as file:
            file["train"] = file["validation"] = samples[..., None]
        config = RICA[:RICA.index("[[model.layers]]")]
        for key, old, new in (("files", '"data.h5"', '"crops.h5"'), ("batch", 8, 2), ("momentum", 0.9, "0.0"),
                              ("epochs", 3, 1), ("learning_rate", 2.0, float(samples[0].size))):
            self.assertIn(f"{key} = {old}", config)
            config = config.replace(f"{key} = {old}", f"{key} = {new}")
        rica = support.layers("rica filters=16 kernel=8 stride=4 sparsity=0.2 row_length=0")
        self.write("c.toml", config + rica)
        features.safetensors(self.path("start.safetensors"), {"rica1.weight": weights.reshape(7, 7, 16, 8, 8, 1)})
        self.mrmf("import", "start.safetensors", "-o", "start.h5", "--config", "c.toml")
        self.train(config + '[model]\nstart = "start.h5"\n' + rica, "step")
        with h5py.File(self.path("step/checkpoints/final.h5")) as file:
            after = file["parameters/rica1/weight"][:].reshape(weights.shape)
        return weights.astype("f8") - after

    def slope(self, samples, w):
        """The same by the prototype's formula: of 7 x 7 fields of 8 x 8, every 4 pixels."""
        def fields(images):
            return np.lib.stride_tricks.sliding_window_view(images, (8, 8), (1, 2))[:, ::4, ::4].reshape(2, 49, 64)
        x = fields(samples)
        z, error = np.einsum("npk,pfk->npf", x, w), -samples
        for p, part in enumerate(np.einsum("npf,pfk->pnk", z, w)):
            error[:, p // 7 * 4:p // 7 * 4 + 8, p % 7 * 4:p % 7 * 4 + 8] += part.reshape(2, 8, 8)
        dz = np.einsum("npk,pfk->npf", fields(error), w) + 0.1 * z / np.sqrt(0.01 + z * z)
        return np.einsum("npf,npk->pfk", dz, x) + np.einsum("npf,npk->pfk", z, fields(error))

    def test_crops_at_random_while_training(self):
        self.train(RICA, "crops", "data.patch=[9,11]", "training.epochs=6", "training.batch=16")
        losses = self.losses("crops")
        self.assertLess(losses[-1, 0], 0.9 * losses[0, 0])
        self.assertLess(losses[-1, 1], 0.9 * losses[0, 1])  # of whole samples
        with h5py.File(self.path("crops/checkpoints/final.h5")) as file:
            self.assertEqual(file["parameters/rica1/weight"].shape[:2], (3, 4))  # positions of a crop
        self.mrmf("predict", "crops", "-o", "y.h5")
        with h5py.File(self.path("y.h5")) as file:
            self.assertEqual(file["prediction"].shape, (16, 13, 15, 2))

    def test_rows_have_their_length_whatever_moves_them(self):
        import features
        lion = RICA.replace('name = "sgd", learning_rate = 2.0, momentum = 0.9', 'name = "lion", learning_rate = 1e-3')
        self.assertNotEqual(lion, RICA)
        for folder, *settings in (("whole",), ("votes", "training.communication=vote"), ("shards", "data.shards=4", "run.deterministic=true"),
                                  ("clipped", "training.clip_norm=0.1", "training.accumulate=2")):
            self.train(lion, folder, *settings, ranks=2)
            rows = features.Layer(self.path(folder)).weight
            np.testing.assert_allclose(np.linalg.norm(rows, axis=2), 1, rtol=1e-5, err_msg=folder)

    def test_updated_in_place_as_by_way_of_gradients(self):
        place = "training.update_in_place=true"
        for config in (UNTIED, RICA):
            for momentum in ("0.9", "0.0"):
                settings = [f"training.optimizer.momentum={momentum}"]
                self.train(config, "arrays", *settings)
                self.train(config, "place", *settings, place)
                np.testing.assert_array_equal(self.losses("place"), self.losses("arrays"))
                arrays, own = self.weights("arrays"), self.weights("place")
                for name, values in arrays.items():
                    np.testing.assert_array_equal(own[name], values, err_msg=name)
                for folder in ("arrays", "place"):
                    self.remove(folder)
                if (config, momentum) in ((UNTIED, "0.0"), (RICA, "0.9")):
                    continue
                grid = [*settings, "data.shards=1", "run.grid=[1,2]"]
                self.train(config, "arrays2", *grid, ranks=2)
                self.train(config, "place2", *grid, place, ranks=2)
                np.testing.assert_array_equal(self.losses("place2"), self.losses("arrays2"))
                for folder in ("arrays2", "place2"):
                    self.remove(folder)

    def test_what_goes_with_no_update_in_place_is_refused(self):
        self.write("c.toml", RICA)
        lion = ("training.optimizer.name=lion", "training.optimizer.learning_rate=1e-3")
        for message, ranks, *settings in (
                ("training.optimizer.name = \"lion\" is not sgd", 0, *lion),
                ("training.clip_norm needs all gradients first", 0, "training.clip_norm=1"),
                ("training.accumulate adds those of several parts first", 0, "training.accumulate=2"),
                ("run.deterministic with data.shards adds those of all shards first", 0, "run.deterministic=true", "data.shards=2"),
                ("2 groups of ranks have samples of their own", 2)):
            words = [word for setting in ("training.update_in_place=true", *settings) for word in ("--set", setting)]
            self.fails(2, "train", "c.toml", *words, message=message, ranks=ranks)

    def test_what_cannot_be_is_refused_in_one_line(self):
        def fails(message, config, *settings, ranks=0):
            self.write("c.toml", config)
            words = [word for setting in settings for word in ("--set", setting)]
            self.fails(2, "train", "c.toml", *words, message=message, ranks=ranks)
        larger = UNTIED.replace("kernel=[4,3]".replace("=", " = "), "kernel = [14, 3]")
        fails("locally_connected1: window 14x3 is larger than its input 13x15x2", larger)
        for window, text in (("4", "4x4 must be odd along every axis, so that it has a middle, and at most 31"), ("[33, 1]", "33x1 must be odd")):
            fails(f"local_contrast_norm1: window {text}", UNTIED.replace("window = 3", f"window = {window}"))
        fails("3 groups do not divide 8 filters", RICA.replace("pooled = 4", "pooled = 3"))
        fails("cuts 5 positions of its features along axis 0 into 6 blocks", RICA, "run.grid=[6,1]", ranks=6)
        self.train(UNTIED, "run")
        self.fails(2, "export", "run", "-o", "m.onnx", message="ONNX has no layers of the kind locally_connected")
        self.mrmf("export", "run", "--format", "safetensors", "-o", "m.safetensors")

    def test_memory_and_costs_are_predicted(self):
        self.write("c.toml", RICA)
        plan = json.loads(self.mrmf("inspect", "c.toml", "--json"))
        weights = 5 * 6 * 8 * 50  # 5 x 6 positions, 8 features of 5 x 5 x 2
        self.assertIn(str(weights), json.dumps(plan))
        model = [self.model_bytes(*settings) for settings in (
            (), ("training.update_in_place=true",),
            ("training.update_in_place=true", "training.optimizer.momentum=0.0"))]
        self.assertEqual([model[0] - model[1], model[1] - model[2]], [4 * weights, 4 * weights])

    def model_bytes(self, *settings):
        words = [word for setting in settings for word in ("--set", setting)]
        return json.loads(self.mrmf("inspect", "c.toml", *words, "--json"))["resolutions"][0]["model_bytes"]


TOGETHER = """
[data]
files = "data.h5"
train = { samples = "train", labels = "train" }
validation = { samples = "validation", labels = "validation" }
[model]
layers = [
  { type = "rica", name = "code1", filters = 6, kernel = 4, stride = 2, row_length = ROW_LENGTH, output = "features" },
  { type = "l2_pool", name = "pool1", window = 2, stride = 1 },
  { type = "rica", name = "rica2", filters = 5, kernel = 3, sparsity = 0.3, row_length = ROW_LENGTH, decoder = "own" },
  { type = "rica", name = "rica1", from = "input", filters = 6, kernel = 4, stride = 2, sparsity = 0.2, weights_of = "code1" },
]
[training]
batch = 48
epochs = 1
optimizer = { name = "sgd", learning_rate = 1.0, momentum = 0.0 }
terms = [
  { name = "layer1", output = "rica1", target = "input", loss = "mse" },
  { name = "layer2", output = "rica2", target = "pool1", loss = "mse" },
]
[run]
folder = "run"
"""


class AllAtOnce(WithData):
    """Each layer's features go to the next one, and the loss is the sum of what each loses of its input."""

    def parameters(self, folder):
        with h5py.File(self.path(f"{folder}/checkpoints/final.h5")) as file:
            return {f"{layer}.{name}": file["parameters"][layer][name][:] for layer in file["parameters"]
                    for name in file["parameters"][layer]}

    def test_the_gradient_is_the_slope_of_all_objectives_together(self):
        self.write("c.toml", TOGETHER.replace("ROW_LENGTH", "0"))
        for folder, rate in (("before", "1e-30"), ("after", "1.0")):  # one step of all rows
            self.mrmf("train", "c.toml", "--set", f'run.folder="{folder}"', "--set", f"training.optimizer.learning_rate={rate}")
        before, after = self.parameters("before"), self.parameters("after")
        for parameters in (before, after):
            np.testing.assert_array_equal(parameters.pop("rica1.weight"), parameters["code1.weight"])
        gradient = {name: before[name].astype("f8") - after[name] for name in before}
        with h5py.File(self.path("data.h5")) as file:
            samples = file["train"][:].astype("f8")

        def objective(parameters):
            def of(x, encoder, decoder, stride, sparsity):
                z, y = np.zeros((len(x), *encoder.shape[:3])), np.zeros_like(x)
                high, wide = encoder.shape[3:5]
                for row in range(encoder.shape[0]):
                    for column in range(encoder.shape[1]):
                        at = np.s_[:, row * stride:row * stride + high, column * stride:column * stride + wide]
                        z[:, row, column] = np.einsum("nhwc,fhwc->nf", x[at], encoder[row, column])
                        y[at] += np.einsum("nf,fhwc->nhwc", z[:, row, column], decoder[row, column])
                values = x[0].size
                return z, (((y - x) ** 2).sum() + sparsity * np.sqrt(0.01 + z * z).sum()) / values / len(x)
            z, first = of(samples, parameters["code1.weight"], parameters["code1.weight"], 2, 0.2)
            pooled = np.sqrt(0.01 + sum((z * z)[:, i:z.shape[1] - 1 + i, j:z.shape[2] - 1 + j] for i in (0, 1) for j in (0, 1)))
            return first + of(pooled, parameters["rica2.weight"], parameters["rica2.decoder"], 1, 0.3)[1]

        rng = np.random.default_rng(0)
        for name, slope in gradient.items():
            for way in (slope / np.linalg.norm(slope), rng.normal(0, 1, slope.shape) / np.sqrt(slope.size)):
                moved = [objective({**before, name: before[name] + step * way}) for step in (1e-4, -1e-4)]
                expected = (moved[0] - moved[1]) / 2e-4
                self.assertLess(abs((slope * way).sum() - expected), 2e-4 * np.linalg.norm(slope), name)

    def test_rows_keep_their_length_and_the_sharing_layer_has_the_same_weights(self):
        self.write("c.toml", TOGETHER.replace("ROW_LENGTH", "0.7"))
        self.mrmf("train", "c.toml", "--set", "training.epochs=3", "--set", "training.batch=8")
        parameters = self.parameters("run")
        np.testing.assert_allclose(np.linalg.norm(parameters["code1.weight"].reshape(5 * 6 * 6, -1), axis=1), 0.7, rtol=1e-5)
        lines = self.lines("run/epochs.jsonl")
        self.assertLess(lines[-1]["train_loss"], lines[0]["train_loss"])
        np.testing.assert_array_equal(parameters["rica1.weight"], parameters["code1.weight"])
        import features
        with h5py.File(self.path("data.h5")) as file:
            samples = file["validation"][:]
        layer = features.Layer(self.path("run/checkpoints/final.h5"), "code1")
        self.assertEqual((layer.stride, features.Layer(self.path("run/checkpoints/final.h5"), "rica2").stride), (2, 1))
        self.mrmf("predict", "run", "--epoch", "last", "--samples", "validation", "-o", "y.h5")
        with h5py.File(self.path("y.h5")) as file:
            got = file["prediction"][:]
        expected = layer.decode(layer.encode(samples))
        np.testing.assert_allclose(got[:, :expected.shape[1], :expected.shape[2]], expected, atol=1e-4 * np.abs(expected).max())

    def test_features_begin_with_trained_weights_and_serve_a_network_with_labels(self):
        self.train(RICA, "ica")
        supervised = HEAD % ("train_label", "validation_label", 0.003) + '[model]\nstart = "ica/checkpoints/final.h5"\n'
        supervised += support.layers('rica filters=8 kernel=5 stride=2 output="features"', "l2_pool window=2 stride=1", "flatten",
                                     "dense units=2")
        self.train(supervised, "one", "training.epochs=2")
        self.train(supervised, "two", "training.epochs=2", "data.shards=1", "run.grid=[1,2]", ranks=2)
        np.testing.assert_allclose(self.losses("two"), self.losses("one"), rtol=2e-4)
        self.train(supervised, "still", "training.optimizer.learning_rate=1e-30", "training.epochs=1")
        for name in self.weights("ica"):
            np.testing.assert_allclose(self.weights("still")[name], self.weights("ica")[name], rtol=1e-5)

    def test_the_guide_s_example(self):
        with open(os.path.join(REPOSITORY, "docs/guide/giants.md"), encoding="utf-8") as page:
            example = next(block for block in page.read().split("```toml\n")[1:] if "terms = [" in block).partition("```")[0]
        rng = np.random.default_rng(3)
        with h5py.File(self.path("images.h5"), "w") as file:
            for name, count in (("train", 4), ("validation", 2)):
                file[name] = rng.normal(0, 1, (count, 24, 24, 3)).astype("f4")
        data = TOGETHER[:TOGETHER.index("[model]")].replace("data.h5", "images.h5")
        self.write("c.toml", data + example + '[run]\nfolder = "run"\n')
        self.mrmf("train", "c.toml", "--set", "training.epochs=1", "--set", "training.batch=2")
        self.assertEqual(list(self.lines("run/epochs.jsonl")[0]["terms"]), ["layer1", "layer2"])
        if importlib.util.find_spec("matplotlib") is not None:
            self.assertEqual([self.drawn_in_colour("run", name) for name in ("code1", "rica2")], [True, False])
        joint = example.replace('  { type = "stop_gradient", name = "fixed1" },\n', "")
        joint = joint.replace('"local_contrast_norm"', '"local_contrast_norm", name = "fixed1"')
        self.assertEqual(joint.count("fixed1"), 2)
        self.write("c.toml", data + joint + '[run]\nfolder = "joint"\n')
        self.mrmf("train", "c.toml", "--set", "training.epochs=1", "--set", "training.batch=2")
        self.assertNotEqual(self.losses("joint")[0, 1], self.losses("run")[0, 1])

    def drawn_in_colour(self, folder, name):
        """Whether features.py draws a layer of it so."""
        from matplotlib import image
        words = ["filters", self.path(folder), "--layer", name, "-o", self.path("filters.png")]
        done = subprocess.run([sys.executable, os.path.join(REPOSITORY, "jobs/giants/features.py"), *words],
                              capture_output=True, text=True, timeout=120, env=support.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        red, green = image.imread(self.path("filters.png"))[..., :2].transpose(2, 0, 1)
        self.assertLess(red.min(), 0.1)
        return bool((red != green).any())

    def test_script_at_its_smallest_size(self):
        shares = {}
        for joint in ("0", "1", "again"):
            done = subprocess.run([os.path.join(REPOSITORY, "jobs/giants/together.sh"), "test", self.path("giant")],
                                  capture_output=True, text=True, timeout=600,
                                  env=dict(support.environment(), MRMF=support.MRMF, PYTHON=sys.executable, JOINT=joint,
                                           COUNT="96", EPOCHS="1"))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            shares[joint] = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("unexplained share")]
            self.assertEqual(len(shares[joint]), 3)
            self.assertLess(max(shares[joint]), 1)
            if joint == "0":
                shutil.rmtree(self.path("giant/together"))
        self.assertNotEqual(shares["0"], shares["1"])
        self.assertEqual(shares["again"], shares["1"])  # what is there is taken


class Blocks(WithData):
    """Checkpoints of ranks that share samples: each writes its block's untied weights to a file of its own."""
    GRID = ("data.shards=1", "run.grid=[2,1]", "run.checkpoint.epochs=1")

    def blocks(self, folder):
        return sorted(name for name in os.listdir(self.path(f"{folder}/checkpoints")) if "-block-" in name)

    def files(self, folder):
        return {os.path.join(path, name): support.digest(os.path.join(path, name))
                for path, _, names in os.walk(self.path(folder)) for name in names}

    def test_each_rank_writes_its_block_and_any_other_grid_reads_them(self):
        self.train(RICA, "cut", *self.GRID, ranks=2)
        names = self.blocks("cut")
        self.assertEqual([name[-10:] for name in names], ["block-0.h5", "block-1.h5"])  # of the last save alone
        with h5py.File(self.path("cut/checkpoints/phase-1.h5")) as file:
            self.assertNotIn("parameters", file)
        shares = []
        for name in names:
            with h5py.File(self.path(f"cut/checkpoints/{name}")) as file:
                shares.append(file["parameters/rica1/weight"].shape)
                self.assertEqual(file["moments/1/rica1/weight"].shape, shares[-1])
        self.assertEqual((sum(positions for positions, _ in shares), shares[0][1]), (5 * 6, 8 * 50))
        self.train(RICA, "whole", *self.GRID, "training.epochs=5", ranks=2)
        for ranks, grid in ((1, "[1,1]"), (2, "[1,2]")):
            shutil.copytree(self.path("cut"), self.path("other"))
            self.mrmf("train", "--continue", "other", "--set", "training.epochs=5", "--set", f"run.grid={grid}", ranks=ranks)
            np.testing.assert_allclose(self.losses("other"), self.losses("whole"), rtol=2e-4, err_msg=grid)
            self.assertEqual(len(self.blocks("other")), ranks if ranks > 1 else 0)
            self.remove("other")
        self.mrmf("train", "--continue", "cut", "--set", "training.epochs=5", ranks=2)
        np.testing.assert_array_equal(self.losses("cut"), self.losses("whole"))  # bit for bit

    def test_a_block_that_is_damaged_missing_or_of_another_save_is_named_and_nothing_is_touched(self):
        self.train(UNTIED, "run", *self.GRID, ranks=2)
        more = ("train", "--continue", "run", "--set", "training.epochs=4")
        name = self.blocks("run")[1]
        path, start = self.path(f"run/checkpoints/{name}"), f"run/checkpoints/{name}: "
        with open(path, "rb") as file:
            good = file.read()
        other = self.path("run/checkpoints/" + self.blocks("run")[0])

        def refused(message, on=(1,)):
            before = self.files("run")
            for ranks in on:
                grid = ("--set", "run.grid=[1,1]") if ranks == 1 else ()
                self.fails(3, *more, *grid, message=start + message, ranks=ranks if ranks > 1 else 0)
                self.assertEqual(self.files("run"), before)

        for place in (len(good) // 2, len(good) - 3):
            with open(path, "wb") as file:
                file.write(good[:place] + bytes([good[place] ^ 1]) + good[place + 1:])
            refused("torn or damaged")
        with open(path, "wb") as file:
            file.write(good[:-100])
        refused("torn or damaged", on=(1, 2))
        shutil.copyfile(other, path)
        refused("is not the file that ")
        os.unlink(path)
        refused("is missing, and run/checkpoints/phase-1.h5 needs it", on=(1, 2))
        with open(path, "wb") as file:
            file.write(good)
        self.mrmf(*more, ranks=2)

    def test_killed_and_continued_bit_for_bit(self):
        settings = [*self.GRID, "training.epochs=9", "training.update_in_place=true"]
        self.train(RICA, "whole", *settings, ranks=2)
        self.write("c.toml", RICA)
        words = [word for setting in ('run.folder="run"', *settings) for word in ("--set", setting)]

        def attempt():
            process = self.launch("train", "c.toml", *words, ranks=2)
            while self.epochs_written() < 3 and process.poll() is None:
                pass
            if process.poll() is None:
                for pid in support.ranks_of(process).values():
                    os.kill(pid, signal.SIGKILL)
            return process.wait(120), process.communicate()[0]

        self.interrupted("run", attempt)
        self.mrmf("train", "c.toml", *words, ranks=2)
        np.testing.assert_array_equal(self.losses("run"), self.losses("whole"))
        for name, values in self.weights("whole").items():
            np.testing.assert_array_equal(self.weights("run")[name], values, err_msg=name)
        self.assertEqual(len(self.blocks("run")), 2)

    def test_predictions_of_a_checkpoint_read_its_blocks(self):
        self.train(RICA, "run", *self.GRID, ranks=2)
        self.mrmf("predict", "run", "--epoch", "last", "-o", "done.h5")
        for name in ("result.json", "checkpoints/final.h5"):  # as if it were still under way
            os.unlink(self.path(f"run/{name}"))
        self.mrmf("predict", "run", "--checkpoint", "-o", "blocks.h5")
        with h5py.File(self.path("done.h5")) as done, h5py.File(self.path("blocks.h5")) as blocks:
            np.testing.assert_array_equal(done["prediction"][:], blocks["prediction"][:])

    def test_a_run_that_begins_anew_leaves_no_blocks(self):
        self.train(RICA, "run", *self.GRID, ranks=2)
        self.train(RICA, "run", "run.checkpoint.epochs=0", "training.epochs=1", overwrite=True)
        self.assertEqual(self.blocks("run"), [])


class Frames(support.MrmfTest):
    """Crops of the image files of a folder."""
    rng = np.random.default_rng(7)

    def frame(self, path, *, shape=(20, 24), head=b"P5 %d %d 255\n", white=255):
        """Makes a binary PGM or PPM of random values and returns them."""
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        values = self.rng.integers(white + 1, size=shape).astype("u1" if white < 256 else ">u2")
        with open(self.path(path), "wb") as file:
            file.write(head % (shape[1], shape[0]) + values.tobytes())
        return values.reshape(*shape[:2], -1)

    def crops(self, output, *words):
        command = [sys.executable, os.path.join(REPOSITORY, "jobs/giants/images.py"), "--frames", self.path("frames"),
                   "--size", "12", "--count", "16", *words, "-o", self.path(output)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=support.environment())

    def rows(self, output, *words):
        done = self.crops(output, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        with h5py.File(self.path(output)) as file:
            return done.stdout, file["train"][:], file["validation"][:]

    def test_files_are_read_in_the_order_of_their_numbers(self):
        import images
        made = [self.frame("frames/a/image9.pgm"),
                self.frame("frames/a/image10.PGM", head=b"P5\n# no\n#\n%d #\n %d\n255\n"),
                self.frame("frames/b.pgm", shape=(12, 40), head=b"P5\n%d %d\n1023\n", white=1023),
                self.frame("frames/c.ppm", shape=(16, 17, 3), head=b"P6 %d %d\n255 ")]
        self.write("frames/a/notes.txt", "no image")
        grey, small = (images.frames(self.path("frames"), grey, 12) for grey in (True, False))
        expected = [made[2] / 1023, made[3] / 255, made[0] / 255, made[1] / 255]  # files before folders
        for image, one, values in zip(small, grey, expected):
            np.testing.assert_allclose(images.unit(image), values, atol=1e-7)
            whole = values @ [[0.2125], [0.7154], [0.0721]] if values.shape[2] == 3 else values
            np.testing.assert_allclose(images.unit(one), whole, atol=1e-6)
        self.assertEqual([len(small), len(grey), len(images.frames(self.path("frames"), False, 13))], [4, 4, 3])

    def test_crops_are_grey_or_of_three_channels(self):
        for i in range(3):
            self.frame(f"frames/{i}.pgm")
        said, train, validation = self.rows("grey.h5", "--grey")
        self.assertIn("16 crops of 3 images, 0.0 million pixels", said)
        self.assertEqual([train.shape, validation.shape, train.dtype], [(16, 12, 12, 1), (2, 12, 12, 1), "f4"])
        self.assertGreater(train.std((1, 2, 3)).min(), 0.1)
        np.testing.assert_array_equal(self.rows("again.h5", "--grey")[1], train)
        train = self.rows("colour.h5")[1]
        self.assertEqual(train.shape, (16, 12, 12, 3))
        np.testing.assert_allclose(train, train[..., :1].repeat(3, 3), atol=1e-4)

    @unittest.skipIf(importlib.util.find_spec("PIL") is None, "no Pillow")
    def test_png(self):
        import images
        from PIL import Image
        for shape, mode in (((16, 17), "L"), ((16, 17, 3), "RGB"), ((16, 17, 4), "RGBA")):
            values = self.rng.integers(256, size=shape).astype("u1")
            os.makedirs(self.path(mode))
            Image.fromarray(values, mode).save(self.path(f"{mode}/1.png"))
            image, = images.frames(self.path(mode), False, 16)
            np.testing.assert_array_equal(image, values.reshape(16, 17, -1)[..., :3])

    def test_what_cannot_be_read_is_said_in_one_line(self):
        def fails(message):
            done = self.crops("none.h5")
            self.assertEqual((done.returncode, done.stderr.count("\n"), done.stdout), (1, 1, ""), done.stderr)
            self.assertIn(message, done.stderr)
            self.assertFalse(os.path.exists(self.path("none.h5")))
        fails("frames: no .pgm, .ppm or .png files there")
        self.frame("frames/1.pgm", shape=(40, 15))
        fails("frames: none of its 1 images has 16x16 pixels")
        self.frame("frames/2.pgm", shape=(40, 40), head=b"P2 %d %d 255\n")
        fails("frames/2.pgm: does not begin as a binary PGM or PPM file does")
        self.frame("frames/2.pgm", shape=(40, 40), head=b"P5 %d %d1 255\n")
        fails("frames/2.pgm: buffer is smaller than requested size")


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

    def test_half_the_resolution_first(self):
        giants = os.path.join(REPOSITORY, "jobs", "giants")
        environment = dict(support.environment(), MRMF=support.MRMF, PYTHON=sys.executable)
        os.mkdir(self.path("giant"))
        for words in ([sys.executable, f"{giants}/images.py", "--size", "32", "--count", "192", "--grey", "--synthetic", "-o",
                       self.path("giant/samples1.h5")], [f"{giants}/half_first.sh", "test", self.path("giant")]):
            done = subprocess.run(words, capture_output=True, text=True, timeout=300, env=environment)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        table = done.stdout.partition("half first\n")[2]
        losses = [float(line.split()[1]) for line in table.splitlines()]
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[1], losses[0])  # after a cost of 1.25 and of 1


if __name__ == "__main__":
    support.main()
