"""Tournaments of trainers: who meets whom, whose model survives, what one trainer alone would train, stops and kills,
errors, and bad input."""
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest.mock

import h5py
import numpy as np

import support

# Without dropout and batch norms a model without a learning rate is a constant.
PLAIN = support.layers("conv filters=4 kernel=4", "max_pool window=4", "relu", "flatten", "dense units=8", "relu",
                       "dense units=2")
TOURNAMENT = """
[tournament]
trainers = {trainers}
rounds = {rounds}
steps = {steps}
held_out = 0.2
"""

# The system counts what a process was before it became mrmf: a process of its own, with little in it, starts mrmf.
# Into files: mpirun may lose what a rank prints after its program has ended.
MEASURE = """
import os, resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1] + os.environ["OMPI_COMM_WORLD_RANK"], "w") as file:
    file.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
sys.exit(code)
"""


class Tournaments(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=120, validation=24, length=32)
        # Where a process has died, mpirun gives the others that many seconds until it kills them.
        quick = unittest.mock.patch.dict(os.environ, OMPI_MCA_odls_base_sigkill_timeout="0")
        quick.start()
        self.addCleanup(quick.stop)

    def make(self, trainers=4, rounds=3, steps=4, layers=support.LAYERS, more="", replace=()):
        text = support.CONFIG.replace(support.LAYERS, layers).replace("batch = 16", "batch = 4").replace("epochs = 3", "epochs = 4")
        for old, new in replace:
            self.assertIn(old, text)
            text = text.replace(old, new)
        self.write("config.toml", TOURNAMENT.format(trainers=trainers, rounds=rounds, steps=steps) + more + text)

    def train(self, run="run", *words, ranks=4, code=0):
        settings = [part for word in words for part in ("--set", word)]
        return self.mrmf("train", "config.toml", "--set", f"run.folder={run}", *settings, ranks=ranks, code=code)

    def records(self, run="run", ended=False):
        return [r for r in self.lines(run + "/tournament.jsonl") if (r["round"] == 0) == ended]

    def arrays(self, run):
        return self.model_arrays(run + "/checkpoints/final.h5")

    def same(self, one, other):
        return all(np.array_equal(values, other[name]) for name, values in one.items()) and one.keys() == other.keys()

    def same_tournaments(self, one, other, trainers):
        for t in trainers:
            self.same_models(f"{one}/trainer-{t}", f"{other}/trainer-{t}")
            keys = ("epoch", "train_loss", "validation_loss", "learning_rate", "gflop")
            a, b = ([[e[key] for key in keys] for e in self.lines(f"{run}/trainer-{t}/epochs.jsonl")] for run in (one, other))
            self.assertEqual(a, b)
        self.assertEqual(self.lines(one + "/tournament.jsonl"), self.lines(other + "/tournament.jsonl"))


