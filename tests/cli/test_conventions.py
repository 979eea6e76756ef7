"""How other programs write what numbers mean, labels and roles: what of it is understood, and what is said of the rest."""
import json
import os

import h5py
import numpy as np

import support
from people_files import InitTest

N = 48
WRONG = [{"scale_factor": "0.5"}, {"scale_factor": np.nan}, {"scale_factor": 0.0}, {"add_offset": np.inf},
         {"_FillValue": "-1"}, {"valid_range": np.array([1, 2, 3], "i2")}, {"_Unsigned": np.int32(1)},
         {"valid_min": np.float32(np.nan)}, {"valid_range": np.array([9, 1], "i2")}, {"_Unsigned": "maybe"}]


def samples(of=None):
    rng = np.random.default_rng(1)
    of = rng.uniform(0, 1, N) if of is None else of
    return (of[:, None, None] + 0.3 * rng.normal(0, 1, (N, 16, 2))).astype("f4")


class WrongPacking(InitTest):
    """Attributes that cannot be applied concern whoever reads the array, and nobody else."""

    def with_attributes(self, name, arrays, attributes):
        self.file(name, **arrays)
        with h5py.File(self.path(f"{name}.h5"), "a") as file:
            for array, of_array in attributes.items():
                file[array].attrs.update(of_array)

    def test_of_arrays_that_nobody_uses(self):
        y = np.random.default_rng(2).uniform(0, 1, N)
        for wrong in WRONG:
            arrays = {"x": samples(y), "y": y, "aux": np.arange(N, dtype="i2"), "grid": np.ones((16, 2), "i2")}
            self.with_attributes("a", arrays, {"aux": wrong, "grid": wrong})
            said = self.mrmf("init", "a.h5", "-o", "a.toml", "--overwrite")
            self.assertIn("'aux' is passed over", said)
            self.assertIn('samples = "x", labels = "y"', self.read("a.toml"))
            self.mrmf("coarsen", "a.h5", "--factor", "2", "-o", "coarse", "--overwrite", "--samples", "x")
            with h5py.File(self.path("coarse/a.h5")) as file:
                np.testing.assert_array_equal(file["aux"][:], arrays["aux"])
            name = next(iter(wrong))
            self.fails(3, "init", "a.h5", "-o", "b.toml", "--labels", "aux", message=f"attribute '{name}'")
            self.assertFalse(os.path.exists(self.path("b.toml")))

    def test_in_groups_and_files(self):
        rng = np.random.default_rng(3)
        os.makedirs(self.path("each"))
        with h5py.File(self.path("groups.h5"), "w") as groups:
            for i in range(12):
                with h5py.File(self.path(f"each/{i:02}.h5"), "w") as one:
                    for place in (one, groups.create_group(f"s{i:02}")):
                        place["field"] = rng.integers(0, 99, (16, 8)).astype("i2")
                        place["energy"] = float(i * i)
                        place["axis"] = np.arange(16, dtype="i2")  # the same in all: it does not count the samples
                        place["axis"].attrs["scale_factor"] = "0.5"
                        place["field"].attrs["scale_factor"] = 0.5
        for files, form in (("groups.h5", 'rows = "groups"'), ("each/*.h5", 'rows = "files"')):
            self.mrmf("init", files, "-o", "c.toml", "--overwrite")
            self.assertIn(form, self.read("c.toml"))
            self.assertIn('samples = "field", labels = "energy"', self.read("c.toml"))

    def test_ignored_in_groups_and_files(self):
        """As stored, the label is the same in all samples; by the attributes it is not, and the other way round."""
        os.makedirs(self.path("each"))
        rng = np.random.default_rng(3)
        for i in range(12):
            with h5py.File(self.path(f"each/{i:02}.h5"), "w") as file:
                file["field"] = rng.normal(0, 1, (16, 8)).astype("f4")
                file["energy"] = np.int16(7)
                file["energy"].attrs["scale_factor"] = 1.0 + i
                file["level"] = np.int16(i * i)
                file["field"].attrs["scale_factor"] = "none"
        self.fails(3, "init", "each/*.h5", "-o", "c.toml", message="attribute 'scale_factor' is of type string")
        self.mrmf("init", "each/*.h5", "-o", "c.toml", "--packing", "ignore")
        self.assertIn('labels = "level"', self.read("c.toml"))

    def test_nothing_is_left(self):
        self.with_attributes("a", {"x": samples(), "y": np.arange(N) / 7}, {"x": {"valid_max": np.float32(-9)}})
        self.fails(3, "init", "a.h5", "-o", "a.toml", message="every number of channel 0 of 'x' is missing")


