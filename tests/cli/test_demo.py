"""`make demo`'s script on few samples: it simulates, trains, compares and draws, and its last lines say what was saved."""
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import support

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = "jobs/experiments/demo/run.sh"
# A batch of the neurons is 64, of the cubes 16, and four of five samples train.
SAMPLES = "80"
METHODS = ("baseline", "one-fusion", "auto")


@unittest.skipIf(importlib.util.find_spec("matplotlib") is None, "no matplotlib")
class Demo(support.MrmfTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(ROOT / "jobs", self.path("jobs"), ignore=shutil.ignore_patterns("__pycache__"))
        os.symlink(ROOT / "docs", self.path("docs"))
        text = self.read(SCRIPT)
        for epochs, fewer in (("cosmology --samples ${SAMPLES:-1280}", "cosmology --samples 20"),
                              ("[cubes]=10 [neuron]=6", "[cubes]=3 [neuron]=3"), ("coarse.epochs=8", "coarse.epochs=2"),
                              ("coarse.epochs=6", "coarse.epochs=2"), ("finetune.epochs=3", "finetune.epochs=2")):
            self.assertIn(epochs, text)
            text = text.replace(epochs, fewer)
        self.write(SCRIPT, text)

    def demo(self, code=0, **variables):
        done = subprocess.run([self.path(SCRIPT), os.path.dirname(support.MRMF)], capture_output=True, text=True, timeout=500,
                              check=False, env=dict(support.environment(), FOLDER=self.folder, SAMPLES=SAMPLES, **variables))
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_both_applications_are_trained_three_ways_and_the_last_lines_say_what_was_saved(self):
        output = self.demo()
        for application in ("cubes", "neuron"):
            for method in METHODS:
                self.assertIn(f"== {application}: {method}\n", output)
                self.assertTrue(os.path.exists(self.path(f"{application}-{method}-1/result.json")))
            self.assertTrue(os.path.getsize(self.path(application + ".png")) > 1000)
            self.assertIn("cost in full-resolution epochs", self.read(application + ".txt"))
        head, bounds, *saved = output[output.index("What was saved"):].splitlines()
        self.assertEqual(head, "What was saved, against baselines of other lengths (docs/results/map).")
        self.assertTrue(bounds.startswith(">=: no baseline ends as low"))
        line = r"%s: (?:[<>]= )?-?\d+\.\d %% of the arithmetic saved at equal loss\. \d+\.\d\d epochs at full resolution end at 0\.\d+; .+"
        for found, wanted in zip(saved, ("cubes, MRMF, 1 fusion", "cubes, auto", "neuron, MRMF, 1 fusion", "neuron, auto"),
                                 strict=True):
            self.assertRegex(found, "^" + line % re.escape(wanted) + "$")

    def test_an_unknown_method_is_refused(self):
        self.assertIn("demo: no method 'other'", self.demo(code=1, DEMO="neuron", METHODS="other"))


if __name__ == "__main__":
    support.main()
