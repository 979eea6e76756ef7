"""Labels and samples that are not there: what `mrmf data`, `init` and training make of them."""
import json

import h5py
import numpy as np

import support

ROWS, NONE = 40, 255


class MissingLabels(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(5)
        self.yes = rng.integers(0, 2, (ROWS, 8, 8))
        self.gone = rng.random((ROWS, 8, 8)) < 0.2
        self.x = (self.yes + 0.3 * rng.normal(size=self.yes.shape))[..., None].astype("f4")

    def config_for(self, labels, fill=None, training='loss = "binary_cross_entropy"', data="", filters=1):
        """Writes data.h5 and its configuration."""
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"], file["y"] = self.x, labels
            if fill is not None:
                file["y"].attrs["_FillValue"] = labels.dtype.type(fill)
        text = support.rows_config(f"conv filters={filters} kernel=1", data='train = { samples = "x", labels = "y" }\n' + data)
        self.write("c.toml", text.replace("epochs = 1", f"epochs = 1\n{training}"))

    def label_facts(self):
        """Of all rows: what counts, its sum, the least and the largest, and how many do not count."""
        found = json.loads(self.mrmf("data", "c.toml", "--json"))
        parts = [(found[part]["samples"] * 64, found[part]["label"]) for part in ("training", "validation")]
        channels = [label["channels"] for _, label in parts]
        missing = [label["missing"] for _, label in parts]
        sums = [(count - gone) * one["mean"][0] for (count, _), gone, one in zip(parts, missing, channels)]
        return sum(sums), min(one["least"][0] for one in channels), max(one["most"][0] for one in channels), sum(missing)

    def test_statistics_are_of_yes_or_no_that_counts(self):
        marked = np.where(self.gone, NONE, self.yes).astype("u1")
        nan = np.where(self.gone, np.nan, self.yes).astype("f4")
        ignore = f'loss = "binary_cross_entropy"\nignore = {NONE}'
        for labels, fill, training in ((marked, NONE, None), (marked, None, ignore), (nan, np.nan, None)):
            self.config_for(labels, fill, **({} if training is None else {"training": training}))
            with self.subTest(fill=fill, training=training):
                total, least, most, missing = self.label_facts()
                self.assertAlmostEqual(total, self.yes[~self.gone].sum(), places=2)
                self.assertEqual((least, most, missing), (0, 1, self.gone.sum()))
                self.assertIn("numbers missing", self.mrmf("data", "c.toml"))

    def test_an_output_without_a_label_is_named(self):
        labels = np.stack([self.yes, np.full_like(self.yes, NONE)], axis=-1).astype("u1")
        self.config_for(labels, NONE, filters=2)
        self.assertIn("no label of channel 1 of the training labels 'y' counts", self.mrmf("data", "c.toml"))

    def test_a_rare_yes_among_labels_that_count(self):
        rare = np.zeros((ROWS, 8, 8))
        rare[:, 0, 0] = 1
        self.config_for(np.where(self.gone & (rare == 0), NONE, rare).astype("u1"), NONE)
        self.assertIn("output 0 is a yes in", self.mrmf("data", "c.toml"))

    def test_classes_that_do_not_count_are_counted(self):
        self.config_for(np.where(self.gone, NONE, self.yes).astype("u1"), NONE, 'loss = "cross_entropy"', filters=2)
        found = json.loads(self.mrmf("data", "c.toml", "--json"))
        self.assertEqual(sum(found[part]["label"]["missing"] for part in ("training", "validation")), self.gone.sum())
        self.assertEqual(sum(sum(found[part]["class_counts"]) for part in ("training", "validation")), (~self.gone).sum())
        self.assertIn("numbers missing", self.mrmf("data", "c.toml"))

    def test_why_no_label_counts(self):
        none = np.full((ROWS, 8, 8), -99, "i2")
        self.config_for(none, -99, 'loss = "cross_entropy"', filters=2)
        said = "no label of the training data ('y' of data.h5) counts: all are missing by attributes of the file, such as _FillValue"
        self.fails(3, "train", "c.toml", message=said)
        self.assertIn(f"advice: {said}; ", self.mrmf("data", "c.toml"))
        self.config_for(none, None, 'loss = "cross_entropy"\nignore = -99', filters=2)
        self.fails(3, "train", "c.toml", message="counts: all are -99, which training.ignore takes for no label")

    def test_validation_labels_that_are_all_nan(self):
        held = np.arange(ROWS) >= 28
        for nan, part, count, advice in ((held, "validation", 12, "or let other rows validate"), (~held, "training", 28, "or name others")):
            labels = np.where(nan, np.nan, self.yes.mean((1, 2))).astype("f4")
            with h5py.File(self.path("data.h5"), "w") as file:
                file["x"], file["y"], file["held"] = self.x, labels, held
            self.write("c.toml", support.rows_config("flatten", "dense units=1", split='{ by = "column", column = "held" }',
                                                     data='train = { samples = "x", labels = "y" }\nnot_finite = "skip"'))
            self.fails(3, "train", "c.toml", message=f"the labels 'y' of the {part} rows of data.h5 have no row that is finite: "
                       f"all {count} rows hold NaN or infinity; correct them, {advice}")

    def test_init_does_not_silently_take_others(self):
        role = np.arange(ROWS) % 4 == 0
        for labels, fill, why in ((np.full(ROWS, -99, "i2"), -99, "is missing everywhere, by attributes such as _FillValue"),
                                  (np.full(ROWS, np.nan, "f4"), None, "is NaN everywhere")):
            self.config_for(labels, fill)
            self.fails(3, "init", "data.h5", "-o", "none.toml", message=f"'y' {why}; add labels")
            with h5py.File(self.path("data.h5"), "a") as file:
                file["role"] = role.astype("i4")
            said = self.mrmf("init", "data.h5", "-o", "i.toml", "--overwrite")
            self.assertIn(f"passed over as labels: 'y' {why}", said)
            self.assertIn("the labels 'y' are missing everywhere, so 'role' is taken for the labels", said)
        self.config_for(np.full(ROWS, -99, "i2"), -99)
        self.fails(3, "init", "data.h5", "--labels", "y", "-o", "j.toml", message="all 40 rows hold NaN or infinity, or what "
                   "attributes such as _FillValue say is missing")

    def test_rows_without_any_number(self):
        self.x[[3, 7, 21]] = np.nan
        self.x[5, 0, 0] = np.nan  # whose other numbers are there
        for more in ("", "\nmask = true", '\naxes = "n y x c"'):
            self.config_for(self.yes.astype("u1"), data='not_finite = "fill"' + more)
            said = self.mrmf("data", "c.toml")
            self.assertRegex(said, r"advice: 3 of 40 rows \(\d training, \d validation\) of 'x' hold no number, such as row \d+ of "
                             r"data.h5: all are missing, and data.not_finite = \"fill\" makes them all the same; leave them out")
            self.assertNotIn("occur before", said)
            for ranks in (0, 2):
                found = json.loads(self.mrmf("data", "c.toml", "--json", ranks=ranks))
                self.assertEqual(sum(found[part]["rows"]["missing"] for part in ("training", "validation")), 3)
        self.config_for(self.yes.astype("u1"), data='not_finite = "skip"')
        self.assertNotIn("hold no number", self.mrmf("data", "c.toml"))


if __name__ == "__main__":
    support.main()
