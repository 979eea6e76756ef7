"""Integers that float32 does not tell apart: nothing is said of them that holds in float32 alone, and every command says what
is lost. Labels that are the same everywhere, or count the rows."""
import re

import h5py
import numpy as np

import support

N = 40
BASE = 6_560_600_000_000_000_000


class LargeIntegers(support.MrmfTest):
    def make(self, labels=None, samples=None, name="d.h5"):
        rng = np.random.default_rng(0)
        with h5py.File(self.path(name), "w") as file:
            file["x"] = rng.normal(0, 1, (N, 8, 2)).astype("f4") if samples is None else samples
            file["y"] = rng.normal(0, 1, N).astype("f4") if labels is None else labels
        self.write("c.toml", support.rows_config("flatten", "dense units=1", files=(name,)))

    def data(self, *words, ranks=0):
        return self.mrmf("data", "c.toml", *words, ranks=ranks)

    def test_labels_that_differ_by_less_than_float32_holds(self):
        for kind in ("i8", "u8"):
            labels = np.arange(N, dtype=kind) * 3 + np.array(BASE, kind)
            self.make(labels)
            lost = "holds numbers around 6.5606e+18 with a deviation of "
            for ranks in (0, 2):
                found = self.data(ranks=ranks)
                self.assertNotIn("there is nothing to learn from them", found)
                self.assertIn("advice: d.h5: data set 'y' " + lost, found)
            self.make(labels // 10)  # whose squares float32 holds: a network is trained all the same, and told of it
            lost = lost.replace("e+18", "e+17")
            for load, ranks in (("memory", 0), ("stream", 2)):
                output = self.mrmf("train", "c.toml", "--overwrite", "--set", f'data.load="{load}"', ranks=ranks)
                self.assertEqual(output.count("warning: d.h5: data set 'y' " + lost), 1)
            self.fails(3, "train", "c.toml", "--overwrite", "--set", 'data.normalise.labels="mean_std"', message=lost)
            self.fails(3, "init", "d.h5", "-o", "i.toml", message=lost)

    def test_one_that_differs_among_thousands(self):
        """Of a set too large to be looked at whole, all is looked at where float32 shows no difference."""
        labels = np.full(20000, BASE, "i8")
        labels[12345] += 1
        with h5py.File(self.path("d.h5"), "w") as file:
            file["x"], file["y"] = np.random.default_rng(0).normal(0, 1, (20000, 2)).astype("f4"), labels
        self.write("c.toml", support.rows_config("flatten", "dense units=1", validation=0.01, files=("d.h5",)))
        found = self.data()
        self.assertNotIn("the training labels 'y' are all", found)
        labels[12345] -= 1
        with h5py.File(self.path("d.h5"), "r+") as file:
            file["y"][...] = labels
        self.assertIn("the training labels 'y' are all 6.5606e+18: there is nothing to learn", self.data())

    def test_samples(self):
        samples = np.arange(N * 16, dtype="i8").reshape(N, 8, 2) + BASE
        self.make(samples=samples)
        for ranks in (0, 2):
            found = self.data(ranks=ranks)
            self.assertNotIn("hold one number throughout", found)
            self.assertNotIn("occur before", found)
            self.assertNotIn("are training rows", found)
        samples[3:6] = BASE  # rows that are one number, and rows that occur twice
        samples[10:12] = samples[20:22]
        self.make(samples=samples)
        found = self.data("--set", "data.split.validation=0.03")
        self.assertRegex(found, r"3 of 40 rows \(\d training, \d validation\) of 'x' hold one number throughout, such as row 3 of d.h5: ")
        twice = int((re.search(r"\((\d+) training, \d+ validation\) of 'x' occur before", found) or [0, 0])[1])
        both = int((re.search(r"(\d+) of \d+ validation rows of 'x' are training rows", found) or [0, 0])[1])
        self.assertEqual(twice + both, 2, found)

    def test_zeros_are_counted_where_there_are_some(self):
        samples = np.random.default_rng(0).normal(0, 1, (N, 8, 2)).astype("f4")
        samples[:3] = 0
        samples[3] = 5
        self.make(samples=samples)
        self.assertIn("hold one number throughout, which is 0 in 3 of them", self.data("--set", "data.split.validation=0.03"))

    def test_losses_have_no_tens_of_digits(self):
        labels = np.arange(N, dtype="i8") * 3 + BASE // 10
        self.make(labels)
        output = self.mrmf("train", "c.toml")
        self.assertNotRegex(output, r"(loss|train|validation) +\d{12}")
        self.assertRegex(output, r"epoch +1  train \d\.\d{5}e\+3\d +validation \d\.\d{5}e\+3\d")
        self.assertRegex(output, r"final validation loss \d\.\d{5}e\+3\d after")
        evaluated = self.mrmf("evaluate", "run")
        self.assertNotRegex(evaluated, r"\d{16}")


class LabelsWithoutTruth(support.MrmfTest):
    """Labels that are the same everywhere, or that number the rows."""

    def make(self, labels):
        with h5py.File(self.path("d.h5"), "w") as file:
            file["x"] = np.random.default_rng(0).normal(0, 1, (len(labels), 8, 2)).astype("f4")
            file["y"] = labels
        self.write("c.toml", support.rows_config("flatten", f"dense units={np.ndim(labels) and np.prod(np.shape(labels)[1:], dtype=int)}",
                                                 files=("d.h5",)))

    def test_constant_labels(self):
        """init refuses them, data says so and advises nothing that train refuses."""
        for value, kind in ((7.0, "f4"), (7000.0, "f8"), (7, "i4"), (0.001, "f4")):
            self.make(np.full(60, value, kind))
            self.fails(3, "init", "d.h5", "-o", "i.toml", message=f"there is nothing to learn from what has the rows of 'x': 'y' is {value:g} "
                                                                  "everywhere; add labels, or name others with --labels")
            self.fails(3, "init", "d.h5", "-o", "i.toml", "--labels", "y",
                       message=f"the labels 'y' are all {value:g} in the rows that train, so there is nothing to learn from them; name "
                               "others with --labels")
            found = self.mrmf("data", "c.toml")
            self.assertIn(f"advice: the training labels 'y' are all {value:g}: there is nothing to learn from them", found)
            self.assertNotIn("labels 'y' as they are will train badly", found)
            self.mrmf("train", "c.toml", "--overwrite")
            units = ["--set", 'data.normalise.labels="mean_std"']
            self.assertIn('data.normalise.labels = "mean_std" refuses them: name other labels', self.mrmf("data", "c.toml", *units))
            self.fails(3, "train", "c.toml", "--overwrite", *units, message="there is nothing to learn from such labels: name others")

    def test_one_constant_output_of_several(self):
        labels = np.random.default_rng(0).normal(0, 1, (60, 3))
        labels[:, 1] = 7
        self.make(labels)
        self.mrmf("init", "d.h5", "-o", "i.toml")
        self.assertIn("nothing stands in the way of training", self.mrmf("data", "i.toml"))
        self.mrmf("train", "i.toml", "--set", "training.epochs=1", "--set", 'method.name="baseline"')

    def test_row_numbers_are_no_classes(self):
        for first in (0, 1):
            self.make(np.arange(first, first + 60))
            self.fails(3, "init", "d.h5", "-o", "n.toml", message=f"'y' counts the rows from {first} on")
            output = self.mrmf("init", "d.h5", "-o", "i.toml", "--overwrite", "--labels", "y")
            self.assertIn(f"these count the samples from {first} on, and there is nothing to learn from row numbers", output)
            self.assertIn('loss = "mse"', self.read("i.toml"))
        self.make(np.random.default_rng(0).permutation(60))
        self.fails(3, "init", "d.h5", "-o", "n.toml", message="'y' counts the rows from 0 on")
        self.assertNotIn("classes, one per sample", self.mrmf("init", "d.h5", "-o", "i.toml", "--overwrite", "--labels", "y"))
        self.make(np.arange(60) % 30)  # each twice
        self.assertIn("30 classes, one per sample", self.mrmf("init", "d.h5", "-o", "i.toml", "--overwrite"))


if __name__ == "__main__":
    support.main()
