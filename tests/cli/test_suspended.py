"""Ranks that are stopped for longer than run.timeout, as batch systems suspend a job, and go on."""
import json
import os
import signal
import time

import support

LIMIT = 2  # seconds


class Suspended(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def start(self, ranks, *words):
        """A run of many epochs that has begun to train; returns mpirun and the ranks' process ids."""
        process = self.launch("train", "config.toml", "--set", "training.epochs=1000000", "--set", f"run.timeout={LIMIT}", *words,
                              ranks=ranks)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        while self.epochs_written() < 2:
            self.assertIsNone(process.poll())
            time.sleep(0.002)
        return process, support.ranks_of(process)

    def state(self, pid):
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]

    def stop(self, pids):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        while any(self.state(pid) != "T" for pid in pids):
            time.sleep(0.01)

    def goes_on(self, process, pids):
        """Continued, it trains more epochs; then it is asked to stop, and saves."""
        before = self.epochs_written()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        while self.epochs_written() < before + 3:
            self.assertIsNone(process.poll(), "it has ended")
            time.sleep(0.01)
        process.send_signal(signal.SIGUSR1)
        output = process.communicate(timeout=300)[0]
        self.assertEqual(process.returncode, 75, output)
        self.assertNotIn("mrmf: error", output)
        return output

    def test_all_ranks(self):
        for ranks in (2, 3):
            process, pids = self.start(ranks)
            self.stop(pids.values())
            time.sleep(3 * LIMIT)
            self.assertNotIn("is stopped", self.goes_on(process, pids.values()))

    def test_one_rank_and_the_others_say_for_whom_they_wait(self):
        for stopped, *words in ((1,), (0,), (1, "--set", "run.grid=[2]", "--set", "data.shards=1")):
            process, pids = self.start(2, *words)
            self.stop([pids[stopped]])
            line = ""
            while "is stopped" not in line:
                line = process.stdout.readline()
                self.assertNotEqual(line, "", "it has ended")
            self.assertEqual(line, f"mrmf: rank {stopped} (process {pids[stopped]}) is stopped; the others wait until it goes on "
                                   f"(kill -CONT {pids[stopped]})\n")
            time.sleep(LIMIT)
            self.assertEqual(self.goes_on(process, [pids[stopped]]).count("is stopped"), 0)

    def test_two_of_three_ranks(self):
        process, pids = self.start(3)
        self.stop([pids[0], pids[2]])
        line = ""
        while "is stopped" not in line:
            line = process.stdout.readline()
            self.assertNotEqual(line, "", "it has ended")
        self.assertIn("mrmf: rank 0 ", line)
        self.goes_on(process, [pids[0], pids[2]])

    def test_the_records_hold_every_epoch_once(self):
        process, pids = self.start(2)
        for _ in range(3):
            self.stop(pids.values())
            self.goes_on_for_a_while(process, pids.values())
        self.goes_on(process, pids.values())
        epochs = [json.loads(line)["epoch"] for line in self.read("run/epochs.jsonl").splitlines()]
        self.assertEqual(epochs, list(range(1, len(epochs) + 1)))

    def goes_on_for_a_while(self, process, pids):
        before = self.epochs_written()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        while self.epochs_written() <= before:
            self.assertIsNone(process.poll())
            time.sleep(0.002)


if __name__ == "__main__":
    support.main()
