"""mrmf init on files that are not as one would wish: what it says, and that what it writes trains."""
import os
import unittest

import h5py
import numpy as np

from people_files import InitTest


class DatasetGuess(InitTest):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(21)

    def refused(self, name, message, *options, code=3, **arrays):
        self.file(name, **arrays)
        self.fails(code, "init", f"{name}.h5", "-o", f"{name}.toml", *options, message=message)
        self.assertFalse(os.path.exists(self.path(f"{name}.toml")))

    def images(self, rows=60, size=8):
        return self.rng.normal(0, 1, (rows, size, size)).astype("f4")


class Numbers(DatasetGuess):
    def test_numbers_beyond_float32_are_no_reason_to_skip(self):
        x, flux = self.rng.normal(0, 1, (60, 5)), np.logspace(36, 46, 60)
        self.refused("flux", "which is beyond float32's 3.4e38; store the numbers in other units, or their logarithm",
                     x=x, y=flux)
        self.refused("samples", "data set 'x', row 3 holds 1e+40, which is beyond", x=np.where(np.arange(60)[:, None] == 3, 1e40, x),
                     y=flux / 1e40)
        text, said = self.made("some", x=x, y=np.where(np.arange(60) % 20 == 3, np.nan, flux / 1e40))
        self.assertIn("3 of 60 rows hold NaN or infinity and are left out", said)
        self.assertIn('not_finite = "skip"  # 3 rows', text)
        self.trains("some")
        self.file("some", x=x, y=flux)
        self.fails(3, "train", "some.toml", "--set", "run.folder=a", message="which is beyond float32's 3.4e38")
        self.fails(3, "train", "some.toml", "--set", "data.not_finite=refuse", "--set", "run.folder=b",
                   message="which is beyond float32's 3.4e38")
        self.file("cubes", x=np.full((2, 4, 4, 1), 1e40))
        self.fails(3, "coarsen", "cubes.h5", "--factor", "2,2", "-o", "c", message="row 0 holds 1e+40, which is beyond")

    def test_digits_that_float32_does_not_keep(self):
        x, days = self.rng.normal(0, 1, (60, 5)), 2459000 + self.rng.uniform(0, 0.05, 60)
        self.refused("days", "knows only every 0.25 there; subtract 2459000 before storing them", x=x, julian=days)
        late = x.copy()
        late[:, 3] = 2459000 + self.rng.uniform(0, 5, 60)  # rounded, but not to one number
        self.refused("late", "in channel 3, and float32", x=late, y=x[:, 0])
        stamps = 1_700_000_000 + self.rng.integers(0, 500, 60)
        self.refused("stamps", "subtract 1700000000 before", x=x, y=stamps)
        self.made("good", x=x, y=days - 2459000)
        self.trains("good")
        self.file("good", x=x, y=days)
        self.fails(3, "train", "good.toml", "--set", "run.folder=a", message="subtract 2459000 before")
        self.assertIn("subtract 2459000 before", self.mrmf("data", "good.toml"))
        self.made("exact", x=x, y=(2**23 + np.arange(60) % 2 * 3).astype("f8"))  # few steps, but none is lost
        self.trains("exact")

    def test_logarithms_for_samples_over_orders_of_magnitude(self):
        density, y = self.rng.uniform(0, 1, (60, 64, 2)), self.rng.normal(0, 1, 60)
        density[::6, 5] = 1e5
        text, _ = self.made("density", x=density, y=y)
        self.assertIn('normalise.samples = "log1p_mean_std"', text)
        self.trains("density")
        for name, x in (("even", np.abs(self.rng.normal(0, 1, (60, 64, 2)))), ("signed", density - 1)):
            text, _ = self.made(name, x=x, y=y)
            self.assertIn('normalise.samples = "mean_std"', text)
        held_out = density[:20].copy()
        held_out[3, 2, 1] = -2
        text, _ = self.made("held_out", x_train=density, y_train=y, x_val=held_out, y_val=y[:20])
        self.assertIn('normalise.samples = "mean_std"', text)
        self.trains("held_out")

    def test_units_are_those_of_the_rows_that_train(self):
        x, y = self.rng.normal(0, 1, (60, 5)), self.rng.normal(0, 1, (60, 3))
        self.made("whole", x=x, y=y)
        self.trains("whole")
        self.mrmf("predict", "run-whole", "-o", "held.h5")
        with h5py.File(self.path("held.h5")) as file:
            held_out = file["row"][()]
        y[:, 2] = 0
        y[held_out, 2] = 1
        text, _ = self.made("apart", x=x, y=y)
        self.assertIn("normalise.label_std", text)
        self.trains("apart")
        text, _ = self.made("few", x=x[:8], y=y[:8, :2])
        self.assertIn("# The training samples are few, so these are given", text)
        self.trains("few")


