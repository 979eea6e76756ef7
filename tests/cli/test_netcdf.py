"""Arrays as netCDF and CF store them: packed numbers, missing ones, coordinates. Written with h5py as netCDF does."""
import json
import os
import unittest

import h5py
import numpy as np

import support
from people_files import InitTest, PeopleTest, config

FLOATS = ("f2", "f4", "f8")
DEFAULT_FILL = np.float32(9.969209968386869e36)


def physical(raw, attributes):
    """What the attributes say of stored numbers, in double; NaN where nothing is there."""
    raw = np.asarray(raw)
    if attributes.get("_Unsigned") == "true" and raw.dtype.kind == "i":
        raw = raw.view(raw.dtype.str.replace("i", "u"))
    missing = np.zeros(raw.shape, bool)

    def stored(number):
        with np.errstate(all="ignore"):
            here = np.asarray(number).astype(raw.dtype)
        same = here == number if raw.dtype.kind != "f" else True
        wrapped = raw.dtype.kind == "u" and np.asarray(number).astype(raw.dtype.str.replace("u", "i")) == number
        return here if same or wrapped else None

    for name in ("_FillValue", "missing_value"):
        for number in np.atleast_1d(attributes.get(name, [])):
            if stored(number) is not None:
                missing |= raw == stored(number)
    real = raw.astype("f8") * float(np.ravel(attributes.get("scale_factor", 1))[0])
    real += float(np.ravel(attributes.get("add_offset", 0))[0])
    least, most = attributes.get("valid_range", (attributes.get("valid_min"), attributes.get("valid_max")))
    for limit, sign in ((least, -1), (most, 1)):
        if limit is not None:
            missing |= beyond(limit, sign, raw, real, attributes)
    return np.where(missing, np.nan, real)


def beyond(limit, sign, raw, real, attributes):
    """Where numbers lie below (-1) or above (1) a limit. netCDF User's Guide, attribute conventions: a limit "of the same
    type as scale_factor (actually the wider of scale_factor and add_offset)", if that is wider than the array's, is one of
    unpacked numbers; else of those in the file."""
    def width(dtype):
        return dtype.kind == "f", dtype.itemsize

    types = [np.asarray(attributes[name]).dtype for name in ("scale_factor", "add_offset") if name in attributes]
    own = np.asarray(limit).dtype
    if types and width(own) == max(map(width, types)) > width(raw.dtype):
        return sign * real > sign * float(limit)
    if raw.dtype.kind == "f":
        return sign * raw > sign * raw.dtype.type(limit)
    if raw.dtype.kind == "u" and attributes.get("_Unsigned") and own.kind == "i" and limit < 0:
        limit = int(limit) + 2 ** (8 * raw.dtype.itemsize)
    return sign * raw.astype("f8") > sign * float(limit)


def scale(file, name, values):
    """A netCDF dimension with a coordinate."""
    file[name] = values
    file[name].make_scale(name)


