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

NETWORK = """
[[model.layers]]
type = "conv"
filters = 4
kernel = 3
[[model.layers]]
type = "max_pool"
window = 2
[[model.layers]]
type = "relu"
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "dense"
units = %d
"""


def config(data, training, units, method='name = "baseline"'):
    return (f"[data]\n{data}\n[training]\nbatch = 8\nseed = 2\n{training}\n[method]\n{method}\n"
            f'[run]\nfolder = "run"\nthreads = 1\n' + NETWORK % units)


IMAGES = config("""files = ["images.h5"]
axes = "n y x"
train = { samples = "image", labels = "kind" }
split = { by = "rows", validation = 0.25, seed = 4 }
normalise.samples = "mean_std"
""", 'epochs = 6\nloss = "cross_entropy"\noptimizer.learning_rate = 1e-2', 3)

VOLUMES = config("""files = ["volumes.h5"]
axes = "n c z y x"
train = { samples = "field", labels = "energy" }
split = { by = "column", column = "held_out" }
normalise.samples = "log1p_mean_std"
normalise.labels = "mean_std"
""", 'epochs = 30\noptimizer.learning_rate = 1e-2', 1)

SERIES = config("""files = ["series/*.h5"]
train = { samples = "x", labels = "y" }
split = { by = "files", validation = 0.25 }
not_finite = "skip"
""", "epochs = 2", 2)


def make_images(path):
    """Bright, dark and half images: (n, 16, 16), uint8, big numbers; classes as int64."""
    rng = np.random.default_rng(1)
    kinds = rng.integers(0, 3, 96)
    images = rng.integers(0, 60, (96, 16, 16))
    images[kinds == 1] += 180
    images[kinds == 2, :, 8:] += 180
    with h5py.File(path, "w") as file:
        file["image"] = images.astype("uint8")
        file["kind"] = kinds.astype("int64")
        file["image"].attrs["taken by"] = "a camera"
        file["gain"] = 3.0  # neither a scalar nor a text is in the way
        file["note"] = "from the microscope"


def make_volumes(path):
    """(n, 2, 8, 8, 8), float64, big-endian, channels of very different size; the energy is near 1e6."""
    rng = np.random.default_rng(2)
    level = rng.uniform(0, 2, 80)
    field = np.stack([np.exp(rng.normal(0, 0.2, (80, 8, 8, 8)) + level[:, None, None, None]),
                      1e5 * np.exp(rng.normal(0, 0.2, (80, 8, 8, 8)))], axis=1)
    with h5py.File(path, "w") as file:
        file.create_dataset("field", data=field.astype(">f8"), chunks=(1, 1, 8, 8, 8), compression="gzip")
        file["energy"] = 1e6 + 1e5 * level
        file["held_out"] = np.arange(80) % 4 == 3


def make_series(folder):
    """Twelve files of six series each; four rows are not finite, one of them in its label."""
    rng = np.random.default_rng(3)
    os.makedirs(folder)
    for i in range(12):
        x, y = rng.normal(0, 1, (6, 32, 3)).astype("float32"), rng.normal(0, 1, (6, 2)).astype("float32")
        if i in (1, 4):
            x[2, 5, 1] = np.nan
            x[3, 0, 0] = np.inf
        if i == 7:
            y[0, 1] = np.nan
        with h5py.File(os.path.join(folder, f"{i:02}.h5"), "w") as file:
            file["x"], file["y"] = x, y


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