class OneTournament(Tournaments):
    """Of one tournament and the same trainers that do not meet, made by the first test."""
    made = None

    def setUp(self):
        super().setUp()
        self.make()
        if OneTournament.made is None:
            scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-tournament-")
            self.addClassCleanup(scratch.cleanup)
            self.train()
            self.train("none", 'tournament.selection="none"')
            shutil.copytree(self.folder, scratch.name, dirs_exist_ok=True)
            OneTournament.made = scratch.name
        shutil.copytree(OneTournament.made, self.folder, dirs_exist_ok=True)

    def test_four_trainers_meet_and_the_best_ones_model_is_the_runs(self):
        output = self.read("run/log.txt")
        self.assertIn("round 3 of 3", output)
        records = self.records()
        self.assertEqual([(r["round"], r["trainer"]) for r in records], [(r, t) for r in (1, 2, 3) for t in range(4)])
        for r in records:
            other = next(o for o in records if (o["round"], o["trainer"]) == (r["round"], r["partner"]))
            self.assertEqual(other["partner"], r["trainer"])
            self.assertEqual(r["parent"], r["partner"] if r["replaced"] else r["trainer"])
            self.assertEqual(r["replaced"], r["own"] - r["other"] > r["error"])
            self.assertEqual(r["steps"], 4 * r["round"])
        ends = self.records(ended=True)
        best = min(ends, key=lambda r: r["own"])
        self.assertEqual([r["trainer"] for r in ends if r.get("best")], [best["trainer"]])
        result = json.loads(self.read("run/result.json"))
        trainer = json.loads(self.read(f"run/trainer-{best['trainer']}/result.json"))
        self.assertEqual((result["validation_loss"], result["ranks"]), (trainer["validation_loss"], 1))
        self.assertNotIn("teams at once", output)
        self.same_models("run", f"run/trainer-{best['trainer']}")
        self.assertEqual(self.lines("run/epochs.jsonl"), self.lines(f"run/trainer-{best['trainer']}/epochs.jsonl"))
        # A run's model like any other's, and so is that of each trainer.
        losses = [json.JSONDecoder().raw_decode(self.mrmf("evaluate", run, "--json"))[0]["mse"]
                  for run in ("run", f"run/trainer-{best['trainer']}")]
        self.assertEqual(*losses)
        self.mrmf("predict", "--ensemble", "run", "-o", "mean.h5")
        for t in range(4):
            self.mrmf("predict", f"run/trainer-{t}", "-o", f"{t}.h5")
        with h5py.File(self.path("mean.h5")) as mean:
            each = [h5py.File(self.path(f"{t}.h5"))["prediction"][:] for t in range(4)]
            np.testing.assert_allclose(mean["prediction"][:], np.mean(each, axis=0), atol=1e-6)
        self.mrmf("export", "run/trainer-3", "-o", "model.safetensors")
        self.config(replace=[("epochs = 3", "epochs = 1"), ("[training]", '[model]\nstart = "run"\n[training]')])
        self.mrmf("train", "config.toml", "--set", "run.folder=started")

    def test_parts_of_the_rows(self):
        samples = []
        for t in range(4):
            config = self.read(f"run/trainer-{t}/config.toml")
            self.assertIn("part.of = 4\n", config)
            self.assertIn(f"part.number = {t}\n", config)
            epochs = self.lines(f"run/trainer-{t}/epochs.jsonl")
            samples.append({e["samples"] for e in epochs})
        self.assertEqual(samples, [{24}] * 4)  # of 30, six are held out; no row is skipped or trained twice

    def test_what_it_costs_is_foretold(self):
        arrays = self.arrays("run/trainer-0")
        size = sum(4 * v.size for v in arrays.values())
        plan = json.loads(self.mrmf("plan", "config.toml", "--json"))["tournament"]
        self.assertEqual((plan["trainers"], plan["trained_rows"], plan["held_out_rows"], plan["visitor_bytes"]), (4, 24, 6, size))
        inspected = json.loads(self.mrmf("inspect", "config.toml", "--json"))["memory_of_a_rank"]
        self.assertEqual(inspected["visitor_bytes"], size)
        self.assertIn("tournament: 4 trainers, of which the first trains on 24 rows and holds out 6", self.mrmf("plan", "config.toml"))
        # Of four epochs of 24 rows and three meetings, each of two models and six rows: a forward pass is a third of a step.
        with_, without = (sum(e["gflop"] for e in self.lines(f"{run}/trainer-0/epochs.jsonl")) for run in ("run", "none"))
        met = sum(1 for r in self.records() if r["trainer"] == 0 and r["partner"] is not None)
        self.assertAlmostEqual((with_ - without) / without, met * 2 * 6 / (4 * (3 * 24 + 24)), places=6)

    def test_report_draws_a_family_tree(self):
        self.mrmf("report", "run", "-o", "report.html")
        page = self.read("report.html")
        self.assertIn("Whose model descends from whose", page)
        replaced = sum(r["replaced"] for r in self.records())
        self.assertIn(f"4 trainers, each with its part of the training rows, met 3 times; {replaced} times one took", page)

    def test_a_trainer_alone_has_the_same_bits(self):
        for t in (0, 2):
            self.mrmf("train", f"none/trainer-{t}/config.toml", "--set", f"run.folder=alone{t}")
            self.same_models(f"none/trainer-{t}", f"alone{t}")
        # Until they first meet, trainers that meet are the same as well: a meeting after all other steps changes nothing.
        self.train("late", "tournament.rounds=1", "tournament.steps=24")
        for t in range(4):
            epochs = [self.lines(f"{run}/trainer-{t}/epochs.jsonl")[:3] for run in ("none", "late")]
            self.assertEqual(*[[(e["train_loss"], e["validation_loss"]) for e in run] for run in epochs])


