#!/usr/bin/env python3
"""A job that meets its time limit, under a Slurm of its own: this takes long and runs beside the other tests."""
import unittest

from job_test import JobTest


class TimeLimit(JobTest):
    def test_time_limit(self):
        # Slurm looks at time limits every 30 s, a busy one later. Until then the run stands still, so that it need not be
        # longer than that; Slurm lets it continue as it sends the signal.
        job = self.start("--time=2", "--margin=30")
        self.wait_for_epochs("run")
        self.cluster.run("scancel", "--signal=STOP", job)
        self.cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=1")
        self.cluster.wait("requeue", lambda: self.cluster.job(job).get("Restarts") == "1", 150, pause=0.5)
        self.cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=10")
        self.assertEqual(self.wait_for_state(job, "COMPLETED")["Restarts"], "1")
        self.was_continued("run", self.log(job))


if __name__ == "__main__":
    unittest.main(verbosity=2)
