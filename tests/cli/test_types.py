"""Numbers as files hold them: of odd sizes, complex, behind filters, and large whole ones."""
import json
import os
import re

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t, h5z

import support

CONFIG = support.rows_config("flatten", "dense units=1", validation=0.2)


class Types(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(3)
        self.y = rng.uniform(0, 1, 32).astype("f4")
        self.x = (self.y[:, None, None] + rng.normal(0, 1, (32, 16, 2))).astype("f4")
        self.counts = rng.integers(0, 4096, self.x.shape).astype("u2")
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"], file["y"] = self.x, self.y
        self.write("c.toml", CONFIG)

    def add(self, name, values, kind, filters=None):
        """A data set of a type that numpy does not have."""
        with h5py.File(self.path("data.h5"), "a") as file:
            data = h5d.create(file.id, name.encode(), kind, h5s.create_simple(values.shape), dcpl=filters)
            data.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values))

    def as_stored(self, name):
        with h5py.File(self.path("data.h5")) as file:
            values = np.empty(file[name].shape, "f8")
            file[name].id.read(h5s.ALL, h5s.ALL, values, mtype=h5t.NATIVE_DOUBLE)
        return values

    def found(self, name, **more):
        sets = [word for key, value in more.items() for word in ("--set", f"data.{key}={value}")]
        found = json.loads(self.mrmf("data", "c.toml", "--json", "--set", f"data.train.samples='{name}'", *sets))
        parts = [found[part]["sample"]["channels"] for part in ("training", "validation")]
        counts = [found[part]["samples"] for part in ("training", "validation")]
        return (np.minimum(parts[0]["least"], parts[1]["least"]), np.maximum(parts[0]["most"], parts[1]["most"]),
                np.dot(counts, [parts[0]["mean"], parts[1]["mean"]]) / 32)

    def same(self, name, values):
        least, most, mean = self.found(name)
        values = values.astype("f8").reshape(-1, values.shape[-1])
        np.testing.assert_allclose(least, values.min(0), rtol=1e-6)
        np.testing.assert_allclose(most, values.max(0), rtol=1e-6)
        np.testing.assert_allclose(mean, values.mean(0), rtol=1e-5, atol=1e-6)

    def test_numbers_of_odd_sizes(self):
        kinds = {}
        kinds["bfloat16"] = h5t.IEEE_F32LE.copy()
        kinds["bfloat16"].set_fields(15, 7, 8, 0, 7)
        kinds["bfloat16"].set_size(2)
        kinds["bfloat16"].set_ebias(127)
        kinds["viirs"] = h5t.IEEE_F32LE.copy()
        kinds["viirs"].set_fields(13, 8, 5, 0, 8)
        kinds["viirs"].set_precision(14)
        kinds["viirs"].set_size(2)
        kinds["viirs"].set_ebias(15)
        kinds["long"] = h5t.NATIVE_LDOUBLE.copy()
        for name, kind in kinds.items():
            self.add(name, self.x, kind)
        kinds = {"adc": h5t.STD_U16LE.copy(), "i24": h5t.STD_I32LE.copy(), "three": h5t.STD_I32BE.copy()}
        kinds["adc"].set_precision(12)
        kinds["i24"].set_precision(24)
        kinds["three"].set_size(3)
        for name, kind in kinds.items():
            self.add(name, self.counts.astype("u2" if name == "adc" else "i4"), kind)
        with h5py.File(self.path("data.h5"), "a") as file:
            file.create_dataset("scaled", data=self.counts, chunks=(8, 16, 2), scaleoffset=0)
            file.create_dataset("scaled_float", data=self.x, chunks=(8, 16, 2), scaleoffset=3)
        for name in ("bfloat16", "viirs", "long", "adc", "i24", "three", "scaled", "scaled_float"):
            with self.subTest(name):
                values = self.as_stored(name)
                np.testing.assert_allclose(values, self.counts if values.max() > 99 else self.x, rtol=0.01, atol=0.02)
                self.same(name, values)
                self.mrmf("train", "c.toml", "--set", f"data.train.samples='{name}'", "--set", f"run.folder='{name}'")
        self.mrmf("coarsen", "data.h5", "--factor", "2", "-o", "coarse", "--samples", "viirs")
        with h5py.File(self.path("coarse/data.h5")) as file:
            np.testing.assert_allclose(file["viirs"], self.as_stored("viirs").reshape(32, 8, 2, 2).mean(2), rtol=1e-6)

    def test_complex_numbers_are_two_channels(self):
        z = (self.x[:, :, 0] + 1j * self.x[:, :, 1]).astype("c8")
        with h5py.File(self.path("data.h5"), "a") as file:
            file["z"] = z
            file.create_dataset("packed", data=z.astype("c16"), chunks=(5, 16), compression="gzip")
            named = np.zeros(z.shape, [("imag", ">f4"), ("real", ">f4")])
            named["real"], named["imag"] = z.real, z.imag
            file["named"] = named
            whole = np.zeros(z.shape, [("re", "i2"), ("im", "i2")])
            whole["re"], whole["im"] = self.counts[:, :, 0], self.counts[:, :, 1]
            file["whole"] = whole
            file["label"] = (self.y + 2j * self.y).astype("c8")
        for name in ("z", "packed", "named"):
            with self.subTest(name):
                self.same(name, self.x)
        self.same("whole", self.counts)
        for load in ("memory", "stream"):
            self.mrmf("train", "c.toml", "--set", f"run.folder='{load}'", "--set", f"data.load='{load}'")
            for name in ("z", "packed", "named"):
                self.mrmf("train", "c.toml", "--set", f"data.train.samples='{name}'", "--set", f"run.folder='{load}{name}'",
                          "--set", f"data.load='{load}'")
                self.same_models(load, load + name)
        self.fails(2, "train", "c.toml", "--set", "data.train.labels='label'", message="2 ")
        said = self.mrmf("init", "data.h5", "--samples", "named", "--labels", "y", "-o", "i.toml")
        self.assertIn("'named' (32, 16, 2) is taken for samples of complex numbers, whose parts are their channels", said)
        self.mrmf("train", "i.toml", "--set", "training.epochs=1", "--set", "run.folder=i")

    def unknown_filter(self, mask):
        filters = h5p.create(h5p.DATASET_CREATE)
        filters.set_chunk((4, 16, 2))
        filters.set_filter(32015, h5z.FLAG_OPTIONAL, (3,))
        with h5py.File(self.path("data.h5"), "a") as file:
            data = h5d.create(file.id, b"zstd", h5t.IEEE_F32LE, h5s.create_simple(self.x.shape), dcpl=filters)
            for row in range(0, 32, 4):
                data.write_direct_chunk((row, 0, 0), self.x[row:row + 4].tobytes(), filter_mask=mask)

    def test_a_filter_that_is_not_there_is_named(self):
        self.unknown_filter(0)
        message = "is packed by filter 32015, which HDF5 does not find here; put its plugin into a folder"
        named = ("--set", "data.train.samples='zstd'")
        for words in (("data", "c.toml", *named), ("train", "c.toml", *named),
                      ("coarsen", "data.h5", "--factor", "2", "-o", "coarse"),
                      ("coarsen", "data.h5", "--factor", "2", "-o", "coarse", "--samples", "zstd"),
                      ("init", "data.h5", "--samples", "zstd", "--labels", "y")):
            output = self.fails(3, *words, message=message)
            self.assertIn("data.h5: data set 'zstd' ", output)
            self.assertIn("HDF5_PLUGIN_PATH", output)
        self.assertFalse(os.path.exists(self.path("run")))
        self.fails(3, "train", "c.toml", *named, message=message, ranks=2)

    def test_a_filter_that_no_chunk_went_through_is_no_hindrance(self):
        self.unknown_filter(1)
        self.same("zstd", self.x)

    def test_large_whole_numbers(self):
        first = 6560604777055249536
        with h5py.File(self.path("data.h5"), "a") as file:
            file["id"] = np.int64(first) + np.arange(32)
            file["u64"] = np.uint64(2**64 - 1) - np.arange(32, dtype="u8")
            file["ns"] = np.int64(1700000000) * 10**9 + 1000 * np.arange(32)
            file["wide"] = (np.arange(32) * 2**57).astype("i8")
            file["same"] = np.full(32, first, "i8")
        for name, mean in (("id", first + 15), ("u64", 2**64 - 17), ("ns", 1700000000000015500)):
            for words in (("init", "data.h5", "--samples", "x", "--labels", name, "-o", "i.toml"),
                          ("train", "c.toml", "--set", f"data.train.labels='{name}'", "--set",
                           "data.normalise.labels='mean_std'")):
                output = self.fails(3, *words, message="if they are identifiers, there is nothing to learn in them; if they are "
                                                       "times, subtract ")
                number = re.search(r"subtract (\d+) before", output)
                self.assertLess(abs(mean - int(number[1])), 1e5)
                self.assertLess(int(number[1]), 2**64)
            self.assertRegex(self.mrmf("data", "c.toml", "--set", f"data.train.labels='{name}'"), r"subtract \d{19,20} before")
        for words in (("data", "c.toml", "--set", "data.train.labels='wide'"),
                      ("init", "data.h5", "--samples", "x", "--labels", "wide", "-o", "j.toml")):
            self.assertRegex(self.mrmf(*words), r"labels 'wide' are whole numbers from \S+ to \S+e\+18, as identifiers are")
        for name in ("same", "id", "u64", "ns", "wide"):
            self.assertNotIn("nan", self.mrmf("data", "c.toml", "--set", f"data.train.labels='{name}'").lower().replace("finan", ""))


if __name__ == "__main__":
    support.main()
