"""The scripts behind docs/results/map.md and lab.md on a few samples: runs are made once, data part by part, records make
another machine's folders, and the page tells fitted problems from those that are held out."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import support

SOURCE = pathlib.Path(__file__).resolve().parents[2]
# The cubes of 128^3 in small, in parts of ten; fields of 32x32.
SMALL = (("cosmoflow/workstation-128.toml", "demo/cubes.toml"), ('"--size", "128", "--box", "512"', '"--size", "32"'),
         ("part=40", "part=10"), ('"heat"), 2, stem', '"heat", "--size", "32"), 2, stem'), ('("neuron", 16000)', '("heat", 40)'))
DRAWS = unittest.skipIf(importlib.util.find_spec("matplotlib") is None, "no matplotlib")


class Map(support.MrmfTest):
    def setUp(self):
        super().setUp()
        shutil.copytree(SOURCE / "jobs", self.path("jobs"), ignore=shutil.ignore_patterns("__pycache__"))
        problems = pathlib.Path(self.path("jobs/experiments/map/problems.py"))
        text = problems.read_text()
        for old, new in SMALL:
            self.assertIn(old, text)
            text = text.replace(old, new)
        problems.write_text(text)
        results = pathlib.Path(self.path("docs/results"))
        results.mkdir(parents=True)
        (results / "lab.md").write_text("# The laboratory\n\n<!-- tables: jobs/experiments/lab/tables.py writes what follows -->\n")

    def script(self, script, *words, settings=""):
        if settings:
            self.write("settings.txt", settings)
            words = (*words, "--settings", self.path("settings.txt"))
        done = subprocess.run([sys.executable, self.path(f"jobs/experiments/{script}"), "--folder", self.path("runs"), "--mrmf",
                               support.MRMF, *words], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def page(self, settings):
        """The map of these runs, of which those that are missing are made."""
        self.script("map/run.py", settings=settings)
        self.script("map/report.py", settings=settings)
        return self.read("docs/results/map.md")

    def write(self, name, text):
        pathlib.Path(self.path(name)).write_text(text)

    def read(self, name):
        return pathlib.Path(self.path(name)).read_text()

    def times(self, pattern):
        return {str(file): file.stat().st_mtime_ns for file in pathlib.Path(self.path("runs")).rglob(pattern)}

    def test_data_come_part_by_part_and_runs_once(self):
        settings = "cosmoflow128 20 auto 3 1\n"
        self.assertEqual(self.script("map/run.py", "--data-only", settings=settings), "")
        files = self.times("*.h5")
        self.assertEqual(len(files), 6)  # two parts, a file for each split
        os.remove(self.path("runs/data/cosmoflow128-20/part-2.done"))  # as if it was killed there
        self.assertIn("auto-3-seed1", self.script("map/run.py", settings=settings))
        for name, time in self.times("part-*/*.h5").items():
            self.assertEqual(files[name] != time, "part-2" in name, name)
        config = self.read("runs/cosmoflow128-20/auto-3-seed1/config.toml")
        for part in (1, 2):
            self.assertEqual(config.count(f"cosmoflow128-20/part-{part}/"), 2)  # training and validation
        self.assertEqual(self.script("map/run.py", settings=settings), "")

    @DRAWS
    def test_records_stand_for_folders_and_the_page_has_two_parts(self):
        settings = "heat 40 baseline 1,2 1\nheat 40 auto 4 1\nheat 50 baseline 1,2 1\nheat 50 auto,paper,2f1 4 1\n"
        self.script("map/run.py", settings=settings)
        shutil.rmtree(self.path("runs"))
        self.assertEqual(self.script("map/run.py", settings=settings), "")
        page = self.page(settings)
        before, fitted, held_out = page.replace("## Held-out problems", "## Problems").split("## Problems")
        row = r"\| not looked \| [0-9.]+ \| 1 \| [^|]+ \| – \| – \|"
        self.assertRegex(before, r"\| heat \| 40 \| fitted \| 4 " + row + r" not run \|")
        self.assertRegex(before, r"\| heat \| 50 \| held out \| 4 " + row + r" ([^|]+ %|none: [^|]+) \|")
        self.assertIn("### heat, 40 samples", fitted)
        self.assertNotIn("### heat, 50 samples", fitted)
        self.assertIn("### heat, 50 samples", held_out)
        self.assertRegex(held_out, r"\| 2f1 \| ")
        self.assertNotIn("### heat, 40 samples", held_out)

    @DRAWS
    def test_the_page_says_what_auto_plans_and_how_far_it_ends_from_the_baseline(self):
        settings = "heat 50 baseline 1,2 1,2\nheat 50 auto 2 1,2\n"
        self.page(settings)
        self.assertIn("heat,50,,,coarse first\n", self.read("docs/results/map/details.csv"))  # so few tell nothing
        self.assertIn("| heat | 50 | held out | 2 | coarse first | ", self.read("docs/results/map.md"))
        shutil.rmtree(self.path("runs/data"))  # now the table is all that there is
        self.write("docs/results/map/details.csv", self.read("docs/results/map/details.csv").replace("coarse first", "baseline"))
        page = self.page(settings)
        self.assertRegex(page, r"\| heat \| 50 \| held out \| 2 \| \*\*the baseline\*\* \| 2.00 \| 2 \| 0 %: it is the "
                               r"baseline \| – \| [^|]+ \(cost [0-9.]+\) \| not run \|")
        beside = page.split("## Beside the baseline of as many epochs")[1].split("## ")[0]
        self.assertRegex(beside, r"\| heat \| 50 \| 2 \| [0-9.]+ \| 2.00 \| [+-][0-9.]+ ± [0-9.]+ % \| 2 \| [012] \|")

    @DRAWS
    def test_the_network_behind_a_stem_is_no_baseline(self):
        settings = "heat 50 baseline,frontnet 1,2 1,2\nheat 50 auto 2 1,2\n"
        page = self.page(settings)
        self.assertNotIn("frontnet", self.read("docs/results/map/heat-50.csv"))
        alone = self.read("docs/results/map/heat-50-frontnet.csv")
        self.assertEqual(alone.count("heat-50/frontnet-"), 4)
        self.assertRegex(page, r"\| frontnet \| 2 \| 0\.\d+ \| [^|]+ \| 2 \| ([^|]+ %|none: [^|]+) \|")
        beside = page.split("Auto against the network that it ends with")[1]
        self.assertRegex(beside, r"\| auto \| 2 \| [0-9.]+ \| [^|]+ \| 2 \| ([^|]+ %|none: [^|]+) \|")

    def test_a_bound_has_no_spread_and_a_higher_loss_is_no_saving(self):
        sys.path.append(self.path("jobs/experiments/map"))
        self.addCleanup(sys.path.remove, self.path("jobs/experiments/map"))
        from compared import saving_text

        def text(bound, error=0.01, paired=True):
            return saving_text({"gflop_saved": {"mean": 0.614, "standard_error": error, "bound": bound, "paired": paired}})
        self.assertEqual(text("none"), "61 ± 1 %")
        self.assertEqual(text("none", None, paired=False), "61 %, unpaired")
        self.assertEqual(text("none", None), "61 %")
        self.assertEqual(text("at least"), "≥ 61 %")
        self.assertEqual(text("at most"), "none: ends above every baseline")
        self.assertEqual(saving_text(None), "–")

    def test_the_newcomers_configuration_is_what_init_writes(self):
        self.mrmf("simulate", "fields", "--kind", "heat", "--samples", "40", "--output", "fields.h5")
        self.mrmf("init", "fields.h5", "--output", "init.toml", "--folder", "runs/first")

        def keys(text):  # the batch goes with the number of samples
            return [line for line in text.splitlines() if line and not line.startswith(("#", "batch = "))]
        self.assertEqual(keys(self.read("init.toml")), keys(self.read("jobs/experiments/map/heat-init.toml")))

    def test_records_of_the_laboratory_stand_for_its_folders(self):
        settings = "heat 40 2+1 plain,fine14 1\nheat 40 2f1 plain 1\n"
        self.script("lab/lab.py", settings=settings)
        shutil.rmtree(self.path("runs"))
        self.assertEqual(self.script("lab/lab.py", settings=settings), "")
        shutil.rmtree(self.path("runs"))
        self.script("lab/tables.py")
        page = self.read("docs/results/lab.md")
        self.assertIn("| 2+1 | plain |  |", page)
        self.assertIn("| 2f1 | plain |  |", page)
        self.assertIn("| 2+1 | fine14 | `method.finetune.learning_rate=1.4e-3` |", page)


if __name__ == "__main__":
    support.main()
