"""The commands that faults meet: each in a small folder of its own, with files of others beside its own."""
import dataclasses
import pathlib
import shutil
import signal
import sys
import typing

import h5py
import numpy as np

import process

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "cli"))
from support import layers  # noqa: E402

CONFIG = """
[data]
files = ["data.h5"]
train = { samples = "x", labels = "y" }
validation = { samples = "val_x", labels = "val_y" }
[training]
optimizer = { name = "adam", learning_rate = 3e-3 }
batch = 8
seed = 3
epochs = 2
[method]
name = "baseline"
[run]
folder = "run"
threads = 1
""" + layers("conv filters=2 kernel=2", "max_pool window=2", "relu", "flatten", "batch_norm", "dense units=4",
             "dropout rate=0.1", "dense units=2")
TIMEOUT = ("--set", "run.timeout=8")  # seconds after which a rank that hangs is noticed
STOP = "stop = { coarse = { epochs = 2 }, dense = { epochs = 1 }, finetune = { epochs = 2 } }"
METHODS = {
    "baseline": 'name = "baseline"',
    "mrt": f'name = "mrt"\nresolutions = [[2], [1]]\n{STOP}',
    "mrmf": f'name = "mrmf"\nresolutions = [[4], [2], [1]]\n{STOP}',
    "interpolated": f'name = "mrmf"\nresolutions = [[2], [1]]\ntop = "interpolated"\n{STOP}',
    "progressive": f'name = "progressive"\nresolutions = [[2], [1]]\n{STOP}',
    "teams": f'name = "mrmf"\nresolutions = [[2], [1]]\nteams = "concurrent"\nsplit = [1, 1]\n{STOP}',
}


def make_data(path, train=32, validation=16, length=16, channels=2):
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for prefix, count in (("", train), ("val_", validation)):
            file[f"{prefix}x"] = rng.normal(size=(count, length, channels)).astype("f4")
            file[f"{prefix}y"] = rng.uniform(-1, 1, (count, 2)).astype("f4")


def project(folder, method="baseline", **sizes):
    """What a user's folder may hold beside what a command is about; none of it may change."""
    make_data(folder / "data.h5", **sizes)
    (folder / "config.toml").write_text(CONFIG.replace(METHODS["baseline"], METHODS[method]))
    (folder / "notes.txt").write_text("of somebody else\n")
    (folder / "out.h5.partial").write_text("of somebody else\n")
    (folder / "runs/theirs/checkpoints").mkdir(parents=True)
    (folder / "runs/theirs/checkpoints/step-1000.pt").write_text("of somebody else\n")


def mrmf(folder, *words):
    done = process.run(process.Command(words), folder)
    if done.code != 0:
        sys.exit(f"faults: setting up: mrmf {' '.join(words)}: exit code {done.code}\n{done.output}")


def finished(*methods, **sizes):
    def make(folder):
        project(folder, **sizes)
        for method in methods or ["baseline"]:
            (folder / "config.toml").write_text(CONFIG.replace(METHODS["baseline"], METHODS[method]))
            mrmf(folder, "train", "config.toml", *(["--set", f"run.folder={method}"] if methods else []))
    return make


def stopped(folder):
    """A run of mrmf that was told to stop while it saved its second stage."""
    project(folder, "mrmf")
    fault = {"call": "rename", "match": f"{folder}/*phase-3.h5", "nth": 1, "action": "signal", "errno": int(signal.SIGUSR1)}
    done = process.run(process.Command(("train", "config.toml"), fault=fault), folder)
    if done.code != 75:
        sys.exit(f"faults: setting up: a run was not stopped: exit code {done.code}\n{done.output}")


def old_output(folder):
    finished()(folder)
    mrmf(folder, "predict", "run", "-o", "out.h5", "--split", "train")


def exported(folder):
    finished()(folder)
    mrmf(folder, "export", "run", "-o", "in.safetensors")


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    words: tuple
    make: typing.Callable
    ranks: int = 0                # 0: without mpirun
    outputs: tuple = ()           # files, or folders of files, that it makes
    inputs: tuple = ("data.h5",)  # files that it reads and that may be damaged
    trusted: tuple = ()           # inputs that mrmf wrote itself with a checksum: no damage may pass unseen
    prints: bool = False          # what it prints is its result
    weight: int = 1               # how often it is chosen
    cost: float = 1               # of a start, in those of a plain command


def train(name, method, *words, ranks=0, weight=1, make=None, cost=1.0, inputs=("data.h5", "config.toml"), trusted=(),
          run="run"):
    return Case(f"train {name}", ("train", "config.toml", *words), make or (lambda folder: project(folder, method)), ranks,
                (run,), inputs, trusted, weight=weight, cost=cost)


