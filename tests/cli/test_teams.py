"""Concurrent teams and the scaling benchmark through the command line."""
import csv
import json
import os
import re
import signal
import unittest
import unittest.mock

import numpy as np

import support

CONCURRENT = (support.MRMF_METHOD[0], support.MRMF_METHOD[1] + '\nteams = "concurrent"')


class Teams(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=97, validation=41)
        self.config(replace=[CONCURRENT, ("batch = 16", "batch = 4")])

    def train(self, run, *words, **options):
        return self.mrmf("train", "config.toml", "--set", f"run.folder={run}", *words, **options)

    def test_uneven_teams_leave_one_complete_record_in_order(self):
        output = self.train("run", "--set", "method.team_shares=[3, 2]", ranks=5)
        stages = self.lines("run/stages.jsonl")
        self.assertEqual([(s["stage"], s["role"], s["epochs"], s["last"]["ranks"]) for s in stages],
                         [(1, "coarse", 2, 2), (1, "dense", 1, 3), (2, "coarse", 2, 2), (2, "dense", 1, 3),
                          (3, "finetune", 2, 5)])
        epochs = self.lines("run/epochs.jsonl")
        self.assertEqual([(e["stage"], e["role"], e["epoch"]) for e in epochs],
                         [(s["stage"], s["role"], n + 1) for s in stages for n in range(s["epochs"])])
        self.assertTrue(all(e["samples"] == 97 for e in epochs))  # 97 = 2 * 48 + 1 = 3 * 32 + 1 = 5 * 19 + 2
        for first, second in ((0, 1), (2, 3)):
            waits = [stages[first]["waited_seconds"], stages[second]["waited_seconds"]]
            self.assertGreater(max(waits), 0)
        self.assertEqual(stages[4]["waited_seconds"], 0)
        # Lines of both teams, printed once and kept once.
        for text in (output, self.read("run/log.txt")):
            for role in ("coarse", "dense"):
                self.assertEqual(sum(line.startswith("stage 1 " + role) and " epoch   1 " in line
                                     for line in text.replace("\r", "").splitlines()), 1, text)
        self.assertIn("was ready first and waited", output)
        self.assertFalse(os.path.exists(self.path("run/team")))
        self.models_alone("run")
        # Two seconds of different teams at the same time do not add up.
        result = json.loads(self.read("run/result.json"))
        self.assertEqual(result["ranks"], 5)
        pairs = sum(max(stages[a]["seconds"], stages[a + 1]["seconds"]) for a in (0, 2))
        self.assertGreaterEqual(result["total_seconds"], pairs + stages[4]["seconds"] - 1e-6)
        self.mrmf("evaluate", "run")
        table = self.mrmf("compare", "run")
        self.assertIn("first stage", table)
        wait = float(next(line for line in table.splitlines() if line.startswith("early teams' wait (s)")).split()[-1])
        self.assertAlmostEqual(wait, sum(s["waited_seconds"] for s in stages), places=2)

    def test_measured_teams_tell_what_they_were_cut_by(self):
        output = self.train("run", "--set", "method.stop.dense.epochs=40", ranks=3)
        self.assertEqual(output.count("an epoch on all ranks takes"), 2)
        stages = self.lines("run/stages.jsonl")
        self.assertEqual([s["role"] for s in stages], ["coarse", "dense", "coarse", "dense", "finetune"])
        said = re.findall(r"^stage (\d): the (\w+) team was ready first and waited ([\d.]+) s for the other$", output, re.M)
        self.assertEqual([stage for stage, _, _ in said], ["1", "2"], output)
        for first, (_, role, seconds) in zip((0, 2), said):
            pair = stages[first:first + 2]
            self.assertEqual(sum(s["last"]["ranks"] for s in pair), 3)
            early = max(pair, key=lambda s: s["waited_seconds"])
            self.assertEqual((role, seconds), (early["role"], f"{early['waited_seconds']:.2f}"))
        self.models_alone("run")

    def test_an_error_in_one_team_ends_the_job(self):
        # The dense team's loss is not finite; the coarse team would train on.
        output = self.fails(4, "train", "config.toml", "--set", "method.team_shares=[2, 1]", "--set",
                            "method.dense.learning_rate=1e30", "--set", "training.optimizer.name=sgd", "--set",
                            "method.stop.coarse.epochs=1000000", "--set", "method.stop.coarse.threshold=1e-30",
                            "--set", "method.stop.coarse.patience=1000000", message="stage 1 (dense", ranks=3)
        self.assertIn("loss is", output)

    def test_more_ranks_than_samples(self):
        support.make_data(self.path("data.h5"), train=4, validation=41)
        words = ["--set", "training.batch=1", "--set", "method.coarse.batch=2"]  # a batch norm needs two
        self.fails(2, "train", "config.toml", *words, "--set", "method.team_shares=[4, 1]", ranks=5,
                   message="4 samples cannot be cut into 5 shards; use fewer ranks or shards, or more data")
        self.fails(2, "train", "config.toml", *words, "--set", "method.teams=sequential", ranks=5,
                   message="4 samples cannot be cut into 5 shards; use fewer ranks or shards, or more data")
        self.assertFalse(os.path.exists(self.path("run")))

    def test_both_teams_share_a_nodes_memory(self):
        # 138 samples of 64 x 3 float32 and their averaged copies are about 0.2 MB for each team of one rank.
        for budget, kept in (("0.5e-3", "float32 in memory"), ("0.3e-3", "float32 streamed")):
            output = self.train("run", "--overwrite", "--set", "method.team_shares=[1, 1]", "--set", f"data.memory={budget}",
                                ranks=2)
            for role in ("coarse", "dense"):
                self.assertIn(f"data of the {role} team: {kept}", output)

    def test_bad_splits_are_refused_before_anything_is_written(self):
        for ranks, words, message in (
                (4, ["method.team_shares=[3, 2]"], "method.team_shares = [3, 2] does not fit 4 ranks; use 5 or a multiple"),
                (1, ["method.team_shares=[1, 1]"], "needs a rank for each of two teams"),
                (2, ["method.team_shares=[1, 0]"], "method.team_shares is 0; it must be an integer of at least 1"),
                (1, [], "method.teams = \"concurrent\" needs a rank for each of two teams, and this run has 1; start it "),
                (3, ["run.ranks=32"], "run.ranks = 32, and this run has 3 ranks"),
                (0, ["run.ranks=2", "method.teams=sequential"], "start it with mpirun -n 2 (srun -n 2), or set run.ranks"),
                (2, ["method.join=true"], "--set method.join=true: method.join = true is no longer there"),
                (2, ["method.team_shares=[1, 1]", "training.batch=98"], "the coarse team of stage 1, 1 of 2 ranks: batch = 98"),
                (4, ["method.team_shares=[3, 1]", "data.shards=4", "training.batch=8"],
                 "data.shards = 4 is not a multiple of the 3 ranks"),
                (2, ["method.team_shares=[1, 1]", "method.top=fresh"], "method.teams")):
            with self.subTest(message):
                sets = [word for one in words for word in ("--set", one)]
                self.fails(2, "train", "config.toml", *sets, message=message, ranks=ranks)
                self.assertFalse(os.path.exists(self.path("run")))


