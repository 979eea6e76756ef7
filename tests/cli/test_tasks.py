"""Classes per sample and per position, yes or no, fields: train, evaluate and predict through the command line."""
import json
import unittest

import h5py
import numpy as np

import support

DATA = """
[data]
files = ["data.h5"]
train = { samples = "x", labels = "y" }
validation = { samples = "vx", labels = "vy" }
shards = 4
[training]
optimizer = { name = "sgd", learning_rate = 0.3 }
batch = %(batch)d
seed = 3
epochs = %(epochs)d
%(training)s
[method]
%(method)s
[run]
folder = "run"
threads = 1
"""

# Of waves: three classes by their number of periods.
WAVES = "\n" + support.layers("conv filters=8 kernel=5", "max_pool window=2", "relu", "flatten", "dense units=3")

# Of images: a class for every pixel.
PIXELS = '\ncut = "last"\n' + support.layers('conv filters=8 kernel=3 padding="same"', "relu",
                                            'conv name="last" filters=3 kernel=3 padding="same"')


def make_waves(path, dtype="int64"):
    """y: the class of x; y3 of one-hot numbers; the validation's are called v..."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for name, count in (("", 120), ("v", 48)):
            classes = np.arange(count) % 3
            time = np.linspace(0, 2 * np.pi, 32)
            waves = np.sin((1 + 2 * classes[:, None]) * time + rng.uniform(0, 6, (count, 1)))
            file[name + "x"] = (waves + rng.normal(0, 0.1, waves.shape))[:, :, None].astype("float32")
            file[name + "y"] = classes.astype(dtype)
            file[name + "y3"] = np.eye(3)[classes].astype("uint8")


def make_images(path, dtype="uint8", channel=False):
    """Images of a dark background with bright and very bright squares; y says which is where, and 255 nothing."""
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        for name, count in (("", 48), ("v", 16)):
            labels = np.zeros((count, 16, 16), dtype)
            for label in labels:
                for which in (1, 2):
                    i, j = rng.integers(0, 11, 2)
                    label[i:i + 5, j:j + 5] = which
            x = labels + rng.normal(0, 0.2, labels.shape)
            labels[:, 0, 0] = 255
            file[name + "x"] = x[..., None].astype("float32")
            file[name + "y"] = labels[..., None] if channel else labels
            file[name + "mask"] = (labels == 1).astype("uint8")
            file[name + "field"] = (2 * x)[..., None].astype("float32")


class Tasks(support.MrmfTest):
    def configure(self, model, training, method='name = "baseline"', epochs=8, batch=12):
        text = DATA % {"training": training, "method": method, "epochs": epochs, "batch": batch}
        self.write("config.toml", text + ("[model]" + model if not model.startswith("\n[[") else model))

    def epochs(self, run="run"):
        return self.lines(run + "/epochs.jsonl")

    def test_classes_of_samples_train_evaluate_and_predict_on_one_and_two_ranks(self):
        make_waves(self.path("data.h5"))
        self.configure(WAVES, 'loss = "cross_entropy"')
        self.mrmf("train", "config.toml")
        self.mrmf("train", "config.toml", "--set", "run.folder=two", "--set", "training.batch=6", ranks=2)
        one, two = self.epochs(), self.epochs("two")
        for key in ("train_loss", "validation_loss", "validation_accuracy"):
            np.testing.assert_allclose([e[key] for e in two], [e[key] for e in one], rtol=1e-5, atol=2e-7, err_msg=key)  # losses come near 0
        self.assertGreater(one[-1]["validation_accuracy"], 0.9)
        self.assertLess(one[-1]["validation_loss"], 0.5 * np.log(3))
        result = json.loads(self.read("run/result.json"))
        self.assertEqual(result["validation_accuracy"], one[-1]["validation_accuracy"])
        self.assertIn("classes = 3", self.read("run/config.toml"))
        self.assertIn(f" accuracy {one[-1]['validation_accuracy']:.5f}", self.read("run/log.txt"))

        text = self.mrmf("evaluate", "run", "--epoch", "last")
        self.assertEqual(text, self.mrmf("evaluate", "run", "--epoch", "last", ranks=2))
        self.assertIn(f"accuracy {one[-1]['validation_accuracy']:.6f} of the samples", text)
        loss = float(text.split("loss ")[1].split()[0])
        self.assertAlmostEqual(loss, one[-1]["validation_loss"], places=5)
        self.assertIn("labels (rows) and predictions (columns)", text)

        self.mrmf("predict", "run", "-o", "p.h5")
        self.mrmf("predict", "run", "-o", "p2.h5", ranks=2)
        with h5py.File(self.path("p.h5")) as p, h5py.File(self.path("data.h5")) as data:
            raw, labels = p["prediction"][:].astype("f8"), data["vy"][:]
            softmax = np.exp(raw) / np.exp(raw).sum(1, keepdims=True)
            np.testing.assert_allclose(p["probability"][:], softmax, rtol=1e-5, atol=1e-7)
            self.assertEqual(p["class"].dtype, "uint16")
            np.testing.assert_array_equal(p["class"][:], raw.argmax(1))
            self.assertAlmostEqual((p["class"][:] == labels).mean(), one[-1]["validation_accuracy"])
            self.assertAlmostEqual(-np.log(softmax[np.arange(48), labels]).mean(), one[-1]["validation_loss"], places=5)
            confusion = [[int(word) for word in line.split()[1:]] for line in text.splitlines()[-3:]]
            counted = np.zeros((3, 3), int)
            np.add.at(counted, (labels, p["class"][:]), 1)
            np.testing.assert_array_equal(confusion, counted)
            with h5py.File(self.path("p2.h5")) as two:
                np.testing.assert_array_equal(two["class"][:], p["class"][:])

    def test_a_run_shard_by_shard_measures_the_same_on_any_number_of_ranks(self):
        make_waves(self.path("data.h5"))
        self.configure(WAVES, 'loss = "cross_entropy"', epochs=3)
        lines = []
        for ranks in (1, 2):
            self.mrmf("train", "config.toml", "--overwrite", "--set", "run.deterministic=true", "--set",
                      f"training.batch={12 // ranks}", ranks=ranks)
            lines.append([(e["train_loss"], e["validation_loss"], e["validation_accuracy"]) for e in self.epochs()])
        self.assertEqual(lines[0], lines[1])

    def test_yes_or_no_and_a_sum_of_losses_of_numbers(self):
        make_waves(self.path("data.h5"))
        self.configure(WAVES, 'loss = "binary_cross_entropy"\nclass_weights = [1, 2, 1]')
        labels = ["--set", "data.train.labels=y3", "--set", "data.validation.labels=vy3"]
        self.mrmf("train", "config.toml", *labels)
        self.assertGreater(self.epochs()[-1]["validation_accuracy"], 0.8)
        text = self.mrmf("evaluate", "run")
        self.assertIn("output       labels  predictions", text)
        self.mrmf("predict", "run", "-o", "p.h5")
        with h5py.File(self.path("p.h5")) as p:
            np.testing.assert_allclose(p["probability"][:], 1 / (1 + np.exp(-p["prediction"][:])), rtol=1e-5)
            self.assertNotIn("class", p)
        self.configure(WAVES, 'loss = [{ kind = "huber", delta = 0.5 }, { kind = "mae", weight = 0.25 }]\nmetric = "r2"')
        self.mrmf("train", "config.toml", "--overwrite", *labels)
        self.assertGreater(self.epochs()[-1]["validation_r2"], 0.2)

    def test_classes_of_positions_with_dice_an_ignored_label_and_coarse_labels(self):
        fusion = """name = "mrmf"
