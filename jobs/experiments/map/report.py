#!/usr/bin/env python3
"""Writes the map from the runs that jobs/experiments/map/run.py has made: docs/results/map.md, and a table of all runs of each
problem under docs/results/map. The page has a summary, auto beside the baseline of as many epochs, then the problems that
auto's rules were fitted to, then those that are held out. Usage: jobs/experiments/map/report.py [--folder runs/map] [--mrmf build/mrmf]."""
import argparse
import dataclasses
import json
import pathlib
import statistics
import sys

from compared import columns_of, columns_of_rival, compare, cost_text, label, saving_text, spread_text
from details import details
from problems import FITTED, EXPERIMENTS
from records import restore
from run import folder_of, runs

RESULTS = EXPERIMENTS.parents[1] / "docs/results"


@dataclasses.dataclass(frozen=True)
class Examined:
    columns: list
    epoch: float   # GFLOP of an epoch at full resolution
    against: dict  # (method, epochs) -> a column whose saving is against the network that auto ends with


def rows(columns, epoch_gflop):
    """A line of the table for every method and length, by method and then by cost."""
    for column in sorted(columns, key=lambda column: (label(column)[0] != "baseline", label(column))):
        method, epochs = label(column)
        yield (f"| {method} | {epochs} | {cost_text(column, epoch_gflop)} | "
               f"{spread_text(column['validation_loss'], 4)} | {len(column['runs'])} | {saving_text(column['at_equal_loss'])} |")


DRAWN = (("baseline", "baseline", "#000000", "o", "-"), ("auto", "auto", "#0072B2", "s", "none"),
         ("frontnet", "auto's last network, from the beginning", "#D55E00", "^", ":"))


def draw(problems, plans, image):
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
    named = set()  # in a legend: each method in its first panel
    for axes, (name, made) in zip(panels.flat, problems.items()):
        for method, words, colour, marker, line in DRAWN:
            found = sorted((c for c in made.columns if label(c)[0] == method), key=lambda c: c["gflop"]["mean"])
            if found:
                axes.errorbar(
                    [c["gflop"]["mean"] / made.epoch for c in found], [c["validation_loss"]["mean"] for c in found],
                    yerr=[c["validation_loss"]["standard_deviation"] or 0 for c in found], color=colour, marker=marker,
                    capsize=3, linestyle=line, label=None if method in named else words)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9)
        named.update(label(column)[0] for column in made.columns)
        by_default = "" if plans.get(parts_of(name)) != "baseline" else " (by default auto is the baseline here)"
        axes.set_title(title(name) + by_default, fontsize=9)
        axes.set_xlabel("arithmetic [epochs at full resolution]")
        axes.set_xlim(left=0)
        axes.spines[["top", "right"]].set_visible(False)
    for row in panels:
        row[0].set_ylabel("validation loss at the end")
    for suffix in ("png", "svg"):
        figure.savefig(image.with_suffix("." + suffix), dpi=150, metadata={"Date": None} if suffix == "svg" else None)


def seed_of(folder):
    return int(folder.name.rpartition("-seed")[2])


def examine(program, root, name, folders):
    """One problem at one number of samples. Writes all of its runs. frontnet is another network than the baselines', so
    its runs are no part of their curve, and have a file of their own."""
    table, rival_table = (RESULTS / f"map/{name}{suffix}.csv" for suffix in ("", "-frontnet"))
    rivals = [folder for folder in folders if folder.name.startswith("frontnet-")]
    folders = [folder for folder in folders if folder not in rivals]
    table.write_text(compare(program, root, folders, "--csv"))
    columns, against = columns_of(program, root, folders), []
    if rivals:
        rival_table.write_text(compare(program, root, rivals, "--csv"))
        columns += columns_of_rival(program, root, rivals, table)
        seeds = {seed_of(folder) for folder in rivals}
        same = [folder for folder in folders if folder.name.startswith("auto-") and seed_of(folder) in seeds]
        against = columns_of(program, root, same, "--baselines", str(rival_table))
    baseline = next(column for column in columns if label(column)[0] == "baseline")
    with open(root / baseline["runs"][0]["folder"] / "epochs.jsonl") as epochs:
        return Examined(columns, json.loads(epochs.readline())["gflop"], {label(column): column for column in against})


def parts_of(name):
    problem, _, samples = name.rpartition("-")
    return problem, int(samples)


def title(name):
    return "{}, {} samples".format(*parts_of(name))


def fitted(name):
    return parts_of(name) in FITTED


def default_words(plan, baseline, epoch):
    """Cells of the summary about what auto does by default: its plan, cost, seeds and saving; nothing for a schedule."""
    if plan != "baseline":
        return None
    return ("**the baseline**", cost_text(baseline, epoch) if baseline else "–", len(baseline["runs"]) if baseline else "–",
            "0 %: it is the baseline")


