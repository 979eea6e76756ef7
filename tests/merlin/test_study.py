#!/usr/bin/env python3
"""jobs/merlin under the real Merlin: the whole study, its exit codes, and what is left after Redis is killed."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

import h5py

ROOT = pathlib.Path(__file__).resolve().parents[2]
MRMF, VENV = os.environ["MRMF"], os.environ["MERLIN_VENV"]
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")


def children(pid):
    try:
        found = [int(child) for task in os.listdir(f"/proc/{pid}/task")
                 for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return found + [below for child in found for below in children(child)]


class Study(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-merlin-", ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def command(self, *words):
        return [ROOT / "jobs/merlin/run.sh", "--program", MRMF, "--venv", VENV, "--folder", self.folder / "studies", "--members", "24",
                "--tasks", "3", "--epochs", "2", "--seconds", "300", *words]

    def study(self):
        return next((self.folder / "studies").glob("mrmf_*"))

    def check(self):
        study = self.study()
        found = json.loads((study / "study.json").read_text())
        self.assertEqual((found["members"], found["done"], found["failed"]), (24, 24, []))
        self.assertEqual(set(found["validation_loss"]), {"coarse", "dense", "finetune"})
        with h5py.File(study / "ensemble/data.h5") as file:
            self.assertEqual(list(file["member"]), list(range(24)))
        # Every member once, whatever was started twice.
        done = [json.loads(line[17:])["member"] for journal in (study / "ensemble").rglob("journal*.txt")
                for line in journal.read_text().splitlines() if '"row"' in line]
        self.assertEqual(sorted(done), list(range(24)))

    def test_redis_is_killed_and_the_study_continues(self):
        process = subprocess.Popen(self.command(), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.kill)
        while process.poll() is None and not list((self.folder / "studies").rglob("journal*.txt")):
            time.sleep(0.02)
        for child in children(process.pid):
            try:
                if "redis-server" in pathlib.Path(f"/proc/{child}/cmdline").read_text():
                    os.kill(child, signal.SIGKILL)
            except FileNotFoundError:
                pass
        output = process.communicate(timeout=300)[0]
        self.assertEqual(process.returncode, 1, output)
        self.assertRegex(output, "merlin: (Redis is gone; nothing that was made is lost|a worker has ended)")
        done = subprocess.run(self.command("--continue", self.study()), env=ENVIRONMENT, capture_output=True, text=True, timeout=400)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        self.check()

    def logs(self):
        return "".join(f"\n== {log}\n{log.read_text()[-3000:]}" for log in (self.folder / "studies").glob("*.log"))


class Step(unittest.TestCase):
    def step(self, *words):
        return subprocess.run([ROOT / "jobs/merlin/step.sh", *words], capture_output=True, text=True, timeout=60).returncode

    def test_exit_codes(self):
        for kind, wrong in (("stage", 102), ("sample", 101)):
            for code, expected in ((0, 0), (75, 100), (138, 100), (143, 100), (2, wrong), (3, wrong), (4, wrong), (137, wrong)):
                self.assertEqual(self.step(kind, "--", "sh", "-c", f"exit {code}"), expected, f"{kind} {code}")
            self.assertEqual(self.step(kind, "--needs", "/not/there", "--", "true"), wrong)
            self.assertEqual(self.step(kind, "--unless", "/", "--", "false"), 0)
            self.assertEqual(self.step(kind, "--", "sh", "-c", "echo 'x is being worked on by process 7' >&2; exit 2"), 104)
        self.assertEqual(self.step("other", "--", "true"), 102)


if __name__ == "__main__":
    unittest.main(verbosity=1)
