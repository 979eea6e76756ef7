"""Stopping and continuing: real signals to real runs, kills at random moments, full disks, damaged files."""
import fcntl
import json
import os
import random
import resource
import signal
import time
import unittest
import unittest.mock

import h5py
import numpy as np

import support

STOPPED = 75
BUSY = ["--set", "run.checkpoint.epochs=1"]  # a file after every epoch: most of a small run's time


class Checkpoint(support.MrmfTest):
    uninterrupted = None  # what the run leaves that is never stopped: one for all tests

    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"), train=960)
        # Seconds of training on an idle machine: enough for a signal to find it at work.
        self.config(replace=[support.MRMF_METHOD, ("batch = 16", "batch = 4"),
                             ("epochs = 2 }, dense = { epochs = 1 }, finetune = { epochs = 2 }",
                              "epochs = 3 }, dense = { epochs = 2 }, finetune = { epochs = 20 }")])

    def start(self, *words, ranks=0, **options):
        return self.launch("train", "config.toml", *words, ranks=ranks, **options)

    def stop_after(self, epochs, how, run, *words, ranks=0):
        """Starts a run, sends the signal once this many epochs are on record; returns the exit code and the output."""
        return self.interrupted(run, lambda: self.stop_once(epochs, how, run, *words, ranks=ranks))

    def stop_once(self, epochs, how, run, *words, ranks):
        # At least one more than were there: a signal to a run that is still starting ends it at once.
        epochs = max(epochs, self.epochs_written(run) + 1)
        process = self.start("--set", f"run.folder={run}", *words, ranks=ranks)
        deadline = time.monotonic() + 300
        while self.epochs_written(run) < epochs and process.poll() is None:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.02))
        process.send_signal(how)
        output = process.communicate(timeout=300)[0]
        return process.returncode, output

    def left(self, run):
        """What must not depend on how often a run was stopped: the model's bits, all losses, why stages ended."""
        with h5py.File(self.path(run + "/checkpoints/final.h5")) as file:
            arrays = {}
            file.visititems(lambda name, item: arrays.update({name: item[()].tobytes()})
                            if isinstance(item, h5py.Dataset) else None)
        epochs = [[e[key] for key in ("stage", "role", "epoch", "train_loss", "validation_loss", "learning_rate")]
                  for e in self.lines(run + "/epochs.jsonl")]
        stages = [[s[key] for key in ("stage", "role", "epochs", "reason")] for s in self.lines(run + "/stages.jsonl")]
        self.assertEqual([s["epochs"] for s in json.loads(self.read(run + "/result.json"))["stages"]],
                         [s[2] for s in stages])
        return arrays, epochs, stages

    def finish(self, run, *words, ranks=0):
        self.mrmf("train", "config.toml", "--set", f"run.folder={run}", *words, ranks=ranks)
        self.models_alone(run)
        return self.left(run)

    def straight(self):
        if Checkpoint.uninterrupted is None:
            Checkpoint.uninterrupted = self.finish("straight")
        return Checkpoint.uninterrupted

    def test_signals_at_random_moments_in_every_stage(self):
        straight = self.straight()
        # Epochs on record: in the coarse, dense, second coarse, second dense and last step of the plan.
        for epochs, how in ((1, signal.SIGUSR1), (4, signal.SIGTERM), (7, signal.SIGINT), (9, signal.SIGTERM),
                            (12, signal.SIGUSR1)):
            code, output = self.stop_after(epochs, how, "run")
            self.assertEqual(code, STOPPED, output)
            self.assertIn(f"mrmf: {how.name}: stopping after this optimizer step", output)
            self.assertRegex(output, f"stopped on {how.name} (in|after) stage [0-9].*; run the same command again")
            self.assertFalse(os.path.exists(self.path("run/result.json")))
        self.assertEqual(self.finish("run"), straight)
        log = self.read("run/log.txt")
        self.assertEqual(log.count("stopped on SIG"), 5)
        self.assertEqual(log.count("\ncontinues "), 5)
        seconds = [e["total_seconds"] for e in self.lines("run/epochs.jsonl")]
        self.assertEqual(seconds, sorted(seconds))
        result = json.loads(self.read("run/result.json"))
        self.assertGreaterEqual(result["total_seconds"], seconds[-1])

    def test_ctrl_c_at_mpirun(self):
        # It lets the ranks continue for so many seconds, sends them SIGTERM, and kills them after as many more. Meanwhile it
        # does not read what they print, so epochs must be long enough that the pipe holds their lines.
        support.make_data(self.path("data.h5"), train=8000)
        with unittest.mock.patch.dict(os.environ, OMPI_MCA_odls_base_sigkill_timeout="2"):
            code, output = self.stop_after(1, signal.SIGINT, "run", "--set", "training.batch=2", "--set",
                                           "method.stop.coarse.epochs=1000", ranks=2)
        self.assertEqual(code, 1, output)
        self.assertIn("stopped on SIGTERM in stage 1 (coarse", self.read("run/log.txt"))
        self.assertTrue(os.path.exists(self.path("run/checkpoints/phase-1.h5")))

    @staticmethod
    def handles(process, number):
        with open(f"/proc/{process.pid}/status") as file:
            caught = next(line for line in file if line.startswith("SigCgt"))
        return int(caught.split()[1], 16) >> (number - 1) & 1

    def test_a_signal_before_training_ends_at_once_and_says_so(self):
        os.mkdir(self.path("run"))
        folder = os.open(self.path("run"), os.O_RDONLY)
        self.addCleanup(os.close, folder)
        fcntl.flock(folder, fcntl.LOCK_EX)  # as another run's: it is waited for, for some seconds
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            code, output = self.signalled_before_training(how)
            self.assertEqual(code, -how, output)
            self.assertIn(f"mrmf: {how.name} before training began: ended; nothing is lost, run the same command again", output)

    def signalled_before_training(self, how):
        for _ in range(10):
            process = self.start()
            support.wait_while(process, lambda: not self.handles(process, how))
            process.send_signal(how)
            output = process.communicate(timeout=60)[0]
            if "is in use by another mrmf train" not in output:  # else the signal came when it had given up
                break
        return process.returncode, output

    def test_an_ignored_ctrl_c_stays_ignored(self):
        # As a script's shell starts its background jobs.
        process = self.start("--set", "method.stop.finetune.epochs=1", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        output = process.communicate()[0]
        self.assertEqual(process.returncode, 0, output)

    def test_a_signal_when_all_is_done_makes_no_failure(self):
        self.addCleanup(unittest.mock.patch.stopall)
        unittest.mock.patch.dict(os.environ, support.preload("kill_in_mpi", MRMF_TERM_IN_FINALIZE="1")).start()
        for ranks in (0, 2):
            self.finish(f"run{ranks}", ranks=ranks)
            self.assertTrue(os.path.exists(self.path(f"run{ranks}/result.json")))

    def test_two_ranks_stop_together(self):
        few = ["--set", "training.batch=16"]
        straight = self.finish("straight", *few, ranks=2)
        code, output = self.stop_after(2, signal.SIGUSR1, "run", *few, ranks=2)  # mpirun passes it on
        self.assertEqual(code, STOPPED, output)
        self.assertNotIn("MPI_ABORT", output)
        self.assertEqual(self.finish("run", *few, ranks=2), straight)

    def test_killed_at_random_moments_while_it_saves(self):
        straight = self.straight()
        for epochs in range(0, 18, 3):
            code, output = self.stop_after(epochs, signal.SIGKILL, "run", *BUSY)
            self.assertEqual(code, -signal.SIGKILL, output)
        self.assertEqual(self.finish("run"), straight)

    def test_a_killed_run_continues_where_it_was_saved_and_forgets_later_records(self):
        straight = self.straight()
        self.stop_after(2, signal.SIGKILL, "run", *BUSY)
        with open(self.path("run/epochs.jsonl"), "a") as file:  # as if epochs had been done after the last file
            file.write(self.read("run/epochs.jsonl").splitlines()[-1] + "\n")
        with open(self.path("run/checkpoints/phase-1.h5.partial-0123456789abcdef"), "w") as file:
            file.write("torn")
        self.assertEqual(self.finish("run", "--set", "data.load=stream"), straight)  # samples come as they did

    def test_other_ranks_go_on_with_the_same_mini_batches(self):
        sgd = ["--set", "training.optimizer.name=sgd", "--set", "data.shards=2", "--set", "training.batch=16"]
        straight = self.finish("straight", *sgd)
        code, output = self.stop_after(2, signal.SIGUSR1, "run", *sgd)
        self.assertEqual(code, STOPPED, output)
        self.fails(2, "train", "config.toml", *sgd, ranks=2,
                   message="holds an unfinished run that was started on 1 rank, and now there are 2: start it on 1, or keep "
                           "its mini-batches with --set training.batch=8; or give --overwrite")
        epochs = self.finish("run", *sgd, "--set", "training.batch=8", ranks=2)[1]
        # The order of float32 sums alone differs: as between runs on different ranks (test_train.py), for more epochs.
        np.testing.assert_allclose([e[4] for e in epochs], [e[4] for e in straight[1]], rtol=1e-4)

    def test_another_configuration_is_refused_and_overwrite_begins_anew(self):
        self.assertEqual(self.stop_after(2, signal.SIGUSR1, "run")[0], STOPPED)
        saved = os.listdir(self.path("run/checkpoints"))
        self.fails(2, "train", "config.toml", "--set", "training.seed=4",
                   message="holds an unfinished run where training.seed is 3, and here it is 4; set it back, give "
                           "--overwrite to begin anew")
        self.assertEqual(os.listdir(self.path("run/checkpoints")), saved)
        few = ["--set", "method.stop.finetune.epochs=1"]
        self.mrmf("train", "config.toml", "--set", "training.seed=4", "--overwrite", *few)
        self.assertEqual(self.lines("run/epochs.jsonl")[0]["epoch"], 1)
        self.models_alone("run")

    def test_a_damaged_file_is_an_error_that_says_what_to_do(self):
        self.assertEqual(self.stop_after(2, signal.SIGUSR1, "run")[0], STOPPED)
        name = [n for n in os.listdir(self.path("run/checkpoints")) if n.endswith(".h5")][0]
        path = self.path("run/checkpoints/" + name)
        with open(path, "rb") as file:
            whole = file.read()
        with h5py.File(path) as file:  # anyone can look into it
            weight = file["parameters/conv1/weight"].id.get_offset()
            self.assertEqual(json.loads(file["progress"][0])["ranks"], 1)
        flipped = bytes([whole[weight] ^ 1])
        for damaged in (whole[:len(whole) // 2], b"", whole[:weight] + flipped + whole[weight + 1:]):
            with open(path, "wb") as file:
                file.write(damaged)
            self.fails(3, "train", "config.toml", message="it does not end with the checksum of what it holds; restore it "
                       "from a copy, or remove it to resume from the checkpoint before it if there is one, or begin anew")
        with open(path, "wb") as file:
            file.write(whole)
        self.mrmf("train", "config.toml")

    def test_a_full_disk_ends_the_run_and_leaves_the_file_before(self):
        self.assertEqual(self.stop_after(1, signal.SIGUSR1, "run")[0], STOPPED)
        before = {name: os.path.getsize(self.path("run/checkpoints/" + name))
                  for name in os.listdir(self.path("run/checkpoints"))}

        def small_files():  # no file may grow beyond this, as on a full disk
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

        process = self.start(*BUSY, preexec_fn=small_files, restore_signals=False)
        output = process.communicate(timeout=300)[0]
        self.assertEqual(process.returncode, 3, output)
        self.assertEqual(output.count("mrmf: error"), 1, output)
        self.assertEqual({name: os.path.getsize(self.path("run/checkpoints/" + name))
                          for name in os.listdir(self.path("run/checkpoints"))}, before)
        self.assertEqual(self.stop_after(4, signal.SIGUSR1, "run")[0], STOPPED)


    def test_a_run_that_ends_in_time_leaves_no_checkpoint(self):
        self.mrmf("train", "config.toml", "--set", "method.stop.finetune.epochs=1", *BUSY)
        self.models_alone("run")

    def test_a_folder_in_use_is_refused_until_its_run_is_dead(self):
        process = self.start("--set", "method.stop.finetune.epochs=100000", *BUSY)
        try:
            deadline = time.monotonic() + 60
            while self.epochs_written("run") < 1:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            process.send_signal(signal.SIGSTOP)  # it need not compute while others wait for it
            before = self.read("run/config.toml")
            for words in ([], ["--overwrite"]):
                self.fails(2, "train", "config.toml", "--set", "training.seed=4", *words,
                           message="run.folder: run is in use by another mrmf train; wait for its end")
            self.fails(2, "train", "config.toml", ranks=2, message="run.folder: run is in use by another mrmf train")
            self.assertEqual(self.read("run/config.toml"), before)
            self.assertIsNone(process.poll())
        finally:
            process.kill()
            process.communicate(timeout=60)
        self.mrmf("train", "config.toml", "--set", "method.stop.finetune.epochs=1", "--overwrite")


if __name__ == "__main__":
    support.main()