class Packed(support.MrmfTest):
    """mrmf reads what NumPy makes of the attributes: the means of equal neighbours are the numbers themselves."""

    def read_back(self, arrays, *options, ranks=0, **storage):
        with h5py.File(self.path("packed.h5"), "w") as file:
            for name, (raw, attributes) in arrays.items():
                file.create_dataset(name, data=np.repeat(raw, 2, axis=1), **storage)
                file[name].attrs.update(attributes)
        words = [word for name in arrays for word in ("--samples", name)]
        self.mrmf("coarsen", "packed.h5", "--factor", "2", "-o", "coarse", "--overwrite", *words, *options, ranks=ranks)
        with h5py.File(self.path("coarse/packed.h5")) as file:
            return {name: (file[name][()], dict(file[name].attrs)) for name in arrays}

    def arrays(self):
        rng = np.random.default_rng(5)
        made = {}
        for number, kind in enumerate(("i1", "u1", "i2", "u2", "i4", "u4", "i8", "f2", "f4", "f8", ">i2", ">f4") * 6):
            dtype = np.dtype(kind)
            limits = (-50, 50) if dtype.kind == "f" else (max(np.iinfo(dtype).min, -300), min(np.iinfo(dtype).max, 300))
            raw = rng.integers(*limits, (5, 700, 2), endpoint=True).astype(dtype)
            some, own = [dtype.type(x) for x in rng.choice(raw.ravel(), 6)], {}
            if rng.random() < 0.6:
                own["scale_factor"] = rng.choice([0.01, 3.0, -0.5])
            if rng.random() < 0.5:
                own["add_offset"] = [np.float64(273.15), np.float32(-4), np.array([7])][rng.integers(3)]
            if rng.random() < 0.6:
                own["_FillValue"] = some[0]
            if rng.random() < 0.4:
                own["missing_value"] = [some[1], np.array(some[1:4])][rng.integers(2)]
            if rng.random() < 0.3:
                own["valid_range"] = np.sort(np.array(some[4:6]))
            if rng.random() < 0.3:
                own["valid_min" if rng.random() < 0.5 else "valid_max"] = some[5]
            if dtype.kind == "i" and rng.random() < 0.5:
                own["_Unsigned"] = "true"
            if own.get("_Unsigned") and "valid_range" in own:
                own["valid_range"] = np.sort(own["valid_range"].view(dtype.str.replace("i", "u"))).view(dtype)
            made[f"a{number}"] = raw, own
        return made

    def check(self, arrays, got):
        for name, (raw, own) in arrays.items():
            expected = physical(raw, own).astype("f4")
            np.testing.assert_array_equal(got[name][0], expected, err_msg=f"{raw.dtype} {own}")

    def test_every_kind_of_packing(self):
        arrays = self.arrays()
        self.assertTrue(any(np.isnan(physical(*one)).any() for one in arrays.values()))
        self.check(arrays, self.read_back(arrays))
        self.check(arrays, self.read_back(arrays, chunks=(2, 130, 1), compression="gzip"))
        self.check(arrays, self.read_back(arrays, ranks=2))

    def test_limits_of_other_types_than_the_array(self):
        raw = np.arange(-120, 120, 3).reshape(2, 40, 1)
        packed = {"scale_factor": 0.5, "add_offset": np.float32(20)}
        arrays = {f"a{number}": (raw.astype(dtype), own) for number, (dtype, own) in enumerate((
            ("i2", {"valid_range": [9.5, 90.5]}),
            ("i2", {"valid_min": -9.5, "valid_max": np.float32(33.25)}),
            ("i2", {"valid_range": [-np.inf, 50.0]}),
            ("i1", {"valid_range": np.array([-300, 40], "i2")}),
            ("i1", {"_Unsigned": "true", "valid_range": np.array([10, -10], "i1")}),
            ("i2", {**packed, "valid_range": [10.2, 60.7]}),                        # unpacked: of the wider type
            ("i2", {**packed, "valid_range": [5.0, 62.0]}),
            ("i2", {**packed, "scale_factor": -0.5, "valid_range": [10.2, 60.7]}),
            ("i2", {**packed, "valid_range": np.array([10.2, 60.7], "f4")}),        # stored: of the narrower
            ("i2", {**packed, "valid_min": 10.2, "valid_max": np.int16(70)}),
            ("i4", {**packed, "scale_factor": np.float32(0.5), "valid_max": np.float32(60.7)}),
            ("f4", {**packed, "valid_range": [10.2, 60.7]}),
            ("f8", {**packed, "valid_range": [10.2, 60.7]}),
            ("f4", {"valid_max": 1e300})))}
        for name, (stored, own) in arrays.items():
            if own.get("valid_max") != 1e300:
                gone = np.isnan(physical(stored, own))
                self.assertTrue(gone.any() and not gone.all(), own)
        self.check(arrays, self.read_back(arrays))

    def test_a_temperature_with_its_range_in_kelvin(self):
        raw = np.arange(-9400, 5800, 5, dtype="i2").reshape(2, -1, 1)
        own = {"scale_factor": 0.01, "add_offset": 273.15, "valid_range": [180.0, 330.0]}
        got, _ = self.read_back({"t": (raw, own)})["t"]
        kelvin = raw * 0.01 + 273.15
        np.testing.assert_array_equal(np.isnan(got), (raw < -9315) | (raw > 5685))
        np.testing.assert_allclose(got[~np.isnan(got)], kelvin[~np.isnan(got)], rtol=1e-6)

    def test_limits_that_leave_nothing(self):
        for dtype, own, word in (("u1", {"valid_min": 300}, "valid_min"), ("i2", {"valid_max": -1e9}, "valid_max"),
                                 ("i2", {"valid_range": [9.2, 9.8]}, "valid_range"),
                                 ("f4", {"valid_range": [5.0, -5.0]}, "valid_range")):
            with h5py.File(self.path("none.h5"), "w") as file:
                file["x"] = np.ones((4, 8, 1), dtype)
                file["x"].attrs.update(own)
            self.fails(3, "coarsen", "none.h5", "--factor", "2", "--samples", "x", "-o", "none", "--overwrite",
                       message=f"attribute '{word}'")
            self.mrmf("coarsen", "none.h5", "--factor", "2", "--samples", "x", "-o", "none", "--packing", "ignore",
                      "--overwrite")

    def test_missing_halves(self):
        raw = np.array([-10000, -9999, 1, 2.5], "f2").reshape(1, 4, 1)  # -9999 is stored as -10000
        for fill in (np.float32(-9999), -9999.0, np.float32(-10000)):
            got, _ = self.read_back({"h": (raw, {"_FillValue": fill})})["h"]
            np.testing.assert_array_equal(got.ravel(), np.array([np.nan, np.nan, 1, 2.5], "f4"))

    def test_what_is_left_in_a_copy(self):
        raw = np.arange(24, dtype="i2").reshape(2, 12, 1)
        own = {"scale_factor": 0.5, "add_offset": 1.0, "_FillValue": np.int16(3), "units": "K"}
        got, attributes = self.read_back({"t": (raw, own)})["t"]
        self.assertEqual(got.dtype, np.float32)
        self.assertEqual(set(attributes), {"_FillValue", "units"})
        self.assertTrue(np.isnan(attributes["_FillValue"]))
        again = os.path.join("coarse", "packed.h5")
        self.mrmf("coarsen", again, "--factor", "2", "-o", "coarser")
        with h5py.File(self.path("coarser/packed.h5")) as file:
            pairs = physical(raw, own).reshape(2, 6, 2, 1)
            np.testing.assert_array_equal(file["t"][()], np.nanmean(pairs, 2).astype("f4"))

    def test_packing_ignored(self):
        raw = np.arange(24, dtype="i2").reshape(2, 12, 1)
        got = self.read_back({"t": (raw, {"scale_factor": 0.5, "_FillValue": np.int16(3)})}, "--packing", "ignore")
        np.testing.assert_array_equal(got["t"][0], raw)

    def test_numbers_at_the_ends_of_their_types(self):
        arrays = {}
        for kind in ("i1", "u1", "i2", "i4", "u4", "i8", "u8"):
            ends = np.iinfo(kind)
            raw = np.array([ends.min, ends.max, 1, 2] * 6, kind).reshape(2, 12, 1)
            arrays["least" + kind] = raw, {"valid_min": ends.min, "scale_factor": 1e-3}
            arrays["fill" + kind] = raw, {"_FillValue": np.dtype(kind).type(ends.max)}
        arrays["beyond"] = np.array([1, 2, 3, 4] * 6, "i2").reshape(2, 12, 1), {"missing_value": 1e20, "_FillValue": np.int16(4)}
        arrays["wide"] = np.array([0.1, 2, 3, 1e20] * 6, "f4").reshape(2, 12, 1), {"missing_value": 1e20, "valid_min": 0.1}
        arrays["nan"] = np.array([1, np.nan, 3, 4] * 6, "f4").reshape(2, 12, 1), {"_FillValue": np.float32("nan")}
        got = self.read_back(arrays)
        for name in ("leasti8", "leastu8", "fillu8", "filli8"):  # beyond a double's digits
            raw, own = arrays.pop(name)
            expected = physical(raw, own).astype("f4")
            np.testing.assert_array_equal(got[name][0], expected, err_msg=name)
        self.check(arrays, got)

    def test_what_netcdf_fills_unwritten_numbers_with(self):
        """Counts as missing in floats and scaled numbers that netCDF made, not in integers that are plain."""
        with h5py.File(self.path("packed.h5"), "w") as file:
            for name, dtype, fill, own in (("real", "f4", DEFAULT_FILL, {}), ("counts", "i2", -32767, {"scale_factor": 1.0, "add_offset": 5.0}),
                                           ("classes", "i2", -32767, {}), ("foreign", "i2", 0, {"scale_factor": 2.0})):
                data = file.create_dataset(name, (3, 8, 1), dtype, fillvalue=fill, chunks=(1, 8, 1))
                data[:] = 4
                data[1, 2:4] = fill
                data.attrs.update(own)
        names = ("real", "counts", "classes", "foreign")
        self.mrmf("coarsen", "packed.h5", "--factor", "2", "-o", "coarse", *(w for n in names for w in ("--samples", n)))
        with h5py.File(self.path("coarse/packed.h5")) as file:
            self.assertEqual([np.isnan(file[name][1, 1, 0]) for name in names], [True, True, False, False])
            self.assertEqual([file[name][1, 0, 0] for name in names], [4, 9, 4, 8])
            self.assertEqual(file["classes"][1, 1, 0], -32767)

    def test_attributes_that_mean_nothing(self):
        good = np.arange(24, dtype="i2").reshape(2, 12, 1)
        for own, message in (
                ({"scale_factor": "0.01"}, "attribute 'scale_factor' is of type string, no number"),
                ({"scale_factor": 0.0}, "attribute 'scale_factor' is 0"),
                ({"scale_factor": np.nan}, "attribute 'scale_factor' is NaN"),
                ({"add_offset": np.inf}, "attribute 'add_offset' is an infinity"),
                ({"scale_factor": [1.0, 2.0]}, "attribute 'scale_factor' holds 2 numbers, and 1 is wanted"),
                ({"_FillValue": "none"}, "attribute '_FillValue' is of type string"),
                ({"missing_value": np.array([], "i2")}, "attribute 'missing_value' holds 0 numbers"),
                ({"valid_range": [1]}, "attribute 'valid_range' holds 1 numbers, and 2 are wanted"),
                ({"valid_min": np.nan}, "attribute 'valid_min' holds NaN"),
                ({"_Unsigned": 1}, "attribute '_Unsigned' is of type 64-bit integer, no text")):
            with h5py.File(self.path("bad.h5"), "w") as file:
                file["t"] = good
                file["t"].attrs.update(own)
            self.fails(3, "coarsen", "bad.h5", "--factor", "2", "-o", "coarse", message="bad.h5: data set 't': " + message)
            self.assertFalse(os.path.exists(self.path("coarse/bad.h5")))
        self.mrmf("coarsen", "bad.h5", "--factor", "2", "-o", "coarse", "--packing", "ignore")