class Ranks(support.MrmfTest):
    def test_the_validation_loss_of_the_same_model_is_that_of_one_rank(self):
        # 41 validation samples on up to 5 ranks; a rate so small that training changes no bit of it.
        support.make_data(self.path("data.h5"), train=60, validation=41)
        self.config(replace=[("epochs = 3", "epochs = 1")])
        words = ["--set", "training.optimizer.name=sgd", "--set", "training.optimizer.learning_rate=1e-30", "--set",
                 "data.shards=60", "--set", "data.shuffle=false"]
        losses = []
        for ranks in (1, 3, 5):
            self.mrmf("train", "config.toml", "--overwrite", "--set", f"training.batch={60 // ranks}", *words, ranks=ranks)
            losses.append(self.lines("run/epochs.jsonl")[0]["validation_loss"])
        # Losses of steps are rounded to float32 (6e-8 each), and batch norm's statistics are sums in another order.
        np.testing.assert_allclose(losses, losses[0], rtol=1e-6)

    def test_sums_in_any_order_train_like_others(self):
        support.make_data(self.path("data.h5"))
        self.config(replace=[("layout = ", "shards = 6\nlayout = "), ("batch = 16", "batch = 8"),
                             ('name = "adam", learning_rate = 3e-3', 'name = "sgd", learning_rate = 0.02')])
        losses = []
        for deterministic in ("true", "false"):
            self.mrmf("train", "config.toml", "--overwrite", "--set", f"run.deterministic={deterministic}", ranks=3)
            losses.append([[e["train_loss"], e["validation_loss"]] for e in self.lines("run/epochs.jsonl")])
        np.testing.assert_allclose(losses[0], losses[1], rtol=5e-6)  # as between numbers of ranks: docs/numerics.md


