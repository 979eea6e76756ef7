#!/usr/bin/env python3
"""Modelled strong and weak scaling over GPUs: `mrmf plan --machine` for many numbers of ranks. Nothing of it is measured.

    jobs/experiments/planner/scaling.py [--mrmf build/mrmf] [--machines v100:fp32 h100:bf16] [--mini-batch 64] [--ranks 1 ... 2048]

Strong: the mini-batch over all GPUs stays. Weak: it grows with them, with as many GPUs a sample everywhere. Writes
docs/results/scaling-model.md behind its mark; --print writes nothing and prints that."""
import argparse
import json
import pathlib
import subprocess
import sys

EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent
PAGE = EXPERIMENTS.parents[1] / "docs/results/scaling-model.md"
MARK = "<!-- tables: jobs/experiments/planner/scaling.py writes what follows -->"
NETWORKS = {"cosmoflow-128": "128x128x128x4", "cosmoflow-512": "512x512x512x4", "unet-256": "256x256x256x1"}
NAMES = {"cosmoflow-128": "CosmoFlow (MLPerf) of 128^3", "cosmoflow-512": "CosmoFlow of 512^3", "unet-256": "U-Net of 256^3"}
# Samples per second over all GPUs in steady training, from the result logs of MLPerf HPC (mlcommons/hpc_results_v1.0, v2.0,
# v3.0): CosmoFlow of 128^3, one sample a GPU and step.
MLPERF = [("v1.0, NVIDIA DGX A100, MXNet", "a100", 128, 8573), ("v1.0, NVIDIA DGX A100, MXNet", "a100", 1024, 64741),
          ("v2.0, NVIDIA DGX A100, PyTorch", "a100", 512, 59371), ("v3.0, NVIDIA Eos, PyTorch", "h100", 512, 105808)]


class Planner:
    def __init__(self, program):
        self.program = program

    def best(self, name, machine, precision, ranks, batch, whole=False):
        """The best grid's figures, or those of whole samples; None where no grid fits."""
        words = [self.program, "plan", str(EXPERIMENTS / f"planner/{name}.toml"), "--sample", NETWORKS[name], "--samples", str(16 * batch),
                 "--ranks", str(ranks), "--batch", str(batch), "--machine", machine, "--set", f"run.precision={precision}", "--json"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode == 2 and "no grid of" in done.stderr:
            return None
        if done.returncode != 0:
            sys.exit(done.stderr)
        found = json.loads(done.stdout)["ranks"]
        grids = found["phases"][0]["grids"]
        best = next(grid for grid in grids if not whole or set(grid["grid"]) == {1})
        return dict(best, ranks=ranks, mini_batch=batch, step=best["epoch_seconds"] / best["steps"], rate=batch * best["steps"] /
                    best["epoch_seconds"], assumptions=found["assumptions"], costs=found["costs"])


def share(row, part):
    return f"{100 * row[f'{part}_seconds'] / row['epoch_seconds']:.0f} %"


def table(title, rows):
    first = rows[0]
    lines = ["", title, "", "| GPUs | samples a step | grid x groups | GB of a GPU | ms a step | samples/s | speed-up | efficiency | compute "
             "| messages | sums |", "|" + "---|" * 11]
    for row in rows:
        blocks = 1
        for count in row["grid"]:
            blocks *= count
        speedup = row["rate"] / first["rate"]
        lines.append(f"| {row['ranks']} | {row['mini_batch']} | {'x'.join(map(str, row['grid']))} x {row['ranks'] // blocks} | "
                     f"{row['rank_bytes'] / 1e9:.1f} | {1e3 * row['step']:.1f} | {row['rate']:.0f} | {speedup:.2f} | "
                     f"{100 * speedup * first['ranks'] / row['ranks']:.0f} % | {share(row, 'compute')} | {share(row, 'message')} | "
                     f"{share(row, 'sum')} |")
    return lines


def network(planner, options, machine, precision, name):
    found = [planner.best(name, machine, precision, ranks, options.mini_batch) for ranks in options.ranks]
    strong = [row for row in found if row]
    if not strong:
        return ["", f"**{NAMES[name]}**: {options.mini_batch} samples a step fit no number of these GPUs."]
    lines = table(f"**{NAMES[name]}, strong**: {options.mini_batch} samples a step", strong)
    most = max(options.ranks)
    grown = [planner.best(name, machine, precision, ranks, options.mini_batch * ranks // most) for ranks in options.ranks
             if options.mini_batch * ranks % most == 0]
    return lines + table(f"**{NAMES[name]}, weak**: {most // options.mini_batch} GPUs for each sample of a step", [row for row in grown if row])


def machine_lines(planner, options, machine, precision):
    of = planner.best("cosmoflow-128", machine, precision, 64, options.mini_batch)
    lines = ["", f"## {of['costs'].removeprefix('a roofline of ').removesuffix('; modelled, not measured')}", "", "Assumed are:", ""]
    lines += [f"* {line}" for line in of["assumptions"]]
    for name in NETWORKS:
        lines += network(planner, options, machine, precision, name)
    return lines


def within_a_node(planner):
    rows = [planner.best("cosmoflow-512", "h200", "bf16", ranks, 1) for ranks in (1, 2, 4, 8)]
    return table("**CosmoFlow of 512^3, one sample** within a node of H200, bf16", [row for row in rows if row])


def beside_mlperf(planner):
    lines = ["", "## Beside measured rates of data parallelism", "", "| MLPerf HPC CosmoFlow | GPUs | measured samples/s a GPU | modelled, whole "
             "samples | modelled / measured |", "|" + "---|" * 5]
    for title, machine, ranks, rate in MLPERF:
        row = planner.best("cosmoflow-128", machine, "bf16", ranks, ranks, whole=True)
        lines.append(f"| {title} | {ranks} {machine.upper()} | {rate / ranks:.0f} | {row['rate'] / ranks:.0f} | {row['rate'] / rate:.1f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mrmf", default=str(EXPERIMENTS.parents[1] / "build/mrmf"))
    parser.add_argument("--machines", nargs="+", default=["v100:fp32", "h100:bf16"], help="machine:precision")
    parser.add_argument("--mini-batch", type=int, default=64, help="of strong scaling, and of the most GPUs")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2**k for k in range(2, 12)])
    parser.add_argument("--print", action="store_true", help="print the tables; write no page")
    options = parser.parse_args()
    planner = Planner(options.mrmf)
    lines = [MARK]
    for machine in options.machines:
        lines += machine_lines(planner, options, *machine.split(":"))
    lines += within_a_node(planner) + beside_mlperf(planner)
    text = "\n".join([*lines, ""])
    if options.print:
        print(text)
    else:
        PAGE.write_text(PAGE.read_text().partition(MARK)[0] + text)


if __name__ == "__main__":
    main()
