#!/usr/bin/env python3
"""A tournament over schedules, beside each of its schedules alone and what `method.name = "auto"` chooses, over several seeds:

    jobs/experiments/tournament/schedules.py CONFIG --epochs 8 --seeds 1 2 3

CONFIG is of data with one axis. Each trainer of the tournament has a schedule of its own, its share of the rows, and as many
steps as the one model that has all rows, so all take about as long where each has a processor. Trainers meet in the last phase
of their plans. Runs that are done are not repeated. Prints the table in Markdown. Set MRMF to the program.
"""
import argparse
import json
import statistics
from pathlib import Path

from compare import text, train

BOTTOM = 'method.name="mrmf"'
SCHEDULES = {
    "full resolution": ['method.name="baseline"'],
    "half, then full": [BOTTOM, "method.resolutions=[[2], [1]]"],
    "quarter, half, full": [BOTTOM, "method.resolutions=[[4], [2], [1]]"],
    "half, then full, the top carried over": [BOTTOM, "method.resolutions=[[2], [1]]", 'method.top="interpolated"'],
}


def toml(settings):
    return "[" + ", ".join(json.dumps(setting) for setting in settings) + "]"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--folder", default="runs/tournament-schedules", type=Path)
    options = parser.parse_args()

    def add(label, folder, settings, ranks=1):
        runs = [train(options.config, options.folder / Path(options.config).stem / f"{folder}-{seed}",
                      [f"training.seed={100 * seed}", *settings], ranks) for seed in options.seeds]
        print(f"| {label} | {text([run['loss'] for run in runs])} | {statistics.mean(run['gflop'] for run in runs):.1f} | "
              f"{statistics.mean(run['longest'] for run in runs):.1f} |", flush=True)

    print("| | best validation loss | GFLOP, all trainers | GFLOP, the longest trainer |\n|---|---|---|---|", flush=True)
    epochs = [f"training.epochs={options.epochs}"]
    for number, (name, settings) in enumerate(SCHEDULES.items()):
        add(name, f"one-{number}", epochs + settings)
    add('`method.name = "auto"`', "auto", epochs + ['method.name="auto"'])
    trainers = len(SCHEDULES)
    own = "tournament.settings=[" + ", ".join(toml(settings) for settings in SCHEDULES.values()) + "]"
    for selection in "none", "pairwise", "truncation":
        add(f"tournament of the {trainers}, {selection}", f"tournament-{selection}",
            [f"training.epochs={options.epochs * trainers}", f"tournament.trainers={trainers}", f'tournament.selection="{selection}"', own],
            trainers)


if __name__ == "__main__":
    main()
