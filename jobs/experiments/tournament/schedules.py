#!/usr/bin/env python3
"""A tournament over schedules, beside each of its schedules alone and what `method.name = "auto"` chooses, over several seeds:

    jobs/experiments/tournament/schedules.py CONFIG --epochs 8 --seeds 1 2 3

CONFIG is of data with one axis. Each trainer of the tournament has a schedule of its own, its share of the rows, and as many
steps as the one model that has all rows, so all take about as long where each has a processor. Trainers meet in the last phase
of their plans, where their networks must be alike: a new first layer, as auto chooses here, can only run alone. Runs that are
done are not repeated. Prints the table in Markdown. Set MRMF to the program.
"""
import argparse
import json
import statistics
from pathlib import Path

from compare import text, train

def halved(top, epochs, dense=0):
    """Coarse epochs at half the resolution, a dense model's, and half as many at full resolution."""
    stops = {"coarse": epochs, "dense": dense, "finetune": max(1, epochs // 2)}
    return ['method.name="mrmf"', "method.resolutions=[[2], [1]]", f'method.top="{top}"',
            *(f"method.stop.{role}.epochs={count}" for role, count in stops.items() if count)]


SCHEDULES = {  # settings for as many epochs as the baseline has
    "full resolution": lambda epochs: ['method.name="baseline"', f"training.epochs={epochs}"],
    "half, then full; top of a dense model": lambda epochs: halved("dense", epochs, max(1, epochs // 6)),
    "half, then full; top carried over": lambda epochs: halved("interpolated", epochs),
    "twice as long at half, then full; top carried over": lambda epochs: halved("interpolated", 2 * epochs)[:-1] +
                                                          [f"method.stop.finetune.epochs={max(1, epochs // 2)}"],
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
    for number, (name, schedule) in enumerate(SCHEDULES.items()):
        add(name, f"one-{number}", schedule(options.epochs))
    add("half, then full behind a new first layer", "one-stem", halved("stem", options.epochs))
    add('`method.name = "auto"`', "auto", [f"training.epochs={options.epochs}", 'method.name="auto"'])
    trainers = len(SCHEDULES)
    own = "tournament.settings=[" + ", ".join(toml(schedule(options.epochs * trainers)) for schedule in SCHEDULES.values()) + "]"
    for selection in "none", "pairwise", "truncation":
        add(f"tournament of the {trainers}, {selection}", f"tournament-{selection}",
            [f"tournament.trainers={trainers}", f'tournament.selection="{selection}"', own], trainers)


if __name__ == "__main__":
    main()