class Packing(support.MrmfTest):
    def mean(self, stored, **attributes):
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"], file["y"] = stored, np.arange(N, dtype="f4")
            file["x"].attrs.update(attributes)
        self.write("c.toml", support.rows_config("flatten", "dense units=1"))
        found = json.loads(self.mrmf("data", "c.toml", "--json"))
        sums = [np.array(found[part]["sample"]["channels"][key]) for part in ("training", "validation") for key in ("mean",)]
        counts = [found[part]["samples"] for part in ("training", "validation")]
        return float(np.dot(counts, [np.mean(one) for one in sums]) / sum(counts))

    def test_unsigned(self):
        counts = np.random.default_rng(4).integers(0, 256, (N, 16, 2)).astype("u1")
        for word in ("true", "True", "TRUE", np.bytes_("true")):
            self.assertAlmostEqual(self.mean(counts.view("i1"), _Unsigned=word, scale_factor=0.5), counts.mean() / 2, places=3)
        signed = counts.view("i1").mean() / 2
        self.assertAlmostEqual(self.mean(counts.view("i1"), _Unsigned="false", scale_factor=0.5), signed, places=3)

    def test_numbers_between_those_of_a_type(self):
        values = samples()
        values[:, 3] = -9999.9
        there = np.delete(values, 3, axis=1).astype("f8").mean()
        # Stored as the nearest number of the type, while the attribute has more digits.
        for kind, digits in (("f2", 2), ("f4", 5)):
            self.assertAlmostEqual(self.mean(values.astype(kind), _FillValue=np.float64(-9999.9)), there, places=digits)
        whole = np.random.default_rng(5).integers(0, 4, (N, 16, 2)).astype("i2")
        self.assertAlmostEqual(self.mean(whole, valid_min=np.float64(0.5)), whole[whole > 0].mean(), delta=0.02)
        real = whole * 0.5  # of which a limit is in double, as the scale is
        self.assertAlmostEqual(self.mean(whole, scale_factor=0.5, valid_max=np.float64(0.75)), real[real < 0.75].mean(),
                               delta=0.02)

    def test_how_many_files(self):
        for i in range(5):
            with h5py.File(self.path(f"f{i}.h5"), "w") as file:
                file["x"], file["y"] = np.ones((N, 16, 2), "i2"), np.arange(N, dtype="f4")
                if i < 4:
                    file["x"].attrs["scale_factor"] = 0.5 if i < 3 else 0.25
        self.write("c.toml", support.rows_config("flatten", "dense units=1", files=["f*.h5"]))
        for ranks in (0, 2):
            lines = json.loads(self.mrmf("inspect", "c.toml", "--json", ranks=ranks))["packing"]
            self.assertEqual(lines, ["'x' in 3 of 5 files: packed int16: value * 0.5",
                                     "'x' in 1 of 5 files: packed int16: value * 0.25"])
            said = self.mrmf("data", "c.toml", ranks=ranks)
            self.assertIn("3 of 5 files: packed int16: value * 0.5\n", said)
            self.assertIn("1 of 5 files: packed int16: value * 0.25\n", said)
            self.assertIn("advice: 'x' of the training data is scaled by attributes in some files", said)

    def test_init_looks_at_all_files(self):
        rng = np.random.default_rng(0)
        for i, own in enumerate(({}, {"scale_factor": 0.5}, {"scale_factor": 0.25}, {"scale_factor": 0.5, "_FillValue": np.int16(-1)})):
            with h5py.File(self.path(f"f{i}.h5"), "w") as file:
                file["x"], file["y"] = rng.integers(-90, 90, (N, 16, 2)).astype("i2"), rng.normal(0, 1, N)
                file["x"].attrs.update(own)
        for files, lines in (("f1.h5", ["'x' is packed int16: value * 0.5"]), ("f1.h5 f2.h5", ["'x' in 1 of 2 files: packed int16: value * 0.5",
                             "'x' in 1 of 2 files: packed int16: value * 0.25"]), ("f0.h5 f1.h5", ["'x' in 1 of 2 files: packed int16: value * 0.5"])):
            said = self.mrmf("init", *files.split(), "-o", "i.toml", "--overwrite").splitlines()
            for line in lines:
                self.assertIn(line, said)
                self.assertIn("# " + line, self.read("i.toml"))
        # That some are missing is said by the last file alone.
        self.mrmf("init", "f1.h5", "f3.h5", "-o", "i.toml", "--overwrite")
        self.assertIn('not_finite = "fill"', self.read("i.toml"))

    def test_floats_beside_packed_integers_are_what_they_are(self):
        for i, kind in enumerate(("i2", "f4")):
            with h5py.File(self.path(f"f{i}.h5"), "w") as file:
                file["x"], file["y"] = np.ones((N, 16, 2), kind), np.arange(N, dtype="f4")
        with h5py.File(self.path("f0.h5"), "a") as file:
            file["x"].attrs["scale_factor"] = 0.5
        self.write("c.toml", support.rows_config("flatten", "dense units=1", files=["f*.h5"]))
        self.assertNotIn("scaled by attributes in some", self.mrmf("data", "c.toml"))

    def test_how_many_groups(self):
        with h5py.File(self.path("g.h5"), "w") as file:
            for i in range(12):
                file[f"s{i:02}/x"], file[f"s{i:02}/y"] = np.full((16, 2), i, "i2"), float(i * i)
                file[f"s{i:02}/x"].attrs["scale_factor"] = 0.5 if i % 3 else 0.25
        config = support.rows_config("flatten", "dense units=1", files=["g.h5"],
                                     data='rows = "groups"\ntrain = { samples = "x", labels = "y" }')
        self.write("c.toml", config)
        for ranks in (0, 2):
            lines = json.loads(self.mrmf("inspect", "c.toml", "--json", ranks=ranks))["packing"]
            self.assertEqual(lines, ["'x' in 8 of 12 groups: packed int16: value * 0.5",
                                     "'x' in 4 of 12 groups: packed int16: value * 0.25"])
            said = self.mrmf("data", "c.toml", ranks=ranks)
            self.assertIn("8 of 12 groups: packed int16: value * 0.5", said)
            self.assertNotIn("scaled by attributes in some", said)
        said = self.mrmf("init", "g.h5", "-o", "i.toml")
        for line in lines:
            self.assertIn(line, said)


