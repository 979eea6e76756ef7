"""Files as people have them, trained from a configuration alone: any type, any order of axes, unscaled, unsplit, with
rows that are not finite."""
import base64
import json
import os
import re
import zlib

import h5py
import numpy as np

import support
from people_files import IMAGES, SERIES, VOLUMES, PeopleTest, config, make_images, make_series, make_volumes

# Written by h5py with HDF5 2.0, libver = "latest": x and y, and z, whose compressed chunks HDF5 1.10 cannot read.
NEWER = zlib.decompress(base64.b85decode(
    "c-rmNPiWIn90%~<FUd-pv|Dw>O&RP7A_YatoPWSU(^0w}WDb$JgGh)&26~7fQgyI;n;z7Yx|8!VJn6t8?zAF12+D9EDmX^XK_&<~"
    "1lei&O?|1gih3C;^hZCuz90F$zW!c9F6J`XsIkdVb)ACvEaP4H>pUs*&zi>e9LQx3DwJ2&S6>)}p%4>=B7}kS_hgxzpNlHr&Cgy}"
    "<pl})<G4kex0Sbm1-O$)QJI5{2P4<aYx8QHc%5h`tvnOdqEpKVzBOR?s;M^<X$onq=&Y&6Oi*=&{<T<rJHL=k=Q8+*h9+~b<aS$M"
    "OyA9>Gu=cpHSMtESde2;jvuENC)T#JW`tN__Rqe2h2QChZ=K#4+zumuzq9nPvD{gXS30{(Ztv2GY_i;0u54I7CLL8PbjVz1RqnXV"
    "?X1d;{UkT#98OeDB94>bA5Y?!oi=nlohm<(Yl~pvN&4?%pg1*1^{7WZ)-nny|IL686kr^RPy$L5#Xvw3Ea(FpTqwXOT!kAj4!2<v"
    "9zYQu!Bcn%C0K$FumXgalm<FPAO>-0g*Fhd1ro3wlF$izp$jbVUvxRx4}EY52H*(TFbG3%5?nY9c^K}_A3bK%h0uBNnljb`&6<T3"
    "ilxX2^@Kt!`pHqn8S+T<lBe`g^ITZ>D~8-bdx^ZT)uoQM(6S*GX?CAqd6PWT8dgW!Y1tI3G@EMU$1_dyevR!qw#`nXc*72h4eW%)"
    "HFg?AKRZ$Jobf}u*)hfaQwmL#LhP5gC~?_o5}z1bXk<?pm)X-qFMAO&$DSf~uxE%nDB1en;NP9)7w3|+Zv"))


