"""Shared by the command-line tests: runs build/mrmf in a scratch folder and makes small data sets."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import h5py
import numpy as np

MRMF = os.environ.get("MRMF", os.path.join(os.path.dirname(__file__), "..", "..", "build", "mrmf"))
MRMF = os.path.abspath(MRMF)
# Tests that a script starts in the background are given SIGINT ignored, and would hand that on to what they interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Under nohup, SIGHUP is: a handler here is the default again in what tests start.
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)


def layers(*texts):
    """A network in a configuration, from a text for each layer: its type and keys, such as "conv filters=4 kernel=3"."""
    words = (text.split() for text in texts)
    return "".join("\n".join(["[[model.layers]]", f'type = "{kind}"', *(key.replace("=", " = ", 1) for key in keys), ""])
                   for kind, *keys in words)


LAYERS = "\n" + layers("conv filters=6 kernel=4", "max_pool window=4", "relu", "flatten", "batch_norm", "dense units=8", "relu",
                       "dropout rate=0.1", "dense units=2")

CONFIG = """
[data]
files = ["data.h5"]
train = { samples = "train_frames", labels = "train_unitStar_par" }
validation = { samples = "val_frames", labels = "val_unitStar_par" }
layout = "as_stored"
[training]
optimizer = { name = "adam", learning_rate = 3e-3 }
batch = 16
seed = 3
epochs = 3
[method]
name = "baseline"
[run]
folder = "run"
threads = 1
""" + LAYERS


def rows_config(*network, files=("data.h5",), data='train = { samples = "x", labels = "y" }', validation=0.25,
                split=None, batch=8, folder="run"):
    """A configuration that trains for an epoch on arrays "x" and "y", of which some rows validate. `data` has the other
    lines of [data], `split` is another split than by rows."""
    names = ", ".join(f'"{name}"' for name in files)
    by_rows = f'{{ by = "rows", validation = {validation} }}'
    return f"""
