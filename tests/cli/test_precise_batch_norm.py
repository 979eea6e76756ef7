"""training.precise_batch_norm: recalibration where a phase may end, the same on any number of ranks and however read."""
import unittest

import numpy as np
import support

PRECISE = ("--set", "training.precise_batch_norm=3")


class PreciseBatchNorm(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def losses(self, folder, *more, ranks=0):
        self.mrmf("train", "config.toml", "--set", f"run.folder={folder}", *more, ranks=ranks)
        return [epoch["validation_loss"] for epoch in self.lines(folder + "/epochs.jsonl")]

    def test_it_changes_the_validation_at_the_end_and_costs_a_forward(self):
        without, precise = self.losses("without"), self.losses("with", *PRECISE)
        self.assertEqual(precise[:-1], without[:-1])
        self.assertNotEqual(precise[-1], without[-1])
        gflop = [epoch["gflop"] for epoch in self.lines("with/epochs.jsonl")]
        self.assertEqual(gflop[0], gflop[1])
        self.assertGreater(gflop[2], gflop[1])
        self.assertLess(gflop[2], 1.4 * gflop[1])
        # They are no part of what an epoch costs where a cost is told in epochs.
        last = self.lines("with/epochs.jsonl")[2]
        self.assertAlmostEqual(last["gflop"] - last["statistics_gflop"], gflop[0])
        table = self.mrmf("compare", "with")
        self.assertRegex(table, rf"cost in full-resolution epochs +{sum(gflop) / gflop[0]:.2f}")
        self.assertIn(f"{precise[-1]:.4f}"[:6], self.mrmf("evaluate", "with"))
        # A phase that may end after any epoch takes them before every validation.
        early = self.losses("early", *PRECISE, "--set", "method.target.validation_loss=1e-9")
        self.assertNotEqual(early[0], without[0])
        self.assertEqual(early[-1], precise[-1])

    def test_ranks_and_reading_do_not_change_it(self):
        one = self.losses("one", *PRECISE, "--set", "data.shards=6", "--set", "training.batch=48")
        three = self.losses("three", *PRECISE, "--set", "data.shards=6", ranks=3)
        np.testing.assert_allclose(three[-1], one[-1], rtol=1e-5)
        # Before, running statistics lag behind biases that a norm takes away, which Adam moves by signs of roundings.
        np.testing.assert_allclose(three[:-1], one[:-1], rtol=2e-2)
        self.assertEqual(self.losses("stream", *PRECISE, "--set", "data.load=stream"), self.losses("memory", *PRECISE))

    def test_deterministic_runs_have_the_same_bits(self):
        for kind in ("global", "local"):
            words = (*PRECISE, "--set", "data.shards=6", "--set", "run.deterministic=true", "--set",
                     f"training.batch_norm={kind}")
            one = self.losses("one" + kind, *words, "--set", "training.batch=48")
            self.assertEqual(self.losses("three" + kind, *words, ranks=3), one)


if __name__ == "__main__":
    support.main()