class Validation(DatasetGuess):
    def test_validation_data_are_a_pair(self):
        x, y = self.images(), self.rng.normal(0, 1, 60)
        text, said = self.made("mixed", train_x=x, train_y=y, val_x=x[:20], test_x=x[:30], test_y=y[:30])
        self.assertIn('validation = { samples = "test_x", labels = "test_y" }', text)
        self.assertIn("'test_x' and 'test_y' validate", said)
        self.assertIn("'val_x' is not used", said)
        self.trains("mixed")
        text, said = self.made("three", train_x=x, train_y=y, val_x=x[:20], val_y=y[:20], test_x=x[20:30], test_y=y[20:30])
        self.assertIn('validation = { samples = "val_x", labels = "val_y" }', text)
        test = 'test = { samples = "test_x", labels = "test_y" }'
        self.assertIn(f"'test_x' and 'test_y' are not used; to score a trained model on them, write {test}", said)
        self.write("three.toml", text.replace("validation =", test + "\nvalidation ="))
        self.trains("three")
        self.assertIn("10 samples of test_x", self.mrmf("evaluate", "run-three", "--split", "test"))
        text, said = self.made("rows", train_x=x, train_y=y, val_x=x[:20], val_y=y[:10])
        self.assertIn('by = "rows"', text)
        text, _ = self.made("twice", train__train_x=x, train__train_y=y, val__val_x=x[:20], val__val_y=y[:20])
        self.assertIn('validation = { samples = "val/val_x", labels = "val/val_y" }', text)

    def test_validation_data_are_looked_at(self):
        x, kind = self.images(), np.arange(60) % 3
        held_out, more = x[:20].copy(), kind[:20].copy()
        held_out[4, 0, 0] = np.nan
        more[7] = 3  # a class that no training sample has
        text, said = self.made("val", x_train=x, y_train=kind, x_val=held_out, y_val=more)
        self.assertIn("1 of 80 rows hold NaN", said)
        self.assertIn('not_finite = "skip"', text)
        self.assertIn("outputs = 4", text)
        self.trains("val")


