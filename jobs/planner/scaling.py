#!/usr/bin/env python3
"""A modelled table of strong and weak scaling over GPUs: `mrmf plan --machine` for many numbers of ranks.

    jobs/planner/scaling.py [--machine v100] [--mini-batch 64] [--ranks 1 ... 2048]

Nothing of it is measured. Strong: the mini-batch over all GPUs stays. Weak: it grows with them, from what the fewest GPUs have
that the samples fit. Prints Markdown; the assumptions come first, as the program states them.
"""
import argparse
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MRMF = os.environ.get("MRMF", os.path.join(HERE, "..", "..", "build", "mrmf"))
NETWORKS = {"cosmoflow-128": "128x128x128x4", "cosmoflow-512": "512x512x512x4", "unet-256": "256x256x256x1"}


def plan(name, machine, precision, ranks, batch):
    """The best grid's figures, or None where no grid fits."""
    words = [MRMF, "plan", os.path.join(HERE, f"{name}.toml"), "--sample", NETWORKS[name], "--samples", str(16 * batch), "--ranks",
             str(ranks), "--batch", str(batch), "--machine", machine, "--set", f"run.precision={precision}", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode == 2 and "no grid of" in done.stderr:
        return None
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)["ranks"]
    best = found["phases"][0]["grids"][0]
    return dict(best, ranks=ranks, mini_batch=batch, step=best["epoch_seconds"] / best["steps"], assumptions=found["assumptions"],
                costs=found["costs"])


def share(row, part):
    return f"{100 * row[f'{part}_seconds'] / row['epoch_seconds']:.0f} %"


def table(title, rows):
    first = next((row for row in rows if row), None)
    print(f"\n{title}\n")
    print("| GPUs | samples a step | grid x groups | GB of a GPU | ms a step | samples/s | speed-up | efficiency | compute | messages | sums |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        if not row:
            continue
        rate, base = row["mini_batch"] / row["step"], first["mini_batch"] / first["step"]
        blocks = 1
        for count in row["grid"]:
            blocks *= count
        print(f"| {row['ranks']} | {row['mini_batch']} | {'x'.join(map(str, row['grid']))} x {row['ranks'] // blocks} | "
              f"{row['rank_bytes'] / 1e9:.1f} | {1e3 * row['step']:.2f} | {rate:.1f} | {rate / base:.2f} | "
              f"{100 * rate / base * first['ranks'] / row['ranks']:.0f} % | {share(row, 'compute')} | {share(row, 'message')} | {share(row, 'sum')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", default="v100")
    parser.add_argument("--precision", default="bf16", help="bf16 stands for fp16 on a V100")
    parser.add_argument("--mini-batch", type=int, default=64, help="of strong scaling")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2**k for k in range(2, 12)])
    options = parser.parse_args()
    told = False
    for name in NETWORKS:
        strong = [plan(name, options.machine, options.precision, ranks, options.mini_batch) for ranks in options.ranks]
        fewest = next((row for row in strong if row), None)
        if fewest is None:
            print(f"\n{name}: fits no number of GPUs")
            continue
        if not told:
            print(f"{fewest['costs']}\n")
            for line in fewest["assumptions"]:
                print(f"* {line}")
            told = True
        table(f"**{name}, strong**: {options.mini_batch} samples a step", strong)
        most = max(options.ranks)
        grown = [plan(name, options.machine, options.precision, ranks, max(1, options.mini_batch * ranks // most)) for ranks in options.ranks
                 if options.mini_batch * ranks % most == 0]
        table(f"**{name}, weak**: {most // options.mini_batch} GPUs for each sample of a step", grown)


if __name__ == "__main__":
    main()
