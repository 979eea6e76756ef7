"""Scripts of jobs/ that make pages of docs/results, on little: they run to their end, and say what they are for."""
import csv
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

import support

SOURCE = pathlib.Path(__file__).resolve().parents[2]
EXPERIMENTS = SOURCE / "jobs" / "experiments"


class JobScripts(support.MrmfTest):
    def run_script(self, *words, cwd=None, **variables):
        environment = dict(support.environment(), MRMF=support.MRMF, OMPI_MCA_rmaps_base_oversubscribe="1",
                           PYTHONDONTWRITEBYTECODE="1", **variables)
        done = subprocess.run([str(word) for word in words], cwd=cwd or self.folder, capture_output=True, text=True, timeout=500,
                              check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def planner(self, module, settings, *words):
        """A script of jobs/experiments/planner with other names in it: as they stand, its sizes take long."""
        program = f"import sys; sys.path.insert(0, {str(EXPERIMENTS / 'planner')!r}); import {module} as script\n{settings}\nscript.main()"
        return self.run_script(sys.executable, "-c", program, *words)

    def copy_jobs(self, script, sizes, smaller):
        """A copy of jobs/ in which an experiment's script makes less data."""
        shutil.copytree(SOURCE / "jobs", self.path("jobs"), ignore=shutil.ignore_patterns("__pycache__"))
        file = pathlib.Path(self.path("jobs/experiments")) / script
        text = file.read_text(encoding="utf-8")
        self.assertIn(sizes, text)
        file.write_text(text.replace(sizes, smaller), encoding="utf-8")

    def test_modelled_scaling_has_a_row_for_every_number_of_gpus(self):
        page = SOURCE / "docs/results/scaling-model.md"
        before = page.stat().st_mtime_ns
        text = self.planner("scaling", "del script.NETWORKS['unet-256'], script.MLPERF[2:]", "--print", "--mrmf", support.MRMF,
                            "--ranks", "4", "8", "--mini-batch", "8", "--machines", "h100:bf16")
        self.assertEqual(page.stat().st_mtime_ns, before)
        for title in re.findall(r"\*\*(.*), strong\*\*", text):
            table = text.split(f"**{title}, strong**")[1].split("**")[0]
            self.assertEqual(re.findall(r"(?m)^\| (\d+) \| 8 \|", table), ["4", "8"], title)
        self.assertIn("**CosmoFlow (MLPerf) of 128^3, strong**", text)
        # A speed-up is of the rates that stand beside it.
        rates, speedups = zip(*re.findall(r"\| ([\d]+) \| ([\d.]+) \| [\d.]+ % \| \d+ % \| \d+ % \| \d+ % \|",
                                          text.split("128^3, strong")[1].split("**")[1]))
        self.assertEqual(speedups[0], "1.00")
        self.assertAlmostEqual(float(speedups[1]), int(rates[1]) / int(rates[0]), delta=0.02)
        self.assertEqual(len(re.findall(r"(?m)^\| v\d.*\| [\d.]+ \|$", text)), 2)  # beside measured rates

    def test_what_sharing_a_cube_costs_is_the_median_of_its_pairs(self):
        layers = 'layers = [{ type = "conv", filters = 4, kernel = [3, 3, 3] }, { type = "flatten" }, { type = "dense", units = 4 }]'
        text = self.planner("split_cost", f"script.CUBES, script.EPOCHS, script.SIZE, script.MODEL = 8, 2, 32, {layers!r}",
                            "--work", "work", "--pairs", "1")
        shared, whole, ratio = map(float, re.search(r"shared ([\d.]+) s, a cube each ([\d.]+) s: ([\d.]+)\n", text).groups())
        rounding = 0.0005  # of all three; such a small network takes tens of milliseconds
        self.assertAlmostEqual(shared / whole, ratio, delta=2 * rounding * (1 + ratio) / (whole - rounding))
        self.assertIn(f"median of 1 pairs: {ratio:.3f}\n", text)
        for grid, file in (("[1, 1, 1]", "whole.toml"), ("[2, 1, 1]", "shared.toml")):
            self.assertIn(f"grid = {grid}", self.read(f"work/{file}"))

    def test_predictions_stand_beside_measured_epochs(self):
        support.make_data(self.path("data.h5"), train=48, validation=16)
        self.config()
        os.mkdir(self.path("work"))
        self.mrmf("bench", "tables", "config.toml", "--seconds", "0.002", "--rounds", "1", "--threads", "1", "-o", "work/tables.json")
        case = 'script.CASES = {"small": ("resnet", (32, 32, 1), 16, 4, 1, None, [])}; ' \
               'script.measured_tables = lambda path, *words: script.os.path.abspath("work/tables.json")'
        text = self.planner("compare", case, "--work", "work", "--turns", "3", "--json", "figures.json")
        (figures,) = json.loads(self.read("figures.json"))
        self.assertEqual(figures["name"], "small")
        guesses = [one["epoch_seconds"] for one in figures["predicted"]]
        seconds = [one["seconds"] for one in figures["measured"]]
        self.assertEqual((len(guesses), len(seconds)), (3, 3))
        guess, measured = statistics.median(guesses), statistics.median(seconds)
        self.assertAlmostEqual(figures["error"], guess / measured - 1)
        self.assertRegex(text, rf"(?m)^small +1 +- +{guess:.3f} +[\d.]+-[\d.]+ +{measured:.3f} ")
        within = int(abs(figures["error"]) <= 0.15)
        self.assertIn(f"{within} of 1 within 15 %", text)

    def test_the_order_of_grids_is_compared(self):
        case = 'script.GRID_CASES = {"small": ("neuron_inverter", (400, 3), 16, 8)}; script.GRID_EPOCHS = script.GRID_TURNS = 2; ' \
               'script.GRID_RANKS = (1, 2)'
        support.make_data(self.path("data.h5"), train=48, validation=16)
        self.config()
        os.mkdir(self.path("work"))
        self.tables_of_two_ranks("work/tables.json")
        text = self.planner("compare", case, "--work", "work", "--grids", "--json", "figures.json")
        figures = json.loads(self.read("figures.json"))
        self.assertEqual([figure["ranks"] for figure in figures], [1, 2])
        self.assertEqual([sorted(g["grid"] for g in figure["grids"]) for figure in figures], [[[1]], [[1], [2]]])
        self.assertEqual(text.count(" measured ("), 3)
        self.assertTrue(all(len(grid["seconds"]) == 2 for figure in figures for grid in figure["grids"]))  # in two turns
        self.assertRegex(text, r"\n\d+ of \d+ pairs in the predicted order, \d+ of \d+ of those predicted at least 5 % apart\n$")
        counted, wanted = [], []
        for predicted, measured, apart, right, pairs in (
                ((1, 2, 3), (1, 2, 3), 0, 3, 3), ((1, 2, 3), (3, 2, 1), 0, 0, 3), ((1, 2, 3), (1, 1.04, 3), 0, 2, 2),
                ((2, 1, 3), (1, 2, 3), 0, 2, 3), ((1.04, 1, 3), (1, 2, 3), 0.05, 2, 2), ((1.06, 1, 3), (1, 2, 3), 0.05, 2, 3)):
            grids = [{"predicted": p, "measured": m, "seconds": [0.9 * m, m, 1.1 * m]} for p, m in zip(predicted, measured)]
            counted.append(f"script.in_order({grids}, {apart})")
            wanted.append(f"({right}, {pairs})")
        self.assertEqual(self.planner("compare", f"print({', '.join(counted)}, sep='\\n'); sys.exit()").splitlines(), wanted)

    def test_whole_cubes_and_their_pieces_are_trained_and_reported(self):
        self.copy_jobs("whole/whole.py", '"--size", "64"', '"--size", "32"')
        results = pathlib.Path(self.path("docs/results"))
        results.mkdir(parents=True)
        (results / "whole.md").write_text("# Whole\n\n<!-- tables: jobs/experiments/whole/whole.py writes what follows -->\nold\n")
        words = (sys.executable, self.path("jobs/experiments/whole/whole.py"), "--folder", self.path("runs"), "--mrmf", support.MRMF)
        self.run_script(*words, "--samples", "10", "--epochs", "1", "--seeds", "1")
        page = (results / "whole.md").read_text()
        self.assertTrue(page.startswith("# Whole\n"))
        self.assertNotIn("old", page)
        variants = ["whole, batch 4", "whole, batch 8", "pieces, batch 16", "pieces, batch 32"]
        self.assertEqual(re.findall(r"(?m)^\| (\w+, batch \d+) \| [\d.]+ \|", page), variants)
        with open(results / "whole.csv", newline="", encoding="utf-8") as file:
            rows = {row["variant"]: row for row in csv.DictReader(file)}
        self.assertEqual(sorted(rows), sorted(variants))
        whole, pieces = (rows[name] for name in ("whole, batch 4", "pieces, batch 16"))
        self.assertEqual((whole["samples"], pieces["samples"]), ("8", "64"))
        self.assertAlmostEqual(float(whole["gflop"]) / float(pieces["gflop"]), 1, delta=0.2)  # nearly the same arithmetic
        # A cube's answer is the mean of its pieces', and no worse than they are.
        self.assertAlmostEqual(float(whole["error_by_cube"]), float(whole["validation_loss"]), places=5)
        self.assertLess(float(pieces["error_by_cube"]), float(pieces["validation_loss"]))
        # A second call makes nothing again.
        times = {str(file): file.stat().st_mtime_ns for file in pathlib.Path(self.path("runs")).rglob("result.json")}
        self.run_script(*words, "--samples", "10", "--epochs", "1", "--seeds", "1")
        self.assertEqual(times, {str(file): file.stat().st_mtime_ns for file in pathlib.Path(self.path("runs")).rglob("result.json")})
        self.assertEqual(len(times), 4)
        self.assertEqual((results / "whole.md").read_text(), page)

    def test_the_unet_comparison_makes_its_runs_once(self):
        variables = {"FOLDER": self.folder, "METHODS": "baseline", "SEEDS": "1", "WORDS": "training.epochs=1"}
        self.copy_jobs("unet/run.sh", "--samples 120 --size 32", "--samples 60 --size 16")
        script = (self.path("jobs/experiments/unet/run.sh"), os.path.dirname(support.MRMF))
        output = self.run_script(*script, cwd=EXPERIMENTS, **variables)
        self.assertIn("== baseline, seed 1\n", output)
        self.assertRegex(self.read("table.txt"), r"validation dice +0\.\d+")
        self.assertEqual(len(self.read("runs.csv").splitlines()), 2)
        self.assertNotIn("== baseline, seed 1\n", self.run_script(*script, cwd=EXPERIMENTS, **variables))

    def test_the_cosmoflow_experiment_is_the_reproduction_at_the_size_of_a_workstation(self):
        text = self.run_script(EXPERIMENTS / "cosmoflow/run.sh", "--help")
        self.assertIn("usage: jobs/reproduce.sh", text)
        self.assertIn("cosmoflow", text)
        self.assertIn("--size workstation", (EXPERIMENTS / "cosmoflow/run.sh").read_text(encoding="utf-8"))


if __name__ == "__main__":
    support.main()
