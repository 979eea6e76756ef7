#!/usr/bin/env python3
"""Makes the runs of the transfer laboratory: what each switch of a schedule changes in the loss at its end. Every run is
made once; a run that was interrupted continues. Usage: jobs/experiments/lab/lab.py [--only TEXT] [--folder runs/lab]
[--mrmf build/mrmf] [--threads 1].

settings.txt says which runs there are, and variants.txt which keys a variant sets. Finished runs leave their records in
docs/results/lab/records, so that another machine continues from there. `jobs/experiments/lab/tables.py` writes docs/results/lab.md
from them."""
import argparse
import pathlib
import re
import sys

EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.append(str(EXPERIMENTS / "map"))
from records import keep, restore  # noqa: E402
from run import numbers, train  # noqa: E402


def lines(path):
    """The words of each line, without comments."""
    return [words for line in path.read_text().splitlines() if (words := line.split("#")[0].split())]


def variants(path):
    """The KEY=VALUE words of each variant."""
    return {name: words for name, *words in lines(path)}


def runs(path):
    """(problem, samples, schedule, variant, seed), in the order in which they are to be made."""
    for problem, samples, schedules, names, seeds in lines(path):
        for seed in numbers(seeds):
            for schedule in schedules.split(","):
                for name in names.split(","):
                    yield problem, int(samples), schedule, name, seed


def folder_of(root, run):
    problem, samples, schedule, name, seed = run
    return root / f"{problem}-{samples}" / f"{schedule}-{name}-seed{seed}"


def make(program, root, run, words, threads):
    folder = folder_of(root, run)
    if (folder / "result.json").exists():
        keep(root, folder, "lab")
        return
    problem, samples, schedule, _, seed = run
    length = sum(map(int, re.findall(r"\d+", schedule)))  # of no effect where each phase has its own
    print(f"lab: {folder}", flush=True)
    train(program, root, (problem, samples, schedule, length, seed), folder, threads, words)
    keep(root, folder, "lab")


def main():
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=pathlib.Path, default=here / "settings.txt")
    parser.add_argument("--variants", type=pathlib.Path, default=here / "variants.txt")
    parser.add_argument("--only", default="", help="runs whose folders hold this text")
    parser.add_argument("--folder", type=pathlib.Path, default=EXPERIMENTS.parents[1] / "runs/lab")
    parser.add_argument("--mrmf", default=str(EXPERIMENTS.parents[1] / "build/mrmf"))
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    root, known = options.folder.resolve(), variants(options.variants)
    restore(root, "lab")
    for run in runs(options.settings):
        if run[3] not in known:
            raise SystemExit(f"lab: no variant '{run[3]}' in {options.variants}")
        if options.only in str(folder_of(root, run).relative_to(root)):
            make(options.mrmf, root, run, known[run[3]], options.threads)


if __name__ == "__main__":
    sys.exit(main())
