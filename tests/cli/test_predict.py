"""mrmf predict: data sets that go along, several models at once, passes with dropout."""
import os
import re
import shutil
import tempfile
import unittest

import h5py
import numpy as np

import support

CONFIG = """
[data]
files = ["a.h5", "b.h5"]
train = { samples = "x", labels = "%(labels)s" }
split = { by = "rows", validation = 0.4, seed = 4 }
not_finite = "skip"
normalise.samples = "mean_std"
%(data)s
[training]
batch = 8
epochs = 2
optimizer.learning_rate = 1e-2
%(training)s
[method]
name = "baseline"
[run]
threads = 1
""" + support.layers("conv filters=4 kernel=3", "batch_norm", "max_pool window=2", "relu", "flatten",
                     "dropout rate=%(rate)s", "dense units=%(units)d")
NUMBERS = {"labels": "y", "data": 'normalise.labels = "mean_std"', "training": "", "rate": "0.3", "units": 2}
CLASSES = {**NUMBERS, "labels": "kind", "data": "", "training": 'loss = "cross_entropy"', "units": 3}
BINARY = {**NUMBERS, "labels": "flags", "data": "", "training": 'loss = "binary_cross_entropy"'}

# One of each type, two of them big-endian.
TYPES = ("<f2", ">f4", "<f8", "i1", "u1", "<i2", "<u2", ">i4", "<u4", "<i8", "<u8")
ROWS = {"a.h5": 40, "b.h5": 30}


def make_data(folder):
    """Series in two files, one row of which is not finite, with what one may know of a row beside it."""
    rng = np.random.default_rng(0)
    first = 0
    for name, rows in ROWS.items():
        with h5py.File(os.path.join(folder, name), "w") as file:
            x = rng.normal(3, 2, (rows, 16, 2)).astype("float32")
            y = x.mean(axis=1)
            file["y"] = (1000 + 50 * y).astype("float32")
            file["kind"] = np.digitize(y[:, 0], (2.8, 3.2)).astype("int64")
            file["flags"] = (y > 3).astype("uint8")
            if name == "b.h5":
                x[7, 3, 1] = np.nan
            file["x"] = x
            file["id"] = np.arange(first, first + rows, dtype="int64") + 2**40
            file.create_dataset("place/mask", data=rng.integers(0, 2, (rows, 4, 3)).astype(bool), chunks=(7, 4, 3),
                                compression="gzip")
            for kind in TYPES:
                file["of_" + kind.strip("<>")] = rng.integers(0, 100, (rows, 2)).astype(kind)
            file["short"] = np.zeros(rows - 1)
            file["text"] = [b"words"] * rows
            file["one"] = 1.0
            file["row"] = np.arange(rows)
            file["mixed"] = np.zeros(rows, "int16" if name == "a.h5" else "int32")
            file["wide"] = np.zeros((rows, 2 if name == "a.h5" else 3))
            file.create_dataset("unwritten", (rows,), "float32", chunks=(5,))
            if name == "a.h5":
                file["here_alone"] = np.zeros(rows)
            first += rows


