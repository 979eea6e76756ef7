#!/usr/bin/env python3
"""Jobs of jobs/submit.sh under a real Slurm, which cluster.py starts."""
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from janitor import processes_of
from job_test import JobTest
from submit_test import MRMF


class Jobs(JobTest):
    def test_two_ranks_train(self):
        self.shorten()
        job = self.start()
        self.wait_for_state(job, "COMPLETED")
        self.is_complete("run")
        self.assertIn("ranks      2", self.log(job))
        self.assertIn("environment of the site: yes", self.log(job))

    def test_scaling_benchmark(self):
        self.write("tiny.job", "kind=bench\nconfig=config.toml\nrank_counts='1 2'\ntime=10\n")
        job = self.start()
        self.wait_for_state(job, "COMPLETED")
        rows = (self.folder / "run/scaling.csv").read_text().splitlines()
        # Strong scaling: the mini-batch of two ranks with 80 each.
        self.assertEqual([row.split(",")[:2] for row in rows[1:]], [["1", "160"], ["2", "80"]])
        self.assertIn("strong scaling", self.log(job))

    def test_array_goes_on_where_one_task_is_stopped(self):
        self.write("tiny.job", "kind=array\nconfig=config.toml\nranks=2\ntime=10\nseeds='4 3'\n")
        job = self.start()
        self.hold("run/seed-3")
        self.signal_held(f"{job}_3")
        self.wait_for_state(f"{job}_4", "COMPLETED")
        self.assertEqual(self.wait_for_state(f"{job}_3", "COMPLETED")["Restarts"], "1")
        self.assertEqual(self.cluster.job(f"{job}_4")["Restarts"], "0")
        self.assertEqual(self.is_complete("run/seed-4")["seed"], 4)
        self.assertEqual(self.result("run/seed-3")["seed"], 3)
        self.was_continued("run/seed-3", self.log(f"{job}_3"))

    def test_array_of_an_ensemble_collects_once_all_tasks_are_done(self):
        self.write("spec.toml", 'ensemble.folder = "ignored"\nsimulate = { simulator = "heat", size = 16 }\n'
                   'design = { kind = "sobol", members = 30, keys.velocity_x = [-0.1, 0.1] }\n')
        self.write("tiny.job", "kind=ensemble\nconfig=spec.toml\nranks=2\ntime=10\nparts=3\n")
        job = self.start()
        for part in range(3):
            self.wait_for_state(f"{job}_{part}", "COMPLETED")
        self.assertEqual(self.result("run")["done"], 30)
        self.assertTrue((self.folder / "run/data.h5").exists())
        self.assertIn("is finished already", self.submit("tiny.job", "./here.sh", "--folder=run", code=2))

    def test_preempted_job_continues(self):
        # It takes six of the eight cores, so the urgent job can only run in its place.
        job = self.start("--partition=batch", "--cpus-per-rank=3")
        self.hold("run")
        urgent = self.cluster.run("sbatch", "--parsable", "--partition=urgent", "--ntasks=4", "--output=/dev/null",
                                  "--wrap=sleep 1").stdout.strip()
        self.wait_for_state(urgent, "COMPLETED")
        self.assertEqual(self.wait_for_state(job, "COMPLETED")["Restarts"], "1")
        self.was_continued("run", self.log(job))

    def test_cancelled_job_stays_away(self):
        job = self.start()
        self.hold("run")  # scancel lets it continue, too
        self.cluster.run("scancel", job)
        self.wait_for_state(job, "CANCELLED")
        time.sleep(2)  # a requeue would have come with the end of the job's step
        fields = self.cluster.job(job)
        self.assertEqual((fields["JobState"], fields["Restarts"]), ("CANCELLED", "0"))

    def test_run_is_not_queued_twice(self):
        job = self.start("--sbatch=--begin=now+1hour")
        output = self.submit("tiny.job", "./here.sh", "--folder=run", code=2)
        self.assertIn(f"run is queued or running already, as job {job}; ", output)
        self.cluster.run("scancel", job)

    def test_requeues_are_counted(self):
        job = self.start("--max-requeues=0")
        self.hold("run")
        self.signal_held(job)
        self.wait_for_state(job, "FAILED")
        self.assertIn("stopped again after 0 of at most 0 requeues", self.log(job))

    def test_failed_run_fails_the_job(self):
        job = self.start("--set=data.files=[\"gone.h5\"]")
        fields = self.wait_for_state(job, "FAILED")
        self.assertEqual(fields["Restarts"], "0")
        self.assertIn("gone.h5: no such file", self.log(job))
        self.assertIn("mrmf train ended with exit code 3", self.log(job))

    def test_dead_rank_ends_the_job(self):
        job = self.start()
        self.hold("run")
        ranks = self.ranks()
        self.assertEqual(len(ranks), 2)
        os.kill(ranks[1], signal.SIGKILL)
        os.kill(ranks[0], signal.SIGCONT)
        # PMIx tells the other rank at once; without it srun would wait for a minute.
        self.assertEqual(self.wait_for_state(job, "FAILED", 40)["Restarts"], "0")
        self.assertIn("mrmf train ended with exit code 137", self.log(job))

    def test_rank_that_is_done_leaves_the_others_time(self):
        # A program that ends with 75 when it is told to stop, rank 1 three seconds after rank 0; then mrmf.
        self.write("slow", f"""#!/bin/bash
if [ "$1" = train ] && [ ! -e written-1 ]; then
  trap 'sleep $((3 * SLURM_PROCID)); touch written-$SLURM_PROCID; exit 75' USR1
  touch listens-$SLURM_PROCID
  while true; do sleep 0.1; done
fi
exec {MRMF} "$@"
""")
        (self.folder / "slow").chmod(0o755)
        self.shorten()
        job = self.start("--program=slow")
        self.cluster.wait("both ranks listen", lambda: len(list(self.folder.glob("listens-*"))) == 2)
        self.cluster.run("scancel", "--signal=USR1", job)
        self.assertEqual(self.wait_for_state(job, "COMPLETED")["Restarts"], "1")
        self.assertTrue((self.folder / "written-1").exists(), self.log(job))
        self.was_continued("run", self.log(job))

    def test_rank_that_crashes_when_its_work_is_done(self):
        # As MPI's libraries do now and then while they end: after `doctor`, and after the training.
        self.write("crashing", f"""#!/bin/bash
{MRMF} "$@" || exit $?
[ -z "${{SLURM_STEP_ID:-}}" ] || kill -SEGV $$
""")
        (self.folder / "crashing").chmod(0o755)
        self.shorten()
        job = self.start("--program=crashing")
        self.assertEqual(self.wait_for_state(job, "COMPLETED")["Restarts"], "0")
        self.assertIn("Segmentation fault", self.log(job))
        self.assertIn("done: run", self.log(job))

    def test_step_that_cannot_start(self):
        job = self.start("--sbatch=--ntasks=1")
        self.wait_for_state(job, "FAILED")
        self.assertIn("cannot start 2 ranks", self.log(job))
        self.assertIn("More processors requested than permitted", self.log(job))

    def test_mpi_that_the_program_does_not_know(self):
        job = self.start("--mpi=none")
        self.wait_for_state(job, "FAILED")
        self.assertIn("the ranks do not see each other: mrmf counts 1 and 2 were started", self.log(job))

    def test_ranks_that_do_not_see_each_other(self):
        self.write("alone", f'#!/bin/sh\nexec env -i PATH="$PATH" HOME="$HOME" {MRMF} "$@"\n')
        (self.folder / "alone").chmod(0o755)
        job = self.start("--program=alone")
        self.wait_for_state(job, "FAILED")
        self.assertIn("mrmf counts 1 and 2 were started", self.log(job))
        self.assertEqual(self.epochs("run"), [])


class Leftovers(unittest.TestCase):
    def test_killed_test_leaves_nothing(self):
        script = ("import sys; from cluster import Cluster\n"
                  "with Cluster() as c:\n"
                  "    job = c.run('sbatch', '--parsable', '--output=/dev/null', '--wrap=sleep 1000').stdout.strip()\n"
                  "    c.wait('a job', lambda: c.job(job).get('JobState') == 'RUNNING')\n"
                  "    print(c.folder, flush=True); sys.stdin.read()\n")
        test = subprocess.Popen([sys.executable, "-c", script], cwd=os.path.dirname(os.path.abspath(__file__)),
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        folder = pathlib.Path(test.stdout.readline().strip())
        self.assertGreater(len(processes_of(folder)), 3)  # three daemons and the job
        test.kill()
        test.communicate()
        end = time.monotonic() + 20
        while (processes_of(folder) or folder.exists()) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(processes_of(folder), [])
        self.assertFalse(folder.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
