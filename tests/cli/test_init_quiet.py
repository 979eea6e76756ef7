"""`mrmf init` writes nothing that `mrmf data` or `mrmf plan` then warns of."""
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


if __name__ == "__main__":
    unittest.main()