class Labels(InitTest):
    def setUp(self):
        super().setUp()
        self.k = np.random.default_rng(6).integers(0, 3, N)
        self.x = samples(self.k)
        self.hot = np.eye(3)[self.k]

    def label(self, values, **options):
        return self.made("a", "--overwrite", x=self.x, y=values, **options)

    def test_one_hot_but_for_rounding(self):
        noise = np.random.default_rng(7).normal(0, 1e-7, self.hot.shape)
        missing = self.hot.copy()
        missing[::7] = np.nan
        for values in (self.hot + noise, (self.hot + noise).astype("f4"), self.hot.astype("f2"), self.hot.astype(bool),
                       missing.astype("f4")):
            text, said = self.label(values)
            self.assertIn("'y' holds one-hot rows: 3 classes", said)
            self.assertIn('loss = "cross_entropy"', text)
            found = json.loads(self.mrmf("data", "a.toml", "--json"))
            counts = sum(np.array(found[part]["class_counts"]) for part in ("training", "validation"))
            there = np.isfinite(values).all(1)
            np.testing.assert_array_equal(counts, np.bincount(self.k[there]))
        self.mrmf("train", "a.toml", "--set", "training.epochs=1")

    def test_other_marks_are_told(self):
        for high, low in ((255, 0), (1, -1), (0.9, 0.05)):
            _, said = self.label(np.where(self.hot > 0, high, low).astype("f4"))
            self.assertIn(f"each row holds {high:g} once and else {low:g}", said)
        _, said = self.label(np.random.default_rng(8).uniform(0, 1, (N, 3)))
        self.assertNotIn("each row holds", said)

    def test_enumerations(self):
        kind = h5py.enum_dtype({"a": 10, "b": 20, "c": 30}, basetype="i2")
        self.file("a", x=self.x)
        with h5py.File(self.path("a.h5"), "a") as file:
            file.create_dataset("y", data=(10 * (self.k + 1)).astype("i2"), dtype=kind)
        said = self.mrmf("init", "a.h5", "-o", "a.toml", "--folder", "run")
        self.assertIn("'y' holds values of an enumeration: 3 classes", said)
        self.assertIn("class_values = [10, 20, 30]", self.read("a.toml"))
        self.trains("a")

    def test_words(self):
        for words, values, odd in ((["10", "2", "1"], '["1", "2", "10"]', None), (["01", "02", "03"], None, None),
                                   (["Cat", "cat", "dog"], None, "'Cat' and 'cat' are two of these classes"),
                                   (["", "a", "b"], None, "the empty text is one of these classes")):
            for kind in (h5py.string_dtype(), "S3"):
                text, said = self.label(np.array(words, object)[self.k].astype(kind))
                self.assertIn("'y' holds 3 words: 3 classes", said)
                if values:
                    self.assertIn(f"class_values = {values}".replace('"', ""), text)
                self.assertEqual(odd is None or odd in said, True, said)
                self.mrmf("train", "a.toml", "--overwrite", "--set", "training.epochs=1")
                self.mrmf("evaluate", "run-a")  # the run's own copy of the configuration names the same classes
        self.file("b", x=self.x, y=np.array(["1", "2", "none"], "S4")[self.k])
        self.fails(3, "init", "b.h5", "-o", "b.toml", message="some are numbers and some are words")


