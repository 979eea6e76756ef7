#!/usr/bin/env python3
"""Milliseconds of a training step by the way in which ranks add: steps.py [--config CONFIG] [--turns N] RANKS GBIT [WAYS...], in a folder
with the data of CONFIG: cubes.toml, unless given, takes cubes.h5, and traces.toml traces.h5.
GBIT 0 is shared memory, else tests/network/run.sh makes the network. Prints the median epoch's time per step, without validation's, the
bytes that a rank sent, and how many times faster a step is than with the first way. On a machine that others use, take several turns:
all ways follow each other in a turn, a factor is of one turn, and the medians of all turns are printed, with the least and largest
factor."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MRMF = os.environ.get("MRMF", str(ROOT / "build" / "mrmf"))
WAYS = ["fp32", "bf16", "int8", "levels8", "levels4", "vote"]


def epochs(config, ranks, gbit, way):
    folder = f"steps-{gbit}-{way}"
    train = [MRMF, "train", str(HERE / config), "--overwrite", "--set", f"run.folder={folder}", "--set",
             f"training.communication={way}"]
    launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    if gbit != "0":
        launch = [str(ROOT / "tests" / "network" / "run.sh"), str(ranks), gbit]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                "MRMF_CPU_KERNELS": "fixed"}
    subprocess.run(launch + train, check=True, stdout=subprocess.DEVNULL, env=environment)
    with open(f"{folder}/epochs.jsonl") as file:
        return [json.loads(line) for line in file]


def measured(config, ranks, gbit, way):
    """Seconds of a step that were computed and waited, and bytes sent."""
    records = epochs(config, ranks, gbit, way)[1:]
    steps = records[0]["samples"] / (records[0]["batch"] * ranks)
    return [statistics.median(r[key] for r in records) / steps for key in ("compute_seconds", "communication_seconds")] + [
        records[-1]["sent_bytes"]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="cubes.toml")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("ranks", type=int)
    parser.add_argument("gbit")
    parser.add_argument("ways", nargs="*")
    options = parser.parse_args()
    ways = options.ways or WAYS
    turns = []
    for turn in range(options.turns):
        turns.append({way: measured(options.config, options.ranks, options.gbit, way) for way in ways})
        print(f"turn {turn + 1} of {options.turns}: load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    print(f"{'':8} {'ms a step':>10} {'compute':>9} {'waiting':>9} {'MB sent':>9} {ways[0] + ' / it':>10}")
    for way in ways:
        compute, waiting, sent = (statistics.median(turn[way][i] for turn in turns) for i in range(3))
        factors = [sum(turn[ways[0]][:2]) / sum(turn[way][:2]) for turn in turns]
        print(f"{way:8} {1e3 * (compute + waiting):10.1f} {1e3 * compute:9.1f} {1e3 * waiting:9.1f} {1e-6 * sent:9.2f} "
              f"{statistics.median(factors):10.2f} ({min(factors):.2f} to {max(factors):.2f})", flush=True)


if __name__ == "__main__":
    main()
