#!/usr/bin/env python3
"""Times how long mrmf takes to start on very many files of one sample each (data.rows = "files").

    jobs/experiments/many_files.py --work /scratch/many [--files 100000] [--ranks 1 2]

makes the files (4 KB each, unless they are there), then runs `data`, `train` in memory and streamed, `train --continue`
and `evaluate`, and prints their seconds, of the trainings those before the first epoch was done, and those of the
processors, which say more on a machine that does other work as well. Files that have been written just before are in
the system's cache: this is the time of the program and the system, not of a disk."""
import argparse
import os
import shutil
import subprocess
import time

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = """
[data]
files = ["sims/*.h5"]
rows = "files"
train = { samples = "density", labels = "params" }
split = { by = "rows", validation = 0.1 }
[training]
batch = 64
epochs = 1
[method]
name = "baseline"
[run]
folder = "run"
threads = 1
[[model.layers]]
type = "flatten"
[[model.layers]]
type = "dense"
units = 2
"""


def make_files(folder, count):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(0)
    for i in range(len(os.listdir(folder)), count):
        cube = rng.standard_normal((8, 8, 8, 1), dtype=np.float32)
        with h5py.File(f"{folder}/sim{i:06d}.h5", "w", libver="latest") as file:
            file["density"], file["params"] = cube, np.array([cube.mean(), cube.std()], np.float32)


def run(work, ranks, *words):
    """The seconds that a command takes, those until it prints its first epoch, and the processors' on all ranks."""
    mrmf = os.environ.get("MRMF", os.path.join(HERE, "..", "..", "build", "mrmf"))
    launcher = ["mpirun", "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    start, before, first = time.perf_counter(), os.times(), None
    process = subprocess.Popen([*launcher, os.path.abspath(mrmf), *words], cwd=work, env=environment, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = ""
    for line in process.stdout:
        text += line
        if first is None and " epoch " in line:
            first = time.perf_counter() - start
    if process.wait() != 0:
        raise SystemExit(text)
    now = os.times()
    busy = now.children_user + now.children_system - before.children_user - before.children_system
    return time.perf_counter() - start, first, busy


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, help="the folder for files and runs")
    parser.add_argument("--files", type=int, default=100000)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    make_files(os.path.join(options.work, "sims"), options.files)
    with open(os.path.join(options.work, "many.toml"), "w") as file:
        file.write(CONFIG)
    commands = (("data", "many.toml"), ("train", "many.toml"),
                ("train", "--continue", "run", "--set", "training.epochs=2"), ("evaluate", "run"),
                ("train", "many.toml", "--overwrite", "--set", 'data.load="stream"'))
    for ranks in options.ranks:
        shutil.rmtree(os.path.join(options.work, "run"), ignore_errors=True)
        for words in commands:
            seconds, first, busy = run(options.work, ranks, *words)
            epoch = "" if first is None else f", {first:.1f} s to the end of the first epoch"
            print(f"{ranks} rank{'s' if ranks > 1 else ''}: {' '.join(words)}: {seconds:.1f} s{epoch}; "
                  f"processors {busy:.1f} s", flush=True)


if __name__ == "__main__":
    main()