class Roles(InitTest):
    def role(self, values, name="split"):
        y = np.random.default_rng(9).uniform(0, 1, N)
        return self.made("a", "--overwrite", x=samples(y), y=y, **{name: values})

    def turns(self, *words):
        return np.array([words[i % len(words)] for i in range(N)], "S10")

    def test_words_in_any_case(self):
        text, said = self.role(self.turns("Train", "VAL", "train", "Test"))
        self.assertIn('split = { column = "split", validation = ["VAL"] }', text)
        self.assertIn("12 rows of 'split' = \"Test\" neither train nor validate", said)
        found = json.loads(self.mrmf("data", "a.toml", "--json"))
        self.assertEqual((found["training"]["samples"], found["validation"]["samples"]), (24, 12))

    def test_a_word_for_what_is_not_understood(self):
        hint = "if these say what rows are for, set split = {{ column = \"split\", validation = [{}], train = [{}] }}"
        for words, validation, train in ((("T", "V"), '"V"', '"T"'), (("a", "b", "c"), '"b"', '"a"'),
                                         (("learn", "test"), '"test"', '"learn"')):
            text, said = self.role(self.turns(*words))
            self.assertIn(hint.format(validation, train), said)
            self.assertIn('by = "rows"', text)
        _, said = self.role(np.arange(N) % 3)
        self.assertIn(hint.format(1, 0), said)
        _, said = self.role(np.arange(N) % 3, name="fold")
        self.assertIn('split = { by = "folds", column = "fold" }', said)
        column = (np.arange(N) % 2).astype("f4")
        column[3] = np.nan
        _, said = self.role(column)
        self.assertIn("'split' does not say what rows are for", said)


