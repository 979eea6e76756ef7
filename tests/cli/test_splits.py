"""Splits by groups and folds, shares of every class, a test split that nothing in training sees, columns of words."""
import json
import os

import h5py
import numpy as np
import support

N, SUBJECTS = 120, 12

CLASSES = """
[data]
files = ["data.h5"]
train = { samples = "x", labels = "y" }
split = { SPLIT }
[training]
loss = "cross_entropy"
batch = 8
epochs = 1
[run]
folder = "run"
threads = 1
""" + support.layers("flatten", "dense units=3")


class Splits(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        # Subjects have different numbers of rows, in no order, and each has some of the classes more often.
        sizes = rng.permutation(np.repeat([4, 8, 12, 16], 3))
        self.subject = rng.permutation(np.repeat(np.arange(SUBJECTS), sizes))[:N]
        self.labels = ((self.subject + rng.integers(0, 2, N)) % 3).astype("u1")
        self.labels[rng.choice(N, 60, replace=False)] = 0
        self.words = np.array([f"s{i:02}" for i in self.subject], dtype="S3")
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"] = rng.normal(0, 1, (N, 8, 1)).astype("f4") + self.labels[:, None, None]
            file["y"], file["subject"], file["word"] = self.labels, self.subject, self.words
            file["number"] = np.arange(N)
            file["float"] = rng.normal(0, 1, N)
            file["fold"] = np.arange(N) % 4
            file["name"] = np.array([("a", "b", "c", "test")[i % 4] for i in range(N)], dtype=h5py.string_dtype())
            file["one_hot"] = np.eye(3, dtype="u1")[self.labels]

    def config(self, split, name="c.toml", more=""):
        self.write(name, CLASSES.replace("SPLIT", split) + more)
        return name

    def rows(self, run, split):
        """The rows of a part, as predict sees them."""
        self.mrmf("predict", run, "--split", split, "-o", "p.h5", "--append", "number", "--overwrite")
        with h5py.File(self.path("p.h5")) as file:
            return sorted(file["number"][:].tolist())

    def parts(self, split, ranks=0, *more):
        self.mrmf("train", self.config(split), "--overwrite", *more, ranks=ranks)
        return {part: self.rows("run", part) for part in ("train", "validation", "test")}

    def require_apart(self, parts, by=None):
        rows = [row for part in parts.values() for row in part]
        self.assertEqual(sorted(rows), list(range(N)))
        if by is not None:
            sides = [set(by[part].tolist()) for part in parts.values()]
            for i in range(3):
                for other in sides[:i]:
                    self.assertFalse(sides[i] & other)

    def test_groups_stay_on_one_side_and_classes_have_their_shares(self):
        split = 'by = "groups", column = "subject", validation = 0.25, test = 0.15'
        parts = self.parts(split)
        self.require_apart(parts, self.subject)
        for part, share in (("train", 0.6), ("validation", 0.25), ("test", 0.15)):
            self.assertAlmostEqual(len(parts[part]) / N, share, delta=0.09)
        for c in range(3):
            of = [np.mean(self.labels[parts[part]] == c) for part in ("train", "validation")]
            self.assertAlmostEqual(of[0], of[1], delta=0.15)
        self.assertEqual(parts, self.parts(split, 2))  # the same on any number of ranks
        self.assertEqual(parts, self.parts(split, 0, "--set", "data.load=stream"))
        self.assertNotEqual(parts, self.parts(split + ", seed = 7"))
        self.assertIn("groups of 'subject' train", self.read("run/log.txt"))
        words = self.parts(split.replace("subject", "word"))
        self.require_apart(words, self.subject)

    def test_rows_have_a_test_split_and_the_rows_that_validate_stay(self):
        before = self.parts('by = "rows", validation = 0.2, test = 0.1')
        self.mrmf("train", self.config('by = "rows", validation = 0.2'), "--overwrite")
        self.assertEqual(before["validation"], self.rows("run", "validation"))
        self.require_apart(before)
        self.assertEqual([len(before[part]) for part in ("train", "validation", "test")], [84, 24, 12])
        self.fails(2, "evaluate", "run", "--split", "test", message="has no test split")

    def test_stratified_rows(self):
        for labels in "y", "one_hot":
            self.mrmf("train", self.config('by = "rows", validation = 0.2, test = 0.2, stratify = true'), "--overwrite", "--set",
                      f"data.train.labels={labels}")
            parts = {part: self.rows("run", part) for part in ("train", "validation", "test")}
            self.require_apart(parts)
            for c in range(3):
                all_of = np.sum(self.labels == c)
                for part, share in (("validation", 0.2), ("test", 0.2)):
                    self.assertAlmostEqual(np.sum(self.labels[parts[part]] == c), share * all_of, delta=1)

    def test_nothing_in_training_sees_the_test_split(self):
        """Other numbers there change no bit of the run, its best epoch or its records."""
        split = 'by = "groups", column = "subject", validation = 0.25, test = 0.15'
        measured = ("--set", "training.epochs=3", "--set", "data.normalise.samples=mean_std", "--set",
                    "training.class_weights=balanced", "--set", "data.sampling=balanced")
        parts = self.parts(split, 0, *measured)
        epochs = [[line[key] for key in ("train_loss", "validation_loss", "validation_accuracy")]
                  for line in self.lines("run/epochs.jsonl")]
        scores = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--split", "test", "--json"))[0]
        self.assertEqual(scores["samples"], len(parts["test"]))
        with h5py.File(self.path("data.h5"), "a") as file:
            x = file["x"][:]
            x[parts["test"]] = 1e6
            file["x"][...] = x
        self.mrmf("train", "c.toml", "--overwrite", *measured)
        again = [[line[key] for key in ("train_loss", "validation_loss", "validation_accuracy")]
                 for line in self.lines("run/epochs.jsonl")]
        self.assertEqual(epochs, again)

    def test_given_data_and_columns_have_a_test_split_too(self):
        with h5py.File(self.path("data.h5"), "a") as file:
            for name in "x", "y":
                file["test_" + name] = file[name][:10]
        config = self.config('by = "rows"')
        self.write(config, self.read(config).replace(
            'split = { by = "rows" }', 'validation = { samples = "x", labels = "y" }\nduplicates = "allow"\n'
            'test = { samples = "test_x", labels = "test_y" }'))
        self.mrmf("train", config)
        self.assertIn("10 samples of test_x", self.mrmf("evaluate", "run", "--split", "test"))
        parts = self.parts('column = "name", validation = ["c"], train = ["a", "b"]')
        self.assertEqual(parts["test"], list(range(3, N, 4)))  # by its word
        parts = self.parts('column = "fold", validation = [1], train = [0], test = [2, 3]')
        self.assertEqual(len(parts["test"]), N // 2)

    def test_folds_validate_every_row_once(self):
        for number, (split, folds) in enumerate((('by = "folds", folds = 3', 3), ('by = "folds", folds = 3, column = "subject"', 3),
                                                 ('by = "folds", column = "fold"', 4),
                                                 ('by = "folds", column = "name", test = ["test"]', 3),
                                                 ('by = "folds", folds = 3, test = 0.2', 3))):
            validated, tests = [], []
            if number > 0:
                self.mrmf("train", self.config(split), "--folds", "--set", f"run.folder=run-{number}")
            for fold in range(folds):
                run = f"run-{number}/fold-{fold}"
                if number == 0:  # one by one
                    self.mrmf("train", self.config(f"{split}, fold = {fold}"), "--set", f"run.folder={run}")
                validated += self.rows(run, "validation")
                if "test" in split:
                    tests.append(self.rows(run, "test"))
                if "subject" in split:
                    train, validation = (set(self.subject[self.rows(run, part)]) for part in ("train", "validation"))
                    self.assertFalse(train & validation)
            self.assertEqual(len(validated), len(set(validated)), split)
            self.assertEqual(sorted(validated + (tests[0] if tests else [])), list(range(N)), split)
            self.assertTrue(all(test == tests[0] for test in tests))

    def test_rows_that_a_word_marks_for_tests_are_in_no_fold(self):
        parts = self.parts('by = "folds", column = "name"')
        self.assertEqual(parts["test"], list(range(3, N, 4)))
        self.require_apart(parts)
        self.assertIn("fold 0 (from 0) of 3 validates", self.mrmf("data", "c.toml"))

    def test_tuning_takes_the_weights_and_what_the_file_alone_lacks(self):
        text = self.read(self.config('by = "rows"')).replace('files = ["data.h5"]\n', "")
        self.write("c.toml", text)
        tune = ("tune", "c.toml", "--rates", "1e-3,2e-3", "--batches", "8", "--rules", "constant",
                "--set", 'data.files=["data.h5"]')
        plain = self.mrmf(*tune, "--folder", "plain")
        self.assertNotIn("sample_mean", self.read("plain/best.toml"))
        weighted = self.mrmf(*tune, "--set", 'training.class_weights="balanced"', "--folder", "weighted")
        loss = [line.split()[-1] for out in (plain, weighted) for line in out.splitlines()
                if line.split()[:1] == ["0.001"]]
        self.assertEqual(len(loss), 2)
        self.assertNotEqual(*loss)

    def test_all_folds_in_one_command(self):
        config = self.config('by = "folds", folds = 3, column = "subject", test = 0.2')
        one = self.mrmf("train", config, "--folds")
        self.assertIn("fold 0 of 3: run/fold-0", one)
        losses = [json.loads(self.read(f"run/fold-{i}/result.json"))["validation_loss"] for i in range(3)]
        self.assertIn(f"{np.mean(losses):.5f} +- {np.std(losses, ddof=1):.5f}", one)
        self.assertNotIn("no independent repetitions", one)
        self.assertIn("done before", self.mrmf("train", config, "--folds"))
        self.mrmf("train", config, "--folds", "--set", "run.folder=side", ranks=3)  # side by side
        for i in range(3):
            self.assertEqual(losses[i], json.loads(self.read(f"side/fold-{i}/result.json"))["validation_loss"])
        self.assertIn(f"{np.mean(losses):.5f} +- {np.std(losses, ddof=1):.5f}", self.mrmf("compare", "run"))
        self.mrmf("predict", "run", "--ensemble", "--split", "test", "-o", "all.h5")
        self.mrmf("predict", *(f"run/fold-{i}" for i in range(3)), "--split", "test", "-o", "three.h5")
        with h5py.File(self.path("all.h5")) as a, h5py.File(self.path("three.h5")) as b:
            np.testing.assert_array_equal(a["probability"][:], b["probability"][:])
            self.assertIn("deviation", a)

    def test_folds_of_one_folder_are_of_one_configuration(self):
        config = self.config('by = "folds", folds = 3')
        self.mrmf("train", config, "--folds")
        self.fails(2, "train", config, "--folds", "--set", "training.optimizer.learning_rate=0.5",
                   message="training.optimizer.learning_rate was")
        self.fails(2, "train", config, "--folds", "--set", "data.split.folds=2", "--overwrite",
                   message="run/fold-2 is there, of a split with more than 2 folds")
        before = self.read("run/fold-1/epochs.jsonl")
        self.mrmf("train", config, "--folds", "--overwrite", "--set", "training.optimizer.learning_rate=0.5")
        self.assertNotEqual(before, self.read("run/fold-1/epochs.jsonl"))
        # Rows that validate one fold have trained the others.
        self.fails(2, "predict", "run", "--ensemble", "-o", "p.h5", message="they are folds of one split")
        said = self.mrmf("predict", "run", "--ensemble", "-o", "p.h5", "--files", "data.h5")
        self.assertIn("120", said)

    def test_a_test_split_of_its_own_is_looked_at_before_training(self):
        rng = np.random.default_rng(1)
        with h5py.File(self.path("test.h5"), "w") as file:
            file["x"], file["y"] = rng.normal(0, 1, (20, 8, 1)).astype("f4"), (np.arange(20) % 3).astype("u1")
            file["short"] = np.zeros((20, 7, 1), "f4")
        self.config('by = "rows"')

        def with_test(test, validation='"x"'):
            text = self.read("c.toml").replace('split = { by = "rows" }',
                                               f'validation = {{ samples = {validation}, labels = "y", files = ["v.h5"] }}\ntest = {{ {test} }}')
            self.write("t.toml", text)
            return "t.toml"

        with h5py.File(self.path("v.h5"), "w") as file:
            file["x"], file["y"] = rng.normal(0, 1, (20, 8, 1)).astype("f4"), (np.arange(20) % 3).astype("u1")
        for test, code, message in (
                ('samples = "nope", labels = "y", files = ["test.h5"]', 3, "nope"),
                ('samples = "x", labels = "y", files = ["gone.h5"]', 3, "gone.h5"),
                ('samples = "short", labels = "y", files = ["test.h5"]', 3, "training and test data differ"),
                ('samples = "x", labels = "y"', 3, "test, and are trained on as"),
                ('samples = "x", labels = "y", files = ["v.h5"]', 3, "test, and validate as"),
                ('samples = "x", labels = "y", files = ["test.h5"], groups = "g*"', 2, "data.groups says which")):
            for command in "train", "data":
                self.fails(code, command, with_test(test), message=message)
            self.assertFalse(os.path.exists(self.path("run")), test)
        config = with_test('samples = "x", labels = "y", files = ["test.h5"]')
        found = json.loads(self.mrmf("data", config, "--json"))
        self.assertEqual((found["test"]["samples"], found["test"]["class_counts"]), (20, [7, 7, 6]))
        self.mrmf("train", config)
        self.assertIn("20 samples of x", self.mrmf("evaluate", "run", "--split", "test"))

    def test_groups_of_their_own_test(self):
        rng = np.random.default_rng(1)
        with h5py.File(self.path("g.h5"), "w") as file:
            for part, count in ("train", 12), ("val", 4), ("test", 5):
                for i in range(count):
                    group = file.create_group(f"{part}/s{i:02}")
                    group["x"], group.attrs["y"] = rng.normal(0, 1, (8, 1)).astype("f4"), rng.normal()
        text = CLASSES.replace('"data.h5"', '"g.h5"').replace("split = { SPLIT }", """rows = "groups"
groups = "train/*"
validation = { samples = "x", labels = "@y", groups = "val/*" }
test = { samples = "x", labels = "@y", TEST }""").replace('labels = "y"', 'labels = "@y"').replace("cross_entropy", "mse").replace("units = 3", "units = 1")
        self.write("g.toml", text.replace(", TEST", ""))
        self.fails(3, "train", "g.toml", message="tests, and is trained on as")
        self.write("g.toml", text.replace("TEST", 'groups = "test/*"'))
        self.mrmf("train", "g.toml")
        self.assertIn("5 samples", self.mrmf("evaluate", "run", "--split", "test"))

    def test_bad_input_has_one_clear_line(self):
        for split, code, message in (
                ('by = "groups"', 2, "needs data.split.column"),
                ('by = "groups", column = "nothing"', 3, "nothing"),
                ('by = "groups", column = "float"', 3, "'float' holds numbers that are not whole"),
                ('by = "folds", column = "float"', 3, "whole numbers or words"),
                ('by = "folds"', 2, "needs data.split.folds"),
                ('by = "folds", folds = 13, column = "subject"', 3, "'subject' has 12 groups, and data.split.folds = 13"),
                ('by = "folds", folds = 3, fold = 3', 2, "counted from 0"),
                ('by = "folds", column = "fold", fold = 4', 3, "'fold' has 4 folds, counted from 0"),
                ('by = "rows", validation = 0.6, test = 0.4', 2, "leave no row for training"),
                ('by = "column", column = "fold", validation = [1], test = 0.2', 2, "name its values"),
                ('by = "rows", folds = 3', 2, "data.split.folds goes with"),
                ('column = "fold", validation = [1], train = [0], test = [1]', 3, "data.split.test"),
                ('column = "fold", validation = [1], train = [0], test = [7]', 3, "and not 7"),
                ('by = "folds", column = "name", test = ["tset"]', 3, "does not hold tset"),
                ('by = "rows", test = 1', 2, "data.split.test is 1")):
            self.fails(code, "train", self.config(split), message=message)
            self.assertFalse(os.path.exists(self.path("run/epochs.jsonl")), split)
        with h5py.File(self.path("data.h5"), "a") as file:
            file["two"] = np.arange(N) % 2
        self.fails(3, "train", self.config('by = "groups", column = "two", test = 0.2'),
                   message="'two' has 2 groups, and the split has 3 sides")
        self.fails(2, "train", self.config('by = "files", test = 0.3'), "--set", 'data.validation.files=["data.h5"]',
                   message="data.split.test shares out files, and data.validation.files are given")
        self.fails(2, "train", self.config('by = "rows"'), "--folds", message="data.split.by is not \"folds\"")

    def test_a_fold_of_one_class_is_told(self):
        with h5py.File(self.path("data.h5"), "a") as file:
            file["by_class"] = self.labels
        said = self.mrmf("train", self.config('by = "groups", column = "by_class"'))
        self.assertIn("all rows that validate are of one class, and there are 3", said)


if __name__ == "__main__":
    support.main()
