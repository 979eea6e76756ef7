"""`mrmf tune`: many trials coarse, few at full resolution; the same on any number of ranks; a second call goes on."""
import json
import os
import re
import unittest

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
        self.assertRegex(output, r"cost: \d+\.\d epochs at full resolution by arithmetic; all trials at full length: 18.0")

        # What it found can be trained, and ends where the trial ended.
        self.mrmf("train", "one/best.toml", "--set", "method.name=baseline")
        result = json.loads(self.read("run/result.json"))
        self.assertEqual(f"{result['validation_loss']:.5g}", trials[0][-1])

        self.assertEqual(self.trials(self.tune("three", ranks=3)), trials)

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