[data]
files = [{names}]
{data}
split = {split or by_rows}
[training]
batch = {batch}
epochs = 1
[method]
name = "baseline"
[run]
folder = "{folder}"
threads = 1
""" + layers(*network)


def make_data(path, train=96, validation=40, length=64, channels=3, dtype="float32", seed=0):
    """Two labels that a small network can learn: the mean and the slope of the first channel."""
    rng = np.random.default_rng(seed)
    with h5py.File(path, "w") as file:
        for name, count in (("train", train), ("val", validation)):
            labels = rng.uniform(-1, 1, (count, 2)).astype("float32")
            time = np.linspace(-1, 1, length)
            frames = rng.normal(0, 0.1, (count, length, channels))
            frames[:, :, 0] += labels[:, :1] + labels[:, 1:] * time
            file[f"{name}_frames"] = frames.astype(dtype)
            file[f"{name}_unitStar_par"] = labels


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def command(words, ranks=0):
    mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks else []
    return [*mpirun, MRMF, *words]


def preload(name, **variables):
    """Variables of an environment in which processes load build/tests/lib<name>.so before all others."""
    library = os.path.join(os.path.dirname(MRMF), "tests", f"lib{name}.so")
    assert os.path.exists(library), library
    return dict(variables, LD_PRELOAD=library)


def environment():
    # Tests compare bits: a choice of kernels by their times is for tests/cli/test_kernel_choice.py.
    found = dict({"MRMF_CPU_KERNELS": "fixed"} | os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    # Else the program sets this and starts itself again.
    if "OMP_WAIT_POLICY" not in found:
        found.setdefault("GOMP_SPINCOUNT", "1000")
    # Ranks that wait sleep (tests/support/sleeping_yield.c), where the tests are built.
    sleeping = os.path.join(os.path.dirname(MRMF), "tests", "libsleeping_yield.so")
    if os.path.exists(sleeping):
        found["LD_PRELOAD"] = ":".join(filter(None, (found.get("LD_PRELOAD"), sleeping)))
        found.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    return found


HANG = signal.SIGRTMIN  # to a process that was started with hangs_when_told()


def hangs_when_told():
    """Variables of the environment in which a process hangs as soon as it gets HANG. One that SIGSTOP stops does not hang:
    the others see it, and wait until it continues."""
    return preload("hang_on_signal")


def ranks_of(launcher):
    """The process id of each rank that an mpirun has started."""
    ranks = {}
    with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children") as file:
        for pid in map(int, file.read().split()):
            with open(f"/proc/{pid}/environ", "rb") as variables:
                found = re.search(rb"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)\0", variables.read())
            if found:
                ranks[int(found[1])] = pid
    return ranks


def wait_while(process, condition):
    """Until the condition is false or the process has ended; leaves the core to the process meanwhile."""
    while process.poll() is None and condition():
        time.sleep(0.001)


class MrmfTest(unittest.TestCase):
    """Each test runs in its own empty folder."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="mrmf-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def read(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def lines(self, name):
        return [json.loads(line) for line in self.read(name).splitlines()]

    def tables_of_two_ranks(self, name="tables.json", config="config.toml"):
        """Cost tables of one rank as `mrmf bench tables` measures them, and as if measured by two, which takes seconds."""
        self.mrmf("bench", "tables", config, "--seconds", "0.002", "--rounds", "1", "--threads", "1", "-o", name)
        tables = json.loads(self.read(name))
        line = {"latency": 1e-4, "per_unit": 5e-10}
        tables["teams"].append(tables["teams"][0] | {
            "ranks": 2, "message_by_byte": line, "sum_by_byte": line, "update_sum_by_byte": line, "small_sum": 1e-4,
            "codings_by_value": {way: 1e-8 for way in ("bf16", "int8", "levels8", "levels8-l0", "levels4", "vote")}})
        self.write(name, json.dumps(tables))

    def models_alone(self, run):
        """A run that is done leaves its models, and one checkpoint: that of the last phase's end."""
        names = set(os.listdir(self.path(run + "/checkpoints"))) - {"best.h5"}
        self.assertEqual(len(names), 2, names)
        self.assertIn("final.h5", names)
        self.assertRegex(min(names - {"final.h5"}), r"^phase-\d+\.h5$")

    def model_arrays(self, file):
        """Parameters and state of a model file, by name."""
        found = {}
        with h5py.File(self.path(file)) as model:
            model.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
        return {name: value for name, value in found.items() if name.startswith(("parameters/", "state/"))}

    def same_models(self, one, other):
        """The last models of two runs have the same bits."""
        a, b = (self.model_arrays(run + "/checkpoints/final.h5") for run in (one, other))
        self.assertEqual(a.keys(), b.keys())
        for name, values in a.items():
            np.testing.assert_array_equal(values, b[name], err_msg=name)

    def launch(self, *words, ranks=0, **options):
        """Starts mrmf, under mpirun when ranks > 0, with all its output in one pipe."""
        return subprocess.Popen(command(words, ranks), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env=environment(), **options)

    def mrmf(self, *words, ranks=0, code=0, timeout=300):
        """Runs mrmf, under mpirun when ranks > 0; checks the exit code; returns stdout and stderr together."""
        done = subprocess.run(command(words, ranks), cwd=self.folder, capture_output=True, text=True, timeout=timeout,
                              env=environment())
        output = done.stdout + done.stderr
        self.assertEqual(done.returncode, code, f"{' '.join(words)}\n{output}")
        return output

    def fails(self, code, *words, message, **options):
        """The command ends with this code and one line that holds the message; returns the output."""
        output = self.mrmf(*words, code=code, **options)
        errors = [line for line in output.splitlines() if line.startswith("mrmf: error")]
        self.assertEqual(len(errors), 1, output)
        self.assertIn(message, errors[0])
        return output

    def epochs_written(self, run="run"):
        """How many epochs are on record."""
        try:
            return self.read(run + "/epochs.jsonl").count("\n")
        except FileNotFoundError:
            return 0

    def kill_after(self, epochs, *words):
        """Starts a run in the folder "run", and kills it once this many epochs are on record."""
        process = self.launch(*words)
        wait_while(process, lambda: self.epochs_written() < epochs)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def interrupted(self, run, attempt):
        """attempt() starts `run` and interrupts it, or comes too late for that; returns its exit code and output. On a
        busy machine this process may sleep until the run is done: it is then put back to what it was, and tried again."""
        folder, before = self.path(run), self.path(run + "-before")
        if os.path.exists(folder):
            shutil.copytree(folder, before)
        for _ in range(10):
            code, output = attempt()
            if code != 0:
                break
            shutil.rmtree(folder)
            if os.path.exists(before):
                shutil.copytree(before, folder)
        else:
            self.fail(f"ten times it was done before it was interrupted, or did not mind\n{output}")
        shutil.rmtree(before, ignore_errors=True)
        return code, output

    def config(self, **replacements):
        """Writes config.toml; keyword arguments replace `key = value` lines of CONFIG or add [method] keys."""
        text = CONFIG
        for old, new in replacements.get("replace", []):
            self.assertIn(old, text)
            text = text.replace(old, new)
        self.write("config.toml", text)


MRMF_METHOD = ('name = "baseline"', """name = "mrmf"
resolutions = [[4], [2], [1]]
stop = { coarse = { threshold = 1e-9, patience = 50, epochs = 2 }, dense = { epochs = 1 }, finetune = { epochs = 2 } }""")


def main():
    unittest.main(verbosity=1)
