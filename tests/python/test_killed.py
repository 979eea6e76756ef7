"""The Python package when a Python is killed or ends, and in threads and forks: nothing stays behind for long."""
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import unittest
from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
from test_package import ROOT, InFolder, mrmf, recordings


class Killed(InFolder):
    """What a Python that was killed left is gone with the next call; what a living one uses is not."""

    def start(self, code, until):
        """A Python that runs this until a file is there."""
        script = f"import sys, tempfile, time; sys.path.insert(0, {str(ROOT / 'jobs/packaging/python')!r}); import mrmf\n" \
                 f"tempfile.tempdir = {tempfile.tempdir!r}\n{code}\n"
        python = subprocess.Popen([sys.executable, "-c", script])
        self.addCleanup(python.wait)
        self.addCleanup(python.kill)
        while not until():
            self.assertIsNone(python.poll())
            time.sleep(0.01)
        return python

    def test_no_program_is_left(self):
        x, y = recordings(2000)
        mrmf.write("a.h5", x, y)
        mrmf.init("a.h5", output="a.toml", folder="a")
        records = Path("a/epochs.jsonl")
        python = self.start("mrmf.train('a.toml', epochs=2000, progress=False)",
                            lambda: records.is_file() and records.read_text())
        python.kill()
        python.wait()
        log = Path("a/log.txt")
        while "stopped" not in log.read_text():  # the test's own time limit ends it where nothing comes
            time.sleep(0.01)

    def test_no_folder_is_left(self):
        code = "with mrmf.temporary.work_folder() as folder:\n    (folder / 'big').write_text('x')\n    time.sleep(600)"
        killed, living = (self.start(code, lambda n=n: len(list(Path("tmp").glob("*/big"))) == n) for n in (1, 2))
        Path("tmp/mrmf-work-mine").mkdir()  # a person's
        killed.kill()
        killed.wait()
        self.assertEqual(len(os.listdir("tmp")), 3)
        with self.assertRaises(mrmf.ConfigError):
            mrmf.plan(mrmf.Config())
        self.assertEqual(len(list(Path("tmp").glob(f"*-{living.pid}-*/big"))), 1)
        self.assertEqual(len(os.listdir("tmp")), 2)

    def test_no_half_written_file_is_left(self):
        code = "import numpy\ndef rows():\n    yield numpy.zeros(3)\n    time.sleep(600)\nmrmf.write('a.h5', rows())"
        killed, living = (self.start(code, lambda n=n: len(list(Path(".").glob(".a.h5.*"))) == n) for n in (1, 2))
        killed.kill()
        killed.wait()
        mrmf.write("b.h5", np.zeros(3))
        self.assertEqual(len(list(Path(".").glob(".a.h5.*"))), 2)
        mrmf.write("a.h5", np.zeros(3))
        self.assertEqual(len(list(Path(".").glob(f".a.h5.*-{living.pid}-*"))), 1)
        self.assertEqual(len(list(Path(".").glob(".a.h5.*"))), 1)


class Beside(InFolder):
    """Calls beside each other, and calls that are under way when Python ends."""

    def test_threads_and_forks(self):
        x, y = recordings()
        run = mrmf.train(x, y, epochs=1, folder="a", progress=False)
        wanted = run.predict(x)
        with ThreadPool(3) as threads:
            for predicted in threads.map(run.predict, [x] * 3):
                np.testing.assert_array_equal(predicted, wanted)
        with multiprocessing.get_context("fork").Pool(2) as forks:
            for predicted in forks.map(run.predict, [x] * 2):
                np.testing.assert_array_equal(predicted, wanted)
        self.assertNothingLeft("a", "a.h5")

    def test_the_end_of_python_ends_the_program(self):
        mrmf.write("a.h5", *recordings(2000))
        mrmf.init("a.h5", output="a.toml", folder="a")
        code = f"import sys, tempfile, threading, time; sys.path.insert(0, {str(ROOT / 'jobs/packaging/python')!r})\n" \
               f"import mrmf\ntempfile.tempdir = {tempfile.tempdir!r}\nfrom pathlib import Path\n" \
               "call = lambda: mrmf.train(mrmf.Config.read('a.toml'), epochs=2000, progress=False)\n" \
               "threading.Thread(target=call, daemon=True).start()\nrecords = Path('a/epochs.jsonl')\n" \
               "while not records.is_file() or not records.read_text():\n    time.sleep(0.01)\n"
        subprocess.run([sys.executable, "-c", code], check=True)
        while "stopped" not in Path("a/log.txt").read_text():
            time.sleep(0.01)
        mrmf.init("a.h5")
        self.assertNothingLeft("a", "a.h5", "a.toml")


if __name__ == "__main__":
    unittest.main()
