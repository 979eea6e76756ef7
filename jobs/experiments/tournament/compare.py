#!/usr/bin/env python3
"""Runs to compare: one trainer, as many ranks that share each batch, trainers that do not meet, and tournaments, over three seeds.

    jobs/experiments/tournament/compare.py CONFIG --epochs 8 --trainers 2 4 8 --seeds 1 2 3

Two ways to give a tournament its training: as many samples as the one trainer (each trainer sees its part so many epochs),
or as many steps as it: where each trainer has a processor of its own, these are equal seconds. Ranks that share batches have
a batch as large as all trainers' together, and learning rates that are larger by its root. Runs that are done are not repeated.
Prints the table in Markdown, and keeps what it is made of in results.json beside the runs. Set MRMF to the program.
"""
import argparse
import json
import os
import statistics
import subprocess
import tomllib
from pathlib import Path

MRMF = os.environ.get("MRMF", "mrmf")
WAYS = {"none": ['tournament.selection="none"'], "pairwise": [], "truncation": ['tournament.selection="truncation"'],
        "pairwise, mutated rate": ['tournament.mutate=["learning_rate"]']}


def train(config, folder, settings, ranks):
    if not (folder / "result.json").exists():
        words = [MRMF, "train", config, "--set", f"run.folder={folder}", *[w for s in settings for w in ("--set", s)]]
        launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
        folder.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(launch + words, check=True, stdout=subprocess.DEVNULL)
    result = json.loads((folder / "result.json").read_text())
    runs = sorted(folder.glob("trainer-*")) or [folder]
    gflop = [sum(json.loads(line)["gflop"] for line in (run / "epochs.jsonl").open()) for run in runs]
    best = result.get("best") or {}
    return {"loss": best.get("validation_loss", result["validation_loss"]), "gflop": sum(gflop), "longest": max(gflop)}


def ranks_that_share(config, ranks):
    """Settings of so many ranks whose mini-batch is theirs together."""
    with open(config, "rb") as file:
        rate = tomllib.load(file)["training"]["optimizer"]["learning_rate"]
    return [f"training.optimizer.learning_rate={rate * ranks ** 0.5}"]


def text(values, digits=5):
    spread = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--trainers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--ways", nargs="+", default=list(WAYS))
    parser.add_argument("--steps", type=int, default=0, help="from one meeting to the next; 0: an epoch of a trainer")
    parser.add_argument("--sharing", action="store_true", help="ranks that share batches, too")
    parser.add_argument("--folder", default="runs/tournament-compare", type=Path)
    options = parser.parse_args()
    name, rows = Path(options.config).stem, []

    def add(label, folder, settings, ranks, sharing=1):
        runs = [train(options.config, options.folder / name / f"{folder}-{seed}", [f"training.seed={100 * seed}", *settings], ranks)
                for seed in options.seeds]
        rows.append([label, runs])
        print(f"| {label} | {text([r['loss'] for r in runs])} | {statistics.mean(r['gflop'] for r in runs):.1f} | "
              f"{statistics.mean(r['longest'] for r in runs) / sharing:.1f} |", flush=True)

    print("| | best validation loss | GFLOP, all trainers | GFLOP, the busiest rank |\n|---|---|---|---|", flush=True)
    add("one trainer, all rows", "one", [f"training.epochs={options.epochs}"], 1)
    for trainers in options.trainers:
        for samples in ("as many samples", "as many steps"):
            epochs = options.epochs * (1 if samples == "as many samples" else trainers)
            if options.sharing:
                add(f"{trainers} ranks that share batches, {samples}", f"{trainers}-{samples.split()[-1]}-sharing",
                    [f"training.epochs={epochs}", *ranks_that_share(options.config, trainers)], trainers, trainers)
            for way in options.ways:
                settings = [f"tournament.trainers={trainers}", f"training.epochs={epochs}", f"tournament.steps={options.steps}", *WAYS[way]]
                folder = f"{trainers}-{samples.split()[-1]}-{way.replace(', ', '-').replace(' ', '-')}"
                add(f"{trainers} trainers, {samples}, {way}", folder, settings, trainers)
    (options.folder / name / "results.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
