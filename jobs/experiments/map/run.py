#!/usr/bin/env python3
"""Makes the runs of the map: which method saves how much, on which problem. Every run is made once; a run that was
interrupted continues. Usage: jobs/experiments/map/run.py [--only TEXT] [--folder runs/map] [--mrmf build/mrmf] [--threads 1]
[--data-only].

settings.txt says which runs there are. Finished runs leave their records in docs/results/map/records, so that another
machine continues from there. A table of all runs of one problem is written to docs/results/map/ by
`jobs/experiments/map/report.py`."""
import argparse
import os
import pathlib
import subprocess
import sys

from problems import EXPERIMENTS, PROBLEMS, config_of, data_words, method_words, parts, simulate_words
from records import keep, restore


def numbers(text):
    """1-3,6 -> 1, 2, 3, 6"""
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def runs(settings):
    """(problem, samples, method, epochs, seed), in the order in which they are to be made."""
    for line in settings.read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        problem, samples, methods, epochs, seeds = words
        for seed in numbers(seeds):
            for method in methods.split(","):
                for length in numbers(epochs):
                    yield problem, int(samples), method, length, seed


def call(words, log):
    """Runs a command; its output goes to a file."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "w") as out:
        status = subprocess.run(words, stdout=out, stderr=subprocess.STDOUT, env=environment).returncode
    if status:
        end = "".join(log.read_text().splitlines(True)[-5:])
        raise SystemExit(f"map: {' '.join(words)} ended with {status}; the end of {log}:\n{end}")


def data(program, root, name, samples, threads):
    """The words that point a run to a problem's data, which are simulated, part by part, if they are not there."""
    problem, place = PROBLEMS[name], root / "data" / f"{name}-{samples}"
    made = parts(problem, samples, place)
    for part in made:
        done = (part.output if problem.folder else place).with_suffix(".done")
        if not done.exists():
            part.output.parent.mkdir(parents=True, exist_ok=True)
            call([program, *simulate_words(problem, part), "--threads", str(threads), "--overwrite"],
                 done.with_suffix(".log"))
            done.touch()
    return data_words(problem, made)


def folder_of(root, run):
    problem, samples, method, epochs, seed = run
    return root / f"{problem}-{samples}" / f"{method}-{epochs}-seed{seed}"


def train(program, root, run, folder, threads, more=(), overwrite=False):
    """Trains (problem, samples, method, epochs, seed) into a folder. `more`: KEY=VALUE words on top."""
    name, samples, method, epochs, seed = run
    problem = PROBLEMS[name]
    command = [program, "train", str(config_of(problem, method)), *(["--overwrite"] if overwrite else [])]
    for word in [*data(program, root, name, samples, threads), *method_words(problem, method, epochs), f"training.epochs={epochs}",
                 *more, f"training.seed={seed}", f"run.folder={folder}", f"run.threads={threads}"]:
        command += ["--set", word]
    call(command, folder.with_suffix(".log"))


def make(program, root, run, threads):
    folder = folder_of(root, run)
    if not (folder / "result.json").exists():
        print(f"map: {folder}", flush=True)
        train(program, root, run, folder, threads)
    keep(root, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=pathlib.Path, default=pathlib.Path(__file__).with_name("settings.txt"))
    parser.add_argument("--only", default="", help="runs whose folders hold this text")
    parser.add_argument("--folder", type=pathlib.Path, default=EXPERIMENTS.parents[1] / "runs/map")
    parser.add_argument("--mrmf", default=str(EXPERIMENTS.parents[1] / "build/mrmf"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data-only", action="store_true", help="make the data of these runs alone")
    options = parser.parse_args()
    root = options.folder.resolve()
    restore(root)
    for run in runs(options.settings):
        if options.only not in str(folder_of(root, run).relative_to(root)):
            continue
        if options.data_only:
            data(options.mrmf, root, *run[:2], options.threads)
        else:
            make(options.mrmf, root, run, options.threads)


if __name__ == "__main__":
    sys.exit(main())