def words_of(**keys):
    return [word for key, value in keys.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


SAVING = words_of(run__checkpoint__epochs=1)
COSMOLOGY = ("simulate", "cosmology", "-o", "cubes", "-n", "10", "--per-file", "4", "--size", "8", "--box", "64", "--method",
             "lpt", "--particles", "1", "--threads", "1")
FIELDS = ("simulate", "fields", "-o", "out.h5", "-n", "40", "--size", "16", "--threads", "1")
NEURON = ("simulate", "neuron", "-o", "out.h5", "-n", "40", "--cells", "1", "--threads", "1")
MODEL = ("run/checkpoints/final.h5",)
STEPS = ("run/checkpoints/phase-3.h5",)

CASES = {case.name: case for case in (
    train("baseline", "baseline", weight=3),
    train("in a new folder", "baseline", "--set", "run.folder=new/run", weight=2, run="new/run"),
    train("mrt", "mrt", weight=2),
    train("mrmf", "mrmf", weight=3),
    train("interpolated", "interpolated"),
    train("progressive", "progressive"),
    train("saving often", "mrmf", *SAVING, weight=4),
    train("streaming", "baseline", "--set", "data.load=stream"),
    train("for TensorBoard", "mrmf", *SAVING, "--set", "run.tensorboard=true"),
    train("shards", "baseline", *words_of(run__deterministic="true", data__shards=2)),
    train("continued", "mrmf", *SAVING, make=stopped, weight=3, trusted=STEPS,
          inputs=("data.h5", "run/config.toml", "run/plan.json", "run/epochs.jsonl", "run/stages.jsonl", *STEPS)),
    train("overwriting", "baseline", "--overwrite", make=finished(), weight=2),
    train("2 ranks", "mrmf", *SAVING, "--set", "training.batch=4", *TIMEOUT, ranks=2, weight=2, cost=4),
    train("3 ranks", "mrt", "--set", "training.batch=2", *TIMEOUT, ranks=3, cost=5),
    train("4 ranks", "baseline", "--set", "training.batch=2", *TIMEOUT, ranks=4, cost=6),
    train("two teams", "teams", *SAVING, "--set", "training.batch=4", *TIMEOUT, ranks=2, weight=2, cost=4),
    Case("evaluate", ("evaluate", "run"), finished(), prints=True, inputs=("data.h5", "run/config.toml", *MODEL), trusted=MODEL),
    Case("predict", ("predict", "run", "-o", "out.h5"), finished(), outputs=("out.h5",), weight=4,
         inputs=("data.h5", "run/config.toml", *MODEL), trusted=MODEL),
    Case("predict much", ("predict", "run", "-o", "much.h5"), finished(validation=12000, length=4),
         outputs=("much.h5",), weight=2),
    Case("predict over an older file", ("predict", "run", "-o", "out.h5", "--overwrite"), old_output, outputs=("out.h5",),
         weight=2),
    Case("predict on 2 ranks", ("predict", "run", "-o", "out.h5"), finished(), 2, ("out.h5",), cost=3),
    Case("export", ("export", "run", "-o", "out.onnx"), finished(), outputs=("out.onnx",),
         inputs=("run/config.toml", *MODEL), trusted=MODEL, weight=2),
    Case("import", ("import", "in.safetensors", "-o", "out.h5", "--config", "config.toml"), exported, outputs=("out.h5",),
         inputs=("in.safetensors", "config.toml"), weight=2),
    Case("simulate neuron", NEURON, project, outputs=("out.h5",), inputs=(), weight=3),
    Case("simulate neuron on 2 ranks", NEURON, project, 2, ("out.h5",), (), cost=3),
    Case("simulate fields", FIELDS, project, outputs=("out.h5",), inputs=(), weight=3),
    Case("simulate cosmology", COSMOLOGY, project, outputs=("cubes",), inputs=(), weight=3),
    Case("simulate cosmology on 2 ranks", (*COSMOLOGY, "--ranks-per-cube", "2"), project, 2, ("cubes",), (), cost=3),
    Case("coarsen", ("coarsen", "data.h5", "--factor", "2", "-o", "new/coarse", "--threads", "1"), project,
         outputs=("new/coarse",), weight=3),
    Case("coarsen much", ("coarsen", "data.h5", "--factor", "2", "-o", "coarse", "--threads", "1"),
         lambda folder: project(folder, train=4096, length=64), outputs=("coarse",), weight=2),
    Case("coarsen on 2 ranks", ("coarsen", "data.h5", "--factor", "2", "-o", "coarse", "--threads", "1"), project, 2,
         ("coarse",), cost=3),
    Case("compare", ("compare", "baseline", "mrt"), finished("baseline", "mrt"), prints=True,
         inputs=("baseline/result.json", "mrt/epochs.jsonl", "mrt/stages.jsonl", "mrt/config.toml")),
    Case("plot", ("plot", "baseline", "mrt", "-o", "loss.png", "--x", "epochs"), finished("baseline", "mrt"),
         outputs=("loss.png",), inputs=("baseline/result.json", "mrt/epochs.jsonl"), cost=4),
    Case("report", ("report", "baseline", "mrt", "-o", "page.html"), finished("baseline", "mrt"), outputs=("page.html",),
         inputs=("baseline/result.json", "mrt/epochs.jsonl", "mrt/config.toml")),
    Case("plan", ("plan", "config.toml"), lambda folder: project(folder, "mrmf"), prints=True, inputs=("config.toml",)),
    Case("inspect", ("inspect", "config.toml"), lambda folder: project(folder, "mrmf"), prints=True,
         inputs=("config.toml", "data.h5")),
    Case("bench io", ("bench", "io", "config.toml", "--json", "io.json"), project, outputs=("io.json",),
         inputs=("config.toml", "data.h5")),
    Case("bench scaling", ("bench", "scaling", "config.toml", "--epochs", "1", "--csv", "scaling.csv"), project,
         outputs=("scaling.csv",), inputs=("config.toml", "data.h5")),
)}


class Templates:
    """Each case's folder as it is before the command, made when it is first asked for."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.made = set()

    def copy(self, case, to):
        template = self.folder / case.name.replace(" ", "-")
        if case.name not in self.made:
            template.mkdir(parents=True)
            case.make(template)
            self.made.add(case.name)
        shutil.copytree(template, to, symlinks=True, dirs_exist_ok=True)
