"""What the paper's tables say of runs made here by hand, and which folders jobs/reproduce.sh may empty."""
import contextlib
import io
import json
import pathlib
import sys
import unittest

import support

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "jobs" / "experiments" / "reproduce"))
import columns
import runs
import tables
from experiments import COSMOFLOW, NEURON


def epoch(role, number, loss, seconds=10.0, ranks=1, stage=1):
    return {"stage": stage, "role": role, "resolution": [2] if role == "coarse" else [1], "epoch": number, "ranks": ranks,
            "validation_loss": loss, "seconds": seconds, "gflop": 2 * seconds, "io_seconds": 1.0, "io_range": [0.5, 1.5],
            "compute_seconds": 6.0, "compute_range": [5.0, 7.0], "communication_seconds": 2.0,
            "communication_range": [1.25, 2.75], "averaging_seconds": 0.25 if role == "coarse" and number == 1 else 0.0}


class Made(support.MrmfTest):
    """Run folders whose figures are known."""

    def run_folder(self, name, seed, epochs, backend="oneDNN 2.6.3, threads: 1"):
        total = 0.0
        for record in epochs:
            total += record["seconds"]
            record["total_seconds"] = total
        folder = pathlib.Path(self.path(name))
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps({
            "seed": seed, "validation_loss": epochs[-1]["validation_loss"], "versions": {"backend": backend},
            "machine": {"processor": "AMD EPYC"}}))
        (folder / "epochs.jsonl").write_text("".join(json.dumps(record) + "\n" for record in epochs))
        return runs.Run(folder)

    def column(self, name, losses, epochs, target=0.04):
        """A run of so many epochs for each last loss; the earlier losses are above any target here."""
        made = [self.run_folder(f"{name}{seed}", seed, [epoch("finetune", e, 1.0) for e in range(1, epochs)]
                                + [epoch("finetune", epochs, loss)]) for seed, loss in enumerate(losses, 1)]
        return columns.Column(made, target)


class Savings(Made):
    def test_nothing_is_saved_by_a_method_that_sometimes_fails(self):
        baseline, other = self.column("base", [0.04, 0.03, 0.02], 9), self.column("other", [0.04, 0.04, 0.05], 6)
        self.assertEqual(other.saved(baseline, "gflop"), "–")
        self.assertEqual(self.column("good", [0.04, 0.04, 0.03], 6).saved(baseline, "gflop"), "33.3 %")  # 1 - 6/9

    def test_against_a_baseline_that_sometimes_fails_the_saving_is_a_lower_bound(self):
        baseline, other = self.column("base", [0.04, 0.03, 0.05], 9), self.column("other", [0.04, 0.04, 0.03], 6)
        self.assertEqual(baseline.done(), "2 of 3")
        cells = tables.own_cells(other, baseline, baseline)
        self.assertEqual([cell for cell in cells if "%" in cell], ["> 33.3 %"] * 4)
        self.assertNotIn("%", "".join(tables.own_cells(baseline, baseline, other)))
        said = columns.unreached([baseline, other], savings=True)
        self.assertIn("all of the run counts", said)
        self.assertIn("more than what is printed (>)", said)
        self.assertEqual(columns.unreached([other], savings=True), "")


