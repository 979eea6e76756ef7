"""mrmf inspect predicts a run's memory: within 10 % of the peak that the system measures."""
import re
import subprocess
import sys

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
MODEL
[training]
optimizer = { name = "adam", learning_rate = 1e-3 }
batch = BATCH
epochs = EPOCHS
[method]
METHOD
[run]
folder = "run"
threads = 2
device = "cpu"
checkpoint = { epochs = 1 }
RUN
"""

# The kinds of layers of the published network, few enough that 64^3 can be halved.
LAYERS = """layers = [
  { type = "batch_norm" },
  { type = "conv", filters = 8, kernel = [3, 3, 3], padding = "same" }, { type = "batch_norm" }, { type = "relu" },
  { type = "average_pool", window = [2, 2, 2] },
  { type = "conv", filters = 16, kernel = [3, 3, 3], padding = "same" }, { type = "batch_norm" }, { type = "relu" },
  { type = "average_pool", window = [4, 4, 4] },
  { type = "flatten" }, { type = "dense", units = 4 },
]"""

# The system counts what a process was before it became mrmf: a process of its own, with little in it, starts mrmf.
MEASURE = """
import os, resource, sys
status = os.waitstatus_to_exitcode(os.system("exec " + sys.argv[1] + " train config.toml >log 2>&1"))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
sys.exit(status)
"""


# 14.8 million weights, without gradients and moments.
UNTIED = 'layers = [{ type = "locally_connected", filters = 8, kernel = [16, 16] }, { type = "flatten" }, ' \
    '{ type = "dense", units = 4 }]'
IN_PLACE = 'optimizer = { name = "sgd", momentum = 0.0, learning_rate = 1e-9 }\nupdate_in_place = true\nkeep_best = false'


class Memory(support.MrmfTest):
    def check(self, preset, sample, outputs, train, batch, dtype="float32", memory="", method='name = "baseline"', run="",
              ranks=1, classes=0, parts=1, epochs=1, validation=2, layers=LAYERS, training=None):
        rng = np.random.default_rng(1)
        with h5py.File(self.path("data.h5"), "w") as file:
            for split, n in (("train", train), ("val", min(batch, validation))):
                file[split + "_x"] = (9 * rng.random((n, *sample), dtype="float32")).astype(dtype)
                if classes:  # of positions
                    file[split + "_y"] = rng.integers(0, classes, (n, *sample[:-1])).astype("uint8")
                else:
                    file[split + "_y"] = rng.uniform(-1, 1, (n, outputs)).astype("float32")
        model = layers if preset is None else f'preset = "{preset}"'
        if classes:
            model += f'\noutputs = {classes}\n[training]\nloss = ["cross_entropy", "dice"]'
        text = CONFIG if not classes else CONFIG.replace("[training]\n", "")
        if training:
            text = text.replace('optimizer = { name = "adam", learning_rate = 1e-3 }', training)
        text = text.replace("MODEL", model).replace("BATCH", f"{batch}\naccumulate = {parts}").replace("EPOCHS", str(epochs))
        self.write("config.toml", text.replace("MEMORY", memory).replace("METHOD", method).replace("RUN", run))
        text = self.mrmf("inspect", "config.toml", ranks=ranks)
        predicted = float(re.search(r"memory of a rank at its peak: ([0-9.]+) MB \(", text).group(1)) * 1e6
        program = f"mpirun --oversubscribe --bind-to none -n {ranks} {support.MRMF}"
        run = subprocess.run([sys.executable, "-c", MEASURE, program], cwd=self.folder, capture_output=True, text=True)
        with open(self.path("log")) as log:
            self.assertEqual(run.returncode, 0, log.read())
        measured = int(run.stdout)
        self.assertLess(abs(predicted / measured - 1), 0.1, f"predicted {predicted}, measured {measured}\n{text}")

    def test_a_batch_in_parts(self):
        self.check("cosmoflow", (64, 64, 64, 4), 4, train=8, batch=8, parts=4)

    def test_cosmoflow_at_64(self):
        self.check("cosmoflow", (64, 64, 64, 4), 4, train=8, batch=4)

    def test_cosmoflow_at_128(self):
        self.check("cosmoflow", (128, 128, 128, 4), 4, train=1, batch=1)

    # Of two ranks the one that saves, which has the most.
    def test_two_ranks(self):
        self.check("cosmoflow", (64, 64, 64, 4), 4, train=4, batch=2, ranks=2)

    def test_lanes(self):
        self.check("cosmoflow", (64, 64, 64, 4), 4, train=4, batch=4, memory="shards = 4", run="deterministic = true")

    # Cubes of 2 MB in files; their float32 would be 4 MB.
    MRMF = 'name = "mrmf"\nresolutions = [[2,2,2], [1,1,1]]\n' \
        'stop = { coarse = { epochs = 1 }, dense = { epochs = 1 }, finetune = { epochs = 1 } }'

    def test_integers_in_memory(self):
        self.check(None, (64, 64, 64, 4), 4, train=32, batch=2, dtype="uint16")

    def test_streamed(self):
        self.check(None, (64, 64, 64, 4), 4, train=40, batch=2, dtype="uint16", memory='memory = "40 MB"')

    def test_a_coarse_copy_beside_integers(self):
        self.check(None, (64, 64, 64, 4), 4, train=40, batch=2, dtype="uint16", method=self.MRMF)

    def test_averaging_at_every_use_keeps_no_copy(self):
        self.check(None, (64, 64, 64, 4), 4, train=40, batch=2, dtype="uint16", method=self.MRMF,
                   memory='averaging = "epoch"')

    def test_a_unet_with_classes_of_positions(self):
        self.check("unet3d", (48, 48, 48, 1), 0, train=4, batch=2, classes=3)

    # A checkpoint and the model in the end take no second copy of the weights.
    def test_saving_takes_little(self):
        self.check(None, (64, 64, 3), 4, train=8, batch=4, epochs=2, layers=UNTIED, training=IN_PLACE)

    # A second epoch, after a checkpoint, needs no more than the first.
    def test_neuron_inverter(self):
        self.check("neuron_inverter", (1600, 3), 19, train=512, batch=256, epochs=2, validation=256)


if __name__ == "__main__":
    support.main()
