"""What jobs/load_safetensors.py computes in PyTorch from `mrmf export`'s safetensors files beside `mrmf predict`:

    .venv-peers/bin/python tests/peers/torch/exported.py [--build build]

Over the networks of tests/onnx/networks.py, which hold every kind of layer, and, where build/tests/export_maps is there,
over networks with normalisation. Each file is also saved by PyTorch, read back by `mrmf import` and predicted with. Exit
code 1 when one deviates by more than a relative 1e-5. Needs h5py beside PyTorch.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "jobs"), str(ROOT / "tests" / "onnx")]
import load_safetensors  # noqa: E402
import networks  # noqa: E402

TOLERANCE = 1e-5


def deviation(path, samples, want, of=networks.deviation):
    network = load_safetensors.load(path).eval()
    with torch.no_grad():
        whole, one = network(torch.from_numpy(samples)).numpy(), network(torch.from_numpy(samples[2:3])).numpy()
    return network, max(of(whole, want), of(one, want[2:3]))


def of_networks():
    """(name, deviation) of every network; returns its parameters to mrmf by the way."""
    for name in networks.NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            samples, want = networks.make_model(name, folder)
            networks.mrmf("export", f"{folder}/model.h5", "-o", f"{folder}/m.safetensors")
            network, worst = deviation(f"{folder}/m.safetensors", samples, want["prediction"], networks.deviation_of(name))
            load_safetensors.save(network, f"{folder}/back.safetensors")
            networks.mrmf("import", f"{folder}/back.safetensors", "-o", f"{folder}/back.h5", "--config", f"{folder}/run/config.toml")
            networks.mrmf("predict", f"{folder}/back.h5", "-o", f"{folder}/back-predicted.h5")
            with h5py.File(f"{folder}/back-predicted.h5") as file:
                same = np.array_equal(file["prediction"][()], want["prediction"])
            yield name, worst if same else float("inf")


def of_maps(program):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder], check=True, timeout=60)
        for path in sorted(pathlib.Path(folder).glob("*.h5")):
            with h5py.File(path) as file:
                samples, want = file["x"][()], file["prediction"][()]
            yield f"normalisation, {path.stem}", deviation(path.with_suffix(".safetensors"), samples, want, networks.deviation_by_output)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    build = pathlib.Path(parser.parse_args().build)
    os.environ["MRMF"] = str(build / "mrmf")
    torch.set_num_threads(1)
    maps, bad = build / "tests" / "export_maps", 0
    if not maps.exists():
        print(f"{maps} is not built (make), so normalisation is not compared")
    for name, worst in [*of_networks(), *(of_maps(maps) if maps.exists() else ())]:
        bad += worst > TOLERANCE
        print(f"{name:<40} {worst:9.2g}{'  TOO FAR' if worst > TOLERANCE else ''}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
