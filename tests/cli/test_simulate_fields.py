"""mrmf simulate fields: the same bytes on any number of ranks and threads, the documented schema, files that train, bad input
refused."""
import json
import os

import h5py
import numpy as np

import support

CHANNELS = {"heat": 3, "texture": 1}
TRAINING = """
[data]
files      = ["heat.h5"]
train      = { samples = "train_fields", labels = "train_parameters" }
validation = { samples = "val_fields",   labels = "val_parameters" }
[model]
layers = [ { type = "conv", filters = 8, kernel = [3, 3], padding = "same" }, { type = "relu" },
           { type = "max_pool", window = [2, 2] }, { type = "flatten" }, { type = "dense", units = 16 },
           { type = "relu" }, { type = "dense", units = 3 } ]
[training]
optimizer = { name = "adam", learning_rate = 3e-3 }
batch = 16
[method]
name = "mrt"
resolutions = [[2, 2], [1, 1]]
stop = { coarse = { epochs = 3 }, finetune = { epochs = 5 } }
[run]
folder = "run"
threads = 1
"""


class SimulateFields(support.MrmfTest):
    def make(self, name, *words, kind="heat", samples=50, size=16, seed=3, threads=1, ranks=0):
        output = self.mrmf("simulate", "fields", "--kind", kind, "--samples", str(samples), "--size", str(size), "--seed",
                           str(seed), "--threads", str(threads), "--output", name, *words, ranks=ranks)
        self.assertIn(f"{samples} samples of {kind}", output)
        return self.path(name)

    def test_same_seed_same_bytes(self):
        for kind in CHANNELS:
            first = support.digest(self.make(f"{kind}.h5", kind=kind))
            self.assertEqual(support.digest(self.make(f"{kind}-threads.h5", kind=kind, threads=3)), first)
            self.assertEqual(support.digest(self.make(f"{kind}-ranks.h5", kind=kind, ranks=3)), first)
            self.assertEqual(support.digest(self.make(f"{kind}-both.h5", kind=kind, ranks=2, threads=2)), first)
            self.assertNotEqual(support.digest(self.make(f"{kind}-other.h5", kind=kind, seed=4)), first)

    def test_a_sample_does_not_depend_on_how_many_there_are(self):
        with h5py.File(self.make("few.h5")) as few, h5py.File(self.make("many.h5", samples=90)) as many:
            for name in ("train_fields", "train_parameters"):
                np.testing.assert_array_equal(few[name][:], many[name][: len(few[name])])

    def test_schema(self):
        for kind, channels in CHANNELS.items():
            with h5py.File(self.make(f"{kind}.h5", kind=kind)) as file:
                meta = json.loads(file["meta.JSON"].asstr()[0])
                for split, rows in (("train", 40), ("val", 5), ("test", 5)):
                    fields, labels = file[split + "_fields"], file[split + "_parameters"]
                    self.assertEqual((fields.shape, fields.dtype), ((rows, 16, 16, channels), np.float32))
                    self.assertEqual((labels.shape, labels.dtype), ((rows, 3), np.float32))
                    self.assertIsNone(fields.chunks)
                    self.assertTrue(np.isfinite(fields[:]).all())
                    self.assertLessEqual(np.abs(labels[:]).max(), 1)
                self.assertEqual((meta["kind"], meta["seed"], meta["pixelsPerAxis"]), (kind, 3, 16))
                self.assertEqual(meta["numSamples"], {"train": 40, "val": 5, "test": 5})
                self.assertEqual(len(meta["parName"]), 3)
                self.assertEqual([p["name"] for p in meta["parameters"]], meta["parName"])
        with h5py.File(self.make("half.h5", "--train", "0.5", "--validation", "0.3", "--test", "0.2")) as file:
            self.assertEqual([len(file[s + "_fields"]) for s in ("train", "val", "test")], [25, 15, 10])

    def test_averaging_keeps_the_heat_and_loses_the_stripes(self):
        def averages(fields):
            return fields.reshape(len(fields), 32, 2, 32, 2).mean(axis=(2, 4))

        with h5py.File(self.make("heat.h5", size=64)) as file:
            fields = file["train_fields"][..., 0].astype("f8")
        self.assertGreater(averages(fields).var(), 0.9 * fields.var())  # 0.95 was seen
        with h5py.File(self.make("texture.h5", kind="texture", size=64)) as file:
            fields, labels = file["train_fields"][..., 0].astype("f8"), file["train_parameters"][:].astype("f8")
        wave, angle = 2 * np.pi / (2.8 + 0.6 * labels[:, 0]), np.arctan2(labels[:, 2], labels[:, 1]) / 2

        def contrast(images, pixel):
            """Twice the mean of a sample's value times exp(-ikx), with the k that its labels say."""
            x = pixel * np.arange(images.shape[1])
            phase = (wave * np.cos(angle))[:, None, None] * x[:, None] + (wave * np.sin(angle))[:, None, None] * x
            return 2 * np.abs((images * np.exp(-1j * phase)).mean(axis=(1, 2)))

        fine, coarse = contrast(fields, 1), contrast(averages(fields), 2)
        self.assertTrue(((fine > 0.15) & (fine < 0.45)).all())  # 0.2 to 0.4; noise adds 0.02
        self.assertLess(coarse.mean(), 0.55 * fine.mean())  # 0.45 is what averages of 2 x 2 pixels keep

    def test_the_file_trains(self):
        self.make("heat.h5", samples=640)
        self.write("config.toml", TRAINING)
        self.mrmf("train", "config.toml")
        epochs = self.lines("run/epochs.jsonl")
        self.assertEqual([e["resolution"] for e in epochs], [[2, 2]] * 3 + [[1, 1]] * 5)
        self.assertLess(epochs[-1]["validation_loss"], 0.2)  # 1/3 is the labels' variance; 0.13 was seen

    def test_bad_arguments_are_refused_and_nothing_is_written(self):
        good = {"--kind": "heat", "--samples": "50", "--size": "16", "--output": "refused.h5"}
        for key, value, word in (
            ("--kind", "waves", "heat,texture"),
            ("--samples", "0", "samples"),
            ("--samples", "-5", "samples"),
            ("--samples", "4", "split"),
            ("--size", "14", "16 to 1024"),
            ("--size", "17", "even number"),
            ("--size", "2048", "16 to 1024"),
            ("--train", "0.9", "sum 1"),
            ("--threads", "-1", "threads"),
            ("--seed", "x", "seed"),
        ):
            words = [text for pair in {**good, key: value}.items() for text in pair]
            self.fails(2, "simulate", "fields", *words, message=word)
            self.assertEqual(os.listdir(self.folder), [])
        self.fails(2, "simulate", "fields", message="output")
        self.fails(3, "simulate", "fields", "--output", "no/such/fields.h5", message="no/such")
        self.assertEqual(os.listdir(self.folder), [])

    def test_an_older_file_survives_a_refused_command(self):
        before = support.digest(self.make("kept.h5"))
        words = ("simulate", "fields", "--samples", "50", "--size", "16", "--seed", "2", "--output", "kept.h5")
        self.fails(2, *words, message="kept.h5: is there already; give --overwrite")
        self.assertEqual(support.digest(self.path("kept.h5")), before)
        self.mrmf(*words, "--overwrite")
        self.assertNotEqual(support.digest(self.path("kept.h5")), before)


if __name__ == "__main__":
    support.main()