def summary(problems, plans):
    """A line for every length of auto; the paper's method beside it where it had the same epochs."""
    lines = ["## In short", "",
             "`auto` here is what a user gets without further keys. Where its measurement of the data says that the baseline is the",
             "better plan, the last column but one has the schedule that `method.detail = \"ignore\"` asks for all the same.",
             "*None* is a loss above that of every baseline.", "",
             "| problem | samples | rules | epochs | `auto` plans | cost | seeds | `auto` saved | against its last network "
             "from the beginning | with the measurement ignored | the paper's method saved |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for name, made in problems.items():
        found = {label(column): column for column in made.columns}
        for (method, epochs), auto in sorted(found.items()):
            if method == "auto":
                paper, against = found.get(("paper", epochs)), made.against.get((method, epochs))
                plan = plans.get(parts_of(name), "not looked")
                cost, saved = cost_text(auto, made.epoch), saving_text(auto["at_equal_loss"])
                default = default_words(plan, found.get(("baseline", epochs)), made.epoch)
                cells = [*parts_of(name), "fitted" if fitted(name) else "held out", epochs,
                         *(default or (plan, cost, len(auto["runs"]), saved)),
                         saving_text(against["at_equal_loss"]) if against else "–",
                         f"{saved} (cost {cost})" if default else "–",
                         saving_text(paper["at_equal_loss"]) if paper else "not run"]
                lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, ""]


def beside_baseline(auto, baseline):
    """Auto's loss less the baseline's in % of the latter, seed by seed: mean, standard error, how many are above 0."""
    losses = [{run["seed"]: run["validation_loss"] for run in column["runs"]} for column in (auto, baseline)]
    seeds = sorted(losses[0].keys() & losses[1].keys())
    mean = statistics.mean(losses[1][seed] for seed in seeds)
    less = [100 * (losses[0][seed] - losses[1][seed]) / mean for seed in seeds]
    error = f" ± {statistics.stdev(less) / len(less) ** 0.5:.1f}" if len(less) > 1 else ""
    return f"{round(statistics.mean(less), 1) + 0:+.1f}{error} %", len(less), sum(value > 0 for value in less)


def paired(problems):
    """How far auto's schedules end from the baselines of equal epochs."""
    lines = ["## Beside the baseline of as many epochs", "",
             "Auto's loss at the end less that of the baseline with the same `epochs` and seed, in % of the baseline's mean, with",
             "the standard error over the seeds. Below 0 auto ends lower. The schedules are those with the measurement ignored.",
             "", "| problem | samples | epochs | auto's cost | the baseline's | auto's loss less the baseline's | seeds | "
             "seeds in which auto ends higher |", "|---|---|---|---|---|---|---|---|"]
    for name, made in problems.items():
        found = {label(column): column for column in made.columns}
        for (method, epochs), auto in sorted(found.items()):
            baseline = found.get(("baseline", epochs))
            if method == "auto" and baseline:
                less, seeds, above = beside_baseline(auto, baseline)
                problem, samples = parts_of(name)
                lines.append(f"| {problem} | {samples} | {epochs} | {cost_text(auto, made.epoch)} | "
                             f"{cost_text(baseline, made.epoch)} | {less} | {seeds} | {above} |")
    return [*lines, ""]


def section(name, made):
    lines = [f"### {title(name)}", "",
             "| method | epochs | cost | loss at the end | seeds | saved at equal loss |", "|---|---|---|---|---|---|",
             *rows(made.columns, made.epoch), "", f"Runs: [{name}.csv](map/{name}.csv).", ""]
    if made.against:
        lines += ["Auto against the network that it ends with, trained from the beginning (`frontnet` above), with the seeds of",
                  "both:", "", "| method | epochs | cost | loss at the end | seeds | saved at equal loss |",
                  "|---|---|---|---|---|---|", *rows(made.against.values(), made.epoch), "",
                  f"Runs of `frontnet`: [{name}-frontnet.csv](map/{name}-frontnet.csv).", ""]
    return lines


def halves(problems):
    """The problems that auto's rules were fitted to, then those that test them."""
    for heading, which in (("Problems that auto's rules were fitted to", True), ("Held-out problems", False)):
        lines = [line for name, made in problems.items() if fitted(name) == which for line in section(name, made)]
        yield from [f"## {heading}", "", *(lines or ["No runs yet.", ""])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=pathlib.Path, default=pathlib.Path(__file__).with_name("settings.txt"))
    parser.add_argument("--folder", type=pathlib.Path, default=EXPERIMENTS.parents[1] / "runs/map")
    parser.add_argument("--mrmf", default=str(EXPERIMENTS.parents[1] / "build/mrmf"))
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
    mark = "<!-- tables: jobs/experiments/map/report.py writes what follows -->"
    text = page.read_text().partition(mark)[0] if page.exists() else "# When it pays\n\n"
    program = str(pathlib.Path(options.mrmf).resolve())
    problems = {name: examine(program, root, name, sorted(folders))
                for name, folders in sorted(done.items(), key=lambda item: not fitted(item[0]))
                if sum("/baseline-" in str(folder) for folder in folders) > 1}
    plans = details(program, root, map(parts_of, problems))
    draw(problems, plans, RESULTS / "map/losses")
    lines = [mark, "", *summary(problems, plans), "![Losses at the end over what training cost](map/losses.svg)", "",
             *paired(problems), *halves(problems)]
    page.write_text(text + "\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
