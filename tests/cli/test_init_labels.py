"""Which arrays mrmf init takes for samples and labels, and which it never does: an array per sample, row numbers, constants."""
import os
import unittest

import h5py
import numpy as np

from people_files import InitTest

ROWS = 60


class InitLabels(InitTest):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(5)
        self.kind = np.arange(ROWS) % 3
        self.images = (self.kind[:, None, None, None] + self.rng.normal(0, 0.3, (ROWS, 16, 16, 3))).astype("f4")

    def refused(self, name, *messages, options=()):
        for message in messages:
            self.fails(3, "init", f"{name}.h5", "-o", f"{name}.toml", *options, message=message)
        self.assertFalse(os.path.exists(self.path(f"{name}.toml")))


class ArrayPerSample(InitLabels):
    """One sample is never another one's label: samples are rows, groups or files."""
    ONE_EACH = " seem to be one sample each; store them as one array of 60 rows, or each in a group of its own beside its label"

    def stored(self, name, place):
        with h5py.File(self.path(f"{name}.h5"), "w") as file:
            for i, image in enumerate(self.images):
                place(file, i, image)

    def test_in_a_group_beside_labels(self):
        self.file("group", labels=self.kind, **{f"images__{i:04}": image for i, image in enumerate(self.images)})
        self.refused("group", "60 arrays such as 'images/0000' (16, 16, 3) and 'images/0001' (16, 16, 3)" + self.ONE_EACH)
        self.refused("group", self.ONE_EACH, options=("--samples", "images/0000"))
        self.file("square", labels=np.arange(16) % 2, **{f"images__{i:04}": image for i, image in enumerate(self.images[:16])})
        self.refused("square", "store them as one array of 16 rows")

    def test_at_the_root_with_attributes(self):
        def place(file, i, image):
            file[f"img_{i}"] = image
            file[f"img_{i}"].attrs["label"] = self.kind[i]
        self.stored("root", place)
        self.refused("root", "60 arrays such as 'img_0' (16, 16, 3) and 'img_1' (16, 16, 3)" + self.ONE_EACH)

    def test_beside_its_mask(self):
        def place(file, i, image):
            file[f"img_{i}"] = image
            file[f"mask_{i}"] = (image[..., 0] > 1).astype("u1")
        self.stored("masks", place)
        self.refused("masks", self.ONE_EACH)
        self.stored("folders", lambda file, i, image: (place(file.require_group("a"), i, image), place(file.require_group("b"), i, -image)))
        self.refused("folders", "seem to be one sample each")

    def test_in_folders_of_classes(self):
        names = ("cat", "dog", "owl")
        self.stored("counted", lambda file, i, image: file.create_dataset(f"class{self.kind[i]}/s{i}", data=image))
        self.refused("counted", self.ONE_EACH)
        self.stored("named", lambda file, i, image: file.create_dataset(f"{names[self.kind[i]]}/{i // 3:03}", data=image))
        self.refused("named", "60 arrays such as 'cat/000' (16, 16, 3) and 'cat/001'")
        words = ["".join(chr(97 + (i * k) % 26) for k in (1, 3, 7)) + "xyz"[i % 3] for i in range(ROWS)]
        self.stored("words", lambda file, i, image: file.create_dataset(f"{names[self.kind[i]]}/{words[i]}", data=image))
        self.refused("words", self.ONE_EACH)

    def test_one_array_of_each_class(self):
        self.file("classes", cat__x=self.images[:20], dog__x=self.images[20:40])
        self.refused("classes", "no other array has its 20 rows to be labels")

    def test_what_cells_of_matlab_refer_to(self):
        with h5py.File(self.path("cells.h5"), "w") as file:
            references = [file.create_dataset(f"#refs#/a{i}", data=image).ref for i, image in enumerate(self.images)]
            file.create_dataset("X", data=np.array(references, dtype=h5py.ref_dtype)[:, None], dtype=h5py.ref_dtype)
        self.refused("cells", "no array looks like samples, and 'X' (60, 1) holds references to other arrays, as MATLAB's cells do")
        with h5py.File(self.path("cells.h5"), "a") as file:
            file["y"] = self.rng.normal(0, 1, (ROWS, 1))
        self.refused("cells", "'X' (60, 1) holds references to other arrays")

    def test_arrays_of_many_rows(self):
        """As detectors and archives of traces keep them."""
        parts = {f"entry__data_{i:06}": self.images[20 * i:20 * i + 20, ..., 0] for i in range(3)}
        such = "3 arrays such as 'entry/data_000000' (20, 16, 16) and 'entry/data_000001' (20, 16, 16)"
        joined = "join them along the first axis into one array of 60 rows, as a virtual data set does without a copy"
        self.file("labelled", angle=self.rng.normal(0, 1, ROWS), **parts)
        self.refused("labelled", f"{such} have 60 rows together, as 'angle' has: {joined}")
        self.file("alone", **parts)
        self.refused("alone", f"{such} seem to be parts of one array, or one sample each; if they are parts, {joined}; else store them as one "
                     "array of 3 rows, or each in a group of its own beside its label")
        self.file("buckets", **{f"bucket{i}": self.rng.normal(0, 1, (20, 3, length)) for i, length in enumerate((40, 40, 41))})
        self.refused("buckets", "if they are parts, bring their rows to one shape and join them along the first axis into one array of 60 rows; else")

    def test_quantities_are_no_samples(self):
        x = self.images[..., 0]
        text, said = self.made("channels", y=self.kind, **{f"channel_{i:02}": x for i in range(16)})
        self.assertIn('labels = "y"', text)
        self.assertIn("'channel_11', 'channel_12' and 3 more would do as well: choose with --samples", said)
        text, _ = self.made("pairs", **{f"{part}_{name}": x for part in ("train", "val", "test") for name in ("x", "y")})
        self.assertIn('train = { samples = "train_x", labels = "train_y" }', text)
        text, _ = self.made("two", t0=x, t1=x)
        self.assertIn("samples =", text)


