"""Predictions take the place of no file that their own command reads, whatever leads there."""
import os

import h5py
import numpy as np

import support

NETWORK = ("conv filters=2 kernel=3", "relu", "flatten", "dense units=1")
N = 12


def config(file, folder, rows="axis", split=None):
    data = f'rows = "{rows}"\ntrain = {{ samples = "x", labels = "y" }}'
    return support.rows_config(*NETWORK, files=[file], data=data, split=split, batch=4, folder=folder)


class BesideLinks(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.x, self.y = rng.normal(0, 1, (N, 16, 1)).astype("f4"), rng.uniform(0, 1, (N, 1)).astype("f4")
        with h5py.File(self.path("axis.h5"), "w") as file:
            file["x"], file["y"] = self.x, self.y
        with h5py.File(self.path("far.h5"), "w") as file:
            file["x"], file["id"], file["role"] = self.x[3], np.arange(N), np.arange(N) % 2
            file["group/x"], file["group/y"] = self.x[4], self.y[4]
        with h5py.File(self.path("middle.h5"), "w") as file:
            file["on"] = h5py.ExternalLink("far.h5", "x")
        self.groups("groups.h5")
        self.write("groups.toml", config("groups.h5", "by-group", rows="groups"))
        self.write("axis.toml", config("axis.h5", "by-row"))
        self.mrmf("train", "groups.toml")
        self.mrmf("train", "axis.toml")

    def groups(self, path, **links):
        with h5py.File(self.path(path), "w") as file:
            for i in range(N):
                name = f"sim_{i:02}"
                if name in links:
                    file[name] = links[name]
                    continue
                file[f"{name}/x"], file[f"{name}/y"] = self.x[i], self.y[i]
                if name + "_x" in links:
                    del file[f"{name}/x"]
                    file[f"{name}/x"] = links[name + "_x"]

    def kept(self, *words, output="far.h5"):
        before = support.digest(self.path(output))
        for ranks in (0, 2):
            self.fails(2, "predict", *words, "-o", output, "--overwrite", ranks=ranks,
                       message=f"{output}: is read by this very command")
            self.assertEqual(support.digest(self.path(output)), before)

    def test_of_groups(self):
        far = h5py.ExternalLink("far.h5", "x")
        self.groups("last.h5", sim_11_x=far)
        self.kept("by-group", "--files", "last.h5")
        self.groups("whole.h5", sim_04=h5py.ExternalLink("far.h5", "group"))
        self.kept("by-group", "--files", "whole.h5")
        self.groups("chain.h5", sim_07_x=h5py.ExternalLink("middle.h5", "on"))
        self.kept("by-group", "--files", "chain.h5")
        self.kept("by-group", "--files", "chain.h5", output="middle.h5")
        self.mrmf("predict", "by-group", "--files", "groups.h5", "-o", "far.h5", "--overwrite")  # which it does not read

    def test_of_what_is_appended(self):
        with h5py.File(self.path("axis.h5"), "a") as file:
            file["id"] = h5py.ExternalLink("far.h5", "id")
        self.kept("by-row", "--append", "id")
        self.mrmf("predict", "by-row", "-o", "far.h5", "--overwrite")

    def test_of_the_column_that_splits(self):
        with h5py.File(self.path("axis.h5"), "a") as file:
            file["role"] = h5py.ExternalLink("far.h5", "role")
        self.write("role.toml", config("axis.h5", "by-role", split='{ by = "column", column = "role" }'))
        self.mrmf("train", "role.toml")
        self.kept("by-role")

    def test_coarse_copies(self):
        """All that a file leads to is read: groups and second names, too."""
        with h5py.File(self.path("axis.h5"), "a") as file:
            file["elsewhere"] = h5py.ExternalLink("coarse/far.h5", "empty")
        os.mkdir(self.path("coarse"))
        with h5py.File(self.path("coarse/far.h5"), "w") as file:
            file.create_group("empty").attrs["note"] = "kept"
        os.rename(self.path("axis.h5"), self.path("far.h5"))
        before = support.digest(self.path("coarse/far.h5"))
        self.fails(2, "coarsen", "far.h5", "--factor", "2", "-o", "coarse", "--overwrite",
                   message="coarse/far.h5: is read by this very command")
        self.assertEqual(support.digest(self.path("coarse/far.h5")), before)


if __name__ == "__main__":
    support.main()
