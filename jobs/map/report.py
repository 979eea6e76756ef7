#!/usr/bin/env python3
"""Writes the map from the runs that jobs/map/run.py has made: docs/results/map.md, and a table of all runs of each
problem under docs/results/map. The page has a summary, then the problems that auto's rules were fitted to, then those
that are held out. Usage: jobs/map/report.py [--folder runs/map] [--mrmf build/mrmf]."""
import argparse
import json
import pathlib
import subprocess
import sys

from problems import FITTED, JOBS
from records import restore
from run import folder_of, runs

RESULTS = JOBS.parent / "docs/results"


def compare(program, root, folders, *options):
    """What the program says about these runs; their names are relative to the folder of all of them."""
    words = [program, "compare", *options, *(str(folder.relative_to(root)) for folder in folders)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:3])} ...: {done.stderr}")
    return done.stdout


def spread_text(values, digits):
    text = f"{values['mean']:.{digits}f}"
    return text if values["n"] < 2 else f"{text} ± {values['standard_deviation']:.{digits}f}"


def saving_text(saved):
    if not saved:
        return "–"
    saved = saved["gflop_saved"]
    bound = {"none": "", "at least": "≥ ", "at most": "≤ "}[saved["bound"]]
    text = f"{bound}{100 * saved['mean']:.0f}"
    return (f"{text} ± {100 * saved['standard_error']:.0f}" if saved["standard_error"] is not None else text) + " %"


def cost_text(column, epoch_gflop):
    return f"{column['gflop']['mean'] / epoch_gflop:.2f}"


def rows(columns, epoch_gflop):
    """A line of the table for every method and length, by method and then by cost."""
    for column in sorted(columns, key=lambda column: (label(column)[0] != "baseline", label(column))):
        method, epochs = label(column)
        yield (f"| {method} | {epochs} | {cost_text(column, epoch_gflop)} | "
               f"{spread_text(column['validation_loss'], 4)} | {len(column['runs'])} | {saving_text(column['at_equal_loss'])} |")


def draw(problems, image):
    """Losses at the end over what training cost: a panel for each problem, the baselines as a curve."""
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mrmf"})  # the same bytes every time
    import matplotlib.pyplot as plt
    across = min(3, len(problems))
    down = -(-len(problems) // across)
    figure, panels = plt.subplots(down, across, figsize=(4.6 * across, 3.4 * down), layout="constrained", squeeze=False)
    for axes in panels.flat[len(problems):]:
        axes.remove()
    for axes, (name, (columns, epoch)) in zip(panels.flat, problems.items()):
        for method, colour, marker in (("baseline", "#000000", "o"), ("auto", "#0072B2", "s")):
            found = sorted((c for c in columns if label(c)[0] == method), key=lambda c: c["gflop"]["mean"])
            axes.errorbar([c["gflop"]["mean"] / epoch for c in found], [c["validation_loss"]["mean"] for c in found],
                          yerr=[c["validation_loss"]["standard_deviation"] or 0 for c in found], color=colour, marker=marker,
                          label="tuned baseline" if method == "baseline" else "auto", capsize=3,
                          linestyle="-" if method == "baseline" else "none")
        axes.set_title(title(name), fontsize=10)
        axes.set_xlabel("arithmetic [epochs at full resolution]")
        axes.set_xlim(left=0)
        axes.spines[["top", "right"]].set_visible(False)
    for row in panels:
        row[0].set_ylabel("validation loss at the end")
    panels[0][0].legend(frameon=False)
    for suffix in ("png", "svg"):
        figure.savefig(image.with_suffix("." + suffix), dpi=150, metadata={"Date": None} if suffix == "svg" else None)


def label(column):
    """The method and its epochs, from the name of a run's folder."""
    method, epochs, _ = pathlib.Path(column["runs"][0]["folder"]).name.rsplit("-", 2)
    return method, int(epochs)


def examine(program, root, name, folders):
    """One problem at one number of samples: the columns of its table, and GFLOP of an epoch. Writes all of its runs."""
    (RESULTS / "map" / f"{name}.csv").write_text(compare(program, root, folders, "--csv"))
    columns = json.loads(compare(program, root, folders, "--json"))["columns"]
    baselines = [column for column in columns if label(column)[0] == "baseline"]
    with open(root / baselines[0]["runs"][0]["folder"] / "epochs.jsonl") as epochs:
        return columns, json.loads(epochs.readline())["gflop"]


def title(name):
    problem, _, samples = name.rpartition("-")
    return f"{problem}, {samples} samples"


def fitted(name):
    problem, _, samples = name.rpartition("-")
    return (problem, int(samples)) in FITTED


def summary(problems):
    """A line for every length of auto; the paper's method beside it where it had the same epochs."""
    lines = ["## In short", "",
             "| problem | samples | rules | epochs | auto's cost | seeds | auto saved | the paper's method saved |",
             "|---|---|---|---|---|---|---|---|"]
    for name, (columns, epoch) in problems.items():
        found = {label(column): column for column in columns}
        problem, _, samples = name.rpartition("-")
        for (method, epochs), auto in sorted(found.items()):
            if method == "auto":
                paper = found.get(("paper", epochs))
                lines.append(f"| {problem} | {samples} | {'fitted' if fitted(name) else 'held out'} | {epochs} | "
                             f"{cost_text(auto, epoch)} | {len(auto['runs'])} | {saving_text(auto['at_equal_loss'])} | "
                             f"{saving_text(paper['at_equal_loss']) if paper else 'not run'} |")
    return [*lines, ""]


def section(name, columns, epoch):
    return [f"### {title(name)}", "",
            "| method | epochs | cost | loss at the end | seeds | saved at equal loss |", "|---|---|---|---|---|---|",
            *rows(columns, epoch), "", f"Runs: [{name}.csv](map/{name}.csv).", ""]


def halves(problems):
    """The problems that auto's rules were fitted to, then those that test them."""
    for heading, which in (("Problems that auto's rules were fitted to", True), ("Held-out problems", False)):
        lines = [line for name, made in problems.items() if fitted(name) == which for line in section(name, *made)]
        yield from [f"## {heading}", "", *(lines or ["No runs yet.", ""])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=pathlib.Path, default=pathlib.Path(__file__).with_name("settings.txt"))
    parser.add_argument("--folder", type=pathlib.Path, default=JOBS.parent / "runs/map")
    parser.add_argument("--mrmf", default=str(JOBS.parent / "build/mrmf"))
    options = parser.parse_args()
    root = options.folder.resolve()
    restore(root)
    done = {}
    for run in runs(options.settings):
        folder = folder_of(root, run)
        if (folder / "result.json").exists():
            done.setdefault(folder.parent.name, set()).add(folder)
    (RESULTS / "map").mkdir(parents=True, exist_ok=True)
    page = RESULTS / "map.md"
    mark = "<!-- tables: jobs/map/report.py writes what follows -->"
    text = page.read_text().partition(mark)[0] if page.exists() else "# When it pays\n\n"
    program = str(pathlib.Path(options.mrmf).resolve())
    problems = {name: examine(program, root, name, sorted(folders))
                for name, folders in sorted(done.items(), key=lambda item: not fitted(item[0]))
                if sum("/baseline-" in str(folder) for folder in folders) > 1}
    draw(problems, RESULTS / "map/losses")
    lines = [mark, "", *summary(problems), "![Losses at the end over what training cost](map/losses.svg)", "",
             *halves(problems)]
    page.write_text(text + "\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
