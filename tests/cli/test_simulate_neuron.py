"""mrmf simulate neuron: the same bytes on any number of ranks and threads, the published schema, bad input refused."""
import json
import os

import h5py
import numpy as np

import support


class SimulateNeuron(support.MrmfTest):
    def make(self, name, *words, seed=3, threads=1, ranks=0):
        self.mrmf("simulate", "neuron", "--samples", "90", "--cells", "3", "--seed", str(seed), "--threads", str(threads),
                  "--output", name, *words, ranks=ranks)
        return self.path(name)

    def test_same_seed_same_bytes(self):
        def made(folder, **options):  # under one name, which is in meta.JSON
            os.mkdir(self.path(folder))
            path = self.make(folder + "/neuron.h5", **options)
            self.assertEqual(os.listdir(self.path(folder)), ["neuron.h5"])
            return support.digest(path)

        first = made("one")
        self.assertEqual(made("threads", threads=3), first)
        self.assertEqual(made("two", ranks=2), first)
        self.assertEqual(made("three", ranks=3), first)
        self.assertNotEqual(made("other", seed=4), first)

    def test_shares_of_the_splits(self):
        text = self.mrmf("simulate", "neuron", "--help")
        for part in ("80/10/10", "--train", "--validation", "--test"):
            self.assertIn(part, text)
        with h5py.File(self.make("half.h5", "--train", "0.5", "--validation", "0.3", "--test", "0.2")) as file:
            self.assertEqual([len(file[s + "_frames"]) for s in ("train", "val", "test")], [45, 27, 18])
        self.fails(2, "simulate", "neuron", "--train", "0.9", "--output", "refused.h5", message="sum 1")
        self.assertFalse(os.path.exists(self.path("refused.h5")))

    def test_schema(self):
        with h5py.File(self.make("neuron.h5")) as file:
            meta = json.loads(file["meta.JSON"].asstr()[0])
            self.assertEqual(file["meta.JSON"].shape, (1,))
            for split, rows in (("train", 72), ("val", 9), ("test", 9)):
                frames, labels = file[split + "_frames"], file[split + "_unitStar_par"]
                self.assertEqual((frames.shape, frames.dtype), ((rows, 1600, 3), np.float32))
                self.assertEqual((labels.shape, labels.dtype), ((rows, 19), np.float32))
                self.assertIsNone(frames.chunks)
                self.assertTrue(np.isfinite(frames[:]).all())
                self.assertLessEqual(np.abs(labels[:]).max(), 1)
            all_frames = np.concatenate([file[s + "_frames"][:] for s in ("train", "val", "test")])
        # Every cell has few enough samples that all of them define the normalisation; so the mean over all is 0 too.
        np.testing.assert_allclose(all_frames.mean(axis=(0, 1), dtype=np.float64), 0, atol=1e-5)
        np.testing.assert_allclose((all_frames.astype(np.float64) ** 2).mean(axis=(0, 1)), 1, atol=1e-5)
        self.assertEqual(len(set(map(tuple, all_frames[:, :, 0]))), 90)
        self.assertEqual(len(meta["parName"]), 19)
        self.assertEqual(meta["numSamples"], {"train": 72, "val": 9, "test": 9})
        for key in ("cellNameList", "globalTrainSamples", "h5name", "numInpFiles"):  # the published ones
            self.assertIn(key, meta)
        self.assertEqual(meta["h5name"], "neuron.h5")

    def test_bad_arguments_are_refused_and_nothing_is_written(self):
        good = {"--samples": "90", "--cells": "3", "--seed": "1", "--output": "refused.h5"}
        for key, value, word in (
            ("--samples", "0", "samples"),
            ("--samples", "-5", "samples"),
            ("--samples", "4", "split"),
            ("--samples", "many", "samples"),
            ("--cells", "0", "cells"),
            ("--cells", "91", "cells"),
        ):
            words = [text for pair in {**good, key: value}.items() for text in pair]
            output = self.mrmf("simulate", "neuron", *words, code=2)
            self.assertIn(word, output)
            self.assertEqual(os.listdir(self.folder), [])

    def test_an_unwritable_place_gets_one_line(self):
        self.fails(3, "simulate", "neuron", "--samples", "90", "--output", "no/such/neuron.h5", message="no/such")
        self.assertEqual(os.listdir(self.folder), [])

    def test_an_older_file_survives_a_refused_command(self):
        path = self.make("kept.h5")
        before = support.digest(path)
        words = ("simulate", "neuron", "--samples", "90", "--cells", "3", "--seed", "2", "--output", "kept.h5")
        self.fails(2, *words, message="kept.h5: is there already; give --overwrite")
        self.assertEqual(support.digest(path), before)
        self.mrmf(*words, "--overwrite")
        self.assertNotEqual(support.digest(path), before)
        before = support.digest(path)
        self.fails(2, "simulate", "neuron", "--samples", "1", "--cells", "3", "--output", "kept.h5", message="cells")
        self.assertEqual(support.digest(path), before)


if __name__ == "__main__":
    support.main()
