#!/usr/bin/env python3
"""What a tournament of many trainers would take: a model of arithmetic, exchange, scoring and reading, not a measurement.

    jobs/experiments/tournament/scaling.py                      # LLNL's JAG data and the network of the preset "jag"
    jobs/experiments/tournament/scaling.py --explain 70.2       # what one number of theirs says

A trainer of G GPUs goes over its part of the samples; what of the part does not fit the trainer's memory is read again
in every epoch. Trainers meet `--rounds` times an epoch, send the model with its moments, and score two models on the
held-out rows. All defaults are printed; docs/results/tournament.md says where they come from.
"""
import argparse

SIZES = {"encoder": [16399, 32, 256, 128, 20], "decoder": [20, 64, 128, 256, 16399], "critic": [16419, 128, 64, 1],
         "forward": [5, 32, 256, 1024, 20], "inverse": [20, 16, 128, 64, 5]}


def parameters(part):
    return sum((a + 1) * b for a, b in zip(SIZES[part], SIZES[part][1:]))


def epoch(options, trainers):
    """Seconds of an epoch by what they go to, and what of its part a trainer cannot keep."""
    rows = options.samples / trainers
    part, memory = rows * options.row_bytes, options.nodes * options.node_memory
    missing = max(0.0, 1 - memory / part)
    travelling = sum(parameters(name) for name in SIZES if name != "critic")
    meets = options.rounds if trainers > 1 else 0
    return {"training": rows / (options.gpu_rate * options.gpus),
            "reading": missing * part / options.read_rate,
            "exchange": meets * 4 * 3 * travelling / options.network_rate,
            "scoring": meets * 2 * options.held_out * rows / (3 * options.gpu_rate * options.gpus)}, missing


def table(options):
    one = sum(epoch(options, 1)[0].values())
    print("| trainers | GPUs | part, GB | not in memory | training, s | reading, s | exchange, s | scoring, s | an epoch is faster by |")
    print("|---|---|---|---|---|---|---|---|---|")
    for trainers in (1, 2, 4, 8, 16, 32, 64):
        seconds, missing = epoch(options, trainers)
        print(f"| {trainers} | {trainers * options.gpus} | {options.samples / trainers * options.row_bytes / 1e9:.0f} |"
              f" {100 * missing:.0f} % | " + " | ".join(f"{seconds[key]:.3g}" for key in seconds) +
              f" | {one / sum(seconds.values()):.1f} |")


def explain(options, speedup):
    seconds, _ = epoch(options, 64)
    overhead = seconds["exchange"] + seconds["scoring"]
    training = options.samples / (options.gpu_rate * options.gpus)
    ratio = speedup / 64 * (1 + overhead / (training / 64)) - 1
    missing = epoch(options, 1)[1]
    print(f"{speedup} = 64 (each goes over a 64th of the samples) * {speedup / 64:.3f} (everything else)")
    print(f"the meetings of 64 trainers take {100 * overhead / (training / 64):+.2f} % of their training")
    print(f"so one trainer must have lost {100 * ratio:.1f} % of its training: {ratio * training:.2g} s of {training:.3g} s an epoch")
    print(f"its nodes keep {100 * (1 - missing):.0f} % of the samples")
    if missing > 0:
        print(f"{missing * options.samples * options.row_bytes / 1e9:.0f} GB"
          f" come again in every epoch, at {missing * options.samples * options.row_bytes / (ratio * training) / 1e9:.0f} GB/s if nothing else was lost")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    number = lambda name, default, text: parser.add_argument(name, type=float, default=default, help=f"{text}; {default:g} unless given")
    number("--samples", 1e7, "samples of all trainers")
    number("--row-bytes", 3 * 16404 * 4, "bytes of a sample: three views of four images, and scalars")
    number("--gpu-rate", 90000 / 5.7 / 3, "samples that a GPU trains in a second")
    number("--gpus", 16, "GPUs of a trainer")
    number("--nodes", 4, "nodes of a trainer")
    number("--node-memory", 256e9, "bytes of a node's memory for samples")
    number("--read-rate", 100e9, "bytes that a trainer reads of the file system in a second")
    number("--network-rate", 10e9, "bytes that two trainers exchange in a second")
    number("--rounds", 1, "meetings in an epoch")
    number("--held-out", 0.01, "share of the rows that scores models")
    parser.add_argument("--explain", type=float, metavar="TIMES", help="what a speed-up of 64 trainers over one says")
    options = parser.parse_args()
    for name, value in sorted(vars(options).items()):
        if value is not None:
            print(f"# {name} = {value:g}")
    print("# parameters:", ", ".join(f"{part} {parameters(part):,}" for part in SIZES))
    if options.explain:
        return explain(options, options.explain)
    table(options)


if __name__ == "__main__":
    main()
