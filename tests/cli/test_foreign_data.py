"""Names and files that other programs take for data: each gets a line that says what to do."""
import gzip
import os
import shutil
import subprocess
import sys
import unittest

import h5py
import numpy as np

from support import MrmfTest, environment, layers

CONFIG = """
[data]
files = ["{file}"]
train = {{ samples = "x", labels = "y" }}
split = {{ by = "rows", validation = 0.25 }}
[training]
batch = 4
epochs = 1
[method]
name = "baseline"
[run]
folder = "run"
""" + layers("flatten", "dense units=1")

MAGIC = {"classic.nc": (b"CDF\x01", "is a netCDF-3 file, not HDF5; `nccopy -k nc4 classic.nc classic.nc4` makes one of it"),
         "big.nc": (b"CDF\x02", "`nccopy -k nc4 big.nc big.nc4`"),
         "my data.nc": (b"CDF\x05", "`nccopy -k nc4 'my data.nc' 'my data.nc4'`"),
         "old.mat": (b"MATLAB 5.0 MAT-file, Platform: GLNXA64", "is a MATLAB file of before version 7.3, not HDF5; in MATLAB, "
                                                               "save(..., '-v7.3')"),
         "a.hdf": (b"\x0e\x03\x13\x01", "is an HDF4 file, not HDF5; `h4toh5 a.hdf a.h5`"),
         "a.h5.xz": (b"\xfd7zXZ\0", "is compressed, not HDF5; unpack it with `unxz -k a.h5.xz`"),
         "a.h5.bz2": (b"BZh9", "`bunzip2 -k a.h5.bz2`"),
         "a.h5.zst": (b"\x28\xb5\x2f\xfd", "`unzstd a.h5.zst`"),
         "a.tar.gz": (b"\x1f\x8b\x08", "`tar -xf a.tar.gz`"),
         "a.zip": (b"PK\x03\x04", "is a ZIP archive, not HDF5; unpack it with `unzip a.zip`"),
         "w.pt": (b"PK\x03\x04", "PyTorch"),
         "a.grib": (b"GRIB", "`cdo -f nc4 copy a.grib a.nc`"),
         "sky.fits": (b"SIMPLE  =    T", "is a FITS file, not HDF5"),
         "t.parquet": (b"PAR1", "is a Parquet file, not HDF5"),
         "lfs.h5": (b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS, not HDF5; `git lfs pull`"),
         "page.h5": (b"<!DOCTYPE html>", "is a web page, not HDF5; a download that needed a login"),
         "unknown.h5": (b"anything else", "not an HDF5 file (the HDF5 signature is missing); convert it, or check the path")}


class ForeignData(MrmfTest):
    def make(self, name):
        with h5py.File(self.path(name), "w") as file:
            file["x"], file["y"] = np.ones((20, 8, 1), "f4") * np.arange(20)[:, None, None], np.arange(20.0)

    def told(self, name, told, code=3):
        """By every command that opens the file: one line, and nothing is written."""
        self.write("c.toml", CONFIG.format(file=name))
        for words, expected in ((("train", "c.toml"), code), (("data", "c.toml"), code), (("plan", "c.toml"), code),
                                (("init", name), 3)):
            with self.subTest(name=name, command=words[0]):
                output = self.mrmf(*words, code=expected)
                lines = [line for line in output.splitlines() if line.startswith("mrmf: ")]
                self.assertEqual(len(lines), 1, output)
                self.assertIn(told, lines[0])
                self.assertFalse(os.path.exists(self.path("run")) or os.path.exists(self.path("run.toml")))

    def test_files_of_other_formats(self):
        for name, (magic, told) in MAGIC.items():
            with open(self.path(name), "wb") as file:
                file.write(magic + bytes(600))
        tar = bytearray(1024)
        tar[257:262] = b"ustar"
        with open(self.path("a.tar"), "wb") as file:
            file.write(tar)
        for name, told in [(name, told) for name, (_, told) in MAGIC.items()] + [("a.tar", "`tar -xf a.tar`")]:
            self.write("c.toml", CONFIG.format(file=name))
            with self.subTest(name=name):
                self.assertIn(f"{name}: {told}" if told.startswith("is ") or told.startswith("not ") else told,
                              self.mrmf("data", "c.toml", code=3))
        self.told("classic.nc", MAGIC["classic.nc"][1])
        output = self.mrmf("train", "c.toml", code=3, ranks=2)
        self.assertIn("`nccopy -k nc4 classic.nc classic.nc4`", output)

    def test_what_is_said_works(self):
        """The commands for NumPy's files and gzip's, as a shell runs them."""
        x, y = np.ones((20, 8, 1), "f4"), np.arange(20.0)
        np.savez(self.path("it's.npz"), x=x, y=y)
        np.save(self.path("one.npy"), x)
        self.make("d.h5")
        with open(self.path("d.h5"), "rb") as source, gzip.open(self.path("packed.h5.gz"), "wb") as target:
            shutil.copyfileobj(source, target)
        os.remove(self.path("d.h5"))
        for name, made, arrays in (("it's.npz", "it's.h5", "xy"), ("one.npy", "one.h5", "x"), ("packed.h5.gz", "packed.h5", "xy")):
            with self.subTest(name=name):
                command = self.mrmf("init", name, code=3).split("`")[1].replace("python3 ", sys.executable + " ", 1)
                subprocess.run(["sh", "-c", command], cwd=self.folder, env=environment(), check=True)
                with h5py.File(self.path(made)) as file:
                    self.assertEqual(set(file), set(arrays))

    def test_names_that_only_a_shell_replaces(self):
        os.environ["MRMF_TEST_DATA"] = "/some/where"
        self.addCleanup(os.environ.pop, "MRMF_TEST_DATA")
        home = os.environ["HOME"]
        for name, told in (("~/d.h5", f"~ is the home folder in a shell alone; write {home}/d.h5"),
                           ("~/runs/*.h5", f"write {home}/runs/*.h5"), ("~other/d.h5", "write the whole path"),
                           ("$MRMF_TEST_DATA/d.h5", "variables are replaced by a shell alone; write /some/where/d.h5"),
                           ("a/${MRMF_TEST_DATA}.h5", "write a//some/where.h5"),
                           ("$MRMF_TEST_DATA/*.h5", "write /some/where/*.h5"),
                           ("$MRMF_TEST_NONE/d.h5", "there is none of the name MRMF_TEST_NONE; write the whole path"),
                           ("s3://bucket/d.h5", "copy it here first, such as `aws s3 cp s3://bucket/d.h5 .`, and name the copy"),
                           ("gs://bucket/d*.h5", "`gcloud storage cp 'gs://bucket/d*.h5' .`"),
                           ("https://zenodo.org/d.h5?download=1", "`curl -LO 'https://zenodo.org/d.h5?download=1'`"),
                           ("file:///data/d.h5", "write /data/d.h5")):
            self.told(name, told, code=2)

    def test_a_file_of_just_that_name_is_read(self):
        for name in ("$MRMF_TEST_NONE.h5", "~d.h5"):
            self.make(name)
            self.write("c.toml", CONFIG.format(file=name))
            self.mrmf("data", "c.toml")

    def test_folders(self):
        for folder, names in (("mixed", ("a.hdf5", "b.hdf5", "c.h5", "readme.txt")), ("empty", ("readme.txt",))):
            os.mkdir(self.path(folder))
            for name in names:
                self.write(f"{folder}/{name}", "")
        os.mkdir(self.path("z.zarr"))
        self.write("z.zarr/.zgroup", "{}")
        self.told("mixed", "mixed: is a folder; name its files with a pattern, such as mixed/*.hdf5")
        self.told("mixed/", "such as mixed/*.hdf5")
        self.told("empty", "empty: is a folder, and no file in it has a usual name of HDF5 files; name files, or a pattern")
        self.told("z.zarr", "z.zarr: is a Zarr folder, not HDF5; store its arrays in an HDF5 file")


if __name__ == "__main__":
    unittest.main()
