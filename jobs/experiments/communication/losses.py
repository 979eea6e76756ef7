#!/usr/bin/env python3
"""Validation losses by the way in which ranks add, in a table for docs/results/communication.md:

    losses.py cubes|neuron|cosmoflow [WAYS...] [--seeds 3] [--tuning N] [--seconds] [--jobs N] [--finished]   a way is such as "8 adamw fp32"; all unless given

In a folder of its own, with the simulated data of both applications in small (neurons at a quarter of their resolution). `cosmoflow`
is the network of cubes.toml, with the published one's 9.4 million parameters, on cubes of 32^3. The ranks
are shards of one process (run.deterministic, data.shards), which learns bit for bit what as many ranks would. Every way's rate is tuned
by the mean of all seeds, or of the first TUNING: from a first guess, by factors of two, until neither neighbour is better. With --seconds, runs at that rate
follow of as many epochs as fit into the time of levels8, by each rank's arithmetic at GFLOPS and its bytes at 1 Gbit/s. Runs that are
done are not repeated; --jobs trains as many ways at a time, and --finished trains none, and prints the ways whose runs are there."""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MRMF = os.environ.get("MRMF", str(ROOT / "build" / "mrmf"))
BYTES_PER_SECOND = 125e6
GFLOPS = 50.0  # of a rank; a core with AVX-512 has about as much in these convolutions
APPLICATIONS = {
    "cubes": (["simulate", "cosmology", "--samples", "960", "--size", "16", "--box", "128", "--method", "lpt", "--seed", "1", "--output", "cubes"],
              {"training.epochs": 6, "training.batch": 32, "training.precise_batch_norm": 8}),
    "neuron": (["simulate", "neuron", "--samples", "1200", "--cells", "2", "--train", "0.7", "--validation", "0.25", "--test", "0.05",
                "--seed", "1", "--output", "neuron.h5"],
               {"training.epochs": 6, "training.batch": 32, "method.resolutions": "[[4]]"}),
    "cosmoflow": (["simulate", "cosmology", "--samples", "960", "--size", "32", "--box", "256", "--method", "lpt", "--seed", "1", "--output",
                   "cosmoflow"],
                  {"training.epochs": 4, "training.batch": 32, "training.batch_norm": "global", "training.precise_batch_norm": 8,
                   "data.normalise.samples": "mean_std"}),
}
CONFIGURATIONS = {"cubes": ROOT / "jobs/experiments/demo/cubes.toml", "neuron": ROOT / "jobs/experiments/demo/neuron.toml",
                  "cosmoflow": HERE / "cubes.toml"}
ADAMW = {"training.optimizer.name": "adamw", "training.optimizer.weight_decay": 0.02}
LION = {"training.optimizer.name": "lion", "training.optimizer.weight_decay": 0.2}
FIRST_RATE = {("cubes", "adamw"): 8e-3, ("cubes", "lion"): 8e-4, ("neuron", "adamw"): 1e-3, ("neuron", "lion"): 2e-4,
              ("cosmoflow", "adamw"): 1e-3, ("cosmoflow", "lion"): 1e-4}
COARSE_EPOCHS = 8  # of MRMF, at half the resolution; then one epoch of the dense model and half of the others' epochs follow


def way(optimizer, communication, ranks=8, coarse=None, **more):
    name = f"{optimizer['training.optimizer.name']} {communication}"
    settings = dict(optimizer, **{"training.communication": communication, "data.shards": ranks})
    for key, value in more.items():
        settings[f"training.{key}" if key in ("error_feedback", "full_levels") else f"training.momenta.{key}"] = value
        name += {"error_feedback": " with error feedback", "full_levels": ", full levels", "rule": ""}.get(key, f", {key} {value}")
    if coarse:
        name = f"{optimizer['training.optimizer.name']} mrmf, {coarse} in the coarse phase" if coarse != communication else f"{name} mrmf"
        settings.update({"method.name": "mrmf", "method.coarse.communication": coarse})
    return name, ranks, settings


WAYS = [
    way(ADAMW, "fp32"), way(ADAMW, "bf16"), way(LION, "fp32"), way(LION, "levels8"), way(LION, "vote"),
    way(LION, "levels8", 32), way(LION, "vote", 32),
    way(LION, "fp32", coarse="fp32"), way(LION, "fp32", coarse="levels8"), way(LION, "fp32", coarse="vote"),
    way(LION, "bf16"), way(LION, "levels8", rule="every", every=10), way(LION, "vote", rule="every", every=10),
    way(LION, "levels4"), way(LION, "levels8-l0"), way(LION, "levels8", 32, full_levels=True), way(LION, "levels8-l0", 32),
    way(ADAMW, "int8", error_feedback=True), way(LION, "int8", error_feedback=True), way(LION, "fp32", 32),
]


