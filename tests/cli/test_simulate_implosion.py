"""mrmf simulate implosion: the same bytes on any number of ranks and threads, the documented schema, numbers that change in
the right direction, a file that trains both ways, bad input refused."""
import json
import os

import h5py
import numpy as np

import support


class SimulateImplosion(support.MrmfTest):
    def make(self, name, *words, samples=40, size=16, seed=3, threads=1, ranks=0):
        output = self.mrmf("simulate", "implosion", "--samples", str(samples), "--size", str(size), "--seed", str(seed),
                           "--threads", str(threads), "--output", name, *words, ranks=ranks)
        self.assertIn(f"{samples} implosions", output)
        return self.path(name)

    def test_same_seed_same_bytes(self):
        first = support.digest(self.make("one.h5"))
        self.assertEqual(support.digest(self.make("threads.h5", threads=3)), first)
        self.assertEqual(support.digest(self.make("ranks.h5", ranks=3)), first)
        self.assertNotEqual(support.digest(self.make("other.h5", seed=4)), first)
        with h5py.File(self.path("one.h5")) as few, h5py.File(self.make("many.h5", samples=90)) as many:
            for name in ("train_inputs", "train_scalars", "train_images"):
                np.testing.assert_array_equal(few[name][:], many[name][: len(few[name])])

    def test_schema(self):
        with h5py.File(self.make("one.h5")) as file:
            meta = json.loads(file["meta.JSON"].asstr()[0])
            for split, rows in (("train", 32), ("val", 4), ("test", 4)):
                self.assertEqual(file[split + "_inputs"].shape, (rows, 5))
                self.assertEqual(file[split + "_scalars"].shape, (rows, 15))
                self.assertEqual(file[split + "_images"].shape, (rows, 16, 16, 4))
                for what in ("inputs", "scalars", "images"):
                    values = file[f"{split}_{what}"]
                    self.assertEqual(values.dtype, np.float32)
                    self.assertTrue(np.isfinite(values[:]).all())
                self.assertLessEqual(np.abs(file[split + "_inputs"][:]).max(), 1)
                self.assertGreaterEqual(file[split + "_images"][:].min(), 0)
            self.assertEqual((meta["kind"], meta["seed"], meta["pixelsPerAxis"]), ("implosion", 3, 16))
            self.assertEqual((len(meta["inputs"]), len(meta["scalars"]), len(meta["bandsKeV"])), (5, 15, 4))
            self.assertEqual(meta["numSamples"], {"train": 32, "val": 4, "test": 4})

    def test_what_depends_on_what(self):
        with h5py.File(self.make("one.h5", samples=400, size=32)) as file:
            inputs, scalars, images = (file["train_" + what][:].astype("f8") for what in ("inputs", "scalars", "images"))
            names = [s["name"] for s in json.loads(file["meta.JSON"].asstr()[0])["scalars"]]
        def slopes(name):
            """Of a linear fit, against the five inputs."""
            values = scalars[:, names.index(name)]
            return np.linalg.lstsq(np.column_stack([inputs, np.ones(len(inputs))]), values, rcond=None)[0][:5] / values.std()
        velocity, adiabat, p2, p4, mix = range(5)
        for name in ("log10_yield", "ion_temperature", "pressure"):
            self.assertGreater(slopes(name)[velocity], 0)  # faster is hotter
            self.assertLess(slopes(name)[mix], 0)          # and mixed-in matter cools
        self.assertLess(slopes("pressure")[adiabat], 0)
        self.assertGreater(slopes("p2")[p2], 0.5)
        self.assertGreater(slopes("p4")[p4], 0.5)
        # An upright spot for a positive second mode: more extent along the first axis than along the second.
        along = np.arange(32) - 15.5
        total = images.sum(axis=(1, 2, 3)) * scalars[:, names.index("radius")] ** 2
        upright = ((images.sum(axis=(2, 3)) * along ** 2).sum(1) - (images.sum(axis=(1, 3)) * along ** 2).sum(1)) / total
        self.assertGreater(np.corrcoef(upright, scalars[:, names.index("p2")])[0, 1], 0.9)
        np.testing.assert_array_equal(images, images[:, ::-1])
        np.testing.assert_array_equal(images, images[:, :, ::-1])
        self.assertTrue((images[..., :-1] >= images[..., 1:]).all())  # harder bands are dimmer

    def test_it_trains(self):
        self.make("one.h5", samples=200)
        dense = support.layers("dense units=16", "tanh", "dense units=15")
        text = support.CONFIG.replace("data.h5", "one.h5").replace('layout = "as_stored"', 'normalise = { labels = "mean_std" }')
        text = text.replace("frames", "inputs").replace("unitStar_par", "scalars").replace(support.LAYERS, "\n" + dense)
        self.write("forward.toml", text)
        self.mrmf("train", "forward.toml", "--set", "training.epochs=20", "--set", "run.folder=forward")
        losses = [e["validation_loss"] for e in self.lines("forward/epochs.jsonl")]
        self.assertLess(losses[-1], 0.7 * losses[0])

    def test_bad_input(self):
        for words, message in ((["--size", "7"], "an even number from 8"), (["--size", "2048"], "an even number"),
                               (["--samples", "0"], "samples"), (["--train", "0.5"], "with sum 1"),
                               (["--threads", "-1"], "threads")):
            output = self.mrmf("simulate", "implosion", "-o", "bad.h5", *words, code=2)
            self.assertIn(message, output)
            self.assertFalse(os.path.exists(self.path("bad.h5")))
        self.make("one.h5")
        self.fails(2, "simulate", "implosion", "-o", "one.h5", "-n", "40", message="one.h5")


if __name__ == "__main__":
    support.main()
