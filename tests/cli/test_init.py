"""`mrmf init` and `mrmf data`: a configuration from a file alone, and what the data are, with advice."""
import json
import os
import re

import h5py
import numpy as np

import support
from people_files import IMAGES, SERIES, VOLUMES, InitTest, PeopleTest, make_images, make_series, make_volumes


class Init(InitTest, PeopleTest):
    def init(self, *files, name="made.toml"):
        text = self.mrmf("init", *files, "-o", name, "--folder", "run")
        return text, self.read(name)

    def test_init_writes_a_configuration_that_trains_at_once(self):
        make_images(self.path("images.h5"))
        said, text = self.init("images.h5")
        self.assertIn('axes = "n y x"', text)
        self.assertIn("outputs = 3", text)
        self.assertIn('loss = "cross_entropy"', text)
        self.assertIn("3 classes", said)
        self.mrmf("train", "made.toml", "--set", "training.epochs=2")
        self.assertGreater(float(re.search(r"accuracy (\S+) of", self.mrmf("evaluate", "run"))[1]), 0.5)
        self.fails(2, "init", "images.h5", "-o", "made.toml", message="made.toml")  # it is there

    def test_init_of_volumes_and_series(self):
        make_volumes(self.path("volumes.h5"))
        make_series(self.path("series"))
        _, text = self.init("volumes.h5", name="volumes.toml")
        self.assertIn('axes = "n c z y x"', text)
        self.assertIn('samples = "field", labels = "energy"', text)
        self.assertIn('normalise.labels = "mean_std"', text)
        self.mrmf("train", "volumes.toml", "--set", "training.epochs=1")
        _, text = self.init("series/*.h5", name="series.toml")
        self.assertIn('not_finite = "skip"  # 5 rows', text)
        self.mrmf("train", "series.toml", "--set", "training.epochs=1", "--set", "run.folder=run-series")

    def test_init_of_masks_given_parts_and_flat_features(self):
        rng = np.random.default_rng(8)
        with h5py.File(self.path("masks.h5"), "w") as file:
            file["x_train"], file["x_val"] = (rng.normal(0, 1, (n, 16, 12, 1)).astype("f4") for n in (24, 8))
            file["mask_train"], file["mask_val"] = (file[f"x_{part}"][..., 0] > 0.3 for part in ("train", "val"))
        _, text = self.init("masks.h5", name="masks.toml")
        self.assertIn('validation = { samples = "x_val", labels = "mask_val" }', text)
        self.assertIn('preset = "unet"', text)
        self.mrmf("train", "masks.toml", "--set", "training.epochs=1")
        with h5py.File(self.path("flat.h5"), "w") as file:
            file["features"], file["target"] = rng.normal(0, 1, (40, 5)), rng.normal(3e5, 1e4, 40)
        _, text = self.init("flat.h5", name="flat.toml")
        self.assertNotIn("axes", text)
        self.mrmf("train", "flat.toml", "--set", "training.epochs=1", "--set", "run.folder=flat")

    def test_init_of_channels_that_are_constant(self):
        rng = np.random.default_rng(11)
        x, target = rng.normal(1 / 3, 1, (60, 5)), rng.normal(0, 1, (60, 2))
        target[:, 1] = 3
        text, _ = self.made("labels", features=x, target=target)
        self.assertIn('normalise.samples = "mean_std"', text)
        found = [float(m) for m in re.search(r"label_mean = \[(.*)\]", text)[1].split(",")]
        np.testing.assert_allclose(found, target.astype("f4").astype("f8").mean(axis=0), rtol=1e-12)  # nothing is rounded
        deviations = [float(m) for m in re.search(r"label_std = \[(.*)\]", text)[1].split(",")]
        self.assertEqual(deviations[1], 1)
        self.trains("labels")
        x[:, 2] = 7
        text, _ = self.made("both", features=x, target=target)
        self.assertRegex(text, r"sample_std = \[.*, 1, .*\]")
        self.trains("both")

    def test_init_sees_the_labels_of_all_files(self):
        for i in range(3):
            with h5py.File(self.path(f"{i}.h5"), "w") as file:
                file["x"], file["label"] = np.random.default_rng(i).normal(i, 1, (20, 6)), np.full(20, i)
        said, text = self.init("0.h5", "1.h5", "2.h5", name="made.toml")
        self.assertIn("3 classes, one per sample", said)
        self.assertIn('loss = "cross_entropy"', text)
        self.trains("made")

    def test_init_of_classes_of_positions(self):
        rng = np.random.default_rng(12)
        masks = rng.integers(0, 14, (4, 8, 8, 8))
        text, said = self.made("few", volumes=rng.normal(0, 1, (4, 8, 8, 8, 2)), segmentation=masks.astype("u1"))
        self.assertIn('samples = "volumes", labels = "segmentation"', text)
        self.assertIn("14 classes, one per position", said)
        self.trains("few")
        text, said = self.made("line", samples=rng.normal(0, 1, (40, 32, 3)), gt=rng.integers(0, 4, (40, 32), "u1"))
        self.assertIn("4 classes, one per position", said)
        self.assertIn('preset = "unet"', text)
        self.trains("line")
        marks = np.array([0, 255], "u1")[rng.integers(0, 2, (40, 8, 8))]
        with h5py.File(self.path("marks.h5"), "w") as file:
            file["x"], file["mask"] = rng.normal(0, 1, (40, 8, 8, 1)), marks
            file["grades"] = np.array([0, 100, 255], "u1")[rng.integers(0, 3, (40, 8, 8))]
            file["kind"] = np.array([0, 5, 9])[rng.integers(0, 3, 40)]
        self.fails(3, "init", "marks.h5", "--labels", "grades", "-o", "marks.toml", message="whole numbers 0, 100, 255 per position")
        self.assertFalse(os.path.exists(self.path("marks.toml")))
        said = self.mrmf("init", "marks.h5", "--labels", "mask", "-o", "masks.toml")  # pictures have such masks
        self.assertIn("'mask' holds 0 and 255: 2 classes, one per position", said)
        self.assertIn("class_values = [0, 255]", self.read("masks.toml"))
        self.trains("masks")
        said = self.mrmf("init", "marks.h5", "--labels", "kind", "-o", "marks.toml")
        self.assertIn("only 0, 5, 9", said)
        self.assertIn('loss = "mse"', self.read("marks.toml"))

    def test_init_reads_names_by_words(self):
        rng = np.random.default_rng(13)
        x, y = rng.normal(0, 1, (40, 12, 3)), rng.normal(0, 1, 40)
        for samples, labels in (("values", "y"), ("width", "yTrue"), ("latest", "groundTruth_1"), ("devices", "param")):
            text, _ = self.made(samples, **{samples: x, labels: y, "id": np.arange(40)})
            self.assertIn(f'samples = "{samples}", labels = "{labels}"', text)
        text, _ = self.made("glued", xtrain=x, ytrain=y, xtest=x[:20], ytest=y[:20])
        self.assertIn('train = { samples = "xtrain", labels = "ytrain" }', text)
        self.assertIn('validation = { samples = "xtest", labels = "ytest" }', text)

    def test_masks_with_channels_last_beside_samples_with_channels_first(self):
        rng = np.random.default_rng(14)
        x = rng.normal(0, 1, (40, 3, 16, 24)).astype("f4")
        mask = (x.sum(axis=1) > 0).astype("u1")
        text, _ = self.made("last", x=x, mask=mask[..., None])
        self.assertIn('axes = "n c y x"', text)
        self.trains("last")
        for name, stored in (("none", mask), ("first", mask[:, None])):
            self.made(name, x=x, mask=stored)
            self.trains(name)
            self.assertEqual(self.losses(f"run-{name}"), self.losses("run-last"))
        with h5py.File(self.path("bad.h5"), "w") as file:
            file["x"], file["mask"] = x, np.zeros((40, 16, 24, 3), "u1")
        self.fails(3, "train", "last.toml", "--set", 'data.files=["bad.h5"]', "--set", "run.folder=none",
                   message="has shape (40, 16, 24, 3)")

    def test_advice_on_what_is_contiguous_already(self):
        x = np.random.default_rng(0).normal(0, 1, (48, 16, 2))
        for dtype in (">f4", "?"):
            with h5py.File(self.path("c.h5"), "w") as file:
                file["x"], file["y"] = x.astype(dtype) if dtype != "?" else x > 0, np.arange(48.0)
            self.write("c.toml", support.rows_config("flatten", "dense units=1", files=["c.h5"]))
            said = self.mrmf("data", "c.toml")
            self.assertNotIn("h5repack", said)
            if "converted by HDF5" in said:
                self.assertIn("advice: 'x' is contiguous, converted by HDF5, so it is read by one thread: written as plain", said)

    def test_init_of_files_that_say_nothing(self):
        with h5py.File(self.path("one.h5"), "w") as file:
            file["only"] = np.zeros((4, 8, 8), "f4")
        self.fails(3, "init", "one.h5", message="name them with --samples and --labels")
        self.fails(3, "init", "none/*.h5", message="no file matches none/*.h5")
        self.fails(3, "init", "one.h5", "--samples", "other", message="there is no array 'other'")
        self.write("text.h5", "no HDF5")
        self.fails(3, "init", "text.h5", message="text.h5")
        self.assertFalse(os.path.exists(self.path("run.toml")))

    def test_data_says_what_is_there_and_what_to_do(self):
        make_volumes(self.path("volumes.h5"))
        self.write("plain.toml", VOLUMES.replace('normalise.samples = "log1p_mean_std"\n', "").replace(
            'normalise.labels = "mean_std"\n', ""))
        text = self.mrmf("data", "plain.toml")
        self.assertIn("training: 60 samples in 1 file", text)
        self.assertIn("float64, compressed (1 row a chunk), each 8x8x8x2", text)
        for advice in ('data.normalise.samples = "mean_std"', 'data.normalise.labels = "mean_std"', "h5repack -l CONTI"):
            self.assertRegex(text, "advice: .*" + re.escape(advice))
        found = json.loads(self.mrmf("data", "plain.toml", "--json", ranks=2).strip().splitlines()[-1])
        with h5py.File(self.path("volumes.h5")) as file:
            train = file["field"][()][file["held_out"][()] == 0].astype("float32").astype("float64")
        channels = found["training"]["sample"]["channels"]
        np.testing.assert_allclose(channels["mean"], train.mean(axis=(0, 2, 3, 4)), rtol=1e-9)
        np.testing.assert_allclose(channels["most"], train.max(axis=(0, 2, 3, 4)), rtol=1e-9)
        make_images(self.path("images.h5"))
        self.write("images.toml", IMAGES)
        with h5py.File(self.path("images.h5")) as file:
            kinds = np.bincount(file["kind"][()])
        found = json.loads(self.mrmf("data", "images.toml", "--json"))
        counts = [found[part]["class_counts"] for part in ("training", "validation")]
        self.assertEqual(np.sum(counts, axis=0).tolist(), kinds.tolist())
        make_series(self.path("series"))
        self.write("series.toml", SERIES.replace('not_finite = "skip"\n', ""))
        text = self.mrmf("data", "series.toml")
        self.assertIn('data.not_finite = "skip"', text)
        self.assertIn("series/04.h5: 2, 3", text)
        self.assertNotIn("left out", self.mrmf("data", "series.toml", "--headers"))


if __name__ == "__main__":
    support.main()