def word(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def words(settings):
    return [part for key, value in settings.items() for part in ("--set", f"{key}={word(value)}")]


def data_settings(application):
    simulate, _ = APPLICATIONS[application]
    done = pathlib.Path(application + ".done")
    if not done.exists():
        subprocess.run([MRMF, *simulate, "--overwrite"], check=True)
        done.touch()
    if application == "neuron":
        return {"data.files": '["neuron.h5"]'}
    files = pathlib.Path(f"{application}/data.toml").read_text()  # the lists of files that the simulator wrote
    arrays = {f"data.{split}.{what}": name for split in ("train", "validation")
              for what, name in (("samples", '"3Dmap"'), ("labels", '"unitPar"'))}
    return {**arrays, "data.files": re.search(r"^files = (.*)$", files, re.M)[1],
            "data.validation.files": re.search(r"^validation.* files = (\[.*\]) }$", files, re.M)[1]}


class Missing(Exception):
    """A run that --finished found not done."""


class Experiment:
    def __init__(self, application, seeds, tuning, train):
        self.application = application
        self.seeds = range(1, seeds + 1)
        self.tuning = range(1, (tuning or seeds) + 1)
        self.train = train
        self.locks = collections.defaultdict(threading.Lock)  # of runs: several ways look at those of levels8
        self.base = {**data_settings(application), **APPLICATIONS[application][1], "method.name": "baseline",
                     "run.deterministic": True, "run.threads": 1, "run.device": "cpu"}

    @staticmethod
    def stages(epochs):
        """MRMF's epochs on neurons: half of the baseline's at full resolution, as those before them are cheaper."""
        return {"method.resolutions": "[[8],[4]]", "method.top": "dense", "method.stop.coarse.epochs": COARSE_EPOCHS,
                "method.stop.dense.epochs": 1, "method.stop.finetune.epochs": epochs // 2, "method.coarse.rule": "constant",
                "method.dense.rule": "constant"}

    def run(self, settings, rate, seed, epochs=None):
        """The epochs of a run, which is trained unless it is there; none where it diverged."""
        settings = {**self.base, **settings, "training.optimizer.learning_rate": f"{rate:.3g}", "training.seed": seed}
        if epochs:
            settings["training.epochs"] = epochs
        name = "-".join([self.application] + [re.sub(r".*\.", "", key) + word(settings[key]) for key in sorted(settings)
                                              if re.match(r"training\.|method\.|data\.shards", key)])
        folder = pathlib.Path("runs") / re.sub(r"[^\w.-]", "", name)
        if settings["method.name"] == "mrmf":
            settings.update(self.stages(settings.pop("training.epochs")))
        with self.locks[folder]:
            return self.trained(folder, settings)

    def trained(self, folder, settings):
        diverged = folder.with_suffix(folder.suffix + ".diverged")
        if not (folder / "result.json").exists() and not diverged.exists():
            if not self.train:
                raise Missing(folder)
            done = subprocess.run([MRMF, "train", str(CONFIGURATIONS[self.application]), "--overwrite",
                                   *words({**settings, "run.folder": folder})], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode == 4 and "loss" in done.stderr:
                diverged.touch()
            elif done.returncode:
                raise RuntimeError(f"{folder}: {done.stderr}")
        if diverged.exists():
            return []
        with open(folder / "epochs.jsonl") as file:
            return [json.loads(line) for line in file]

    def losses(self, settings, rate, epochs=None, seeds=None):
        runs = [self.run(settings, rate, seed, epochs) for seed in seeds or self.seeds]
        return [records[-1]["validation_loss"] if records else math.inf for records in runs]

    def tuned_rate(self, settings):
        rate = FIRST_RATE[self.application, settings["training.optimizer.name"]]
        while True:
            best = min((rate, 2 * rate, rate / 2), key=lambda each: statistics.mean(self.losses(settings, each, seeds=self.tuning)))
            if best == rate:
                return rate
            rate = best

    def seconds(self, settings, ranks):
        """Of an epoch, on a network: each rank's share of the arithmetic, and its bytes, one after the other."""
        record = self.run(settings, self.tuned_rate(settings), 1)[0]
        steps = -(-record["samples"] // self.base["training.batch"])
        plan = subprocess.run([MRMF, "plan", str(CONFIGURATIONS[self.application]), "--json",
                               *words({**self.base, **settings, "run.deterministic": False, "run.ranks": ranks,
                                       "training.batch": max(1, self.base["training.batch"] // ranks)})], check=True, stdout=subprocess.PIPE)
        (sums,) = json.loads(plan.stdout)["sums"]
        momenta = sums["momenta_bytes"] / settings.get("training.momenta.every", 1)
        return record["gflop"] / ranks / GFLOPS + steps * (sums["sent_bytes"] + momenta) / BYTES_PER_SECOND

    def row(self, name, ranks, settings, options):
        epochs = self.base["training.epochs"]
        rate = self.tuned_rate(settings)
        losses = summary(self.losses(settings, rate))
        in_time = "-"
        if options.seconds and "method.name" not in settings:
            (levels8,) = [each for way_name, of, each in WAYS if (way_name, of) == ("lion levels8", ranks)]
            fewer = max(1, round(epochs * self.seconds(levels8, ranks) / self.seconds(settings, ranks)))
            in_time = f"{summary(self.losses(settings, rate, fewer))}, {fewer} epochs"
        return f"| {ranks} | {name} | {rate:.3g} | {losses} | {in_time} |"


def summary(losses):
    return f"{statistics.mean(losses):.4f} ({min(losses):.4f} to {max(losses):.4f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("application", choices=APPLICATIONS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tuning", type=int, default=0)
    parser.add_argument("--seconds", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--finished", action="store_true")
    parser.add_argument("ways", nargs="*")
    options = parser.parse_args()
    experiment = Experiment(options.application, options.seeds, options.tuning, train=not options.finished)
    print("| ranks | way | rate | loss at equal epochs | in the seconds of levels8 |\n|---|---|---|---|---|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as jobs:
        chosen = [each for each in WAYS if not options.ways or f"{each[1]} {each[0]}" in options.ways]
        if options.application != "neuron":  # halves of these have no room for the network's pools
            chosen = [each for each in chosen if "method.name" not in each[2]]
        for row in [jobs.submit(experiment.row, *each, options) for each in chosen]:
            try:
                print(row.result(), flush=True)
            except Missing as missing:
                print(f"not done: {missing}", file=sys.stderr)


if __name__ == "__main__":
    main()
