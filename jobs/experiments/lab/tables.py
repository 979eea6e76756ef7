#!/usr/bin/env python3
"""Writes the laboratory's tables from the runs that jobs/experiments/lab/lab.py has made: docs/results/lab.md, and all runs of each
problem under docs/results/lab. Savings are at equal loss, read off the map's baselines (docs/results/map).
Usage: jobs/experiments/lab/tables.py [--folder runs/lab] [--mrmf build/mrmf]."""
import argparse
import csv
import json
import pathlib
import sys

from lab import EXPERIMENTS, variants  # first: it says where the map's modules are
from compared import compare, saving_text, spread_text
from records import restore

RESULTS = EXPERIMENTS.parents[1] / "docs/results"
MARK = "<!-- tables: jobs/experiments/lab/tables.py writes what follows -->"


def epoch_gflop(folder, baselines):
    """Of an epoch of the baseline: what separates two of the map's baselines of different lengths, which have the same
    statistics of batch norms; without the map, the run's last epoch, which is another network's behind a stem."""
    if baselines.exists():
        with open(baselines, newline="") as file:
            costs = {int(row["epochs_after_fusion"]): float(row["gflop"])
                     for row in csv.DictReader(file) if row["method"] == "baseline"}
        if len(costs) > 1:
            return (costs[max(costs)] - costs[min(costs)]) / (max(costs) - min(costs))
    with open(folder / "epochs.jsonl") as epochs:
        last = json.loads(epochs.readlines()[-1])
    return last["gflop"] - last.get("statistics_gflop", 0)  # none without batch norms


def section(program, root, problem, keys):
    folders = sorted(path.parent for path in (root / problem).glob("*/result.json"))
    groups = {}  # one call for each variant: names of folders, not settings, tell them apart
    for folder in folders:
        groups.setdefault(folder.name.rpartition("-seed")[0], []).append(folder)
    baselines = RESULTS / f"map/{problem}.csv"
    against = ("--baselines", str(baselines)) if baselines.exists() else ()
    (RESULTS / "lab").mkdir(parents=True, exist_ok=True)
    (RESULTS / f"lab/{problem}.csv").write_text(compare(program, root, folders, "--csv", *against))
    lines = [f"### {problem.rpartition('-')[0]}, {problem.rpartition('-')[2]} samples", "",
             "| schedule | variant | sets | cost | loss at the end | seeds | saved at equal loss |",
             "|---|---|---|---|---|---|---|"]
    for name, runs in sorted(groups.items()):
        schedule, _, variant = name.partition("-")
        columns = json.loads(compare(program, root, runs, "--json", *against))["columns"]
        column = next(c for c in columns if c["runs"][0]["folder"] == str(runs[0].relative_to(root)))
        if len(column["runs"]) != len(runs):
            raise SystemExit(f"lab: the runs of {name} differ in their settings; remove those of an earlier version")
        sets = ", ".join(f"`{key}`" for key in keys.get(variant, []))
        lines.append(f"| {schedule} | {variant} | {sets} | {column['gflop']['mean'] / epoch_gflop(runs[0], baselines):.2f} | "
                     f"{spread_text(column['validation_loss'], 4)} | {len(runs)} | "
                     f"{saving_text(column['at_equal_loss'])} |")
    return [*lines, "", f"Runs: [{problem}.csv](lab/{problem}.csv).", ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", type=pathlib.Path, default=pathlib.Path(__file__).with_name("variants.txt"))
    parser.add_argument("--folder", type=pathlib.Path, default=EXPERIMENTS.parents[1] / "runs/lab")
    parser.add_argument("--mrmf", default=str(EXPERIMENTS.parents[1] / "build/mrmf"))
    options = parser.parse_args()
    root, keys = options.folder.resolve(), variants(options.variants)
    program, page = str(pathlib.Path(options.mrmf).resolve()), RESULTS / "lab.md"
    restore(root, "lab")
    text = page.read_text().partition(MARK)[0]
    lines = [MARK, ""]
    for problem in sorted(path.name for path in root.iterdir() if list(path.glob("*/result.json"))):
        lines += section(program, root, problem, keys)
    page.write_text(text + "\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
