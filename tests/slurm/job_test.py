"""Shared by the tests that run jobs: a class of tests with a Slurm, and what they wait for and look at."""
import os
import pathlib
import re
import signal
import subprocess

from cluster import Cluster
from janitor import processes_of
from submit_test import MRMF, SubmitTest

SITE = """
scheduler=slurm
mpi=pmix
prepare() {
  echo "environment of the site: yes"
}
"""


def has_usr1(pid):
    """Does SIGUSR1 wait for a stopped process to continue?"""
    pending = re.search(r"ShdPnd:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)
    return int(pending, 16) >> (signal.SIGUSR1 - 1) & 1


class JobTest(SubmitTest):
    """Each class has a Slurm of its own; each test submits to it from its own folder."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.enterClassContext(cls.cluster)
        # Ranks that are killed leave their shared memory: where the cluster's folder is, it goes with that.
        cls.environment = dict(SubmitTest.environment, SLURM_CONF=cls.cluster.environment["SLURM_CONF"],
                               OMPI_MCA_btl_vader_backing_directory=str(cls.cluster.folder))

    def setUp(self):
        super().setUp()
        self.write("here.sh", SITE)

    def start(self, *words):
        """Submits tiny.job to the test's site; returns the job's number."""
        output = self.submit("tiny.job", "./here.sh", "--folder=run", *words)
        return output.splitlines()[-1].removeprefix("Submitted batch job ")

    def log(self, job):
        path = self.folder / "run" / f"job-{job}.log"
        return path.read_text() if path.exists() else ""

    def wait_for_state(self, job, state, seconds=180):
        fields = {}

        def reached():
            fields.update(self.cluster.job(job))
            return fields.get("JobState") == state
        try:
            self.cluster.wait(f"job {job} is {state}", reached, seconds, pause=0.5)
        except TimeoutError as error:
            self.fail(f"{error}\n== job: {fields}\n== its log\n{self.log(job)}")
        return fields

    def wait_for_epochs(self, run, count=3):
        self.cluster.wait(f"{count} epochs of {run}", lambda: len(self.epochs(run)) >= count)

    def ranks(self):
        """Process numbers of all mrmf that jobs of this cluster run."""
        found = []
        for pid in processes_of(self.cluster.folder):
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text() == "mrmf\n":
                    found.append(pid)
            except FileNotFoundError:
                pass  # gone meanwhile
        return found

    def hold(self, run):
        """Waits for epochs of a run and stops all ranks: what comes next finds them at work, however long it takes."""
        self.wait_for_epochs(run)
        for pid in self.ranks():
            os.kill(pid, signal.SIGSTOP)

    def signal_held(self, job):
        """scancel --signal=USR1; then held ranks continue, once the job's two have the signal."""
        self.cluster.run("scancel", "--signal=USR1", job)
        self.cluster.wait("two ranks have the signal", lambda: sum(map(has_usr1, self.ranks())) == 2)
        for pid in self.ranks():
            os.kill(pid, signal.SIGCONT)

    def is_complete(self, run, ranks=2):
        """Every epoch of the plan is there once, in order: nothing was lost or repeated where the run was stopped."""
        result = self.result(run)
        self.assertEqual(result["ranks"], ranks)
        epochs = [(epoch["role"], epoch["epoch"]) for epoch in self.epochs(run)]
        expected = [(role, epoch) for role, count in (("coarse", self.planned), ("dense", 5), ("finetune", self.planned))
                    for epoch in range(1, count + 1)]
        self.assertEqual(epochs, expected)
        return result

    def was_continued(self, run, log):
        """The second attempt continued where the first one ended, and the model is the one of a run that nobody stopped."""
        self.assertIn("stopped; requeue 1 of at most", log)
        self.assertIn(f"{run}, attempt 2", log)
        result = self.is_complete(run)
        self.assertEqual(log.count("stage 1 coarse   [2]      epoch   1 "), 1, "the run began anew")
        self.assertEqual(result["validation_loss"], self.undisturbed_loss(result["seed"]))

    undisturbed = {}  # losses, by epochs and seed

    def undisturbed_loss(self, seed):
        if (self.planned, seed) not in self.undisturbed:
            self.undisturbed[self.planned, seed] = self.trained_loss(seed)
        return self.undisturbed[self.planned, seed]

    def trained_loss(self, seed):
        subprocess.run(["mpirun", "--bind-to", "none", "-n", "2", MRMF, "train", "config.toml", "--set", "run.folder=alone",
                        "--set", f"training.seed={seed}"], cwd=self.folder, env=SubmitTest.environment, check=True,
                       capture_output=True, timeout=120)
        return self.result("alone")["validation_loss"]
