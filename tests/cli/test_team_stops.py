"""Two teams at once that are stopped, lose a rank, or join each other; and the run that goes on from there."""
import json
import os
import shutil
import signal
import time

import h5py

import support

CONCURRENT = (support.MRMF_METHOD[0], support.MRMF_METHOD[1] + '\nteams = "concurrent"')


class TeamStops(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=97, validation=41)
        self.config(replace=[CONCURRENT, ("batch = 16", "batch = 4")])

    @staticmethod
    def options(run, words):
        return ["train", "config.toml", "--set", f"run.folder={run}", *[word for one in words for word in ("--set", one)]]

    def train(self, run, words, ranks, code=0):
        return self.mrmf(*self.options(run, words), ranks=ranks, code=code)

    def interrupt(self, run, words, ranks, when, how):
        """Starts the run, waits until when() says so, calls how(process); returns exit code and output."""
        return self.interrupted(run, lambda: self.interrupt_once(run, words, ranks, when, how))

    def interrupt_once(self, run, words, ranks, when, how):
        shutil.rmtree(self.path(run + "/team"), ignore_errors=True)  # of an earlier start: when() is to see this one's
        process = self.launch(*self.options(run, words), ranks=ranks)
        deadline = time.monotonic() + 300
        while not when():
            self.assertLess(time.monotonic(), deadline)
            if process.poll() is not None:
                output = process.communicate()[0]
                self.assertEqual(process.returncode, 0, output)
                return 0, output
            time.sleep(0.002)
        how(process)
        output = process.communicate(timeout=300)[0]
        return process.returncode, output

    @staticmethod
    def kill_rank(rank, by=signal.SIGKILL):
        return lambda launcher: os.kill(support.ranks_of(launcher)[rank], by)

    def epochs_so_far(self, *records):
        def count(name):
            return self.read(name).count("\n") if os.path.exists(self.path(name)) else 0
        return min(count(record) for record in records)

    def left(self, run):
        with h5py.File(self.path(run + "/checkpoints/final.h5")) as file:
            arrays = {}
            file.visititems(lambda name, item: arrays.update({name: item[()].tobytes()})
                            if isinstance(item, h5py.Dataset) else None)
        epochs = [[e[key] for key in ("stage", "role", "epoch", "ranks", "train_loss", "validation_loss")]
                  for e in self.lines(run + "/epochs.jsonl")]
        return arrays, epochs, [[s[key] for key in ("stage", "role", "epochs", "reason", "joined_after")]
                                for s in self.lines(run + "/stages.jsonl")]

    def test_a_rank_that_hangs_while_its_team_waits(self):
        words = ["method.split=[1, 2]", "method.stop.coarse.epochs=1", "method.stop.dense.epochs=1000000", "run.timeout=4"]
        for rank in (0, 1):
            run = f"run{rank}"
            code, output = self.interrupt(
                run, words, 3, lambda: self.epochs_so_far(f"{run}/epochs.jsonl") == 1 and
                self.epochs_so_far(f"{run}/team/epochs.jsonl") > 1000, self.kill_rank(rank, signal.SIGSTOP))
            self.assertEqual(code, 4, output)
            self.assertIn("has not ended within 4 s; another rank hangs", output)

    def test_signals_and_kills_in_both_teams(self):
        words = ["method.split=[1, 1]", "method.stop.coarse.epochs=60", "method.stop.dense.epochs=30",
                 "training.batch=12", "run.checkpoint.epochs=2"]
        self.train("straight", words, ranks=4)

        def both():
            return self.epochs_so_far("run/epochs.jsonl", "run/team/epochs.jsonl") > 4
        code, output = self.interrupt("run", words, 4, both, lambda process: process.send_signal(signal.SIGUSR1))
        self.assertEqual(code, 75, output)
        for folder, role, epochs in (("run", "coarse", 60), ("run/team", "dense", 30)):  # mpirun may drop last lines
            if self.epochs_so_far(folder + "/epochs.jsonl") < epochs:  # else it was done, and only waited for the other
                self.assertIn(f"stopped on SIGUSR1 in stage 1 ({role}", self.read(folder + "/log.txt"))
        self.assertEqual({"step-1.h5", "step-2.h5"}, set(os.listdir(self.path("run/checkpoints"))))
        self.assertFalse(os.path.exists(self.path("run/result.json")))
        for rank in (1, 2):  # of the coarse and of the dense team: in either case the job ends, and goes on from what is there
            code, output = self.interrupt("run", words, 4, lambda: self.epochs_so_far("run/team/epochs.jsonl") > 4,
                                          self.kill_rank(rank))
            self.assertNotIn(code, (0, 75), output)
            self.assertFalse(os.path.exists(self.path("run/result.json")))
        output = self.train("run", words, ranks=4)
        self.assertIn("continues in stage ", output)
        self.assertEqual(self.left("run"), self.left("straight"))

    def test_a_signal_while_teams_are_measured(self):
        # An epoch takes a second or more on these samples, and the run stops at its next step.
        support.make_data(self.path("data.h5"), train=12000, validation=41)
        words = ["method.resolutions=[[2], [1]]", "method.stop.coarse.epochs=1", "method.stop.finetune.epochs=1"]
        kept = self.path("run/checkpoints/teams.json")

        def measuring(role):
            log = self.path("run/log.txt")
            return os.path.exists(log) and f"measuring an epoch of the {role} model" in self.read("run/log.txt")

        for role in ("dense", "coarse"):  # in this order
            shutil.rmtree(self.path("run"), ignore_errors=True)
            code, output = self.interrupt("run", words, 2, lambda: measuring(role),
                                          lambda process: process.send_signal(signal.SIGUSR1))
            self.assertEqual(code, 75, output)
            self.assertIn("stopped on SIGUSR1 while the teams of stage 1 were measured; run the same command again", output)
            self.assertNotIn("an epoch on all ranks takes", output)  # not at the end of what it measured
            self.assertEqual(os.path.exists(kept), role == "coarse")
        dense = json.loads(self.read("run/checkpoints/teams.json"))["seconds"]["1"]["dense"]
        output = self.train("run", words, ranks=2)
        self.assertIn("measuring an epoch of the coarse model", output)
        self.assertNotIn("measuring an epoch of the dense model", output)
        self.assertIn(f"an epoch on all ranks takes {dense:.3f} s dense", output)
        self.assertEqual([s["role"] for s in self.lines("run/stages.jsonl")], ["coarse", "dense", "finetune"])

    def test_the_early_team_joins_the_other(self):
        epochs = 60
        words = ["method.split=[2, 1]", "method.join=true", "method.resolutions=[[2], [1]]",
                 f"method.stop.dense.epochs={epochs}", "training.batch=16"]
        for _ in range(5):
            shutil.rmtree(self.path("run"), ignore_errors=True)
            output = self.train("run", words, ranks=3)
            coarse, dense, finetune = self.lines("run/stages.jsonl")
            if dense["joined_after"] > 0:
                break  # else something had the coarse team's core for all of the dense one's epochs
        self.assertIn("the coarse team was ready first, waited", output)
        joined = dense["joined_after"]
        self.assertTrue(0 < joined < epochs, joined)
        self.assertIn(f"the other team joined the dense team after {joined} epoch", output)
        self.assertGreater(coarse["waited_seconds"], 0)
        self.assertEqual((coarse["joined_after"], finetune["joined_after"], dense["epochs"]), (0, 0, epochs))
        records = [e for e in self.lines("run/epochs.jsonl") if e["role"] == "dense"]
        # Two ranks with 16 samples each make 32; three with 11 make 33, the next that they can share out evenly.
        self.assertEqual([(e["epoch"], e["ranks"], e["batch"]) for e in records],
                         [(n, 2, 16) if n <= joined else (n, 3, 11) for n in range(1, epochs + 1)])
        self.assertTrue(all(e["samples"] == 97 for e in self.lines("run/epochs.jsonl")))
        times = [e["total_seconds"] for e in records]
        self.assertEqual(times, sorted(times))
        self.assertFalse(os.path.exists(self.path("run/team")))
        self.assertIn("early teams' wait (s)", self.mrmf("compare", "run"))
        # The same run without: the dense model trains as long, on nearly as many samples a step, to nearly the same loss.
        self.train("apart", [*words, "method.join=false"], ranks=3)
        apart = self.lines("apart/stages.jsonl")[1]
        self.assertEqual((apart["epochs"], apart["last"]["ranks"], apart["joined_after"]), (epochs, 2, 0))
        first = self.lines("apart/epochs.jsonl")[2]["validation_loss"]
        fall, fall_apart = (first - stage["last"]["validation_loss"] for stage in (dense, apart))
        # Steps of 33 samples for 32, from an epoch on that depends on the machine: alike, not equal.
        self.assertGreater(fall, 0.5 * fall_apart)

    def test_a_joined_team_that_loses_a_rank_goes_on_joined(self):
        words = ["method.split=[2, 1]", "method.join=true", "method.resolutions=[[2], [1]]",
                 "method.stop.dense.epochs=60", "training.batch=16", "run.checkpoint.epochs=1"]

        def joined(run, more):
            def epochs():
                records = self.path(run + "/team/epochs.jsonl")
                return os.path.exists(records) and self.read(run + "/team/epochs.jsonl").count('"ranks":3') >= more
            return epochs
        code, output = self.interrupt("run", words, 3, joined("run", 3), self.kill_rank(1))
        self.assertNotIn(code, (0, 75), output)
        shutil.copytree(self.path("run"), self.path("other"))
        self.assertNotIn("and joined the dense team", self.train("run", words, ranks=3))  # not anew
        code, output = self.interrupt("other", words, 3, joined("other", 2),
                                      lambda process: process.send_signal(signal.SIGUSR1))
        self.assertEqual(code, 75, output)
        self.train("other", words, ranks=3)
        self.assertEqual(self.left("run"), self.left("other"))
        dense = self.lines("run/stages.jsonl")[1]
        self.assertEqual([e["ranks"] for e in self.lines("run/epochs.jsonl") if e["role"] == "dense"],
                         [2 if n <= dense["joined_after"] else 3 for n in range(1, 61)])

    def test_a_run_that_joins_keeps_its_number_of_ranks(self):
        words = ["method.split=[1, 1]", "method.join=true", "method.stop.coarse.epochs=300", "data.shards=12"]
        code, output = self.interrupt("run", [*words, "training.batch=24"], 2,
                                      lambda: self.epochs_so_far("run/epochs.jsonl") > 2,
                                      lambda process: process.send_signal(signal.SIGUSR1))
        self.assertEqual(code, 75, output)
        output = self.train("run", [*words, "training.batch=12"], ranks=4, code=2)
        self.assertIn("holds an unfinished run on 2 ranks with method.join = true", output)


if __name__ == "__main__":
    support.main()