class Groups(InitTest):
    """A group is a sample, and never the label of another."""

    def groups(self, fill):
        rng = np.random.default_rng(11)
        with h5py.File(self.path("g.h5"), "w") as file:
            for i in range(20):
                group = file.create_group(f"s{i:02}")
                group["data"] = rng.normal(i % 2, 0.1, (16, 16)).astype("f4")
                fill(group, i)

    def test_words(self):
        def array(group, i):
            group["kind"] = "ab"[i % 2]
            group["written"] = f"day {i}"

        def attribute(group, i):
            group.attrs["kind"], group.attrs["written"] = "ab"[i % 2], np.bytes_(f"day {i}")
            group.attrs["remark"] = h5py.Empty("S10")  # as h5py writes what is not there
            group["remark"] = h5py.Empty("S10")

        for fill, name in ((array, "kind"), (attribute, "@kind")):
            self.groups(fill)
            said = self.mrmf("init", "g.h5", "-o", "g.toml", "--folder", "run-g", "--overwrite")
            self.assertIn(f"'{name}' holds 2 words: 2 classes", said)
            self.assertIn(f'samples = "data", labels = "{name}"', self.read("g.toml"))
            self.assertIn('class_values = ["a", "b"]', self.read("g.toml"))
            self.mrmf("train", "g.toml", "--set", "training.epochs=1", "--overwrite")

    def test_numbers_of_several_types(self):
        """In groups as in files: 1 beside 0.5, and float32 beside float64."""
        labels = [1 if i % 3 == 0 else 0.1 * i for i in range(20)]

        def fill(group, i):
            group["label"] = np.int64(labels[i]) if i % 3 == 0 else np.float64(labels[i])
            group.attrs["label"] = np.int64(labels[i]) if i % 3 == 0 else np.float32(labels[i])
            if i % 2:
                data = group["data"][:].astype("f8")
                del group["data"]
                group["data"] = data

        self.groups(fill)
        with h5py.File(self.path("g.h5")) as file, h5py.File(self.path("rows.h5"), "w") as rows:
            rows["data"], rows["label"] = [one["data"][:].astype("f4") for one in file.values()], np.array(labels)
        found = {}
        for files, form in (("rows.h5", "axis"), ("g.h5", "groups")):
            for name in ("label", "@label") if form == "groups" else ("label",):
                self.write("c.toml", support.rows_config("flatten", "dense units=1", files=[files], data=f'rows = "{form}"\n'
                                                         f'train = {{ samples = "data", labels = "{name}" }}'))
                for ranks in (0, 2) if (name, form) == ("label", "groups") else (0,):
                    told = json.loads(self.mrmf("data", "c.toml", "--json", ranks=ranks))
                    found[name, form, ranks] = [told[part][what]["channels"] for part in ("training", "validation")
                                                for what in ("sample", "label")]
                for load in ("memory", "stream"):
                    self.mrmf("train", "c.toml", "--set", f"data.load={load}", "--overwrite")
                    self.mrmf("predict", "run", "-o", f"{form}{load}.h5", "--overwrite")
        for key, channels in found.items():
            for one, other in zip(channels, found["label", "axis", 0]):
                for what in one:
                    np.testing.assert_allclose(one[what], other[what], rtol=1e-5, err_msg=str(key))
        with h5py.File(self.path("axismemory.h5")) as file:
            expected = file["prediction"][:]
        for path in ("axisstream.h5", "groupsmemory.h5", "groupsstream.h5"):
            with h5py.File(self.path(path)) as file:
                np.testing.assert_allclose(file["prediction"], expected, rtol=1e-5)

    def test_groups_of_several_types(self):
        """They are read as doubles, in `init` as in training."""
        def types(group, i):
            group["label"] = i / 7
            if i % 2:
                data = group["data"][:].astype("f8")
                del group["data"]
                group["data"] = data

        self.groups(types)
        self.mrmf("init", "g.h5", "-o", "g.toml")
        self.assertIn('labels = "label"', self.read("g.toml"))
        self.mrmf("train", "g.toml", "--set", "training.epochs=1", "--set", 'run.folder="types"')

    def test_unlike_groups(self):
        def shapes(group, i):
            group["label"] = i / 7
            if i % 2:
                data = group["data"][:-1, :-1]
                del group["data"]
                group["data"] = data

        self.groups(shapes)
        self.fails(3, "init", "g.h5", "-o", "g.toml", message="the groups beside each other are no samples, of which all are "
                   "alike: 'data' of s")
        self.groups(lambda group, i: None)  # without labels
        self.fails(3, "init", "g.h5", "-o", "g.toml", message="no other array has its 16 rows to be labels")
        self.assertFalse(os.path.exists(self.path("g.toml")))