class Ratios(Made):
    def test_ratios_to_what_did_not_reach_the_target_are_bounds(self):
        self.assertEqual(columns.ratio(3, 4), "0.75")
        self.assertEqual(columns.ratio(3, 4, other_done=False), "< 0.75")
        self.assertEqual(columns.ratio(3, 4, own_done=False), "> 0.75")
        self.assertEqual(columns.ratio(3, 4, False, False), "–")
        self.assertEqual(columns.ratio(None, 4), "–")
        self.assertEqual(columns.ratio(0, 4), "–")

    def test_batches_are_compared_with_the_one_in_the_place_of_the_papers_best(self):
        # 10 s and 20 GFLOP an epoch; the last one does not reach 0.04, so its ratio is a bound.
        columns_of = {batch: self.column(f"batch{batch}", [loss], epochs)
                      for batch, loss, epochs in ((64, 0.04, 6), (128, 0.03, 5), (256, 0.04, 4), (512, 0.05, 8))}
        rows = [[cell.strip() for cell in line.split("|")[1:-1]]
                for line in tables.batches_table(columns_of, NEURON.sizes["workstation"], 0.04).splitlines()
                if line.startswith("| ") and "coarse batch" not in line]
        self.assertEqual([row[8:] for row in rows], [
            ["1.50", "1.50", "512: –", "–"], ["1.25", "1.25", "1024: –", "–"],
            ["1.00", "1.00", "2048: 2250.21", "1.00"], ["> 2.00", "> 2.00", "4096: 2501.51", "1.11"]])
        two = dict(list(columns_of.items())[:2])  # nothing stands in that place
        self.assertIn("| – | – | 512: – |", tables.batches_table(two, NEURON.sizes["workstation"], 0.04))

    def test_the_runs_behind_a_table_are_lines_of_values(self):
        run = self.run_folder("one", 7, [epoch("coarse", 1, 1.0), epoch("finetune", 1, 0.19), epoch("finetune", 2, 0.25)])
        lines = columns.runs_csv([(COSMOFLOW, "mrt", 2, run)], "workstation").splitlines()
        self.assertEqual(dict(zip(lines[0].split(","), lines[1].split(","))), {
            "application": "cosmoflow", "method": "mrt", "ranks": "2", "seed": "7", "validation_loss": "0.25",
            "seconds": "30.0", "gflop": "60.0", "target": "0.2", "reached": "1", "coarse_epochs": "1", "dense_epochs": "0",
            "epochs_after_fusion_until": "1", "seconds_until": "20.0", "gflop_until": "40.0"})


class Methods(unittest.TestCase):
    def test_some_methods_can_be_compared_alone(self):
        def rivals(*methods):
            return runs.Workshop("mrmf", pathlib.Path("."), "workstation", 1, methods=methods).rivals(COSMOFLOW)
        self.assertEqual(rivals("one-fusion", "mrt"), ["baseline", "mrt", "one-fusion"])
        self.assertEqual(len(rivals()), 11)
        with self.assertRaisesRegex(SystemExit, "CosmoFlow has no method 'mrmt'; it has baseline, mrt, one-fusion, "):
            rivals("mrmt")


class Seeds(Made):
    def test_the_line_under_a_table_counts_the_seeds_of_its_runs(self):
        three, one = self.column("three", [0.04] * 3, 2).runs, self.column("one", [0.04], 2).runs
        self.assertEqual(columns.repetitions({"A": three, "B": three}), "3 seeds (1, 2, 3)")
        self.assertEqual(columns.repetitions({"A": one}), "1 seed (1)")
        # Two fusions have a run per choice of the half axis.
        self.assertEqual(columns.repetitions({"A": three, "B": three, "C": three * 3, "D": one}),
                         "3 seeds (1, 2, 3); C: 9 runs of 3 seeds (1, 2, 3); D: 1 seed (1)")


class Shop:
    """Stands for the workshop: hands out runs that are there."""
    size = "smoke"

    def __init__(self, make):
        self.make = make

    def first_seed(self, _application):
        return 1

    def run(self, application, method, seed, ranks=1, extra=(), label=""):
        return self.make(f"{application.name}-{method}{label}-{ranks}", seed, ranks)


class Parts(Made):
    def made(self, backend):
        def make(name, seed, ranks):
            return self.run_folder(name, seed, [epoch("coarse", 1, 1.0, 5.0, ranks), epoch("coarse", 2, 1.0, 5.0, ranks),
                                                epoch("dense", 1, 1.0, 10.0, ranks),
                                                epoch("finetune", 1, 0.04, 10.0, ranks, 2)], backend)
        return Shop(make)

    def test_several_ranks_have_the_least_and_the_most_beside_the_mean(self):
        text = tables.epochs_table(self.made("oneDNN"), "table4")
        rows = [line for line in text.splitlines() if line.startswith(("| 1 |", "| 2 |"))]
        self.assertIn("| 1.000 | 6.000 | 2.000 | 5.000 |", rows[0])
        self.assertIn("| 1.000 (0.500–1.500) | 6.000 (5.000–7.000) | 2.000 (1.250–2.750) | 10.000 |", rows[3])
        self.assertIn("1 seed (1)", text)

    def test_pooling_names_the_device_of_the_runs(self):
        text = tables.pooling_table(self.made("NVIDIA A100 (80 GB), CUDA 13.0 (driver 13.0), cuDNN 9.19"), "table9")
        self.assertIn("| CosmoFlow | GPU: NVIDIA A100 (80 GB), CUDA 13.0", text)
        self.assertNotIn("CPU:", text)

    def test_averaging_is_what_the_loader_says(self):
        text = tables.pooling_table(self.made("oneDNN"), "table9")  # all epochs take as long: no difference would show it
        for title in ("CosmoFlow", "Neuron Inverter"):
            self.assertIn(f"| {title} | CPU: AMD EPYC, oneDNN | 10.00 | 0.25 | 0.25 |", text)


