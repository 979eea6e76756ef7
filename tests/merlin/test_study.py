#!/usr/bin/env python3
"""jobs/merlin under the real Merlin: the whole study while Redis and then all of it are killed, in a batch job where there
is Slurm; its exit codes."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import h5py

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/slurm"))
from cluster import Cluster  # noqa: E402

MRMF, VENV = os.environ["MRMF"], os.environ["MERLIN_VENV"]
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")


def children(pid):
    try:
        found = [int(child) for task in os.listdir(f"/proc/{pid}/task")
                 for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return found + [below for child in found for below in children(child)]


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except FileNotFoundError:
        return ""


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

    def killed(self, condition, chosen, *words):
        """Starts run.sh and kills its chosen children, and theirs, once condition() holds. It may be done before that."""
        process = subprocess.Popen(self.command(*words), env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.kill)
        while process.poll() is None and not condition():
            time.sleep(0.02)
        found = [child for child in children(process.pid) if chosen in command_of(child)] if chosen else [process.pid]
        for pid in [below for one in found for below in (one, *children(one))]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        output = process.communicate(timeout=300)[0]
        return process.returncode, output

    def environment(self):
        return dict(ENVIRONMENT, TMPDIR=str(self.folder))  # a killed run.sh leaves its own folder there

    def test_the_study_survives_kills_and_runs_in_a_batch_job(self):
        journals = lambda: list((self.folder / "studies").rglob("journal*.txt"))
        code, output = self.killed(journals, "redis-server")
        self.assertEqual(code, 1, output)
        self.assertRegex(output, "merlin: (Redis is gone; nothing that was made is lost|a worker has ended)")
        # As if the node were lost: the workers, what they run, Redis, and run.sh itself.
        trained = lambda: list(self.study().rglob("train/*/run/epochs.jsonl"))
        code, output = self.killed(trained, "", "--continue", self.study())
        self.assertIn(code, (0, -signal.SIGKILL), output)
        command = self.command("--continue", self.study())
        if not all(shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") for name in ("slurmctld", "slurmd", "munged")):
            print("without a batch job: Slurm is not here")
            done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=400)
        else:
            with Cluster() as cluster:
                wrapped = " ".join(map(str, command))
                done = subprocess.run(["sbatch", "--wait", "--ntasks=1", "--cpus-per-task=2", "--time=10", f"--output={self.folder}/studies/job.log",
                                       "--wrap", wrapped], env=dict(self.environment(), SLURM_CONF=cluster.environment["SLURM_CONF"]),
                                      capture_output=True, text=True, timeout=400)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.logs())
        self.check()

    def test_a_dry_run_writes_the_steps_and_runs_none(self):
        done = subprocess.run(self.command("--dry-run"), env=self.environment(), capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        steps = {pathlib.Path(line).name for line in done.stdout.splitlines()}
        self.assertTrue({"simulate.sh", "pack.sh", "train_STAGE.coarse.sh", "train_STAGE.dense.restart.sh", "fuse.sh", "finetune.sh", "evaluate.sh",
                         "collect.sh"} <= steps, done.stdout)
        self.assertFalse(list(self.study().rglob("ensemble.json")))
        # Workers of a batch job of several nodes are started by srun.
        home = self.folder / "home/.merlin"
        home.mkdir(parents=True)
        (home / "app.yaml").write_text("".join(f"{name}: {{ name: redis, server: 127.0.0.1, port: 1, db_num: 0 }}\n"
                                               for name in ("broker", "results_backend")))
        workers = subprocess.run([f"{VENV}/bin/merlin", "run-workers", ROOT / "jobs/merlin/study.yaml", "--echo", "--vars", "BATCH=slurm",
                                  f"OUTPUT_PATH={self.folder}"], env=dict(self.environment(), HOME=str(home.parent), PATH=f"{VENV}/bin:{os.environ['PATH']}"),
                                 capture_output=True, text=True, timeout=100)
        self.assertEqual(workers.stdout.count("srun -N 1 -n 1 celery -A merlin worker"), 2, workers.stdout + workers.stderr)

    def logs(self):
        return "".join(f"\n== {log}\n{log.read_text()[-3000:]}" for log in (self.folder / "studies").glob("*.log"))


class Step(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-merlin-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def step(self, *words):
        return subprocess.run([ROOT / "jobs/merlin/step.sh", *words], capture_output=True, text=True, timeout=60, cwd=self.folder).returncode

    def test_a_stage_is_run_by_one_at_a_time(self):
        began = pathlib.Path(self.folder) / "began"
        first = subprocess.Popen([ROOT / "jobs/merlin/step.sh", "stage", "--", "sh", "-c", "echo $$ > pid; mv pid began; exec sleep 60"], cwd=self.folder)
        self.addCleanup(first.kill)
        while not began.exists():
            time.sleep(0.01)
        command = int(began.read_text())
        second = subprocess.run([ROOT / "jobs/merlin/step.sh", "stage", "--", "true"], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(second.returncode, 104)
        self.assertRegex(second.stderr, rf"^step: process {first.pid} of \S+.* is at work here")
        # Its worker is killed, and it goes on.
        first.kill()
        first.wait()
        self.assertEqual(self.step("stage", "--", "true"), 104)
        os.kill(command, signal.SIGKILL)
        while pathlib.Path(f"/proc/{command}/fd/9").exists():
            time.sleep(0.01)
        self.assertEqual(self.step("stage", "--", "true"), 0)

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