class Origins(InitTest):
    """Samples and labels of one origin come first."""

    def test_links(self):
        y = np.random.default_rng(10).uniform(0, 1, N)
        for name, level in (("own", 0), ("other", 5)):
            self.file(name, x=samples(y) + level, y=y, energy=y)
        with h5py.File(self.path("own.h5"), "a") as file:
            for name in ("x", "y"):
                file["b_" + name] = h5py.ExternalLink("other.h5", name)
            file["sim"] = h5py.ExternalLink("other.h5", "x")
            file["result"] = h5py.ExternalLink("other.h5", "energy")
        for options, expected in (((), ("x", "y")), (("--samples", "b_x"), ("b_x", "b_y"))):
            self.mrmf("init", "own.h5", "-o", "a.toml", "--overwrite", *options)
            self.assertIn('samples = "%s", labels = "%s"' % expected, self.read("a.toml"))

    def test_names_and_groups(self):
        for groups, given, expected in ((("a", "b"), "b/x", "b/y"), (("a1_", "a2_"), "a2_x", "a2_y"),
                                        (("a", "b"), "b/x", "b/value")):
            label = expected[-1] if expected.endswith("y") else "value"
            joint = "" if groups[0].endswith("_") else "/"
            with h5py.File(self.path("g.h5"), "w") as file:
                for i, group in enumerate(groups):
                    file[f"{group}{joint}x"], file[f"{group}{joint}{label}"] = samples(), np.arange(N) / (7 + i)
                file["lonely"] = np.zeros(1)
            self.mrmf("init", "g.h5", "-o", "a.toml", "--overwrite", "--samples", given)
            self.assertIn(f'labels = "{expected}"', self.read("a.toml"))


class OneRule(support.MrmfTest):
    """plan never proposes what train refuses, and says in the same words what it would refuse."""
    REFUSAL = "norm: in training a batch norm needs more than one value per channel"

    def setUp(self):
        super().setUp()
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"], file["y"] = samples(), np.arange(N, dtype="f4")
        self.write("c.toml", support.rows_config("conv filters=4 kernel=3 padding=\"same\"", "flatten", "batch_norm name=\"norm\"",
                                                 "dense units=1"))

    def test_a_batch_norm_of_one_row(self):
        one = ("--set", "training.batch=1")
        self.fails(2, "train", "c.toml", *one, message=self.REFUSAL)
        said = self.mrmf("plan", "c.toml", *one)
        self.assertIn("training on 1 rank would refuse this: " + self.REFUSAL, said)
        self.assertNotIn("would refuse", self.mrmf("plan", "c.toml"))
        # Two ranks have two rows together, unless each norms its own.
        self.assertNotIn("would refuse", self.mrmf("plan", "c.toml", *one, "--set", "run.ranks=2"))
        local = (*one, "--set", "run.ranks=2", "--set", 'training.batch_norm="local"')
        self.assertIn("training on 2 ranks would refuse this: " + self.REFUSAL, self.mrmf("plan", "c.toml", *local))
        self.fails(2, "train", "c.toml", *local, message=self.REFUSAL, ranks=2)

    def test_ranks(self):
        ranks = ("--ranks", "4", "--machine", "h100")
        self.fails(2, "plan", "c.toml", *ranks, "--batch", "1", message=self.REFUSAL)
        local = ("--set", 'training.batch_norm="local"', "--set", "training.accumulate=1")
        self.fails(2, "plan", "c.toml", *ranks, "--batch", "4", *local, message=self.REFUSAL)
        self.fails(2, "plan", "c.toml", *ranks, "--batch", "8", "--set", "training.accumulate=8", message="accumulate")
        for batch in (2, 8):
            said = self.mrmf("plan", "c.toml", *ranks, "--batch", str(batch), "--toml")
            self.write("planned.toml", said)
            self.mrmf("train", "planned.toml", "--overwrite", ranks=4)


if __name__ == "__main__":
    support.main()
