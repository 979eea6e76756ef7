"""Shared by the tests of jobs/submit.sh: a scratch folder with data, a configuration and an experiment."""
import atexit
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from support import CONFIG, MRMF, make_data  # noqa: E402

EPOCHS = 60
# Two seconds or more on an idle machine: long enough to be stopped on the way.
METHOD = f"""name = "mrmf"
resolutions = [[2], [1]]
stop = {{ coarse = {{ epochs = {EPOCHS} }}, dense = {{ epochs = 5 }}, finetune = {{ epochs = {EPOCHS} }} }}"""
TRAINING = CONFIG
for old, new in (("epochs = 3", f"epochs = {EPOCHS}"), ("batch = 16", "batch = 80"), ('name = "baseline"', METHOD)):
    TRAINING = TRAINING.replace(old, new)

EXPERIMENT = """
kind=train
config=config.toml
ranks=2
time=10
"""


@functools.cache
def data_of_all():
    """A file that is made once; it goes as this process ends."""
    folder = tempfile.mkdtemp(prefix="mrmf-submit-data-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = pathlib.Path(folder) / "data.h5"
    make_data(path, train=1600, length=256)
    return path


class SubmitTest(unittest.TestCase):
    """Each test runs in its own folder, below which every path lies."""

    # Ranks that wait yield their core: on a busy machine spinning ones would take most of it.
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_mpi_yield_when_idle="1")

    planned = EPOCHS  # of the coarse and of the last phase

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-submit-", ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        shutil.copyfile(data_of_all(), self.folder / "data.h5")
        self.write("config.toml", TRAINING)
        self.write("tiny.job", EXPERIMENT)

    def shorten(self):
        """Of a run that nobody stops: few epochs are enough."""
        self.planned = 2
        self.write("config.toml", TRAINING.replace(f"epochs = {EPOCHS}", f"epochs = {self.planned}"))

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def submit(self, *words, code=0):
        """Runs jobs/submit.sh in the scratch folder; returns what it printed."""
        command = [ROOT / "jobs" / "submit.sh", *words, f"--program={MRMF}"]
        if any(str(word).startswith("--program=") for word in words):
            command.pop()
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120)
        output = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, output)
        return output

    def result(self, run):
        return json.loads((self.folder / run / "result.json").read_text())

    def epochs(self, run):
        path = self.folder / run / "epochs.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
