#!/usr/bin/env python3
"""Draws the table that `mrmf bench scaling --csv FILE` wrote: an epoch's time and its parts, and samples per second.

    jobs/plots/plot_scaling.py FILE.csv -o FILE.png|.svg

Left: stacked bars of what an epoch's seconds went to, with the ideal time as a line: the smallest team's epoch shared
out evenly. Right: samples per second beside the ideal line, with the efficiency in per cent.
"""
import argparse
import csv
import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PARTS = [("io_seconds", "I/O", "#009E73"), ("compute_seconds", "compute", "#0072B2"),
         ("waited_seconds", "communication (waited)", "#D55E00")]


def fail(message):
    sys.exit(f"plot_scaling.py: {message}")


def read_table(path):
    try:
        with open(path, newline="") as file:
            rows = [{key: value if key == "grid" else float(value) for key, value in row.items()} for row in csv.DictReader(file)]
        return [dict(row, other_seconds=max(0.0, row["epoch_seconds"] - sum(row[key] for key, _, _ in PARTS)))
                for row in rows]
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    except (KeyError, TypeError, ValueError):
        fail(f"{path}: not a table of `mrmf bench scaling`")


def draw_parts(axes, rows):
    places, bottoms = range(len(rows)), [0.0] * len(rows)
    for key, label, colour in PARTS + [("other_seconds", "other", "#bbbbbb")]:
        heights = [row[key] for row in rows]
        axes.bar(places, heights, bottom=bottoms, color=colour, label=label, width=0.6)
        bottoms = [a + b for a, b in zip(bottoms, heights)]
    axes.plot(places, [row["ideal_seconds"] for row in rows], "k--o", linewidth=1.2, markersize=4, label="ideal")
    cut = any(set(row.get("grid", "1")) - set("1x") for row in rows)
    axes.set_xticks(places, [f"{row['ranks']:.0f}" + (f"\n{row['grid']}" if cut else "") for row in rows])
    axes.set_xlabel("ranks, and blocks of a sample" if cut else "ranks")
    axes.set_ylabel("seconds of an epoch")


def draw_speed(axes, rows):
    ranks, speeds = [row["ranks"] for row in rows], [row["samples_per_second"] for row in rows]
    axes.plot(ranks, [speeds[0] * n / ranks[0] for n in ranks], "k--", linewidth=1.2, label="ideal")
    axes.plot(ranks, speeds, "o-", color="#0072B2", linewidth=1.8, label="measured")
    for row in rows:
        axes.annotate(f"{100 * row['efficiency']:.0f} %", (row["ranks"], row["samples_per_second"]), xytext=(0, -12),
                      textcoords="offset points", fontsize=8, ha="center")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks(ranks, [f"{n:.0f}" for n in ranks])
    axes.set_xlabel("ranks")
    axes.set_ylabel("samples/s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", help="CSV of mrmf bench scaling")
    parser.add_argument("-o", "--output", required=True, help="image to write, .png or .svg")
    parser.add_argument("--format", choices=["png", "svg"], help="of a file that is there, whatever its name says")
    options = parser.parse_args()
    if not options.format and pathlib.Path(options.output).suffix not in (".png", ".svg"):
        fail(f"{options.output}: the name must end in .png or .svg")
    rows = read_table(options.table)
    if not rows:
        fail(f"{options.table}: no lines")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
    draw_parts(left, rows)
    draw_speed(right, rows)
    for axes in (left, right):
        axes.grid(True, axis="y", linewidth=0.4, color="#cccccc")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8, frameon=False)
    try:
        # The program that asks for a format made the file; when it is gone, nobody wants the image any more.
        with open(options.output, "r+b" if options.format else "wb") as file:
            figure.savefig(file, dpi=200, format=options.format or pathlib.Path(options.output).suffix[1:])
    except OSError as error:  # exit code 3, as for data: Python and matplotlib are not to blame
        print(f"plot_scaling.py: {options.output}: the image cannot be written: {error.strerror or error}", file=sys.stderr)
        sys.exit(3)
    except ValueError as error:
        fail(f"{options.output}: {error}")


if __name__ == "__main__":
    main()
