#!/usr/bin/env python3
"""Whether two builds compute the same: tests/compare_builds.py OLD/mrmf NEW/mrmf [--speed ROUNDS].

Every method trains the Neuron Inverter and a small CosmoFlow network on 1 and 2 ranks with both programs. Losses, the trained
model, predictions and simulated files must have the same bits. --speed also measures training steps in turns and prints
the median of their ratios (`mrmf bench training`).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import h5py

ROOT = pathlib.Path(__file__).resolve().parent.parent
METHODS = {"baseline": ["method.name=baseline"],
           "mrt": ["method.name=mrt", "method.stop.coarse.epochs=1"],
           "mrmf": ["method.name=mrmf", "method.top=dense", "method.stop.coarse.epochs=1", "method.stop.dense.epochs=1"],
           "progressive": ["method.name=progressive", "method.stop.coarse.epochs=1"]}
NETWORKS = {"neuron": ("jobs/experiments/neuron/workstation.toml", "[[2],[1]]", "[[1]]",
                       ["simulate", "neuron", "--samples", "80", "--cells", "2"], 16),
            "cosmoflow": ("jobs/experiments/cosmoflow/workstation.toml", "[[2,2,2],[1,1,1]]", "[[1,1,1]]",
                          ["simulate", "cosmology", "--samples", "20", "--size", "32", "--box", "256", "--method", "lpt"], 4)}


def call(words, folder, ranks=1):
    mpirun = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)] if ranks > 1 else []
    done = subprocess.run([*mpirun, *map(str, words)], cwd=folder, capture_output=True, text=True, check=False,
                          env=dict({"MRMF_CPU_KERNELS": "fixed"} | os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def arrays(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.__setitem__(name, item[()].tobytes())
                        if isinstance(item, h5py.Dataset) and item.dtype.kind in "fiu" else None)
    return found


def results(program, folder):
    """{name: bits} of everything."""
    found = {}
    for network, (config, all_resolutions, one, simulate, batch) in NETWORKS.items():
        target = "neuron.h5" if network == "neuron" else "cubes"
        call([program, *simulate, "--seed", "1", "-o", target], folder)
        files = [folder / "neuron.h5"] if network == "neuron" else sorted((folder / "cubes").glob("*.h5"))
        for file in files:
            found[f"simulated {file.name}"] = arrays(file)
        for method, settings in METHODS.items():
            for ranks in (1, 2):
                run = folder / f"{network}-{method}-{ranks}"
                words = [*settings, f"method.resolutions={one if method == 'baseline' else all_resolutions}",
                         "method.stop.finetune.epochs=2", f"training.batch={batch // ranks}", "training.seed=1",
                         f"run.folder={run}", "run.threads=1", "data.duplicates=allow", f"data.files={json.dumps([str(file) for file in files])}"]
                call([program, "train", ROOT / config, *(word for key in words for word in ("--set", key))], folder, ranks)
                losses = [json.loads(line) for line in (run / "epochs.jsonl").read_text().splitlines()]
                found[f"{run.name} losses"] = [(line["train_loss"], line["validation_loss"]) for line in losses]
                found[f"{run.name} model"] = arrays(run / "checkpoints" / "final.h5")
        call([program, "predict", folder / f"{network}-mrmf-1", "-o", folder / f"predictions-{network}.h5"], folder)
        found[f"{network} predictions"] = arrays(folder / f"predictions-{network}.h5")
    return found


def step_seconds(program, words):
    out = call([program, "bench", "training", "--threads", "1", *words], ROOT)
    return json.loads(out.strip().splitlines()[-1])["mean_step_seconds"]


def speed(old, new, rounds):
    for name, words in (("Neuron Inverter, batch 128", ["--batch", "128", "--steps", "8"]),
                        ("CosmoFlow, 64^3, batch 2", ["--preset", "cosmoflow", "--sample", "64x64x64x4", "--batch", "2", "--steps", "4"])):
        times = {old: [], new: []}
        for number in range(rounds):
            for program in (old, new) if number % 2 else (new, old):  # who comes second may find another machine
                times[program].append(step_seconds(program, words))
        ratio = statistics.median(after / before for before, after in zip(times[old], times[new]))
        before, after = (min(times[program]) for program in (old, new))
        print(f"{name}: median ratio of a step {ratio:.3f}; fastest {before:.4f} s before, {after:.4f} s after")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--speed", type=int, default=0, metavar="ROUNDS")
    options = parser.parse_args()
    found = []
    for program in (options.old.resolve(), options.new.resolve()):
        with tempfile.TemporaryDirectory(prefix="mrmf-compare-") as folder:
            found.append(results(program, pathlib.Path(folder)))
    differ = [name for name in found[0] if found[0][name] != found[1].get(name)]
    for name in differ:
        print(f"differs: {name}")
    print(f"{len(found[0]) - len(differ)} of {len(found[0])} results have the same bits")
    if options.speed:
        speed(options.old.resolve(), options.new.resolve(), options.speed)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
