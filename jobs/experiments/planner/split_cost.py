#!/usr/bin/env python3
"""Measures what sharing a sample costs: two 64^3 cubes of CosmoFlow at a time over two ranks, against a cube for each.
(A batch norm behind the flatten wants two rows at least.)

    jobs/experiments/planner/split_cost.py --work FOLDER [--pairs 5]

Both ways train the same cubes, on two ranks of this machine with a thread each, so without a cost an epoch would take as
long. Trains by turns, in pairs, and prints the ratio of the medians of five epochs for each pair, and the median ratio."""
import argparse
import json
import os
import shutil
import statistics
import sys

import h5py
import numpy as np

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from compare import run  # noqa: E402

CUBES, EPOCHS, SIZE = 16, 6, 64
MODEL = 'preset = "cosmoflow"'


def write_data(path):
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        for split, rows in (("train", CUBES), ("val", 2)):
            file[f"{split}_x"] = rng.standard_normal((rows, SIZE, SIZE, SIZE, 4), dtype=np.float32)
            file[f"{split}_y"] = rng.standard_normal((rows, 4), dtype=np.float32)


def write_config(path, grid, batch):
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([
            'data = { files = ["data.h5"], train = { samples = "train_x", labels = "train_y" }, '
            'validation = { samples = "val_x", labels = "val_y" } }',
            f'model = {{ {MODEL} }}',
            f'training = {{ batch = {batch}, epochs = {EPOCHS}, loss = "mse", optimizer = {{ learning_rate = 1e-6 }} }}',
            f'run = {{ folder = "run", threads = 1, grid = {grid} }}', ""]))


def epoch_seconds(folder, config):
    """The median of the epochs' training behind the first one."""
    shutil.rmtree(os.path.join(folder, "run"), ignore_errors=True)
    run("train", config, ranks=2, folder=folder)
    with open(os.path.join(folder, "run", "epochs.jsonl"), encoding="utf-8") as file:
        return statistics.median([json.loads(line)["seconds"] for line in file][1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, help="folder for data and runs")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    folder = os.path.abspath(options.work)
    os.makedirs(folder, exist_ok=True)
    write_data(os.path.join(folder, "data.h5"))
    write_config(os.path.join(folder, "whole.toml"), [1, 1, 1], 1)
    write_config(os.path.join(folder, "shared.toml"), [2, 1, 1], 2)
    ratios = []
    for pair in range(options.pairs):
        first, second = ("whole.toml", "shared.toml") if pair % 2 == 0 else ("shared.toml", "whole.toml")
        seconds = {name: epoch_seconds(folder, name) for name in (first, second)}
        ratios.append(seconds["shared.toml"] / seconds["whole.toml"])
        print(f"shared {seconds['shared.toml']:.3f} s, a cube each {seconds['whole.toml']:.3f} s: {ratios[-1]:.3f}", flush=True)
    os.remove(os.path.join(folder, "data.h5"))
    print(f"median of {len(ratios)} pairs: {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
