"""Arrays that nobody can read, and links in circles, beside those that a command reads."""
import unittest

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

import support

ROWS = 32
NETWORK = ("flatten", "dense units=1")
KINDS = {"filter": "is packed by filter 32015, which HDF5 does not find here; put its plugin into a folder",
         "virtual": "leads to /dev/zero, which is a device, not a file",
         "external": "leads to /dev/zero, which is a device, not a file",
         "circle": "is virtual, and is among its own sources; make the file again"}


class Unreadable(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.x, self.y = rng.normal(0, 1, (ROWS, 8, 2)).astype("f4"), rng.normal(0, 1, ROWS).astype("f4")

    def add_filtered(self, file, name, values):
        filters = h5p.create(h5p.DATASET_CREATE)
        filters.set_chunk((4, *values.shape[1:]))
        filters.set_filter(32015, h5z.FLAG_OPTIONAL, (3,))
        data = h5d.create(file.id, name.encode(), h5t.IEEE_F32LE, h5s.create_simple(values.shape), dcpl=filters)
        for row in range(0, ROWS, 4):
            data.write_direct_chunk((row, *[0] * (values.ndim - 1)), values[row:row + 4].tobytes())

    def add(self, file, kind, name, values):
        if kind == "filter":
            self.add_filtered(file, name, values)
        elif kind == "external":
            file.create_dataset(name, shape=values.shape, dtype="f4", external=[("/dev/zero", 0, values.nbytes)])
        else:
            layout = h5py.VirtualLayout(values.shape, "f4")
            source = ("/dev/zero", "x") if kind == "virtual" else (".", name)
            layout[...] = h5py.VirtualSource(*source, values.shape)
            file.create_virtual_dataset(name, layout)

    def write_file(self, kind, name, values):
        with h5py.File(self.path("d.h5"), "w") as file:
            file["x"], file["y"] = self.x, self.y
            self.add(file, kind, name, values)

    def test_they_are_not_used(self):
        for kind, why in KINDS.items():
            # As samples that would be larger, and as labels that are named so.
            for name, values in (("images", np.repeat(self.x, 2, 1)), ("label", self.y)):
                with self.subTest(kind, name=name):
                    self.write_file(kind, name, values)
                    for _ in range(2):  # the second time there is an output, which may be among the inputs
                        said = self.mrmf("init", "d.h5", "--overwrite")
                    self.assertIn(f"not used: '{name}' {why}", said)
                    self.assertIn('samples = "x", labels = "y"', self.read("run.toml"))
                    self.mrmf("data", "run.toml")
                    self.fails(3, "init", "d.h5", "-o", "other.toml", *(("--samples", name) if name == "images" else
                                                                        ("--samples", "x", "--labels", name)),
                               message=why.removeprefix("cannot be read: "))

    def test_data_looks_past_them(self):
        for kind in KINDS:
            self.write_file(kind, "images", np.repeat(self.x, 2, 1))
            self.write("c.toml", support.rows_config(*NETWORK, files=["d.h5"]))
            self.mrmf("data", "c.toml")
            self.mrmf("train", "c.toml", "--overwrite")

    def test_coarse_copies_are_without_them(self):
        for kind, why in KINDS.items():
            with self.subTest(kind):
                self.write_file(kind, "other", self.x)
                self.fails(3, "coarsen", "d.h5", "--factor", "2", "-o", "none", message=f"d.h5: data set 'other' {why}")
                for _ in range(2):
                    said = self.mrmf("coarsen", "d.h5", "--factor", "2", "-o", "coarse", "--samples", "x", "--overwrite")
                self.assertIn(f"not in the copy: 'other' {why}", said)
                with h5py.File(self.path("coarse/d.h5")) as file:
                    self.assertEqual(sorted(file), ["x", "y"])
                self.fails(3, "coarsen", "d.h5", "--factor", "2", "-o", "none", "--samples", "other",
                           message=why.removeprefix("cannot be read: "))

    def test_links_in_circles_are_named(self):
        with h5py.File(self.path("d.h5"), "w") as file:
            file["y"], file["x"] = self.y, h5py.SoftLink("/z")
            file["z"] = h5py.SoftLink("/x")
        self.fails(3, "init", "d.h5", message="d.h5: no array looks like samples, of two to five axes and several rows; "
                   "'x' leads through more than 16 links")
        with h5py.File(self.path("d.h5"), "w") as file:
            file["x"], file["y"] = self.x, h5py.ExternalLink("e.h5", "y")
        with h5py.File(self.path("e.h5"), "w") as file:
            file["y"] = h5py.ExternalLink("d.h5", "y")
        self.fails(3, "init", "d.h5", message="no other array has its 32 rows to be labels; 'y' leads through more than 16 links")


if __name__ == "__main__":
    unittest.main()
