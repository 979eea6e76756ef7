"""Coarse copies of files whose coordinates, links, numbers or groups are other than the simplest."""
import json
import os
import resource
import subprocess

import h5py
import numpy as np

import support


def scale(file, name, values):
    file[name] = values
    file[name].make_scale(name)


class CoarseFiles(support.MrmfTest):
    def coarsen(self, path, *words, **options):
        return self.mrmf("coarsen", path, "--factor", "2", "-o", "coarse", "--overwrite", *words, **options)

    def copy(self, path):
        return h5py.File(self.path(f"coarse/{path}"))

    def test_an_array_with_the_name_of_anothers_coordinate(self):
        """Samples behind a link have their coordinates in their own file."""
        x = np.random.default_rng(0).normal(0, 1, (8, 16, 1)).astype("f4")
        with h5py.File(self.path("o.h5"), "w") as file:
            scale(file, "lat", np.linspace(-1, 1, 16))
            file["x"] = x
            file["x"].dims[1].attach_scale(file["lat"])
        own = np.arange(8.0)
        with h5py.File(self.path("m.h5"), "w") as file:
            file["x"], file["lat"] = h5py.ExternalLink("o.h5", "x"), own
        said = self.coarsen("m.h5")
        with self.copy("m.h5") as file:
            np.testing.assert_array_equal(file["lat"], own)
            np.testing.assert_allclose(file["x"], x.reshape(8, 8, 2, 1).mean(2), rtol=1e-6)
        self.assertNotIn("'lat'", said)
        with h5py.File(self.path("m.h5"), "a") as file:  # both in this file, the coordinate by another name
            del file["lat"]
            file["where"] = h5py.ExternalLink("o.h5", "lat")
        self.assertIn("'where' numbers an averaged axis", self.coarsen("m.h5"))
        with self.copy("m.h5") as file:
            np.testing.assert_allclose(file["where"], np.linspace(-1, 1, 16).reshape(8, 2).mean(1))

    def test_numbers_that_float32_does_not_hold(self):
        rng = np.random.default_rng(0)
        days = 2459000.5 + np.cumsum(rng.uniform(0, 1e-4, (40, 32, 1)), 1)
        for name, x, message in (("day", days, ", and float32, in which copies are written, knows only every 0.25 there; subtract 2459000.5"),
                                 ("tiny", rng.normal(1, 0.1, (40, 32, 1)) * 1e-300, "has none so small; store them in other units"),
                                 ("count", np.int64(1 << 40) + rng.integers(0, 1000, (40, 32, 1)), "knows only every 1.31e+05"),
                                 ("two", np.concatenate([days, rng.normal(0, 1, days.shape)], 2), "in a channel, and float32")):
            with h5py.File(self.path(f"{name}.h5"), "w") as file:
                file["x"] = x
            output = self.fails(3, "coarsen", f"{name}.h5", "--samples", "x", "--factor", "2", "-o", "none", "--overwrite", message="data set 'x' holds numbers")
            self.assertIn(message, output)
            self.assertFalse(os.path.exists(self.path(f"none/{name}.h5")))
        with h5py.File(self.path("fine.h5"), "w") as file:  # a channel of one number loses nothing that matters
            file["x"] = np.concatenate([np.full_like(days, 0.1), days - 2459000.5], 2)
        self.coarsen("fine.h5")
        rest = np.ones((40, 32, 1)) + rng.normal(0, 1, (40, 32, 1))
        for first in 1 + 1e-15 * rng.normal(0, 1, (32, 1)), 0.3 + 1e-16 * rng.integers(-1, 2, (32, 1)):
            with h5py.File(self.path("fine.h5"), "w") as file:  # as a simulation begins; a constant, computed
                file["x"] = np.concatenate([np.concatenate([first[None], rest[1:]]), np.broadcast_to(first, rest.shape)], 2)
            self.coarsen("fine.h5")

    def test_patterns_that_no_shell_has_replaced(self):
        for name in ("r0", "r1", "r10"):
            with h5py.File(self.path(f"{name}.h5"), "w") as file:
                file["x"] = np.ones((4, 16, 1), "f4")
        for words in (["r*.h5"], ["r{0..1}.h5", "r1*.h5"]):
            self.assertIn("12 samples in 3 files", self.coarsen(*words))
        self.assertEqual(sorted(os.listdir(self.path("coarse"))), ["r0.h5", "r1.h5", "r10.h5"])
        self.assertIn("12 samples in 3 files", self.coarsen("r*.h5", ranks=2))
        self.fails(3, "coarsen", "q*.h5", "--factor", "2", "-o", "none", message="no file matches q*.h5; correct the pattern")
        self.assertFalse(os.path.exists(self.path("none")))

    def test_a_coordinate_by_its_second_name(self):
        with h5py.File(self.path("two.h5"), "w") as file:
            scale(file, "b", np.arange(16.0))
            file["a"] = file["b"]  # its first name is now "a"
            file["x"] = np.ones((4, 16, 1), "f4")
            file["x"].dims[1].attach_scale(file["b"])
        self.coarsen("two.h5", "--samples", "x")
        with self.copy("two.h5") as file:
            np.testing.assert_allclose(file["a"], np.arange(16.0).reshape(8, 2).mean(1))
            self.assertEqual(file["a"], file["b"])

    def test_a_coordinate_that_is_named(self):
        with h5py.File(self.path("s.h5"), "w") as file:
            scale(file, "wave", np.arange(32.0).reshape(2, 16))
            scale(file, "other", np.arange(64.0).reshape(4, 16))
            file["x"] = np.ones((2, 16), "f4")
        self.coarsen("s.h5", "--axes", "n x", "--samples", "wave", "--samples", "x")
        with self.copy("s.h5") as file:
            np.testing.assert_allclose(file["wave"], np.arange(32.0).reshape(2, 8, 2).mean(2))
            self.assertEqual(file["other"].shape, (4, 16))
            self.assertEqual(file["x"].shape, (2, 8))

    def test_complex_numbers(self):
        rng = np.random.default_rng(0)
        x = (rng.normal(0, 1, (8, 64)) + 1j * rng.normal(0, 1, (8, 64))).astype("c8")
        mean = x.reshape(8, 32, 2).mean(2)
        with h5py.File(self.path("c.h5"), "w") as file:
            file["x"] = x
            scale(file, "t", np.arange(64.0))
            file["x"].dims[1].attach_scale(file["t"])
        for ranks in (0, 2):
            self.coarsen("c.h5", "--samples", "x", ranks=ranks)
            with self.copy("c.h5") as file:
                np.testing.assert_allclose(file["x"], np.stack([mean.real, mean.imag], -1), rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(file["t"], np.arange(64.0).reshape(32, 2).mean(1))

    def test_more_groups_than_files_may_be_open(self):
        count = 400
        x = np.random.default_rng(0).normal(0, 1, (count, 8, 1)).astype("f4")
        with h5py.File(self.path("g.h5"), "w") as file:
            for i in range(count):
                file[f"a_long_name_of_a_simulation_{i:04}/density"] = x[i]
                file[f"a_long_name_of_a_simulation_{i:04}/density"].attrs["units"] = "1"
        for ranks in (1, 2):
            done = subprocess.run(support.command(["coarsen", "g.h5", "--rows", "groups", "--samples", "density", "--factor",
                                                   "2", "-o", "coarse", "--overwrite"], ranks), cwd=self.folder, text=True,
                                  capture_output=True, env=support.environment(),
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with self.copy("g.h5") as file:
                for i in (0, 133, count - 1):
                    one = file[f"a_long_name_of_a_simulation_{i:04}/density"]
                    np.testing.assert_allclose(one, x[i].reshape(4, 2, 1).mean(1), rtol=1e-6, atol=1e-7)
                    self.assertEqual(one.attrs["units"], "1")
                told = json.loads(file.attrs["coarsened"])
                self.assertEqual(len(told["samples"]) + told["further_samples"], count)

    def test_a_name_that_no_group_has(self):
        with h5py.File(self.path("g.h5"), "w") as file:
            for i in range(3):
                file[f"s{i}/density"], file[f"s{i}/velocity"] = np.ones((8, 1), "f4"), np.ones((8, 1), "f4")
        for names in (["densty"], ["velocity", "densty"]):
            words = [word for name in names for word in ("--samples", name)]
            output = self.fails(2, "coarsen", "g.h5", "--rows", "groups", *words, "--factor", "2", "-o", "coarse",
                                message="g.h5: no group has a data set 'densty', which --samples names; "
                                        "groups have density, velocity; do you mean 'density'?")
            self.assertNotIn("axes", output)
            self.assertFalse(os.path.exists(self.path("coarse/g.h5")))

    def test_a_bad_file_among_good_ones_leaves_no_copy(self):
        for i in range(3):
            with h5py.File(self.path(f"part{i}.h5"), "w") as file:
                file["x"] = np.ones((8, 8, 1), "f4")
        for name, write in (("empty.h5", lambda path: open(path, "w").close()),
                            ("odd.h5", lambda path: h5py.File(path, "w").create_dataset("x", data=np.ones((8, 7, 1), "f4")).file.close())):
            write(self.path(name))
            for ranks in (0, 2):
                self.fails(3 if name == "empty.h5" else 2, "coarsen", "part0.h5", "part1.h5", "part2.h5", name, "--factor", "2", "-o", "set",
                           message=name, ranks=ranks)
                self.assertFalse(os.path.exists(self.path("set")), name)
        self.mrmf("coarsen", "part0.h5", "part1.h5", "--factor", "2", "-o", "set")


if __name__ == "__main__":
    support.main()
