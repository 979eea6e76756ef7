#!/usr/bin/env python3
"""Compares the planner's predictions with measured epochs, on configurations that its tables were not made from.

    jobs/experiments/planner/compare.py --work FOLDER [--only NAME ...] [--turns 5 | --grids] [--json FILE]

Takes five turns. Each measures `mrmf bench tables` of all presets, one round with one and with two ranks of this machine,
and then trains two epochs of every configuration, of which the second counts. A configuration's error is that of the median
of five predictions, one of each turn's tables, against the median of the five epochs. So a machine whose speed drifts from
minute to minute is as fast for the tables as for the epochs. The spread of both sides stands beside, and how many
configurations are within 15 %.

--grids asks another question: does the planner choose well? For each of a few networks it trains every grid that fits two
ranks, and four, with the same samples in a step. Each grid has three turns of three epochs, whose first does not count, so
a machine whose speed drifts is as fast for one as for another. It prints how many pairs of grids are measured in the
predicted order, the same for pairs that are predicted at least 5 % apart, and how much longer the predicted best takes than
the measured best. Pairs whose epochs overlap have no order. Tables of all presets are measured once, in FOLDER."""
import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys

import h5py
import numpy as np

MRMF = os.environ.get("MRMF", os.path.join(os.path.dirname(__file__), "..", "..", "..", "build", "mrmf"))
GRID_RANKS = (2, 4)
GRID_EPOCHS = 3
GRID_TURNS = 3
APART = 0.05  # grids that are predicted closer to each other are a draw
OUTPUTS = {"neuron_inverter": 19, "cosmoflow": 4, "cosmoflow_mlperf": 4, "resnet": 10}

# name: preset, sample, samples of training, batch of a group, ranks, grid, further settings
CASES = {
    "neuron-1200": ("neuron_inverter", (1200, 3), 1024, 128, 1, None, []),
    "neuron-400": ("neuron_inverter", (400, 3), 4096, 256, 1, None, []),
    "cosmoflow-72": ("cosmoflow", (72, 72, 72, 4), 8, 2, 1, None, []),
    "mlperf-48": ("cosmoflow_mlperf", (48, 48, 48, 4), 16, 4, 1, None, []),
    "unet-96": ("unet", (96, 96, 1), 48, 6, 1, None, []),
    "unet3d-48": ("unet3d", (48, 48, 48, 1), 8, 2, 1, None, []),
    "resnet-96": ("resnet", (96, 96, 1), 96, 16, 1, None, []),
    "neuron-800-2": ("neuron_inverter", (800, 3), 2048, 96, 2, None, []),
    "cosmoflow-64-2": ("cosmoflow", (64, 64, 64, 4), 16, 2, 2, None, []),
    "unet3d-32-2": ("unet3d", (32, 32, 32, 1), 24, 3, 2, None, []),
    "resnet-80-2": ("resnet", (80, 80, 1), 128, 12, 2, None, []),
    "cosmoflow-64-grid": ("cosmoflow", (64, 64, 64, 4), 12, 2, 2, [2, 1, 1], []),
    "mlperf-64-grid": ("cosmoflow_mlperf", (64, 64, 64, 4), 8, 2, 2, [1, 2, 1], []),
    "neuron-1600-grid": ("neuron_inverter", (1600, 3), 1024, 128, 2, [2], []),
    "unet-128-grid": ("unet", (128, 128, 1), 32, 4, 2, [2, 1], []),
    "resnet-128-grid": ("resnet", (128, 128, 1), 64, 8, 2, [1, 2], []),
}

# Whose grids are compared: as above, and the batch is that of a step over all ranks.
GRID_CASES = {
    "cosmoflow-64": ("cosmoflow", (64, 64, 64, 4), 16, 4),
    "unet-128": ("unet", (128, 128, 1), 32, 4),
    "neuron-1600": ("neuron_inverter", (1600, 3), 1024, 128),
}


