"""What makes up for rare classes: balanced weights and draws, focal loss, advice, and what init writes; names of classes."""
import json
import os

import h5py
import numpy as np
import support

N = 90

CLASSES = """
[data]
files = ["data.h5"]
train = { samples = "x", labels = "y" }
split = { by = "rows", validation = 0.2, stratify = true }
[training]
loss = "cross_entropy"
batch = 6
epochs = 1
[run]
folder = "run"
threads = 1
""" + support.layers("flatten", "dense units=3")


class RareClasses(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.labels = rng.permutation(np.repeat([0, 1, 2], [70, 15, 5])).astype("u1")
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"] = (rng.normal(0, 1, (N, 4, 1)) + self.labels[:, None, None]).astype("f4")
            file["y"] = self.labels
            file["number"] = np.arange(N)
        self.write("c.toml", CLASSES)

    def test_balanced_weights_are_those_of_scikit_learn(self):
        self.mrmf("train", "c.toml", "--set", "training.class_weights=balanced")
        self.mrmf("predict", "run", "--split", "train", "--append", "number", "-o", "p.h5")
        with h5py.File(self.path("p.h5")) as file:
            counts = np.bincount(self.labels[file["number"][:]], minlength=3)
        kept = [line for line in self.read("run/config.toml").splitlines() if line.startswith("class_weights")][0]
        np.testing.assert_allclose(json.loads(kept.partition("=")[2]), counts.sum() / (3 * counts), rtol=1e-6)
        one = self.lines("run/epochs.jsonl")
        self.mrmf("train", "c.toml", "--set", "run.folder=two", "--set", "training.class_weights=balanced", "--set",
                  "training.batch=3", ranks=2)
        self.assertAlmostEqual(self.lines("two/epochs.jsonl")[0]["train_loss"], one[0]["train_loss"], delta=0.05)
        self.fails(2, "train", "c.toml", "--set", "training.loss=binary_cross_entropy", "--set",
                   "training.class_weights=balanced", message="goes with cross_entropy or dice")
        self.fails(2, "train", "c.toml", "--set", "training.class_weights=balancd", message="training.class_weights is")

    def test_balanced_draws_are_the_same_on_any_ranks(self):
        losses = []
        for ranks, batch in (0, 6), (2, 3), (3, 2):
            for load in "memory", "stream":
                self.mrmf("train", "c.toml", "--overwrite", "--set", "data.sampling=balanced", "--set", "data.shards=6", "--set",
                          f"training.batch={batch}", "--set", f"data.load={load}", ranks=ranks)
                losses.append(self.lines("run/epochs.jsonl")[0]["train_loss"])
        np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
        self.mrmf("train", "c.toml", "--overwrite", "--set", "data.shards=6")
        self.assertNotAlmostEqual(self.lines("run/epochs.jsonl")[0]["train_loss"], losses[0], delta=1e-4)
        # A model that only knows the bias ends where classes are equally likely.
        self.mrmf("train", "c.toml", "--overwrite", "--set", "data.sampling=balanced", "--set", "training.epochs=60", "--set",
                  "training.optimizer.learning_rate=0.01")
        recall = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--split", "train", "--json"))[0]["recall"]
        self.assertGreater(recall, 0.6)

    def test_balanced_draws_of_rows_that_are_sorted_by_class(self):
        with h5py.File(self.path("data.h5"), "a") as file:
            order = np.argsort(self.labels, kind="stable")
            file["x"][...], file["y"][...] = file["x"][:][order], file["y"][:][order]
        sorted_rows = ("train", "c.toml", "--overwrite", "--set", "data.sampling=balanced", "--set", "data.shards=6")
        self.fails(2, *sorted_rows, message="of 6 shards of the rows, so an epoch can draw it")
        self.assertFalse(os.path.exists(self.path("run/result.json")))
        losses = []
        for ranks, batch in (0, 6), (2, 3):
            self.mrmf(*sorted_rows, "--set", "data.shuffle_over=all", "--set", f"training.batch={batch}", ranks=ranks)
            losses.append(self.lines("run/epochs.jsonl")[0]["train_loss"])
        self.assertAlmostEqual(*losses, delta=1e-5)
        self.fails(2, *sorted_rows, "--set", "data.shuffle=false", message="data.shuffle = false with data.sampling")

    def test_focal_loss(self):
        self.mrmf("train", "c.toml", "--set", "training.loss=focal")
        self.assertIn('loss = [{ kind = "cross_entropy", gamma = 2 }]', self.read("run/config.toml"))
        self.mrmf("predict", "run", "-o", "p.h5", "--append", "y")
        with h5py.File(self.path("p.h5")) as file:
            p = file["probability"][:][np.arange(len(file["y"])), file["y"][:]].astype(float)
        loss = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--json"))[0]["loss"]
        self.assertAlmostEqual(loss, float(np.mean(-(1 - p) ** 2 * np.log(p))), delta=1e-5)
        self.fails(2, "train", "c.toml", "--set", 'training.loss=[{ kind = "dice", gamma = 2 }]',
                   message="gamma belongs to a cross-entropy")

    def test_advice_and_init(self):
        self.assertIn("class 0 occurs", self.mrmf("data", "c.toml"))
        self.assertNotIn("class 0 occurs", self.mrmf("data", "c.toml", "--set", "training.class_weights=balanced"))
        self.mrmf("init", "data.h5", "--labels", "y", "--samples", "x", "-o", "i.toml")
        self.assertIn('class_weights = "balanced"', self.read("i.toml"))
        rng = np.random.default_rng(1)
        with h5py.File(self.path("masks.h5"), "w") as file:
            mask = np.zeros((24, 16, 16), "u1")
            mask[:, 4:7, 5:9] = 1
            file["image"], file["mask"] = (mask + rng.normal(0, 0.3, mask.shape)).astype("f4")[..., None], mask
            file["patient"] = np.repeat(np.arange(12), 2)
        said = self.mrmf("init", "masks.h5", "-o", "m.toml")
        self.assertIn("'patient' has 12 different values in 24 rows", said)
        text = self.read("m.toml")
        for line in ('loss = ["cross_entropy", "dice"]', "augment = { flip = [0, 1] }", 'by = "groups", column = "patient"'):
            self.assertIn(line, text)
        self.mrmf("train", "m.toml", "--set", "training.epochs=3")
        self.assertIn("groups of 'patient' train", self.read("runs/m/log.txt"))
        said = self.mrmf("data", "m.toml", "--set", "data.split.by=rows", "--set", "data.split.column=")
        self.assertIn('split = { by = "groups", column = "patient"', said)

    def test_names_of_classes(self):
        names = ["wake", "light sleep", "deep"]
        enum = h5py.enum_dtype({name: i for i, name in enumerate(names)}, basetype="u1")
        with h5py.File(self.path("data.h5"), "a") as file:
            file.create_dataset("enum", data=self.labels, dtype=enum)
            file["flags"] = self.labels
            file["flags"].attrs["flag_values"] = np.array([2, 0, 1], "u1")
            file["flags"].attrs["flag_meanings"] = "deep wake light_sleep"
            file["listed"] = self.labels
            file["listed"].attrs["class_names"] = names
            file["latin"] = self.labels
            file["latin"].attrs["class_names"] = np.array([b"Wald", "Übergang".encode("latin-1"), b"See"])
        for labels, expected, more in (("enum", names, ()), ("listed", names, ()),
                                       ("latin", ["Wald", "Übergang", "See"], ()),
                                       ("flags", ["wake", "light_sleep", "deep"], ()),
                                       ("y", ["a", "b", "c"], ("--set", 'data.names.classes=["a", "b", "c"]'))):
            self.mrmf("train", "c.toml", "--overwrite", "--set", f"data.train.labels={labels}", *more)
            got = json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--json"))[0]
            self.assertEqual([one["name"] for one in got["classes"]], expected)
            self.assertIn(expected[1], self.mrmf("evaluate", "run"))
            self.mrmf("predict", "run", "-o", "p.h5", "--overwrite")
            with h5py.File(self.path("p.h5")) as file:
                self.assertEqual(json.loads(file.attrs["class_names"]), expected)
        self.fails(2, "train", "c.toml", "--overwrite", "--set", 'data.names.classes=["a", "b"]',
                   message="data.names.classes has 2 names, and there are 3 classes")

    def test_ids_of_words_beside_predictions(self):
        ids = np.array([f"patient {i} ü" for i in range(N)], dtype=h5py.string_dtype())
        with h5py.File(self.path("data.h5"), "a") as file:
            file["id"] = ids
        self.mrmf("train", "c.toml")
        for ranks in 0, 2:
            self.mrmf("predict", "run", "-o", "p.h5", "--overwrite", "--append", "id", "number", ranks=ranks)
            with h5py.File(self.path("p.h5")) as file:
                self.assertEqual([word.decode() for word in file["id"][:]], [f"patient {i} ü" for i in file["number"][:]])


if __name__ == "__main__":
    support.main()
