"""A thousand files of one sample each, where few files may be open: every command lives with them."""
import json
import os
import resource
import signal
import subprocess
import tempfile
import unittest

import h5py
import numpy as np

import support

FILES = 1000
OPEN = 256  # far fewer than there are files
CONFIG = """
[data]
files = ["sims/*.h5"]
train = { samples = "x", labels = "params" }
rows = "files"
split = { by = "rows", validation = 0.1 }
[training]
batch = 64
epochs = 2
seed = 1
[method]
name = "baseline"
[run]
folder = "run"
threads = 1
""" + support.layers("conv filters=2 kernel=3", "relu", "flatten", "dense units=2")


def few_open():
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


class ManyFiles(support.MrmfTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.all_files = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        cls.addClassCleanup(cls.all_files.cleanup)
        rng = np.random.default_rng(0)
        x, y = rng.normal(0, 1, (FILES, 6, 6, 1)).astype("f4"), rng.uniform(0, 1, (FILES, 2)).astype("f4")
        x[:, :, :, 0] += y[:, :1, None]
        cls.x, cls.y = x, y
        for i in range(FILES):
            with h5py.File(os.path.join(cls.all_files.name, f"s{i:05d}.h5"), "w", libver="latest") as file:
                file["x"], file["params"] = x[i], y[i]

    def setUp(self):
        super().setUp()
        os.symlink(self.all_files.name, self.path("sims"))
        self.write("c.toml", CONFIG)

    def few(self, *words, ranks=0, code=0):
        """Runs mrmf, with few files open at a time."""
        done = subprocess.run(support.command(words, ranks), cwd=self.folder, text=True, capture_output=True,
                              env=support.environment(), preexec_fn=few_open)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_every_command_and_ways_to_read(self):
        self.few("train", "c.toml", "--set", 'run.folder="whole"', ranks=2)
        self.few("train", "c.toml", "--set", 'run.folder="streamed"', "--set", 'data.load="stream"', ranks=2)
        self.same_models("whole", "streamed")
        found = json.loads(self.few("data", "c.toml", "--json", ranks=2))
        alone = json.loads(self.few("data", "c.toml", "--json"))
        self.assertEqual(found, alone)
        self.assertEqual(found["training"]["samples"] + found["validation"]["samples"], FILES)
        self.assertEqual(found["training"]["sample"]["storage"], ["contiguous"])
        self.assertEqual(found["training"]["bytes"] + found["validation"]["bytes"], self.x.nbytes)
        text = self.few("evaluate", "whole", ranks=2)
        self.assertIn("100 samples of x", text)
        self.assertNotIn("training rows", text)
        self.assertIn("900 of these 1000 rows are training rows",
                      self.few("evaluate", "whole", "--files", "sims/s*.h5", ranks=2))
        self.few("predict", "whole", "--files", "sims/*.h5", "-o", "out.h5", ranks=2)
        with h5py.File(self.path("out.h5")) as out:
            self.assertEqual(len(out["prediction"]), FILES)
        self.few("plan", "c.toml")

    def own_links(self):
        """The files under names of their own, of which some can be replaced."""
        os.remove(self.path("sims"))
        os.mkdir(self.path("sims"))
        for name in os.listdir(self.all_files.name):
            os.symlink(os.path.join(self.all_files.name, name), self.path("sims/" + name))

    def replace(self, number, x):
        os.remove(self.path(f"sims/s{number:05d}.h5"))
        with h5py.File(self.path(f"sims/s{number:05d}.h5"), "w", libver="latest") as file:
            file["x"], file["params"] = x, self.y[number]

    def stop(self, epochs, *words):
        """Ends the run on two ranks by SIGTERM, once this many epochs are on record."""
        train = self.launch(*words, ranks=2, preexec_fn=few_open)
        support.wait_while(train, lambda: self.epochs_written() < epochs)
        if train.poll() is None:
            for rank in support.ranks_of(train).values():
                os.kill(rank, signal.SIGTERM)
        output = train.communicate()[0]
        return train.returncode, output

    def test_a_run_goes_on_and_sees_other_data(self):
        words = ["train", "c.toml", "--set", "training.epochs=40"]
        code, output = self.interrupted("run", lambda: self.stop(2, *words))
        self.assertIn("stopped on SIGTERM", output)
        self.assertIn('files = ["sims/s{00000..00999}.h5"]', self.read("run/config.toml"))
        self.few("train", "--continue", "run", ranks=2)
        self.assertIn("\ncontinues ", self.read("run/log.txt"))
        self.few(*words, "--set", 'run.folder="straight"', ranks=2)
        self.same_models("run", "straight")
        self.own_links()
        self.replace(FILES - 1, self.x[-1] + 1)  # which is looked into
        self.assertIn("s00999.h5 holds other numbers",
                      self.few("train", "--continue", "run", "--set", "training.epochs=50", ranks=2, code=3))

    def test_the_first_bad_file_is_named(self):
        self.own_links()
        for number in (970, 570, 600):
            self.replace(number, self.x[number][:5])
        for command in ("train", "data"):
            text = self.few(command, "c.toml", ranks=2, code=3)
            self.assertIn("s00570.h5: data set 'x' has samples of 5x6x1, but sims/s00000.h5 has 6x6x1", text)
            self.assertEqual(text.count("mrmf: error"), 1, text)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_a_long_list(self):
        # Names that do not count up are written out, in the run's configuration, too.
        names = [f"sims/{i * 7919 % 1000003:06d}-with-a-name-of-some-length.h5" for i in range(40000)]
        self.write("long.toml", CONFIG.replace('"sims/*.h5"', json.dumps(names)[1:-1]))
        self.assertGreater(os.path.getsize(self.path("long.toml")), 1 << 20)
        self.assertIn(f"{names[0]}: no such file", self.few("train", "long.toml", code=3))

    def test_rows_named_twice(self):
        os.symlink(self.all_files.name, self.path("again"))
        text = self.few("train", "c.toml", "--set", 'data.files=["sims/*.h5", "again/s00999.h5"]', ranks=2, code=3)
        self.assertIn("'x' in again/s00999.h5 is the same as 'x' in sims/s00999.h5", text)


if __name__ == "__main__":
    unittest.main()
