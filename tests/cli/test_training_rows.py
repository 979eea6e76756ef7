"""What evaluate and predict say of rows that the model was trained on, whatever names lead to them."""
import os
import shutil
import unittest

import h5py
import numpy as np

import support

ROWS, VALIDATION = 40, 10
AXIS = 'train = { samples = "x", labels = "y" }'


class TrainingRows(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        for name in ("a", "b"):
            with h5py.File(self.path(name + ".h5"), "w") as file:
                file["x"] = rng.normal(0, 1, (ROWS, 8, 2)).astype("f4")
                file["y"] = rng.normal(0, 1, (ROWS, 1)).astype("f4")
                file["second"] = file["x"]
                file["more"] = rng.normal(0, 1, (ROWS, 8, 2)).astype("f4")

    def train(self, *files, run="run", data=AXIS):
        self.write(run + ".toml", support.rows_config("flatten", "dense units=1", files=files, data=data, folder=run))
        self.mrmf("train", run + ".toml")

    def virtual(self, name, *pieces):
        """Rows of files, one after the other: pieces are (file, first, count)."""
        with h5py.File(self.path(name), "w") as file:
            for key, of_row, source_name in (("x", (8, 2), "x"), ("y", (1,), "y")):
                layout = h5py.VirtualLayout((sum(count for _, _, count in pieces), *of_row), "f4")
                at = 0
                for source, first, count in pieces:
                    layout[at:at + count] = h5py.VirtualSource(source, source_name, (ROWS, *of_row))[first:first + count]
                    at += count
                file.create_virtual_dataset(key, layout)

    def told(self, *words, run="run", ranks=0):
        """How many of how many rows are told, by both commands alike; none: (0, 0)."""
        found = set()
        for command in (["evaluate", run, "--labels", "y"], ["predict", run, "-o", "out.h5", "--overwrite"]):
            text = self.mrmf(*command, *words, ranks=ranks)
            line = [line for line in text.splitlines() if " training rows; " in line]
            parts = line[0].split() if line else None
            found.add((int(parts[1]), int(parts[4])) if line else (0, 0))
        self.assertEqual(len(found), 1, found)
        return found.pop()

    def test_another_path_a_link_and_a_second_name(self):
        self.train("a.h5")
        os.symlink("a.h5", self.path("soft.h5"))
        os.link(self.path("a.h5"), self.path("hard.h5"))
        for name in (self.path("a.h5"), "soft.h5", "hard.h5"):
            for ranks in (0, 2):
                with self.subTest(name=name, ranks=ranks):
                    self.assertEqual(self.told("--files", name, ranks=ranks), (ROWS - VALIDATION, ROWS))
        self.assertEqual(self.told("--samples", "second"), (ROWS - VALIDATION, ROWS))
        self.assertEqual(self.told(), (0, 0))
        self.assertEqual(self.told("--samples", "more"), (0, 0))  # other rows of the same file
        self.assertEqual(self.told("--files", "b.h5"), (0, 0))
        shutil.copy(self.path("a.h5"), self.path("copy.h5"))  # equal numbers are no training rows
        self.assertEqual(self.told("--files", "copy.h5"), (0, 0))

    def test_linked_files_and_virtual_sets(self):
        self.train("a.h5")
        with h5py.File(self.path("linked.h5"), "w") as file:
            file["x"], file["y"] = h5py.ExternalLink("a.h5", "/x"), h5py.ExternalLink("a.h5", "/y")
        self.assertEqual(self.told("--files", "linked.h5"), (ROWS - VALIDATION, ROWS))
        self.virtual("both.h5", ("b.h5", 0, ROWS), ("a.h5", 0, ROWS))
        self.assertEqual(self.told("--files", "both.h5", ranks=2), (ROWS - VALIDATION, 2 * ROWS))
        self.virtual("halves.h5", ("a.h5", 0, 20), ("b.h5", 5, 9))
        self.virtual("rest.h5", ("a.h5", 20, 20))
        one, other = self.told("--files", "halves.h5"), self.told("--files", "rest.h5")
        self.assertEqual(one[0] + other[0], ROWS - VALIDATION)
        self.assertEqual((one[1], other[1]), (29, 20))

    def test_trained_on_a_virtual_set(self):
        self.virtual("all.h5", ("a.h5", 0, ROWS), ("b.h5", 0, ROWS))
        self.train("all.h5")
        parts = [self.told("--files", name)[0] for name in ("a.h5", "b.h5")]
        self.assertEqual(sum(parts), 2 * (ROWS - VALIDATION))
        self.assertGreater(min(parts), 0)

    def test_a_file_or_a_group_a_sample(self):
        for i in range(ROWS):
            with h5py.File(self.path("a.h5")) as a, h5py.File(self.path(f"s{i:02d}.h5"), "w") as file:
                file["x"], file["y"] = a["x"][i], a["y"][i]
        with h5py.File(self.path("groups.h5"), "w") as file:
            for i in range(ROWS):
                file[f"sim_{i:02d}/x"] = h5py.ExternalLink(f"s{i:02d}.h5", "/x")
                file[f"sim_{i:02d}/y"] = h5py.ExternalLink(f"s{i:02d}.h5", "/y")
        self.train("s*.h5", run="files", data=AXIS + '\nrows = "files"')
        self.assertEqual(self.told(run="files"), (0, 0))
        self.assertEqual(self.told("--files", "s*.h5", run="files", ranks=2), (ROWS - VALIDATION, ROWS))
        os.symlink("s05.h5", self.path("five.h5"))
        os.symlink("s06.h5", self.path("six.h5"))
        alone = [self.told("--files", name, run="files") for name in ("s05.h5", "s06.h5")]
        self.assertEqual([self.told("--files", name, run="files") for name in ("five.h5", "six.h5")],
                         [(count, 1 if count else 0) for count, _ in alone])
        self.train("groups.h5", run="groups", data=AXIS + '\nrows = "groups"\ngroups = "sim_*"')
        self.assertEqual(self.told(run="groups"), (0, 0))
        self.assertEqual(self.told("--files", self.path("groups.h5"), run="groups"), (ROWS - VALIDATION, ROWS))
        first = self.told("--files", "groups.h5", "--groups", "sim_0*", run="groups")
        rest = self.told("--files", "groups.h5", "--groups", "sim_[123]*", run="groups")
        self.assertEqual((first[1], rest[1]), (10, 30))
        self.assertEqual(first[0] + rest[0], ROWS - VALIDATION)


if __name__ == "__main__":
    unittest.main()
