#!/usr/bin/env python3
"""Validation losses by the way in which ranks add, in a table for docs/results/communication.md:

    losses.py cubes|neuron [--seeds 3] [--seconds] [WAYS...]       ways such as "8 adamw fp32" or "32 lion vote"; all unless given

In a folder of its own, with the simulated data of both applications in small. The ranks are shards of one process (run.deterministic,
data.shards), which learns bit for bit what as many ranks would. Every way's rate is tuned with seed 1: from a first guess, by factors
of two, until neither neighbour is better. Then come the other seeds, at equal epochs, and with --seconds as many epochs as fit into
the time of levels8, by each rank's arithmetic at GFLOPS and its bytes at 1 Gbit/s. Runs that are done are not repeated."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MRMF = os.environ.get("MRMF", str(ROOT / "build" / "mrmf"))
BYTES_PER_SECOND = 125e6
GFLOPS = 50.0  # of a rank; a core with AVX-512 has about as much in these convolutions
APPLICATIONS = {
    "cubes": (["simulate", "cosmology", "--samples", "960", "--size", "16", "--box", "128", "--method", "lpt", "--seed", "1", "--output", "cubes"],
              {"training.epochs": 6, "training.batch": 32, "training.precise_batch_norm": 8}),
    "neuron": (["simulate", "neuron", "--samples", "4000", "--cells", "2", "--seed", "1", "--output", "neuron.h5"],
               {"training.epochs": 3, "training.batch": 64}),
}
ADAMW = {"training.optimizer.name": "adamw", "training.optimizer.weight_decay": 0.02}
LION = {"training.optimizer.name": "lion", "training.optimizer.weight_decay": 0.2}
FIRST_RATE = {"adamw": 2e-3, "lion": 8e-4}


def way(optimizer, communication, ranks=8, **momenta):
    name = f"{optimizer['training.optimizer.name']} {communication}"
    settings = dict(optimizer, **{"training.communication": communication, "data.shards": ranks})
    for key, value in momenta.items():
        settings["training.error_feedback" if key == "error_feedback" else f"training.momenta.{key}"] = value
        name += " with error feedback" if key == "error_feedback" else f", {key} {value}" if key != "rule" else ""
    return name, ranks, settings


WAYS = [
    way(ADAMW, "fp32"), way(ADAMW, "bf16"), way(ADAMW, "int8", error_feedback=True),
    way(LION, "fp32"), way(LION, "bf16"), way(LION, "int8", error_feedback=True),
    way(LION, "levels8"), way(LION, "levels8", rule="every", every=10), way(LION, "levels8-l0"), way(LION, "levels4"),
    way(LION, "vote"), way(LION, "vote", rule="every", every=10),
    way(LION, "fp32", 32), way(LION, "levels8", 32), way(LION, "levels8-l0", 32), way(LION, "vote", 32),
]


def word(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def data_settings(application):
    simulate, _ = APPLICATIONS[application]
    done = pathlib.Path(application + ".done")
    if not done.exists():
        subprocess.run([MRMF, *simulate, "--overwrite"], check=True)
        done.touch()
    if application == "neuron":
        return {"data.files": '["neuron.h5"]'}
    files = pathlib.Path("cubes/data.toml").read_text()  # the lists of files that the simulator wrote
    return {"data.files": re.search(r"^files = (.*)$", files, re.M)[1],
            "data.validation.files": re.search(r"^validation.* files = (\[.*\]) }$", files, re.M)[1]}


class Experiment:
    def __init__(self, application):
        self.application = application
        self.base = {**data_settings(application), **APPLICATIONS[application][1], "method.name": "baseline",
                     "run.deterministic": True, "run.threads": 1, "run.device": "cpu"}

    def run(self, settings, rate, seed, epochs=None):
        """The epochs of a run, which is trained unless it is there."""
        settings = {**self.base, **settings, "training.optimizer.learning_rate": f"{rate:.3g}", "training.seed": seed}
        if epochs:
            settings["training.epochs"] = epochs
        name = "-".join([self.application] + [re.sub(r".*\.", "", key) + word(settings[key]) for key in sorted(settings)
                                              if key.startswith("training.") or key == "data.shards"])
        folder = pathlib.Path("runs") / re.sub(r"[^\w.-]", "", name)
        if not (folder / "result.json").exists():
            words = [part for key, value in {**settings, "run.folder": folder}.items() for part in ("--set", f"{key}={word(value)}")]
            subprocess.run([MRMF, "train", str(ROOT / "jobs" / "experiments" / "demo" / f"{self.application}.toml"), "--overwrite", *words],
                           check=True, stdout=subprocess.DEVNULL)
        with open(folder / "epochs.jsonl") as file:
            return [json.loads(line) for line in file]

    def loss(self, settings, rate, seed=1, epochs=None):
        try:
            return self.run(settings, rate, seed, epochs)[-1]["validation_loss"]
        except subprocess.CalledProcessError:  # diverged, as its log says
            return float("inf")

    def tuned_rate(self, settings):
        rate = FIRST_RATE[settings["training.optimizer.name"]]
        while True:
            best = min((rate, 2 * rate, rate / 2), key=lambda each: self.loss(settings, each))
            if best == rate:
                return rate
            rate = best

    def seconds(self, settings, ranks):
        """Of an epoch, on a network: each rank's share of the arithmetic, and its bytes, one after the other."""
        record = self.run(settings, self.tuned_rate(settings), 1)[0]
        steps = -(-record["samples"] // self.base["training.batch"])
        plan = subprocess.run([MRMF, "plan", str(ROOT / "jobs" / "experiments" / "demo" / f"{self.application}.toml"), "--json"] +
                              [part for key, value in {**self.base, **settings, "run.deterministic": False, "run.ranks": ranks,
                                                       "training.batch": max(1, self.base["training.batch"] // ranks)}.items()
                               for part in ("--set", f"{key}={word(value)}")], check=True, stdout=subprocess.PIPE)
        (sums,) = json.loads(plan.stdout)["sums"]
        momenta = sums["momenta_bytes"] / settings.get("training.momenta.every", 1)
        return record["gflop"] / ranks / GFLOPS + steps * (sums["sent_bytes"] + momenta) / BYTES_PER_SECOND


def summary(losses):
    return f"{statistics.mean(losses):.4f} ({min(losses):.4f} to {max(losses):.4f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("application", choices=APPLICATIONS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", action="store_true")
    parser.add_argument("ways", nargs="*")
    options = parser.parse_args()
    experiment = Experiment(options.application)
    epochs = experiment.base["training.epochs"]
    seeds = range(1, options.seeds + 1)
    print("| ranks | way | rate | loss at equal epochs | in the seconds of levels8 |\n|---|---|---|---|---|", flush=True)
    for name, ranks, settings in WAYS:
        if options.ways and f"{ranks} {name}" not in options.ways:
            continue
        rate = experiment.tuned_rate(settings)
        losses = summary([experiment.loss(settings, rate, seed) for seed in seeds])
        in_time = "-"
        if options.seconds:
            (levels8,) = [each for way_name, of, each in WAYS if (way_name, of) == ("lion levels8", ranks)]
            fewer = max(1, min(epochs, round(epochs * experiment.seconds(levels8, ranks) / experiment.seconds(settings, ranks))))
            in_time = f"{summary([experiment.loss(settings, rate, seed, fewer) for seed in seeds])}, {fewer} epochs"
        print(f"| {ranks} | {name} | {rate:.3g} | {losses} | {in_time} |", flush=True)


if __name__ == "__main__":
    main()
