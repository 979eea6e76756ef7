#!/usr/bin/env python3
"""Whole samples over several ranks, from simulated data to trained losses: cubes for CosmoFlow and volumes for a U-Net.

    jobs/experiments/planner/whole_samples.py --work FOLDER [--size 128] [--samples 10] [--epochs 6] [--only cubes|volumes]

Simulates the data, measures `mrmf bench tables` of the network with one and with two ranks (once, in FOLDER), and trains
the same samples on one rank, and shared by two and by four. Prints for each the largest relative difference of its losses
from one rank's, and the measured seconds of an epoch (median, without the first) beside those that `mrmf plan --ranks`
predicts for its grid. Ends with 1 where losses differ by more than --tolerance. With four ranks on fewer cores only the
losses mean something.

At 128^3 the learning rate is small. At 1e-3, with two samples in a step, training enlarges any rounding there to some per
cent of a loss within three epochs: that of a grid, and that of another number of threads. Small samples take --rate 1e-3,
volumes of less than 32^3 fewer --levels."""
import argparse
import json
import os
import pathlib
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reproduce"))
from compare import run  # noqa: E402
from runs import published_split  # noqa: E402

GRIDS = ([1, 1, 1], [2, 1, 1], [2, 2, 1])
SIMULATE = {"cubes": ("cosmology", "--method", "lpt", "--per-file", "1", "--output", "cubes"),
            "volumes": ("volumes", "--output", "volumes.h5")}
CONFIG = {"cubes": """
train = {{ samples = "3Dmap", labels = "unitPar" }}
validation = {{ samples = "3Dmap", labels = "unitPar", files = {validation} }}
[model]
preset = "cosmoflow"
""", "volumes": """
train = {{ samples = "train_volumes", labels = "train_masks" }}
validation = {{ samples = "val_volumes", labels = "val_masks" }}
[model]
preset = "unet3d"
levels = {levels}
width = 8
norm = "batch"
outputs = 6
"""}
TRAINING = """
[training]
batch = 2
epochs = {epochs}
{loss}
optimizer = {{ name = "sgd", learning_rate = {rate} }}
[run]
folder = "run"
{threads}
"""


def simulate(work, kind, options):
    folder = work / kind
    folder.mkdir(exist_ok=True)
    made = folder / "made.txt"
    wanted = f"{options.size} {options.samples}"
    if not made.exists() or made.read_text() != wanted:
        run("simulate", *SIMULATE[kind], "--size", str(options.size), "--samples", str(options.samples), "--overwrite",
            folder=folder)
        made.write_text(wanted)
    files, validation = ["volumes.h5"], None
    if kind == "cubes":
        files, validation = published_split(folder / "cubes" / "data.toml")
    loss = 'loss = ["cross_entropy", "dice"]' if kind == "volumes" else ""
    text = f"[data]\nfiles = {json.dumps([str(file) for file in files])}\nload = \"memory\"" + CONFIG[kind].format(
        validation=json.dumps([str(file) for file in validation or []]), levels=options.levels)
    threads = "" if options.threads is None else f"threads = {options.threads}"
    (folder / "config.toml").write_text(text + TRAINING.format(epochs=options.epochs, rate=options.rate, loss=loss, threads=threads))
    return folder


def tables_of(folder, options):
    threads = [] if options.threads is None else ["--threads", str(options.threads)]
    tables = folder / "tables.json"
    if not tables.exists():
        for ranks in (1, 2):
            run("bench", "tables", "config.toml", "--seconds", options.seconds, *threads, "-o", str(tables), ranks=ranks,
                folder=folder)
    return str(tables)


def predicted(folder, grid, tables, ranks):
    plan = json.loads(run("plan", "config.toml", "--ranks", str(ranks), "--batch", "2", "--tables", tables, "--json",
                          folder=folder))["ranks"]
    grids = plan["phases"][0]["grids"]
    found = [g["epoch_seconds"] for g in grids if g["grid"] == grid]
    if not found:
        sys.exit(f"{folder}: {grid} does not fit: {plan['phases'][0]['refused']}")
    return found[0], grids[0]["grid"]


def train(folder, grid, ranks):
    name = "run-" + "x".join(map(str, grid))
    output = run("train", "config.toml", "--overwrite", "--set", f"run.folder={name}", "--set", f"run.grid={grid}", ranks=ranks,
                 folder=folder)
    if ranks > 1 and f"shared by {ranks} ranks" not in output:
        sys.exit(f"{folder / name}: samples were not shared\n{output}")
    return [json.loads(line) for line in (folder / name / "epochs.jsonl").read_text().splitlines()]


def apart(epochs, whole):
    """The largest relative difference of losses."""
    return max(abs(a[key] / b[key] - 1) for a, b in zip(epochs, whole, strict=True) for key in ("train_loss", "validation_loss"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for tables, data and runs")
    parser.add_argument("--size", type=int, default=128, help="voxels per axis")
    parser.add_argument("--samples", type=int, default=10, help="in all splits, 80/10/10")
    parser.add_argument("--levels", type=int, default=4, help="of the volumes' U-Net")
    parser.add_argument("--epochs", type=int, default=6, help="two or more: the first one is not timed")
    parser.add_argument("--only", choices=SIMULATE)
    parser.add_argument("--threads", type=int, help="of a rank; shared out by the program unless given")
    parser.add_argument("--rate", type=float, default=1e-5, help="learning rate")
    parser.add_argument("--tolerance", type=float, default=1e-3, help="of losses, relative")
    parser.add_argument("--seconds", default="0.3", help="of timed steps for every network of the tables")
    options = parser.parse_args()
    if options.epochs < 2:
        parser.error("--epochs: two or more, because the first one is not timed")
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    wrong = 0
    print(f"{'samples':<16}{'ranks':>6}{'grid':>12}{'losses apart':>14}{'predicted':>11}{'measured':>10}  planner's grid")
    for kind in [options.only] if options.only else SIMULATE:
        folder = simulate(work, kind, options)
        tables = tables_of(folder, options)
        whole = None
        for grid in GRIDS:
            ranks = grid[0] * grid[1] * grid[2]
            guess, best = predicted(folder, grid, tables, ranks)
            epochs = train(folder, grid, ranks)
            whole = whole or epochs
            seconds = statistics.median(epoch["seconds"] for epoch in epochs[1:])
            different = apart(epochs, whole)
            wrong += not different <= options.tolerance  # not a number is wrong, too
            print(f"{f'{kind} {options.size}^3':<16}{ranks:>6}{str(grid):>12}{different:>14.1e}{guess:>11.3f}{seconds:>10.3f}  {best}",
                  flush=True)
    if wrong:
        sys.exit(f"{wrong} of these losses differ by more than {options.tolerance}")


if __name__ == "__main__":
    main()
