"""mrmf export and import: round trips through safetensors, what is in the files, and bad files and networks."""
import copy
import json
import os
import shutil
import unittest

import h5py
import numpy as np

import safetensors_file
import support

FIELDS = """
[data]
files = ["data.h5"]
train = { samples = "x", labels = "y" }
validation = { samples = "x", labels = "y" }
duplicates = "allow"
[training]
batch = 4
epochs = 1
loss = "cross_entropy"
optimizer = { name = "sgd", learning_rate = 0.01 }
[run]
folder = "run"
threads = 1
[model]
layers = [
  { type = "conv", name = "first", filters = 4, kernel = 3, padding = "same" },
  { type = "batch_norm" }, { type = "relu" },
  { type = "conv", filters = 3, kernel = 1 },
]
"""


class Export(support.MrmfTest):
    """A trained run of series in `run`, exported to m.safetensors."""

    trained = None

    @classmethod
    def setUpClass(cls):
        case = cls("setUp")
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        support.make_data(case.path("data.h5"))
        case.write("config.toml", support.CONFIG)
        case.mrmf("train", "config.toml")
        cls.trained = case.folder

    def setUp(self):
        super().setUp()
        if self.trained:
            for name in ("data.h5", "config.toml"):
                shutil.copy(os.path.join(self.trained, name), self.folder)
            shutil.copytree(os.path.join(self.trained, "run"), self.path("run"))

    def prediction(self, model, *more):
        self.mrmf("predict", model, "-o", "p.h5", "--overwrite", *more)
        with h5py.File(self.path("p.h5")) as file:
            return {name: file[name][()] for name in file}

    def export(self, *more):
        self.mrmf("export", "run", "-o", "m.safetensors", *more)
        return safetensors_file.read(self.path("m.safetensors"))

    def import_fails(self, message, *more, code=3):
        self.fails(code, "import", "m.safetensors", "-o", "m.h5", "--config", "config.toml", *more, message=message)
        self.assertFalse(os.path.exists(self.path("m.h5")))


