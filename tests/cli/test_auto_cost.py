"""What method.name = "auto" plans costs less than the baseline by the cost that `mrmf plan` prints, batch norms' recalibration
included, whatever the size of the data; and a run plans the same."""
import json
import unittest

import support


class AutoCost(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=64, validation=16)
        self.config(replace=[('name = "baseline"', 'name = "auto"')])

    def plan(self, *keys, ranks=0):
        words = [word for key in keys for word in ("--set", key)]
        return json.loads(self.mrmf("plan", "--json", "config.toml", *words, ranks=ranks))

    def test_a_plan_is_never_dearer_than_the_baseline_and_a_run_follows_it(self):
        methods = {}
        for epochs in range(1, 13):
            plan = self.plan(f"training.epochs={epochs}")
            methods[epochs] = plan["method"]
            with self.subTest(epochs=epochs):
                self.assertEqual(plan["cost_epochs"] < plan["baseline_cost_epochs"], plan["method"] != "baseline")
                self.assertLessEqual(plan["cost_epochs"], plan["baseline_cost_epochs"])
        self.assertEqual({methods[1], methods[12]}, {"baseline", "mrmf"})
        last = max(epochs for epochs, method in methods.items() if method == "baseline")
        for epochs in (last, last + 1):
            self.mrmf("train", "config.toml", "--overwrite", "--set", f"training.epochs={epochs}")
            self.assertEqual(json.loads(self.read("run/plan.json"))["method"], methods[epochs])
        reasons = self.plan(f"training.epochs={last}")["auto"]["reasons"]
        self.assertIn("and the baseline", reasons[0])

    def test_the_cost_of_statistics_does_not_grow_with_the_ranks(self):
        support.make_data(self.path("data.h5"), train=2048, validation=16, length=32)
        costs = [self.plan("training.epochs=10", f"run.ranks={ranks}")["statistics_cost_epochs"] for ranks in (1, 2, 4, 8)]
        self.assertGreater(costs[0], 0.05)
        for cost in costs[1:]:
            self.assertAlmostEqual(cost, costs[0], delta=1e-6)
        self.assertIn("precise_batch_norm = 4\n", self.mrmf("plan", "--toml", "config.toml", "--set", "run.ranks=8"))

    def test_planned_ranks_with_another_batch_are_compared_with_it(self):
        support.make_data(self.path("data.h5"), train=256, validation=16, length=32)
        for batch in ("64", "256"):
            for epochs in (3, 4, 5, 6, 8):
                plan = json.loads(self.mrmf("plan", "--json", "config.toml", "--set", f"training.epochs={epochs}", "--ranks", "4",
                                            "--machine", "a100", "--batch", batch))
                self.assertLessEqual(plan["cost_epochs"], plan["baseline_cost_epochs"])


if __name__ == "__main__":
    support.main()
