"""Classes as files keep them: one-hot rows, from 1 on, -1 and 255 for no label, -1 and 1, words; and what is no class."""
import json
import signal

import h5py
import numpy as np
import support
from people_files import InitTest

N = 120
CONFIG = """
[data]
files = ["FILE.h5"]
train = { samples = "x", labels = "y" }
split = { by = "rows", validation = 0.25 }
[training]
loss = "cross_entropy"
optimizer = { name = "adam", learning_rate = 1e-2 }
epochs = 2
batch = 16
[run]
folder = "RUN"
threads = 1
"""
SAMPLES = support.layers("conv filters=4 kernel=3", "relu", "flatten", "dense units=3")
POSITIONS = support.layers("conv filters=4 kernel=3 padding=\"same\"", "relu", "conv filters=3 kernel=1")


class ClassLabels(InitTest):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(0)
        self.kinds = self.rng.integers(0, 3, N)
        self.x = (self.kinds[:, None, None] + 0.3 * self.rng.normal(0, 1, (N, 32, 2))).astype("f4")

    def labels(self, name, y, x=None):
        with h5py.File(self.path(name + ".h5"), "w") as file:
            file["x"], file["y"] = self.x if x is None else x, y

    def config(self, name, layers=SAMPLES, more=""):
        text = CONFIG.replace("FILE", name).replace("RUN", name).replace("[training]\n", "[training]\n" + more)
        self.write(name + ".toml", text + layers)

    def epochs(self, name, *more, ranks=0):
        self.mrmf("train", name + ".toml", "--overwrite", *more, ranks=ranks)
        return [{key: e[key] for key in ("train_loss", "validation_loss", "validation_accuracy") if key in e}
                for e in self.lines(name + "/epochs.jsonl")]

    def as_kept(self):
        return {"onehot_u1": (np.eye(3)[self.kinds].astype("u1"), ""),
                "onehot_f4": (np.eye(3)[self.kinds].astype("f4"), ""),
                "from1": (self.kinds + 1, "class_values = [1, 2, 3]\n"),
                "halves": (self.kinds * 0.5, "class_values = [0, 0.5, 1]\n"),
                "words": (np.array(["a", "b", "c"], "S1")[self.kinds], "class_values = [\"a\", \"b\", \"c\"]\n"),
                "texts": (np.array([("ash", "beech", "oak")[k] for k in self.kinds], dtype=h5py.string_dtype()),
                          "class_values = [\"ash\", \"beech\", \"oak\"]\n"),
                "column": (self.kinds[:, None], "")}

    def test_every_way_of_keeping_classes_trains_alike(self):
        self.labels("plain", self.kinds)
        self.config("plain")
        expected = self.epochs("plain")
        for name, (y, more) in self.as_kept().items():
            self.labels(name, y)
            self.config(name, more=more)
            self.assertEqual(self.epochs(name), expected, name)
            found = json.loads(self.mrmf("data", name + ".toml", "--json"))
            self.assertEqual([a + b for a, b in zip(found["training"]["class_counts"], found["validation"]["class_counts"])],
                             np.bincount(self.kinds).tolist(), name)
        self.assertEqual(self.epochs("onehot_u1", "--set", "data.load=stream"), expected)
        accuracy = expected[-1]["validation_accuracy"]
        scores = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "words", "--json"))[0]
        self.assertAlmostEqual(scores["accuracy"], accuracy, delta=1e-6)
        for name in "plain", "onehot_f4", "words", "texts", "from1":
            self.mrmf("predict", name, "-o", f"{name}-out.h5")
            self.mrmf("plot", f"{name}-out.h5", "--what", "confusion", "--labels", f"{name}.h5:y", "-o", f"{name}.svg")
            drawn = self.read(f"{name}.svg")
            self.assertIn(f"accuracy {accuracy:.4f}", drawn)
            self.assertNotIn("left out", drawn)
        for name in "onehot_f4", "words":
            for a, b in zip(self.epochs(name, ranks=2), self.epochs("plain", "--set", "training.batch=16", ranks=2)):
                self.assertEqual(a, b)

    def test_labels_that_are_ignored(self):
        lacking = np.arange(N) % 7 == 0
        self.labels("plain", np.where(lacking, -1, self.kinds))
        self.config("plain", more="ignore = -1\n")
        expected = self.epochs("plain")
        one_hot = np.eye(3)[self.kinds]
        one_hot[lacking] = -100
        from_0 = np.where(lacking, 0, self.kinds + 1)  # 0 says that there is none
        for name, y, more in (("hot", one_hot, "ignore = -100\n"), ("hundred", np.where(lacking, -100, self.kinds), "ignore = -100\n"),
                              ("zero", from_0, "ignore = 0\nclass_values = [1, 2, 3]\n")):
            self.labels(name, y)
            self.config(name, more=more)
            self.assertEqual(self.epochs(name), expected, name)

    def test_one_hot_masks(self):
        masks = self.rng.integers(0, 3, (40, 8, 8))
        x = (masks[..., None] + 0.1 * self.rng.normal(0, 1, (40, 8, 8, 1))).astype("f4")
        hot = np.eye(3)[masks].astype("u1")
        mrmf = ("--set", "method.name=mrmf", "--set", "method.resolutions=[[2,2],[1,1]]", "--set", "method.top=interpolated")
        self.labels("plain", masks, x)
        self.labels("hot", hot, x)
        self.labels("first", np.moveaxis(hot, -1, 1), np.moveaxis(x, -1, 1))
        for name in "plain", "hot", "first":
            self.config(name, POSITIONS)
        self.assertEqual(self.epochs("hot"), self.epochs("plain"))
        self.assertEqual(self.epochs("hot", *mrmf), self.epochs("plain", *mrmf))
        self.assertEqual(self.epochs("first", "--set", "data.axes=n c y x"), self.epochs("plain"))
        text, said = self.made("made", x=x, y=hot)
        self.assertIn("outputs = 3", text)
        self.assertIn('loss = "cross_entropy"', text)
        self.trains("made")

    def test_what_is_no_class(self):
        hot = np.eye(3)[self.kinds]
        for bad, count in ((np.array([0, 1, 1.0]), 2), (np.zeros(3), 0), (np.array([0, 0.5, 0]), 1)):
            rows = hot.copy()
            rows[100] = bad  # behind those that are looked at first
            self.labels("bad", rows)
            self.config("bad")
            self.fails(3, "train", "bad.toml", message="bad.h5: data set 'y', row 100 is not one-hot, as the first rows "
                       f"are: it has {count} numbers other than 0")
        self.labels("bad", np.where(np.arange(N) == 90, 4, self.kinds + 1))
        self.config("bad", more="class_values = [1, 2, 3]\n")
        self.fails(3, "train", "bad.toml", ranks=2, message="row 90 holds 4, and training.class_values are 1, 2, 3")
        self.labels("bad", np.array(["a", "b", "c"], "S1")[self.kinds])
        self.config("bad")
        self.fails(3, "train", "bad.toml", message="holds words; name them in training.class_values")
        self.config("bad", more="class_values = [\"a\", \"b\", \"x\"]\n")
        self.fails(3, "train", "bad.toml", message="holds \"c\", and training.class_values are a, b, x")
        self.labels("bad", np.eye(4)[self.kinds])
        self.config("bad")
        self.fails(2, "train", "bad.toml", message="one-hot rows of 4 classes, and the network's last layer has 3 channels")
        self.labels("bad", self.rng.integers(0, 2, (N, 5)))
        self.fails(2, "train", "bad.toml", message="the labels are 5x1")  # several may hold: no class
        for more, message in (("class_values = [1]\n", "names one class"), ("class_values = [1, 1.0, 2]\n", "twice"),
                              ("class_values = [1, \"b\", 2]\n", "mixes words and numbers"),
                              ("class_values = [1, 2]\n", "names 2 classes, and the network's last layer has 3"),
                              ("class_values = [1, 2, 3]\nignore = 2\n", "which training.ignore takes"),
                              ("class_values = []\n", "it must be a list of numbers or texts")):
            self.config("bad", more=more)
            self.labels("bad", self.kinds + 1)
            self.fails(2, "train", "bad.toml", message=message)

    def test_init_recognises_classes(self):
        cases = {name: (y, 3, more, None) for name, (y, more) in self.as_kept().items() if name != "halves"}
        for name, lacking in ("minus1", -1), ("minus100", -100), ("byte", 255):
            labels = self.kinds.copy()
            labels[::7] = lacking
            cases[name] = (labels.astype("u1" if lacking == 255 else "i8"), 3, "", lacking)
        cases["plusminus"] = (np.where(self.kinds > 0, 1, -1).astype("i4"), 2, "class_values = [-1, 1]\n", None)
        for name, (y, count, values, ignore) in cases.items():
            text, said = self.made(name, x=self.x, y=y)
            self.assertIn(f": {count} classes, one per sample", said, name)
            self.assertIn('loss = "cross_entropy"', text, name)
            self.assertIn(f"outputs = {count}", text, name)
            self.assertIn(values, text, name)
            self.assertEqual("\nclass_values = " in text, bool(values), name)
            self.assertEqual(f"ignore = {ignore}\n" in text, ignore is not None, name)
            self.trains(name)
        text, said = self.made("several", x=self.x, y=np.tile([[1, 1, 0], [0, 1, 0]], (N // 2, 1)).astype("u1"))
        self.assertIn("yes or no for 3 outputs", said)


LEVEL = {"cat": 0.0, "dog": 1.0, "owl": 2.0, "Dog": 1.0, "tawny_owl": 2.0, "Tawny Owl": 2.0, "tawny-owl": 2.0}


class NamesOfClasses(InitTest):
    """What files call the numbers of classes must agree: between the files and groups of a set, between training and
    validation, and between a trained run and the data that it is given."""

    def enumerated(self, name, numbers, words, as_kept="enum"):
        """A file whose samples tell the words of its rows, which stand under these numbers."""
        rng = np.random.default_rng(len(name))
        x = np.array([LEVEL[word] for word in words])[:, None, None] + rng.normal(0, 0.1, (len(words), 16, 2))
        y = np.array([numbers[word] for word in words], "i1")
        with h5py.File(self.path(name), "w") as file:
            file["x"] = x.astype("f4")
            kind = h5py.enum_dtype(numbers, basetype="i1") if as_kept == "enum" else y.dtype
            file.create_dataset("y", data=y, dtype=kind)
            inverse = {number: word for word, number in numbers.items()}
            names = [inverse[number] for number in sorted(inverse)]
            if as_kept == "flags":
                file["y"].attrs["flag_values"] = np.array(sorted(inverse), "i1")
                file["y"].attrs["flag_meanings"] = " ".join(names)
            if as_kept == "list":
                file["y"].attrs["class_names"] = names

    def config(self, files, run="run", units=2, more="", split='split = { by = "rows", validation = 0.25 }\n'):
        names = ", ".join(f'"{file}"' for file in files)
        text = CONFIG.replace('["FILE.h5"]', f"[{names}]").replace("RUN", run).replace("epochs = 2", "epochs = 8")
        text = text.replace('split = { by = "rows", validation = 0.25 }\n', split + more)
        self.write("c.toml", text + support.layers("conv filters=4 kernel=3", "relu", "flatten", f"dense units={units}"))

    def test_files_of_a_set(self):
        for kept in ("enum", "flags", "list"):
            self.enumerated("a.h5", {"cat": 0, "dog": 1}, ["cat", "dog"] * 30, kept)
            self.enumerated("b.h5", {"cat": 0, "owl": 1}, ["cat", "owl"] * 30, kept)
            self.enumerated("c.h5", {"dog": 0, "cat": 1}, ["cat", "dog"] * 30, kept)
            self.enumerated("d.h5", {"cat": 0, "dog": 1}, ["dog", "cat"] * 30, kept)
            owl = "b.h5: data set 'y' calls 1 'owl', and a.h5: data set 'y' 'dog'; store each class under one number"
            self.config(["a.h5", "d.h5", "b.h5", "c.h5"])
            for command in "train", "data":
                self.fails(3, command, "c.toml", message=owl)
            self.fails(3, "train", "c.toml", message=owl, ranks=2)
            self.fails(3, "init", "a.h5", "d.h5", "b.h5", "-o", "i.toml", message=owl)
            self.config(["a.h5", "c.h5"])
            self.fails(3, "train", "c.toml", message="c.h5: data set 'y' calls 0 'dog', and a.h5: data set 'y' 'cat'")
            self.config(["a.h5", "c.h5"], more='names.classes = ["one", "two"]\n')  # the user knows better
            self.assertIn("one", self.mrmf("data", "c.toml"))
            self.config(["a.h5", "d.h5"])
            self.assertRegex(self.mrmf("data", "c.toml"), r"cat +46\n +dog +44\n")

    def test_more_names_and_none_contradict_nothing(self):
        self.enumerated("a.h5", {"cat": 0, "dog": 1}, ["cat", "dog"] * 30)
        self.enumerated("b.h5", {"cat": 0, "dog": 1, "owl": 2}, ["cat", "owl"] * 30)
        self.enumerated("n.h5", {"cat": 0, "dog": 1}, ["cat", "dog"] * 30, "plain")
        self.config(["a.h5", "b.h5", "n.h5"], units=3)
        self.mrmf("train", "c.toml")
        self.assertIn('["cat", "dog", "owl"]', self.read("run/config.toml"))
        self.enumerated("e.h5", {"owl": 1, "dog": 0}, ["owl", "dog"] * 30)
        self.config(["n.h5", "e.h5", "b.h5"], units=3)
        self.fails(3, "train", "c.toml", message="b.h5: data set 'y' calls 0 'cat', and e.h5: data set 'y' 'dog'")
        self.enumerated("f.h5", {"owl": 3}, ["owl"] * 60)
        self.config(["b.h5", "f.h5"], units=4)
        self.fails(3, "train", "c.toml", message="f.h5: data set 'y' calls 3 'owl', and b.h5: data set 'y' 2")

    def test_spellings_of_one_name(self):
        self.enumerated("a.h5", {"tawny_owl": 0, "Dog": 1}, ["tawny_owl", "Dog"] * 30)
        self.enumerated("b.h5", {"Tawny Owl": 0, "dog": 1}, ["Tawny Owl", "dog"] * 30)
        self.enumerated("c.h5", {"tawny-owl": 1, "dog": 0}, ["tawny-owl", "dog"] * 30)
        self.config(["a.h5", "b.h5"])
        self.mrmf("train", "c.toml")
        self.assertIn('classes = ["tawny_owl", "Dog"]', self.read("run/config.toml"))
        self.mrmf("evaluate", "run", "--files", "b.h5")
        self.fails(3, "evaluate", "run", "--files", "c.h5", message="c.h5: data set 'y' calls 0 'dog', and the training data")

    def test_spellings_that_tell_classes_apart(self):
        for one, other in (("b", "B"), ("-1", "1"), ("K-", "K"), ("a-b", "ab")):
            LEVEL.update({one: 0.0, other: 1.0})
            self.enumerated("a.h5", {one: 0, other: 1}, [one, other] * 30)
            self.enumerated("b.h5", {other: 0, one: 1}, [one, other] * 30)
            self.config(["a.h5", "b.h5"])
            self.fails(3, "train", "c.toml", message=f"b.h5: data set 'y' calls 0 '{other}', and a.h5: data set 'y' '{one}'")

    def test_lists_that_do_not_fit(self):
        self.enumerated("a.h5", {"cat": 0, "dog": 1, "owl": 2}, ["cat", "dog", "owl"] * 20, "plain")
        with h5py.File(self.path("a.h5"), "r+") as file:
            file["y"].attrs["class_names"] = ["cat", "dog"]
        self.config(["a.h5"], units=3)
        told = "a.h5: data set 'y' lists 2 names, and there are 3 classes: they are not used; name each class in data.names"
        for ranks in 0, 2:
            self.assertIn(told, self.mrmf("data", "c.toml", ranks=ranks))
            self.assertIn(told, self.mrmf("train", "c.toml", "--overwrite", ranks=ranks))
        with h5py.File(self.path("a.h5"), "r+") as file:
            file["y"].attrs["class_names"] = "cat, dog"  # in one text
        self.assertIn(told, self.mrmf("data", "c.toml"))
        self.config(["a.h5"], units=3, more='names.classes = ["cat", "dog", "owl"]\n')
        self.assertNotIn("not used", self.mrmf("data", "c.toml"))

    def test_sets_of_a_run(self):
        self.enumerated("a.h5", {"cat": 0, "dog": 1}, ["cat", "dog"] * 30)
        self.enumerated("c.h5", {"dog": 0, "cat": 1}, ["cat", "dog"] * 30)
        for part in "validation", "test":
            other = f'{part} = {{ files = ["c.h5"], samples = "x", labels = "y" }}\n'
            more = 'validation = { files = ["d.h5"], samples = "x", labels = "y" }\n' if part == "test" else ""
            self.enumerated("d.h5", {"cat": 0, "dog": 1}, ["cat", "dog"] * 30)
            self.config(["a.h5"], split=other + more)
            for command in "train", "data":
                self.fails(3, command, "c.toml", message=f"training and {part} data differ: c.h5: data set 'y' calls 0 "
                           "'dog', and a.h5: data set 'y' 'cat'")

    def test_data_given_to_a_run(self):
        self.enumerated("a.h5", {"cat": 0, "dog": 1}, ["cat", "dog"] * 30)
        self.enumerated("c.h5", {"dog": 0, "cat": 1}, ["cat", "dog"] * 30)
        self.enumerated("n.h5", {"cat": 0, "dog": 1}, ["cat", "dog"] * 30, "plain")
        self.config(["a.h5"])
        self.mrmf("train", "c.toml")
        differs = "c.h5: data set 'y' calls 0 'dog', and the training data 'cat'; store the labels"
        self.fails(3, "evaluate", "run", "--files", "c.h5", message=differs)
        self.assertIn("accuracy", self.mrmf("evaluate", "run", "--files", "n.h5"))
        self.assertIn("accuracy", self.mrmf("evaluate", "run", "--files", "a.h5"))
        self.mrmf("predict", "run", "--files", "c.h5", "-o", "p.h5")  # without labels
        self.config(["c.h5"], run="swapped")
        self.mrmf("train", "c.toml")
        self.fails(2, "predict", "run", "swapped", "--files", "n.h5", "-o", "two.h5", message="run and swapped cannot predict "
                   "together: of the labels swapped calls 0 'dog', and run 'cat'")
        config = self.read("run/config.toml")
        self.assertIn('stored = ["0: cat", "1: dog"]', config)
        # A run of an earlier version remembers no names of numbers.
        self.write("run/config.toml", "".join(line + "\n" for line in config.splitlines() if '"0: cat"' not in line))
        self.assertIn("accuracy", self.mrmf("evaluate", "run", "--files", "c.h5"))
        self.write("run/config.toml", config.replace('"0: cat"', '"cat"'))
        self.fails(2, "evaluate", "run", "--files", "a.h5", message='data.names.stored: "cat" is no number and name')

    def test_a_run_that_continues(self):
        self.enumerated("a.h5", {"cat": 0, "dog": 1}, ["cat", "dog"] * 30)
        self.config(["a.h5"])
        self.mrmf("train", "c.toml")
        with h5py.File(self.path("a.h5"), "r+") as file:
            numbers = file["y"][()]
            del file["y"]
            file.create_dataset("y", data=numbers, dtype=h5py.enum_dtype({"dog": 0, "cat": 1}, basetype="i1"))
        self.fails(3, "train", "--continue", "run", "--set", "training.epochs=9",
                   message="a.h5: data set 'y' calls 0 'dog', and the training data 'cat'")
        self.fails(3, "evaluate", "run", message="a.h5: data set 'y' calls 0 'dog'")

    def test_a_run_that_was_stopped(self):
        self.enumerated("a.h5", {"cat": 0, "dog": 1}, ["cat", "dog"] * 30)
        self.config(["a.h5"])
        self.write("c.toml", self.read("c.toml").replace("epochs = 8", "epochs = 1000000"))
        process = self.launch("train", "c.toml")
        support.wait_while(process, lambda: self.epochs_written() < 2)
        process.send_signal(signal.SIGUSR1)
        process.communicate()
        with h5py.File(self.path("a.h5"), "r+") as file:
            numbers = file["y"][()]
            del file["y"]
            file.create_dataset("y", data=numbers, dtype=h5py.enum_dtype({"dog": 0, "cat": 1}, basetype="i1"))
        self.fails(3, "train", "c.toml", message="run holds an unfinished run on labels of other names: the data calls 0 'dog', "
                   "and the run 'cat'; restore the files")

    def test_groups_and_attributes(self):
        def groups(names_of):
            with h5py.File(self.path("g.h5"), "w") as file:
                for i in range(24):
                    group = file.create_group(f"s{i:02}")
                    group["x"] = np.full((16, 2), i % 2, "f4")
                    kind = h5py.enum_dtype(names_of(i), basetype="i1")
                    group.create_dataset("y", data=np.int8(i % 2), dtype=kind)
                    group.attrs.create("kind", np.int8(i % 2), dtype=kind)
        for labels, what in ("y", "data set 's{:02}/y'"), ("@kind", "attribute 'kind' of 's{:02}'"):
            groups(lambda i: {"dog": 0, "cat": 1} if i > 6 else {"cat": 0, "dog": 1})
            self.config(["g.h5"], more='rows = "groups"\n')
            self.write("c.toml", self.read("c.toml").replace('labels = "y"', f'labels = "{labels}"'))
            self.fails(3, "train", "c.toml", message=f"g.h5: {what.format(7)} calls 0 'dog', and g.h5: {what.format(0)} 'cat'")
            groups(lambda i: {"cat": 0, "dog": 1})
            self.assertRegex(self.mrmf("data", "c.toml"), r"cat +9\n +dog +9\n")
        self.mrmf("train", "c.toml")
        self.mrmf("predict", "run", "--append", "y", "-o", "p.h5")
        with h5py.File(self.path("p.h5")) as file:
            self.assertEqual(h5py.check_enum_dtype(file["y"].dtype), {"cat": 0, "dog": 1})
        groups(lambda i: {"dog": 0, "cat": 1} if i == 20 else {"cat": 0, "dog": 1})
        self.fails(3, "predict", "run", "--append", "y", "-o", "q.h5",
                   message="g.h5: data set 's20/y' calls 0 'dog', and g.h5: data set 's00/y' 'cat'; --append needs")

    def test_names_of_outputs(self):
        def numbers(name, names):
            with h5py.File(self.path(name), "w") as file:
                y = np.random.default_rng(0).normal(0, 1, (40, 2))
                file["x"], file["y"] = np.repeat(y[:, None, :], 16, 1), y
                file["y"].attrs["names"] = names
        numbers("a.h5", ["mass", "radius"])
        numbers("b.h5", ["radius", "mass"])
        self.config(["a.h5", "b.h5"])
        self.write("c.toml", self.read("c.toml").replace('loss = "cross_entropy"', 'loss = "mse"'))
        self.fails(3, "train", "c.toml", message="b.h5: data set 'y' calls output 0 'radius', and a.h5: data set 'y' 'mass'; "
                   "store the outputs in one order")

    def test_numbers_that_an_enumeration_does_not_have(self):
        names = {"cat": 0, "dog": 1, "owl": 2}

        def stray(*values):
            self.enumerated("a.h5", names, ["cat", "dog", "owl"] * 20)
            with h5py.File(self.path("a.h5"), "r+") as file:
                y = file["y"][()]
                y[7:7 + len(values)] = values
                file["y"][...] = y
        stray(3)
        self.config(["a.h5"], units=4)
        self.fails(3, "train", "c.toml", message="a.h5: data set 'y', row 7 holds 3, which its enumeration does not have; "
                   "correct the label, or name its value in training.ignore")
        self.fails(3, "data", "c.toml", message="row 7 holds 3, which its enumeration does not have")
        for value in 3, 9, -5:
            stray(value)
            said = self.mrmf("init", "a.h5", "-o", "i.toml", "--overwrite")
            self.assertIn(f"and {value}, which the enumeration does not have and which is taken for no label: 3 classes", said)
            self.assertIn(f"ignore = {value}\n", self.read("i.toml"))
            self.assertRegex(self.mrmf("data", "i.toml"), r"cat +\d+\n +dog +\d+\n +owl")
        stray(3, 9)
        self.fails(3, "init", "a.h5", "-o", "i.toml", "--overwrite", message="'y' holds 3, 9, which its enumeration does not have")


if __name__ == "__main__":
    support.main()
