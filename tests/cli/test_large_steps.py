"""Gradients clipped by their norm, batches computed in parts, and losses that are far above the labels' variance."""
import json
import re
import unittest

import h5py
import numpy as np
import support

NORM = '[[model.layers]]\ntype = "batch_norm"\n'


class LargeSteps(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=100)
        self.config()

    def losses(self, folder, *more, ranks=0):
        self.mrmf("train", "config.toml", "--set", f"run.folder={folder}", *more, ranks=ranks)
        return [[epoch["train_loss"], epoch["validation_loss"]] for epoch in self.lines(folder + "/epochs.jsonl")]

    def parameters(self, folder):
        with h5py.File(self.path(folder + "/checkpoints/final.h5")) as model:
            found = []
            model["parameters"].visititems(
                lambda name, item: found.append(item[()].ravel()) if isinstance(item, h5py.Dataset) else None)
        return np.concatenate(found).astype("float64")


class Clipping(LargeSteps):
    def test_one_step_is_as_long_as_the_limit(self):
        one = ("--set", "training.optimizer.name=sgd", "--set", "training.optimizer.momentum=0", "--set",
               "training.batch=100", "--set", "training.epochs=1")
        rate = lambda value: ("--set", f"training.optimizer.learning_rate={value}")
        self.losses("begin", *one, *rate(1e-30))
        begin = self.parameters("begin")
        lengths = []
        for folder, clip in (("all", 0), ("half", 0.5), ("tenth", 0.1), ("loose", 1e9)):
            self.losses(folder, *one, *rate(0.5), "--set", f"training.clip_norm={clip}")
            lengths.append(np.linalg.norm(self.parameters(folder) - begin) / 0.5)
        self.assertGreater(lengths[0], 0.6)  # else nothing is clipped here
        np.testing.assert_allclose(lengths[1:3], [0.5, 0.1], rtol=1e-4)
        np.testing.assert_array_equal(self.parameters("loose"), self.parameters("all"))
        step, clipped = self.parameters("all") - begin, self.parameters("half") - begin
        np.testing.assert_allclose(clipped, step * np.linalg.norm(clipped) / np.linalg.norm(step), atol=1e-6)

    def test_ranks_do_not_change_it(self):
        words = ("--set", "training.clip_norm=0.2", "--set", "data.shards=6")
        one = self.losses("one", *words, "--set", "training.batch=48")
        self.assertNotEqual(one, self.losses("without", *words[2:], "--set", "training.batch=48"))
        np.testing.assert_allclose(self.losses("three", *words, ranks=3), one, rtol=1e-3)
        same = (*words, "--set", "run.deterministic=true")
        self.assertEqual(self.losses("bits3", *same, ranks=3), self.losses("bits1", *same, "--set", "training.batch=48"))


