"""`mrmf init` writes nothing that `mrmf data` or `mrmf plan` then warns of, but what it has said itself, and nothing that they
refuse."""
import os
import unittest

import h5py
import numpy as np

from support import MrmfTest

ROWS = 60


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(0, 1, shape).astype("f4")


def files():
    """Arrays of files, by name: features, series, images, volumes, with labels of all kinds."""
    numbers, integers = normal(0, ROWS), np.random.default_rng(0).integers
    constant = normal(1, ROWS, 32, 3)
    constant[..., 1] = 5
    holes = normal(2, ROWS, 32, 2)
    holes[3, 4] = np.nan
    return {"features": (normal(3, ROWS, 7), numbers),
            "series": (normal(4, ROWS, 64), normal(5, ROWS, 2)),
            "channels_last": (normal(6, ROWS, 64, 3), numbers),
            "channels_first": (normal(7, ROWS, 3, 20, 24), numbers),
            "as_many_channels": (normal(8, ROWS, 30, 16), numbers),
            "images_of_many_channels": (normal(9, ROWS, 40, 20, 16), numbers),
            "volumes_channels_first": (normal(10, 10, 18, 24, 24, 24), numbers[:10]),
            "volumes": (normal(11, 20, 12, 12, 12, 2), normal(12, 20, 3)),
            "images": (integers(0, 255, (ROWS, 28, 28)).astype("u1"), np.arange(ROWS) % 3),
            "labels_with_positions": (normal(13, ROWS, 16, 24, 2), integers(0, 3, (ROWS, 16, 24))),
            "odd_labels_with_positions": (normal(14, ROWS, 15, 21, 2), (normal(15, ROWS, 15, 21) > 0).astype("u1")),
            "odd_volumes_with_positions": (normal(16, 20, 7, 9, 11, 1), normal(17, 20, 7, 9, 11, 1)),
            "over_orders": (np.exp(4 * normal(18, ROWS, 32, 2)), numbers),
            "constant_channel": (constant, numbers),
            "few_rows": (normal(19, 6, 32, 2), numbers[:6]),
            "not_finite": (holes, numbers),
            "yes_or_no": (normal(20, ROWS, 32, 2), np.arange(ROWS) % 2)}


class InitIsQuiet(MrmfTest):
    def complaints(self, output):
        return [line for line in output.splitlines() if line.startswith(("advice: ", "mrmf: "))]

    def test_nothing_that_init_wrote_is_warned_of(self):
        for name, (x, y) in files().items():
            with self.subTest(name=name):
                with h5py.File(self.path(name + ".h5"), "w") as file:
                    file["x"], file["y"] = x, y
                self.mrmf("init", name + ".h5", "-o", name + ".toml")
                for command in ("data", "plan"):
                    self.assertEqual(self.complaints(self.mrmf(command, name + ".toml")), [], self.read(name + ".toml"))

    def test_volumes_with_channels_first_are_taken_so(self):
        x, y = files()["volumes_channels_first"]
        with h5py.File(self.path("d.h5"), "w") as file:
            file["x"], file["y"] = x, y
        output = self.mrmf("init", "d.h5")
        self.assertIn('channels first; if the last axis of 24 holds channels, give --axes "n z y x c"', output)
        self.assertIn('axes = "n c z y x"', self.read("run.toml"))
        self.mrmf("init", "d.h5", "--axes", "n z y x c", "-o", "other.toml")
        self.assertNotIn("channels =", self.read("other.toml"))  # the axes say it


class InitSaysWhatDataSays(MrmfTest):
    """What is odd about numbers, for which there is no configuration that helps."""

    def arrays(self, name, **arrays):
        """Of values, or of values and attributes."""
        with h5py.File(self.path(name), "w") as file:
            for key, (values, attributes) in arrays.items():
                file[key] = values
                file[key].attrs.update(attributes)

    def said_of(self, *files):
        """Each advice that `mrmf data` has for what init wrote is a line of init, too. Returns these."""
        said = self.mrmf("init", *files, "--overwrite").splitlines()
        advice = [line for line in self.mrmf("data", "run.toml").splitlines() if line.startswith("advice: ")]
        for line in advice:
            self.assertTrue(line in said or line.removeprefix("advice: ") in said, f"{line}\n{said}")
        return "\n".join(advice)

    def test_numbers_that_are_odd(self):
        x, y = normal(0, ROWS, 16, 2), normal(1, ROWS)
        marked = np.where(x < -1.5, np.float32(-9999), x)
        identifiers = np.random.default_rng(0).integers(6 * 10**18, 9 * 10**18, (ROWS, 8))
        for name, arrays, told in (("marked", {"x": (marked, {}), "y": (y, {})}, "-9999 stands"),
                                   ("labels", {"x": (x, {}), "y": (np.where(np.arange(ROWS) % 5 == 0, -9999, y), {})}, "-9999 stands"),
                                   ("ids", {"x": (identifiers, {}), "y": (y, {})}, "as identifiers are"),
                                   ("twice", {"x": (np.repeat(x[:12], 5, 0), {}), "y": (np.repeat(y[:12], 5), {})}, "occur before"),
                                   ("few", {"x_train": (x[:10], {}), "y_train": (y[:10], {}), "x_val": (x[10:], {}), "y_val": (y[10:], {})},
                                    "50 samples validate and 10 train"),
                                   ("absent", {"x_train": (x[:30], {}), "y_train": (np.arange(30) % 2, {}), "x_val": (x[30:], {}),
                                               "y_val": (np.arange(30) % 3, {})}, "class 2 never occurs in the training labels")):
            with self.subTest(name):
                self.arrays("d.h5", **arrays)
                self.assertIn(told, self.said_of("d.h5"))

    def test_packing(self):
        raw, y = np.round(100 * normal(0, ROWS, 16, 2)).astype("i2"), normal(1, ROWS)
        self.arrays("a.h5", x=(raw, {"scale_factor": 0.01}), y=(y, {}))
        self.arrays("b.h5", x=(raw[::-1] + 1, {}), y=(y, {}))
        self.assertIn("is scaled by attributes in some files", self.said_of("a.h5", "b.h5"))
        # Limits in double beside a scale in float are limits of stored numbers, of which few are left.
        self.arrays("d.h5", y=(y, {}), x=(raw, {"scale_factor": np.float32(0.01), "valid_range": np.array([-1.0, 1.0])}))
        self.assertIn("most training numbers of 'x' are missing", self.said_of("d.h5"))
        there = (np.abs(raw) <= 1).sum()
        self.assertIn(f"{raw.size - there} of {raw.size} numbers missing, in", self.mrmf("init", "d.h5", "--overwrite"))

    def test_units_that_differ_are_refused(self):
        x, y = normal(0, ROWS, 16, 2), normal(1, ROWS)
        self.arrays("d.h5", x_train=(x, {"units": "K"}), y_train=(y, {}), x_val=(x[:20] + 1, {"units": "degC"}), y_val=(y[:20], {}))
        self.fails(3, "init", "d.h5", message="'x_val' of the validation data has units of degC, but 'x_train' of the training data")
        self.assertFalse(os.path.exists(self.path("run.toml")))


if __name__ == "__main__":
    unittest.main()
