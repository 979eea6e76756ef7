"""run.deterministic with data.shards, on the CPU: the same bits on any number of ranks and threads."""
import unittest

import h5py

import support
import test_cosmology as cosmology

DETERMINISTIC = ["--set", "run.deterministic=true", "--set", "data.shards=12"]


class ShardReplicas(support.MrmfTest):
    def train(self, run, *words, ranks, batch=24):
        """Losses of every epoch and every array of the model; `batch` over all ranks."""
        output = self.mrmf("train", "config.toml", "--set", f"run.folder={run}", "--set",
                           f"training.batch={batch // ranks}", *DETERMINISTIC, *words, ranks=ranks)
        self.assertIn("each of 12 shards is computed by itself", output)
        arrays = {}
        with h5py.File(self.path(run + "/checkpoints/final.h5")) as model:
            model.visititems(lambda name, item: arrays.update({name: item[()].tobytes()})
                             if isinstance(item, h5py.Dataset) and item.dtype == "float32" else None)
        self.assertGreater(len(arrays), 5)
        return [(e["train_loss"], e["validation_loss"]) for e in self.lines(run + "/epochs.jsonl")], arrays

    def same_on(self, more, *words, batch=24):
        one = self.train("r1", *words, ranks=1, batch=batch)
        for ranks in more:
            with self.subTest(ranks=ranks):
                losses, arrays = self.train(f"r{ranks}", *words, ranks=ranks, batch=batch)
                self.assertEqual(losses, one[0])
                self.assertEqual(arrays, one[1])
        return one

    def test_two_fusions_on_one_to_four_ranks_and_three_threads(self):
        # Uneven shards (96 = 12 * 8 would not do), a smaller last batch, dropout, and Adam, which lets nothing pass.
        support.make_data(self.path("data.h5"), train=103, validation=41)
        self.config(replace=[support.MRMF_METHOD])
        one = self.same_on((4,))  # on three, below
        self.assertEqual(self.train("t3", "--set", "run.threads=3", ranks=2), one)
        # What is asked for is more than the usual run gives.
        usual = {}
        for ranks in (1, 2):
            self.mrmf("train", "config.toml", "--set", f"run.folder=u{ranks}", "--set", f"training.batch={24 // ranks}",
                      "--set", "data.shards=12", ranks=ranks)
            usual[ranks] = [e["train_loss"] for e in self.lines(f"u{ranks}/epochs.jsonl")]
        self.assertNotEqual(usual[1], usual[2])

    def test_local_batch_norm_reference_backend_and_streamed_samples(self):
        support.make_data(self.path("data.h5"), train=103, validation=41)
        self.config(replace=[support.MRMF_METHOD])
        self.same_on((3,), "--set", "training.batch_norm=local", batch=36)  # two rows of a shard at least
        one = self.train("m1", "--set", "run.backend=reference", ranks=1)
        self.assertEqual(self.train("m3", "--set", "run.backend=reference", "--set", "data.load=stream", ranks=3), one)

    def test_cubes_with_batch_norm(self):
        # The input's batch norm with its convolution, and batch norm, ReLU and pooling in one pass. Most shards have no
        # validation sample.
        cosmology.make_cubes(self.folder, counts=(11, 5, 7, 4, 3))
        self.write("config.toml", cosmology.CONFIG + cosmology.LAYERS)
        self.same_on((3,), "--set", "method.name=mrmf", "--set", "method.resolutions=[[2,2,2],[1,1,1]]", "--set",
                     "training.loss=mae", batch=12)

    def test_teams_of_equal_batches_are_equal(self):
        support.make_data(self.path("data.h5"), train=103, validation=41)
        self.config(replace=[support.MRMF_METHOD])
        words = ["--set", "method.teams=concurrent", "--set", "method.team_shares=[1, 1]"]
        self.assertEqual(self.train("r4", *words, ranks=4), self.train("r2", *words, ranks=2))

    def test_shards_that_the_ranks_cannot_share_are_refused(self):
        support.make_data(self.path("data.h5"))
        self.config()
        self.fails(2, "train", "config.toml", *DETERMINISTIC, ranks=5,
                   message="data.shards = 12 is not a multiple of the 5 ranks; use a multiple")


if __name__ == "__main__":
    support.main()
