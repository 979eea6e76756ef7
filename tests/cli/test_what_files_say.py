"""What files say of their arrays by attributes, types and names, as other programs mean it: names of numbers, bits, bounds,
marks, words, numbered files, raw bytes beside a file, netCDF's dimensions in coarse copies."""
import json
import unittest

import h5py
import numpy as np

from people_files import InitTest

ROWS = 40


class WhatFilesSay(InitTest):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(1)
        self.x = self.rng.normal(size=(ROWS, 16, 3)).astype("f4")

    def labels(self, name, y, **attributes):
        with h5py.File(self.path(f"{name}.h5"), "w") as file:
            file["x"], file["y"] = self.x, y
            file["y"].attrs.update(attributes)

    def init(self, name, *options):
        said = self.mrmf("init", f"{name}.h5", "-o", f"{name}.toml", *options)
        return said, self.read(f"{name}.toml")

    def data(self, name):
        return self.mrmf("data", f"{name}.toml")

    def test_a_list_of_more_names_than_numbers_names_none(self):
        self.labels("four", np.arange(ROWS) % 3 + 1, class_names=["ground", "ash", "oak", "elm"])
        self.assertIn("class_values = [1, 2, 3]", self.init("four")[1])
        said = self.data("four")
        self.assertIn("lists 4 names, and there are 3 classes", said)
        self.assertNotIn("ground", said)
        self.labels("signs", np.arange(ROWS) % 2 * 2 - 1, classes=["cat", "unknown", "dog"])
        self.assertIn("class_values = [-1, 1]", self.init("signs")[1])
        said = self.data("signs")
        self.assertIn("lists 3 names, and there are 2 classes", said)
        self.assertNotIn("unknown", said)
        self.labels("three", np.arange(ROWS) % 3 + 1, class_names=["ash", "oak", "elm"])
        self.init("three")
        self.assertRegex(self.data("three"), r"(?s)ash.*oak.*elm")

    def test_bits_have_no_names_as_numbers(self):
        self.labels("bits", (np.arange(ROWS) % 3).astype("u1"), flag_masks=np.array([1, 2, 4], "u1"), flag_meanings="clear cloud snow")
        said, _ = self.init("bits")
        self.assertNotIn("cloud", said + self.data("bits"))

    def test_named_numbers_with_gaps_are_the_classes(self):
        self.labels("gaps", np.array([1, 2, 4])[np.arange(ROWS) % 3].astype("u1"), flag_values=np.array([1, 2, 4], "u1"),
                    flag_meanings="clear cloud snow")
        said, text = self.init("gaps")
        self.assertIn("class_values = [1, 2, 4]", text)
        self.assertNotIn("never occur", said)
        self.assertRegex(self.data("gaps"), r"(?s)clear.*cloud.*snow")
        self.labels("rare", np.array([0, 1, 3])[np.arange(ROWS) % 3].astype("u1"), flag_values=np.arange(4, dtype="u1"),
                    flag_meanings="sea ice cloud snow")
        self.assertIn("1 of these classes never occurs", self.init("rare")[0])

    def test_floats_that_may_be_classes(self):
        self.labels("floats", np.arange(ROWS) % 2 * 2.0 - 1)
        self.assertIn("training.class_values = [-1, 1] and 2 outputs", self.init("floats")[0])
        self.labels("from1", np.arange(ROWS) % 3 + 1.0)
        said, _ = self.init("from1")
        self.assertIn("these are whole numbers of 1 to 3 in float64", said)
        self.assertIn("name all of them in training.class_values, and 3 outputs", said)
        self.labels("two", np.arange(ROWS) % 2 + 1.0)
        self.assertIn("these are whole numbers of 1 to 2 in float64", self.init("two")[0])
        mask = (self.rng.random((ROWS, 16, 16)) > 0.5).astype("f4")
        for name, x, values in (("bytes", self.x, (np.arange(ROWS) % 2 * 255).astype("f4")), ("mask", mask + self.x[:, :, :1], mask * 255)):
            self.file(name, x=x, y=values)
            self.assertIn("these are 0 and 255 in float32, which are learned as numbers; if they are classes, set training.loss = "
                          '"cross_entropy", training.class_values = [0, 255] and 2 outputs, and leave out normalise.labels', self.init(name)[0])
        self.labels("measured", np.where(np.arange(ROWS) % 2, 1.5, 2.5))
        self.assertNotIn("classes", self.init("measured")[0])

    def test_classes_that_may_say_that_there_is_no_label(self):
        for i, none in enumerate((b"nan", b"NA", b"None", b"null")):
            self.labels(f"word{i}", np.array([b"ash", none, b"oak"])[np.arange(ROWS) % 3])
            self.assertIn(f'"{none.decode()}" is one of these classes; if it says that there is no label, leave out such rows',
                          self.init(f"word{i}")[0])
        kinds = (np.arange(ROWS) % 3).astype("i4")
        with h5py.File(self.path("logical.h5"), "w") as file:  # as R writes its own
            file["x"] = self.x
            file.create_dataset("y", data=kinds, dtype=h5py.enum_dtype({"FALSE": 0, "TRUE": 1, "NA": 2}, "i4"))
        said, text = self.init("logical")
        self.assertIn("'NA' is one of these classes, the number 2; if it says that there is no label, set training.ignore = 2, "
                      "training.class_values = [0, 1] and 2 outputs", said)
        self.write("logical.toml", text.replace("outputs = 3", "outputs = 2"))
        said = self.mrmf("data", "logical.toml", "--set", "training.ignore=2", "--set", "training.class_values=[0, 1]")
        self.assertRegex(said, r"(?s)FALSE.*TRUE")
        with h5py.File(self.path("logical.h5"), "a") as file:
            file["y"][...] = kinds % 2
        self.assertNotIn("'NA'", self.init("logical", "--overwrite")[0])

    def test_bounds_of_a_coordinate_are_no_labels(self):
        with h5py.File(self.path("bounds.h5"), "w") as file:
            file["tas"], file["time"] = self.x, np.arange(ROWS) * 30.0
            file["time_bnds"] = np.arange(ROWS)[:, None] * 30.0 + [-15, 15]
            file["time"].attrs["bounds"] = "time_bnds"
            file["time"].make_scale("time")
            file["tas"].dims[0].attach_scale(file["time"])
        self.fails(3, "init", "bounds.h5", "-o", "bounds.toml", message="no other array has its 40 rows to be labels")
        with h5py.File(self.path("bounds.h5"), "a") as file:
            file["target"] = self.rng.normal(size=ROWS)
        said, text = self.init("bounds")
        self.assertIn('labels = "target"', text)
        self.assertNotIn("time_bnds", said)

    def test_coordinates_and_times_of_cf_are_no_labels(self):
        times = np.sort(self.rng.integers(0, 10**6, ROWS))
        since = {"units": "seconds since 2000-01-01 00:00:00"}
        bounds = np.sort(self.rng.uniform(0, 365, (ROWS, 2)))
        place, height = self.rng.uniform(0, 1, ROWS), self.rng.normal(size=ROWS)
        nothing = "there is nothing to learn from what has the rows of 'tas': "
        for name, said_of_tas, arrays, message in (
                ("aux", {"coordinates": "place height none"}, {"place": (place, {}), "height": (height, {})},
                 f"{nothing}'height' is a coordinate, as the attribute coordinates of 'tas' says (--labels takes it), 'place' is a coordinate"),
                ("since", {}, {"taken_at": (times, since)}, f"{nothing}'taken_at' holds times, by its units \"seconds since 2000-01-01 00:00:00\""),
                ("climate", {}, {"when": (times, since | {"climatology": "limits"}), "limits": (bounds, {})}, f"{nothing}'when' holds times"),
                ("groups", {}, {"g/when": (times, since | {"bounds": "/limits"}), "limits": (bounds, {})}, f"{nothing}'g/when' holds times")):
            with self.subTest(name):
                with h5py.File(self.path(f"{name}.h5"), "w") as file:
                    for array, (values, attributes) in {"tas": (self.x, said_of_tas), **arrays}.items():
                        file[array] = values
                        file[array].attrs.update(attributes)
                said = self.fails(3, "init", f"{name}.h5", "-o", f"{name}.toml", message=message)
                self.assertNotIn("limits", said)
                for array in arrays:
                    if array != "limits":
                        self.mrmf("init", f"{name}.h5", "-o", f"{name}.toml", "--overwrite", "--labels", array)

    def test_what_tells_of_other_numbers_comes_last(self):
        def make(name, **more):
            self.file(name, tas=self.x, error=self.rng.uniform(0, 1, ROWS), **more)
            with h5py.File(self.path(f"{name}.h5"), "a") as file:
                file["tas"].attrs["ancillary_variables"] = "error"
            return self.init(name)

        said, text = make("both", yield_of=self.rng.normal(size=ROWS))
        self.assertIn('labels = "yield_of"', text)
        self.assertNotIn("error", said)
        said, text = make("alone")
        self.assertIn('labels = "error"', text)
        self.assertIn("'error' tells of the numbers of another array, which has it in its attribute ancillary_variables", said)

    def test_attributes_that_only_look_like_names_of_bounds(self):
        with h5py.File(self.path("free.h5"), "w") as file:
            file["x"], file["y"] = self.x, self.rng.normal(0, 1, ROWS)
            file["x"].attrs["bounds"], file["y"].attrs["bounds"] = "x in -5 5, y in 0 1", "y in [-3, 3]"
        self.mrmf("init", "free.h5", "-o", "free.toml")
        self.assertIn('labels = "y"', self.read("free.toml"))

    def test_validation_labels_that_are_words(self):
        words = np.array(["a", "b"] * 10, "S2")
        self.file("words", x_train=self.x[:20], y_train=words, x_val=self.x[20:30], y_val=words[:10])
        said, text = self.init("words")
        self.assertIn("'x_val' and 'y_val' validate", said)
        self.assertIn('validation = { samples = "x_val", labels = "y_val" }', text)
        self.mrmf("train", "words.toml", "--set", "training.epochs=1", "--set", "method.name=baseline", "--set", "method.resolutions=[[1]]")

    def test_a_line_says_where_the_rows_of_the_test_train(self):
        self.file("marks", x=self.x, y=self.rng.normal(size=ROWS), is_val=(np.arange(ROWS) % 4 == 1).astype("i1"),
                  is_test=(np.arange(ROWS) % 4 == 0).astype("i1"))
        said, text = self.init("marks")
        self.assertIn("'is_val' is taken for the split; 'is_test' may say what rows are for, too; the test's rows train unless", said)
        self.assertIn('split = { column = "is_val" }', text)

    def test_named_numbers_that_say_what_rows_are_for(self):
        roles = np.arange(ROWS) % 3
        names = h5py.enum_dtype({"train": 0, "valid": 1, "test": 2}, basetype="i1")
        for column in ("part", "subset"):
            self.file(column, **{"x": self.x, "y": self.rng.normal(size=ROWS)})
            with h5py.File(self.path(f"{column}.h5"), "a") as file:
                file.create_dataset(column, data=roles, dtype=names)
                file.create_dataset("colour", data=roles, dtype=h5py.enum_dtype({"red": 0, "green": 1, "blue": 2}, basetype="i1"))
            self.assertIn(f'split = {{ column = "{column}", validation = ["valid"] }}', self.init(column)[1])
            said = self.mrmf("data", f"{column}.toml")
            self.assertIn(f"training: {(roles == 0).sum()} samples", said)
            self.assertIn(f"validation: {(roles == 1).sum()} samples", said)

    def test_numbers_of_files_that_grow_a_digit(self):
        y = self.rng.normal(size=ROWS)
        for i in range(20):
            self.file(f"part{i}", x=self.x[2 * i:2 * i + 2], y=y[2 * i:2 * i + 2])
        self.mrmf("init", *(f"part{i}.h5" for i in range(20)), "-o", "parts.toml")
        brief = ("--set", "training.epochs=1", "--set", "method.name=baseline", "--set", "method.resolutions=[[1]]")
        self.mrmf("train", "parts.toml", *brief, "--set", "run.folder=listed")
        self.assertIn("part{0..19}.h5", self.read("listed/config.toml"))
        by_run = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "listed", "--json"))[0]
        self.mrmf("train", "parts.toml", *brief, "--set", "run.folder=ranged", "--set", 'data.files=["part{0..19}.h5"]')
        self.assertEqual(self.lines("listed/epochs.jsonl")[0]["validation_loss"], self.lines("ranged/epochs.jsonl")[0]["validation_loss"])
        self.assertEqual(by_run, json.JSONDecoder().raw_decode(self.mrmf("evaluate", "ranged", "--json"))[0])
        self.fails(3, "train", "parts.toml", "--set", 'data.files=["part{00..9}.h5"]', message="part{00..9}.h5: no such file")

    def test_numbers_too_small_for_float32(self):
        advice = "float32, in which training computes, has none so small; store them in other units, or their logarithm"
        for factor in (1e-200, 1e-50, 1e-44):
            with h5py.File(self.path("small.h5"), "w") as file:
                file["x"], file["y"] = self.x.astype("f8") * factor, self.rng.normal(size=ROWS)
            self.fails(3, "init", "small.h5", "-o", "small.toml", message=advice)
            with h5py.File(self.path("small.h5"), "w") as file:
                file["x"], file["y"] = self.x, self.rng.normal(size=ROWS) * factor
            self.fails(3, "init", "small.h5", "-o", "small.toml", message=advice)

    def test_one_number_far_from_all_others(self):
        rng = np.random.default_rng(0)
        x, y = rng.normal(0, 1, (60, 32, 2)).astype("f4"), rng.normal(0, 1, 60)
        holes = x.copy()
        holes[rng.random(x.shape) < 0.03] = -9999
        far = "-9999 stands "
        for name, arrays, told in (("holes", {"x": holes, "y": y}, far), ("none", {"x": x, "y": y}, ""),
                                   ("labels", {"x": x, "y": np.where(np.arange(60) % 10 == 3, 1e20, y)}, "1e+20 stands "),
                                   ("once", {"x": x, "y": np.where(np.arange(60) == 3, 1e6, y)}, ""),
                                   ("zeros", {"x": x, "y": np.maximum(y, 0)}, ""),
                                   ("background", {"x": np.where(x > 0, 200 + x, 0), "y": y}, ""),
                                   ("saturated", {"x": np.where(x > 2, 255, 10 + x).astype("u1"), "y": y}, ""),
                                   ("peaks", {"x": np.where(x > 2, 1, 0.01 * x), "y": y}, "")):
            self.made(name, **arrays)
            said = self.mrmf("data", f"{name}.toml")
            self.assertIn(told, said)
            self.assertEqual(" times among " in said, told != "", said)
            self.assertEqual("_FillValue = " in said, told != "")
        self.assertEqual(self.mrmf("data", "holes.toml", ranks=2), self.mrmf("data", "holes.toml"))

    def test_raw_bytes_without_a_length_that_are_too_few(self):
        with h5py.File(self.path("raw.h5"), "w") as file:
            file.create_dataset("x", shape=self.x.shape, dtype="f4", external="bytes.raw")
            file["y"] = self.rng.normal(size=ROWS)
        with open(self.path("bytes.raw"), "wb") as file:
            file.write(self.x.tobytes()[:self.x.nbytes // 2])
        self.fails(3, "init", "raw.h5", "-o", "raw.toml", message="row 20 and maybe others come from bytes.raw, which is too short")
        with open(self.path("bytes.raw"), "wb") as file:
            file.write(self.x.tobytes())
        self.init("raw")

    def test_an_array_of_a_dimension_is_not_the_dimension(self):
        """netCDF-C writes the number of its first dimension on arrays, too."""
        def numbered(array, number, *axes):
            array.attrs["_Netcdf4Coordinates"] = np.array(axes, "i4")
            array.attrs["_Netcdf4Dimid"] = np.int32(number)

        with h5py.File(self.path("dims.nc"), "w") as file:
            file["x_bnds"] = np.arange(12)[:, None] * 10.0 + [-5, 5]
            for name, size in (("time", 6), ("y", 8), ("x", 12), ("nv", 2)):
                file[name] = np.arange(size) * 10.0
                file[name].make_scale(name)
            file["sst"] = self.rng.normal(size=(6, 8, 12)).astype("f4")
            numbered(file["x_bnds"], 2, 2, 3)
            for i, name in enumerate(("time", "y", "x", "nv")):
                file[name].attrs["_Netcdf4Dimid"] = np.int32(i)
            numbered(file["sst"], 0, 0, 1, 2)
            for i, name in enumerate(("time", "y", "x")):
                file["sst"].dims[i].attach_scale(file[name])
            for i, name in enumerate(("x", "nv")):
                file["x_bnds"].dims[i].attach_scale(file[name])
        said = self.mrmf("coarsen", "dims.nc", "--factor", "2,3", "--axes", "n y x", "--output", "coarse")
        with h5py.File(self.path("coarse/dims.nc")) as file:
            self.assertEqual(file["sst"].shape, (6, 4, 4))
            self.assertEqual(list(file["x"][:]), [10, 40, 70, 100])
            self.assertEqual(list(file["sst"].attrs["_Netcdf4Coordinates"]), [0, 1, 2])
            self.assertNotIn("_Netcdf4Coordinates", file["x_bnds"].attrs)
        self.assertIn("netCDF's dimensions of 'x_bnds' are not those of the source", said)


if __name__ == "__main__":
    unittest.main()
