"""The paper's tables and figures at the smoke size: that every command runs, uses finished runs again, and says what the
records say. The numbers themselves mean nothing at this size."""
import csv
import json
import os
import pathlib
import re
import subprocess
import tomllib

import support

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = SOURCE / "jobs" / "reproduce.sh"
SECONDS = 540  # the longest that a command may take: below ctest's 600, far above the 36 s of processor time of `all`


# What the paper says of its own runs. CosmoFlow: sections 4.1 (8 samples per GPU) and 4.1.1 (stop at 0.0025; threshold and
# patience 0.002 and 5 for the lower resolution, 0.005 and 3 for the dense model), 4.1.2 (1/2 resolution: 0.01 in the first
# stage, 0.001 in the second). Neuron Inverter: sections 4.2 (512 per GPU), 4.2.1 (stop at 0.0400) and 4.2.2 (batches 2048, 2048,
# 512; patience 3, threshold 0.0002, and 0.002 in the first stage). What it leaves out is from its group's public code:
# rates and where they fall, epsilon, the largest number of epochs, batch norm of each rank's rows.
STEP_KEYS = ("role", "resolution", "batch", "optimizer", "learning_rate", "rule", "epochs")
STOP_KEYS = ("threshold", "patience", "target")
EIGHTH, HALF, WHOLE = [2, 2, 2], [2, 1, 1], [1, 1, 1]


def cosmoflow(role, resolution, rate=2e-3, **more):
    return (role, resolution, 8, "adam", rate, "piecewise", 100, more)


def neuron(role, factor, batch=512, **more):
    return (role, [factor], batch, "adam", 1e-3, "plateau", 161, more)


COSMOFLOW_LAST = cosmoflow("finetune", WHOLE, 8e-4, target=0.0025)
NEURON_LAST = neuron("finetune", 1, target=0.04)
PAPER = {
    "cosmoflow": {
        "steps": {
            "baseline": [cosmoflow("baseline", [1], target=0.0025)],
            "mrt": [cosmoflow("coarse", EIGHTH, threshold=0.002, patience=5), COSMOFLOW_LAST],
            "one-fusion": [cosmoflow("coarse", EIGHTH, threshold=0.002, patience=5),
                           cosmoflow("dense", WHOLE, threshold=0.005, patience=3), COSMOFLOW_LAST],
            "two-fusions": [cosmoflow("coarse", EIGHTH, threshold=0.002, patience=5),
                            cosmoflow("dense", HALF, threshold=0.01, patience=3),
                            cosmoflow("coarse", HALF, threshold=0.001, patience=5),
                            cosmoflow("dense", WHOLE, threshold=0.005, patience=3), COSMOFLOW_LAST]},
        "training": {"optimizer": {"name": "adam", "learning_rate": 2e-3, "epsilon": 1e-7, "rule": "piecewise",
                                   "boundaries": [50, 75]},
                     "loss": "mse", "batch": 8, "epochs": 100, "batch_norm": "local"},
        "model": {"preset": "cosmoflow"}, "files": 64, "layout": None},
    "neuron": {
        "steps": {
            "baseline": [neuron("baseline", 1, target=0.04)],
            "mrt": [neuron("coarse", 2, threshold=0.0002, patience=3), NEURON_LAST],
            "one-fusion": [neuron("coarse", 2, threshold=0.0002, patience=3),
                           neuron("dense", 1, threshold=0.0002, patience=3), NEURON_LAST],
            "two-fusions": [neuron("coarse", 4, 2048, threshold=0.002, patience=3),
                            neuron("dense", 2, 2048, threshold=0.002, patience=3),
                            neuron("coarse", 2, 2048, threshold=0.0002, patience=3),
                            neuron("dense", 1, threshold=0.0002, patience=3), NEURON_LAST]},
        "training": {"optimizer": {"name": "adam", "learning_rate": 1e-3, "rule": "plateau", "warmup": 5, "factor": 0.11,
                                   "patience": 8, "cooldown": 2},
                     "loss": "mse", "batch": 512, "epochs": 161, "batch_norm": "local"},
        "model": {"preset": "neuron_inverter"}, "files": 1, "layout": "reinterpret"},
}