resolutions = [[2, 2], [1, 1]]
stop = { coarse = { epochs = 3 }, dense = { epochs = 2 }, finetune = { epochs = 12 } }
target = { validation_dice = 0.9 }"""
        make_images(self.path("data.h5"))
        self.configure(PIXELS, 'loss = [{ kind = "cross_entropy" }, { kind = "dice", weight = 0.5 }]\nignore = 255',
                       fusion, batch=8)
        self.mrmf("train", "config.toml")
        self.mrmf("train", "config.toml", "--set", "run.folder=two", "--set", "training.batch=4", ranks=2)
        one, two = self.epochs(), self.epochs("two")
        for key in ("train_loss", "validation_loss", "validation_dice"):
            np.testing.assert_allclose([e[key] for e in two], [e[key] for e in one], rtol=1e-4, err_msg=key)
        self.assertGreaterEqual(one[-1]["validation_dice"], 0.9)
        stages = self.lines("run/stages.jsonl")
        self.assertEqual([s["role"] for s in stages], ["coarse", "dense", "finetune"])
        self.assertEqual(stages[-1]["reason"], "target")
        self.assertTrue(json.loads(self.read("run/result.json"))["target_reached"])
        self.assertGreater(one[2]["validation_dice"], one[0]["validation_dice"])  # the coarse phase learns
        text = self.mrmf("evaluate", "run", "--epoch", "last")
        self.mrmf("predict", "run", "--epoch", "last", "-o", "p.h5")
        with h5py.File(self.path("p.h5")) as p, h5py.File(self.path("data.h5")) as data:
            self.assertEqual(p["prediction"].shape, (16, 16, 16, 3))
            found, labels = p["class"][:], data["vy"][:]
            known = labels != 255
            dice = [2 * (known & (found == c) & (labels == c)).sum() / ((known & (found == c)).sum() + (labels == c).sum())
                    for c in range(3)]
            self.assertAlmostEqual(np.mean(dice[1:]), one[-1]["validation_dice"], places=6)  # class 0 is the background
            for c in range(3):
                self.assertIn(f"{dice[c]:.4f}", text)

    def test_majority_of_coarse_labels_and_an_axis_of_one(self):
        make_images(self.path("data.h5"), "int32", channel=True)
        self.configure(PIXELS, 'loss = "cross_entropy"\nignore = 255\nclass_weights = [0.5, 2, 2]\nmetric = "iou"',
                       'name = "mrt"\nresolutions = [[4, 4], [1, 1]]', epochs=2)
        losses = []
        for how in ("shares", "majority"):
            self.mrmf("train", "config.toml", "--overwrite", "--set", f"data.coarse_labels={how}")
            losses.append(self.epochs()[0]["validation_loss"])
            self.assertIn("validation_iou", self.epochs()[0])
        self.assertNotEqual(losses[0], losses[1])

    def test_fields_and_masks_of_the_samples_own_positions(self):
        make_images(self.path("data.h5"))
        self.configure(PIXELS, 'loss = [{ kind = "binary_cross_entropy" }, { kind = "dice" }]',
                       'name = "mrt"\nresolutions = [[2, 2], [1, 1]]', epochs=2)
        one = ["--set", "model.layers[2].filters=1", "--set", "training.optimizer.learning_rate=0.01"]
        for labels, loss in (("mask", None), ("field", "mse")):
            words = ["--set", f"data.train.labels={labels}", "--set", f"data.validation.labels=v{labels}"]
            words += ["--set", f"training.loss={loss}"] if loss else []
            self.mrmf("train", "config.toml", "--overwrite", *one, *words)
            losses = [e["validation_loss"] for e in self.epochs()]
            for first, last in (losses[:2], losses[2:]):  # of the coarse phase, and of the last
                self.assertLess(last, first, labels)
            self.mrmf("evaluate", "run")

    def test_bad_labels_are_refused_with_their_place(self):
        make_waves(self.path("data.h5"))
        self.configure(WAVES, 'loss = "cross_entropy"')
        with h5py.File(self.path("data.h5"), "r+") as file:
            file["y"][17] = 3
        self.fails(3, "train", "config.toml", message="data.h5: data set 'y', row 17 holds 3, and the classes are 0 to 2")
        self.fails(3, "train", "config.toml", "--set", "training.batch=6", ranks=2,
                   message="data.h5: data set 'y', row 17 holds 3, and the classes are 0 to 2")
        self.mrmf("train", "config.toml", "--set", "training.ignore=3", "--set", "training.epochs=1")
        with h5py.File(self.path("data.h5"), "r+") as file:
            file["y"][:] = np.minimum(file["y"][:], 1)
        output = self.mrmf("train", "config.toml", "--overwrite", "--set", "training.epochs=1")
        self.assertIn("warning: class 2 never occurs in the training labels ('y')", output)
        teams = ["method.name=mrmf", "method.resolutions=[[2],[1]]", "method.teams=concurrent", "method.team_shares=[1,1]",
                 "training.epochs=1"]
        output = self.mrmf("train", "config.toml", "--overwrite", *[w for t in teams for w in ("--set", t)], ranks=2)
        self.assertEqual(output.count("warning: class 2 never occurs in the training labels ('y')"), 1)
        self.fails(2, "train", "config.toml", "--overwrite", "--set", "training.classes=4",
                   message="training.classes = 4, and the network's last layer has 3 channels")
        self.fails(2, "train", "config.toml", "--overwrite", "--set", 'training.loss=["mse","dice"]',
                   message="training.loss adds dice to mse, which are of different tasks")
        with h5py.File(self.path("data.h5"), "r+") as file:
            file["vy3"][5, 1] = 2
        self.fails(3, "train", "config.toml", "--overwrite", "--set", "training.loss=binary_cross_entropy", "--set",
                   "data.train.labels=y3", "--set", "data.validation.labels=vy3",
                   message="data set 'vy3', row 5 holds 2, and labels of yes or no are from 0 to 1")

    def test_labels_of_another_resolution_than_the_output(self):
        make_images(self.path("data.h5"))
        self.configure(PIXELS.replace('name = "last"', 'name = "last"\nstride = 2'), 'loss = "dice"\nignore = 255')
        self.fails(2, "train", "config.toml",
                   message="the network's output is 8x8x1 classes and the labels are 16x16x1; give them the same positions")


if __name__ == "__main__":
    support.main()
