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
MEMORY
train = { samples = "train_x", labels = "train_y" }
validation = { samples = "val_x", labels = "val_y" }
[model]
preset = "PRESET"
[training]
optimizer = { name = "adam", learning_rate = 1e-3 }
batch = BATCH
epochs = 1
[method]
METHOD
[run]
folder = "run"
threads = 2
device = "cpu"
"""


class Memory(support.MrmfTest):
    def check(self, preset, sample, outputs, train, batch, dtype="float32", memory="", method='name = "baseline"'):
        rng = np.random.default_rng(1)
        with h5py.File(self.path("data.h5"), "w") as file:
            for split, n in (("train", train), ("val", batch)):
                file[split + "_x"] = (9 * rng.random((n, *sample), dtype="float32")).astype(dtype)
                file[split + "_y"] = rng.uniform(-1, 1, (n, outputs)).astype("float32")
        text = CONFIG.replace("PRESET", preset).replace("BATCH", str(batch))
        self.write("config.toml", text.replace("MEMORY", memory).replace("METHOD", method))
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

    # Cubes of 2 MB in files; their float32 would be 4 MB.
    MRMF = 'name = "mrmf"\nresolutions = [[2,2,2], [1,1,1]]\n' \
        'stop = { coarse = { epochs = 1 }, dense = { epochs = 1 }, finetune = { epochs = 1 } }'

    def test_integers_in_memory(self):
        self.check("cosmoflow", (64, 64, 64, 4), 4, train=60, batch=2, dtype="uint16")

    def test_streamed(self):
        self.check("cosmoflow", (64, 64, 64, 4), 4, train=100, batch=2, dtype="uint16", memory='memory = "60 MB"')

    def test_a_coarse_copy_beside_integers(self):
        self.check("cosmoflow", (64, 64, 64, 4), 4, train=48, batch=2, dtype="uint16", method=self.MRMF)

    def test_averaging_at_every_use_keeps_no_copy(self):
        self.check("cosmoflow", (64, 64, 64, 4), 4, train=48, batch=2, dtype="uint16", method=self.MRMF,
                   memory='averaging = "epoch"')

    def test_neuron_inverter(self):
        self.check("neuron_inverter", (1600, 3), 19, train=1024, batch=256)


if __name__ == "__main__":
    support.main()