class Newcomers(PeopleTest):
    def test_images_of_bytes_without_channels(self):
        make_images(self.path("images.h5"))
        self.train(IMAGES)
        text = self.mrmf("evaluate", "run")
        self.assertIn("24 samples of image", text)
        self.assertGreater(float(re.search(r"accuracy (\S+) of", text)[1]), 0.9)
        made = self.predict()
        self.assertEqual(len(made["row"]), 24)
        self.assertEqual(made["row"].tolist(), sorted(set(made["row"])))
        train = self.predict("run", "--split", "train")["row"]
        self.assertEqual(sorted([*train, *made["row"]]), list(range(96)))
        with h5py.File(self.path("images.h5")) as file:
            right = file["kind"][()][made["row"]] == made["class"]
        self.assertGreater(right.mean(), 0.9)

    def test_volumes_with_channels_first_and_large_numbers(self):
        make_volumes(self.path("volumes.h5"))
        self.train(VOLUMES)
        made = self.predict()
        with h5py.File(self.path("volumes.h5")) as file:
            held = np.nonzero(file["held_out"][()])[0]
            energy, field = file["energy"][()], file["field"][()]
        self.assertEqual(made["row"].tolist(), held.tolist())
        error = made["prediction"][:, 0] - energy[held]
        self.assertLess(np.sqrt((error**2).mean()), 0.5 * energy.std())  # in the file's own units
        kept = self.read("run/config.toml")
        mean = float(re.search(r"label_mean = \[(\S+)\]", kept)[1])
        rest = np.setdiff1d(np.arange(80), held)
        self.assertAlmostEqual(mean, energy[rest].mean(), delta=1e-6 * mean)
        logs = np.log1p(field[rest].astype("float32").astype("float64"))
        means = [float(m) for m in re.search(r"sample_mean = \[(.*)\]", kept)[1].split(",")]
        deviations = [float(m) for m in re.search(r"sample_std = \[(.*)\]", kept)[1].split(",")]
        np.testing.assert_allclose(means, logs.mean(axis=(0, 2, 3, 4)), rtol=1e-6)
        np.testing.assert_allclose(deviations, logs.std(axis=(0, 2, 3, 4)), rtol=1e-6)
        text = self.mrmf("evaluate", "run")
        mse = float(re.search(r"mean +(\S+)", text)[1])
        self.assertAlmostEqual(mse, (error**2).mean(), delta=1e-3 * mse)

    def test_series_in_many_files_with_rows_that_are_not_finite(self):
        make_series(self.path("series"))
        text = self.train(SERIES)
        listed = re.findall(r"left out of (\S+): (.*)", text)
        self.assertEqual(sorted(listed), [("series/01.h5", "2, 3"), ("series/04.h5", "2, 3"), ("series/07.h5", "0")])
        kept = self.read("run/config.toml")
        files = [sorted(re.findall(r"series/\d\d\.h5", line)) for line in kept.splitlines() if "files = [" in line]
        self.assertEqual([len(part) for part in files], [9, 3])
        self.assertEqual(len(set(files[0] + files[1])), 12)
        made = self.predict("run", "--files", "series/*.h5")
        self.assertEqual(len(made["prediction"]), 68)  # a label that is not finite does not matter here
        self.assertEqual(made["files"][0].decode().split("\n"), [f"series/{i:02}.h5" for i in range(12)])
        places = {(f, r) for f, r in zip(made["file"].tolist(), made["row"].tolist())}
        self.assertEqual({(f, r) for f in range(12) for r in range(6)} - places, {(1, 2), (1, 3), (4, 2), (4, 3)})

    def test_ranks_and_streams_see_the_same(self):
        make_volumes(self.path("volumes.h5"))
        one = VOLUMES.replace("epochs = 30", "epochs = 2")
        self.train(one, run__folder="one", data__shards=2, run__deterministic="true")
        self.train(one, run__folder="two", data__shards=2, run__deterministic="true", training__batch=4, ranks=2)
        self.train(one, run__folder="stream", data__shards=2, run__deterministic="true", data__load="stream")
        self.assertEqual(self.losses("one"), self.losses("two"))
        self.assertEqual(self.losses("one"), self.losses("stream"))

    def test_only_runs_look_for_rows_that_are_not_finite(self):
        make_series(self.path("series"))
        with h5py.File(self.path("series/05.h5"), "r+") as file:
            shape = file["x"].shape
            del file["x"]
            file.create_dataset("x", shape, "float32", chunks=(1,) + shape[1:], compression="gzip")
            for row in range(shape[0]):
                file["x"].id.write_direct_chunk((row, 0, 0), b"not what gzip writes")
        self.write("run.toml", SERIES)
        for command in ("plan", "inspect"):
            self.assertIn("32x3", self.mrmf(command, "run.toml"))
        self.assertIn("05.h5", self.mrmf("train", "run.toml", code=3))

    def test_all_of_it_at_a_lower_resolution(self):
        make_volumes(self.path("volumes.h5"))
        text = VOLUMES.replace("epochs = 30", "epochs = 2").replace(
            'name = "baseline"', 'name = "mrmf"\ntop = "interpolated"\nresolutions = [[2, 2, 2], [1, 1, 1]]')
        self.train(text)
        self.train(text, run__folder="epoch", data__averaging="epoch")
        self.assertEqual(self.losses("run"), self.losses("epoch"))

    def test_channels_first_is_channels_last_stored_anew(self):
        make_volumes(self.path("volumes.h5"))
        with h5py.File(self.path("volumes.h5"), "r+") as file:
            file["last"] = np.moveaxis(file["field"][()], 1, -1).astype("float64")
        short = VOLUMES.replace("epochs = 30", "epochs = 2")
        self.train(short)
        self.train(short.replace('"field"', '"last"').replace('axes = "n c z y x"\n', ""), run__folder="last")
        self.assertEqual(self.losses("run"), self.losses("last"))

    def test_samples_in_several_data_sets(self):
        make_volumes(self.path("volumes.h5"))
        with h5py.File(self.path("volumes.h5"), "r+") as file:
            file["a"], file["b"] = file["field"][:, 0].astype("float32"), file["field"][:, 1]
        short = VOLUMES.replace("epochs = 30", "epochs = 2")
        self.train(short)
        parts = short.replace('samples = "field"', 'samples = ["a", "b"]').replace('"n c z y x"', '"n z y x"')
        self.train(parts, run__folder="parts")
        self.train(parts, run__folder="stream", data__load="stream")
        np.testing.assert_allclose(self.losses("run"), self.losses("parts"), rtol=1e-6)
        self.assertEqual(self.losses("parts"), self.losses("stream"))
        self.assertEqual(self.predict("parts")["prediction"].tolist(), self.predict("run")["prediction"].tolist())
        self.write("parts.toml", parts)
        found = json.loads(self.mrmf("data", "parts.toml", "--json"))["training"]
        self.assertEqual([found["sample"]["name"], found["sample"]["types"]], ["a, b", ["float32", "float64"]])
        self.assertEqual(found["bytes"], found["samples"] * 8 ** 3 * (4 + 8))
        with h5py.File(self.path("volumes.h5"), "r+") as file:
            file["small"] = file["field"][:, 0, :4]
        self.refused(parts.replace('"b"', '"small"').replace('folder = "run"', 'folder = "none"'), 3, "only their channels may differ")
        self.refused(parts.replace('"b"', '"none"').replace('folder = "run"', 'folder = "none"'), 3, "no data set 'none'")

    def test_labels_with_channels_first(self):
        rng = np.random.default_rng(5)
        with h5py.File(self.path("fields.h5"), "w") as file:
            x = rng.normal(0, 1, (24, 2, 8, 6)).astype("float32")
            file["x"], file["y"] = x, np.stack([x[:, 0] + x[:, 1], x[:, 0], x[:, 1]], axis=1)
            file["x last"], file["y last"] = np.moveaxis(file["x"][()], 1, -1), np.moveaxis(file["y"][()], 1, -1)
        text = config('files = ["fields.h5"]\naxes = "n c y x"\ntrain = { samples = "x", labels = "y" }\n'
                      'split.by = "rows"', "epochs = 2", 3)
        text = text[:text.index("[[model.layers]]")] + '[[model.layers]]\ntype = "conv"\nfilters = 3\nkernel = 1\n'
        self.train(text)
        last = text.replace('axes = "n c y x"\n', "").replace('"x"', '"x last"').replace('"y"', '"y last"')
        self.train(last, run__folder="last")
        self.assertEqual(self.losses("run"), self.losses("last"))

    def test_types(self):
        rng = np.random.default_rng(6)
        whole = rng.integers(0, 2, (16, 8, 1))
        types = ["?", "i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8", "<f2",
                 ">f2", "<f4", ">f4", "<f8", ">f8"]
        with h5py.File(self.path("types.h5"), "w") as file:
            for i, kind in enumerate(types):
                file[f"x{i}"] = whole.astype(kind)
            file["y"] = rng.normal(0, 1, (16, 2)).astype("float32")
        text = config('files = ["types.h5"]\ntrain = { samples = "x0", labels = "y" }\nsplit.by = "rows"', "epochs = 1", 2)
        losses = set()
        for i, kind in enumerate(types):
            self.train(text.replace("x0", f"x{i}"), run__folder=f"run{i}")
            losses.add(self.losses(f"run{i}")[0])
        self.assertEqual(len(losses), 1)

    def test_bad_files_and_splits(self):
        make_images(self.path("images.h5"))
        refuse = self.refused
        refuse(IMAGES.replace("images.h5", "image/*.h5"), 2, "no file matches image/*.h5")
        refuse(IMAGES.replace('by = "rows"', 'by = "files"'), 2, "at least two files")
        refuse(IMAGES.replace('by = "rows"', 'by = "column"'), 2, "data.split.column")
        refuse(IMAGES.replace('by = "rows"', 'by = "column", column = "kinds"'), 3, "'kinds'", "'kind'")
        refuse(IMAGES.replace('by = "rows"', 'by = "column", column = "image"'), 3, "one number for each of 96 samples")
        refuse(IMAGES.replace('split = {', 'validation = { samples = "other" }\nsplit = {'), 2, "data.validation.samples")
        with h5py.File(self.path("images.h5"), "r+") as file:
            file["zeros"], file["ones"], file["gaps"] = np.zeros(96), np.ones(96), np.where(np.arange(96) == 5, np.nan, 1)
        refuse(IMAGES.replace('by = "rows"', 'by = "column", column = "zeros"'), 3, "no row for validation")
        refuse(IMAGES.replace('by = "rows"', 'by = "column", column = "ones"'), 3, "no row for training")
        refuse(IMAGES.replace('by = "rows"', 'by = "column", column = "gaps"'), 3, "'gaps', row 5 holds NaN")
        for axes, why in (("x y n", "first axis"), ("n y y", "twice"), ("n a b d e", "one to three"), ("n", "one to three")):
            refuse(IMAGES.replace("n y x", axes), 2, "data.axes", why)
        refuse(IMAGES.replace("n y x", "n c y x"), 3, "has 3 axes, and data.axes names 4")
        refuse(IMAGES.replace("[data]", '[data]\nlayout = "reinterpret"'), 2, "data.layout")

    def test_bad_numbers(self):
        make_images(self.path("images.h5"))
        refuse = self.refused
        with h5py.File(self.path("images.h5"), "r+") as file:
            file["flat"] = np.full((96, 16, 16), 7, "uint8")
            file["words"] = np.array(["a"] * 96, dtype=h5py.string_dtype())
            file["pairs"] = np.zeros((96, 16, 16), dtype=[("a", "f4"), ("b", "i4")])
            file["low"] = np.full((96, 16, 16), -3.5, "float32")
            file["nan"] = np.full((96, 16, 16), np.nan, "float32")
            file["short"] = np.zeros(95, "int64")
        refuse(IMAGES.replace('"image"', '"flat"'), 3, "'flat' is 7 in channel 0", "nothing to divide by")
        refuse(IMAGES.replace('"image"', '"words"'), 3, "string")
        refuse(IMAGES.replace('"image"', '"pairs"'), 3, "compound")
        refuse(IMAGES.replace('"kind"', '"short"'), 3, "95 rows for 96 samples")
        refuse(IMAGES.replace('"image"', '"low"').replace("mean_std", "log1p"), 3, "holds -3.5", "above -1")
        refuse(IMAGES.replace('"image"', '"nan"').replace("split =", 'not_finite = "skip"\nsplit ='), 3,
               "no sample that is finite")
        refuse(IMAGES.replace('"image"', '"nan"'), 3, "row 0 holds NaN", "not_finite")
        refuse(IMAGES.replace('"mean_std"', '"mean_std"\nnormalise.sample_mean = 3'), 2, "give both")
        refuse(IMAGES.replace('"mean_std"', '"none"\nnormalise.sample_mean = 3\nnormalise.sample_std = 1'), 2,
               'go with data.normalise.samples = "mean_std"')
        refuse(IMAGES.replace('normalise.samples = "mean_std"', 'normalise = { samples = "mean_std", sample_mean = [3, 4], '
                              'sample_std = [1, 1] }'), 2, "2 means")
        refuse(IMAGES.replace('normalise.samples = "mean_std"', 'normalise.labels = "mean_std"'), 2, "of classes")

    def test_numbers_without_logarithm_are_found_in_every_split_and_file(self):
        make_volumes(self.path("volumes.h5"))
        self.train(VOLUMES.replace("run\"", "good\""), training__epochs=1)
        for name, which, value in (("low", "field", -2), ("edge", "field", -1), ("low_label", "energy", -3)):
            os.rename(self.path("volumes.h5"), self.path("whole.h5"))
            with h5py.File(self.path("whole.h5")) as whole, h5py.File(self.path("volumes.h5"), "w") as file:
                for key in whole:
                    values = whole[key][()]
                    if key == which:
                        values[7] = value
                    file[key] = values
            text = VOLUMES.replace('labels = "mean_std"', 'labels = "log1p_mean_std"')
            where = f"volumes.h5: data set '{which}', row 7 holds a number that is not above -1"
            self.refused(text, 3, where)  # a row for validation
            self.write("run.toml", text)
            found = self.mrmf("data", "run.toml")
            kind = "labels" if which == "energy" else "samples"
            self.assertIn(f"validation {kind} '{which}' go down to {value}, and data.normalise.{kind}", found)
            self.assertNotIn("training samples 'field' go down", found)
            if which == "field":
                for command in (["predict", "-o", "out.h5"], ["evaluate"]):
                    self.fails(3, *command, "good", message=where)
                self.fails(3, "predict", "good", "-o", "out.h5", ranks=2, message=where)
                self.assertFalse(os.path.exists(self.path("out.h5")))
            os.replace(self.path("whole.h5"), self.path("volumes.h5"))

    def test_files_of_hdf5_2(self):
        with open(self.path("newer.h5"), "wb") as file:
            file.write(NEWER)
        text = config('files = ["newer.h5"]\ntrain = { samples = "x", labels = "y" }\nsplit.by = "rows"', "epochs = 1", 1)
        text = text.replace("batch = 8", "batch = 4")
        self.train(text)
        self.refused(text.replace('"x"', '"z"').replace('folder = "run"', 'folder = "none"'), 3, "h5repack --low=0", "HDF5 than 1.10")

    def test_augmentation_depends_on_seed_epoch_and_sample_alone(self):
        rng = np.random.default_rng(7)
        with h5py.File(self.path("fields.h5"), "w") as file:
            file["x"] = rng.normal(0, 1, (40, 8, 8, 2)).astype("float32")
            file["mask"] = (file["x"][()].sum(axis=-1) > 0).astype("uint8")
        text = config('files = ["fields.h5"]\ntrain = { samples = "x", labels = "mask" }\nsplit.by = "rows"\n'
                      "augment = { flip = [0, 1], turn = [0, 1], shift = [3, 3] }", 'epochs = 3\nloss = "cross_entropy"', 2)
        text = text[:text.index("[[model.layers]]")] + '[[model.layers]]\ntype = "conv"\nfilters = 2\nkernel = 1\n'
        same = {"data__shards": 2, "run__deterministic": "true"}
        self.train(text, run__folder="one", **same)
        self.train(text, run__folder="two", ranks=2, training__batch=4, **same)
        self.train(text, run__folder="stream", data__load="stream", **same)
        self.train(text, run__folder="plain", data__augment="{}", **same)
        self.assertEqual(self.losses("one"), self.losses("two"))
        self.assertEqual(self.losses("one"), self.losses("stream"))
        # A kernel of one position sees the same pairs in another order: a network without positions cannot tell.
        np.testing.assert_allclose(self.losses("one"), self.losses("plain"), rtol=1e-5)
        for key, value, why in (("flip", "[2]", "there is no axis 2"), ("turn", "[1, 1]", "named twice"), ("shift", "[1]", "1 entries")):
            self.refused(text.replace('folder = "run"', 'folder = "none"').replace(
                "shift = [3, 3]", "").replace(", turn = [0, 1], ", "").replace("flip = [0, 1]", f"{key} = {value}"), 2, why)

    def test_augmentation_in_parts_of_a_batch(self):
        rng = np.random.default_rng(7)
        with h5py.File(self.path("fields.h5"), "w") as file:
            file["x"], file["y"] = rng.normal(0, 1, (40, 8, 8, 1)).astype("float32"), rng.normal(0, 1, 40).astype("float32")
        text = config('files = ["fields.h5"]\ntrain = { samples = "x", labels = "y" }\nsplit.by = "rows"\n'
                      "augment = { flip = [0, 1], shift = [3, 3] }", "epochs = 3\noptimizer.learning_rate = 1e-30", 1)
        for parts in (1, 2):
            self.train(text, run__folder=f"parts{parts}", training__accumulate=parts)
            with open(self.path(f"parts{parts}/epochs.jsonl")) as file:
                losses = sorted(json.loads(line)["train_loss"] for line in file)
            # Nothing is learnt, so only the samples can differ from epoch to epoch, by more than sums are rounded.
            for one, next_one in zip(losses, losses[1:]):
                self.assertGreater(next_one - one, 1e-4 * one)

    def test_given_units(self):
        make_images(self.path("images.h5"))
        given = IMAGES.replace('normalise.samples = "mean_std"',
                               'normalise = { samples = "mean_std", sample_mean = 0, sample_std = 255 }')
        self.train(given.replace("epochs = 6", "epochs = 1"))
        with h5py.File(self.path("images.h5"), "r+") as file:
            file["scaled"] = (file["image"][()] * np.float32(1 / 255)).astype("float32")
        self.train(IMAGES.replace('normalise.samples = "mean_std"\n', "").replace('"image"', '"scaled"')
                   .replace("epochs = 6", "epochs = 1"), run__folder="scaled")
        self.assertEqual(self.losses("run"), self.losses("scaled"))


if __name__ == "__main__":
    support.main()
