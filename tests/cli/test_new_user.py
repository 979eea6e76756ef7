"""What a new user of scikit-learn takes for granted, from the first look at a file to the page: names everywhere, rows that stay
together whatever their column's type, a tuning of what init wrote, and no number that says nothing."""
import json
import os
import re

import h5py
import numpy as np
import support

KINDS = ["background", "seizure", "artefact"]


class NewUser(support.MrmfTest):
    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(3)

    def file(self, **arrays):
        with h5py.File(self.path("d.h5"), "w") as file:
            for name, array in arrays.items():
                if isinstance(array, list):
                    file.create_dataset(name, data=array, dtype=h5py.string_dtype())
                else:
                    file[name] = array

    def windows(self, n=120):
        k = np.where(np.arange(n) % 10 == 0, 2, np.where(np.arange(n) % 5 == 1, 1, 0))
        x = self.rng.normal(0, 1, (n, 32, 2)) + k[:, None, None]
        return x.astype("f4"), k

    def init(self, *words):
        return self.mrmf("init", "d.h5", "-o", "c.toml", "--overwrite", *words)

    def train(self, *words):
        self.mrmf("train", "c.toml", "--set", "training.epochs=2", "--set", "method.name=baseline", "--set", "run.folder=run", *words)

    def scores(self):
        return json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--json"))[0]

    def test_what_init_writes_for_rare_classes_can_be_tuned(self):
        x, k = self.windows()
        self.file(x=x, y=k)
        with h5py.File(self.path("d.h5"), "r+") as file:
            file["y"].attrs["classes"] = KINDS
        self.init()
        text = self.read("c.toml")
        self.assertIn('class_weights = "balanced"', text)
        self.assertIn('name = "auto"', text)
        words = ("tune", "c.toml", "--rates", "1e-3,2e-3", "--batches", "16", "--rules", "cosine", "--set", "training.epochs=1")
        for metric in "f1", "recall:seizure":
            self.mrmf(*words, "--folder", metric.replace(":", "_"), "--set", f"training.metric={metric}")
        best = self.read("recall_seizure/best.toml")
        for line in ('class_weights = "balanced"', 'name = "auto"', "epochs = 20"):
            self.assertIn(line, best)

    def test_names_stand_in_the_tables_of_data(self):
        x, k = self.windows()
        self.file(x=x, y=k)
        with h5py.File(self.path("d.h5"), "r+") as file:
            file["y"].attrs["classes"] = KINDS
        self.init()
        said = self.mrmf("data", "c.toml")
        for name in KINDS:
            self.assertRegex(said, rf"(?m)^ +{name} +\d+$")
        self.assertEqual(json.loads(self.mrmf("data", "c.toml", "--json"))["names"], KINDS)
        self.assertIn("wake", self.mrmf("data", "c.toml", "--set", 'data.names.classes=["wake", "light", "deep"]'))
        self.file(x=x, y=self.rng.normal(0, 1, (120, 2)))
        self.init()
        self.assertRegex(self.mrmf("data", "c.toml", "--set", 'data.names.labels=["mass", "spin"]'), r"(?m)^ +mass( +\S+){4}$")

    def test_names_that_are_none(self):
        x, k = self.windows()
        self.file(x=x, y=k)
        self.init()
        for names, message in (('classes=["a", "b"]', "has 2 names, and there are 3 classes"),
                               ('classes=["a", "b", "b"]', 'has "b" twice; give each of the classes a name of its own'),
                               ('classes=["a", "b", ""]', "has an empty name"), ('labels=["a", "b", "c"]', "use data.names.classes")):
            self.fails(2, "train", "c.toml", "--set", f"data.names.{names}", message=message)
            self.assertIn(message, self.mrmf("data", "c.toml", "--set", f"data.names.{names}"))
        self.file(x=x, y=self.rng.normal(0, 1, (120, 2)))
        self.init()
        self.fails(2, "train", "c.toml", "--set", 'data.names.classes=["a", "b"]', message="use data.names.labels")
        self.fails(2, "train", "c.toml", "--set", 'data.train.labels=["y", ""]', message="data.train.labels has an empty name")
        self.fails(2, "coarsen", "d.h5", "--samples", "x", "--factor", "2,2", "-o", "coarse", message="have 1 axis of positions, the last")

    def test_columns_of_groups_and_folds_are_seen(self):
        x, k = self.windows()
        for values, groups in ((np.arange(120) // 10 + 0.0, 'by = "groups", column = "subject"'), (np.arange(120) // 60, None),
                               (np.arange(120) // 10 + 0.5, ""), (np.zeros(120, int), ""), (["one"] * 120, ""), (["a"] * 60 + ["b"] * 60, None)):
            self.file(x=x, y=k, subject=values)
            said = self.init()
            if groups:
                self.assertIn(groups, self.read("c.toml"))
            elif groups is None:
                self.assertIn("'subject' has 2 different values in 120 rows: if rows of one belong together", said)
                self.assertIn('by = "rows"', self.read("c.toml"))
            else:
                self.assertNotIn("subject", said)
            self.assertIn("samples", self.mrmf("data", "c.toml"))
        for folds in np.arange(120) % 4, [f"part {i % 4}" for i in range(120)]:
            self.file(x=x, y=k, fold=folds)
            self.assertIn('set split = { by = "folds", column = "fold" }', self.init())
            self.train("--set", "data.split.by=folds", "--set", "data.split.column=fold", "--set", "data.split.validation=", "--overwrite")

    def test_marks_of_rows_that_train(self):
        x, k = self.windows()
        mark = np.arange(120) % 4 != 1
        for name, values in (("is_train", mark), ("in_training", mark.astype("u1"))):
            self.file(x=x, y=k, **{name: values})
            self.init()
            self.assertIn(f'split = {{ column = "{name}", validation = [0] }}', self.read("c.toml"))
            self.assertIn(f'samples = "x", labels = "y"', self.read("c.toml"))
            self.train("--overwrite")
            self.mrmf("predict", "run", "-o", "p.h5", "--append", name, "--overwrite")
            with h5py.File(self.path("p.h5")) as file:
                self.assertEqual((len(file[name]), file[name][:].any()), (30, False))
        self.file(x=x, y=k, train_mask=mark, val_mask=np.arange(120) % 8 == 1, test_mask=np.arange(120) % 8 == 5)
        said = self.init()
        self.assertIn("'train_mask' and 'val_mask' say which rows train and which validate, and 'test_mask' which ones test", said)
        self.assertIn('samples = "x", labels = "y"', self.read("c.toml"))

    def test_rows_that_are_not_finite_are_no_screens_of_numbers(self):
        x, _ = self.windows(4000)
        y = self.rng.normal(0, 1, 4000)
        y[self.rng.random(4000) < 0.4] = np.nan
        self.file(x=x, y=y)
        said = self.init() + self.mrmf("data", "c.toml")
        self.assertRegex(said, r"\d{4} rows hold NaN or infinity:\n    d.h5: \d")
        self.assertLess(max(map(len, said.splitlines())), 200)
        found = json.loads(self.mrmf("data", "c.toml", "--json"))
        self.assertEqual(len(found["training"]["not_finite"]) + len(found["validation"]["not_finite"]), int(np.isnan(y).sum()))

    def masks(self, shape, count):
        masks = np.zeros((count, *shape), "u1")
        for mask in masks:
            mask[tuple(slice(at, at + 4) for at in self.rng.integers(0, 8, len(shape)))] = 1
        return (masks + self.rng.normal(0, 0.3, masks.shape)).astype("f4"), masks

    def test_an_image_and_its_mask_in_each_group_or_file(self):
        for shape in (16, 16), (12, 12, 12):
            images, masks = self.masks(shape, 12)
            with h5py.File(self.path("d.h5"), "w") as file:
                for i in range(12):
                    file[f"case_{i}/img"], file[f"case_{i}/seg"] = images[i], masks[i]
                    file[f"case_{i}"].attrs["patient"] = i // 2
            self.assertIn('each of 12 groups that fit "case_*" is one sample', self.init())
            self.assertIn('samples = "img", labels = "seg"', self.read("c.toml"))
            self.train("--overwrite")
        images, masks = self.masks((16, 16), 9)
        os.makedirs(self.path("each"))
        for i in range(9):
            with h5py.File(self.path(f"each/{i}.h5"), "w") as file:
                file["img"], file["seg"] = images[i], masks[i]
        self.assertIn("each of 9 files is one sample", self.mrmf("init", "each/*.h5", "-o", "c.toml", "--overwrite"))
        self.train("--overwrite")
        # Parts are no samples, and neither are the rows of subjects.
        images, masks = self.masks((16, 16), 20)
        with h5py.File(self.path("d.h5"), "w") as file:
            for part in "train", "val":
                file[f"{part}/img"], file[f"{part}/seg"] = images, masks
        self.assertIn("'val/img' and 'val/seg' validate", self.init())

    def test_numbers_that_the_file_has_names_for_are_classes(self):
        x, k = self.windows()
        self.file(x=x, y=np.array([10, 20, 30], "i2")[k])
        self.assertIn("these are only 10, 20, 30; if they are classes", self.init())
        with h5py.File(self.path("d.h5"), "r+") as file:
            file["y"].attrs["flag_values"], file["y"].attrs["flag_meanings"] = np.array([10, 20, 30], "i2"), "water land ice"
        self.assertIn("'y' holds numbers that the file has names for: 3 classes, one per sample", self.init())
        self.train()
        self.assertRegex(self.mrmf("evaluate", "run"), r"(?m)^ +land +\d+ +\d+ ")

    def test_a_yes_that_is_rare(self):
        x, k = self.windows()
        masks = np.zeros((24, 16, 16, 2), "u1")
        masks[:, 3:6, 3:6, 0], masks[:, 8:10, 8:10, 1] = 1, 1
        images = (masks.sum(-1, keepdims=True) + self.rng.normal(0, 0.3, (24, 16, 16, 1))).astype("f4")
        loss = 'loss = ["binary_cross_entropy", "dice"]'
        for samples, labels, rare in ((x, np.stack([k > 0, k == 2], 1), "output 1 is a yes in 10 % of the training labels 'y', so"),
                                      (x, np.stack([k > 0, k == 0], 1), ""),
                                      (images, masks, "output 0 is a yes in 3.5 % of the training labels 'y', and 1 more is rare, too")):
            self.file(x=samples, y=labels.astype("u1"))
            self.init()
            self.assertEqual(loss in self.read("c.toml"), bool(rare))
            self.assertNotIn("class_weights", self.read("c.toml"))
            self.assertNotIn("plain cross-entropy", self.mrmf("data", "c.toml"))
            said = self.mrmf("data", "c.toml", "--set", "training.loss=binary_cross_entropy")
            self.assertIn(rare, said)
            self.assertEqual("plain cross-entropy" in said, bool(rare))
            self.train("--overwrite")
        self.train("--overwrite", "--set", 'data.names.labels=["kernel", "spot"]')
        self.mrmf("report", "run", "-o", "r.html")
        for title in "true kernel", "predicted kernel", "true spot":
            self.assertIn(f'alt="{title}"', self.read("r.html"))

    def test_a_yes_that_never_comes(self):
        x, k = self.windows()
        self.file(x=x, y=np.stack([k == 0, k == 1, k > 5], 1).astype("u1"))
        self.init()
        said = self.mrmf("data", "c.toml")
        self.assertIn("are all 0 in channel 2: there is nothing to tell apart", said)
        self.assertNotIn("R^2", said)

    def test_means_that_say_nothing_are_left_out(self):
        x, k = self.windows()
        for sizes, apart in (((1e-3, 1.0, 1e5), True), ((1.0, 2.0, 3.0), False)):
            self.file(x=x, y=self.rng.normal(0, 1, (120, 3)) * sizes)
            self.init()
            self.train("--overwrite")
            said = self.mrmf("evaluate", "run")
            mean = re.search(r"(?m)^ +mean +(\S+) +(\S+) +(\S+)$", said).groups()
            self.assertEqual(mean[:2] == ("-", "-"), apart, said)
            self.assertAlmostEqual(self.scores()["r2"], float(mean[2]), delta=1e-4)
            self.mrmf("report", "run", "-o", "r.html", "--overwrite")
            self.assertIn(">RMSE/dev.</th>", self.read("r.html"))

    def test_the_page_names_the_model_that_is_used(self):
        x, k = self.windows()
        self.file(x=x, y=k, subject=np.arange(120) // 5)
        self.init()
        more = ("--set", "data.split.test=0.2", "--set", "training.monitor=f1", "--set", "training.epochs=8", "--set",
                "training.optimizer.learning_rate=0.05")
        for seed in range(1, 9):  # one whose last epoch is not the best
            self.train(*more, "--set", f"training.seed={seed}", "--overwrite")
            best = json.loads(self.read("run/result.json"))["best"]
            if best["epoch"] < best["epochs"]:
                break
        self.assertLess(best["epoch"], best["epochs"])
        self.mrmf("report", "run", "--split", "test", "-o", "r.html")
        page = self.read("r.html")
        self.assertIn(f"The model that is used is the best one, of epoch {best['epoch']} of 8: validation loss "
                      f"{best['validation_loss']:.5f}, f1 {best['validation_f1']:.4f}.", page)
        self.assertNotIn("--epoch", page)
        self.assertIn("% of the rows validate, and 20 % test", page)
        samples = self.lines("run/epochs.jsonl")[-1]["samples"]
        self.assertIn(f"training samples: {samples} in an epoch", page)

    def test_masks_have_no_areas_that_nobody_asked_for_and_a_key_of_colours(self):
        m = np.zeros((12, 16, 16), "u1")
        m[:, 4:8, 4:8], m[:, 10:12, 10:12] = 1, 2
        self.file(x=(m + self.rng.normal(0, 0.3, m.shape)).astype("f4")[..., None], y=m)
        self.init()
        self.train("--set", 'data.names.classes=["air", "liver", "tumour"]')
        scores = self.scores()
        self.assertNotIn("auc", scores)
        self.assertNotIn("AUC", self.mrmf("evaluate", "run"))
        self.assertIn("the means leave out class air as the background", self.mrmf("evaluate", "run"))
        self.mrmf("report", "run", "-o", "r.html")
        page = self.read("r.html")
        self.assertNotIn('>AUC</th>', page)
        self.assertIn('<li><span style="background: #e69f00"></span>liver</li>', page)
        self.assertIn("leave out the first class, air, as the background", page)
        # Of a model of boxes, the pictures are of whole samples.
        self.train("--set", "data.patch=[8, 8]", "--overwrite")
        self.mrmf("report", "run", "-o", "r.html", "--overwrite")
        for title in "sample", "true", "predicted":
            self.assertRegex(self.read("r.html"), f'alt="{title}" width="16" height="16"')
        self.train("--set", "training.metric=auc", "--overwrite")
        self.assertGreater(self.scores()["auc"], 0.5)

    def test_folds_can_be_drawn(self):
        x, k = self.windows()
        self.file(x=x, y=k)
        self.init()
        self.mrmf("train", "c.toml", "--folds", "--set", "training.epochs=2", "--set", "method.name=baseline", "--set", "run.folder=all", "--set",
                  "data.split.by=folds", "--set", "data.split.folds=2", "--set", "data.split.validation=")
        for what in "loss", "times":
            self.mrmf("plot", "all", "--what", what, "-o", f"{what}.svg")
            self.assertIn("baseline", self.read(f"{what}.svg"))
            self.assertNotIn("sample_mean", self.read(f"{what}.svg"))  # folds are no settings


if __name__ == "__main__":
    support.main()
