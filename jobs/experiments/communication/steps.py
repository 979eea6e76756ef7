#!/usr/bin/env python3
"""Milliseconds of a training step by the way in which ranks add: steps.py RANKS GBIT [WAYS...], in a folder with cubes.h5. GBIT 0 is
shared memory, else tests/network/run.sh makes the network. Prints the median epoch's time per step, without validation's, and the
bytes that a rank sent."""
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


def epochs(ranks, gbit, way):
    folder = f"steps-{gbit}-{way}"
    train = [MRMF, "train", str(HERE / "cubes.toml"), "--overwrite", "--set", f"run.folder={folder}", "--set",
             f"training.communication={way}"]
    launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    if gbit != "0":
        launch = [str(ROOT / "tests" / "network" / "run.sh"), str(ranks), gbit]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                "MRMF_CPU_KERNELS": "fixed"}
    subprocess.run(launch + train, check=True, stdout=subprocess.DEVNULL, env=environment)
    with open(f"{folder}/epochs.jsonl") as file:
        return [json.loads(line) for line in file]


def main():
    ranks, gbit, ways = int(sys.argv[1]), sys.argv[2], sys.argv[3:] or WAYS
    print(f"{'':8} {'ms a step':>10} {'compute':>9} {'waiting':>9} {'MB sent':>9} {'fp32 / it':>10}")
    plain = None
    for way in ways:
        records = epochs(ranks, gbit, way)[1:]
        steps = records[0]["samples"] / (records[0]["batch"] * ranks)
        compute = statistics.median(r["compute_seconds"] for r in records) / steps
        waiting = statistics.median(r["communication_seconds"] for r in records) / steps
        plain = plain or compute + waiting
        print(f"{way:8} {1e3 * (compute + waiting):10.1f} {1e3 * compute:9.1f} {1e3 * waiting:9.1f} "
              f"{1e-6 * records[-1]['sent_bytes']:9.2f} {plain / (compute + waiting):10.2f}", flush=True)


if __name__ == "__main__":
    main()