class Labels(DatasetGuess):
    def test_whole_numbers_in_floats_are_told(self):
        x = self.images()
        _, said = self.made("floats", x=x, y=(np.arange(60) % 10).astype("f8"))
        self.assertIn("these are whole numbers of 0 to 9 in float64", said)
        self.assertIn('set training.loss = "cross_entropy" and 10 outputs', said)
        text, said = self.made("mask", x=x, mask=(x > 0).astype("f4"))
        self.assertIn("these are whole numbers of 0 to 1 in float32", said)
        self.mrmf("train", "mask.toml", "--set", "training.epochs=1", "--set", "training.loss=cross_entropy", "--set",
                  "model.outputs=2", "--set", "data.normalise.labels=none")
        _, said = self.made("flags", x=x, y=self.rng.integers(0, 2, (60, 4)).astype("f4"))
        self.assertIn("these are zeros and ones in float32", said)
        _, said = self.made("many", x=self.rng.normal(0, 1, (900, 5)), y=np.arange(900) % 300)
        self.assertIn('these are whole numbers of 0 to 299, which are learned as numbers; if they are classes, set', said)
        _, said = self.made("numbers", x=x, y=self.rng.normal(0, 1, 60))
        self.assertNotIn("these are", said)

    def test_labels_that_do_not_fit(self):
        x = self.images(size=16)
        for name, y, rows in (("keypoints", self.rng.normal(0, 1, (60, 4, 2)), "(60, 8)"),
                              ("hr", self.rng.normal(0, 1, (60, 32, 32)), "(60, 1024)"),
                              ("target", np.zeros((60, 1, 1)), "(60, 1)")):
            self.refused("fit", f"'{name}' ({', '.join(map(str, y.shape))}) does not fit 'x' (60, 16, 16): ", "--samples", "x", "--labels", name, **{"x": x, name: y})
            self.refused("fit", f"are stored as {rows}; store them so, or name others with --labels", "--samples", "x",
                         "--labels", name, **{"x": x, name: y})
        self.refused("matrix", "are stored as (60, 9)", x=self.rng.normal(0, 1, (60, 64, 2)), y=self.rng.normal(0, 1, (60, 3, 3)))

    def test_a_choice_among_equals_is_told(self):
        values = {name: self.rng.normal(0, 1, 60) for name in ("dec", "ra", "redshift")}
        text, said = self.made("sky", images=self.images(), objid=np.arange(60), **values)
        self.assertIn("'dec' is taken for the labels; 'ra', 'redshift' would do as well: choose with --labels", said)
        text, said = self.made("named", "--labels", "redshift", images=self.images(), objid=np.arange(60), **values)
        self.assertNotIn("would do", said)
        text, said = self.made("fields", density=self.images(), velocity=self.images(), y=values["ra"])
        self.assertIn("'velocity' would do as well: choose with --samples", said)
        text, said = self.made("noise", clean=self.images(), noisy=self.images())
        self.assertIn('train = { samples = "noisy", labels = "clean" }', text)

    def test_all_that_may_be_the_labels_is_told(self):
        x, kind, params = self.images(), np.arange(60) % 3, self.rng.normal(0, 1, (60, 2))
        images = np.stack([x, x, x], 1)
        beside = {"id": np.arange(60), "held_out": np.arange(60) % 5 == 0, "names": np.array(["a", "b"] * 30, "S1"),
                  "small": images[:, 0, ::2, ::2], "few": np.arange(59)}
        text, said = self.made("kinds", images=images, kind=kind, params=params, **beside)
        self.assertIn('labels = "kind"', text)
        self.assertIn("'kind' is taken for the labels; 'params' would do as well: choose with --labels\n", said)
        text, said = self.made("faster", images=images, velocity=params, direction=kind)
        self.assertIn("'direction' is taken for the labels; 'velocity' would do as well: choose with --labels", said)
        text, said = self.made("splits", x_train=images, y_train=kind, z_train=params, x_val=images, y_val=kind)
        self.assertIn("'y_train' is taken for the labels; 'z_train' would do as well: choose with --labels\n", said)
        text, said = self.made("masks", images=images, truth=kind, inside=(x > 0).astype("u1"))
        self.assertIn("'truth' is taken for the labels; 'inside' would do as well: choose with --labels\n", said)
        text, said = self.made("one", images=images, kind=kind, **beside)
        self.assertNotIn("would do", said)

    def test_a_mask_as_large_as_its_image_is_not_taken_for_the_samples(self):
        x = self.images()
        text, said = self.made("named", x=x, m=(x > 0).astype("u1"))
        self.assertIn('train = { samples = "x", labels = "m" }', text)
        self.assertIn("'x' is taken for the samples; 'm' would do as well: choose with --samples", said)
        _, said = self.made("marks", x=x, m=255 * (x > 0).astype("u1"))
        self.assertIn("'m' holds 0 and 255: 2 classes, one per position", said)
        self.refused("grades", "'m' holds the whole numbers 0, 100, 255 per position", x=x, m=(100 * (x > 0) + 155 * (x > 1)).astype("u1"))
        text, _ = self.made("deep", images=np.stack([x, x], -1), m=x)  # the most numbers per row come before floats
        self.assertIn('samples = "images"', text)

    def test_classes_that_never_occur_are_counted(self):
        _, said = self.made("one", x=self.images(), y=np.array([0, 1, 2, 4])[np.arange(60) % 4])
        self.assertIn("1 of these classes never occurs\n", said)
        kinds = np.array([0, 1, 2, 4, 5, 7, 8, 9])
        _, said = self.made("two", x=self.images(), y=kinds[np.arange(60) % 8])
        self.assertIn("2 of these classes never occur\n", said)

    def test_what_cannot_be_labels_or_samples(self):
        x, y = self.images(), self.rng.normal(0, 1, 60)
        self.refused("test", "'x_test' (60, 8, 8) is named as data for validation or tests; if it is to train, name it "
                     "with --samples x_test", x_test=x, y_test=y)
        self.made("test", "--samples", "x_test", x_test=x, y_test=y)
        self.trains("test")
        words = np.array([f"{i}" for i in range(60)], dtype="S2")
        for more in ((), ("--labels", "species")):
            self.refused("words", "'species' holds texts such as \"0\" and no numbers; store them as numbers", *more, x=x, species=words)
        for more in ((), ("--labels", "y")):
            self.refused("column", "'y' (1, 60) has the 60 rows of 'x' (60, 8, 8) in its last axis; store it transposed",
                         *more, x=x, y=y[None])
        turned = np.moveaxis(np.stack([x, x, x], -1), 0, -1)
        self.refused("turned", "'x' (8, 8, 3, 60) has the 60 rows of 'y' (60) in its last axis; store it with these "
                     "first, such as numpy.moveaxis(x, -1, 0)", x=turned, y=y)
        self.refused("matlab", "'x' (8, 8, 3, 60) and 'y' (1, 60) have the same size in their last axes, where MATLAB and "
                     "Fortran keep rows", x=turned, y=y[None])
        self.refused("turned", "store the data set with them first, such as numpy.moveaxis(x, 3, 0)", "--labels", "y",
                     "--axes", "y x c n", code=2, x=turned, y=y)