class Parts(LargeSteps):
    def test_gradients_are_those_of_the_whole_batch(self):
        # 100 samples in batches of at most 16: steps of 14 and 15, in micro-batches of 4 and 3. Dropout goes by sample.
        self.config(replace=[(NORM, "")])
        for optimizer in ("adam", "sgd"):
            words = ("--set", f"training.optimizer.name={optimizer}")
            whole, parts = self.losses("whole", *words, "--overwrite"), self.losses(
                "parts", *words, "--set", "training.accumulate=4", "--overwrite")
            np.testing.assert_allclose(parts, whole, rtol=2e-4)
            self.assertNotEqual(parts, whole)  # other sums: it did compute in parts
        np.testing.assert_allclose(self.losses("ranks", "--set", "training.optimizer.name=sgd", "--set",
                                               "training.batch=8", "--set", "data.shards=2", "--set",
                                               "training.accumulate=3", ranks=2),
                                   self.losses("alone", "--set", "training.optimizer.name=sgd", "--set",
                                               "data.shards=2"), rtol=2e-4)
        clip = ("--set", "training.clip_norm=0.2")
        np.testing.assert_allclose(self.losses("clipped", *clip, "--set", "training.accumulate=4"),
                                   self.losses("clipped whole", *clip), rtol=2e-4)

    def test_shards_do_not_make_parts_of_validation_too_large(self):
        # A batch has a row of each shard, and a part of it is fewer rows than there are shards, in validation as well.
        support.make_data(self.path("data.h5"))
        self.config(replace=[(NORM, "")])
        words = ("--set", "data.shards=8", "--set", "training.batch=8")
        np.testing.assert_allclose(self.losses("parts", *words, "--set", "training.accumulate=4"),
                                   self.losses("whole", *words), rtol=2e-4)

    def test_inspect_names_the_batch_and_its_parts(self):
        words = ("inspect", "config.toml", "--set", "training.batch=8", "--set")
        self.assertRegex(self.mrmf(*words, "training.accumulate=1"), r"(?m), batch 8 per rank$")
        self.assertRegex(self.mrmf(*words, "training.accumulate=4"), r"(?m), batch 8 per rank, in 4 micro-batches of 2$")
        self.assertRegex(self.mrmf(*words, "training.accumulate=3"), r"(?m), batch 8 per rank, in 3 micro-batches of at most 3$")
        (found,) = json.loads(self.mrmf(*words, "training.accumulate=4", "--json"))["resolutions"]
        self.assertEqual([found[key] for key in ("batch", "parts", "rows_at_once")], [8, 4, 2])

    def test_reading_does_not_change_it(self):
        words = ("--set", "training.accumulate=4", "--set", "training.precise_batch_norm=2")
        memory = self.losses("memory", *words)
        self.assertEqual(self.losses("stream", *words, "--set", "data.load=stream"), memory)

    def test_activations_take_less_memory(self):
        def arena(parts):
            text = self.mrmf("inspect", "config.toml", "--set", "training.batch=96", "--set",
                             f"training.accumulate={parts}")
            size, unit = re.search(r"activations and their gradients lie in one arena of ([0-9.]+) ([kM])B", text).groups()
            return float(size) * {"k": 1e3, "M": 1e6}[unit]

        self.assertAlmostEqual(arena(8) / arena(1), 1 / 8, delta=0.01)

    def test_what_is_refused(self):
        self.fails(2, "train", "config.toml", "--set", "training.accumulate=16",
                   message="training.accumulate = 16: batch 16 brings a rank as few as 14 samples in a step")
        self.fails(2, "train", "config.toml", "--set", "training.accumulate=2", "--set", "data.shards=2", "--set",
                   "run.deterministic=true", message="training.accumulate does not go with run.deterministic")
        self.fails(2, "plan", "config.toml", "--set", "training.accumulate=0", message="training.accumulate is 0")
        self.fails(2, "plan", "config.toml", "--set", "training.clip_norm=-1", message="training.clip_norm is -1")


class FarLosses(LargeSteps):
    WARNING = "times the variance of the training labels"

    def scaled(self, scale, shift):
        with h5py.File(self.path("data.h5"), "r+") as file:
            for name in ("train_unitStar_par", "val_unitStar_par"):
                file[name][...] = file[name][...] * scale + shift

    def train(self, *more, **options):
        return self.mrmf("train", "config.toml", *more, "--overwrite", **options)

    def test_labels_far_from_zero_are_told_once(self):
        self.scaled(1, 1000)
        output = self.train()
        self.assertEqual(output.count(self.WARNING), 1)
        self.assertRegex(output, r"warning: after epoch 1 of stage 1 \(baseline, resolution \[1\]\) the losses \(training "
                                 r"1e\+06, validation 1e\+06\) are more than 1000 times .* \(0\.3\d*\)")
        self.assertIn('set data.normalise.labels = "mean_std"', output)
        self.assertEqual(self.train("--set", "training.batch=8", ranks=2).count(self.WARNING), 1)
        # What does not say the labels' scale does not warn.
        self.assertNotIn(self.WARNING, self.train("--set", "training.loss=mae"))

    def test_sound_runs_are_quiet(self):
        self.assertNotIn(self.WARNING, self.train())
        self.scaled(1e6, 0)  # large, but around zero: no worse than answering the mean
        self.assertNotIn(self.WARNING, self.train())
        self.scaled(0, 5)  # constant labels have no variance
        self.assertNotIn(self.WARNING, self.train())


if __name__ == "__main__":
    support.main()
