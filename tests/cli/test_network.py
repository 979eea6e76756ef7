"""Sums over a slow network: ranks in network namespaces, joined by lines of a Gbit/s (tests/network/run.sh)."""
import json
import os
import signal
import subprocess

import h5py
import numpy as np

import support

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = os.path.join(ROOT, "tests", "network", "run.sh")
CUBES = os.path.join(ROOT, "jobs", "experiments", "communication", "cubes.toml")
CUBES_A_RANK = 2  # and so many steps an epoch
BYTES = 4 * 9.4e6  # that each of two ranks sends in float32


def environment():
    return support.environment() | {"MRMF_CPU_KERNELS": "fixed"}


def namespaces(pid):
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout.split()
    return [name for name in listed if name.startswith((f"mn{pid}s", f"mn{pid}-"))]


class SlowNetwork(support.MrmfTest):
    def setUp(self):
        super().setUp()
        tried = subprocess.run([RUN, "2", "1", "true"], capture_output=True, text=True, env=environment(), cwd=self.folder)
        if tried.returncode == 77:
            self.skipTest(tried.stderr.strip())
        self.assertEqual(tried.returncode, 0, tried.stdout + tried.stderr)

    def step(self, way):
        """Seconds of a step of the quickest epoch, and the bytes that a rank sends in one."""
        train = [support.MRMF, "train", CUBES, "--overwrite"]
        for setting in (f"run.folder={way}", f"training.communication={way}", "training.batch=1", "training.epochs=3",
                        "run.checkpoint.epochs=1000"):
            train += ["--set", setting]
        done = subprocess.run([RUN, "2", "1", *train], capture_output=True, text=True, env=environment(), cwd=self.folder, timeout=400)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        epochs = self.lines(way + "/epochs.jsonl")
        quickest = min(e["compute_seconds"] + e["communication_seconds"] for e in epochs)
        return quickest / CUBES_A_RANK, epochs[0]["sent_bytes"] / CUBES_A_RANK

    def test_levels_and_votes_make_steps_faster(self):
        # By how much is docs/results/communication.md's, measured on a quiet machine; here others may compute, too.
        rng = np.random.default_rng(7)
        with h5py.File(self.path("cubes.h5"), "w") as file:
            for name, count in (("train", 2 * CUBES_A_RANK), ("val", 2)):
                file[f"{name}_cubes"] = rng.normal(0, 1, (count, 32, 32, 32, 4)).astype("float32")
                file[f"{name}_labels"] = rng.uniform(-1, 1, (count, 4)).astype("float32")
        plain, bytes_of_plain = self.step("fp32")
        self.assertGreater(plain, 0.9 * BYTES / 125e6)  # the line is as slow as it should be
        for way, fewer in (("levels8", 6), ("vote", 12)):
            for _ in range(5):
                seconds, sent = self.step(way)
                if plain / seconds > 1.2:
                    break
            self.assertGreater(plain / seconds, 1.2, way)
            self.assertGreater(bytes_of_plain / sent, fewer, way)

    def test_nothing_is_left_when_it_is_ended(self):
        for how in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            process = subprocess.Popen([RUN, "2", "1", "sleep", "1000"], env=environment(), cwd=self.folder, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, start_new_session=True)
            pid = process.pid
            while not subprocess.run(["ip", "netns", "pids", f"mn{pid}-1"], capture_output=True, text=True).stdout:
                self.assertIsNone(process.poll())
            process.send_signal(how)
            self.assertNotEqual(process.wait(timeout=60), 0)
            if how == signal.SIGKILL:  # the next one finds what it has left
                self.assertEqual(len(namespaces(pid)), 3)
                subprocess.run([RUN, "2", "1", "true"], env=environment(), cwd=self.folder, check=True)
            self.assertEqual(namespaces(pid), [])
            self.assertFalse(os.path.exists(f"/etc/netns/mn{pid}-0"))


if __name__ == "__main__":
    support.main()