TEMPERATURES = config("""files = ["a.nc", "b.nc"]
axes = "n y x"
train = { samples = "t2m", labels = "target" }
split = { by = "rows", validation = 0.25, seed = 4 }
not_finite = "fill"
""", "epochs = 2", 1)


class Missing(PeopleTest):
    """Two files of one kind, packed by other numbers: pixels are missing in every row."""

    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        self.y = rng.uniform(0, 1, 48).astype("f4")
        self.values = 273.15 + 20 * self.y[:, None, None] + rng.normal(0, 1, (48, 16, 16))
        self.gone = rng.random((48, 16, 16)) < 0.05
        self.gone[:, :5, :5] = True  # land
        self.real = np.empty((48, 16, 16))
        for name, rows, factor, offset, fill in (("a.nc", slice(0, 30), 0.001, 280.0, -32767), ("b.nc", slice(30, 48), 0.01, 200.0, 9)):
            raw = np.round((self.values[rows] - offset) / factor).astype("i2")
            raw[raw == fill] += 1
            raw[self.gone[rows]] = fill
            own = {"scale_factor": factor, "add_offset": offset, "_FillValue": np.int16(fill)}
            self.real[rows] = physical(raw, own)
            with h5py.File(self.path(name), "w") as file:
                file["t2m"] = raw
                file["t2m"].attrs.update(own)
                file["target"] = self.y[rows]
        np.testing.assert_array_equal(np.isnan(self.real), self.gone)

    def data(self, text=TEMPERATURES, *options):
        self.write("run.toml", text)
        return json.loads(self.mrmf("data", "run.toml", "--json", *options))

    def plain(self, samples):
        """The same configuration on one file of plain numbers, of one or two channels."""
        with h5py.File(self.path("plain.h5"), "w") as file:
            file["t2m"], file["target"] = samples.astype("f4"), self.y
        text = TEMPERATURES.replace('"a.nc", "b.nc"', '"plain.h5"').replace('not_finite = "fill"\n', "")
        return text if samples.ndim == 3 else text.replace("n y x", "n y x c")

    def test_data_says_what_is_there(self):
        found = self.data()
        missing = [found[part]["sample"]["missing"] for part in ("training", "validation")]
        self.assertEqual(sum(missing), self.gone.sum())
        self.assertEqual(found["training"]["sample"]["packing"],
                         ["1 of 2 files: packed int16: value * 0.001 + 280; -32767 is missing", "1 of 2 files: packed int16: value * 0.01 + 200; 9 is missing"])
        rows = 36, 12
        for what, of in (("least", min), ("most", max)):
            both = of(found[part]["sample"]["channels"][what][0] for part in ("training", "validation"))
            self.assertAlmostEqual(both, getattr(np, {"least": "nanmin", "most": "nanmax"}[what])(self.real), 4)
        sums = sum(found[part]["sample"]["channels"]["mean"][0] * (256 * n - m)
                   for part, n, m in zip(("training", "validation"), rows, missing))
        self.assertAlmostEqual(sums / (~self.gone).sum(), np.nanmean(self.real), 3)
        self.assertEqual(len(found["training"]["not_finite"]), 36)
        said = self.mrmf("data", "run.toml")
        self.assertIn("packed int16: value * 0.01 + 200; 9 is missing", said)
        self.assertIn(f"{missing[0]:.0f} numbers missing", said)
        self.assertIn("packed int16: value * 0.001 + 280; -32767 is missing", self.mrmf("inspect", "run.toml"))
        refusing = self.data(TEMPERATURES.replace('"fill"', '"refuse"'))
        self.assertEqual(refusing["training"]["sample"]["missing"], missing[0])
        self.assertIn('"fill"', " ".join(refusing["advice"]))
        stored = self.data(TEMPERATURES + '[data2]\n' if False else TEMPERATURES.replace('axes =', 'packing = "ignore"\naxes ='))
        self.assertEqual(stored["training"]["sample"]["channels"]["least"], [-32767])
        self.assertEqual(stored["training"]["sample"]["missing"], 0)

    def test_a_missing_number_ends_a_run_unless_told_otherwise(self):
        text = TEMPERATURES.replace('"fill"', '"refuse"')
        self.refused(text, 3, "a.nc: data set 't2m', row", "holds NaN", '"fill" keeps the row')
        self.refused(text.replace('"refuse"', '"skip"'), 3, "no sample that is finite")
        self.refused(TEMPERATURES.replace('"fill"', '"refuse"\nmask = true'), 2, 'data.mask goes with data.not_finite = "fill"')

    def test_filled_with_the_mean(self):
        """Training is that on data filled by hand, to the bit: in memory, streamed, and on ranks alike."""
        normal = 'normalise.samples = "mean_std"\nnormalise.sample_mean = 0\nnormalise.sample_std = 2\nsplit ='
        self.train(TEMPERATURES.replace("split =", normal), run__folder="filled")
        self.train(self.plain(np.nan_to_num(self.real)).replace("split =", normal), run__folder="by-hand")
        self.same_models("filled", "by-hand")
        self.train(TEMPERATURES.replace("split =", normal), run__folder="streamed", data__load="stream", data__memory='"1 MB"')
        self.same_models("filled", "streamed")
        measured = TEMPERATURES.replace("split =", 'normalise.samples = "mean_std"\nsplit =')
        self.train(measured, run__folder="one")
        self.train(measured, run__folder="two", ranks=2, training__batch=4)
        means = [json.dumps(line) for run in ("one", "two") for line in self.read(run + "/config.toml").splitlines() if "sample_mean" in line]
        self.assertEqual(means[0], means[1])
        self.assertNotIn("fill =", self.read("one/config.toml").replace('not_finite = "fill"', ""))

    def test_filled_with_the_measured_mean(self):
        self.train(TEMPERATURES, run__folder="measured")
        line = next(line for line in self.read("measured/config.toml").splitlines() if line.startswith("fill = "))
        mean = float(line.split("[")[1].strip("] "))
        found = self.data()
        self.assertEqual(mean, found["training"]["sample"]["channels"]["mean"][0])
        self.train(self.plain(np.where(self.gone, np.float32(mean), self.real)), run__folder="by-hand")
        self.same_models("measured", "by-hand")
        # What the model was trained with goes with it.
        filled = self.predict("measured", "--files", "a.nc")
        by_hand = self.predict("by-hand", "--files", "plain.h5")
        np.testing.assert_array_equal(filled["prediction"], by_hand["prediction"][:30])
        self.fails(2, "evaluate", "by-hand", "--files", "a.nc", "--not-finite", "fill", message="data.fill")
        self.fails(3, "evaluate", "measured", "--files", "a.nc", "--not-finite", "refuse", message="holds NaN")
        self.mrmf("evaluate", "measured", "--files", "a.nc")

    def test_mask(self):
        """A mask is one more channel, which averages to the share that is there."""
        normal = 'normalise.samples = "mean_std"\nnormalise.sample_mean = 0\nnormalise.sample_std = 1\nmask = true\nsplit ='
        text = TEMPERATURES.replace("split =", normal)
        self.train(text, run__folder="masked")
        self.train(self.plain(np.stack([np.nan_to_num(self.real), ~self.gone], -1)), run__folder="by-hand")
        self.same_models("masked", "by-hand")
        self.mrmf("evaluate", "masked", "--files", "a.nc", "b.nc")
        self.train(text, run__folder="streamed", data__load="stream", data__memory='"1 MB"')
        self.same_models("masked", "streamed")
        said = self.mrmf("inspect", "run.toml")
        self.assertIn("sample 16x16x2", said)
        self.train(text, run__folder="grid", ranks=2, run__grid="[2,1]", run__ranks=2)
        np.testing.assert_allclose(self.losses("grid"), self.losses("masked"), rtol=1e-4)
        self.mrmf("export", "masked", "-o", "m.onnx")
        self.mrmf("export", "masked", "-o", "m.safetensors")
        with open(self.path("m.safetensors"), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        network = json.loads(header["__metadata__"]["network"])
        self.assertEqual((network["sample"], network["samples"]["fill"], network["samples"]["mask"]), ([16, 16, 2], [0.0], True))

    def test_averages_count_what_is_there(self):
        """A coarse model is trained on means of what is there: of coarse data made by hand."""
        method = 'name = "mrmf"\nresolutions = [[2,2],[1,1]]\nstop = { coarse = { epochs = 1 }, dense = { epochs = 1 }, finetune = { epochs = 1 } }'
        text = TEMPERATURES.replace('name = "baseline"', method).replace(
            "split =", 'normalise.samples = "mean_std"\nnormalise.sample_mean = 280\nnormalise.sample_std = 5\nmask = true\nsplit =')
        self.train(text, run__folder="load")
        self.train(text, run__folder="epoch", data__averaging="epoch")
        self.train(text, run__folder="stream", data__load="stream", data__memory='"1 MB"')
        self.same_models("load", "epoch")
        self.same_models("load", "stream")
        self.mrmf("coarsen", "a.nc", "b.nc", "--factor", "2,2", "--axes", "n y x", "-o", "coarse")
        blocks = self.real.reshape(48, 8, 2, 8, 2).transpose(0, 1, 3, 2, 4).reshape(48, 8, 8, 4)
        with np.errstate(all="ignore"):
            count = (~np.isnan(blocks)).sum(-1)
            means = np.where(count > 0, np.nansum(blocks, -1) / np.maximum(count, 1), np.nan)
        got = np.concatenate([h5py.File(self.path("coarse/" + name))["t2m"][()] for name in ("a.nc", "b.nc")])
        np.testing.assert_allclose(got, means, rtol=1e-6)
        self.assertTrue(np.isnan(got[:, :2, :2]).all())

    def test_appended_arrays(self):
        """Packed ones are copied as real numbers, whole numbers as they are stored."""
        number = 2**62 + np.arange(48, dtype="i8")
        for name, rows in (("a.nc", slice(0, 30)), ("b.nc", slice(30, 48))):
            with h5py.File(self.path(name), "a") as file:
                file["id"] = number[rows]
                file["id"].attrs["_FillValue"] = np.int64(-1)
        self.train(TEMPERATURES, run__folder="run")
        got = self.predict("run", "--files", "a.nc", "b.nc", "--append", "t2m", "--append", "id")
        np.testing.assert_array_equal(got["t2m"], self.real.astype("f4"))
        np.testing.assert_array_equal(got["id"], number)

    def test_appended_whole_numbers_that_only_some_files_scale(self):
        """What one file scales is not copied as it is stored, whichever of them comes first."""
        self.train(TEMPERATURES, run__folder="run")
        plain, packed = {"_FillValue": np.int16(-1)}, {"scale_factor": 0.1, "_FillValue": np.int16(-1)}
        stored = np.arange(48, dtype="i2") - 1
        for first, second in ((plain, packed), (packed, plain)):
            for name, rows, own in (("a.nc", slice(0, 30), first), ("b.nc", slice(30, 48), second)):
                with h5py.File(self.path(name), "a") as file:
                    file.pop("t", None)
                    file["t"] = stored[rows]
                    file["t"].attrs.update(own)
            got = self.predict("run", "--files", "a.nc", "b.nc", "--append", "t")["t"]
            expected = np.concatenate([physical(stored[:30], first), physical(stored[30:], second)])
            np.testing.assert_array_equal(got, expected.astype("f4"))
        for name in ("a.nc", "b.nc"):
            with h5py.File(self.path(name), "a") as file:
                file["bare"] = stored[:len(file["t2m"])]
                if name == "b.nc":
                    file["bare"].attrs["scale_factor"] = 0.1
        self.fails(3, "predict", "run", "--files", "a.nc", "b.nc", "--append", "bare", "-o", "refused.h5",
                   message="b.nc: data set 'bare' holds float32, and that in a.nc int16")

    def test_appended_unsigned_numbers(self):
        self.train(TEMPERATURES, run__folder="run")
        for name, rows in (("a.nc", 30), ("b.nc", 18)):
            with h5py.File(self.path(name), "a") as file:
                file["u"] = (np.arange(rows) - 9).astype("i1")
                file["u"].attrs.update({"_Unsigned": "true", "_FillValue": np.int8(-1)})
        got = self.predict("run", "--files", "a.nc", "b.nc", "--append", "u")["u"]
        one = [physical((np.arange(rows) - 9).astype("i1"), {"_Unsigned": "true", "_FillValue": np.int8(-1)}) for rows in (30, 18)]
        np.testing.assert_array_equal(got, np.concatenate(one))

    def test_a_row_of_missing_numbers_alone(self):
        """It takes part in no range: 0 is neither the least nor the most of numbers that are far from it."""
        for sign in (1, -1):
            x = sign * np.random.default_rng(1).uniform(270, 300, (40, 16, 16))
            x[3] = np.nan
            with h5py.File(self.path("x.h5"), "w") as file:
                file["t2m"], file["target"] = x.astype("f4"), self.y[:40]
            text = TEMPERATURES.replace('"a.nc", "b.nc"', '"x.h5"').replace("seed = 4", "seed = 5")
            found = self.data(text)
            for what, of in (("least", np.nanmin), ("most", np.nanmax)):
                both = [found[part]["sample"]["channels"][what][0] for part in ("training", "validation")]
                self.assertIn(float(of(x.astype("f4"))), both)
                self.assertTrue(all(270 <= abs(value) <= 300 for value in both), both)

    def test_limits_that_most_numbers_lie_beyond(self):
        for name in ("a.nc", "b.nc"):
            with h5py.File(self.path(name), "a") as file:
                file["t2m"].attrs["valid_max"] = np.int16(-20000)
        advice = " ".join(self.data()["advice"])
        self.assertIn("most training numbers of 't2m' are missing", advice)
        self.assertIn("valid_range", advice)

    def test_a_logarithm_where_a_channel_is_nowhere(self):
        """What is missing has no least number to go down to."""
        with h5py.File(self.path("x.h5"), "w") as file:
            x = np.stack([np.full((40, 16, 16), np.nan), self.values[:40]], -1)
            file["t2m"], file["target"] = x.astype("f4"), self.y[:40]
        text = TEMPERATURES.replace('"a.nc", "b.nc"', '"x.h5"').replace("n y x", "n y x c")
        found = self.data(text.replace("split =", 'normalise.samples = "log1p"\nsplit ='))
        self.assertNotIn("nan", " ".join(found["advice"]).replace("nan_", ""))
        self.assertIn("channel 0 of 't2m' holds nothing but missing numbers", " ".join(found["advice"]))

    def test_augmentation_goes_on(self):
        normal = 'normalise.samples = "mean_std"\nmask = true\naugment.flip = [0, 1]\naugment.turn = [0, 1]\nsplit ='
        self.train(TEMPERATURES.replace("split =", normal))
        self.assertTrue(np.isfinite(self.losses()).all())

    def test_infinity_is_not_missing(self):
        with h5py.File(self.path("inf.h5"), "w") as file:
            x = self.real.astype("f4")
            x[7, 3, 3] = np.inf
            file["t2m"], file["target"] = x, self.y
        text = TEMPERATURES.replace('"a.nc", "b.nc"', '"inf.h5"')
        self.refused(text, 3, "data set 't2m', row 7 holds an infinity, which is not missing as NaN is")
        found = self.data(text)
        self.assertEqual(sum(found[part]["samples"] for part in ("training", "validation")), 47)

    def test_labels_are_not_filled(self):
        with h5py.File(self.path("labels.h5"), "w") as file:
            file["t2m"] = self.real.astype("f4")
            file["target"] = np.where(np.arange(48) == 5, -1, self.y).astype("f4")
            file["target"].attrs["_FillValue"] = np.float32(-1)
        self.refused(TEMPERATURES.replace('"a.nc", "b.nc"', '"labels.h5"'), 3, "data set 'target', row 5 holds NaN")

    def test_a_channel_that_is_nowhere(self):
        with h5py.File(self.path("void.h5"), "w") as file:
            file["t2m"] = np.stack([np.nan_to_num(self.real), np.full(self.real.shape, np.nan)], -1).astype("f4")
            file["target"] = self.y
        text = TEMPERATURES.replace('"a.nc", "b.nc"', '"void.h5"').replace("n y x", "n y x c")
        self.refused(text, 3, "holds no number in channel 1 of any training sample")


class MissingClasses(InitTest):
    """What attributes call missing among classes, or yes and no, is no label: as if training.ignore named it."""

    def setUp(self):
        super().setUp()
        self.rng = np.random.default_rng(0)
        self.kinds = self.rng.integers(0, 3, (40, 16, 16))
        self.field = (self.kinds + self.rng.normal(0, 0.3, self.kinds.shape)).astype("f4")

    def data(self, labels, samples=None, **attributes):
        with h5py.File(self.path("l.h5"), "w") as file:
            file["f"], file["y"] = self.field if samples is None else samples, labels
            file["y"].attrs.update(attributes)

    def masked(self, lacking, dtype, kinds=None):
        labels = (self.kinds if kinds is None else kinds).astype(dtype)
        labels[:, :3, :3] = lacking
        return labels

    def config(self, more="", loss="cross_entropy", ignore="", axes="n y x", layers=None):
        layers = layers or ("conv filters=4 kernel=3 padding=\"same\"", "relu", "conv filters=3 kernel=1")
        self.write("c.toml", f"""
[data]
files = ["l.h5"]
axes = "{axes}"
train = {{ samples = "f", labels = "y" }}
split = {{ by = "rows", validation = 0.25 }}
{more}
[training]
loss = "{loss}"
{ignore}
batch = 4
epochs = 2
[method]
name = "mrmf"
top = "interpolated"
resolutions = [[2, 2], [1, 1]]
[run]
folder = "run"
threads = 1
""" + support.layers(*layers))

    def trained(self, *more):
        self.mrmf("train", "c.toml", "--overwrite", *more)
        shown = [{key: value for key, value in line.items() if "loss" in key or "accuracy" in key or "dice" in key}
                 for line in self.lines("run/epochs.jsonl")]
        text = self.mrmf("evaluate", "run", "--json")
        scores, _ = json.JSONDecoder().raw_decode(text[text.index("{"):])
        return shown, {key: value for key, value in scores.items() if key not in ("seconds", "files", "time")}

    def test_they_are_as_what_is_ignored(self):
        self.data(self.masked(255, "u1"))
        self.config(ignore="ignore = 255")
        plain = self.trained()
        for labels, attributes, rules in ((self.masked(255, "u1"), {"_FillValue": np.uint8(255)}, ["refuse"]),
                                          (self.masked(-1, "i1"), {"_FillValue": np.int8(-1)}, ["skip"]),
                                          (self.masked(-9999, "i4"), {"missing_value": np.int32(-9999)}, ["fill"]),
                                          (self.masked(99, "i2"), {"valid_range": np.array([0, 2], "i2")}, ["refuse"]),
                                          (self.masked(1e20, "f4"), {"_FillValue": np.float32(1e20)}, ["skip"]),
                                          (self.masked(np.nan, "f4"), {"_FillValue": np.float32(np.nan)},
                                           ["refuse", "skip", "fill"])):
            self.data(labels, **attributes)
            for rule in rules:
                self.config(f'not_finite = "{rule}"')
                self.assertEqual(self.trained(), plain, (attributes, rule))
        said = self.mrmf("data", "c.toml")
        self.assertNotIn("rows hold NaN", said)
        one_hot = np.concatenate([np.eye(3)[self.kinds]], -1).astype("i2")
        one_hot[:, :3, :3] = -1
        self.data(one_hot, self.field[..., None], _FillValue=np.int16(-1))
        self.config(axes="n y x c")
        self.assertEqual(self.trained()[0], plain[0])

    def test_nan_that_no_attribute_declares(self):
        self.data(self.masked(np.nan, "f4"))
        self.config()
        self.fails(3, "train", "c.toml", message="l.h5: data set 'y', row ")
        self.config('not_finite = "skip"')
        self.fails(3, "train", "c.toml", message="the labels 'y' of the training rows of l.h5 have no row that is finite: all 30 rows hold NaN or infinity; "
                   "correct them, or name others")
        labels = self.masked(1e20, "f4")
        labels[0, 9, 9] = np.inf
        self.data(labels, _FillValue=np.float32(1e20))
        self.config()
        self.fails(3, "train", "c.toml", message="data set 'y', row 0 holds an infinity")
        field = self.field.copy()
        field[:, 0, 0] = np.nan
        self.data(self.kinds, field)
        self.config('not_finite = "skip"')
        self.fails(3, "train", "c.toml", message="data set 'f' of the training rows of l.h5 has no sample that is finite: all 30 rows hold NaN or infinity; ")

    def test_one_per_row(self):
        kinds = np.arange(40) % 3
        samples = np.repeat(kinds[:, None], 16, 1)[..., None].astype("f4")
        layers = ("conv filters=4 kernel=3", "relu", "flatten", "dense units=3")

        def scores(labels, ignore="", **attributes):
            self.data(labels, samples, **attributes)
            self.config(ignore=ignore, axes="n t c", layers=layers)
            self.write("c.toml", self.read("c.toml").replace("[[2, 2], [1, 1]]", "[[2], [1]]"))
            return self.trained()
        lacking = np.where(np.arange(40) % 7 == 0, -9, kinds).astype("i4")
        plain = scores(lacking, "ignore = -9")
        self.assertEqual(scores(lacking, _FillValue=np.int32(-9)), plain)
        for more in ("data.split.stratify=true", "training.class_weights=balanced", "data.sampling=balanced"):
            self.mrmf("train", "c.toml", "--overwrite", "--set", more)

    def test_yes_or_no(self):
        self.data(self.masked(-1, "i1", self.kinds > 0), self.field)
        layers = ("conv filters=4 kernel=3 padding=\"same\"", "relu", "conv filters=1 kernel=1")
        self.config(loss="binary_cross_entropy", ignore="ignore = -1", layers=layers)
        plain = self.trained()
        self.data(self.masked(-1, "i1", self.kinds > 0), self.field, _FillValue=np.int8(-1))
        self.config(loss="binary_cross_entropy", layers=layers)
        self.assertEqual(self.trained(), plain)

    def test_init(self):
        for labels, attributes in ((self.masked(255, "u1"), {"_FillValue": np.uint8(255)}),
                                   (self.masked(-9999, "i4"), {"_FillValue": np.int32(-9999)}),
                                   (self.masked(-1, "i1"), {"_FillValue": np.int8(-1), "flag_values": np.arange(3, dtype="i1"),
                                                            "flag_meanings": "sea land ice"})):
            self.data(labels, **attributes)
            said = self.mrmf("init", "l.h5", "-o", "i.toml", "--folder", "made", "--overwrite")
            self.assertIn("3 classes, one per position", said)
            self.assertNotIn("ignore", self.read("i.toml"))
            self.assertNotIn("not_finite", self.read("i.toml"))
            self.assertIn("nothing stands in the way", self.mrmf("data", "i.toml").replace("advice: labels", ""))
            self.mrmf("train", "i.toml", "--set", "training.epochs=1", "--overwrite")


class Coordinates(InitTest):
    """Dimensions and coordinates beside the data."""

    def make(self, path, rows=48):
        rng = np.random.default_rng(0)
        y = rng.uniform(0, 1, rows)
        with h5py.File(self.path(path), "w") as file:
            scale(file, "member", np.arange(rows, dtype="i4"))
            scale(file, "lat", np.linspace(-90, 90, 16))
            file.create_dataset("lon", (16,), "f4")  # a dimension without numbers: never written
            file["lon"].make_scale("This is a netCDF dimension but not a netCDF variable.        16")
            field = file.create_dataset("field", data=(y[:, None, None] + rng.normal(0, 1, (rows, 16, 16))).astype("f4"),
                                        fillvalue=DEFAULT_FILL)
            file.create_dataset("viscosity", data=y.astype("f4"), fillvalue=DEFAULT_FILL)
            for axis, name in enumerate(("member", "lat", "lon")):
                field.dims[axis].attach_scale(file[name])
            file["viscosity"].dims[0].attach_scale(file["member"])

    def test_init_leaves_coordinates_out(self):
        self.make("dims.h5")
        self.mrmf("init", "dims.h5", "-o", "dims.toml", "--folder", "run-dims")
        self.assertIn('train = { samples = "field", labels = "viscosity" }', self.read("dims.toml"))
        self.assertIn('loss = "mse"', self.read("dims.toml"))
        self.trains("dims")
        self.mrmf("init", "dims.h5", "--labels", "member", "-o", "named.toml")  # unless they are named

    def test_coarse_copies_have_coarse_coordinates(self):
        self.make("dims.h5")
        for ranks in (0, 2):
            said = self.mrmf("coarsen", "dims.h5", "--factor", "2,4", "--axes", "n y x", "-o", "coarse", "--overwrite", ranks=ranks)
            with h5py.File(self.path("coarse/dims.h5")) as file, h5py.File(self.path("dims.h5")) as fine:
                self.assertEqual(file["field"].shape, (48, 8, 4))
                np.testing.assert_allclose(file["lat"][()], fine["lat"][()].reshape(8, 2).mean(1))
                self.assertEqual(file["lon"].shape, (4,))
                np.testing.assert_array_equal(file["member"][()], fine["member"][()])
                np.testing.assert_array_equal(file["viscosity"][()], fine["viscosity"][()])
            self.assertIn("'lat' numbers an averaged axis: it holds the means of 2 neighbours", said)

    def test_a_coordinate_that_cannot_be_averaged(self):
        self.make("dims.h5")
        with h5py.File(self.path("dims.h5"), "a") as file:
            file["place"] = np.array([b"a", b"b"] * 8)
            file["place"].make_scale("place")
            file["field"].dims[1].attach_scale(file["place"])
        said = self.mrmf("coarsen", "dims.h5", "--factor", "2,2", "--axes", "n y x", "-o", "coarse")
        self.assertIn("'place' numbers averaged axes and cannot be averaged as they are: it is left out", said)
        with h5py.File(self.path("coarse/dims.h5")) as file:
            self.assertNotIn("place", file)

    def make_netcdf(self, path):
        """As the library of netCDF writes it: dimensions have numbers, by which arrays name them, too."""
        rng = np.random.default_rng(1)
        dimensions = ("member", "lat", "lon", "bound")
        mask = np.zeros((6, 16, 16), "u1")
        mask[:, 8:] = 1
        arrays = {"field": (rng.normal(0, 1, (6, 16, 16)).astype("f4"), (0, 1, 2)), "mask": (mask, (0, 1, 2)),
                  "area": (np.arange(256.0).reshape(16, 16), (1, 2)), "lat_bounds": (rng.normal(0, 1, (16, 2)), (1, 3)),
                  "weight": (np.ones((6, 2)), (0, 3))}
        with h5py.File(self.path(path), "w") as file:
            for number, (name, size) in enumerate(zip(dimensions, (6, 16, 16, 2))):
                scale(file, name, np.arange(float(size)))
                file[name].attrs["_Netcdf4Dimid"] = np.int32(number)
            for name, (values, axes) in arrays.items():
                file[name] = values
                file[name].attrs["_Netcdf4Coordinates"] = np.array(axes, "i4")
                for axis, number in enumerate(axes):
                    file[name].dims[axis].attach_scale(file[dimensions[number]])
        return {name: values for name, (values, _) in arrays.items()}

    def tied(self, path):
        """The arrays that name dimensions; each has the lengths of those."""
        with h5py.File(self.path(path)) as file:
            lengths = {int(one.attrs["_Netcdf4Dimid"]): len(one) for one in file.values() if "_Netcdf4Dimid" in one.attrs}
            found = {name for name in file if "_Netcdf4Coordinates" in file[name].attrs}
            for name in found:
                self.assertEqual(tuple(lengths[number] for number in file[name].attrs["_Netcdf4Coordinates"]), file[name].shape)
        return found

    def test_arrays_that_keep_their_positions_keep_no_shorter_dimensions(self):
        arrays = self.make_netcdf("c.nc")
        words = ("--factor", "2,2", "--axes", "n y x", "--overwrite")
        for ranks in (0, 2):
            said = self.mrmf("coarsen", "c.nc", *words, "-o", "coarse", ranks=ranks)
            self.assertIn("netCDF's dimensions of 'area', 'lat_bounds', 'mask' are not those of the source", said)
            self.assertEqual(self.tied("coarse/c.nc"), {"field", "weight"})
            with h5py.File(self.path("coarse/c.nc")) as file:
                for name in ("mask", "area", "lat_bounds", "weight"):
                    np.testing.assert_array_equal(file[name], arrays[name])
        self.mrmf("coarsen", "coarse/c.nc", *words, "-o", "coarser")  # a copy has no lists of scales, but these numbers
        self.assertEqual(self.tied("coarser/c.nc"), {"field", "weight"})
        with h5py.File(self.path("coarser/c.nc")) as file:
            np.testing.assert_allclose(file["lat"], np.arange(16.0).reshape(4, 4).mean(1))

    def test_a_dimension_that_is_left_out_is_nobodys(self):
        self.make_netcdf("c.nc")
        with h5py.File(self.path("c.nc"), "a") as file:  # both axes are of one dimension, and are averaged differently
            field = file["field"]
            field.dims[2].detach_scale(file["lon"])
            field.dims[2].attach_scale(file["lat"])
            field.attrs["_Netcdf4Coordinates"] = np.array([0, 1, 1], "i4")
        said = self.mrmf("coarsen", "c.nc", "--factor", "2,4", "--axes", "n y x", "--samples", "field", "-o", "coarse")
        self.assertIn("netCDF's dimensions of 'area', 'field', 'lat_bounds', 'mask' are not", said)
        self.assertEqual(self.tied("coarse/c.nc"), {"weight"})

    def test_arrays_of_other_files_have_no_dimensions_of_this_one(self):
        self.make_netcdf("other.nc")
        self.make_netcdf("c.nc")
        with h5py.File(self.path("c.nc"), "a") as file:
            file["elsewhere"] = h5py.ExternalLink("other.nc", "weight")
        self.mrmf("coarsen", "c.nc", "--factor", "2,2", "--axes", "n y x", "-o", "coarse")
        self.assertEqual(self.tied("coarse/c.nc"), {"field", "weight"})

    def test_classes_are_not_averaged(self):
        kinds = np.random.default_rng(0).integers(0, 2, (4, 8, 8)).astype("i2") * 7
        told = {"attribute 'flag_values'": {"flag_values": np.array([0, 7], "i2"), "flag_meanings": "sea ice"},
                "attribute 'flag_masks'": {"flag_masks": np.array([1, 2, 4], "i2")}, "enumeration type": {}}
        for number, (what, attributes) in enumerate(told.items()):
            path = f"c{number}.h5"
            with h5py.File(self.path(path), "w") as file:
                file["x"] = np.ones((4, 8, 8), "f4")
                dtype = "i2" if attributes else h5py.enum_dtype({"sea": 0, "ice": 7}, basetype="i2")
                file.create_dataset("kind", data=kinds, dtype=dtype).attrs.update(attributes)
                scale(file, "row", np.arange(8.0))
                scale(file, "region", np.arange(8, dtype="i4"))
                file["region"].attrs["flag_values"] = np.arange(8, dtype="i4")
                for name in ("row", "region"):
                    file["x"].dims[1].attach_scale(file[name])
            words = ("coarsen", path, "--factor", "2,2", "--axes", "n y x", "--overwrite")
            said = self.mrmf(*words, "-o", "coarse")
            self.assertIn(f"'kind' holds classes, as the {what} says: copied, not averaged, unless --samples names it", said)
            self.assertIn("'region' numbers averaged axes and cannot be averaged as they are: it is left out", said)
            with h5py.File(self.path(f"coarse/{path}")) as file:
                np.testing.assert_array_equal(file["kind"], kinds)
                self.assertEqual(file["x"].shape, (4, 4, 4))
                for name in attributes:
                    self.assertIn(name, file["kind"].attrs)
            self.assertNotIn("kind", self.mrmf(*words, "-o", "named", "--samples", "x"))
            said = self.mrmf(*words, "-o", "asked", "--samples", "kind")
            self.assertIn("averaged, because --samples names it", said)
            with h5py.File(self.path(f"asked/{path}")) as file:
                np.testing.assert_allclose(file["kind"], kinds.reshape(4, 4, 2, 4, 2).mean((2, 4)), rtol=1e-6)
                self.assertFalse([name for name in file["kind"].attrs if name.startswith("flag_")])
        with h5py.File(self.path("alone.h5"), "w") as file:
            file["kind"] = kinds
            file["kind"].attrs["flag_values"] = np.array([0, 7], "i2")
        self.fails(2, "coarsen", "alone.h5", "--factor", "2,2", "--axes", "n y x", "-o", "none", message="which may be classes")

    def test_a_variable_with_the_name_of_a_dimension(self):
        y = np.random.default_rng(0).normal(0, 1, 24)
        with h5py.File(self.path("n.nc"), "w") as file:
            for name in ("x", "z"):
                file.create_dataset(name, (24,), "f4", chunks=(24,))  # dimensions without numbers: never written
                file[name].make_scale("This is a netCDF dimension but not a netCDF variable.        24")
            file["_nc4_non_coord_x"], file["y"] = np.repeat(y[:, None], 8, 1).astype("f4"), y
        self.write("c.toml", support.rows_config("dense units=1", files=["n.nc"]))
        holds = "is a dimension of netCDF, which holds no numbers; name "
        self.fails(3, "data", "c.toml", message=f"'x' {holds}the variable of that name, which the file has as '_nc4_non_coord_x'")
        self.fails(3, "data", "c.toml", "--set", "data.train.samples=z", message=f"'z' {holds}a variable")
        self.mrmf("train", "c.toml", "--set", "data.train.samples=_nc4_non_coord_x")

    def test_init_on_packed_files(self):
        rng = np.random.default_rng(0)
        y = rng.uniform(0, 1, 48)
        raw = np.round(1000 * (10 * y[:, None, None] + rng.normal(0, 1, (48, 16, 16)))).astype("i2")
        gone = rng.random(raw.shape) < 0.05
        raw[gone] = -32767
        with h5py.File(self.path("packed.nc"), "w") as file:
            file["t2m"], file["target"] = raw, y.astype("f4")
            file["kind"] = (y > 0.5).astype("i2")
            file["kind"].attrs["_FillValue"] = np.int16(-1)
            file["t2m"].attrs.update(scale_factor=0.001, add_offset=280.0, _FillValue=np.int16(-32767))
        said = self.mrmf("init", "packed.nc", "-o", "packed.toml", "--folder", "run-packed", "--labels", "target")
        self.assertIn("'t2m' is packed int16: value * 0.001 + 280; -32767 is missing", said)
        self.assertIn(f"{gone.sum()} of {gone.size} numbers missing, in 48 of 48 rows", said)
        self.assertIn('not_finite = "fill"', self.read("packed.toml"))
        self.trains("packed")
        said = self.mrmf("init", "packed.nc", "-o", "kind.toml", "--labels", "kind")
        self.assertIn("2 classes, one per sample", said)
        self.mrmf("init", "packed.nc", "-o", "raw.toml", "--folder", "run-raw", "--labels", "target", "--packing", "ignore")
        self.assertIn('packing = "ignore"', self.read("raw.toml"))
        self.trains("raw")


if __name__ == "__main__":
    support.main()
