"""jobs/experiments/planner/whole_samples.py at a small size: simulated volumes, trained on one rank and shared by two and by four, end
with the same losses, and the planner predicted their seconds. The rate is so large that a gradient which is wrong by a
tenth changes the losses by more than they may differ. The published figures are of 128^3, cubes too."""
import pathlib
import re
import subprocess
import sys

import support

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "experiments" / "planner" / "whole_samples.py"


class WholeSamples(support.MrmfTest):
    def test_volumes(self):
        done = subprocess.run([sys.executable, SCRIPT, "--work", self.folder, "--size", "16", "--levels", "3", "--epochs", "2",
                               "--threads", "1", "--seconds", "0.005", "--only", "volumes", "--rate", "1e-3", "--tolerance", "1e-5"],
                              capture_output=True, text=True, timeout=500, env=support.environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [re.split(r"\s{2,}", line.strip()) for line in done.stdout.splitlines()[1:]]
        self.assertEqual([row[1:3] for row in rows], [["1", "[1, 1, 1]"], ["2", "[2, 1, 1]"], ["4", "[2, 2, 1]"]])
        for name, _, _, apart, predicted, measured, _ in rows:
            self.assertEqual(name, "volumes 16^3")
            self.assertLess(float(apart), 1e-5)  # the script itself holds that they were shared
            self.assertGreater(float(predicted), 0)
            self.assertGreater(float(measured), 0)


if __name__ == "__main__":
    support.main()
