"""mrmf simulate volumes: the same bytes on any number of ranks and threads, the documented schema, volumes that show what
their masks say, bad input refused; a U-Net that learns them at two resolutions."""
import json
import os

import h5py
import numpy as np

import support

TRAINING = """
[data]
files      = ["v.h5"]
train      = { samples = "train_volumes", labels = "train_masks" }
validation = { samples = "val_volumes",   labels = "val_masks" }
[model]
preset  = "unet3d"
levels  = 2
width   = 4
outputs = 3
[training]
loss = ["cross_entropy", "dice"]
optimizer = { name = "adam", learning_rate = 1e-2 }
batch = 4
[method]
name = "mrt"
resolutions = [[2, 2, 2], [1, 1, 1]]
stop = { coarse = { epochs = 8 }, finetune = { epochs = 8 } }
[run]
folder = "run"
threads = 1
"""


class SimulateVolumes(support.MrmfTest):
    def make(self, name, *words, samples=20, size=16, seed=3, threads=1, ranks=0):
        output = self.mrmf("simulate", "volumes", "--samples", str(samples), "--size", str(size), "--seed", str(seed),
                           "--threads", str(threads), "--output", name, *words, ranks=ranks)
        self.assertIn(f"{samples} volumes of {size}^3 voxels", output)
        return self.path(name)

    def test_same_seed_same_bytes(self):
        first = support.digest(self.make("a.h5"))
        self.assertEqual(support.digest(self.make("threads.h5", threads=3)), first)
        self.assertEqual(support.digest(self.make("ranks.h5", ranks=3)), first)
        self.assertNotEqual(support.digest(self.make("other.h5", seed=4)), first)

    def test_a_sample_does_not_depend_on_how_many_there_are(self):
        with h5py.File(self.make("few.h5")) as few, h5py.File(self.make("many.h5", samples=30)) as many:
            for name in ("train_volumes", "train_masks"):
                np.testing.assert_array_equal(few[name][:], many[name][: len(few[name])])

    def test_schema_and_what_a_volume_shows(self):
        with h5py.File(self.make("a.h5", "--classes", "4", "--noise", "0.25", size=32)) as file:
            meta = json.loads(file["meta.JSON"].asstr()[0])
            self.assertEqual([meta[key] for key in ("voxelsPerAxis", "classes", "fractals", "noiseDeviation", "seed")],
                             [32, 4, 3, 0.25, 3])
            self.assertEqual(meta["numSamples"], {"train": 16, "val": 2, "test": 2})
            seen = set()
            for split, rows in meta["numSamples"].items():
                volumes, masks = file[split + "_volumes"], file[split + "_masks"]
                self.assertEqual((volumes.shape, volumes.dtype), ((rows, 32, 32, 32, 1), np.float32))
                self.assertEqual((masks.shape, masks.dtype), ((rows, 32, 32, 32), np.uint16))
                values, mask = volumes[..., 0], masks[:]
                seen |= set(np.unique(mask))
                self.assertAlmostEqual(values[mask == 0].mean(), 0, delta=0.01)
                self.assertAlmostEqual(values[mask == 0].std(), 0.25, delta=0.01)
                self.assertAlmostEqual(values[mask > 0].mean(), 1, delta=0.15)
                for one in mask:
                    self.assertGreater((one > 0).mean(), 0.005)
                    self.assertLess((one > 0).mean(), 0.6)
            self.assertEqual(seen, set(range(5)))
        with h5py.File(self.make("clean.h5", "--noise", "0")) as file:
            np.testing.assert_array_equal(file["train_volumes"][..., 0] > 0, file["train_masks"][:] > 0)

    def test_a_unet_learns_them(self):
        self.make("v.h5", "--classes", "2", "--fractals", "2", "--noise", "0.1", samples=80)
        self.write("config.toml", TRAINING)
        self.mrmf("train", "config.toml")
        dice = [epoch["validation_dice"] for epoch in self.lines("run/epochs.jsonl")]
        self.assertGreater(dice[-1], 0.4)
        self.assertGreater(dice[-1], dice[0])
        self.assertIn("dice", self.mrmf("evaluate", "run").lower())

    def test_bad_input(self):
        for words, message in ((["--size", "4"], "4 voxels per axis asked for; 8 to 256 are possible"),
                               (["--classes", "0"], "0 classes asked for"), (["--fractals", "65"], "65 fractals in a volume"),
                               (["--noise", "-1"], "a noise of -1"), (["--samples", "2"], "leave none for the split"),
                               (["--train", "0.5"], "sum 1")):
            with self.subTest(message):
                self.fails(2, "simulate", "volumes", "--output", "v.h5", *words, message=message)
                self.assertFalse(os.path.exists(self.path("v.h5")))
        self.make("v.h5")
        before = support.digest(self.path("v.h5"))
        self.fails(2, "simulate", "volumes", "--samples", "20", "--size", "16", "--output", "v.h5", message="v.h5")
        self.assertEqual(support.digest(self.path("v.h5")), before)


if __name__ == "__main__":
    support.main()
