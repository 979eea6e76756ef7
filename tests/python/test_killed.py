"""The Python package when a Python is killed: what it left is gone with the next call; what a living one uses is not."""
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import numpy as np
from test_package import ROOT, InFolder, mrmf, recordings


class Killed(InFolder):
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


if __name__ == "__main__":
    unittest.main()
