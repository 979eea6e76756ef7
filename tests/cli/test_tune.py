"""`mrmf tune`: many trials coarse, few at full resolution; the same on any number of ranks; a second call continues."""
import json
import os
import re
import subprocess
import unittest

import numpy as np
import support


class Tune(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def tune(self, folder, *more, ranks=0):
        return self.mrmf("tune", "config.toml", "--rates", "1e-4,3e-3,1e9", "--batches", "16", "--folder", folder, *more,
                         ranks=ranks)

    def trials(self, output):
        return [line.split() for line in output.splitlines() if re.match(r" +[0-9.e+-]+ +16 ", line)]

    def test_the_best_of_the_coarse_trials_are_tried_at_full_resolution(self):
        output = self.tune("one")
        trials = self.trials(output)
        self.assertEqual(len(trials), 6)  # three rates by two rules
        self.assertEqual(trials[0][0], "0.003")
        finest = max(len(trial) for trial in trials)
        reached = [trial for trial in trials if len(trial) == finest]
        self.assertEqual(len(reached), 2)
        self.assertLess(float(reached[0][-1]), float(reached[1][-1]))
        self.assertNotIn("1e+09", [trial[0] for trial in reached])  # it diverges
        self.assertRegex(output, r"order of .*: 2 trials are too few to say\n")

        # What it found can be trained, and ends where the trial ended.
        self.mrmf("train", "one/best.toml", "--set", "method.name=baseline")
        result = json.loads(self.read("run/result.json"))
        self.assertEqual(f"{result['validation_loss']:.5g}", trials[0][-1])

        self.assertEqual(self.trials(self.tune("three", ranks=3)), trials)

    def test_the_price_is_printed_before_the_first_trial(self):
        words = ("--rules", "linear", "--rates", "1e-3,2e-3,3e-3,4e-3,5e-3,6e-3")
        output = self.mrmf("tune", "config.toml", "--batches", "16", "--folder", "one", *words)
        price, trained = output.split("1 of 3 rungs: ")
        self.assertTrue(price.startswith("6 trials (6 rates x 1 batch x 1 rule); costs are in epochs at full resolution"))
        rungs = re.findall(r"  rung (\d) of 3: +(\d+) trials of (\d+) epochs at resolution (\S+), ([\d.]+) each, ([\d.]+) in all\n",
                           price)
        self.assertEqual([rung[:4] for rung in rungs], [("1", "6", "3", "[4]"), ("2", "2", "3", "[2]"), ("3", "2", "3", "[1]")])
        self.assertEqual(rungs[2][4:], ("3.0", "6.0"))
        cost, full = re.search(r"cost: ([\d.]+); all trials at full length would cost ([\d.]+)\n$", price).groups()
        self.assertAlmostEqual(float(cost), sum(float(rung[5]) for rung in rungs), delta=0.15)
        self.assertEqual(full, "18.0")

        # A dry run prints that alone, and writes nothing.
        self.assertEqual(self.mrmf("tune", "config.toml", "--batches", "16", "--folder", "two", "--dry-run", *words), price)
        self.assertFalse(os.path.exists(self.path("two")))
        precise = self.mrmf("tune", "config.toml", "--batches", "16", "--dry-run", "--set", "training.precise_batch_norm=2", *words)
        self.assertEqual(precise, price + "the recalibration of batch norms comes on top (training.precise_batch_norm)\n")
        found = json.loads(self.mrmf("tune", "config.toml", "--batches", "16", "--dry-run", "--json", *words))
        self.assertEqual([rung["trials"] for rung in found["rungs"]], [6, 2, 2])
        self.assertAlmostEqual(found["cost_epochs"], sum(rung["trials"] * rung["cost_epochs"] for rung in found["rungs"]))
        self.assertEqual(found["full_length_cost_epochs"], 18)

    def test_few_trials_are_trained_at_full_resolution_alone(self):
        words = ("tune", "config.toml", "--rules", "linear", "--rates", "1e-3,3e-3", "--dry-run")
        price = self.mrmf(*words, "--batches", "16")
        self.assertIn("  rung 1 of 1:   2 trials of 3 epochs at resolution [1], 3.0 each, 6.0 in all\n", price)
        self.assertTrue(price.endswith("cost: 6.0; so few trials are all trained in full\n"), price)

    def test_batches_that_cannot_be_are_refused_before_the_price(self):
        words = ("tune", "config.toml", "--dry-run")
        self.fails(2, *words, "--batches", "100000", message="larger than the 96 training samples")
        self.fails(2, *words, "--batches", "15", "--set", "run.ranks=2", message="give a multiple of 2")

    def test_many_trials_end_with_five_at_full_resolution_and_an_agreement(self):
        words = ("tune", "config.toml", "--set", "training.epochs=2", "--folder", "one", "--json", "--overwrite")
        done = subprocess.run(support.command(words), cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env=support.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("24 trials (4 rates x 3 batches x 2 rules)", done.stderr)  # and not on standard output
        found = json.loads(done.stdout)
        self.assertEqual([rung["trials"] for rung in found["rungs"]], [24, 8, 5])
        best = [trial["losses"] for trial in found["trials"] if len(trial["losses"]) == 3]
        self.assertEqual(len(best), 5)
        places = np.argsort(np.argsort(np.array(best), axis=0), axis=0)
        output = self.mrmf(*(word for word in words if word != "--json"))  # trains nothing again
        for rung in (0, 1):
            agreement = np.corrcoef(places[:, rung], places[:, 2])[0, 1]
            self.assertAlmostEqual(found["rungs"][rung]["agreement"], agreement)
            self.assertIn(f"against [1] x 2: Spearman {agreement:.2f} over 5 trials\n", output)
        self.assertRegex(output, r"order of \[4\] x 2 against \[2\] x 2: Spearman -?\d\.\d\d over 8 trials\n")
        help_text = self.mrmf("tune", "--help")
        self.assertIn("24 trials by default (4 rates x 3 batches x 2 rules)", help_text)

    def test_early_stopping_ends_no_trial(self):
        words = ("--rules", "linear")
        trials = self.trials(self.tune("one", *words))
        self.assertEqual(self.trials(self.tune("early", *words, "--set", "training.early_stopping.patience=1", "--set",
                                               "training.early_stopping.least_change=0.9")), trials)
        self.assertGreater(len(trials), 1)

    def test_a_second_call_goes_on(self):
        output = self.tune("one")
        kept = {name: os.stat(self.path("one/" + name)).st_mtime_ns for name in os.listdir(self.path("one"))}
        gone = sorted(name for name in kept if name.startswith("trial-"))[0]
        os.unlink(self.path("one/" + gone))
        self.fails(2, *"tune config.toml --folder one".split(), message="--overwrite")
        again = self.tune("one", "--overwrite")
        self.assertEqual(self.trials(again), self.trials(output))
        for name, time in kept.items():
            if name not in (gone, "best.toml"):
                self.assertEqual(os.stat(self.path("one/" + name)).st_mtime_ns, time, name)
        with open(self.path("one/" + gone), "w") as file:
            file.write("{}")
        self.fails(3, "tune", "config.toml", "--rates", "1e-4,3e-3,1e9", "--batches", "16", "--folder", "one", "--overwrite",
                   message="trained again")


if __name__ == "__main__":
    support.main()