class RoundTrip(Export):
    def scores(self, *model):
        """What evaluate prints, but for the epoch of the model."""
        return self.mrmf("evaluate", *model).partition("40 samples")[2]

    def test_predictions_are_equal(self):
        metadata, tensors = self.export("--epoch", "last")
        self.assertEqual(metadata["sample"], "64x3")
        self.assertEqual(metadata["samples"], "train_frames")
        self.assertNotIn("axes", metadata)
        self.assertEqual(metadata["resolution"], "[1]")
        self.assertEqual(metadata["run"], "run")
        self.assertRegex(metadata["program"], r"^mrmf \d")
        self.assertEqual(tensors["conv1.weight"].shape, (6, 4, 3))
        with h5py.File(self.path("run/checkpoints/final.h5")) as file:
            for name, values in tensors.items():
                layer, part = name.split(".")
                group = "state" if part.startswith("running") else "parameters"
                np.testing.assert_array_equal(values, file[f"{group}/{layer}/{part}"][()], name)
            self.assertEqual(len(tensors), sum(len(layer) for group in ("parameters", "state")
                                               for layer in file[group].values()))
        self.mrmf("import", "m.safetensors", "-o", "m.h5", "--config", "config.toml")
        want = self.prediction("run", "--epoch", "last")["prediction"]
        np.testing.assert_array_equal(self.prediction("m.h5")["prediction"], want)
        np.testing.assert_array_equal(self.prediction("run/checkpoints/final.h5")["prediction"], want)
        self.assertEqual(self.scores("m.h5"), self.scores("run", "--epoch", "last"))
        self.mrmf("export", "m.h5", "-o", "again", "--format", "safetensors")
        _, again = safetensors_file.read(self.path("again"))
        self.assertEqual(list(again), list(tensors))
        for name, values in tensors.items():
            np.testing.assert_array_equal(again[name], values)

    def test_measured_normalisation_is_in_the_runs_own_configuration(self):
        shutil.rmtree(self.path("run"))
        self.write("config.toml", self.read("config.toml").replace(
            "[training]", 'normalise = { samples = "mean_std", labels = "mean_std" }\n[training]', 1))
        self.mrmf("train", "config.toml")
        metadata, _ = self.export()
        self.assertEqual(len(json.loads(metadata["network"])["samples"]["scale"]), 3)
        self.import_fails("give the run's own config.toml: --config RUN/config.toml", code=2)
        self.mrmf("import", "m.safetensors", "-o", "m.h5", "--config", "run/config.toml")
        np.testing.assert_array_equal(self.prediction("m.h5")["prediction"], self.prediction("run")["prediction"])

    def test_changed_parameters_change_predictions(self):
        _, tensors = self.export()
        last = [name for name in tensors if name.endswith(".bias")][-1]
        tensors[last] = tensors[last] + np.float32([2, -3])
        safetensors_file.write(self.path("changed.safetensors"), tensors)
        self.mrmf("import", "changed.safetensors", "-o", "m.h5", "--config", "config.toml")
        change = self.prediction("m.h5")["prediction"] - self.prediction("run")["prediction"]
        np.testing.assert_allclose(change, np.tile([2, -3], (len(change), 1)), atol=1e-5)

    def test_files_are_the_same_on_two_ranks(self):
        self.export()
        self.mrmf("export", "run", "-o", "two.safetensors", ranks=2)
        self.mrmf("export", "run", "-o", "one.onnx")
        self.mrmf("export", "run", "-o", "two.onnx", ranks=2)
        self.mrmf("import", "two.safetensors", "-o", "two.h5", "--config", "config.toml", ranks=2)
        self.mrmf("import", "m.safetensors", "-o", "one.h5", "--config", "config.toml")
        for one, two in (("m.safetensors", "two.safetensors"), ("one.onnx", "two.onnx"), ("one.h5", "two.h5")):
            self.assertEqual(support.digest(self.path(one)), support.digest(self.path(two)))

    def test_a_checkpoint_and_a_file_without_its_sample(self):
        with h5py.File(self.path("run/checkpoints/final.h5"), "r+") as file:
            del file.attrs["sample"]
        with open(self.path("run/checkpoints/final.h5"), "r+b") as file:
            with h5py.File(self.path("run/checkpoints/final.h5")) as whole:
                size = whole.id.get_filesize()
            file.truncate(size)  # without its checksum, as earlier versions wrote it
        self.export("--epoch", "last")
        os.rename(self.path("data.h5"), self.path("away.h5"))
        self.fails(3, "export", "run", "-o", "n.onnx", "--epoch", "last", message="--sample 1600x3")
        self.mrmf("export", "run", "-o", "n.onnx", "--epoch", "last", "--sample", "64x3")
        self.fails(2, "export", "run", "-o", "k.onnx", "--epoch", "last", "--sample", "2x3", message="conv1")
        self.fails(3, "export", "run", "-o", "k.onnx", "--checkpoint", message="there is no checkpoint")
        self.assertFalse(os.path.exists(self.path("k.onnx")))

    def test_classes_of_positions(self):
        rng = np.random.default_rng(0)
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"] = rng.normal(size=(8, 6, 5, 2)).astype("f4")
            file["y"] = rng.integers(0, 3, (8, 6, 5)).astype("u1")
        shutil.rmtree(self.path("run"))
        self.write("config.toml", FIELDS)
        self.mrmf("train", "config.toml")
        metadata, tensors = self.export()
        self.assertEqual(metadata["task"], "classes")
        network = json.loads(metadata["network"])
        self.assertEqual(network["sample"], [6, 5, 2])
        self.assertEqual(network["layers"][0]["pad_before"], [1, 1])
        self.assertEqual(tensors["first.weight"].shape, (4, 3, 3, 2))
        self.mrmf("import", "m.safetensors", "-o", "m.h5", "--config", "config.toml")
        want, got = self.prediction("run"), self.prediction("m.h5")
        self.assertEqual(set(want), {"prediction", "probability", "class"})
        for name in want:
            np.testing.assert_array_equal(got[name], want[name])