def cells(text, row):
    """The cells of a Markdown row."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


class Reproduce(support.MrmfTest):
    def reproduce(self, *words):
        command = [str(SCRIPT), *words, "--folder", self.path("out"), "--program", support.MRMF, "--threads", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=support.environment())
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def result(self, run):
        return json.loads(pathlib.Path(self.path("out"), run, "result.json").read_text())

    def test_every_table_and_figure(self):
        sgd = ["--set", "training.optimizer.name=sgd"]  # without moments, which are most of a checkpoint
        # Neuron Inverter's page of all methods is drawn as CosmoFlow's; its other methods are planned below.
        wanted = [f"table{n}" for n in range(1, 10)] + ["figure3", "figure4", "figure5", "cosmoflow"]
        printed = self.reproduce(*wanted, *sgd)
        for what in wanted:
            self.assertIn(f"written: {self.path('out')}/{what}.md, .csv", printed)
        self.assertIn("Size `smoke`", printed)
        for name in ("figure3", "figure4", "figure5", "cosmoflow-loss-gflop", "cosmoflow-loss-seconds"):
            for suffix in ("png", "svg"):
                self.assertGreater(os.path.getsize(self.path(f"out/figures/{name}.{suffix}")), 5000)
        self.check_table5()
        self.check_table8_and_9()
        self.check_ratios()
        self.check_csv()
        # Nothing is trained again.
        self.assertNotIn(" train ", self.reproduce("table5", "figure4", *sgd))

    def check_table5(self):
        text = pathlib.Path(self.path("out"), "table5.md").read_text()
        runs = [self.result(f"neuron/{method}-ranks1-seed1") for method in ("baseline", "mrt", "one-fusion")]
        # One epoch a step, so every run ends where it reached the target, or did not.
        self.assertEqual(cells(text, "epochs after fusion")[1::2], ["84", "41", "32"])
        self.assertEqual(cells(text, "epochs after fusion")[0::2], ["1", "1", "1"])
        self.assertEqual(cells(text, "epochs before fusion, dense")[0::2], ["–", "–", "1"])
        losses = [float(loss) for loss in cells(text, "validation loss (MSE)")[0::2]]
        for loss, run in zip(losses, runs):
            self.assertAlmostEqual(loss, run["validation_loss"], delta=5e-5)
        work = [sum(stage["gflop"] for stage in run["stages"]) for run in runs]
        shown = cells(text, "arithmetic saved against baseline")
        reached = cells(text, "runs that reached the target")[2] == "1 of 1"
        self.assertEqual(reached, losses[1] <= losses[0])  # the smoke size's target is where the baseline ended
        self.assertEqual(shown[2], f"{100 * (1 - work[1] / work[0]):.1f} %" if reached else "–")
        self.assertEqual(cells(text, "saved against baseline")[3::2], ["27.0 %", "34.2 %"])  # of Table 5's seconds

    def check_ratios(self):
        for name, paper in (("table3", ["0.47", "–", "0.71", "0.91"]), ("table7", ["0.23", "–", "0.92", "0.94"])):
            text = pathlib.Path(self.path("out"), f"{name}.md").read_text()
            rows = ("first training stage", "second training stage", "finetuning stage", "total")
            self.assertEqual([cells(text, row)[-1] for row in rows], paper, name)
        figure4 = pathlib.Path(self.path("out"), "figure4.md").read_text()
        self.assertEqual([cells(figure4, f"{title}, 1 rank")[-2] for title in
                          ("Baseline", "MRT", "MRMF (one fusion)", "MRMF (two fusions)")], ["–", "27.0 %", "34.2 %", "45.0 %"])
        self.assertEqual([cells(figure4, f"{title}, 2 ranks")[-2] for title in ("MRT", "MRMF (two fusions)")], ["24.1 %", "–"])

    def check_csv(self):
        with open(self.path("out/table5.csv")) as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([line["method"] for line in lines], ["baseline", "mrt", "one-fusion"])
        for line in lines:
            result = self.result(f"neuron/{line['method']}-ranks1-seed1")
            self.assertEqual(float(line["validation_loss"]), result["validation_loss"])
            self.assertAlmostEqual(float(line["gflop"]), sum(stage["gflop"] for stage in result["stages"]), places=4)

    def check_table8_and_9(self):
        table8 = pathlib.Path(self.path("out"), "table8.md").read_text()
        several = [line for line in table8.splitlines() if line.startswith("| 2 |")]
        self.assertEqual(len(several), 2)
        for line in several:
            self.assertRegex(line, r"\| \d+\.\d+ \(\d+\.\d+–\d+\.\d+\) \| \d+\.\d+ \(")
        table9 = pathlib.Path(self.path("out"), "table9.md").read_text()
        backend = self.result("neuron/baseline-ranks1-seed1")["versions"]["backend"]
        self.assertIn(backend, cells(table9, "Neuron Inverter")[0])
        self.assertIn("Ours: 1 seed (1)", table9)

    def test_methods_of_the_neuron_inverter_that_no_table_has(self):
        folder = SOURCE / "jobs" / "experiments" / "neuron"
        methods = dict(line.split(":", 1) for line in (folder / "methods.txt").read_text().splitlines() if line[0] != "#")
        for method in ("interpolated", "progressive", "top-only"):
            sets = [word for setting in methods[method].split() for word in ("--set", setting)]
            plan = json.loads(self.mrmf("plan", "--json", str(folder / "workstation.toml"), *sets))
            self.assertGreater(len(plan["steps"]), 2, method)

    def test_a_size_without_data_says_what_is_missing(self):
        done = subprocess.run([str(SCRIPT), "table1", "--size", "paper", "--folder", self.path("out"), "--program",
                               support.MRMF, "--seeds", "1"], capture_output=True, text=True, cwd=self.path("."),
                              timeout=SECONDS, env=dict(os.environ, MRMF_LAUNCH="env ranks={ranks}"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, re.escape("PeterA_2019_05_4parE-rec102.h5: no such file"))

    def test_configurations_of_the_papers_size_say_what_the_paper_says(self):
        for application, paper in PAPER.items():
            for method, steps in paper["steps"].items():
                with self.subTest(f"{application} {method}"):
                    file = SOURCE / "jobs" / "experiments" / application / f"paper-{method}.toml"
                    plan = json.loads(self.mrmf("plan", "--json", str(file)))
                    train = [step for step in plan["steps"] if step["step"] == "train"]
                    found = [{key: step[key] for key in (*STEP_KEYS, *STOP_KEYS) if key in step} for step in train]
                    self.assertEqual(found, [dict(zip(STEP_KEYS, step), **more) for *step, more in steps])
                    fuse = [step for step in plan["steps"] if step["step"] == "fuse"]
                    top = {"mrt": "fresh"}.get(method, "dense")
                    self.assertTrue(all((step["bottom"], step["top"], step["moments"]) == ("coarse", top, "reset")
                                        for step in fuse))
                    with open(file, "rb") as text:
                        config = tomllib.load(text)
                    self.assertEqual(config["training"], paper["training"])
                    self.assertEqual(config["model"], paper["model"])
                    data = config["data"]
                    self.assertEqual((len(set(data["files"])), data.get("layout")), (paper["files"], paper["layout"]))
                    self.assertFalse(set(data["files"]) & set(data["validation"].get("files", [])))


if __name__ == "__main__":
    support.main()
