"""Ranks that are stopped for longer than run.timeout, as batch systems suspend a job, and continue."""
import os
import shutil
import signal
import subprocess
import time

import support

LIMIT = 4  # seconds: a rank of a busy machine is late, too


class Suspended(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def start(self, ranks, *words):
        """A new run of many epochs that has begun to train; returns mpirun and the ranks' process ids."""
        shutil.rmtree(self.path("run"), ignore_errors=True)
        words = ["train", "config.toml", "--set", "training.epochs=1000000", "--set", f"run.timeout={LIMIT}", *words]
        with open(self.path("said.txt"), "w") as said:
            process = subprocess.Popen(support.command(words, ranks), cwd=self.folder, stdout=said, stderr=said,
                                       env=support.environment())
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_for_epochs(process, 2)
        return process, support.ranks_of(process)

    def wait_for_epochs(self, process, count):
        while self.epochs_written() < count:
            self.assertIsNone(process.poll(), self.read("said.txt") if process.returncode else "")
            time.sleep(0.01)

    def wait_for_words(self, process, words):
        """The line that holds them."""
        while words not in self.read("said.txt"):
            self.assertIsNone(process.poll(), self.read("said.txt") if process.returncode else "")
            time.sleep(0.01)
        return next(line for line in self.read("said.txt").splitlines() if words in line)

    def state(self, pid):
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]

    def stop(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        while any(self.state(pid) != "T" for pid in pids):
            time.sleep(0.01)

    def goes_on(self, process, pids):
        """Continued, it trains more epochs."""
        before = self.epochs_written()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        self.wait_for_epochs(process, before + 3)

    def ends(self, process):
        """Asked to stop, it saves; returns what it said."""
        process.send_signal(signal.SIGUSR1)
        process.wait(timeout=300)
        said = self.read("said.txt")
        self.assertEqual(process.returncode, 75, said)
        self.assertNotIn("mrmf: error", said)
        return said

    def test_all_ranks(self):
        for ranks in (2, 3):
            process, pids = self.start(ranks)
            self.stop(pids.values())
            time.sleep(2 * LIMIT)
            self.goes_on(process, pids.values())
            self.assertNotIn("is stopped", self.ends(process))
            epochs = [line["epoch"] for line in self.lines("run/epochs.jsonl")]
            self.assertEqual(epochs, list(range(1, len(epochs) + 1)))

    def test_one_rank_and_the_others_say_for_whom_they_wait(self):
        for stopped, *words in ((1,), (0,), (1, "--set", "run.grid=[2]", "--set", "data.shards=1")):
            process, pids = self.start(2, *words)
            self.stop([pids[stopped]])
            self.assertEqual(self.wait_for_words(process, "is stopped"), f"mrmf: rank {stopped} (process {pids[stopped]}) is "
                             f"stopped; the others wait until it continues (kill -CONT {pids[stopped]})")
            time.sleep(LIMIT / 2)
            self.goes_on(process, [pids[stopped]])
            self.assertEqual(self.ends(process).count("is stopped"), 1)

    def test_two_of_three_ranks(self):
        process, pids = self.start(3)
        self.stop([pids[0], pids[2]])
        self.assertIn("mrmf: rank 0 ", self.wait_for_words(process, "is stopped"))
        self.goes_on(process, [pids[0], pids[2]])
        self.ends(process)


if __name__ == "__main__":
    support.main()
