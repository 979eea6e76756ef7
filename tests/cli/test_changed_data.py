"""A run remembers its data: it continues with the same numbers wherever they lie, and not with others."""
import os
import shutil
import unittest

import h5py
import numpy as np

from support import MrmfTest, layers

CONFIG = """
[data]
files = [{files}]
train = {{ samples = "x", labels = "y" }}
split = {{ by = "{by}", validation = 0.25{column} }}
normalise.samples = "{units}"
shards = 2
[training]
batch = 8
seed = 3
epochs = {epochs}
[method]
name = "baseline"
[run]
folder = "run"
threads = 1
""" + layers("conv filters=4 kernel=3", "relu", "flatten", "dense units=1")


class ChangedData(MrmfTest):
    """Runs of two epochs that are to continue for more."""

    def make(self, name="d.h5", rows=80, seed=0, scale=1.0, **storage):
        rng = np.random.default_rng(seed)
        with h5py.File(self.path(name), "w") as file:
            file.create_dataset("x", data=(scale * rng.normal(0, 1, (rows, 32, 2))).astype("f4"), **storage)
            file["y"] = rng.normal(0, 1, rows)
            file["fold"] = (np.arange(rows) % 4 == 0).astype("i4")

    def begin(self, files=("d.h5",), units="none", by="rows"):
        column = ', column = "fold"' if by == "column" else ""
        names = ", ".join(f'"{name}"' for name in files)
        config = CONFIG.format(files=names, units=units, epochs=2, by=by, column=column)
        if by == "column":
            config = config.replace("validation = 0.25, ", "")
        self.write("c.toml", config)
        self.mrmf("train", "c.toml")

    def more(self, *words, epochs=3, **options):
        return self.mrmf("train", "--continue", "run", "--set", f"training.epochs={epochs}", *words, **options)

    def refused(self, *told, words=(), **options):
        """One line of the kind for data, and the run as it was."""
        before = self.read("run/epochs.jsonl")
        output = self.more(*words, code=3, **options)
        lines = [line for line in output.splitlines() if line.startswith("mrmf: ")]
        self.assertEqual(len(lines), 1, output)
        for text in ("holds a run on other numbers", "--allow-changed-data", *told):
            self.assertIn(text, lines[0])
        self.assertEqual(self.read("run/epochs.jsonl"), before)
        self.assertIn("result.json", os.listdir(self.path("run")))

    def test_written_anew_with_other_numbers(self):
        for units in ("none", "mean_std"):
            with self.subTest(units=units):
                shutil.rmtree(self.path("run"), ignore_errors=True)
                self.make()
                self.begin(units=units)
                self.make(seed=1)
                self.refused("data set 'x' of d.h5 holds other numbers (written ", ", and 1 more")
                self.refused("data set 'x' of d.h5 holds other numbers", ranks=2, words=("--set", "training.batch=4"))

    def test_one_number_among_many(self):
        self.make()
        self.begin()
        for name, at in (("x", (41, 7, 1)), ("y", 33)):
            with h5py.File(self.path("d.h5"), "r+") as file:
                was = file[name][at]
                file[name][at] = was + 1
            times = os.stat(self.path("d.h5"))
            self.refused(f"data set '{name}' of d.h5 holds other numbers")
            os.utime(self.path("d.h5"), ns=(times.st_atime_ns, times.st_mtime_ns))  # as copies that keep times do
            self.refused(f"data set '{name}' of d.h5 holds other numbers")
            with h5py.File(self.path("d.h5"), "r+") as file:
                file[name][at] = was
        self.more()

    def test_marks_of_the_split(self):
        self.make()
        self.begin(by="column")
        with h5py.File(self.path("d.h5"), "r+") as file:
            file["fold"][...] = np.roll(file["fold"][...], 1)
        self.refused("data set 'fold' of d.h5 holds other numbers")

    def test_the_second_of_two_files(self):
        self.make("a.h5")
        self.make("b.h5", seed=1)
        self.begin(files=("a.h5", "b.h5"), by="files")
        self.make("b.h5", seed=2)
        self.refused("data set 'x' of b.h5 holds other numbers")

    def test_unfinished_and_by_its_configuration(self):
        """The same command, and a run that was stopped: only its checkpoint and no result."""
        self.make()
        self.begin()
        os.remove(self.path("run/result.json"))
        self.make(seed=1)
        output = self.mrmf("train", "c.toml", code=3)
        self.assertIn("run.folder: run holds an unfinished run on other numbers: data set 'x' of d.h5", output)
        self.assertIn("give --overwrite to begin anew", output)
        self.mrmf("train", "c.toml", "--overwrite")

    def test_goes_on_with_changed_data_when_told(self):
        self.make()
        self.begin()
        self.make(seed=1)
        output = self.more("--allow-changed-data")
        self.assertIn("warning: the run continues with other numbers than it was saved with: data set 'x' of d.h5", output)
        self.assertEqual([line["epoch"] for line in self.lines("run/epochs.jsonl")], [1, 2, 3])
        self.more(epochs=4)  # what it continued with is what it remembers now

    def test_touched_moved_and_packed_files_go_on_with_the_same_bits(self):
        self.make()
        self.begin()
        shutil.copytree(self.path("run"), self.path("kept"))
        self.assertNotIn("the numbers are the same", self.more())
        shutil.move(self.path("run"), self.path("plain"))

        def packed(name):
            with h5py.File(self.path("d.h5")) as source, h5py.File(self.path(name), "w") as file:
                for key in source:
                    file.create_dataset(key, data=source[key][...], chunks=True, compression="gzip")

        def touched(name):
            os.utime(self.path(name), (10**9, 10**9))

        moves = (("d.h5", touched, "written 2001-09-09"), ("away/e.h5", lambda name: shutil.copy(self.path("d.h5"), self.path(name)),
                                                           "away/e.h5 in place of d.h5"),
                 ("packed.h5", packed, "packed.h5 in place of d.h5"))
        os.mkdir(self.path("away"))
        for name, move, told in moves:
            with self.subTest(name=name):
                move(name)
                shutil.copytree(self.path("kept"), self.path("run"))
                output = self.more("--set", f'data.files=["{name}"]')
                self.assertIn(told, output)
                self.assertIn("as far as they were compared, the numbers are the same", output)
                self.same_models("run", "plain")
                shutil.rmtree(self.path("run"))

    def test_moved_files_of_which_rows_are_for_the_test(self):
        self.make()
        config = CONFIG.format(files='"d.h5"', units="none", epochs=2, by="rows", column="")
        for split in ('by = "rows", validation = 0.25, test = 0.1', 'by = "column", column = "fold"'):
            with self.subTest(split=split):
                self.write("c.toml", config.replace('by = "rows", validation = 0.25', split))
                self.mrmf("train", "c.toml", "--overwrite")
                shutil.copy(self.path("d.h5"), self.path("moved.h5"))
                output = self.more("--set", 'data.files=["moved.h5"]')
                self.assertIn("moved.h5 in place of d.h5", output)

    def test_another_number_of_files(self):
        self.make("a.h5")
        self.make("b.h5", seed=1)
        self.begin(files=("a.h5",))
        output = self.more("--set", 'data.files=["a.h5", "b.h5"]', code=2)
        self.assertIn("of other data files: b.h5 is new", output)


if __name__ == "__main__":
    unittest.main()
