"""mrmf inspect predicts a run's memory: within 10 % of the peak that the system measures."""
import os
import re
import subprocess

import h5py
import numpy as np

import support

CONFIG = """
[data]
files = ["data.h5"]
train = { samples = "train_x", labels = "train_y" }
validation = { samples = "val_x", labels = "val_y" }
[model]
preset = "PRESET"
[training]
optimizer = { name = "adam", learning_rate = 1e-3 }
batch = BATCH
epochs = 1
[method]
name = "baseline"
[run]
folder = "run"
threads = 2
device = "cpu"
"""


class Memory(support.MrmfTest):
    def check(self, preset, sample, outputs, train, batch):
        rng = np.random.default_rng(1)
        with h5py.File(self.path("data.h5"), "w") as file:
            for split, n in (("train", train), ("val", batch)):
                file[split + "_x"] = rng.standard_normal((n, *sample), dtype="float32")
                file[split + "_y"] = rng.uniform(-1, 1, (n, outputs)).astype("float32")
        self.write("config.toml", CONFIG.replace("PRESET", preset).replace("BATCH", str(batch)))
        text = self.mrmf("inspect", "config.toml")
        predicted = float(re.search(r"memory of a rank at its peak: ([0-9.]+) MB \(", text).group(1)) * 1e6
        with open(self.path("log"), "w") as log:
            process = subprocess.Popen([support.MRMF, "train", "config.toml"], cwd=self.folder, stdout=log, stderr=log)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        with open(self.path("log")) as log:
            self.assertEqual(process.returncode, 0, log.read())
        measured = usage.ru_maxrss * 1024
        self.assertLess(abs(predicted / measured - 1), 0.1, f"predicted {predicted}, measured {measured}\n{text}")

    def test_cosmoflow_at_64(self):
        self.check("cosmoflow", (64, 64, 64, 4), 4, train=8, batch=4)

    def test_cosmoflow_at_128(self):
        self.check("cosmoflow", (128, 128, 128, 4), 4, train=1, batch=1)

    def test_neuron_inverter(self):
        self.check("neuron_inverter", (1600, 3), 19, train=1024, batch=256)


if __name__ == "__main__":
    support.main()
