#!/usr/bin/env python3
"""Do seconds follow the arithmetic that auto saves? Trains the baseline and auto in turns, so a machine whose speed drifts is
as fast for one as for the other, and prints what auto saves of both against a baseline of as many epochs.

    jobs/experiments/map/seconds.py [--folder runs/map] [--mrmf build/mrmf] [--turns 3] [--threads 2]

Data and configurations are the map's. Both sides hold all that a run does after reading: training, validation, transfer, recalibration
of batch norms, checkpoints."""
import argparse
import json
import pathlib
import statistics
import sys

EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.append(str(EXPERIMENTS / "map"))
from run import train  # noqa: E402

CASES = [("cubes", 1280, 10), ("neuron", 16000, 6)]  # samples, epochs of the baseline: the demo's


def cost(options, case, method):
    """Seconds and GFLOP of a run."""
    name, samples, epochs = case
    root = options.folder.resolve()
    folder = root / "seconds"
    train(options.mrmf, root, (name, samples, method, epochs, 1), folder, options.threads, overwrite=True)
    stages = json.loads((folder / "result.json").read_text())["stages"]
    return [sum(stage[key] for stage in stages) for key in ("seconds", "gflop")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path, default=EXPERIMENTS.parents[1] / "runs/map")
    parser.add_argument("--mrmf", default=str(EXPERIMENTS.parents[1] / "build/mrmf"))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.turns < 1:
        parser.error("--turns: one or more")
    print(f"{'problem':<10}{'epochs':>7}{'arithmetic saved':>18}{'seconds saved':>15}  of each turn")
    for case in CASES:
        turns = [(cost(options, case, "baseline"), cost(options, case, "auto")) for _ in range(options.turns)]
        saved = [[100 * (1 - auto[i] / base[i]) for base, auto in turns] for i in (0, 1)]
        print(f"{case[0]:<10}{case[2]:>7}{saved[1][0]:>16.1f} %{statistics.median(saved[0]):>13.1f} %  "
              f"{', '.join(f'{value:.1f}' for value in saved[0])}", flush=True)


if __name__ == "__main__":
    main()