class Tournament(Tournaments):
    def test_constant_models_are_their_ancestors(self):
        self.make(rounds=5, steps=2, layers=PLAIN, replace=[("learning_rate = 3e-3", "learning_rate = 1e-30")])
        self.train("none", 'tournament.selection="none"')
        for selection in ("pairwise", "truncation"):
            self.train(selection, f'tournament.selection="{selection}"', "tournament.best=2")
            ancestor = list(range(4))
            for round_ in range(1, 6):
                now = [r for r in self.records(selection) if r["round"] == round_]
                ancestor = [ancestor[r["parent"]] for r in now]
            self.assertNotEqual(ancestor, list(range(4)))
            for t in range(4):
                self.same_models(f"{selection}/trainer-{t}", f"none/trainer-{ancestor[t]}")
        with self.assertRaises(AssertionError):  # the models do differ
            self.same_models("none/trainer-0", "none/trainer-1")

    def test_meetings_alone_change_no_bit(self):
        # Both models of a meeting are the same, for nothing travels: only the scores are left of it, of held-out rows,
        # between any two steps. Batch norms keep statistics, dropouts draw, rows are shuffled and read ahead.
        self.make(trainers=2, rounds=20, steps=1, more='exchange = ["relu*"]\n')
        self.train("none", 'tournament.selection="none"', ranks=2)
        self.train("meet", 'data.load="stream"', ranks=2)
        self.assertEqual(len(self.records("meet")), 40)
        for r in self.records("meet"):
            self.assertEqual((r["own"], r["replaced"]), (r["other"], False))
        for t in range(2):
            self.same_models(f"none/trainer-{t}", f"meet/trainer-{t}")
            keys = ("epoch", "train_loss", "validation_loss", "samples")
            self.assertEqual(*[[[e[key] for key in keys] for e in self.lines(f"{one}/trainer-{t}/epochs.jsonl")]
                               for one in ("none", "meet")])

    def test_a_score_is_the_loss_of_the_rows_that_are_held_out(self):
        # All rows are the same one, so the loss of any of them is that of all.
        with h5py.File(self.path("data.h5"), "a") as file:
            for part in ("train", "val"):
                for name, first in (("frames", file["train_frames"][0]), ("unitStar_par", file["train_unitStar_par"][0])):
                    file[f"{part}_{name}"][:] = first
        self.make(trainers=2, rounds=1, steps=24, layers=PLAIN)
        for run, words in (("loss", []), ("metric", ['tournament.metric="mae"', 'data.load="stream"'])):
            self.train(run, *words, ranks=2)
            for r in self.records(run):
                epoch = self.lines(f"{run}/trainer-{r['trainer']}/epochs.jsonl")[1]
                self.assertLess(r["error"], 1e-6)
                expected = epoch["validation_loss"] if run != "metric" else epoch["validation_mae"]
                self.assertAlmostEqual(r["other" if r["replaced"] else "own"], expected, delta=1e-5 * abs(expected))

    def test_a_score_of_whole_volumes_in_windows(self):
        volume = np.random.default_rng(0).normal(0, 1, (12, 10, 9))
        with h5py.File(self.path("volumes.h5"), "w") as file:
            file["x"] = np.repeat(volume[None, ..., None], 8, axis=0).astype("f4")
            file["y"] = np.repeat((volume > 0.5)[None], 8, axis=0).astype("u1")
        network = ('conv filters=4 kernel=[3,3,3] padding="same"', "relu", "conv filters=2 kernel=[1,1,1]")
        self.write("config.toml", support.rows_config(*network, files=("volumes.h5",), batch=2, data='train = { samples = "x", labels = "y" }\n'
                   "patch = [8, 8, 8]").replace("[training]", '[tournament]\ntrainers = 2\nheld_out = 0.3\n[training]\nloss = "cross_entropy"')
                   .replace("epochs = 1", "epochs = 2"))
        for run, words in (("memory", []), ("stream", ['data.load="stream"'])):
            self.train(run, *words, ranks=2)
            self.assertEqual(len(self.records(run)), 2)
            for r in self.records(run):
                loss = self.lines(f"{run}/trainer-{r['trainer']}/epochs.jsonl")[0]["validation_loss"]
                self.assertAlmostEqual(r["other" if r["replaced"] else "own"], loss, delta=1e-5 * loss)
        self.same_tournaments("memory", "stream", range(2))

    def test_one_trainer_is_plain_training(self):
        self.make(trainers=1)
        self.train(ranks=0)
        self.config(replace=[("batch = 16", "batch = 4"), ("epochs = 3", "epochs = 4")])
        self.mrmf("train", "config.toml", "--set", "run.folder=plain")
        self.same_models("run", "plain")
        self.assertFalse(os.path.exists(self.path("run/tournament.jsonl")))

    def test_the_same_on_other_numbers_of_ranks(self):
        self.make(trainers=2, rounds=2, steps=3)
        words = ["run.deterministic=true", "data.shards=4", "training.epochs=2"]
        self.train("two", *words, "training.batch=8", ranks=2)
        self.train("four", *words, "training.batch=4", ranks=4)
        for t in range(2):
            self.same_models(f"two/trainer-{t}", f"four/trainer-{t}")
        self.assertEqual(self.lines("two/tournament.jsonl"), self.lines("four/tournament.jsonl"))

    def test_teams_of_other_sizes(self):
        # One trainer learns, the other does not: in the end it has the model of the one that does.
        self.make(trainers=2, rounds=1, steps=24, layers=PLAIN, more="share = [2, 1]\n")
        for run, learns in (("larger", 0), ("smaller", 1)):
            settings = [["training.batch=4"], ["training.batch=8"]]
            settings[1 - learns].append("training.optimizer.learning_rate=1e-30")
            self.train(run, "tournament.settings=" + json.dumps(settings), ranks=3)
            self.assertEqual([r["replaced"] for r in self.records(run)], [learns == 1, learns == 0])
            self.same_models(run + "/trainer-0", run + "/trainer-1")

    def test_streamed(self):
        self.make(trainers=2)
        self.train("memory", ranks=2)
        self.train("stream", 'data.load="stream"', ranks=2)
        self.same_tournaments("memory", "stream", range(2))

    def test_layers_that_stay(self):
        self.make(trainers=2, rounds=3, steps=2, layers=PLAIN, more='exchange = ["conv*"]\n',
                  replace=[("learning_rate = 3e-3", "learning_rate = 1e-30")])
        self.train("none", 'tournament.selection="none"', ranks=2)
        self.train(ranks=2)
        self.assertTrue(any(r["replaced"] for r in self.records()))
        for t in range(2):
            now, own, other = (self.arrays(run) for run in (f"run/trainer-{t}", f"none/trainer-{t}", f"none/trainer-{1 - t}"))
            for name in now:
                stays = "dense" in name
                self.assertTrue(np.array_equal(now[name], own[name]) or (not stays and np.array_equal(now[name], other[name])))

    def test_a_model_that_diverges_takes_the_others(self):
        words = ['tournament.settings=[["training.optimizer.learning_rate=1e20"], []]']
        self.make(trainers=2, rounds=3, steps=4, layers=PLAIN)
        self.train("drop", *words, 'tournament.on_error="drop"', ranks=2)
        for r in self.records("drop"):
            if r["status"] == "plays":
                self.assertEqual(r["replaced"], r["trainer"] == 0)
                good, bad = ("own", "other") if r["trainer"] else ("other", "own")
                self.assertIsNone(r[bad])
                self.assertTrue(math.isfinite(r[good]))
        self.assertEqual([r["status"] for r in self.records("drop", ended=True)], ["dropped", "ended"])
        self.same_models("drop", "drop/trainer-1")
        self.mrmf("report", "drop", "-o", "report.html")
        self.assertNotRegex(self.read("report.html"), r'points="[^"]*nan')
        output = self.train("end", *words, ranks=2, code=4)
        self.assertRegex(output, "the training loss is (nan|inf)")

    def test_mutations(self):
        self.make(rounds=5, steps=3, more='mutate = ["learning_rate", "dropout", "weight_decay"]\n',
                  replace=[("learning_rate = 3e-3", "learning_rate = 3e-3, weight_decay = 1e-3")])
        self.train()
        replaced = [r for r in self.records() if r["replaced"]]
        self.assertTrue(replaced)
        rates = {(0, t): 3e-3 for t in range(4)}
        for r in self.records():
            before = rates[r["round"] - 1, r["parent"]]
            rates[r["round"], r["trainer"]] = r["learning_rate"]
            factor = r["learning_rate"] / before
            self.assertTrue(min(abs(factor - f) for f in ((0.8, 1.2) if r["replaced"] else (1,))) < 1e-9, r)
        last = self.lines("run/trainer-0/epochs.jsonl")[-1]["learning_rate"]
        self.assertAlmostEqual(last, rates[5, 0], places=9)

    def interrupt(self, run, signal_, when, ranks=2):
        """Starts the tournament and sends a signal to all of its ranks once it has so many records."""
        process = self.launch("train", "config.toml", "--set", f"run.folder={run}", ranks=ranks)
        path = self.path(run + "/tournament.jsonl")
        deadline = time.monotonic() + 120
        while process.poll() is None:
            self.assertLess(time.monotonic(), deadline)
            if os.path.exists(path) and self.read(run + "/tournament.jsonl").count("\n") >= when:
                try:
                    for pid in support.ranks_of(process).values():
                        os.kill(pid, signal_)
                except (FileNotFoundError, ProcessLookupError):
                    pass
                break
            time.sleep(0.001)
        return process.returncode if process.poll() is not None else None, process.communicate(timeout=120)[0]

    def test_killed_and_stopped_it_continues_with_the_same_bits(self):
        self.make(trainers=2, rounds=20, steps=4, more='mutate = ["learning_rate"]\n',
                  replace=[('[run]', '[run]\ncheckpoint = { epochs = 3 }'), ("epochs = 4", "epochs = 8")])
        self.train("whole", ranks=2)
        for signal_, when in ((signal.SIGKILL, (2, 19)), (signal.SIGTERM, (9,))):
            run = signal_.name
            for records in when:
                self.interrupt(run, signal_, records)
            self.train(run, ranks=2) if not os.path.exists(self.path(run + "/result.json")) else None
            self.same_tournaments("whole", run, range(2))
            names = [name for t in range(2) for name in os.listdir(self.path(f"{run}/trainer-{t}/checkpoints"))]
            self.assertEqual([name for name in names if "before" in name], [])

    def test_killed_within_a_meeting(self):
        settings = [["training.optimizer.learning_rate=1e-5"], []]
        self.make(trainers=2, rounds=6, steps=4, more='mutate = ["learning_rate"]\nsettings = ' + json.dumps(settings) + "\n",
                  replace=[('[run]', '[run]\ncheckpoint = { epochs = 1 }')])
        self.train("whole", ranks=2)
        self.assertTrue(any(r["replaced"] for r in self.records("whole")))
        library = os.path.join(os.path.dirname(support.MRMF), "tests", "libkill_in_mpi.so")
        self.assertTrue(os.path.exists(library))
        # Round 1: while models travel; while the visitor is scored, in the place of the own one. Round 2, where one takes
        # the other's: when both know the scores; while moments travel. Then later rounds.
        for broadcast, later in ((1, 0), (2, 6), (4, 16), (5, 0), (7, 3), (9, 0)):
            with unittest.mock.patch.dict(os.environ, LD_PRELOAD=library, MRMF_KILL_BROADCAST=str(broadcast), MRMF_KILL_LATER=str(later)):
                process = self.launch("train", "config.toml", "--set", "run.folder=run", ranks=2)
            output = process.communicate(timeout=120)[0]
            self.assertNotEqual(process.returncode, 0, (broadcast, later))
            self.assertIn("signal 9", output)
        self.train(ranks=2)
        self.same_tournaments("whole", "run", range(2))

    def failing(self, match, nth):
        """Renaming such a file fails on its nth time, as on a full disk."""
        library = os.path.join(os.path.dirname(support.MRMF), "tests", "libfault_shim.so")
        self.assertTrue(os.path.exists(library))
        return unittest.mock.patch.dict(os.environ, LD_PRELOAD=library, MRMF_FAULT_PROGRAM="mrmf",
                                        MRMF_FAULT=f"call=rename,match={match},nth={nth},action=fail,errno=28")

    def test_one_that_cannot_save_drops_out(self):
        self.make(trainers=3, rounds=12, steps=2, layers=PLAIN, more='on_error = "drop"\n',
                  replace=[('[run]', '[run]\ncheckpoint = { epochs = 1 }')])
        # It saves first at the first round, and then where an epoch ends, of eight steps.
        with self.failing("*/trainer-1/checkpoints/phase-1.h5", 2):
            self.train("whole", ranks=3)
            self.interrupt("run", signal.SIGKILL, 27, ranks=3)  # in round 11
        self.train(ranks=3)
        for run in ("whole", "run"):
            dropped = [r for r in self.records(run) if r["status"] == "dropped"]
            self.assertEqual([(r["round"], r["trainer"]) for r in dropped], [(5, 1)])
            self.assertIn("No space left on device", dropped[0]["note"])
            self.assertEqual([r["trainer"] for r in self.records(run) if r["round"] == 12], [0, 2])
            self.assertEqual([r["status"] for r in self.records(run, ended=True)], ["ended", "dropped", "ended"])
        self.assertEqual(*[[r | {"note": None} for r in self.records(run)] for run in ("whole", "run")])
        for t in (0, 2):
            self.same_models(f"whole/trainer-{t}", f"run/trainer-{t}")
        # At a meeting, when all save; and where every trainer fails, the run does.
        with self.failing("*/trainer-1/checkpoints/phase-1.h5", 1):
            self.train("meeting", ranks=3)
        self.assertEqual([(r["round"], r["trainer"]) for r in self.records("meeting") if r["status"] == "dropped"], [(1, 1)])
        with self.failing("*/trainer-*/checkpoints/phase-1.h5", 1):
            output = self.train("all", ranks=3, code=4)
        self.assertIn("all trainers of the tournament have dropped out; the first because of this: all/trainer-0/checkpoints/phase-1.h5", output)
        self.assertEqual([r["status"] for r in self.records("all", ended=True)], ["dropped"] * 3)

    def test_from_the_last_round_that_both_have(self):
        self.make(trainers=2, rounds=20, steps=4,
                  replace=[('[run]', '[run]\ncheckpoint = { epochs = 1 }'), ("epochs = 4", "epochs = 8")])
        self.train("whole", ranks=2)
        self.interrupt("run", signal.SIGKILL, 16)
        if os.path.exists(self.path("run/result.json")):
            self.skipTest("it was done before it was killed")
        # As if one trainer had been killed while it saved, and its newest file were not there yet.
        folder = self.path("run/trainer-1/checkpoints")
        os.remove(folder + "/phase-1.h5")
        self.assertIn("phase-1-before.h5", os.listdir(folder))
        self.train(ranks=2)
        self.same_tournaments("whole", "run", range(2))

    def test_a_trainer_that_ends_early_sits_by(self):
        self.make(trainers=3, rounds=5, steps=4, layers=PLAIN)
        self.train("run", 'tournament.settings=[[], ["method.target.validation_loss=100.0"], []]', ranks=3)
        after = [r for r in self.records() if r["round"] > 2]
        self.assertEqual({r["trainer"] for r in after}, {0, 2})
        self.assertEqual(len(self.lines("run/trainer-1/epochs.jsonl")), 1)

    def test_memory(self):
        # One model more, and no more than that: here of 8 MB. Plain SGD has no moments, which would hide it.
        wide = support.layers("flatten", "dense units=1440", "relu", "dense units=1300", "relu", "dense units=2")
        self.make(trainers=2, rounds=1, steps=2, layers=wide, replace=[
            ("epochs = 4", "epochs = 1"), ("batch = 4", "batch = 16"), ('name = "adam", learning_rate = 3e-3', 'name = "sgd", learning_rate = 1e-3')])
        self.write("measure.py", MEASURE)
        peaks = {}
        for run, words in (("none", ["--set", 'tournament.selection="none"']), ("pairs", [])):
            launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", "2", sys.executable, "measure.py", f"peak-{run}-",
                      support.MRMF]
            done = subprocess.run([*launch, "train", "config.toml", "--set", f"run.folder={run}", *words], cwd=self.folder,
                                  env=support.environment(), capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            peaks[run] = max(int(self.read(f"peak-{run}-{rank}")) for rank in range(2))
        size = sum(4 * v.size for v in self.arrays("pairs/trainer-0").values())
        self.assertLess(peaks["pairs"] - peaks["none"], 1.3 * size)

    def test_bad_input(self):
        self.make()
        def refused(message, *words, ranks=0, code=2):
            settings = [part for word in words for part in ("--set", word)]
            output = self.fails(code, "train", "config.toml", *settings, ranks=ranks, message=message)
            self.assertFalse(os.path.exists(self.path("run")), output)
        refused("tournament.trainers = 4 does not fit 3 ranks", ranks=3)
        refused("tournament.trainers = 8 does not fit 4 ranks", "tournament.trainers=8", ranks=4)
        refused("tournament.best is 4 of 4", "tournament.selection=truncation", "tournament.best=4")
        refused("tournament.best", "tournament.selection=truncation", "tournament.best=0")
        refused('tournament.exchange names "decoder*"', "tournament.trainers=2", 'tournament.exchange=["decoder*"]',
                ranks=2)
        refused('tournament.metric = "accuracy" is no metric of this task', "tournament.metric=accuracy")
        refused("tournament.metric", "tournament.metric=beauty")
        refused("20 rounds of 4 steps (tournament.steps) need 80 steps of every trainer, and the last phase of trainer 0 has "
                "48",
                "tournament.trainers=2", "tournament.rounds=20", ranks=2)
        refused("the last phase of trainer 1 has 12", "tournament.trainers=2", "tournament.rounds=4",
                'tournament.settings=[[], ["training.epochs=1"]]', ranks=2)
        refused("tournament.settings gives a trainer", 'tournament.settings=[["run.folder=x"], [], [], []]')
        refused("tournament.settings gives a trainer", 'tournament.settings=[["tournament.steps=5"], [], [], []]')
        refused("tournament.settings has 1 entries", 'tournament.settings=[[]]')
        refused("tournament.share has 2 entries", "tournament.share=[1, 1]")
        refused("between which nothing can travel", "tournament.trainers=2",
                'tournament.settings=[[], ["training.optimizer.name=sgd"]]', ranks=2)
        refused("tournament.held_out", "tournament.held_out=0")
        refused("tournament.trainers shares out the training rows, and so does data.part", "data.part.of=2")
        refused("data.part.number is 2 of 2 parts", "tournament.trainers=1", "data.part.of=2", "data.part.number=2")
        self.make(layers=PLAIN)
        support.make_data(self.path("few.h5"), train=2, validation=4, length=32)
        few = ["tournament.trainers=3", 'data.files=["few.h5"]', "training.batch=1"]
        refused("2 training rows, which are too few for 3 parts", *few, code=3, ranks=3)
        support.make_data(self.path("few.h5"), train=3, validation=4, length=32)
        refused("too few for 3 parts that each hold out one", *few, code=3, ranks=3)

    def test_other_settings_do_not_continue_it(self):
        self.make(trainers=2, rounds=20, steps=4, replace=[("epochs = 4", "epochs = 8")])
        self.interrupt("run", signal.SIGTERM, 4)
        if os.path.exists(self.path("run/result.json")):
            self.skipTest("it was done before it was stopped")
        output = self.fails(2, "train", "config.toml", "--set", "tournament.steps=5", "--set", "tournament.rounds=9", ranks=2,
                            message="tournament.")
        self.assertIn("steps", output)


if __name__ == "__main__":
    support.main()
