"""mrmf.write of the Python package: arrays of every kind into one file, in pieces, or one line of what is wrong."""
import unittest
from pathlib import Path

import h5py
import numpy as np
from test_package import InFolder, mrmf, recordings, seconds

from mrmf import writing  # of this repository, by test_package


def small_pieces(test):
    """What is written in pieces is written in small ones."""
    for name in ("_PIECE", "_ITERATED"):
        test.addCleanup(setattr, writing, name, getattr(writing, name))
        setattr(writing, name, 1000)


class Writing(InFolder):
    def test_every_kind_of_array_gives_the_same_file(self):
        x, y = recordings(300)
        np.save("a.npy", x[:100])
        np.save("b.npy", x[100:])
        with h5py.File("source.h5", "w") as file:
            file.create_dataset("x", data=x, chunks=(7, 16, 2))
        kinds = {"array": x, "list": list(x), "files": ["a.npy", Path("b.npy")], "rows": (row for row in x),
                 "map": np.memmap("raw", np.float32, "w+", shape=x.shape)}
        kinds["map"][:] = x
        with h5py.File("source.h5", "r") as file:
            kinds["h5py"] = file["x"]
            for kind, samples in kinds.items():
                with self.subTest(kind):
                    mrmf.write("out.h5", samples, y, overwrite=True)
                    with h5py.File("out.h5", "r") as out:
                        np.testing.assert_array_equal(out["samples"][()], x)
                        np.testing.assert_array_equal(out["labels"][()], y)

    def test_pieces_are_smaller_than_the_array(self):
        small_pieces(self)
        for x in (recordings(20000)[0], np.arange(300000.0), np.arange(300000) % 3 == 0):  # several pieces of rows
            mrmf.write("a.h5", x, overwrite=True)
            mrmf.write("b.h5", iter(x), overwrite=True)
            mrmf.write("c.h5", iter(x), compression="lzf", overwrite=True)
            for name in ("a.h5", "b.h5", "c.h5"):
                with h5py.File(name, "r") as file:
                    np.testing.assert_array_equal(file["samples"][()], x)

    def test_an_iterator_may_fill_one_array_again_and_again(self):
        x, y = recordings(20)
        buffer = np.empty_like(x[0])

        def rows():
            for row in x:
                buffer[:] = row
                yield buffer

        mrmf.write("a.h5", rows(), y)
        with h5py.File("a.h5", "r") as file:
            np.testing.assert_array_equal(file["samples"][()], x)

    def test_rows_of_several_types(self):
        mrmf.write("a.h5", iter([[1, 2], [0.5, 3], np.float32([4, 5])]))
        with h5py.File("a.h5", "r") as file:
            np.testing.assert_array_equal(file["samples"][()], [[1, 2], [0.5, 3], [4, 5]])
        small_pieces(self)
        late = (np.int64(5) if number < 200000 else np.float32(0.5) for number in range(200001))
        with self.assertRaisesRegex(mrmf.DataError, "row 200000 of 'samples' holds float32 elements, .* it int64; give"):
            mrmf.write("b.h5", late)
        with self.assertRaisesRegex(mrmf.DataError, "holds object elements"):
            mrmf.write("b.h5", iter([np.float32(1), None]))
        self.assertNothingLeft("a.h5")

    def test_a_link_leads_to_the_file(self):
        Path("other").mkdir()
        Path("a.h5").symlink_to("other/a.h5")
        mrmf.write("a.h5", recordings(5)[0])
        self.assertTrue(Path("a.h5").is_symlink())
        self.assertEqual([path.name for path in Path("other").iterdir()], ["a.h5"])

    def test_it_takes_little_longer_than_h5py(self):
        """Time of this process; the middle one of many, again where others on the machine disturb it."""
        x = np.random.default_rng(0).random((1000, 64, 64, 4), np.float32)
        calls = {"h5py": lambda: h5py.File("a.h5", "w").create_dataset("x", data=x).file.close(),
                 "array": lambda: mrmf.write("a.h5", x, overwrite=True),
                 "rows": lambda: mrmf.write("a.h5", iter(x), overwrite=True)}
        rates = []
        for _ in range(5):
            times = [{name: seconds(call) for name, call in calls.items()} for _ in range(11)]
            rates.append({name: np.median([round["h5py"] / round[name] for round in times]) for name in ("array", "rows")})
            if rates[-1]["array"] > 0.8 and rates[-1]["rows"] > 0.5:
                return
        self.fail(f"parts of h5py's own rate: {rates}")

    def test_names_axes_and_units_are_kept(self):
        x, y = recordings(20)
        mrmf.write("a.h5", {"voltage": x, "current": 2 * x}, y, names=("", "parameters"), axes="n t c",
                   units={"voltage": "mV"}, label_names=["g_na", "g_k"])
        with h5py.File("a.h5", "r") as file:
            self.assertEqual(sorted(file), ["current", "parameters", "voltage"])
            self.assertEqual(dict(file["voltage"].attrs), {"axes": "n t c", "units": "mV"})
            self.assertEqual(list(file["parameters"].attrs["names"]), ["g_na", "g_k"])

    def test_wrong_arrays_are_one_line_and_leave_nothing(self):
        x, y = recordings(20)
        cases = [(x, y[:3], "'labels' has 3 rows, and 'samples' 20"),
                 ([[1, 2], [3]], None, "row 1 of 'samples' has shape"),
                 ((row[:1 + i] for i, row in enumerate(x)), None, "row 1 of 'samples' has shape"),
                 (np.array([None, {}]), None, "holds object elements"),
                 (np.array(["a", "b"]), None, "elements; give numbers"),
                 (np.float32(3), None, "is a single value"), (iter([]), None, "has no rows"),
                 (x[:0], None, "has no rows"), ({}, None, "there are no samples"), ("a.h5", None, "is a str")]
        for samples, labels, line in cases:
            with self.subTest(line), self.assertRaises(mrmf.DataError) as caught:
                mrmf.write("a.h5", samples, labels)
            self.assertIn(line, str(caught.exception))
            self.assertNotIn("\n", str(caught.exception))
        for path, samples, line in (("nowhere/a.h5", x, "there is no folder"), ("tmp", x, "tmp: is a folder"),
                                    ("a.h5", {"": x}, "'' is no name"), ("a.h5", {3: x}, "3 is no name")):
            with self.assertRaisesRegex(mrmf.ConfigError, line):
                mrmf.write(path, samples, overwrite=True)
        with self.assertRaisesRegex(mrmf.ConfigError, "compression 'zip' is not known; give one of gzip"):
            mrmf.write("a.h5", x, compression="zip")
        with self.assertRaises(ZeroDivisionError):  # of an iterator, as it is
            mrmf.write("a.h5", (1 / row for row in range(5)))
        self.assertNothingLeft()

    def test_a_disk_that_takes_no_more(self):
        def full(*_):
            raise OSError("Can't write data (file write failed: errno = 28, error message = 'No space left on device', ...")

        x, _ = recordings(5)
        self.addCleanup(setattr, writing, "_write_rows", writing._write_rows)
        writing._write_rows = full
        for samples in (x, iter(x)):
            with self.assertRaisesRegex(mrmf.DataError, "^a.h5: cannot be written: No space left on device; check its folder"):
                mrmf.write("a.h5", samples)
        with self.assertRaisesRegex(mrmf.DataError, "^/proc/a.h5: cannot be written: "):
            mrmf.write("/proc/a.h5", x)
        self.assertNothingLeft()

    def test_masked_values_are_missing_numbers(self):
        x, y = recordings(20)
        mrmf.write("a.h5", np.ma.masked_greater(x, 1), y)
        with h5py.File("a.h5", "r") as file:
            np.testing.assert_array_equal(file["samples"][()], np.where(x > 1, np.float32(np.nan), x))
        with self.assertRaisesRegex(mrmf.DataError, "'samples' has masked values"):
            mrmf.write("b.h5", np.ma.masked_greater(np.arange(6), 3))
        self.assertNothingLeft("a.h5")

    def test_a_file_that_is_there_stays(self):
        x, _ = recordings(5)
        Path("a.h5").write_text("mine")
        with self.assertRaisesRegex(mrmf.ConfigError, "overwrite=True"):
            mrmf.write("a.h5", x)
        with self.assertRaises(mrmf.DataError):
            mrmf.write("a.h5", x, x[:2], overwrite=True)
        self.assertEqual(Path("a.h5").read_text(), "mine")


if __name__ == "__main__":
    unittest.main()