def run(*words, ranks=1, folder="."):
    start = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
    if ranks > len(os.sched_getaffinity(0)):
        start.insert(1, "--oversubscribe")
    done = subprocess.run([*start, os.path.abspath(MRMF), *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join([*start, 'mrmf', *words])}\n{done.stdout}{done.stderr}")
    return done.stdout


def write_case(folder, case):
    preset, sample, count, batch, _, grid, settings = case
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(1)
    positions = preset.startswith("unet")
    with h5py.File(os.path.join(folder, "data.h5"), "w") as file:
        for split, rows in (("train", count), ("val", max(2, count // 8))):
            file[f"{split}_x"] = rng.standard_normal((rows, *sample), dtype=np.float32)
            label = (*sample[:-1], 1) if positions else (OUTPUTS[preset],)
            file[f"{split}_y"] = rng.standard_normal((rows, *label), dtype=np.float32)
    with open(os.path.join(folder, "case.toml"), "w", encoding="utf-8") as file:
        file.write("\n".join([
            'data = { files = ["data.h5"], train = { samples = "train_x", labels = "train_y" }, '
            'validation = { samples = "val_x", labels = "val_y" } }',
            f'model = {{ preset = "{preset}"{", outputs = 1" if positions else f", outputs = {OUTPUTS[preset]}" if preset == "resnet" else ""} }}',
            f'training = {{ batch = {batch}, epochs = 2, loss = "mse", optimizer = {{ learning_rate = 1e-6 }} }}',
            f'run = {{ folder = "run"{f", grid = {grid}" if grid else ""} }}', *settings, ""]))


def predicted(folder, case, tables):
    _, sample, _, _, ranks, grid, _ = case
    plan = json.loads(run("plan", "case.toml", "--ranks", str(ranks), "--tables", tables, "--json", folder=folder))["ranks"]
    wanted = grid or [1] * (len(sample) - 1)
    return next(g for g in plan["phases"][0]["grids"] if g["grid"] == wanted)


def measured(folder, ranks, *settings):
    shutil.rmtree(os.path.join(folder, "run"), ignore_errors=True)
    run("train", "case.toml", *(word for setting in settings for word in ("--set", setting)), ranks=ranks, folder=folder)
    with open(os.path.join(folder, "run", "epochs.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file][1:]


def measured_tables(path, *words):
    """Tables of all presets, of one rank and of two."""
    for ranks in (1, 2):
        run("bench", "tables", "-o", path, *words, *(["--fresh"] if ranks == 1 else []), ranks=ranks)
    return path


def spread_text(values):
    return f"{min(values):.3f}-{max(values):.3f}"


def save(results, file):
    if file:
        with open(file, "w", encoding="utf-8") as json_file:
            json.dump(results, json_file, indent=1)


def in_turns(work, names, turns, file):
    """Every configuration's predictions beside its measured epochs."""
    results = {name: {"name": name, "ranks": CASES[name][4], "grid": CASES[name][5], "predicted": [], "measured": []} for name in names}
    for name in names:
        write_case(os.path.join(work, name), CASES[name])
    for turn in range(turns):
        tables = measured_tables(os.path.join(work, f"tables-{turn + 1}.json"), "--rounds", "1")
        for name, result in results.items():
            folder = os.path.join(work, name)
            result["predicted"].append(predicted(folder, CASES[name], tables))
            result["measured"].extend(measured(folder, CASES[name][4]))
        print(f"turn {turn + 1} of {turns} done", flush=True)
        save(list(results.values()), file)
    print(f"{'configuration':<20}{'ranks':>6}{'grid':>12}{'predicted':>11}{'spread':>14}{'measured':>10}{'spread':>14}{'error':>8}{'known':>7}")
    for name, result in results.items():
        guesses, seconds = ([one[key] for one in result[side]] for side, key in (("predicted", "epoch_seconds"), ("measured", "seconds")))
        guess, median = statistics.median(guesses), statistics.median(seconds)
        result["error"] = guess / median - 1
        known = result["predicted"][0]["measured_share"] + result["predicted"][0]["between_share"]
        print(f"{name:<20}{result['ranks']:>6}{str(result['grid'] or '-'):>12}{guess:>11.3f}{spread_text(guesses):>14}{median:>10.3f}"
              f"{spread_text(seconds):>14}{100 * result['error']:>7.1f}%{100 * known:>6.0f}%")
        os.remove(os.path.join(work, name, "data.h5"))
    within = sum(abs(result["error"]) <= 0.15 for result in results.values())
    print(f"{within} of {len(results)} within 15 %; seconds of an epoch; known: share of the computation from sizes that the "
          "tables have, or between them")
    return list(results.values())


def in_order(grids, apart):
    """Pairs whose predicted order is the measured one, and pairs that have an order. Counts pairs that are predicted at least
    so far apart."""
    pairs = [(a, b) for a, b in itertools.combinations(grids, 2)
             if max(a["seconds"]) < min(b["seconds"]) or max(b["seconds"]) < min(a["seconds"])]
    pairs = [(a, b) for a, b in pairs if abs(a["predicted"] - b["predicted"]) >= apart * min(a["predicted"], b["predicted"])]
    return sum((a["predicted"] < b["predicted"]) == (a["measured"] < b["measured"]) for a, b in pairs), len(pairs)


def order_text(lists):
    """How many pairs within each of these lists of grids are in order."""
    (right, pairs), (right_of_clear, clear) = ([sum(counts) for counts in zip(*(in_order(grids, apart) for grids in lists))]
                                               for apart in (0, APART))
    return (f"{right} of {pairs} pairs in the predicted order, {right_of_clear} of {clear} of those predicted at least "
            f"{100 * APART:.0f} % apart")


def measure_in_turns(folder, ranks, grids):
    """Sets the grids' seconds, of all turns, and their medians."""
    for _ in range(GRID_TURNS):
        for grid in grids:
            epochs = measured(folder, ranks, f"run.grid={grid['grid']}", f"training.batch={grid['batch']}",
                              f"training.epochs={GRID_EPOCHS}")
            grid.setdefault("seconds", []).extend(epoch["seconds"] for epoch in epochs)
    for grid in grids:
        grid["measured"] = statistics.median(grid["seconds"])


def all_grids(work, names):
    """Every grid of a few networks: is their order the predicted one?"""
    results = []
    tables = os.path.join(work, "tables.json")
    if not os.path.exists(tables):
        measured_tables(tables)
    for name in names:
        preset, sample, count, batch = GRID_CASES[name]
        folder = os.path.join(work, f"grids-{name}")
        write_case(folder, (preset, sample, count, batch, 1, None, []))
        for ranks in GRID_RANKS:
            plan = json.loads(run("plan", "case.toml", "--ranks", str(ranks), "--batch", str(batch), "--tables", tables, "--json",
                                  folder=folder))["ranks"]
            print(f"{name}, {ranks} ranks, {batch} samples a step: seconds of an epoch")
            grids = [{"grid": g["grid"], "predicted": g["epoch_seconds"], "batch": g["batch"]} for g in plan["phases"][0]["grids"]]
            measure_in_turns(folder, ranks, grids)
            for grid in grids:
                print(f"  {str(grid['grid']):<12}{grid['predicted']:>10.3f} predicted{grid['measured']:>10.3f} measured"
                      f" ({min(grid['seconds']):.3f} to {max(grid['seconds']):.3f})", flush=True)
            best = min(grid["measured"] for grid in grids)
            print(f"  {order_text([grids])}; the predicted best takes "
                  f"{100 * (grids[0]['measured'] / best - 1):.0f} % longer than the measured best", flush=True)
            results.append({"name": name, "ranks": ranks, "grids": grids})
        os.remove(os.path.join(folder, "data.h5"))
    print(order_text([result["grids"] for result in results]))
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", required=True, help="folder for tables and data")
    parser.add_argument("--only", nargs="*", help="names of configurations")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--turns", type=int, default=5, help="measurements of the tables and of every configuration")
    which.add_argument("--grids", action="store_true", help="compare the grids of a network with each other")
    parser.add_argument("--json", help="file to write the figures to")
    options = parser.parse_args()
    if options.turns < 1:
        parser.error("--turns: one or more")
    known = GRID_CASES if options.grids else CASES
    if unknown := set(options.only or []) - set(known):
        parser.error(f"--only {' '.join(sorted(unknown))}: choose among {', '.join(known)}")
    work, names = os.path.abspath(options.work), options.only or list(known)
    os.makedirs(work, exist_ok=True)
    results = all_grids(work, names) if options.grids else in_turns(work, names, options.turns, options.json)
    save(results, options.json)


if __name__ == "__main__":
    main()
