"""Columns, and arrays of each part, that say what rows are for: marks, roles, words, folds, lists of rows; and what is said
of parts and of rows."""
import json
import os

import h5py
import numpy as np
import support
from people_files import InitTest

N = 100
CONFIG = """
[data]
files = ["s.h5"]
train = { samples = "x", labels = "y" }
split = { SPLIT }
[training]
batch = 8
epochs = 1
[run]
folder = "run"
threads = 1
""" + support.layers("conv filters=4 kernel=3", "relu", "flatten", "dense units=1")
WORDS = ["train", "val", "train", "test", "train"] * 20


class SplitTest(InitTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.x, self.y = rng.normal(0, 1, (N, 32, 2)).astype("f4"), rng.normal(0, 1, N)
        self.columns = {"split": np.array(WORDS, dtype=h5py.string_dtype()), "part": np.array(WORDS, "S5"),
                        "padded": np.array([word.ljust(6) for word in WORDS], "S6"),
                        "fold": np.arange(N) % 5, "role": np.array([0, 1, 0, 2, 0] * 20, "u1"),
                        "signed": np.array([-1, 0, -1, 1, -1] * 20, "i1"), "mark": np.arange(N) % 4 == 3,
                        "share": np.where(np.arange(N) % 4 == 3, 0.5, 0), "most": np.arange(N) % 4 != 3,
                        "two": np.array(["a", "b", "a", "a", "a"] * 20, "S1")}
        self.data("s.h5", **self.columns)

    def data(self, name, **columns):
        with h5py.File(self.path(name), "w") as file:
            file["x"], file["y"] = self.x, self.y
            for column, values in columns.items():
                file[column] = values

    def found(self, split, *more, ranks=0):
        self.write("s.toml", CONFIG.replace("SPLIT", split))
        return json.loads(self.mrmf("data", "s.toml", "--json", *more, ranks=ranks))

    def counts(self, split, **options):
        found = self.found(split, **options)
        return found["training"]["samples"], found["validation"]["samples"], found["training"]["unused"]


class SplitColumns(SplitTest):
    def test_named_roles_and_no_others(self):
        unused = "20 rows of '{}' = {} neither train nor validate"
        for split, expected in (('column = "role", validation = [1]', (60, 20, unused.format("role", 2))),
                                ('column = "role", validation = 2', None),
                                ('column = "role", validation = [1], train = [0, 2]', (80, 20, "")),
                                ('column = "role", validation = [1, 2]', (60, 40, "")),
                                ('column = "split", validation = ["val"]', (60, 20, unused.format("split", '"test"'))),
                                ('column = "part", validation = "val"', (60, 20, unused.format("part", '"test"'))),
                                ('column = "padded", validation = ["test"]', (60, 20, unused.format("padded", '"val"'))),
                                ('column = "part", validation = ["val", "test"]', (60, 40, "")),
                                ('column = "two", validation = ["b"]', (80, 20, "")),
                                ('column = "fold", validation = [4], train = [0, 1, 2, 3]', (80, 20, "")),
                                ('column = "signed", validation = [0], train = [-1]', (60, 20, unused.format("signed", 1))),
                                ('by = "column", column = "mark"', (75, 25, "")),
                                ('column = "mark", validation = [true]', (75, 25, "")),
                                ('column = "share"', (75, 25, ""))):
            if expected is None:
                self.write("s.toml", CONFIG.replace("SPLIT", split))
                self.fails(2, "data", "s.toml", message="or a list of numbers or texts")
                continue
            self.assertEqual(self.counts(split), expected, split)
        self.assertEqual(self.counts('column = "part", validation = ["val"]', ranks=2)[:2], (60, 20))

    def test_the_rows_are_those_of_the_role(self):
        for name, rows in ("kept", self.columns["role"] == 0), ("held", self.columns["role"] == 1):
            with h5py.File(self.path(name + ".h5"), "w") as file:
                file["x"], file["y"] = self.x[rows], self.y[rows]
        text = CONFIG.replace('files = ["s.h5"]', 'files = ["kept.h5"]').replace(
            "split = { SPLIT }", 'validation = { files = ["held.h5"], samples = "x", labels = "y" }')
        losses = []
        self.write("apart.toml", text)
        for split in None, 'column = "role", validation = [1]', 'column = "split", validation = ["val"]':
            name = "apart.toml"
            if split:
                name = "s.toml"
                self.write(name, CONFIG.replace("SPLIT", split))
            self.mrmf("train", name, "--overwrite")
            [epoch] = self.lines("run/epochs.jsonl")
            losses.append((epoch["train_loss"], epoch["validation_loss"], epoch["samples"]))
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])
        self.assertIn("20 rows of 'split' = \"test\" neither train nor validate", self.read("run/log.txt"))
        kept = self.read("run/config.toml")
        self.assertIn('validation = ["val"]', kept)
        self.mrmf("train", "--continue", "run", "--set", "training.epochs=2")

    def test_what_does_not_say_it(self):
        for split, code, message in (
                ('column = "fold"', 3, "'fold' holds more than two different numbers, 0, 1, 2, 3, 4: name those whose "
                 "rows validate, such as data.split.validation = [4]"),
                ('column = "role"', 3, "such as data.split.validation = [1]"),
                ('column = "part"', 3, "'part' holds the words test, train, val: name those whose rows validate, such as "
                 'data.split.validation = ["val"]'),
                ('column = "fold", validation = [4]', 3, "it is not plain which of them train; name these, such as "
                 "data.split.train = [0, 1, 2, 3]"),
                ('column = "signed", validation = [0]', 3, "data.split.train = [-1, 1]"),
                ('column = "role", validation = [3]', 3, "'role' holds 0, 1, 2, and not 3, which data.split.validation"),
                ('column = "part", validation = ["valid"]', 3, "and not valid"),
                ('column = "role", validation = ["val"]', 3, "and not val"),
                ('column = "role", validation = [1], train = [0, 1]', 3, "1 is named in both"),
                ('column = "role", validation = [1], train = [7]', 3, "and not 7, which data.split.train"),
                ('column = "role", train = [0]', 2, "data.split.validation is not"),
                ('column = "role", validation = [[1]]', 2, "a list of numbers or texts"),
                ('by = "rows", validation = [1]', 2, "names values of data.split.column, which is not set"),
                ('by = "rows", column = "role"', 2, "data.split.column goes with"),
                ('column = "y", validation = [1]', 3, "and not 1"),
                ('column = "x", validation = [1]', 3, "one number for each of 100 samples, or one word")):
            self.write("s.toml", CONFIG.replace("SPLIT", split))
            self.fails(code, "train", "s.toml", message=message)
        self.fails(3, "train", "s.toml", ranks=2, message="one number for each of 100 samples, or one word")

    def test_enumerations_are_known_by_names_and_by_numbers(self):
        def column(name, numbers, words=WORDS):
            with h5py.File(self.path("s.h5"), "r+") as file:
                file.create_dataset(name, data=np.array([numbers[word] for word in words], "i1"),
                                    dtype=h5py.enum_dtype(numbers, basetype="i1"))
        column("enum", {"train": 0, "val": 1, "test": 2})
        column("other", {"test": 0, "train": 1, "val": 2})
        column("pair", {"val": 0, "train": 1}, ["train" if word == "test" else word for word in WORDS])
        unused = "20 rows of '{}' = \"test\" neither train nor validate"
        for split, expected in (('column = "enum", validation = ["val"]', (60, 20, unused.format("enum"))),
                                ('column = "enum", validation = [1]', (60, 20, unused.format("enum"))),
                                ('column = "other", validation = ["val"]', (60, 20, unused.format("other"))),
                                ('column = "other", validation = [2]', (60, 20, unused.format("other"))),
                                ('column = "enum", validation = ["val"], train = ["train", 2]', (80, 20, "")),
                                ('column = "pair", validation = ["val"]', (80, 20, ""))):
            self.assertEqual(self.counts(split), expected, split)
        self.assertEqual(self.found('column = "enum", validation = ["val"], test = ["test"]')["test"]["samples"], 20)
        for split, message in (('column = "enum"', "'enum' holds more than two different numbers, 0 (train), 1 (val), 2 (test): "
                                'name those whose rows validate, such as data.split.validation = ["val"]'),
                               ('column = "pair"', "'pair' holds 0 (val), 1 (train): name those whose rows validate, such as "
                                'data.split.validation = ["val"]'),
                               ('column = "enum", validation = ["dev"]', "and not dev, which data.split.validation names")):
            self.write("s.toml", CONFIG.replace("SPLIT", split))
            self.fails(3, "train", "s.toml", message=message)
        self.data("t.h5", **self.columns)
        with h5py.File(self.path("t.h5"), "r+") as file:
            file.create_dataset("enum", data=np.zeros(N, "i1"), dtype=h5py.enum_dtype({"val": 0, "train": 1}, basetype="i1"))
        self.write("s.toml", CONFIG.replace("SPLIT", 'column = "enum", validation = ["val"]').replace('["s.h5"]', '["s.h5", "t.h5"]'))
        self.fails(3, "train", "s.toml", message="t.h5: data set 'enum' calls 0 'val', and s.h5: data set 'enum' 'train'; "
                   "give each word of data.split.column one number in all files")

    def test_large_integers_are_told_apart(self):
        # Of the first two, a double is the same.
        scans = np.array([2**53, 2**53 + 1, 2**53 + 4] * 33 + [2**53 + 4], "i8")
        subjects = np.int64(6560604777055249536) + np.arange(N) // 5
        self.data("s.h5", scan=scans, subject=subjects, unsigned=np.uint64(2**64 - 30) + np.arange(N, dtype="u8") // 5)
        kept = "34 rows of 'scan' = {} neither train nor validate"
        self.assertEqual(self.counts(f'column = "scan", validation = [{2**53}], train = [{2**53 + 1}]'),
                         (33, 33, kept.format(2**53 + 4)))
        self.assertEqual(self.counts(f'column = "scan", validation = [{2**53 + 1}], train = [{2**53}, {2**53 + 4}]'), (67, 33, ""))
        for column in "subject", "unsigned":
            found = self.counts(f'by = "groups", column = "{column}", validation = 0.2')
            self.assertEqual(found[:2], (80, 20))
            self.assertEqual(found[2], f"16 groups of '{column}' train, 4 validate")

    def test_more_rows_validate_than_train(self):
        line = "75 samples validate and 25 train"
        self.write("s.toml", CONFIG.replace("SPLIT", 'column = "most"'))
        self.assertIn("warning: " + line, self.mrmf("train", "s.toml"))
        self.assertIn("advice: " + line, self.mrmf("data", "s.toml"))
        self.assertNotIn("samples validate and", self.mrmf("data", "s.toml", "--set", "data.split.column=mark"))

    def test_init_takes_words_and_marks_but_no_folds(self):
        text, said = self.made("all", x=self.x, y=self.y, split=self.columns["split"], fold=self.columns["fold"])
        self.assertIn('split = { column = "split", validation = ["val"] }', text)
        self.assertIn("'split' says what rows are for: those of val validate", said)
        self.assertIn("20 rows of 'split' = \"test\" neither train nor validate", said)
        self.assertIn('labels = "y"', text)
        self.trains("all")
        text, said = self.made("roles", x=self.x, y=self.y, fold=self.columns["fold"], role=self.columns["role"])
        self.assertIn('split = { by = "rows"', text)
        self.assertIn("'fold' holds 0, 1, 2, 3, 4: if these are folds, set split = { by = \"folds\", column = \"fold\" }", said)
        self.trains("roles")
        for name in "held_out", "mark", "is_val":
            text, said = self.made("by_" + name, x=self.x, y=self.y, **{name: self.columns["mark"]})
            self.assertIn(f'split = {{ column = "{name}" }}', text)
        self.trains("by_mark")

    def test_rows_of_one_number_and_rows_twice(self):
        x, y = self.x[:64].copy(), self.y[:64].copy()
        x[50:], y[50:] = 0, 0  # allocated, never written
        x[7] = 3
        x[9], x[11] = x[8], x[8]
        self.file("s", x=x, y=y, mark=np.arange(64) >= 48)
        found = self.found('column = "mark"')
        self.assertEqual([found[part]["rows"] for part in ("training", "validation")],
                         [{"looked_at": 48, "constant": 1, "zeros": 0, "missing": 0, "repeated": 2},
                          {"looked_at": 16, "constant": 14, "zeros": 14, "missing": 0, "repeated": 0}])
        output = self.mrmf("data", "s.toml")
        self.assertIn("15 of 64 rows (1 training, 14 validation) of 'x' hold one number throughout, which is 0 in 14 of "
                      "them, such as row 7 of s.h5", output)
        self.assertIn("2 of 64 rows (2 training, 0 validation) of 'x' occur before in the same part", output)
        self.assertEqual(self.mrmf("data", "s.toml", ranks=3), output)
        x[60] = x[8]
        self.file("s", x=x, y=y, mark=np.arange(64) >= 48)
        self.assertIn("1 of 16 validation rows of 'x' are training rows, too", self.mrmf("data", "s.toml"))
        self.file("s", x=self.x, y=np.full(N, 0.1), mark=self.columns["mark"])
        output = self.mrmf("data", "s.toml")
        for part in "training", "validation":
            self.assertIn(f"the {part} labels 'y' are all 0.1: there is nothing to learn", output)
        self.assertNotIn("one number throughout", output)
        self.assertNotIn("occur before", output)
        classes = ("--set", "training.loss=cross_entropy", "--set", "model.layers[3].units=2")
        self.file("s", x=self.x, y=np.ones(N, "u1"), mark=self.columns["mark"])
        self.assertIn("the training labels 'y' are all of class 1", self.mrmf("data", "s.toml", *classes))
        self.file("s", x=self.x, y=np.full(N, 255, "u1"), mark=self.columns["mark"])
        self.assertIn("no label of the training data ('y' of s.h5) counts",
                      self.mrmf("data", "s.toml", *classes, "--set", "training.ignore=255"))


class SplitArrays(SplitTest):
    """Lists of rows, as `train_idx` and `val_idx`, and marks for each part, as `train_mask` and `val_mask`."""

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(1)
        self.rows = {word: rng.permutation([i for i in range(N) if WORDS[i] == word]) for word in ("train", "val", "test")}
        self.lists = {f"{word}_idx": rows for word, rows in self.rows.items()}
        self.marks = {f"{word}_mask": np.isin(np.arange(N), rows) for word, rows in self.rows.items()}
        self.data("s.h5", split=self.columns["split"], column=self.rows["val"][:, None],
                  floats=self.rows["val"].astype("f8"), **self.lists, **self.marks)

    def test_the_rows_are_those_of_a_column(self):
        losses = []
        for split in ('column = "split", validation = ["val"]',
                      'by = "arrays", train = ["train_idx"], validation = ["val_idx"], test = ["test_idx"]',
                      'by = "arrays", train = "train_mask", validation = "val_mask", test = "test_mask"'):
            self.write("s.toml", CONFIG.replace("SPLIT", split))
            self.mrmf("train", "s.toml", "--overwrite")
            [epoch] = self.lines("run/epochs.jsonl")
            tested = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--split", "test", "--json"))[0]
            losses.append((epoch["train_loss"], epoch["validation_loss"], epoch["samples"], tested["mse"]))
        self.assertEqual(losses[0][2], 60)
        self.assertEqual(losses, [losses[0]] * 3)
        self.mrmf("train", "--continue", "run", "--set", "training.epochs=2")
        self.mrmf("report", "run", "-o", "report.html")
        self.assertIn("rows of train_mask train, those of val_mask validate, and those with test_mask test",
                      self.read("report.html"))

    def test_rows_of_none_are_left_out_and_said(self):
        lists = 'by = "arrays", train = "train_idx", validation = "{}"'
        unused = "20 rows are in none of 'train_idx', '{}', and not used"
        self.data("s.h5", **self.lists, **self.marks, column=self.rows["val"][:, None], floats=self.rows["val"].astype("f8"),
                  row=self.rows["val"][None].astype("f8"), one=[1, 5, 10], three=[3, 8])
        for name in "val_idx", "column", "floats", "row":
            self.assertEqual(self.counts(lists.format(name)), (60, 20, unused.format(name)))
        self.assertEqual(self.counts('by = "arrays", train = ["train_idx", "test_idx"], validation = "val_mask"'), (80, 20, ""))
        self.assertEqual(self.counts(lists.format("val_idx"), ranks=2)[:2], (60, 20))
        self.assertEqual(self.counts('by = "arrays", train = "one", validation = "three"')[2],
                         "95 rows are in none of 'one', 'three', and not used: row 0 is one of them (lists count rows from 0 on)")

    def test_each_file_has_its_own(self):
        self.data("t.h5", train_idx=[0, 1, 2], val_idx=[99])
        self.write("s.toml", CONFIG.replace("SPLIT", 'by = "arrays", train = "train_idx", validation = "val_idx"')
                   .replace('["s.h5"]', '["s.h5", "t.h5"]'))
        found = json.loads(self.mrmf("data", "s.toml", "--json"))
        self.assertEqual([found[part]["samples"] for part in ("training", "validation")], [63, 21])

    def test_what_is_no_list_of_rows(self):
        for values, message in (([0, 100], "'bad' holds 100, and the file's samples are rows 0 to 99; store the numbers of rows"),
                                ([1, 100], "if it counts rows from 1 on, store numbers from 0 on"),
                                ([-1, 5], "'bad' holds -1"), ([1.5, 2], "'bad' holds 1.5"), ([3, 4, 3], "names row 3 twice"),
                                ([self.rows["val"][0]], f"'val_idx' names row {self.rows['val'][0]} (from 0), which 'bad' names, too"),
                                (["a", "b"], "has shape (2) of texts, and data.split.by"),
                                ([[1, 2], [3, 4]], "has shape (2, 2)"), (np.ones(N, bool), "which 'bad' names, too")):
            self.data("s.h5", **self.lists, bad=values)
            self.write("s.toml", CONFIG.replace("SPLIT", 'by = "arrays", train = "bad", validation = "val_idx"'))
            self.fails(3, "train", "s.toml", message=message)
        for split, code, message in (
                ('by = "arrays", train = "train_idx"', 2, "needs data.split.train and data.split.validation"),
                ('by = "arrays", train = "no_idx", validation = "val_idx"', 3, "no_idx"),
                ('by = "arrays", train = "train_idx", validation = "val_idx", test = 0.1', 2, "name the array of the test's rows"),
                ('by = "rows", train = "train_idx"', 2, "data.split.train names values")):
            self.write("s.toml", CONFIG.replace("SPLIT", split))
            self.fails(code, "data", "s.toml", message=message)

    def test_init_takes_them(self):
        for name, arrays in ("lists", self.lists), ("marks", self.marks):
            text, said = self.made(name, x=self.x, y=self.y, **arrays)
            a, b, c = (f"{word}_{'idx' if name == 'lists' else 'mask'}" for word in ("train", "val", "test"))
            self.assertIn(f'split = {{ by = "arrays", train = "{a}", validation = "{b}", test = "{c}" }}', text)
            self.assertIn(f"'{a}' and '{b}' say which rows train and which validate, and '{c}' which ones test", said)
            self.assertIn('labels = "y"', text)
            self.trains(name)
        for name, arrays in (("floats", {name: rows.astype("f8") for name, rows in self.lists.items()}),
                             ("rows", {name: rows[None].astype("f8") for name, rows in self.lists.items()}),
                             ("masks", {name: marks.astype("f4") for name, marks in self.marks.items()})):
            text, said = self.made(name, x=self.x, y=self.y, **arrays)
            self.assertIn('split = { by = "arrays", train = "train_', text)
        text, said = self.made("one", x=self.x, y=self.y, is_train=(np.arange(N) % 4 != 0).astype("f8"))
        self.assertIn('split = { column = "is_train", validation = [0] }', text)
        text, said = self.made("gap", x=self.x, y=self.y, is_train=np.where(np.arange(N) == 5, np.nan, 1.0))
        self.assertIn("'is_train' does not say what rows are for: gap.h5: data set 'is_train', row 5 holds NaN", said)
        # Two alone: what tests, validates.
        text, _ = self.made("two", x=self.x, y=self.y, train_index=np.arange(80), test_index=np.arange(80, 100))
        self.assertIn('split = { by = "arrays", train = "train_index", validation = "test_index" }', text)
        # In a group, as OGB and others keep them.
        with h5py.File(self.path("g.h5"), "w") as file:
            file["x"], file["y"] = self.x, self.y
            file["split/train"], file["split/valid"], file["split/test"] = np.arange(70), np.arange(70, 85), np.arange(85, 100)
        self.mrmf("init", "g.h5", "-o", "g.toml")
        self.assertIn('train = "split/train", validation = "split/valid", test = "split/test"', self.read("g.toml"))
        # What names a row twice is none.
        text, said = self.made("ids", x=self.x, y=self.y, train_id=np.arange(10) + 5, val_id=np.arange(10))
        self.assertIn('split = { by = "rows"', text)
        self.assertIn("'train_id', 'val_id' are not taken for rows of the split: ids.h5: data set 'val_id' names row 5", said)


class SplitOfSamples(InitTest):
    """Files and groups that are samples say themselves what they are for."""

    COUNT = 25
    ROLES = ["train", "train", "train", "val", "test"]

    def samples(self, form, **own):
        """As files or groups, each with what own[name](i) gives: an attribute, or, where the name ends with "_d", a data set."""
        rng = np.random.default_rng(0)
        os.makedirs(self.path("each"), exist_ok=True)
        with h5py.File(self.path("groups.h5"), "w") as groups:
            for i in range(self.COUNT):
                with h5py.File(self.path(f"each/s{i:02}.h5"), "w") as file:
                    place = file if form == "files" else groups.create_group(f"s{i:02}")
                    place["d"], place.attrs["om"] = rng.normal(0, 1, (8, 8, 1)).astype("f4"), rng.uniform()
                    for name, value in own.items():
                        if name.endswith("_d"):
                            place[name] = value(i)
                        else:
                            place.attrs[name] = value(i)
        return "each/*.h5" if form == "files" else "groups.h5"

    def role(self, i):
        return self.ROLES[i % 5]

    def test_words_that_say_what_samples_are_for(self):
        for form in ("files", "groups"):
            for name, column in (("split", "@split"), ("word_d", "word_d")):
                with self.subTest(form, column=column):
                    said = self.mrmf("init", self.samples(form, **{name: self.role}), "--overwrite")
                    self.assertIn(f"'{column}' says what rows are for: those of val validate", said)
                    self.assertIn(f'split = {{ column = "{column}", validation = ["val"] }}', self.read("run.toml"))
                    found = json.loads(self.mrmf("data", "run.toml", "--json"))
                    self.assertEqual([found[part]["samples"] for part in ("training", "validation")], [15, 5])

    def test_numbers_are_told_of(self):
        for form in ("files", "groups"):
            said = self.mrmf("init", self.samples(form, role_d=lambda i: np.int32([0, 0, 0, 1, 2][i % 5])), "--overwrite")
            self.assertIn("'role_d' holds 0, 1, 2: if these say what rows are for, set split = { column = \"role_d\", validation = [1], "
                          "train = [0] }", said)
            self.assertIn("labels = \"@om\"", self.read("run.toml"))

    def test_a_mark_and_subjects(self):
        for form in ("files", "groups"):
            self.mrmf("init", self.samples(form, held_out=lambda i: i % 5 == 3), "--overwrite")
            self.assertIn('split = { column = "@held_out" }', self.read("run.toml"))
            said = self.mrmf("init", self.samples(form, subject=lambda i: i % 12), "--overwrite")
            self.assertIn("'@subject' has 12 different values in 25 rows: rows of one stay on one side of the split", said)
            self.mrmf("data", "run.toml")


class Characters(SplitTest):
    """netCDF's classic model keeps a word as an array of characters."""

    def test_a_column_of_characters_is_told_of(self):
        characters = {"split": np.array(WORDS, "S5").view("S1").reshape(N, 5), "subject": np.array(WORDS, "S5").view("S1").reshape(N, 5)}
        self.data("s.h5", **characters)
        told = ("s.h5: data set 'split' has 5 texts of one character in each row, as netCDF may keep a word; store each word as one "
                "text, such as netCDF4.chartostring makes of them")
        said = self.mrmf("init", "s.h5")
        self.assertIn("'split' does not say what rows are for: " + told, said)
        self.assertIn("'subject' does not say what rows belong to: " + told.replace("split", "subject"), said)
        self.write("s.toml", CONFIG.replace("SPLIT", 'column = "split", validation = ["val"]'))
        for command in ("data", "train"):
            self.fails(3, command, "s.toml", message=told)


if __name__ == "__main__":
    support.main()
