"""Signals of batch systems and terminals: real ones to real runs, which save, end with 75 and continue where they were."""
import os
import pty
import re
import resource
import signal
import time
import unittest

import support

STOPPED = 75
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)
ENDLESS = ["--set", "training.epochs=1000000"]


class StopSignals(support.MrmfTest):
    def setUp(self):
        super().setUp()
        support.make_data(self.path("data.h5"))
        self.config()

    def start(self, *words, ranks=0, **options):
        return self.launch("train", "config.toml", *ENDLESS, *words, ranks=ranks, **options)

    def wait_for_epochs(self, process, count):
        while self.epochs_written() < count:
            self.assertIsNone(process.poll(), "the run ended by itself")
            time.sleep(0.002)

    def trained(self, count, ranks=0, words=(), **options):
        """A run that has so many epochs more than it had."""
        process, before = self.start(*words, ranks=ranks, **options), self.epochs_written()
        self.addCleanup(process.kill)
        self.wait_for_epochs(process, before + count)
        return process

    def stopped(self, process, number):
        """The run ends with 75, says on which signal, and left a checkpoint that is whole."""
        output = process.communicate(timeout=300)[0]
        self.assertEqual(process.returncode, STOPPED, output)
        self.assertIn(f"stopped on {number.name} ", self.read("run/log.txt").splitlines()[-1])
        self.assertRegex("\n".join(os.listdir(self.path("run/checkpoints"))), r"^phase-\d+\.h5$")
        return output

    def test_each_saves_and_ends_with_75_and_the_run_goes_on(self):
        for starts, number in enumerate((signal.SIGHUP, signal.SIGUSR2, signal.SIGXCPU)):
            process = self.trained(2)
            process.send_signal(number)
            output = self.stopped(process, number)
            self.assertIn(f"mrmf: {number.name}: stopping after this optimizer step, with a checkpoint", output)
            self.assertEqual(output.count("continues in stage"), min(starts, 1), output)
        epochs = [line["epoch"] for line in self.lines("run/epochs.jsonl")]
        self.assertEqual(epochs, list(range(1, len(epochs) + 1)))

    def test_a_limit_on_cpu_time_is_told_every_second_and_the_first_time_saves(self):
        process = self.trained(2)
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (1, resource.RLIM_INFINITY))  # less than it has had
        self.stopped(process, signal.SIGXCPU)

    def test_nohup_keeps_a_hangup_ignored(self):
        process = self.trained(2, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        self.wait_for_epochs(process, self.epochs_written() + 3)
        process.send_signal(signal.SIGUSR2)
        self.assertNotIn("SIGHUP", self.stopped(process, signal.SIGUSR2))

    def test_a_terminal_that_closes(self):
        pid, terminal = pty.fork()
        if pid == 0:
            try:
                os.chdir(self.folder)
                os.execve(support.MRMF, [support.MRMF, "train", "config.toml", *ENDLESS], support.environment())
            finally:
                os._exit(127)
        while self.epochs_written() < 2:
            os.read(terminal, 65536)  # what it prints
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), STOPPED)
        self.assertIn("stopped on SIGHUP ", self.read("run/log.txt").splitlines()[-1])

    def test_mpirun_passes_sigusr2_on_to_all_ranks(self):
        process = self.trained(2, ranks=2)
        process.send_signal(signal.SIGUSR2)
        self.assertNotIn("MPI_ABORT", self.stopped(process, signal.SIGUSR2))

    def test_one_of_two_ranks_gets_it_and_both_stop(self):
        for rank, number in enumerate((signal.SIGHUP, signal.SIGXCPU)):
            process = self.trained(2, ranks=2)
            os.kill(support.ranks_of(process)[rank], number)
            self.stopped(process, number)

    def threads_that_take_none(self, process):
        """How many there are; a single thread takes signals."""
        taking = []
        others = 0
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            try:
                with open(f"/proc/{process.pid}/task/{thread}/status") as file:
                    status = dict(line.split(":\t", 1) for line in file.read().splitlines())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended
            if any(not int(status["SigBlk"], 16) >> number - 1 & 1 for number in ENDING):
                taking.append(status["Name"])
            else:
                others += 1
        self.assertEqual(taking, ["mrmf signals"])
        return others

    def test_signals_leave_threads_that_compute_alone(self):
        process = self.trained(2, words=["--set", "run.threads=2"])
        self.assertGreaterEqual(self.threads_that_take_none(process), 2)
        process.send_signal(signal.SIGTERM)
        self.stopped(process, signal.SIGTERM)

    def test_signals_within_steps_leave_memory_alone(self):
        # Of dense layers alone: in oneDNN's products of matrices the stack pointer is in the heap.
        network = support.layers("flatten", "dense units=512", "relu", "dense units=512", "relu", "dense units=2")
        self.config(replace=[(support.LAYERS, network), ("batch = 16", "batch = 96")])
        process = self.trained(1)
        while process.poll() is None:
            process.send_signal(signal.SIGXCPU)  # after the first one, no further one ends the run
        self.stopped(process, signal.SIGXCPU)

    def test_a_command_that_has_nothing_to_save_leaves_nothing(self):
        for number in (signal.SIGHUP, signal.SIGUSR2, signal.SIGXCPU):
            process = self.launch("simulate", "neuron", "--samples", "1000000", "-o", "neuron.h5",
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
            while not any(re.search(r"partial-", name) for name in os.listdir(self.folder)):
                self.assertIsNone(process.poll())
                time.sleep(0.002)
            self.threads_that_take_none(process)
            process.send_signal(number)
            self.assertEqual(process.wait(60), -number, process.communicate()[0])
            self.assertEqual(sorted(os.listdir(self.folder)), ["config.toml", "data.h5"])


if __name__ == "__main__":
    support.main()
