"""Axes of which a file says what they are: `mrmf init` takes none that it calls horizontal for channels."""
import unittest

import h5py
import numpy as np

from people_files import InitTest

ROWS = 40
MAPS = {"lat": {"units": "degrees_north", "axis": "Y"}, "lon": {"units": "degrees_east", "standard_name": "longitude"}}


class NamedAxes(InitTest):
    def write_axes(self, name, sizes, attributes=None, labels=False):
        """Samples with axes of these names and lengths, as netCDF has them or, with `labels`, as names alone."""
        attributes = attributes or {}
        rng = np.random.default_rng(0)
        with h5py.File(self.path(name + ".h5"), "w") as file:
            x = file.create_dataset("sst", data=rng.normal(0, 1, (ROWS, *sizes.values())).astype("f4"))
            file["enso"] = rng.normal(0, 1, ROWS).astype("f4")
            for axis, (called, size) in enumerate(sizes.items(), 1):
                if labels:
                    x.dims[axis].label = called
                    continue
                scale = file.create_dataset(called, data=np.linspace(0, 1, size))
                scale.attrs.update(attributes.get(called, {}))
                scale.make_scale(called)
                x.dims[axis].attach_scale(scale)

    def taken(self, sizes, axes, said, **options):
        self.write_axes("d", sizes, **options)
        output = self.mrmf("init", "d.h5", "--overwrite")
        line = next(line for line in output.splitlines() if line.startswith("'sst' ("))
        self.assertIn(said, line)
        text = self.read("run.toml")
        self.assertIn(axes or "\nfiles", text)
        self.assertEqual("\naxes = " in text, bool(axes))

    def test_maps_have_no_channels(self):
        for sizes in ((16, 32), (12, 24), (32, 8), (16, 16)):
            for options in ({"attributes": MAPS}, {}, {"labels": True}):
                with self.subTest(sizes=sizes, **options):
                    self.taken(dict(zip(("lat", "lon"), sizes)), 'axes = "n y x"',
                               "without an axis of channels: the file calls its axes 'lat', 'lon'", **options)
        self.mrmf("train", "run.toml", "--set", "training.epochs=1")

    def test_attributes_say_what_names_do_not(self):
        ends = ({"axis": "Y"}, {"standard_name": "grid_latitude"}, {"units": "degree_N"}, {"standard_name": "projection_y_coordinate"})
        for said in ends:
            self.taken({"a": 12, "b": 24}, 'axes = "n y x"', "without an axis of channels", attributes={"a": said, "b": {"axis": "X"}})
        self.taken({"a": 12, "b": 24}, 'axes = "n c x"', "is taken for samples with channels first")  # nothing is said

    def test_a_short_vertical_axis_holds_channels(self):
        self.taken({"level": 10, "lat": 32, "lon": 64}, 'axes = "n c y x"', "'level' is short and holds the channels; if it holds "
                   'positions, give --axes "n z y x"')
        self.taken({"lat": 32, "lon": 64, "plev": 10}, None, "with channels last")
        self.taken({"level": 20, "lat": 32, "lon": 24}, 'axes = "n z y x"', "if 'level' holds channels, give --axes \"n c y x\"")

    def test_four_axes_have_one_of_channels(self):
        self.taken({"time": 4, "depth": 8, "y": 12, "x": 12}, 'axes = "n c z y x"', "'time' holds the channels")
        self.taken({"y": 12, "x": 12, "time": 10, "depth": 6}, None, "'depth' holds the channels")

    def test_an_axis_that_is_called_channels(self):
        self.taken({"band": 40, "y": 32, "x": 32}, 'axes = "n c y x"', "with channels first: the file calls its axes 'band'", labels=True)
        self.taken({"y": 12, "channel": 30, "x": 16}, 'axes = "n y c x"', "with channels in between", labels=True)
        self.taken({"feature": 200}, None, "of channels without positions", labels=True)
        self.taken({"x": 20}, 'axes = "n x"', "without an axis of channels", labels=True)

    def test_the_height_of_images_is_no_level(self):
        self.taken({"height": 12, "width": 24}, 'axes = "n y x"', "without an axis of channels", labels=True)

    def test_groups_that_are_samples(self):
        rng = np.random.default_rng(0)
        with h5py.File(self.path("g.h5"), "w") as file:
            for i in range(12):
                group = file.create_group(f"sim_{i}")
                group["sst"] = rng.normal(0, 1, (12, 24)).astype("f4")
                group["sst"].dims[0].label, group["sst"].dims[1].label = "y", "x"
                group.attrs["om"] = rng.uniform()
        self.assertIn("without an axis of channels: the file calls its axes 'y', 'x'", self.mrmf("init", "g.h5"))
        self.assertIn('axes = "n y x"', self.read("run.toml"))


if __name__ == "__main__":
    unittest.main()
