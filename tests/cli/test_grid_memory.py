"""Samples that are too large for one rank's memory train on several, each within the same limit (run.grid).
MRMF_GRID_SIDE=512 takes whole cubes of 1 GiB in their file, and needs 16 GB of memory and 3.3 GB of disk."""
import os
import resource

import h5py
import numpy as np

import support

SIDE = int(os.environ.get("MRMF_GRID_SIDE", 112))  # positions along each of three axes; 4 channels
SAMPLE = SIDE**3 * 4 * 4                           # bytes as float32; half of that in the file
LIMIT = 200e6 + 3 * SAMPLE                         # bytes of private memory that a process may have

LAYERS = support.layers('conv filters=4 kernel=[3,3,3] padding="same"', "batch_norm", "leaky_relu",
                        "average_pool window=[2,2,2]", 'conv filters=4 kernel=[3,3,3] padding="same"', "relu",
                        "max_pool window=[4,4,4]", "flatten", "dense units=1")
CONFIG = """
[data]
files = ["cubes.h5"]
train = { samples = "x", labels = "y" }
split = { by = "rows", validation = 0.34 }
load = "stream"
memory = 0
""" + LAYERS + """
[training]
batch = 1
epochs = 1
optimizer = { name = "sgd", learning_rate = 1e-3 }
[method]
name = "baseline"
[run]
threads = 1
"""


class GridMemory(support.MrmfTest):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(4)
        with h5py.File(self.path("cubes.h5"), "w") as file:
            x = file.create_dataset("x", (3, SIDE, SIDE, SIDE, 4), "i2")
            for sample in range(3):
                x[sample] = rng.integers(-4, 5, (SIDE, SIDE, SIDE, 4), "i2")
            file["y"] = rng.normal(0, 1, 3).astype("f4")
        self.write("config.toml", CONFIG.replace("memory = 0", f"memory = {2 * SAMPLE / 1e9}"))

    def limited(self, run, *settings, ranks):
        """Exit code and output of a run whose processes may have LIMIT bytes each."""
        words = [word for setting in (*settings, f"run.folder={run}") for word in ("--set", setting)]
        limit = (int(LIMIT), int(LIMIT))
        process = self.launch("train", "config.toml", *words, ranks=ranks,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, limit))
        output = process.communicate(timeout=1800)[0]
        return process.returncode, output

    def test_four_ranks_hold_what_one_cannot(self):
        code, output = self.limited("one", ranks=1)
        self.assertNotEqual(code, 0, output)
        self.assertIn("memory", output)
        code, output = self.limited("four", "run.grid=[2, 2, 1]", ranks=4)
        self.assertEqual(code, 0, output)
        self.mrmf("train", "config.toml", "--set", "run.folder=whole")
        for key in ("train_loss", "validation_loss"):
            self.assertAlmostEqual(self.lines("four/epochs.jsonl")[0][key] / self.lines("whole/epochs.jsonl")[0][key], 1,
                                   delta=1e-4)


if __name__ == "__main__":
    support.main()