class Predict(support.MrmfTest):
    """All tests begin with the same data and runs."""

    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        cls.addClassCleanup(made.cleanup)
        cls.made = made.name
        make_data(cls.made)
        self = cls("made_once")
        self.folder = cls.made
        for run, config, *more in (("n1", NUMBERS), ("n2", NUMBERS, "training.seed=2"),
                                   ("n3", NUMBERS, "training.seed=3"), ("other_split", NUMBERS, "data.split.seed=5"),
                                   ("c1", CLASSES), ("c2", CLASSES, "training.seed=2"), ("b1", BINARY),
                                   ("b2", BINARY, "training.seed=2"), ("dry", {**NUMBERS, "rate": "0.0"}),
                                   ("hardly", {**NUMBERS, "rate": "1e-6"})):
            self.write(run + ".toml", CONFIG % config)
            self.mrmf("train", run + ".toml", *(word for key in (f"run.folder={run}", *more) for word in ("--set", key)))

    def made_once(self):
        pass

    def setUp(self):
        super().setUp()
        shutil.copytree(self.made, self.folder, dirs_exist_ok=True)

    def predict(self, *words, output="out.h5", **options):
        self.text = self.mrmf("predict", *words, "-o", output, "--overwrite", **options)
        with h5py.File(self.path(output)) as file:
            made = {}
            file.visititems(lambda name, item: made.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
            return made

    def inputs(self, name):
        values = []
        for path in ROWS:
            with h5py.File(self.path(path)) as file:
                values.append(file[name][()])
        return values

    def check_equal(self, a, b, tolerance=0):
        self.assertEqual(set(a), set(b))
        for name in a:
            if a[name].dtype.kind == "f":
                spread = np.abs(b[name]).max()
                np.testing.assert_allclose(a[name], b[name], rtol=0, atol=tolerance * spread, err_msg=name)
            else:
                np.testing.assert_array_equal(a[name], b[name], err_msg=name)

    def check_appended(self, made, names):
        for name in names:
            stored = self.inputs(name)
            want = np.stack([stored[f][r] for f, r in zip(made["file"], made["row"])])
            np.testing.assert_array_equal(made[name], want, err_msg=name)
            self.assertEqual(made[name].dtype, want.astype(want.dtype.newbyteorder("=")).dtype, name)

    def test_rows_of_other_data_sets_go_along(self):
        names = ["id", "place/mask", "x", *("of_" + kind.strip("<>") for kind in TYPES)]
        made = self.predict("n1", "--append", *names)
        self.assertIn("out.h5: 28 rows; prediction 28x2, file, row, id, place/mask, x", self.text)
        self.assertEqual(len(made["id"]), 28)
        self.assertEqual({0, 1}, set(made["file"].tolist()))
        self.check_appended(made, names)
        every = self.predict("n1", "--files", "?.h5", "--append", "/id", "place//mask")
        self.assertEqual(len(every["id"]), 69)
        self.assertNotIn(2**40 + 47, every["id"])  # not finite
        self.check_appended(every, ["id", "place/mask"])
        self.check_equal(every, self.predict("n1", "--files", "?.h5", "--append", "id", "place/mask", ranks=2), 1e-6)

    def test_names_and_units_go_along(self):
        def appended(names=({"cat": 1, "dog": 4},) * 2, units=("days since 2000-01-01",) * 2):
            for path, kind, unit in zip(ROWS, names, units):
                with h5py.File(self.path(path), "r+") as file:
                    for name in "kind", "when", "flag":
                        if name in file:
                            del file[name]
                    rows = len(file["x"])
                    file.create_dataset("kind", data=np.arange(rows) % 2 * 3 + 1, dtype=h5py.enum_dtype(kind, "u2"))
                    file["when"] = np.arange(rows, dtype="f8")
                    file["when"].attrs.update(units=unit, calendar="noleap", _Netcdf4Dimid=np.int32(1))
                    file["flag"] = (np.arange(rows) % 3).astype("u1")
                    file["flag"].attrs.update(flag_values=np.arange(3, dtype="u1"), flag_meanings="good fair bad")

        append = ["--append", "kind", "when", "flag"]
        appended()
        for ranks in 0, 2:
            self.check_appended(self.predict("n1", *append, ranks=ranks), ["kind", "when", "flag"])
            with h5py.File(self.path("out.h5")) as file:
                self.assertEqual(h5py.check_enum_dtype(file["kind"].dtype), {"cat": 1, "dog": 4})
                self.assertEqual(file["kind"].dtype, np.dtype("u2"))
                self.assertEqual(dict(file["when"].attrs), {"units": "days since 2000-01-01", "calendar": "noleap"})
                self.assertEqual(file["flag"].attrs["flag_meanings"], "good fair bad")
        appended(names=({"cat": 1, "dog": 4}, {"owl": 1, "dog": 4}))
        self.fails(3, "predict", "n1", *append, "-o", "p.h5", message="calls 1 'owl', and a.h5: data set 'kind' 'cat'")
        appended(units=("days since 2000-01-01", "days since 2001-01-01"))
        self.fails(3, "predict", "n1", *append, "-o", "p.h5", message="is in days since 2001-01-01, and a.h5: data set 'when' in")
        appended(names=({"cat": 1, "dog": 4}, {"cat": 1, "dog": 4, "owl": 5}))  # one more contradicts nothing
        self.check_appended(self.predict("n1", *append), ["kind"])
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(h5py.check_enum_dtype(file["kind"].dtype), {"cat": 1, "dog": 4, "owl": 5})

    def test_units_that_the_first_file_does_not_say(self):
        for path, units in zip(ROWS, ("", "K")):
            shutil.copy(self.path(path), self.path("c.h5"))
            with h5py.File(self.path(path), "r+") as file:
                file["t"] = np.zeros(len(file["x"]))
                file["t"].attrs.update({"units": units} if units else {})
        with h5py.File(self.path("c.h5"), "r+") as file:
            file["t"] = np.zeros(len(file["x"]))
            file["t"].attrs["units"] = "degC"
        self.fails(3, "predict", "n1", "--files", *ROWS, "c.h5", "--append", "t", "-o", "p.h5",
                   message="c.h5: data set 't' is in degC, and b.h5: data set 't' in K")

    def test_attributes_with_a_row_for_each_sample_and_marked_numbers(self):
        for path, missing in zip(ROWS, (-1, -9)):
            with h5py.File(self.path(path), "r+") as file:
                file.attrs["ids"] = np.arange(len(file["x"]))
                file["marked"] = np.arange(len(file["x"]))
                file["marked"].attrs["_FillValue"] = np.int64(missing)
        self.predict("n1", "--append", "@ids", "marked")
        with h5py.File(self.path("out.h5")) as file:
            self.assertEqual(len(file["@ids"]), len(file["prediction"]))
            self.assertEqual(dict(file["marked"].attrs), {})  # of one file alone

    def test_what_cannot_be_appended(self):
        for names, code, message in (
                (["short"], 3, "has 39 rows, and 'x' has 40"), (["nowhere"], 3, "no data set 'nowhere'"),
                (["one"], 3, "single value"), (["place"], 3, "is a group"),
                (["row"], 2, "predict may write 'row' itself"), (["/prediction"], 2, "predict may write 'prediction'"),
                (["files/x"], 2, "predict may write 'files' itself"), (["id", "/id"], 2, "'id' is there already"),
                (["place/mask", "place"], 2, "is there already"), (["/"], 2, "name a data set"),
                (["mixed"], 3, "holds int32, and that in a.h5 int16"), (["wide"], 3, "rows of shape (3)"),
                (["here_alone"], 3, "b.h5: no data set 'here_alone'"), (["unwritten"], 3, "row 0")):
            with self.subTest(names=names):
                self.fails(code, "predict", "n1", "-o", "out.h5", "--append", *names, message=message)
                self.assertFalse(os.path.exists(self.path("out.h5")))
        self.predict("n1", "--missing", "fill", "--append", "unwritten")
        self.fails(3, "predict", "n1", "-o", "p.h5", "--append", "short", message="a row per sample", ranks=2)

    def test_rows_that_are_not_finite_are_left_out_where_the_run_refuses_them(self):
        self.mrmf("train", "n1.toml", "--set", "data.not_finite=refuse", "--set", 'data.files=["a.h5"]',
                  "--set", "run.folder=strict")
        for command in (["predict", "-o", "out.h5"], ["evaluate"]):
            self.fails(3, *command, "strict", "--files", "b.h5", message="b.h5: data set 'x', row 7 holds NaN")
            self.fails(3, *command, "strict", "--files", "b.h5", message="(evaluate and predict: --not-finite skip)")
            self.fails(3, *command, "n1", "--files", "b.h5", "--not-finite", "refuse", message="row 7 holds NaN")
        made = self.predict("strict", "--files", "b.h5", "--not-finite", "skip")
        self.assertEqual(made["row"].tolist(), [row for row in range(ROWS["b.h5"]) if row != 7])
        self.assertIn("29 samples of x", self.mrmf("evaluate", "strict", "--files", "b.h5", "--not-finite", "skip"))

    def test_training_rows_among_the_samples_are_told(self):
        words = "training rows; without --files and --samples only validation rows are taken"
        for command, *more in (("evaluate", "--labels", "y"), ("predict", "-o", "rows.h5", "--overwrite")):
            self.assertNotIn("training rows", self.mrmf(command, "n1", *more))
            text = self.mrmf(command, "n1", "--samples", "x", *more)
            self.assertIn(f"n1: 41 of these 69 rows are {words}", text)  # 28 validate, and one is left out
            of_files = [int(re.search(rf"n1: (\d+) of these {rows} rows are {words}", self.mrmf(
                command, "n1", "--files", os.path.join(self.folder, name), *more, ranks=ranks))[1])
                        for name, rows, ranks in (("a.h5", 40, 0), ("b.h5", 29, 2))]
            self.assertEqual(sum(of_files), 41)
            shutil.copy(self.path("a.h5"), self.path("others.h5"))
            self.assertNotIn("training rows", self.mrmf(command, "n1", "--files", "others.h5", *more))
            os.rename(self.path("b.h5"), self.path("gone.h5"))
            self.assertIn("n1: a.h5 holds rows that it was trained on; without --files",
                          self.mrmf(command, "n1", "--files", "a.h5", *more))
            os.rename(self.path("gone.h5"), self.path("b.h5"))

    def test_samples_of_another_size_or_kind(self):
        with h5py.File(self.path("long.h5"), "w") as file:
            file["x"], file["wide"] = np.random.rand(20, 24, 2), np.random.rand(20, 16, 5)
            file["flat"] = np.random.rand(20, 32)
        config = CONFIG.replace('type = "flatten"', 'type = "global_average_pool"')
        self.write("pool.toml", config % NUMBERS)
        self.mrmf("train", "pool.toml", "--set", "run.folder=pool")
        self.predict("pool", "--files", "long.h5", "--samples", "x")
        self.assertIn("samples are 24x2, the model was trained on 16x2\n", self.text)
        self.predict("pool")
        self.assertNotIn("was trained on", self.text)
        for run, name, shape in (("pool", "wide", "16x5"), ("n1", "wide", "16x5"), ("n1", "flat", "32")):
            self.fails(3, "predict", run, "--files", "long.h5", "--samples", name, "-o", "p.h5",
                       message=f"the model takes samples of 16x2; those of long.h5 (data set '{name}') are {shape}")

    def test_the_run_may_follow_the_name_of_the_samples(self):
        made = self.predict("--files", "b.h5", "--samples", "x", "n1")
        self.check_equal(made, self.predict("n1", "--samples", "x", "--files", "b.h5"))
        text = self.mrmf("evaluate", "--files", "a.h5", "--labels", "y", "--samples", "x", "n1")
        self.assertIn("40 samples of x with labels y", text)

    def test_mean_and_deviation_over_runs(self):
        alone = np.stack([self.predict(run)["prediction"] for run in ("n1", "n2", "n3")]).astype("float64")
        self.assertNotIn("deviation", self.predict("n1"))
        made = self.predict("n1", "n2", "n3", "--append", "id")
        self.assertIn("mean and deviation of 3 models", self.text)
        np.testing.assert_allclose(made["prediction"], alone.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(made["deviation"], alone.std(axis=0, ddof=1), rtol=1e-5)
        self.assertGreater(made["prediction"].min(), 500)  # the labels' own units
        self.check_appended(made, ["id"])
        self.check_equal(made, self.predict("n1", "n2", "n3", "--append", "id", ranks=2), 1e-6)
        run = self.read("n1/config.toml")
        self.assertIn('load = "auto"', run)
        self.write("n1/config.toml", run.replace('load = "auto"', 'load = "stream"'))
        self.check_equal(made, self.predict("n1", "n2", "n3", "--append", "id"))

    def test_models_that_see_samples_in_other_units(self):
        files = ("--files", "a.h5")
        alone = np.stack([self.predict(run, *files)["prediction"] for run in ("n1", "other_split")]).astype("float64")
        made = self.predict("n1", "other_split", *files)
        self.assertNotIn("trained on some of them", self.text)
        np.testing.assert_allclose(made["prediction"], alone.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(made["deviation"], alone.std(axis=0, ddof=1), rtol=1e-5)
        self.predict("n1", "other_split")
        self.assertIn("other_split: its own data are others than those of n1", self.text)

    def test_units_of_a_list_of_labels_are_undone_along_an_output_with_positions(self):
        rng = np.random.default_rng(2)
        with h5py.File(self.path("line.h5"), "w") as file:
            file["x"] = rng.normal(size=(12, 8, 1)).astype("f4")
            file["y"] = (np.arange(8) * 10 + rng.normal(size=(12, 8)) * np.arange(1, 9)).astype("f4")
        self.write("line.toml", support.rows_config("conv filters=1 kernel=3 padding=\"same\"", files=("line.h5",))
                   .replace("[data]", "[data]\nnormalise.labels = \"mean_std\""))
        self.mrmf("train", "line.toml", "--set", "run.folder=line", "--set", "training.epochs=1")
        self.mrmf("predict", "line", "-o", "line-p.h5", "--files", "line.h5", "--samples", "x")
        with h5py.File(self.path("line-p.h5")) as file:
            mean = file["prediction"][:].reshape(12, 8).mean(axis=0)
        np.testing.assert_allclose(mean, np.arange(8) * 10, atol=12)
        self.assertGreater(mean[7] - mean[0], 50)

    def test_probabilities(self):
        for runs in (("c1", "c2"), ("b1", "b2")):
            single = [self.predict(run) for run in runs]
            self.assertIn("28 rows; prediction and probability 28x" + ("3, class, file" if runs[0] == "c1" else "2, file"),
                          self.text)
            alone = np.stack([one["probability"] for one in single]).astype("float64")
            made = self.predict(*runs)
            np.testing.assert_allclose(made["probability"], alone.mean(axis=0), rtol=1e-5)
            np.testing.assert_array_equal(made["prediction"], made["probability"])
            np.testing.assert_allclose(made["deviation"], alone.std(axis=0, ddof=1), rtol=1e-4, atol=1e-6)
            if runs[0] == "c1":
                np.testing.assert_array_equal(made["class"], made["probability"].argmax(axis=1))
                self.assertEqual(made["class"].dtype, np.uint16)
            else:
                self.assertNotIn("class", made)

    def test_passes_with_dropout(self):
        plain = self.predict("n1")["prediction"]
        words = ("n1", "--dropout", "20", "--seed", "9")
        made = self.predict(*words)
        self.assertIn("mean and deviation of 20 passes with dropout", self.text)
        self.check_equal(made, self.predict(*words))
        self.check_equal(made, self.predict(*words, ranks=2), 3e-6)  # kernels round otherwise for other numbers of rows
        other = self.predict("n1", "--dropout", "20", "--seed", "10")
        self.assertFalse(np.any(other["deviation"] == made["deviation"]))
        self.assertTrue(np.all(made["deviation"] > 0))
        # The mean of so many passes lies near the output without dropout.
        distance = np.abs(made["prediction"] - plain) / (made["deviation"] / np.sqrt(20))
        self.assertLess(np.median(distance), 3)
        config = self.read("n1/config.toml")
        self.assertIn("batch = 8", config)
        self.write("n1/config.toml", config.replace("batch = 8", "batch = 3"))
        self.check_equal(made, self.predict(*words), 3e-6)

    def test_batch_norms_of_passes_with_dropout_are_those_of_evaluation(self):
        made, plain = self.predict("hardly", "--dropout", "2"), self.predict("hardly")
        np.testing.assert_array_equal(made["prediction"], plain["prediction"])  # the rate rounds to none
        np.testing.assert_array_equal(made["deviation"], 0 * plain["prediction"])

    def test_runs_and_passes_are_one_mixture(self):
        made = self.predict("n1", "n2", "--dropout", "1")
        self.assertIn("mean and deviation of 2 models, 1 pass with dropout each", self.text)
        many = self.predict("n1", "n2", "--dropout", "30")
        alone = self.predict("n1", "--dropout", "30")  # the first one's masks are the same
        second = 2 * many["prediction"].astype("float64") - alone["prediction"]
        runs = [alone["prediction"], second]
        # Of the mixture: the variance within the first is not above the sum of all squares.
        squares = 59 * many["deviation"].astype("float64")**2
        within = 29 * alone["deviation"].astype("float64")**2
        between = 30 * sum((run - many["prediction"])**2 for run in runs)
        self.assertTrue(np.all(squares >= (within + between) * (1 - 1e-3)))
        self.assertEqual(made["deviation"].shape, (28, 2))

    def test_models_that_do_not_go_together(self):
        self.write("three.toml", CONFIG % {**NUMBERS, "units": 1, "labels": "row"})
        self.mrmf("train", "three.toml", "--set", "run.folder=three")
        for words, code, message in (
                (["n1", "c1"], 2, "n1 and c1 cannot predict together: the task is numbers here and classes there"),
                (["n1", "three"], 2, "n1 and three cannot predict together: the output is 2 here and 1 there"),
                (["n1", "n2", "n1"], 2, "n1 and n1 cannot predict together: they are one model"),
                (["n1", "n1/checkpoints/final.h5", "--epoch", "last"], 2, "--epoch is for the folder of a run"),
                (["n1", "nowhere"], 3, "there is no such run folder"),
                (["dry", "--dropout", "5"], 2, "the network of dry has no dropout"),
                (["n1", "dry", "--dropout", "5"], 2, "the network of dry has no dropout"),
                (["n1", "--dropout", "1"], 2, "give 2 or more"), (["n1", "--dropout", "0"], 2, "--dropout"),
                (["n1", "--seed", "3"], 2, "--dropout")):
            with self.subTest(words=words):
                self.fails(code, "predict", *words, "-o", "out.h5", message=message)
                self.assertFalse(os.path.exists(self.path("out.h5")))
        with h5py.File(self.path("long.h5"), "w") as file:
            file["x"], file["y"] = np.random.rand(20, 20, 2), np.random.rand(20, 2)
        self.write("long.toml", (CONFIG % NUMBERS).replace('"a.h5", "b.h5"', '"long.h5"'))
        self.mrmf("train", "long.toml", "--set", "run.folder=long")
        self.fails(2, "predict", "n1", "long", "-o", "out.h5",
                   message="the shape of a sample is 16x2 here and 20x2 there")
        self.fails(2, "predict", "n1", "n2", "-o", "n2/config.toml", "--overwrite", message="config.toml")


if __name__ == "__main__":
    unittest.main()
