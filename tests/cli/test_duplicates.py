"""Rows that are named twice, in training, validation or evaluation, or train and validate, under whatever names."""
import os
import shutil
import unittest

import h5py
import numpy as np

from support import MrmfTest, rows_config

NETWORK = ("conv filters=4 kernel=3", "relu", "flatten", "dense units=1")
ROWS, WIDTH, CHANNELS = 40, 32, 2


class Duplicates(MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        for name in ("a", "b"):
            with h5py.File(self.path(name + ".h5"), "w") as file:
                file["x"] = rng.normal(0, 1, (ROWS, WIDTH, CHANNELS)).astype("f4")
                file["y"] = rng.normal(0, 1, ROWS)
                file["other"] = file["x"]  # a second hard link in the file
                file["soft"] = h5py.SoftLink("/x")
                file["group/y"] = file["y"]

    def virtual(self, name, x, y, shape=(ROWS, WIDTH, CHANNELS), rows=None):
        """A file of virtual data sets: x and y are lists of (rows there, file, name, rows here)."""
        rows = shape[0] if rows is None else rows
        with h5py.File(self.path(name), "w") as file:
            for key, pieces, of_row, type_ in (("x", x, shape[1:], "f4"), ("y", y, (), "f8")):
                layout = h5py.VirtualLayout((rows, *of_row), type_)
                for here, source, there_name, there in pieces:
                    whole = (ROWS, WIDTH, CHANNELS) if there_name == "x" else (ROWS,)
                    layout[here] = h5py.VirtualSource(source, there_name, whole)[there]
                file.create_virtual_dataset(key, layout)

    def take(self, name, pieces, rows):
        """Whole rows of files: pieces are (rows here, file, rows there)."""
        self.virtual(name, *([(here, source, key, there) for here, source, there in pieces] for key in "xy"), rows=rows)

    def config(self, *files):
        self.write("c.toml", rows_config(*NETWORK, files=files))

    def refused(self, *told, words=(), commands=("train", "data", "plan"), ranks=0):
        """One line in every command, that names what and where; nothing is written."""
        for command in commands:
            with self.subTest(command=command):
                output = self.mrmf(command, "c.toml", *words, code=3, ranks=ranks)
                lines = [line for line in output.splitlines() if line.startswith("mrmf: ")]
                self.assertEqual(len(lines), 1, output)
                for text in (*told, 'data.duplicates = "allow"'):
                    self.assertIn(text, lines[0])
                self.assertFalse(os.path.exists(self.path("run")))

    def allowed(self, *words, samples=None):
        output = self.mrmf("train", "c.toml", *words)
        if samples is not None:
            self.assertIn(f"data: {samples[0]} training and {samples[1]} validation samples", output)
        shutil.rmtree(self.path("run"))

    def test_a_file_under_two_names(self):
        os.symlink("a.h5", self.path("link.h5"))
        os.link(self.path("a.h5"), self.path("hard.h5"))
        os.mkdir(self.path("d"))
        os.symlink("..", self.path("d/up"))
        for other in ("a.h5", "./a.h5", self.path("a.h5"), "link.h5", "hard.h5", "d/up/a.h5"):
            with self.subTest(other=other):
                self.config("a.h5", "b.h5", other)
                self.refused(f"rows 0 to 39 of 'x' in {other} are the same as rows 0 to 39 of 'x' in a.h5, and both are "
                             "trained on", commands=("train",))
        self.refused("in d/up/a.h5")
        self.refused("in d/up/a.h5", ranks=2, commands=("train",))
        output = self.mrmf("init", "a.h5", "link.h5", code=3)
        self.assertIn("in link.h5 are the same as rows 0 to 39 of", output)
        self.assertFalse(os.path.exists(self.path("run.toml")))
        self.allowed("--set", "data.duplicates=allow", samples=(90, 30))
        self.config("a.h5", "b.h5")
        self.allowed(samples=(60, 20))

    def test_a_copy_is_another_file(self):
        shutil.copy(self.path("a.h5"), self.path("copy.h5"))
        self.config("a.h5", "copy.h5")
        self.allowed(samples=(60, 20))

    def test_an_array_under_two_names(self):
        """Training and validation that are given by name, in one file and through links between files."""
        with h5py.File(self.path("links.h5"), "w") as file:
            file["x"] = h5py.ExternalLink("a.h5", "/soft")
            file["y"] = h5py.ExternalLink("a.h5", "/y")
            file["far"] = h5py.SoftLink("/x")
        for samples, file in (("x", "a.h5"), ("other", "a.h5"), ("soft", "a.h5"), ("x", "links.h5"), ("far", "links.h5")):
            with self.subTest(samples=samples, file=file):
                self.config("a.h5")
                given = ("--set", 'data.split={by="given"}', "--set", f'data.validation={{files=["{file}"], samples="{samples}", '
                         'labels="y"}')
                self.refused(f"rows 0 to 39 of '{samples}' in {file} validate, and are trained on as rows 0 to 39 of 'x' in a.h5",
                             words=given)
                output = self.mrmf("train", "c.toml", *given, "--set", "data.duplicates=allow")
                self.assertIn("data: 40 training and 40 validation", output)
                shutil.rmtree(self.path("run"))

    def test_parts_of_one_split(self):
        with h5py.File(self.path("a.h5"), "r+") as file:
            file["fold"] = (np.arange(ROWS) % 4 == 0).astype("i4")
        self.config("a.h5")
        self.allowed(samples=(30, 10))
        self.allowed("--set", "data.split={by=\"column\", column=\"fold\"}", samples=(30, 10))
        self.config("a.h5", "b.h5")
        self.allowed("--set", "data.split={by=\"files\", validation=0.5}", samples=(40, 40))
        self.config("a.h5", "b.h5", "./a.h5")
        self.refused("a.h5", words=("--set", "data.split={by=\"files\", validation=0.34}"))

    def test_a_virtual_data_set_beside_its_sources(self):
        self.take("all.h5", [(np.s_[:40], "a.h5", np.s_[:]), (np.s_[40:], "b.h5", np.s_[:])], 80)
        self.config("all.h5")
        self.allowed(samples=(60, 20))
        self.config("b.h5", "all.h5")
        self.refused("rows 40 to 79 of 'x' in all.h5 are the same as rows 0 to 39 of 'x' in b.h5")
        with h5py.File(self.path("of_all.h5"), "w") as file:  # two levels
            for key, shape, type_ in (("x", (WIDTH, CHANNELS), "f4"), ("y", (), "f8")):
                layout = h5py.VirtualLayout((30, *shape), type_)
                layout[:] = h5py.VirtualSource("all.h5", key, (80, *shape))[25:55]
                file.create_virtual_dataset(key, layout)
        self.config("of_all.h5", "a.h5")
        self.refused("rows 25 to 39 of 'x' in a.h5 are the same as rows 0 to 14 of 'x' in of_all.h5")

    def test_virtual_data_sets_by_their_rows(self):
        """Other rows of the same sources are other rows, whatever the steps; shared ones are named."""
        self.take("first.h5", [(np.s_[:], "a.h5", np.s_[:30])], 30)
        self.take("last.h5", [(np.s_[:], "a.h5", np.s_[30:])], 10)
        self.take("even.h5", [(np.s_[:], "a.h5", np.s_[::2])], 20)
        self.take("odd.h5", [(np.s_[:], "a.h5", np.s_[1::2])], 20)
        self.take("third.h5", [(np.s_[:], "a.h5", np.s_[::3])], 14)
        given = 'data.validation={{files=["{}"], samples="x", labels="y"}}'
        for train, validation, same in (("first", "last", None), ("even", "odd", None),
                                        ("first", "odd", ("row 0 of 'x' in odd.h5", "row 1 of 'x' in first.h5")),
                                        ("even", "third", ("row 0 of 'x' in third.h5", "row 0 of 'x' in even.h5")),
                                        ("odd", "third", ("row 1 of 'x' in third.h5", "row 1 of 'x' in odd.h5"))):
            with self.subTest(train=train, validation=validation):
                self.config(train + ".h5")
                words = ("--set", 'data.split={by="given"}', "--set", given.format(validation + ".h5"))
                if same is None:
                    self.allowed(*words)
                else:
                    self.refused(*same, "validates, and is trained on as", "this is the same row", words=words, commands=("train",))

    def test_parts_and_mixtures_of_rows(self):
        """Other parts of each row are other rows; the same parts are the same."""
        half = (ROWS, WIDTH // 2, CHANNELS)
        labels = [(np.s_[:], "a.h5", "y", np.s_[:])]
        self.virtual("left.h5", [(np.s_[:], "a.h5", "x", np.s_[:, :16])], labels, half)
        self.virtual("right.h5", [(np.s_[:], "a.h5", "x", np.s_[:, 16:])], labels, half)
        self.virtual("again.h5", [(np.s_[:], "a.h5", "x", np.s_[:, :16])], labels, half)
        self.config("left.h5", "right.h5")
        self.allowed(samples=(60, 20))
        self.config("left.h5", "right.h5", "again.h5")
        self.refused("rows 0 to 39 of 'x' in again.h5 are the same as rows 0 to 39 of 'x' in left.h5", commands=("train",))
        mixed = [(np.s_[:, :, 0:1], "a.h5", "x", np.s_[:, :, 0:1]), (np.s_[:, :, 1:2], "b.h5", "x", np.s_[:, :, 1:2])]
        for name in ("mixed.h5", "mixed2.h5"):
            self.virtual(name, mixed, labels)
        self.config("mixed.h5", "a.h5", "b.h5")
        self.allowed(samples=(90, 30))
        self.config("mixed.h5", "mixed2.h5")
        self.refused("rows 0 to 39 of 'x' in mixed2.h5 are the same as", commands=("train",))

    def test_growing_and_numbered_sources(self):
        """Selections without an end, and sources by number."""
        unlimited = h5py.h5s.UNLIMITED
        with h5py.File(self.path("grow.h5"), "w") as file:
            for key, of_row in (("x", (WIDTH, CHANNELS)), ("y", ())):
                with h5py.File(self.path("a.h5"), "r+") as source:
                    data = source[key][...]
                    del source[key]
                    source.create_dataset(key, data=data, maxshape=(None, *of_row), chunks=(8, *of_row))
                creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                start, ones = (0,) * (1 + len(of_row)), (1,) * (1 + len(of_row))
                there = h5py.h5s.create_simple((ROWS, *of_row), (unlimited, *of_row))
                there.select_hyperslab(start, (unlimited, *(1 for _ in of_row)), ones, (1, *of_row))
                here = h5py.h5s.create_simple((ROWS, *of_row), (unlimited, *of_row))
                here.select_hyperslab(start, (unlimited, *(1 for _ in of_row)), ones, (1, *of_row))
                creation.set_virtual(here, b"a.h5", key.encode(), there)
                type_ = h5py.h5t.IEEE_F32LE if key == "x" else h5py.h5t.IEEE_F64LE
                h5py.h5d.create(file.id, key.encode(), type_, here, creation)
        with h5py.File(self.path("grow.h5")) as file:
            self.assertEqual(file["x"].shape, (ROWS, WIDTH, CHANNELS))
        self.config("grow.h5")
        self.allowed(samples=(30, 10))
        self.config("grow.h5", "b.h5", "a.h5")
        self.refused("rows 0 to 39 of 'x' in a.h5 are the same as rows 0 to 39 of 'x' in grow.h5", commands=("train",))

    def test_sources_by_number(self):
        for number in range(2):
            with h5py.File(self.path("a.h5")) as whole, h5py.File(self.path(f"part{number}.h5"), "w") as file:
                for key in "xy":
                    file[key] = whole[key][20 * number:20 * number + 20]
        with h5py.File(self.path("parts.h5"), "w") as file:
            for key, of_row in (("x", (WIDTH, CHANNELS)), ("y", ())):
                start, ones = (0,) * (1 + len(of_row)), (1,) * (1 + len(of_row))
                here = h5py.h5s.create_simple((ROWS, *of_row), (h5py.h5s.UNLIMITED, *of_row))
                here.select_hyperslab(start, (h5py.h5s.UNLIMITED, *ones[1:]), (20, *ones[1:]), (20, *of_row))
                creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                creation.set_virtual(here, b"part%b.h5", key.encode(), h5py.h5s.create_simple((20, *of_row)))
                type_ = h5py.h5t.IEEE_F32LE if key == "x" else h5py.h5t.IEEE_F64LE
                h5py.h5d.create(file.id, key.encode(), type_, here, creation)
        self.config("parts.h5")
        self.allowed(samples=(30, 10))
        self.config("parts.h5", "part1.h5")
        self.refused("rows 0 to 19 of 'x' in part1.h5 are the same as rows 20 to 39 of 'x' in parts.h5")

    def test_raw_bytes_in_files_of_their_own(self):
        """Two files lead to the same bytes; others to those behind them."""
        np.random.default_rng(1).normal(0, 1, 3 * 20 * WIDTH * CHANNELS).astype("f4").tofile(self.path("raw.bin"))
        size = 20 * WIDTH * CHANNELS * 4
        for name, offset in (("one", 0), ("two", size), ("over", size // 2)):
            with h5py.File(self.path(name + ".h5"), "w") as file:
                file.create_dataset("x", (20, WIDTH, CHANNELS), "f4", external=[("raw.bin", offset, size)])
                file["y"] = np.arange(20.0)
        self.config("one.h5", "two.h5")
        self.allowed(samples=(30, 10))
        self.config("one.h5", "over.h5")
        self.refused("rows 0 to 9 of 'x' in over.h5 are the same as rows 10 to 19 of 'x' in one.h5")
        # Rows of two raw files, one after the other.
        for name, pieces in (("both", [("raw.bin", size, size), ("raw.bin", 0, size)]), ("again", [("raw.bin", 0, size), ("raw.bin", 2 * size, size)])):
            with h5py.File(self.path(name + ".h5"), "w") as file:
                file.create_dataset("x", (40, WIDTH, CHANNELS), "f4", external=pieces)
                file["y"] = np.arange(40.0)
        self.config("one.h5", "both.h5")
        self.refused("rows 20 to 39 of 'x' in both.h5 are the same as rows 0 to 19 of 'x' in one.h5")
        self.config("both.h5", "again.h5")
        self.refused("rows 0 to 19 of 'x' in again.h5 are the same as rows 20 to 39 of 'x' in both.h5")

    def test_samples_that_are_files_or_groups(self):
        """One sample per file or group: each is known by where its array lies."""
        rng = np.random.default_rng(2)
        for number in range(12):
            with h5py.File(self.path(f"s{number}.h5"), "w") as file:
                file["x"], file["y"] = rng.normal(0, 1, (WIDTH, CHANNELS)).astype("f4"), float(number)
        with h5py.File(self.path("groups.h5"), "w") as file:
            for number in range(12):
                file[f"sim_{number:02}/x"], file[f"sim_{number:02}/y"] = rng.normal(0, 1, (WIDTH, CHANNELS)).astype("f4"), 1.0
        os.link(self.path("s3.h5"), self.path("twin.h5"))
        with h5py.File(self.path("link.h5"), "w") as file:
            file["x"], file["y"] = h5py.ExternalLink("s5.h5", "/x"), 1.0
        files = [f"s{number}.h5" for number in range(12)]
        one = ("--set", "data.rows=files", "--set", "training.batch=3")
        self.config(*files)
        self.allowed(*one, samples=(9, 3))
        for other, same in (("twin.h5", "s3.h5"), ("link.h5", "s5.h5")):
            self.config(*files, other)
            self.refused(f"'x' in {other} is the same as 'x' in {same}, and both are trained on", words=one)
        groups = ("--set", "data.rows=groups", "--set", "data.groups=sim_*", "--set", "training.batch=3")
        self.config("groups.h5")
        self.allowed(*groups, samples=(9, 3))
        with h5py.File(self.path("groups.h5"), "r+") as file:
            file["sim_again/x"], file["sim_again/y"] = file["sim_04/x"], 1.0
        self.refused("'x' of group 'sim_again' in groups.h5 is the same as 'x' of group 'sim_04' in groups.h5", words=groups)

    def test_validation_alone(self):
        self.config("a.h5")
        self.refused("in ./b.h5 are the same as rows 0 to 39 of 'x' in b.h5, and both validate",
                     words=("--set", 'data.split={by="given"}', "--set",
                            'data.validation={files=["b.h5", "./b.h5"], samples="x", labels="y"}'))

    def test_channels_from_an_array_that_all_files_share(self):
        """A field that is the same for all rows is linked from every file; these rows are not the same."""
        with h5py.File(self.path("land.h5"), "w") as file:
            file["z"] = np.zeros((ROWS, WIDTH, 1), "f4")
        for name in ("a.h5", "b.h5"):
            with h5py.File(self.path(name), "r+") as file:
                file["z"] = h5py.ExternalLink("land.h5", "/z")
        words = ("--set", 'data.train.samples=["z", "x"]')
        self.config("a.h5", "b.h5")
        self.allowed(*words, samples=(60, 20))
        self.config("a.h5", "b.h5", "./b.h5")
        self.refused("rows 0 to 39 of 'z', 'x' in ./b.h5", words=words, commands=("train",))

    def twice(self, *words, message):
        """Evaluating and predicting these is refused, by one line; nothing is written. It is done where it is allowed."""
        for command in (["evaluate", "run", *words], ["predict", "run", *words, "-o", "p.h5"]):
            with self.subTest(command=command):
                self.fails(3, *command, message=message + ", and would be taken twice; name them once, or add --duplicates allow")
                self.assertFalse(os.path.exists(self.path("p.h5")))
                self.mrmf(*command, "--duplicates", "allow")
        os.remove(self.path("p.h5"))

    def test_rows_that_are_evaluated_or_predicted(self):
        os.symlink("a.h5", self.path("link.h5"))
        self.take("part.h5", [(np.s_[:], "a.h5", np.s_[:8])], 8)
        self.take("rest.h5", [(np.s_[:], "a.h5", np.s_[8:])], 32)
        self.take("one.h5", [(np.s_[:], "a.h5", np.s_[8:9])], 1)
        self.config("b.h5")
        self.mrmf("train", "c.toml")
        self.twice("--files", "a.h5", "link.h5", message="rows 0 to 39 of 'x' in link.h5 are the same as rows 0 to 39 of 'x' in a.h5")
        self.twice("--files", "a.h5", "part.h5", message="rows 0 to 7 of 'x' in part.h5 are the same as rows 0 to 7 of 'x' in a.h5")
        self.twice("--files", "rest.h5", "one.h5", message="row 0 of 'x' in one.h5 is the same as row 0 of 'x' in rest.h5")
        self.fails(3, "evaluate", "run", "--files", "a.h5", "link.h5", message="in link.h5 are the same as", ranks=2)
        self.assertIn("40 samples", self.mrmf("evaluate", "run", "--files", "part.h5", "rest.h5"))
        # Rows that trained the model are there once, and may be evaluated.
        self.assertIn("training rows", self.mrmf("evaluate", "run", "--files", "b.h5"))
        self.mrmf("evaluate", "run", "--split", "train")

    def test_a_run_that_was_allowed_to_may_be_evaluated(self):
        os.symlink("a.h5", self.path("link.h5"))
        self.config("a.h5", "link.h5")
        self.mrmf("train", "c.toml", "--set", "data.duplicates=allow")
        self.assertIn("20 samples", self.mrmf("evaluate", "run"))
        self.assertIn("80 samples", self.mrmf("evaluate", "run", "--files", "a.h5", "link.h5"))
        self.fails(3, "evaluate", "run", "--files", "a.h5", "link.h5", "--duplicates", "refuse", message="would be taken twice")


if __name__ == "__main__":
    unittest.main()