class Folders(support.MrmfTest):
    """A program that only notes what it was asked for stands for mrmf."""

    def setUp(self):
        super().setUp()
        self.write("mrmf", f"""#!/bin/sh
echo "$@" >> {self.path('calls')}
case $1 in simulate) exit 0 ;; esac
for word; do case $word in run.folder=*) folder=${{word#run.folder=}} ;; esac; done
[ -e {self.path('stop')} ] && {{ mkdir -p $folder/checkpoints; touch $folder/checkpoints/phase-1.h5; exit 75; }}
echo '{{"seed": 1}}' > $folder/result.json
touch $folder/epochs.jsonl
""")
        pathlib.Path(self.path("mrmf")).chmod(0o755)
        self.run_folder = pathlib.Path(self.path("out/neuron/baseline-ranks1-seed1"))

    def train(self, *words, out="out"):
        """One run, asked for with these words; whether the program was called for it."""
        before = len(self.calls("train"))
        with contextlib.redirect_stdout(io.StringIO()):
            runs.Workshop(self.path("mrmf"), pathlib.Path(self.path(out)), "smoke", 1, (), words).run(NEURON, "baseline", 1)
        return len(self.calls("train")) > before

    def calls(self, command=""):
        path = pathlib.Path(self.path("calls"))
        return [line for line in path.read_text().splitlines() if line.startswith(command)] if path.exists() else []

    def test_data_that_were_not_made_here_are_left_alone(self):
        for application in (NEURON, COSMOFLOW):
            data = pathlib.Path(self.path("out"), application.name, "data")
            data.mkdir(parents=True)
            (data / "precious.h5").write_text("a user's")
            shop = runs.Workshop(self.path("mrmf"), pathlib.Path(self.path("out")), "smoke", 1)
            with self.assertRaisesRegex(SystemExit, r"data holds files that were not made here \(it has no arguments.txt\)"):
                shop.data_words(application)
            self.assertEqual((data / "precious.h5").read_text(), "a user's")
        self.assertEqual(self.calls(), [])

    def test_data_made_here_for_other_arguments_are_made_again(self):
        data = pathlib.Path(self.path("out/neuron/data"))
        data.mkdir(parents=True)
        (data / "arguments.txt").write_text("not finished")
        (data / "neuron.h5").write_text("half")
        self.train()
        self.assertFalse((data / "neuron.h5").exists())  # the stand-in wrote none
        self.assertEqual(len(self.calls("simulate neuron --samples 40")), 1)
        self.assertIn("--samples 40", (data / "arguments.txt").read_text())

    def test_a_finished_run_is_used_again_unless_something_else_is_asked(self):
        self.assertTrue(self.train())
        self.assertFalse(self.train())
        (self.run_folder / "checkpoints").mkdir()
        self.assertTrue(self.train("training.epochs=2"))
        self.assertFalse((self.run_folder / "checkpoints").exists())
        self.assertFalse(self.train("training.epochs=2"))

    def test_a_folder_may_be_moved(self):
        self.assertTrue(self.train())
        pathlib.Path(self.path("out")).rename(self.path("elsewhere"))
        self.assertFalse(self.train(out="elsewhere"))

    def test_an_unfinished_run_goes_on_or_begins_anew_if_something_else_is_asked(self):
        self.write("stop", "")
        saved = self.run_folder / "checkpoints" / "phase-1.h5"
        with self.assertRaises(SystemExit):
            self.train()
        self.assertTrue(saved.exists())
        pathlib.Path(self.path("stop")).unlink()
        self.assertTrue(self.train())
        self.assertTrue(saved.exists())  # mrmf had it to resume from
        (self.run_folder / "result.json").unlink()
        self.assertTrue(self.train("training.epochs=2"))
        self.assertFalse(saved.exists())

    def test_a_run_that_was_not_made_here_is_left_alone(self):
        self.run_folder.mkdir(parents=True)
        (self.run_folder / "result.json").write_text("a user's")
        with self.assertRaisesRegex(SystemExit, r"it has no asked.txt\); move it away, or give another --folder"):
            self.train()
        self.assertEqual((self.run_folder / "result.json").read_text(), "a user's")


if __name__ == "__main__":
    support.main()
