"""Two teams at once that are stopped, or lose a rank; and the run that continues from there."""
import json
import os
import shutil
import signal
import time
import unittest.mock

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
        try:
            how(process)
        except (KeyError, FileNotFoundError, ProcessLookupError):  # the rank has just ended
            pass
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
        return arrays, epochs, [[s[key] for key in ("stage", "role", "epochs", "reason")]
                                for s in self.lines(run + "/stages.jsonl")]

    @unittest.mock.patch.dict(os.environ, support.hangs_when_told())
    def test_a_rank_that_hangs_while_its_team_waits(self):
        words = ["method.team_shares=[1, 2]", "method.stop.coarse.epochs=1", "method.stop.dense.epochs=1000000", "run.timeout=4"]
        for rank in (0, 1):
            run = f"run{rank}"
            code, output = self.interrupt(
                run, words, 3, lambda: self.epochs_so_far(f"{run}/epochs.jsonl") == 1 and
                self.epochs_so_far(f"{run}/team/epochs.jsonl") > 1000, self.kill_rank(rank, support.HANG))
            self.assertEqual(code, 4, output)
            self.assertIn("has not ended within 4 s; another rank hangs", output)

    def test_signals_and_kills_in_both_teams(self):
        words = ["method.team_shares=[1, 1]", "method.stop.coarse.epochs=24", "method.stop.dense.epochs=12",
                 "training.batch=12", "run.checkpoint.epochs=2"]
        self.train("straight", words, ranks=4)

        def both():
            return self.epochs_so_far("run/epochs.jsonl", "run/team/epochs.jsonl") > 4

        def goes_on():
            output = self.train("run", words, ranks=4)
            self.assertRegex(output, "continues (in|after) stage ")
            self.assertEqual(self.left("run"), self.left("straight"))

        code, output = self.interrupt("run", words, 4, both, lambda process: process.send_signal(signal.SIGUSR1))
        self.assertEqual(code, 75, output)
        for folder, role, epochs in (("run", "coarse", 24), ("run/team", "dense", 12)):  # mpirun may drop last lines
            if self.epochs_so_far(folder + "/epochs.jsonl") < epochs:  # else it was done, and only waited for the other
                self.assertRegex(self.read(folder + "/log.txt"), rf"stopped on SIGUSR1 in stage [12] \({role}")
        self.assertEqual({"phase-1.h5", "phase-2.h5"}, set(os.listdir(self.path("run/checkpoints"))))
        self.assertFalse(os.path.exists(self.path("run/result.json")))
        goes_on()
        for rank in (1, 2):  # of the coarse and of the dense team: in either case the job ends, and continues from what is there
            shutil.rmtree(self.path("run"))
            code, output = self.interrupt("run", words, 4, both, self.kill_rank(rank))
            self.assertNotIn(code, (0, 75), output)
            self.assertFalse(os.path.exists(self.path("run/result.json")))
            goes_on()

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


if __name__ == "__main__":
    support.main()