class Formats(Export):
    def test_the_format_follows_from_the_name(self):
        self.fails(2, "export", "run", "-o", "model.bin", message="--format onnx or --format safetensors")
        self.assertIn("opset 17", self.mrmf("export", "--help"))
        self.assertIn("ONNX, opset 17", self.mrmf("export", "run", "-o", "model.onnx"))
        self.mrmf("export", "run", "-o", "model.bin", "--format", "onnx")
        self.assertEqual(self.read_bytes("model.onnx"), self.read_bytes("model.bin"))
        self.assertIn(b"conv1.weight", self.read_bytes("model.onnx"))
        self.fails(2, "export", "run", "-o", "model.onnx", message="--overwrite")
        self.mrmf("export", "run", "-o", "model.onnx", "--overwrite")
        self.fails(2, "export", "run", "-o", "run/checkpoints/final.h5", "--format", "onnx", "--overwrite",
                   "--epoch", "last", message="final.h5")

    def read_bytes(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_what_is_no_model(self):
        self.fails(3, "export", "config.toml", "-o", "m.onnx", message="name the folder of its run")
        self.fails(3, "predict", "data.h5", "-o", "p.h5", message="not a model")
        self.fails(3, "evaluate", "nowhere.h5", message="there is no such run folder")
        self.fails(2, "predict", "run/checkpoints/final.h5", "--checkpoint", "-o", "p.h5", message="--checkpoint")
        with open(self.path("run/checkpoints/final.h5"), "r+b") as file:
            file.seek(3000)
            file.write(b"spoilt")
        self.fails(3, "export", "run/checkpoints/final.h5", "-o", "m.onnx", message="damaged")
        self.fails(3, "predict", "run/checkpoints/final.h5", "-o", "p.h5", message="damaged")

    def test_a_network_that_formats_cannot_say(self):
        rng = np.random.default_rng(0)
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"], file["y"] = rng.normal(size=(8, 5)).astype("f4"), rng.normal(size=(8, 2)).astype("f4")
        shutil.rmtree(self.path("run"))
        config = FIELDS[:FIELDS.index("[model]")].replace('loss = "cross_entropy"', "")
        self.write("config.toml", config + """
            [model]
            layers = [{ type = "dense", units = 4 }, { type = "conv", name = "odd", filters = 2, kernel = 1 }]""")
        self.mrmf("train", "config.toml")
        for name in ("m.onnx", "m.safetensors"):
            self.fails(2, "export", "run", "-o", name, message="odd: its input 4 has no positions")
            self.assertFalse(os.path.exists(self.path(name)))


class BadFiles(Export):
    """mrmf import of files that are not what they should be."""

    def spoil(self, change):
        """change(header, data) -> header, data of a file, or None where it changed the header in place."""
        metadata, tensors = self.export()
        os.remove(self.path("m.safetensors"))
        header, data = safetensors_file.layout(tensors, metadata)
        changed = change(header, data)
        safetensors_file.write_raw(self.path("m.safetensors"), *(changed or (header, data)))

    def refused(self, change, message):
        self.spoil(change)
        self.import_fails(message)
        os.remove(self.path("m.safetensors"))

    def test_headers(self):
        self.write("m.safetensors", "short")
        self.import_fails("fewer than 8 bytes")
        for length, message in ((100_000_001, "100 MB"), (2**64 - 1, "100 MB"), (50_000_000, "are there")):
            safetensors_file.write_raw(self.path("m.safetensors"), {}, b"x" * 40, length)
            self.import_fails(message)
        for header in (b"[]", b"{", b"", b'{"a": 1', b'{"a": \xff}', b"{} {}"):
            safetensors_file.write_raw(self.path("m.safetensors"), header, b"")
            self.import_fails("no JSON object")
        safetensors_file.write_raw(self.path("m.safetensors"), b'{"a":' + b"[" * 100_000, b"")
        self.import_fails("m.safetensors")
        safetensors_file.write_raw(self.path("m.safetensors"), {"__metadata__": {"a": 1}}, b"")
        self.import_fails("no table of texts")
        twice = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
        safetensors_file.write_raw(self.path("m.safetensors"), twice, b"1234")
        self.import_fails('tensor "a" twice')

    def test_offsets(self):
        def shift(by):
            def change(header, data):
                for name, entry in header.items():
                    if name != "__metadata__":
                        entry["data_offsets"] = [place + by for place in entry["data_offsets"]]
                return header, b"\0" * max(0, by) + data
            return change

        def of_first(**change):
            return lambda header, data: header["conv1.weight"].update(change)

        size = 4 * 6 * 4 * 3
        self.refused(shift(8), "a hole of 8 bytes before it")
        self.refused(lambda header, data: (header, data + b"1234"), "4 bytes at its end belong to no tensor")
        self.refused(lambda header, data: (header, data[:-4]), "is it cut short?")
        self.refused(of_first(data_offsets=[4, size + 4]), "hole of 4 bytes")
        self.refused(lambda header, data: header["conv1.bias"].update(data_offsets=[0, 24]), "overlap")
        for offsets in ([size, 0], [0], [0, size, size], "all", [0.0, float(size)], [-4, size - 4], None):
            self.refused(of_first(data_offsets=offsets), "data_offsets")
        self.refused(of_first(data_offsets=[2**63, 2**63 + size]), "bytes end at")
        self.refused(of_first(data_offsets=[0, 2**64 - 1]), "takes 288 bytes")
        self.refused(lambda header, data: header.update({"conv1.weight": [1]}), "no JSON object")

    def test_types_and_shapes(self):
        def of_first(**change):
            return lambda header, data: header["conv1.weight"].update(change)

        self.refused(of_first(dtype="F16"), '"F16", and F32 are read')
        self.refused(of_first(dtype=7), "no dtype")
        self.refused(of_first(shape=[6, 12]), "(6, 12), and the configuration's network needs (6, 4, 3)")
        self.refused(of_first(shape=[3, 4, 6]), "(3, 4, 6), and the configuration's network needs (6, 4, 3)")
        self.refused(of_first(shape=[6, 4, 4]), "takes 384 bytes, and data_offsets give it 288")
        self.refused(of_first(shape=[2**32, 2**32]), "larger than any file")
        self.refused(of_first(shape=[2**64 - 1]), "larger than any file")
        self.refused(of_first(shape=[-6, 4, -3]), "shape is no list")
        self.refused(of_first(shape=[6, 4, 3] + [1] * 100_000), "it has 100003 axes, and at most 32 are read")

    def test_tensors(self):
        metadata, tensors = self.export()
        path = self.path("m.safetensors")
        without = {name: values for name, values in tensors.items() if name != "conv1.bias"}
        safetensors_file.write(path, without, metadata)
        self.import_fails("lacks conv1.bias; is the configuration")
        safetensors_file.write(path, dict(without, **{"conv9.bias\n": np.zeros(6)}), metadata)
        self.import_fails(r'lacks conv1.bias, and has "conv9.bias\n" of no layer')
        safetensors_file.write(path, dict(tensors, **{"x" * 2_000_000: np.zeros(6)}), metadata)
        self.import_fails(f'has "{"x" * 100}..." of no layer')
        for value in (np.nan, np.inf):
            bad = copy.deepcopy(tensors)
            bad["dense1.weight"][3, 2] = value
            safetensors_file.write(path, bad, metadata)
            self.import_fails('tensor "dense1.weight": it holds NaN')
        bad = copy.deepcopy(tensors)
        variance = next(name for name in bad if name.endswith("running_variance"))
        bad[variance][0] = -1
        safetensors_file.write(path, bad, metadata)
        self.import_fails("a variance below 0")

    def test_other_networks(self):
        metadata, tensors = self.export()
        self.import_fails("conv1.weight has the shape (6, 4, 3), and the configuration's network needs (6, 4, 2)",
                          "--sample", "64x2")
        self.import_fails("batch_norm1.gamma has the shape (90), and the configuration's network needs (42)", "--sample", "32x3")
        self.import_fails("pool", "--sample", "4x3", code=2)
        safetensors_file.write(self.path("m.safetensors"), tensors, dict(metadata, sample="huge"))
        self.import_fails("give --sample")
        self.fails(3, "import", "none.safetensors", "-o", "m.h5", "--config", "config.toml", message="none.safetensors")
        self.write("m.h5", "mine")
        self.fails(2, "import", "m.safetensors", "-o", "m.h5", "--config", "config.toml", message="--overwrite")
        self.assertEqual(self.read("m.h5"), "mine")


if __name__ == "__main__":
    unittest.main()
