#!/usr/bin/env python3
"""Does the whole cube pay? Trains on cubes of 64^3, and on their eight pieces of 32^3, for as many epochs: the same
volume, and nearly the same arithmetic. The pieces' answers for a cube are averaged. Every run is made once; a run that
was interrupted continues. Writes docs/results/whole.md behind its mark, and a CSV of all runs. Usage: jobs/experiments/whole/whole.py
[--folder runs/whole] [--mrmf build/mrmf] [--threads 1] [--samples 400] [--seeds 3] [--report]."""
import argparse
import csv
import json
import pathlib
import statistics
import sys

import h5py
import numpy

EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent
RESULTS = EXPERIMENTS.parents[1] / "docs/results"
sys.dont_write_bytecode = True
sys.path += [str(EXPERIMENTS / "map"), str(EXPERIMENTS / "reproduce")]
from run import call  # noqa: E402
from runs import published_split  # noqa: E402

MARK = "<!-- tables: jobs/experiments/whole/whole.py writes what follows -->"
# What is trained: configuration, whether its samples are pieces, and what is set in it. One epoch is one look at all.
VARIANTS = {
    "whole, batch 4": (EXPERIMENTS / "whole/cubes.toml", False, ["training.batch=4"]),
    "whole, batch 8": (EXPERIMENTS / "whole/cubes.toml", False, ["training.batch=8"]),
    "pieces, batch 16": (EXPERIMENTS / "demo/cubes.toml", True, ["training.batch=16"]),
    "pieces, batch 32": (EXPERIMENTS / "demo/cubes.toml", True, ["training.batch=32"]),
}


def cut(source, target):
    """The eight pieces of every cube, one after the other, each with the cube's labels."""
    with h5py.File(source) as cubes, h5py.File(target, "w") as pieces:
        n, size = cubes["3Dmap"].shape[:2]
        half = size // 2
        out = pieces.create_dataset("3Dmap", (8 * n, half, half, half, 4), cubes["3Dmap"].dtype)
        for i in range(n):
            cube = cubes["3Dmap"][i].reshape(2, half, 2, half, 2, half, 4)
            out[8 * i:8 * i + 8] = cube.transpose(0, 2, 4, 1, 3, 5, 6).reshape(8, half, half, half, 4)
        pieces["unitPar"] = numpy.repeat(cubes["unitPar"][...], 8, axis=0)


def data(options, root):
    """Files for training and validation: {False: of cubes, True: of pieces}."""
    folder, done = root / "data/cubes", root / "data/done"
    if not done.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        call([options.mrmf, "simulate", "cosmology", "--size", "64", "--box", "512", "--method", "lpt", "--seed", "1",
              "--samples", str(options.samples), "--output", str(folder), "--threads", str(options.threads),
              "--overwrite"], root / "data/simulate.log")
        for files in published_split(folder / "data.toml"):
            for file in map(pathlib.Path, files):
                (root / "data/pieces").mkdir(exist_ok=True)
                cut(file, root / "data/pieces" / file.name)
        done.touch()
    whole = [[pathlib.Path(file) for file in files] for files in published_split(folder / "data.toml")]
    return {False: whole, True: [[root / "data/pieces" / file.name for file in files] for files in whole]}


def by_cube(values, pieces):
    return values.reshape(-1, 8, values.shape[1]).mean(axis=1) if pieces else values


def make(options, folder, variant, seed, files):
    """Trains, predicts the validation samples, and leaves the mean squared error of each cube's answer."""
    config, pieces, words = VARIANTS[variant]
    if (folder / "answers.json").exists():
        return
    print(f"whole: {folder}", flush=True)
    train, validation = (json.dumps([str(file) for file in part]) for part in files[pieces])
    words = [*words, "method.name=baseline", f"training.epochs={options.epochs}", f"training.seed={seed}",
             f"data.files={train}", f"data.validation.files={validation}", f"run.folder={folder}",
             f"run.threads={options.threads}"]
    call([options.mrmf, "train", str(config), *(x for word in words for x in ("--set", word))],
         folder.with_suffix(".log"))
    answers = folder / "answers.h5"
    call([options.mrmf, "predict", str(folder), "--epoch", "last", "--append", "unitPar", "-o", str(answers),
          "--overwrite"], folder.with_suffix(".predict.log"))
    with h5py.File(answers) as file:
        wrong = by_cube(file["prediction"][...], pieces) - by_cube(file["unitPar"][...], pieces)
    result = json.loads((folder / "result.json").read_text())
    epochs = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
    note = {"variant": variant, "seed": seed, "epochs": options.epochs, "samples": epochs[-1]["samples"],
            "gflop": sum(stage["gflop"] for stage in result["stages"]), "train_loss": epochs[-1]["train_loss"],
            "validation_loss": epochs[-1]["validation_loss"], "error_by_cube": float((wrong ** 2).mean())}
    (folder / "answers.json").write_text(json.dumps(note) + "\n")


def report(root):
    """Rows by variant, and every run's line in a CSV."""
    notes = [json.loads(path.read_text()) for path in sorted(root.glob("*/answers.json"))]
    with open(RESULTS / "whole.csv", "w", newline="") as file:
        table = csv.DictWriter(file, fieldnames=list(notes[0]))
        table.writeheader()
        table.writerows(notes)
    lines = [MARK, "", "| trained on | TFLOP | training loss | validation loss by sample | error by cube | seeds |",
             "|---|---|---|---|---|---|"]
    for variant in VARIANTS:
        found = [note for note in notes if note["variant"] == variant]
        if not found:
            continue
        cells = [variant, f"{found[0]['gflop'] / 1000:.1f}"]
        for key in ("train_loss", "validation_loss", "error_by_cube"):
            values = [note[key] for note in found]
            spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.4f}{spread}")
        lines.append("| " + " | ".join([*cells, str(len(found))]) + " |")
    page = RESULTS / "whole.md"
    page.write_text(page.read_text().partition(MARK)[0] + "\n".join([*lines, "", "Runs: [whole.csv](whole.csv).", ""]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=EXPERIMENTS.parents[1] / "runs/whole")
    parser.add_argument("--mrmf", default=str(EXPERIMENTS.parents[1] / "build/mrmf"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--samples", type=int, default=400, help="cubes: training, validation and test as 80, 10, 10 %%")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--report", action="store_true", help="write the table of the runs that are there; make none")
    options = parser.parse_args()
    root = options.folder.resolve()
    if not options.report:
        files = data(options, root)
        for seed in range(1, options.seeds + 1):
            for variant in VARIANTS:
                make(options, root / f"{variant.replace(', ', '-').replace(' ', '')}-seed{seed}", variant, seed, files)
    report(root)


if __name__ == "__main__":
    sys.exit(main())