class Scaling(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config(replace=[("batch = 16", "batch = 4")])

    def measure(self, *words, ranks=4):
        return self.mrmf("bench", "scaling", "config.toml", "--epochs", "1", "--csv", "out.csv", "--overwrite", *words, ranks=ranks)

    def rows(self):
        with open(self.path("out.csv"), newline="") as file:
            return [{key: value if key == "grid" else float(value) for key, value in row.items()} for row in csv.DictReader(file)]

    @staticmethod
    def parts(row):
        return row["io_seconds"] + row["compute_seconds"] + row["waited_seconds"]

    def test_strong_and_weak(self):
        for words, batches in (([], [16, 8, 4]), (["--weak"], [4, 4, 4])):
            # The parts are means over the ranks, the epoch is the first rank's: on a busy machine one may start late. Parts
            # that count something twice are more than the epoch each time.
            for _ in range(10):
                output = self.measure("--ranks", "1,2,4", *words)
                rows = self.rows()
                if all(self.parts(row) <= 1.01 * row["epoch_seconds"] for row in rows):
                    break
            else:
                self.fail(f"ten times the parts of an epoch were more than all of it: {rows}")
            self.assertIn("weak scaling" if words else "strong scaling", output)
            self.assertIn("efficiency", output)
            self.assertEqual([row["ranks"] for row in rows], [1, 2, 4])
            self.assertEqual([row["batch_per_rank"] for row in rows], batches)
            for row in rows:
                self.assertAlmostEqual(row["ideal_seconds"], rows[0]["epoch_seconds"] / row["ranks"], places=5)
                self.assertAlmostEqual(row["efficiency"], row["ideal_seconds"] / row["epoch_seconds"], places=2)
            self.assertGreater(rows[1]["waited_seconds"], 0)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_ranks_that_share_samples(self):
        one, each = ["--ranks", "2,4", "--grid", "2"], ["--ranks", "1,2,4", "--grid", "1", "--grid", "2", "--grid", "4"]
        for words, teams in ((one, [(2, "2", 8), (4, "2", 4)]), ([*one, "--weak"], [(2, "2", 4), (4, "2", 4)]),
                             (each, [(1, "1", 4), (2, "2", 4), (4, "4", 4)]),
                             (["--set", "run.grid=[2]"], [(2, "2", 4)])):
            self.measure(*words, ranks=teams[-1][0])
            rows = self.rows()
            self.assertEqual([(row["ranks"], row["grid"], row["batch_per_rank"]) for row in rows], teams)
            for row in rows:
                # Every sample is trained once, whatever the ranks that share it.
                self.assertAlmostEqual(row["samples_per_second"] * row["epoch_seconds"] / 96, 1, places=2)
                self.assertTrue(row["grid"] == "1" or row["waited_seconds"] > 0, row)

    def test_the_planner_chooses_the_grids(self):
        self.mrmf("bench", "tables", "config.toml", "--seconds", "0.005", "--rounds", "1", "--threads", "1", "-o",
                  "tables.json", ranks=2)
        with open(self.path("tables.json"), encoding="utf-8") as file:
            tables = json.load(file)
        for latency, per_byte, grid in ((1.0, 0.0, "1"), (0.0, 1e-3, "2")):
            for team in tables["teams"]:  # messages are dear, or sums of gradients: those of row-parallel weights are fewer
                team["message_by_byte"] = {"latency": latency, "per_unit": 0.0}
                team["sum_by_byte"] = team["update_sum_by_byte"] = {"latency": 0.0, "per_unit": per_byte}
            self.write("tables.json", json.dumps(tables))
            self.measure("--ranks", "1,2", "--grid", "planned", "--tables", "tables.json", ranks=2)
            self.assertEqual([(row["grid"], row["batch_per_rank"]) for row in self.rows()], [("1", 8), (grid, 4 * int(grid))])

    def test_it_draws(self):
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            self.skipTest("no matplotlib")
        self.measure("--ranks", "1,2", "--grid", "1", "--grid", "2", "--plot", "s.png", ranks=2)
        with open(self.path("s.png"), "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")
        self.fails(2, "bench", "scaling", "config.toml", "--epochs", "1", "--plot", "s.gif", message="the name of a plot ends in .png or .svg")

    def test_more_ranks_than_cores_are_told(self):
        cores = os.sysconf("SC_NPROCESSORS_ONLN")
        output = self.measure("--ranks", "1", "--set", f"run.threads={cores + 1}", ranks=0)
        self.assertIn("not how fast the program scales", output)

    def test_bad_input(self):
        self.fails(2, "bench", "scaling", "config.toml", "--ranks", "1,8", message="--ranks 8: this job has 2 ranks", ranks=2)
        self.fails(2, "bench", "scaling", "config.toml", "--ranks", "2,3", "--set", "training.batch=5",
                   message="2 ranks cannot share", ranks=3)
        scaling = ("bench", "scaling", "config.toml", "--epochs", "1")
        self.fails(2, *scaling, "--grid", "2,2", "--ranks", "1", message="--ranks 1: the grid", ranks=2)
        self.fails(2, *scaling, "--grid", "2x2", message="--grid 2x2: it must be one to three integers")
        self.fails(2, *scaling, "--grid", "1", "--grid", "2", "--weak", message="--weak keeps the ranks of a sample", ranks=2)
        self.fails(2, *scaling, "--grid", "planned", "--weak", message="--weak keeps the ranks of a sample", ranks=2)
        self.fails(3, *scaling, "--grid", "planned", "--tables", "none.json", message="none.json", ranks=2)
        self.fails(2, *scaling, "--tables", "none.json", message="--tables goes with --grid planned")
        self.fails(2, *scaling, "--grid", "2", "--set", "training.batch_norm=local", message="batch_norm", ranks=2)

    def start(self, timeout):
        process = self.launch("bench", "scaling", "config.toml", "--ranks", "2", "--epochs", "1000000", "--set",
                              f"run.timeout={timeout}", ranks=2)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def ends_by_its_limit(self, process, timeout, call):
        output = process.communicate(timeout=150)[0]
        self.assertEqual(process.returncode, 4, output)
        self.assertRegex(output, call + rf"\) has not ended within {timeout} s; another rank hangs or has died")

    def test_a_rank_that_hangs(self):
        with unittest.mock.patch.dict(os.environ, support.hangs_when_told()):
            process = self.start(2)
        self.assertIn("strong scaling", process.stdout.readline())
        os.kill(support.ranks_of(process)[1], support.HANG)
        self.ends_by_its_limit(process, 2, "MPI_[A-Z][a-z_]+")

    def test_a_rank_that_hangs_while_teams_are_made(self):
        # No exception gets the others out of that call, so this is another way to end.
        with unittest.mock.patch.dict(os.environ, support.preload("hang_in_split")):
            process = self.start(5)
        self.ends_by_its_limit(process, 5, "MPI_Comm_split")


if __name__ == "__main__":
    support.main()
