#!/usr/bin/env python3
"""What srun, sbatch and salloc start, seen by mrmf: tasks that do not know of each other, and jobs that are suspended."""
import pathlib
import subprocess
import time
import unittest

from job_test import JobTest
from submit_test import MRMF

LIMIT = 2  # seconds that ranks wait for each other


class Tasks(JobTest):
    def slurm(self, *words, code=0):
        """Runs a command of Slurm in the scratch folder; its standard output, and the lines of standard error that are not
        Slurm's."""
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout, [line for line in done.stderr.splitlines() if not line.startswith(("srun: ", "salloc: "))]

    def unseen(self, *words):
        before = sorted(self.folder.iterdir())
        output, errors = self.slurm(*words, code=2)
        self.assertEqual(output, "")
        self.assertEqual(len(errors), 1, errors)
        self.assertIn("mrmf: error: srun started 2 tasks and MPI sees 1 of them, so each would do all of the work by itself, "
                      "on the same files; start them with srun --mpi=pmix", errors[0])
        self.assertEqual(sorted(self.folder.iterdir()), before)

    def test_tasks_that_do_not_see_each_other(self):
        self.unseen("srun", "-n", "2", MRMF, "train", "config.toml")
        # By an interface that Debian's Open MPI does not understand: MPI itself would fill a page.
        self.unseen("srun", "-n", "2", "--mpi=pmi2", MRMF, "train", "config.toml")
        self.unseen("srun", "-n", "2", MRMF, "coarsen", "data.h5", "--factor", "2", "-o", "coarse")
        self.unseen("salloc", "-n", "4", "srun", "-n", "2", "sh", "-c", f"{MRMF} train config.toml")

    def test_tasks_that_do(self):
        self.shorten()
        for words in (["srun", "-n", "2", "--mpi=pmix"], ["salloc", "-n", "2", "mpirun", "--bind-to", "none", "-n", "2"]):
            self.slurm(*words, MRMF, "train", "config.toml", "--overwrite")
            self.assertEqual(self.result("run")["ranks"], 2)

    def test_a_command_by_itself_in_a_job_of_several_tasks(self):
        plan = [MRMF, "plan", "config.toml"]
        alone = subprocess.run(plan, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=True).stdout
        self.assertEqual(self.slurm("salloc", "-n", "2", *plan), (alone, []))
        self.assertEqual(self.slurm("salloc", "-n", "4", "srun", "-n", "1", *plan), (alone, []))
        self.assertEqual(self.slurm("srun", "-n", "1", "--mpi=pmi2", *plan), (alone, []))
        self.write("batch.sh", "#!/bin/sh\n" + " ".join(plan) + "\n")
        self.slurm("sbatch", "-n", "2", "--wait", "-o", "batch.out", "batch.sh")
        self.assertEqual((self.folder / "batch.out").read_text(), alone)
        # From within a step, whose variables the job inherits.
        self.slurm("srun", "-n", "2", "sh", "-c", 'test $SLURM_PROCID = 0 || sbatch -n 1 --wait -o inner.out batch.sh')
        self.assertEqual((self.folder / "inner.out").read_text(), alone)

    def test_threads_that_openmp_is_told_to_bind(self):
        def cores(*variables):
            output, _ = self.slurm("srun", "-n", "1", "env", *variables, MRMF, "doctor")
            return next(line for line in output.splitlines() if line.startswith("processor"))
        self.assertEqual(cores("OMP_PROC_BIND=close", "OMP_PLACES=cores"), cores())

    def test_tasks_that_are_to_work_apart(self):
        self.shorten()
        self.slurm("srun", "-n", "2", "sh", "-c", f"SLURM_STEP_NUM_TASKS=1 {MRMF} train config.toml --set run.folder=run-"
                   "$SLURM_PROCID")
        self.assertEqual([self.result(f"run-{task}")["ranks"] for task in range(2)], [1, 1])

    def test_a_suspended_job_goes_on(self):
        self.write("config.toml", pathlib.Path(self.folder / "config.toml").read_text()
                   .replace("[run]\n", f"[run]\ntimeout = {LIMIT}\n"))
        job = self.start()
        self.hold("run")  # so that it does not end meanwhile; Slurm lets it continue
        self.cluster.run("scontrol", "suspend", job)
        self.cluster.wait("it is suspended", lambda: self.cluster.job(job).get("JobState") == "SUSPENDED")
        time.sleep(3 * LIMIT)
        self.cluster.run("scontrol", "resume", job)
        self.assertEqual(self.wait_for_state(job, "COMPLETED")["Restarts"], "0")
        self.is_complete("run")


if __name__ == "__main__":
    unittest.main(verbosity=2)
