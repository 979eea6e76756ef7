#!/usr/bin/env python3
"""Draws where the time of training went, from the run folders of mrmf: the paper's Figures 3 and 4.

    jobs/plots/plot_times.py RUN... -o FILE.png|.svg

A bar for each method and number of ranks, stage by stage: the stages before a fusion in red, orange and purple, what
came after the last one (or the baseline) in blue. Each stage is cut into computing, communication, I/O and the rest,
which is building and fusing models. Runs that differ in the seed alone are one bar of means, with the standard deviation
of their seconds. Of two teams that trained at once, the one that took longer counts.
"""
import argparse
import statistics

import plot
from matplotlib.patches import Patch

PARTS = (("computing", "compute_seconds", 1.0, ""), ("communication", "communication_seconds", 0.65, "////"),
         ("I/O", "io_seconds", 0.4, "...."), ("other", None, 0.1, ""))
AFTER_COLOUR, STAGE_COLOURS = "#0072B2", ("#D55E00", "#E69F00", "#7B1FA2")


def number(epoch, key, folder):
    value = epoch.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        plot.damaged(f"{folder}/epochs.jsonl: an epoch has no '{key}'; is the run folder damaged?")
    return value


def stage_times(epochs, folder):
    """{stage: seconds of each part}; stage 0 is what came after the last fusion, and stands last."""
    most_ranks = max(number(epoch, "ranks", folder) for epoch in epochs)
    times = {}
    for phase in plot.phases_of(epochs):
        stage = 0 if phase[0]["role"] in plot.AFTER else phase[0]["stage"]
        parts = [sum(number(epoch, key, folder) for epoch in phase) for _, key, *_ in PARTS[:3]]
        parts.append(max(0.0, sum(number(epoch, "seconds", folder) for epoch in phase) - sum(parts)))
        before = times.get(stage, [0.0] * len(PARTS))
        team = phase[0]["ranks"] < most_ranks
        times[stage] = max(before, parts, key=sum) if team else [a + b for a, b in zip(before, parts)]
    return {stage: times[stage] for stage in sorted(times, key=lambda stage: stage or float("inf"))}


def bars_of(runs):
    """[(label, [times of each run])]: a bar for each method, its settings and number of ranks."""
    methods = {}
    for folder, (epochs, result) in runs:
        name = plot.method_name(epochs, result, folder)
        methods.setdefault(plot.kind_of(name, result), []).append((epochs, {**result, "folder": folder}))
    bars = []
    for name, group in methods.items():
        for label, own in plot.by_settings(group):
            by_ranks = {}
            for epochs, result in own:
                ranks = max(number(epoch, "ranks", result["folder"]) for epoch in epochs)
                by_ranks.setdefault(ranks, []).append(stage_times(epochs, result["folder"]))
            for ranks, times in by_ranks.items():
                title = f"{name}, {label}" if label else name
                several = f", mean of {len(times)} runs" if len(times) > 1 else ""
                bars.append((f"{title}\n{ranks} rank{'s' if ranks > 1 else ''}{several}", times))
    return bars


def colour_of(stage):
    return AFTER_COLOUR if stage == 0 else STAGE_COLOURS[(stage - 1) % len(STAGE_COLOURS)]


def draw(runs, options):
    bars = bars_of(runs)
    figure, axes = plot.plt.subplots(figsize=(8.5, 1.6 + 0.75 * len(bars)), layout="constrained")
    stages = []
    for row, (_, times) in enumerate(bars):
        left = 0.0
        for stage in {stage: None for one in times for stage in one}:  # in order, each once
            stages += [stage] if stage not in stages else []
            for part, (_, _, alpha, hatch) in enumerate(PARTS):
                width = statistics.fmean(one.get(stage, [0.0] * len(PARTS))[part] for one in times)
                axes.barh(row, width, left=left, height=0.62, color=colour_of(stage), alpha=alpha, hatch=hatch,
                          edgecolor="white", linewidth=0.5)
                left += width
        totals = [sum(map(sum, one.values())) for one in times]
        deviation = statistics.stdev(totals) if len(totals) > 1 else 0
        if deviation:
            axes.errorbar(left, row, xerr=deviation, fmt="none", ecolor="#333333", capsize=3)
        axes.annotate(f"{left:.4g} s", (left + deviation, row), xytext=(8, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(bars)), [label for label, _ in bars], fontsize=8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds of training")
    axes.grid(True, axis="x", linewidth=0.4, color="#cccccc")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    handles = [Patch(color=colour_of(stage), label=f"stage {stage}" if stage else "baseline or finetune")
               for stage in sorted(stages, key=lambda stage: stage or float("inf"))]
    handles += [Patch(facecolor="#777777", alpha=alpha, hatch=hatch, edgecolor="white", label=name)
                for name, _, alpha, hatch in PARTS]
    axes.legend(handles=handles, fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=4)
    plot.save(figure, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="run folders")
    plot.add_output(parser)
    options = plot.parsed(parser)
    draw([(folder, plot.read_run(folder)) for folder in options.runs], options)


if __name__ == "__main__":
    main()
