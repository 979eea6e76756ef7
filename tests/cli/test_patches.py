"""data.patch: training on random boxes of volumes, and windows over whole ones that are exact where the network allows."""
import json
import os
import shutil
import unittest.mock

import h5py
import numpy as np
import support

SIZE, N = (24, 20, 16), 8

# One halving: what a position depends on reaches 4 positions to either side.
NETWORK = support.layers('conv name="a" filters=3 kernel=[3,3,3] padding="same"', 'relu name="first"', "max_pool window=[2,2,2]",
                         'conv filters=4 kernel=[3,3,3] padding="same"', "relu", 'upsample name="up" factor=[2,2,2]',
                         'concat from=["first","up"]', 'conv filters=3 kernel=[1,1,1]')

CONFIG = """
[data]
files = ["data.h5"]
train = { samples = "x", labels = "y" }
split = { by = "rows", validation = 0.25 }
PATCH
[training]
loss = ["cross_entropy", "dice"]
batch = 4
epochs = 2
[run]
folder = "run"
threads = 1
""" + NETWORK


class Patches(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(0)
        mask = np.zeros((N, *SIZE), "u1")
        for i in range(N):  # masks of 2 % and 1 %
            for c, width in ((1, 5), (2, 4)):
                at = [rng.integers(0, size - width) for size in SIZE]
                mask[i][tuple(slice(a, a + width) for a in at)] = c
        self.mask = mask
        with h5py.File(self.path("data.h5"), "w") as file:
            file["x"] = (mask + rng.normal(0, 0.3, mask.shape)).astype("f4")[..., None]
            file["y"], file["number"] = mask, np.arange(N)
            file["one"] = np.arange(N) % 3
            file["field"] = rng.normal(0, 1, mask.shape).astype("f4")[..., None]

    def config(self, patch="patch = [16, 16, 16]", name="c.toml", more=()):
        text = CONFIG.replace("PATCH", patch)
        for before, after in more:
            assert before in text, before
            text = text.replace(before, after)
        self.write(name, text)
        return name

    def train(self, *sets, ranks=0):
        self.mrmf("train", "c.toml", "--overwrite", *(word for one in sets for word in ("--set", one)), ranks=ranks)
        return [[line["train_loss"], line["validation_loss"], line["validation_dice"]] for line in self.lines("run/epochs.jsonl")]

    def scores(self, *words):
        return json.JSONDecoder().raw_decode(self.mrmf("evaluate", "run", "--json", *words))[0]

    def predictions(self, *words):
        self.mrmf("predict", "run", "-o", "p.h5", "--overwrite", *words)
        with h5py.File(self.path("p.h5")) as file:
            return file["prediction"][:]

    def test_windows_are_exact_against_the_whole_volume(self):
        self.config()
        epochs = self.train("training.epochs=1")
        parts, scores = self.predictions(), self.scores()
        self.assertAlmostEqual(scores["loss"], epochs[-1][1], delta=1e-5)  # validation goes over the same windows
        self.assertAlmostEqual(scores["dice"], epochs[-1][2], delta=1e-6)
        self.config("", "whole.toml", [('folder = "run"', 'folder = "whole"'), ("epochs = 2", "epochs = 1")])
        self.mrmf("train", "whole.toml", "--set", "model.start=run", "--set", "training.optimizer.learning_rate=1e-30")
        self.mrmf("predict", "whole", "-o", "w.h5")
        with h5py.File(self.path("w.h5")) as file:
            whole = file["prediction"][:]
        np.testing.assert_allclose(parts, whole, atol=2e-5)
        # Windows that overlap by less than the network looks are smooth, and not the same.
        near = np.abs(self.close(0.25) - whole).max()
        self.assertGreater(near, 1e-3)
        self.assertLess(near, np.abs(whole).max())

    def close(self, overlap):
        self.config(f"patch = [12, 12, 12]\npatch_overlap = {overlap}", more=[("epochs = 2", "epochs = 1")])
        self.mrmf("train", "c.toml", "--overwrite", "--set", "model.start=whole", "--set", "training.optimizer.learning_rate=1e-30")
        return self.predictions()

    def test_boxes_are_the_same_in_memory_streamed_and_on_any_ranks(self):
        self.config("patch = [16, 16, 12]\npatch_foreground = 0.5")
        losses = [self.train("data.shards=2", f"training.batch={batch}", f"data.load={load}", ranks=ranks)
                  for ranks, batch in ((0, 4), (2, 2)) for load in ("memory", "stream")]
        for other in losses[1:]:
            np.testing.assert_allclose(other, losses[0], rtol=2e-4)
        self.assertNotEqual(losses[0], self.train("data.shards=2", "training.seed=9"))
        resumed = self.train("data.shards=2", "training.epochs=1")
        self.mrmf("train", "--continue", "run", "--set", "training.epochs=2")
        self.assertEqual(resumed[0], losses[0][0])
        self.assertEqual(self.lines("run/epochs.jsonl")[1]["train_loss"], losses[0][1][0])

    def test_ranks_that_share_samples_share_boxes_and_windows(self):
        self.config("patch = [16, 16, 12]\npatch_foreground = 0.5")
        alone = self.train("data.shards=2")
        whole = self.predictions()
        for ranks, grid, batch, load in ((2, "[2, 1, 1]", 4, "memory"), (2, "[1, 1, 2]", 4, "stream"),
                                         (4, "[2, 2, 1]", 4, "stream"), (4, "[1, 2, 1]", 2, "memory")):
            shared = self.train("data.shards=2", f"run.grid={grid}", f"training.batch={batch}", f"data.load={load}",
                                ranks=ranks)
            np.testing.assert_allclose(shared, alone, rtol=2e-4, err_msg=f"{grid} of {ranks} ranks, {load}")
            np.testing.assert_allclose(self.predictions(), whole, atol=2e-3)

    def test_shared_boxes_with_norms_over_positions_and_at_a_lower_resolution(self):
        """Norms see the whole box on any grid, boxes are mirrored before they are cut, and each stage may have its own grid."""
        self.config("patch = [8, 8, 8]\naugment.flip = [0, 2]", more=[
            ("[run]", '[method]\nname = "mrmf"\nresolutions = [[2, 2, 2], [1, 1, 1]]\ntop = "interpolated"\n[run]'),
            ('upsample"\nname', 'group_norm"\ngroups = 2\n[[model.layers]]\ntype = "upsample"\nname')])
        alone = self.train("data.shards=2", "training.batch=4")
        np.testing.assert_allclose(self.train("data.shards=2", "run.grid=[2, 1, 1]", ranks=2), alone, rtol=5e-4)
        # Without a grid, two ranks have half of a batch each.
        own = self.train("data.shards=2", "run.grid=[[1, 1, 1], [1, 2, 1]]", "method.coarse.batch=2", ranks=2)
        np.testing.assert_allclose(own, alone, rtol=5e-4)

    def test_an_epoch_covers_each_volume_once(self):
        self.config("patch = [12, 10, 8]")
        self.train("training.epochs=1")
        self.assertIn("boxes at [1,1,1]: 8 of 12x10x8x1 of each sample in an epoch; whole samples are seen in", self.read("run/log.txt"))
        self.assertEqual(self.lines("run/epochs.jsonl")[0]["samples"], 6 * 2 * 2 * 2)

    def test_foreground_is_drawn_more_often(self):
        """A model of one number learns the classes' shares in the boxes."""
        shares = []
        for foreground in 0, 1:
            self.config(f"patch = [8, 8, 8]\npatch_foreground = {foreground}", more=[
                (NETWORK, support.layers("conv filters=3 kernel=[1,1,1]")), ('["cross_entropy", "dice"]', '"cross_entropy"')])
            self.train("training.epochs=30", "training.optimizer.learning_rate=0.05", "data.normalise.samples=mean_std",
                       "data.normalise.sample_mean=0", "data.normalise.sample_std=1e9")
            with_bias = self.predictions("--files", "data.h5", "--samples", "x")[0, 0, 0, 0]
            p = np.exp(with_bias) / np.exp(with_bias).sum()
            shares.append(1 - p[0])
        self.assertAlmostEqual(shares[0], np.mean(self.mask > 0), delta=0.015)
        self.assertGreater(shares[1], 2 * shares[0])

    def test_coarse_volumes_need_fewer_windows(self):
        self.config("patch = [8, 8, 8]\npatch_foreground = 0.3", more=[("[run]", '[method]\nname = "mrmf"\nresolutions = [[2, 2, 2], '
                                                                      '[1, 1, 1]]\ntop = "interpolated"\n[run]'), ("epochs = 2", "epochs = 1")])
        for load, averaging in (("memory", "load"), ("memory", "epoch"), ("stream", "load"), ("stream", "epoch")):
            self.train(f"data.load={load}", f"data.averaging={averaging}")
            epochs = self.lines("run/epochs.jsonl")
            if load == "memory" and averaging == "load":
                first = epochs
            coarse = [line for line in epochs if line["resolution"] == [2, 2, 2]]
            fine = [line for line in epochs if line["resolution"] == [1, 1, 1]]
            self.assertEqual(coarse[0]["samples"], 6 * 2 * 2 * 1)  # volumes of 12 x 10 x 8
            self.assertEqual(fine[0]["samples"], 6 * 3 * 3 * 2)
            for one, other in zip(first, epochs):
                self.assertAlmostEqual(one["validation_loss"], other["validation_loss"], delta=1e-4)
        self.predictions()

    def test_fields_of_numbers_and_channels_first(self):
        with h5py.File(self.path("data.h5"), "a") as file:
            file["first"] = np.moveaxis(file["x"][:], -1, 1)
        fields = [('["cross_entropy", "dice"]', '"mse"'), ('labels = "y"', 'labels = "field"'), 
                  ("filters = 3\nkernel = [1,1,1]", "filters = 1\nkernel = [1,1,1]")]
        self.config(more=fields)
        losses = []
        for load in "memory", "stream":
            self.mrmf("train", "c.toml", "--overwrite", "--set", f"data.load={load}")
            losses.append(self.lines("run/epochs.jsonl")[-1]["validation_loss"])
            self.mrmf("train", "c.toml", "--overwrite", "--set", f"data.load={load}", "--set", "data.train.samples=first", "--set",
                      'data.axes="n c d h w"')
            losses.append(self.lines("run/epochs.jsonl")[-1]["validation_loss"])
        np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
        self.fails(2, "train", "c.toml", "--overwrite", "--set", "data.patch_foreground=0.5", message="data.patch_foreground goes with labels")

    def test_bad_input_has_one_clear_line(self):
        for patch, message in (("patch = [32, 16, 16]", "data.patch = [32, 16, 16] is larger than samples of 24x20x16x1 along axis 0; use at most 24"),
                               ("patch = [15, 16, 16]", "15 is no multiple of 2; use 16 or 14"),
                               ("patch = [16, 16]", "has 2 entries, and samples of 24x20x16x1 have 3 axes"),
                               ("patch = [16, 16, 0]", "data.patch"),
                               ("patch = [16, 16, 16]\npatch_overlap = 1.0", "patch_overlap"),
                               ("patch_foreground = 0.5", "set their size")):
            self.fails(2, "train", self.config(patch), message=message)
        self.fails(2, "train", self.config(), "--set", "data.train.labels=one", message="have other positions")

    def test_a_volume_that_one_rank_cannot_read_ends_those_that_share_it(self):
        """They wait for each other's edges within a window."""
        self.config(more=[('split = { by = "rows", validation = 0.25 }', 'validation = { files = ["more.h5"], samples = "x", labels = "y" }')])
        shutil.copy(self.path("data.h5"), self.path("more.h5"))
        with h5py.File(self.path("more.h5"), "a") as file:
            file["x"][:] *= 1.5  # no rows of the training data
        # So little memory that no volume stays in it: validation reads again in every epoch, and in the end one rank cannot.
        sets = "data.load=stream", "data.memory=0.001", "run.grid=[2, 1, 1]", "training.batch=1", "training.epochs=100000"
        library = os.path.join(os.path.dirname(support.MRMF), "tests", "libfault_shim.so")
        self.assertTrue(os.path.exists(library))
        with unittest.mock.patch.dict(os.environ, LD_PRELOAD=library, MRMF_FAULT_PROGRAM="mrmf",
                                      MRMF_FAULT="call=read,match=*/more.h5,rank=1,nth=80,times=0,action=fail,errno=5"):
            process = self.launch("train", "c.toml", *(word for one in sets for word in ("--set", one)), ranks=2)
        output = process.communicate(timeout=100)[0]
        self.assertEqual(process.returncode, 3, output)
        self.assertIn("more.h5", output)
        self.assertGreater(self.epochs_written("run"), 0)


if __name__ == "__main__":
    support.main()