class Newcomers(support.MrmfTest):
    def train(self, text, name="run.toml", status=0, ranks=0, **more):
        self.write(name, text)
        words = ["train", name]
        for key, value in more.items():
            words += ["--set", f"{key.replace('__', '.')}={value}"]
        return self.mrmf(*words, code=status, ranks=ranks)

    def losses(self, run="run"):
        with open(self.path(f"{run}/epochs.jsonl")) as file:
            records = [json.loads(line) for line in file]
        return [r["validation_loss"] for r in records if "validation_loss" in r]

    def predict(self, run="run", *words):
        self.mrmf("predict", run, "-o", "out.h5", "--overwrite", *words)
        with h5py.File(self.path("out.h5")) as file:
            return {name: file[name][()] for name in file}

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

    def refused(self, text, status, *parts):
        message = self.train(text, status=status)
        for part in parts:
            self.assertIn(part, message)
        folder = re.search(r'folder = "(.*)"', text)[1]
        self.assertFalse(os.path.exists(self.path(folder)), "a refused run leaves a folder behind")

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

    def init(self, *files, name="made.toml"):
        text = self.mrmf("init", *files, "-o", name, "--folder", "run")
        return text, self.read(name)

    def test_init_writes_a_configuration_that_trains_at_once(self):
        make_images(self.path("images.h5"))
        said, text = self.init("images.h5")
        self.assertIn('axes = "n y x"', text)
        self.assertIn("outputs = 3", text)
        self.assertIn('loss = "cross_entropy"', text)
        self.assertIn("3 classes", said)
        self.mrmf("train", "made.toml", "--set", "training.epochs=2")
        self.assertGreater(float(re.search(r"accuracy (\S+) of", self.mrmf("evaluate", "run"))[1]), 0.5)
        self.fails(2, "init", "images.h5", "-o", "made.toml", message="made.toml")  # it is there

    def test_init_of_volumes_and_series(self):
        make_volumes(self.path("volumes.h5"))
        make_series(self.path("series"))
        _, text = self.init("volumes.h5", name="volumes.toml")
        self.assertIn('axes = "n c z y x"', text)
        self.assertIn('samples = "field", labels = "energy"', text)
        self.assertIn('normalise.labels = "mean_std"', text)
        self.mrmf("train", "volumes.toml", "--set", "training.epochs=1")
        _, text = self.init("series/*.h5", name="series.toml")
        self.assertIn('not_finite = "skip"  # 5 rows', text)
        self.mrmf("train", "series.toml", "--set", "training.epochs=1", "--set", "run.folder=run-series")

    def test_init_of_masks_given_parts_and_flat_features(self):
        rng = np.random.default_rng(8)
        with h5py.File(self.path("masks.h5"), "w") as file:
            file["x_train"], file["x_val"] = (rng.normal(0, 1, (n, 16, 12, 1)).astype("f4") for n in (24, 8))
            file["mask_train"], file["mask_val"] = (file[f"x_{part}"][..., 0] > 0.3 for part in ("train", "val"))
        _, text = self.init("masks.h5", name="masks.toml")
        self.assertIn('validation = { samples = "x_val", labels = "mask_val" }', text)
        self.assertIn('preset = "unet"', text)
        self.mrmf("train", "masks.toml", "--set", "training.epochs=1")
        with h5py.File(self.path("flat.h5"), "w") as file:
            file["features"], file["target"] = rng.normal(0, 1, (40, 5)), rng.normal(3e5, 1e4, 40)
        _, text = self.init("flat.h5", name="flat.toml")
        self.assertNotIn("axes", text)
        self.mrmf("train", "flat.toml", "--set", "training.epochs=1", "--set", "run.folder=flat")

    def test_init_of_files_that_say_nothing(self):
        with h5py.File(self.path("one.h5"), "w") as file:
            file["only"] = np.zeros((4, 8, 8), "f4")
        self.fails(3, "init", "one.h5", message="name them with --samples and --labels")
        self.fails(3, "init", "none/*.h5", message="no file matches none/*.h5")
        self.fails(3, "init", "one.h5", "--samples", "other", message="there is no array 'other'")
        self.write("text.h5", "no HDF5")
        self.fails(3, "init", "text.h5", message="text.h5")
        self.assertFalse(os.path.exists(self.path("run.toml")))

    def test_data_says_what_is_there_and_what_to_do(self):
        make_volumes(self.path("volumes.h5"))
        self.write("plain.toml", VOLUMES.replace('normalise.samples = "log1p_mean_std"\n', "").replace(
            'normalise.labels = "mean_std"\n', ""))
        text = self.mrmf("data", "plain.toml")
        self.assertIn("training: 60 samples in 1 file", text)
        self.assertIn("float64, compressed (1 row a chunk), each 8x8x8x2", text)
        for advice in ('data.normalise.samples = "mean_std"', 'data.normalise.labels = "mean_std"', "h5repack -l CONTI"):
            self.assertRegex(text, "advice: .*" + re.escape(advice))
        found = json.loads(self.mrmf("data", "plain.toml", "--json", ranks=2).strip().splitlines()[-1])
        with h5py.File(self.path("volumes.h5")) as file:
            train = file["field"][()][file["held_out"][()] == 0].astype("float32").astype("float64")
        channels = found["training"]["sample"]["channels"]
        np.testing.assert_allclose(channels["mean"], train.mean(axis=(0, 2, 3, 4)), rtol=1e-9)
        np.testing.assert_allclose(channels["most"], train.max(axis=(0, 2, 3, 4)), rtol=1e-9)
        make_images(self.path("images.h5"))
        self.write("images.toml", IMAGES)
        with h5py.File(self.path("images.h5")) as file:
            kinds = np.bincount(file["kind"][()])
        found = json.loads(self.mrmf("data", "images.toml", "--json"))
        counts = [found[part]["class_counts"] for part in ("training", "validation")]
        self.assertEqual(np.sum(counts, axis=0).tolist(), kinds.tolist())
        make_series(self.path("series"))
        self.write("series.toml", SERIES.replace('not_finite = "skip"\n', ""))
        text = self.mrmf("data", "series.toml")
        self.assertIn('data.not_finite = "skip"', text)
        self.assertIn("series/04.h5: 2, 3", text)
        self.assertNotIn("left out", self.mrmf("data", "series.toml", "--headers"))

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
                losses = {json.loads(line)["train_loss"] for line in file}
            self.assertEqual(len(losses), 3)  # nothing is learnt, so only the samples can differ from epoch to epoch

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