class NothingToLearn(InitLabels):
    """Row numbers, constants and empty arrays are no labels while another array would do, whatever they are called."""

    def test_row_numbers(self):
        value = self.rng.normal(0, 1, ROWS)
        steps = np.arange(ROWS)
        for name, numbers in (("whole", steps), ("floats", steps * 1.0), ("later", steps + 1000), ("turned", steps[::-1]), ("column", steps[:, None]),
                              ("shuffled", self.rng.permutation(ROWS) + 5000), ("large", steps + 6_560_000_000_000_000_000)):
            with self.subTest(name):
                for other in (value, self.kind, self.rng.normal(0, 1, (ROWS, 3))):
                    text, said = self.made(name, "--overwrite", x=self.images, aaa=numbers, zzz=other)
                    self.assertIn('labels = "zzz"', text)
                    self.assertIn(f"passed over as labels: 'aaa' counts the rows from {int(numbers.min())} on", said)
                    self.assertNotIn("would do", said)
                self.file(name + "_alone", x=self.images, label=numbers)
                self.refused(name + "_alone", "there is nothing to learn from what has the rows of 'x': 'label' counts the rows from "
                             f"{int(numbers.min())} on; add labels, or name others with --labels")
        text, said = self.made("times", x=self.images, aaa=1.7e9 + 60.0 * steps, zzz=value)
        self.assertIn('labels = "zzz"', text)
        text, _ = self.made("scan", x=self.images, zzz=20 * steps)  # may be what was varied
        self.assertIn('labels = "zzz"', text)

    def test_coordinates(self):
        value = self.rng.normal(0, 1, ROWS)
        even = {"dim1": 0.05 * np.arange(ROWS), "x-coordinate": np.linspace(0.5 / ROWS, 1 - 0.5 / ROWS, ROWS).astype("f4"),
                "y-coordinate": np.linspace(1, -1, ROWS).astype("f4").astype("f8"), "lat": np.arange(90, 90 - ROWS, -1) * 1.5}
        for name, numbers in even.items():
            with self.subTest(name):
                text, said = self.made("even", "--overwrite", x=self.images, zzz=value, **{name: numbers})
                self.assertIn('labels = "zzz"', text)
                self.assertNotIn("would do", said)
                self.file("alone", x=self.images, **{name: numbers})
                self.refused("alone", f"'{name}' has its numbers at one distance, as coordinates have; add labels")
        # What is named like labels comes before any fraction at one distance.
        flat = self.images.reshape(ROWS, -1, 3).astype("f4")
        for name, arrays in (("params", {"x": flat, "params": self.rng.normal(0, 1, (ROWS, 3))}),
                             ("mask", {"image": self.images[..., 0], "mask": self.images[..., 0] > 0})):
            text, _ = self.made("named", "--overwrite", **arrays, zone=np.linspace(1, 2, ROWS))
            self.assertIn(f'labels = "{name}"', text)
        text, _ = self.made("uneven", x=self.images, dim1=np.sort(value))  # which nobody knows to be a coordinate
        self.assertIn('labels = "dim1"', text)
        text, said = self.made("scan2", x=self.images, omega=0.3 + 0.05 * np.arange(ROWS))
        self.assertIn('labels = "omega"', text)
        self.assertIn("'omega' has its numbers at one distance, as coordinates and times have; if it is no label, name others", said)
        text, said = self.made("both", x=self.images, omega=0.3 + 0.05 * np.arange(ROWS), zzz=value)
        self.assertIn('labels = "zzz"', text)
        self.assertNotIn("distance", said)

    def test_in_several_files(self):
        for i, part in enumerate((slice(0, 30), slice(30, 60))):
            self.file(f"part{i}", x=self.images[part], aaa=np.arange(30), class_of=np.full(30, i), zzz=self.rng.normal(0, 1, 30))
        said = self.mrmf("init", "part*.h5", "-o", "parts.toml")
        self.assertIn('labels = "class_of"', self.read("parts.toml"))  # one class in each file
        self.assertIn("'aaa' counts the rows from 0 on", said)

    def test_constants_and_nothing(self):
        value = self.rng.normal(0, 1, ROWS)
        for name, numbers, why in (("constant", np.full(ROWS, 3.0), "is 3 everywhere"), ("nan", np.full(ROWS, np.nan), "is NaN everywhere"),
                                   ("gaps", np.where(np.arange(ROWS) % 2, np.nan, 3.0), "is 3 everywhere"),
                                   ("rows", np.tile([1.0, 2.0], (ROWS, 1)), "is the same in all rows"),
                                   ("empty", np.zeros((ROWS, 0)), "is empty"), ("mask", np.zeros((ROWS, 16, 16), "u1"), "is 0 everywhere"),
                                   ("texts", np.array(["", ""] * (ROWS // 2), "S3"), "holds empty texts alone"),
                                   ("word", np.array(["cat"] * ROWS, "S3"), 'is "cat" everywhere')):
            with self.subTest(name):
                text, said = self.made(name, x=self.images, label=numbers, zzz=value)
                self.assertIn('labels = "zzz"', text)
                self.assertIn(f"passed over as labels: 'label' {why}", said)
                self.file(name + "_alone", x=self.images, label=numbers)
                self.refused(name + "_alone", f"'label' {why}; add labels, or name others with --labels")
        self.file("both", x=self.images, aaa=np.arange(ROWS), bbb=np.full(ROWS, np.nan))
        self.refused("both", "'aaa' counts the rows from 0 on, 'bbb' is NaN everywhere; add labels")

    def test_names_of_all_samples(self):
        words = np.array([f"galaxy {i}" for i in range(ROWS)], "S12")
        text, _ = self.made("names", x=self.images, label=words, zzz=self.kind)
        self.assertIn('labels = "zzz"', text)

    def test_words_that_were_never_written(self):
        with h5py.File(self.path("unwritten.h5"), "w") as file:
            file["x"] = self.images
            file.create_dataset("y", (ROWS,), dtype=h5py.string_dtype())
        self.refused("unwritten", "'y' holds empty texts alone")
        self.refused("unwritten", "'y' holds one text alone, which is empty", options=("--labels", "y"))

    def test_attributes_of_groups(self):
        with h5py.File(self.path("groups.h5"), "w") as file:
            for i, image in enumerate(self.images):
                file[f"s{i:02}/x"] = image
                for name, value in (("age", 20 + i), ("sick", i % 3 == 1), ("begun", 2.0 * i)):
                    file[f"s{i:02}"].attrs[name] = value
        said = self.mrmf("init", "groups.h5", "-o", "groups.toml")
        self.assertIn("passed over as labels: '@age' counts the rows from 20 on", said)
        self.assertIn('labels = "@sick"', self.read("groups.toml"))

    def each_with(self, own, of_array):
        """As files and as groups, attributes of each sample and of its array: own(i), of_array(i)."""
        with h5py.File(self.path("groups.h5"), "w") as groups:
            for i, image in enumerate(self.images[:24]):
                with h5py.File(self.path(f"each{i:02}.h5"), "w") as file:
                    for place in (file, groups.create_group(f"s{i:02}")):
                        place["density"] = image
                        place.attrs.update(own(i))
                        place["density"].attrs.update(of_array(i))
        for files in ("each*.h5", "groups.h5"):
            said = self.mrmf("init", files, "-o", "each.toml", "--overwrite", "--folder", f"run-{files[:4]}")
            yield self.read("each.toml"), said
            self.mrmf("train", "each.toml", "--set", "training.epochs=1", "--overwrite")

    def test_attributes_of_the_samples_array(self):
        values = self.rng.uniform(0, 1, (24, 2))
        about = {"units": "K", "min": 0.0, "description": "a map"}
        for text, _ in self.each_with(lambda i: {}, lambda i: about | {"omega_m": values[i, 0], "min": values[i, 1]}):
            self.assertIn('labels = "density@omega_m"', text)  # and no range of its numbers
        for text, said in self.each_with(lambda i: {}, lambda i: about | {"omega_m": values[i, 0], "sigma_8": values[i, 1]}):
            self.assertIn('labels = ["density@omega_m", "density@sigma_8"]', text)
            self.assertIn("the attributes 'density@omega_m', 'density@sigma_8' are the labels", said)
        # The sample's own come first.
        for text, _ in self.each_with(lambda i: {"om": values[i, 0]}, lambda i: {"noise": values[i, 1]}):
            self.assertIn('labels = "@om"', text)

    def test_fractions_come_before_yes_or_no(self):
        values = self.rng.uniform(0, 1, 24)
        for text, said in self.each_with(lambda i: {"b": i % 2 == 1, "om": values[i]}, lambda i: {}):
            self.assertIn('labels = "@om"', text)
            self.assertIn("'@om' is taken for the labels; '@b' would do as well: choose with --labels", said)
        for text, _ in self.each_with(lambda i: {"label": i % 3, "om": values[i]}, lambda i: {}):
            self.assertIn('labels = "@label"', text)

    def test_fixed_tables_of_pandas(self):
        self.file("fixed", df__axis0=np.arange(5), df__axis1=np.arange(ROWS), df__block0_values=self.rng.normal(0, 1, (ROWS, 5)),
                  df__block1_values=self.rng.normal(0, 1, (ROWS, 1)))
        text, _ = self.made_of("fixed")
        self.assertIn('samples = "df/block0_values", labels = "df/block1_values"', text)

    def made_of(self, name):
        said = self.mrmf("init", f"{name}.h5", "-o", f"{name}.toml")
        return self.read(f"{name}.toml"), said


class Values(InitLabels):
    """What labels hold beside classes."""

    def test_numbers_without_label_that_no_key_can_name(self):
        for value, text in ((-99999, "-99999"), (-70000, "-70000"), (65536, "65536"), (2**31 - 1, "a number near 2.14748e+09"),
                            (-2**63, "a number near -9.22337e+18")):
            self.file("far", x=self.images, y=np.where(np.arange(ROWS) % 7 == 0, value, self.kind))
            self.refused("far", f"far.h5: 'y' holds whole numbers of 0 to 2, and {text}, which may stand for no label; training.ignore is a "
                         "number of -65535 to 65535: store -1 in its place")
        text, _ = self.made("near", x=self.images, y=np.where(np.arange(ROWS) % 7 == 0, -65535, self.kind))
        self.assertIn("ignore = -65535", text)
        _, said = self.made("apart", x=self.images, y=np.array([0, 500, 2**31 - 1])[self.kind])
        self.assertNotIn("21474836", said)  # float32 knows no such number

    def test_values_that_an_enumeration_lacks(self):
        kinds = h5py.enum_dtype({"a": 0, "b": 1, "c": 2}, basetype="i1")
        for stray in (9, 3):
            with h5py.File(self.path("stray.h5"), "w") as file:
                file["x"] = self.images
                file.create_dataset("y", data=np.where(np.arange(ROWS) == 50, stray, self.kind).astype("i1"), dtype=kinds)
            self.assertIn(f"and {stray}, which the enumeration does not have and which is taken for no label",
                          self.mrmf("init", "stray.h5", "-o", "stray.toml", "--overwrite"))
        with h5py.File(self.path("no_label.h5"), "w") as file:
            file["x"] = self.images
            file.create_dataset("y", data=np.where(np.arange(ROWS) == 50, -1, self.kind).astype("i1"), dtype=kinds)
        self.mrmf("init", "no_label.h5", "-o", "no_label.toml")
        self.assertIn("ignore = -1", self.read("no_label.toml"))
        with h5py.File(self.path("flags.h5"), "w") as file:
            file["x"], file["y"] = self.images, np.arange(ROWS) % 4
            file["y"].attrs["flag_values"], file["y"].attrs["flag_meanings"] = np.arange(3), "water land ice"
        self.assertIn("'y' holds 3, for which the file has no name, as it has for 0, 1, 2, so all classes are told by their numbers",
                      self.mrmf("init", "flags.h5", "-o", "flags.toml"))


class Texts(InitLabels):
    """A configuration is UTF-8, and each line that init says is one line."""

    def test_what_is_not_utf_8(self):
        self.file("words", x=self.images, y=np.array([b"caf\xe9", b"th\xe9", b"eau"], "S4")[self.kind])
        self.refused("words", "words.h5: 'y' holds words that are not UTF-8, such as \"caf\\xE9\", and configurations name words in UTF-8; store "
                     "them so")
        with h5py.File(self.path("name.h5"), "w") as file:
            file[b"don\xe9es"], file["y"] = self.images, self.kind
        self.refused("name", "name.h5: the name 'don\\xE9es' is not UTF-8, as configurations are; rename it")
        self.file("split", x=self.images, y=self.kind, split=np.array([b"train", b"val", b"r\xe9serve"], "S10")[self.kind])
        self.made("split", "--overwrite", x=self.images, y=self.kind, split=np.array([b"train", b"val", b"r\xe9serve"], "S10")[self.kind])
        os.rename(self.path("name.h5"), os.fsencode(self.path("")) + b"fich\xe9.h5")
        self.fails(3, "init", "fich*.h5", "-o", "name.toml", message="fich\\xE9.h5: the file's name is not UTF-8")

    def test_names_of_several_lines(self):
        text, said = self.made("lines", **{"a\nb": self.images, "c\nd": self.rng.normal(0, 1, ROWS), "e\nf": self.kind})
        self.assertIn("'e\\x0Af' would do as well", said)
        self.assertIn('samples = "a\\u000Ab", labels = "c\\u000Ad"', text)
        self.trains("lines")


class Marks(InitLabels):
    def test_validation_comes_before_tests(self):
        part = np.array(["train", "val", "train", "test", "train"] * 12)
        marks = {f"is_{name}": part == name for name in ("train", "val", "test")}
        text, said = self.made("all", x=self.images, y=self.kind, **marks)
        self.assertIn('split = { by = "arrays", train = "is_train", validation = "is_val", test = "is_test" }', text)
        text, said = self.made("marks", x=self.images, y=self.kind, is_val=marks["is_val"], is_test=marks["is_test"])
        self.assertIn('split = { column = "is_val" }', text)
        self.assertIn("'is_val' is taken for the split; 'is_test' may say what rows are for, too", said)
        text, _ = self.made("plain", x=self.images, y=self.kind, val=marks["is_val"].astype("u1"), test=marks["is_test"].astype("u1"))
        self.assertIn('split = { column = "val" }', text)
        text, _ = self.made("tests", x=self.images, y=self.kind, is_test=marks["is_test"])
        self.assertIn('split = { column = "is_test" }', text)
        # Marks are no labels, and floats that are not wholly named as marks no split.
        self.file("marks_alone", x=self.images, train_mask=marks["is_train"], val_mask=marks["is_val"])
        self.refused("marks_alone", "rows to be labels")
        for name in "valid", "test_score":
            text, _ = self.made("quality", "--overwrite", x=self.images, density=self.rng.normal(0, 1, ROWS),
                                **{name: marks["is_train"].astype("f4")})
            self.assertIn('split = { by = "rows"', text)
        lists = {f"{part}_idx_fold{fold}": np.arange(ROWS)[(np.arange(ROWS) % 3 == fold) == (part == "val")] for fold in (0, 1)
                 for part in ("train", "val")}
        text, said = self.made("several", x=self.images, y=self.kind, **lists)
        self.assertIn('train = "train_idx_fold0", validation = "val_idx_fold0"', text)
        self.assertIn("'train_idx_fold1', 'val_idx_fold1' may say what rows are for, too", said)
        # Lists of the first file alone are none of the second's.
        self.file("part0", x=self.images, y=self.kind, train_idx=np.arange(40), val_idx=np.arange(40, 60))
        self.file("part1", x=self.images, y=self.rng.permutation(self.kind))
        said = self.mrmf("init", "part0.h5", "part1.h5", "-o", "parts.toml")
        self.assertIn('split = { by = "rows"', self.read("parts.toml"))
        self.assertIn("'train_idx', 'val_idx' are not taken for rows of the split: part1.h5: no data set 'train_idx'", said)


class LibrariesFiles(InitLabels):
    def test_indices_of_tables_are_not_told_of(self):
        with h5py.File(self.path("table.h5"), "w") as file:
            file["df/table"] = np.zeros(ROWS, np.dtype([("a", "f8"), ("b", "i8")]))
            for i in range(40):
                file[f"df/_i_table/index/{'very_' * 10}long_{i}"] = np.zeros((3, 1000))
        self.refused("table", "no array looks like samples, and 'df/table' (60) is a table of compound elements; store its columns as arrays of "
                     "numbers")
        self.refused("table", "'df/table' (60) is a table of compound elements", options=("--samples", "df/table"))
        self.file("many", **{f"array_{i}_{'x' * 40}": np.zeros(i + 2) for i in range(100)})
        message = self.mrmf("init", "many.h5", "-o", "many.toml", code=3)
        self.assertIn("and 88 more", message)
        self.assertLess(len(message), 1200)

    def test_what_is_contiguous_is_not_to_be_made_so(self):
        self.file("bits", x=self.images > 1, y=self.kind)
        self.mrmf("init", "bits.h5", "-o", "bits.toml")
        found = self.mrmf("data", "bits.toml")
        self.assertIn("advice: 'x' is contiguous, converted by HDF5, so it is read by one thread: written as plain numbers, such as int8", found)
        self.assertNotIn("h5repack", found)

    def test_characters_of_words(self):
        words = np.array([b"ash", b"oak", b"birch"])[self.kind]
        self.file("characters", x=self.images, species=words.astype("S8").view("S1").reshape(ROWS, 8))
        told = ("data set 'species' has 8 texts of one character in each row, as netCDF may keep a word; store each word as one text, such as "
                "netCDF4.chartostring makes of them")
        self.refused("characters", told)
        self.refused("characters", told, options=("--labels", "species"))
        self.made("characters", "--overwrite", x=self.images, species=words)
        self.file("characters", x=self.images, species=words.astype("S8").view("S1").reshape(ROWS, 8))
        self.fails(3, "data", "characters.toml", message=told)
        text, _ = self.made("letters", x=self.images[:, :, 0], base=np.array([b"A", b"C", b"G"])[(self.images[:, :, 0, 0] > 1).astype(int)])
        self.assertIn('class_values = ["A", "C"]', text)  # a class for each position

    def test_an_axis_of_one(self):
        self.file("one", nu=self.images[..., 0], u=self.images[:, None, :, :, 1])
        self.refused("one", "'u' (60, 1, 16, 16) does not fit 'nu' (60, 16, 16); without its axis of length 1 it has the samples' positions: drop it, "
                     "such as y.squeeze(1)")

    def test_tables_as_labels(self):
        for name, columns in (("single", [("y", "f8")]), ("table", [("y", "f8"), ("z", "f8")])):
            self.file(name, x=self.images, y=np.zeros(ROWS, columns))
            told = "'y' (60) is a table of compound elements; store its columns as arrays of numbers"
            self.refused(name, told)
            self.refused(name, told, options=("--labels", "y"))

    def test_numbers_as_texts(self):
        with h5py.File(self.path("texts.h5"), "w") as file:
            for i, image in enumerate(self.images):
                file[f"sim_{i}/rho"] = image
                file[f"sim_{i}"].attrs["omega"] = f"{0.3 + i / 1000:.3f}"
        self.refused("texts", "'@omega' is a text, such as \"0.3")
        self.refused("texts", '", and no number: store it as a number')
        self.refused("texts", "'@omega' holds texts such as \"0.300\" and no numbers; store them as numbers", options=("--labels", "@omega"))

    def test_sparse_matrices(self):
        self.file("sparse", X__data=np.ones(90), X__indices=np.arange(90) % 20, X__indptr=np.arange(31) * 3, obs__kind=np.arange(30) % 2)
        self.refused("sparse", "no array looks like samples, and 'X' is a sparse matrix (data, indices and indptr): store it as one array, such as "
                     "X.toarray()")
        self.refused("sparse", "sparse.h5: 'X' is a sparse matrix", options=("--samples", "X"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