class Output(DatasetGuess):
    def test_of_two_mistakes_the_input_s_is_told(self):
        self.file("data", x=self.images(), y=self.rng.normal(0, 1, 60))
        self.write("run.toml", "precious")
        self.write("p.toml", "not data")
        self.fails(3, "init", "none.h5", message="none.h5: no such file")
        self.fails(3, "init", "data.h5", "none.h5", message="none.h5: no such file")
        for output in ("p.toml", "run.toml", "new.toml"):
            self.fails(3, "init", "p.toml", "-o", output, message="p.toml: not an HDF5 file (")
        self.fails(2, "init", "data.h5", message="run.toml: is there already")
        self.assertEqual(self.read("run.toml"), "precious")

    def test_every_configuration_has_a_run_of_its_own(self):
        self.file("data", x=self.images(), y=self.rng.normal(0, 1, 60))
        os.mkdir(self.path("sub"))
        for options, folder in (([], "runs/first"), (["-o", "p2.toml"], "runs/p2"), (["-o", "sub/p3.toml"], "runs/p3"),
                                (["-o", "p4.toml", "--folder", "there"], "there")):
            self.mrmf("init", "data.h5", *options)
            text = self.read(options[1] if options else "run.toml")
            self.assertIn(f'folder = "{folder}"', text)


class Axes(DatasetGuess):
    def test_many_channels(self):
        y = self.rng.normal(0, 1, 40)
        for name, shape, axes, other in (("eeg", (19, 256), 'axes = "n c x"', 'positions, give --axes "n y x"'),
                                         ("last", (160, 20), None, 'positions, give --axes "n y x"'),
                                         ("wide", (24, 192), 'axes = "n c x"', 'if the axis of 24 holds positions'),
                                         ("images", (64, 64), 'axes = "n y x"', None),
                                         ("oblong", (24, 48), 'axes = "n y x"', 'channels, give --axes "n c x"'),
                                         ("nearly", (40, 48), 'axes = "n y x"', None),
                                         ("bands", (48, 48, 20), 'axes = "n z y x"', 'channels, give --axes "n y x c"')):
            with self.subTest(name):
                text, said = self.made(name, x=self.rng.normal(0, 1, (40, *shape)).astype("f4"), y=y)
                self.assertEqual("axes = " in text.split("[data]")[1], axes is not None)
                self.assertIn(axes or "[data]", text)
                if other:
                    self.assertIn(other, said)
                else:
                    self.assertNotIn("--axes", said)
        self.trains("eeg")
        text, _ = self.made("given", "--axes", "n y x c", x=self.rng.normal(0, 1, (40, 12, 12, 20)), y=y)
        self.assertIn('axes = "n y x c"', text)
        self.trains("given")


class OneThatDiffers(DatasetGuess):
    """One of many files or groups lacks something, or has it in another shape."""

    def member(self, group, number, shape=(16, 16, 16), om=True):
        group["density"], group["bins"], group["par"] = self.rng.normal(0, 1, shape), np.linspace(0, 1, 16), [number, number / 2]
        if om:
            group.attrs["om"] = 0.3 * number

    def test_an_attribute_that_is_not_everywhere_decides_nothing(self):
        with h5py.File(self.path("groups.h5"), "w") as groups:
            for i in range(6):
                with h5py.File(self.path(f"s{i}.h5"), "w") as file:
                    self.member(file, i, om=i != 4)
                self.member(groups.create_group(f"sim_{i}"), i, om=i != 4)
        for files, form, lacking, other in (("s[0-9].h5", "each of 6 files is one sample", "s4.h5", "s0.h5"),
                                            ("groups.h5", 'each of 6 groups that fit "sim_*" is one sample', "sim_4", "sim_0")):
            said = self.mrmf("init", files, "-o", "run.toml", "--overwrite")
            self.assertIn(form, said)
            self.assertIn(f"'@om' is not used: {lacking} has no '@om', and {other} has one", said)
            self.assertIn("'par' holds", said)

    def test_another_shape_is_told(self):
        with h5py.File(self.path("groups.h5"), "w") as groups:
            for i in range(6):
                shape = (16, 16, 12 if i == 4 else 16)
                with h5py.File(self.path(f"s{i}.h5"), "w") as file:
                    self.member(file, i, shape)
                self.member(groups.create_group(f"sim_{i}"), i, shape)
        for files, differs in (("groups.h5", "'density' of sim_4 is (16, 16, 12)"), ("s[0-9].h5", "'density' of s4.h5 is (16, 16, 12)")):
            self.fails(3, "init", files, "-o", "run.toml", message=differs)
            self.assertFalse(os.path.exists(self.path("run.toml")))


if __name__ == "__main__":
    unittest.main()
