#!/usr/bin/env python3
"""Writes the map from the runs that jobs/map/run.py has made: docs/results/map.md, and a table of all runs of each
problem under docs/results/map. Usage: jobs/map/report.py [--folder runs/map] [--mrmf build/mrmf]."""
import argparse
import json
import pathlib
import subprocess
import sys

from problems import JOBS
from run import folder_of, runs

RESULTS = JOBS.parent / "docs/results"


def compare(program, root, folders, option):
    """What the program says about these runs; their names are relative to the folder of all of them."""
    words = [program, "compare", option, *(str(folder.relative_to(root)) for folder in folders)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"map: {' '.join(words[:3])} ...: {done.stderr}")
    return done.stdout


def spread_text(values, digits, factor=1):
    text = f"{factor * values['mean']:.{digits}f}"
    return text if values.get("standard_deviation") is None or values["n"] < 2 else (
        f"{text} ± {factor * values['standard_deviation']:.{digits}f}")


def saving_text(saved):
    if not saved:
        return "–"
    saved = saved["gflop_saved"]
    bound = {"none": "", "at least": "≥ ", "at most": "≤ "}[saved["bound"]]
    text = f"{bound}{100 * saved['mean']:.0f}"
    return (f"{text} ± {100 * saved['standard_error']:.0f}" if saved["standard_error"] is not None else text) + " %"


def rows(columns, epoch_gflop):
    """A line of the table for every method and length, by method and then by cost."""
    for column in sorted(columns, key=lambda column: (label(column)[0] != "baseline", label(column))):
        method, epochs = label(column)
        seeds = sorted(run["seed"] for run in column["runs"])
        yield (f"| {method} | {epochs} | {column['gflop']['mean'] / epoch_gflop:.2f} | "
               f"{spread_text(column['validation_loss'], 4)} | {len(seeds)} | {saving_text(column['at_equal_loss'])} |")


def label(column):
    """The method and its epochs, from the name of a run's folder."""
    method, epochs, _ = pathlib.Path(column["runs"][0]["folder"]).name.rsplit("-", 2)
    return method, int(epochs)


def section(program, root, name, folders):
    """One problem at one number of samples: its part of the page. Also writes the table of its runs."""
    (RESULTS / "map" / f"{name}.csv").write_text(compare(program, root, folders, "--csv"))
    columns = json.loads(compare(program, root, folders, "--json"))["columns"]
    baselines = [column for column in columns if label(column)[0] == "baseline"]
    with open(root / baselines[0]["runs"][0]["folder"] / "epochs.jsonl") as epochs:
        epoch = json.loads(epochs.readline())["gflop"]
    return [f"## {name.rpartition('-')[0]}, {name.rpartition('-')[2]} samples", "",
            "| method | epochs | cost | loss at the end | seeds | saved at equal loss |", "|---|---|---|---|---|---|",
            *rows(columns, epoch), "", f"Runs: [{name}.csv](map/{name}.csv).", ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=pathlib.Path, default=pathlib.Path(__file__).with_name("settings.txt"))
    parser.add_argument("--folder", type=pathlib.Path, default=JOBS.parent / "runs/map")
    parser.add_argument("--mrmf", default=str(JOBS.parent / "build/mrmf"))
    options = parser.parse_args()
    root = options.folder.resolve()
    done = {}
    for run in runs(options.settings):
        folder = folder_of(root, run)
        if (folder / "result.json").exists():
            done.setdefault(folder.parent.name, set()).add(folder)
    (RESULTS / "map").mkdir(parents=True, exist_ok=True)
    page = RESULTS / "map.md"
    mark = "<!-- tables: jobs/map/report.py writes what follows -->"
    text = page.read_text().partition(mark)[0] if page.exists() else "# When it pays\n\n"
    lines = [mark, ""]
    for name, folders in done.items():
        if sum("/baseline-" in str(folder) for folder in folders) > 1:
            lines += section(str(pathlib.Path(options.mrmf).resolve()), root, name, sorted(folders))
    page.write_text(text + "\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
