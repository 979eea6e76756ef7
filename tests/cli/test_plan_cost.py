"""What `mrmf plan` says that a run costs is what the run's records count: training, validation, batch norms' recalibration and
probes. So it is with what the baseline costs, beside which a saving is told."""
import json
import re
import unittest

import support

PRECISE = "training.precise_batch_norm=3"
TWO = ("method.name=mrmf", "method.resolutions=[[2],[1]]", "method.top=interpolated")
DENSE = ("method.name=mrmf", "method.resolutions=[[4],[2],[1]]", "method.stop.coarse.epochs=2", "method.stop.dense.epochs=1")


class PlanCost(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def words(self, keys):
        return ["config.toml", *(word for key in keys for word in ("--set", key))]

    def plan(self, *keys, ranks=0):
        return json.loads(self.mrmf("plan", "--json", *self.words(keys), ranks=ranks))

    def counted(self, *keys, ranks=0):
        """The run's arithmetic in GFLOP, by its records."""
        self.mrmf("train", "--overwrite", *self.words(keys), ranks=ranks)
        return sum(epoch["gflop"] for epoch in self.lines("run/epochs.jsonl"))

    def epoch(self):
        """Of the network as it is configured, at full resolution."""
        return self.counted("training.epochs=1")

    def test_it_is_what_the_run_counts(self):
        epoch = self.epoch()
        cases = {
            "plain": ((), 0),
            "baseline": ((PRECISE,), 0),
            "two ranks": ((PRECISE,), 2),
            "all of an epoch": (("training.precise_batch_norm=100",), 0),
            "may end after any epoch": ((*TWO, PRECISE, "training.early_stopping.patience=50"), 0),
            "dense models": ((*DENSE, PRECISE), 0),
            "behind a stem": ((*TWO, PRECISE, "method.top=stem"), 0),
            "a probe": ((*TWO, PRECISE, "method.switch=slope", "method.probe_epochs=2", "method.probe=0.5"), 0),
            "auto": (("method.name=auto", "training.epochs=6"), 0),
        }
        for name, (keys, ranks) in cases.items():
            with self.subTest(name):
                plan, counted = self.plan(*keys, ranks=ranks), self.counted(*keys, ranks=ranks) / epoch
                self.assertAlmostEqual(plan["cost_epochs"] / counted, 1, delta=0.01)
                self.assertTrue(plan["cost_complete"])
                extra = plan["statistics_cost_epochs"] + plan["probes_cost_epochs"]
                self.assertEqual(extra > 0.02 * counted, name != "plain", "nothing is left out that would not be seen")

    def test_the_saving_is_told_of_both_costs(self):
        keys = ("method.name=auto", "training.epochs=6", PRECISE)
        text, plan = self.mrmf("plan", *self.words(keys)), self.plan(*keys)
        baseline = self.counted("training.epochs=6", PRECISE) / self.epoch()
        self.assertAlmostEqual(plan["baseline_cost_epochs"] / baseline, 1, delta=0.01)
        self.assertGreater(baseline, 6.05)
        saved = 100 * (1 - plan["cost_epochs"] / plan["baseline_cost_epochs"])
        self.assertRegex(text, rf"baseline of training.epochs = 6: {baseline:.2f}, so {saved:.0f} % are saved")
        self.assertIn(f"; {plan['statistics_cost_epochs']:.2f} of them for the recalibration of batch norms\n", text)

    def test_it_says_what_it_leaves_out_where_no_data_tell_how_many_samples_there_are(self):
        def costs(*keys):
            text = self.mrmf("plan", "--sample", "64x3", *self.words(keys))
            return re.search(r"(?m)^cost: .*", text)[0]

        self.assertTrue(costs().endswith("on samples of 64x3"))
        self.assertTrue(costs(PRECISE).endswith("; without recalibration of batch norms, because the number of samples is not "
                                                "known (--samples)"))
        probes = costs(*TWO, "method.switch=slope")
        self.assertTrue(probes.endswith("; without probes, because the number of samples is not known (--samples)"))
        self.assertIn("cost: at most ", probes)

        def counted():
            return re.search(r"(?m)^cost: .*", self.mrmf("plan", "--sample", "64x3", "--samples", "64", *self.words((PRECISE,))))[0]

        self.assertIn("for the recalibration of batch norms", counted())
        self.assertNotIn("is not known", counted())

    def test_a_schedule_by_hand_is_set_beside_the_baseline(self):
        text = self.mrmf("plan", *self.words(TWO))
        cost, dear = self.plan(*TWO)["cost_epochs"], self.plan(*TWO, "method.top=dense")["cost_epochs"]
        self.assertIn(f"baseline of training.epochs = 3: 3.00, so {100 * (cost / 3 - 1):.0f} % more are spent\n", text)
        self.assertGreater(dear, cost)
        few = (*TWO, "method.stop.finetune.epochs=1")
        cost = self.plan(*few)["cost_epochs"]
        self.assertIn(f", so {100 * (1 - cost / 3):.0f} % are saved if both end at the same loss\n", self.mrmf("plan", *self.words(few)))
        self.assertNotIn("baseline of", self.mrmf("plan", *self.words(())))
        # Upper bounds, of the run alone and of both.
        stop = "method.stop.coarse={epochs=1,threshold=0.1,patience=1}"
        self.assertIn(" % are saved if both", self.mrmf("plan", *self.words((*few, stop))))
        self.assertIn("so at least ", self.mrmf("plan", *self.words((*few, stop))))
        both = self.mrmf("plan", *self.words((*few, "training.early_stopping.patience=1")))
        self.assertIn("baseline of training.epochs = 3: at most 3.00, and how much is saved depends on", both)

    def test_data_that_do_not_fit_the_network_are_told_before_training(self):
        words = self.words(("training.epochs=3",))
        self.mrmf("plan", *words)
        self.config(replace=[("units = 2", "units = 5")])
        for command in ("plan", "inspect", "train"):
            self.fails(2, command, *words, message="5")
        for more in ((), ("--headers",)):
            self.assertIn("advice: the model does not fit the data: ", self.mrmf("data", *words, *more))


if __name__ == "__main__":
    support.main()
