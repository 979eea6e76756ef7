"""Every command's --help ends with an example, and every example runs. The program itself says which commands there are.

Examples use the files that setUpClass makes in an empty folder: mydata.h5 (2-D samples with labels in three splits), mine.toml
(trains on it in seconds), runs/mine and runs/mine-2 (two finished runs of it). They may also use what the examples before them,
in the order of --help, have written."""
import os
import re
import subprocess
import tempfile
import unittest

import support

CONFIG = """
data.files      = ["mydata.h5"]
data.train      = { samples = "train_fields", labels = "train_parameters" }
data.validation = { samples = "val_fields", labels = "val_parameters" }
method          = { name = "mrmf", resolutions = [[2, 2], [1, 1]], stop.dense.epochs = 1 }
training        = { batch = 16, epochs = 2 }
run             = { folder = "runs/mine", threads = 1 }
model.layers    = [
  { type = "conv", filters = 4, kernel = [3, 3] }, { type = "max_pool", window = [4, 4] }, { type = "relu" },
  { type = "flatten" }, { type = "dense", units = 3 },
]
"""
EXAMPLE = re.compile(r"\nExample:\n((?:  \S.*\n)+)\s*\Z")


def shell(line, folder, **variables):
    """Runs a line as a user would, with mrmf on the PATH; returns the exit code and all output."""
    path = os.path.dirname(support.MRMF) + os.pathsep + os.environ["PATH"]
    environment = dict(support.environment(), PATH=path, OMPI_MCA_rmaps_base_oversubscribe="1", **variables)
    done = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=120, env=environment)
    return done.returncode, done.stdout + done.stderr


def subcommands(text):
    """The names that a --help lists."""
    listed = re.search(r"\nSubcommands:\n((?:  .*\n)+)", text)
    return re.findall(r"^  ([a-z][\w-]*)", listed[1], re.M) if listed else []


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-examples-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        with open(os.path.join(cls.folder, "mine.toml"), "w", encoding="utf-8") as file:
            file.write(CONFIG)
        for line in ("mrmf simulate fields --kind heat -n 100 --size 16 -o mydata.h5", "mrmf train mine.toml",
                     "mrmf train mine.toml --set run.folder=runs/mine-2 --set training.seed=2"):
            code, output = shell(line, cls.folder)
            if code != 0:
                raise RuntimeError(f"{line}\n{output}")

    def examples(self, *command):
        """(command, line) of this command and all below it, in the order of --help."""
        code, text = shell(" ".join(["mrmf", *command, "--help"]), self.folder)
        self.assertEqual(code, 0, text)
        found = EXAMPLE.search(text)
        self.assertTrue(found, f"mrmf {' '.join(command)} --help ends without an example (see docs/to-add.md)\n{text}")
        lines = [line.strip() for line in found[1].splitlines()]
        self.assertTrue(any(" ".join(["mrmf", *command]) in line for line in lines), f"it is another command's\n{text}")
        for name in subcommands(text):
            self.assertIn("Usage", text)
            lines += self.examples(*command, name)
        return lines

    def run_example(self, line):
        if " bench tables " in line:
            line += " --rounds 1"  # of three, which are alike
        code, output = shell(line, self.folder)
        if code == 2 and 'run.device = "cuda"' in output:  # of a GPU, and there is none: the emulated device stands in
            module = os.environ.get("MRMF_EMULATED_MODULE")
            if not module:
                return
            code, output = shell(line, self.folder, MRMF_CUDA_MODULE=module, XDG_CACHE_HOME=self.folder)
        self.assertEqual(code, 0, f"{line}\n{output}")

    def test_every_command_ends_its_help_with_an_example_that_runs(self):
        lines = self.examples()
        self.assertGreater(len(lines), 20)
        for line in lines:
            with self.subTest(example=line):
                self.run_example(line)


if __name__ == "__main__":
    support.main()
