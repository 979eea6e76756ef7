#!/usr/bin/env python3
"""Tables for docs/results/communication.md: a step's time on 2 to 1,024 ranks, and whether signs are right there. No network is used:

    model.py [--parameters 9.44e6] [--gbit 1] [--compute 52] [--message 0.015] [--entries 20000]

A step computes for COMPUTE ms, the same on any number of ranks (each has as many samples), and then waits for its sum: nothing hides it.
Every rank sends and receives at GBIT whatever the others do. A sum costs the bytes of `mrmf plan`, codes as long as CODES says, and, in
the second table's columns "with messages", MESSAGE ms for each of the 2 (ranks - 1) messages that a rank sends, one after the other. The
sums of a step are one, as the program makes buckets longer on more ranks. Signs: each rank has the same direction plus noise of its
own, 3.3 times as large, of which a share of signs comes out as in the exact mean (and a share stays at zero)."""
import argparse

import numpy as np

RANKS = [2, 8, 32, 128, 1024]
WAYS = {  # bytes of a value there and back; ms of codes of 9.44 million values; the most ranks
    "fp32": (4, 4, 0, 10**9), "bf16": (2, 2, 13.8, 10**9), "int8": (1 + 1 / 64, 1 + 1 / 64, 12.2, 10**9),
    "levels8": (1, 1 / 4, 8.9, 127), "levels8, full": (1, 1 / 4, 8.9, 10**9), "levels4, full": (1 / 2, 1 / 4, 8.3, 10**9),
    "vote": (1 / 8, 1 / 8, 9.1, 10**9)}


def sum_ms(options, way, ranks, message):
    there, back, codes, _ = WAYS[way]
    sent = options.parameters * (there + back) * (ranks - 1) / ranks
    return 1e3 * sent / (options.gbit * 125e6) + codes * options.parameters / 9.44e6 + message * 2 * (ranks - 1)


def times(options):
    for title, message in (("a step, ms", 0), ("with messages, ms", options.message)):
        print(f"| {title} |" + "".join(f" {ranks:,} ranks |" for ranks in RANKS) + "\n|---|" + "---|" * len(RANKS))
        for way, (_, _, _, most) in WAYS.items():
            steps = [options.compute + sum_ms(options, way, ranks, message) for ranks in RANKS]
            plain = [options.compute + sum_ms(options, "fp32", ranks, message) for ranks in RANKS]
            print(f"| {way} |" + "".join(f" {step:.0f} ({fp32 / step:.1f}) |" if ranks <= most else " - |"
                                         for ranks, step, fp32 in zip(RANKS, steps, plain)))
        print()


def levels(values, most, cut):
    scale = np.abs(values).mean(dtype=float)
    return np.clip(np.rint(values / scale * (most / cut)), -most, most)


def signs(options):
    rng = np.random.default_rng(0)
    print("| signs right (at zero), % |" + "".join(f" {ranks:,} ranks |" for ranks in RANKS) + "\n|---|" + "---|" * len(RANKS))
    for heavy in (False, True):
        rows = {way: [] for way in ("levels8", "levels8, full", "levels4, full", "vote")}
        for ranks in RANKS:
            scale = np.exp(rng.normal(0, 1.5, options.entries)) if heavy else np.ones(options.entries)
            common = 0.3 * scale * rng.normal(0, 1, options.entries)
            exact, sums = np.zeros(options.entries), {way: np.zeros(options.entries) for way in rows}
            for _ in range(ranks):
                values = common + scale * rng.normal(0, 1, options.entries)
                exact += values
                sums["levels8"] += levels(values, 127 // ranks, 2) if ranks <= 127 else 0
                sums["levels8, full"] += levels(values, 127, 8)
                sums["levels4, full"] += levels(values, 7, 3)
                sums["vote"] += np.sign(values)
            for way, total in sums.items():
                right, still = 100 * np.mean(np.sign(total) == np.sign(exact)), 100 * np.mean(total == 0)
                rows[way].append(f"{right:.0f} ({still:.0f})" if way != "levels8" or ranks <= 127 else "-")
        for way, cells in rows.items():
            print(f"| {way}, {'heavy tails' if heavy else 'normal'} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser()
    for name, value in (("parameters", 9.44e6), ("gbit", 1.0), ("compute", 52.0), ("message", 0.015), ("entries", 20000)):
        parser.add_argument(f"--{name}", type=type(value), default=value)
    options = parser.parse_args()
    times(options)
    signs(options)


if __name__ == "__main__":
    main()
