"""Small networks that together hold every kind of layer, and trained models of them with numbers of every size. Shared by
the comparisons with ONNX Runtime and with PyTorch (tests/peers/torch/exported.py)."""
import os
import re
import subprocess
import sys

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
import safetensors_file  # noqa: E402

ROWS = 11

CONFIG = """
[data]
files = ["%(folder)s/data.h5"]
train = { samples = "x", labels = "y" }
validation = { samples = "x", labels = "y" }
duplicates = "allow"
layout = "%(layout)s"
%(data)s
[training]
batch = 4
epochs = 1
loss = "%(loss)s"
optimizer = { name = "sgd", learning_rate = 0.001 }
[run]
folder = "%(folder)s/run"
threads = 1
[model]
%(model)s
"""

SERIES = """layers = [
  { type = "conv", filters = 6, kernel = 4, dilation = 2, padding = [[3, 1]] }, { type = "batch_norm" },
  { type = "leaky_relu", slope = 0.2 },
  { type = "conv", name = "prediction", filters = 5, kernel = 6, stride = 2, padding = "same" }, { type = "gelu" },
  { type = "layer_norm" }, { type = "max_pool", window = 3, stride = 2 },
  { type = "upsample", factor = 3, mode = "linear" }, { type = "average_pool", window = 2 },
  { type = "upsample", factor = 2, mode = "nearest" },
  { type = "conv_transpose", filters = 4, kernel = 3, stride = 2 }, { type = "silu" },
  { type = "flatten" }, { type = "batch_norm" }, { type = "dense", units = 9 }, { type = "tanh", scale = 1.7 },
  { type = "group_norm", groups = 3 }, { type = "dropout", rate = 0.3 }, { type = "dense", units = 4 }, { type = "tanh" },
]"""

PLANES = """layers = [
  { type = "conv", name = "in", filters = 6, kernel = [3, 4], stride = [2, 3], padding = "same" },
  { type = "group_norm", groups = 2 }, { type = "silu", name = "coarse" },
  { type = "conv_transpose", filters = 4, kernel = [3, 5], stride = 2, padding = "same" }, { type = "softplus" },
  { type = "conv_transpose", name = "wide", filters = 4, kernel = [2, 1], stride = [1, 2], padding = "same" },
  { type = "average_pool", name = "pooled", window = [2, 3], stride = [2, 4] },
  { type = "upsample", name = "linear", from = "coarse", factor = [3, 2], mode = "linear" },
  { type = "upsample", name = "nearest", from = "coarse", factor = [3, 2] },
  { type = "conv", name = "one", from = "nearest", filters = 6, kernel = 1 },
  { type = "add", name = "sum", from = ["linear", "one", "nearest"] },
  { type = "concat", name = "all", from = ["sum", "nearest", "linear"] },
  { type = "global_average_pool", name = "mean", from = "all" },
  { type = "flatten", name = "flat", from = "pooled" },
  { type = "concat", name = "features", from = ["mean", "flat"] },
  { type = "sigmoid" }, { type = "slice", first = 2, channels = 7 }, { type = "stop_gradient" },
  { type = "dense", units = 3 },
]"""

PIXELS = """layers = [
  { type = "conv", name = "in", filters = 4, kernel = 3, padding = "same" }, { type = "relu", name = "fine" },
  { type = "conv", filters = 6, kernel = 3, stride = 2, padding = 1 }, { type = "relu" },
  { type = "conv_transpose", name = "up", filters = 3, kernel = 4, stride = 2, padding = [[1, 2], [1, 1]] },
  { type = "concat", from = ["up", "fine"] }, { type = "conv", filters = 3, kernel = 1 },
]"""

CUBES = """layers = [
  { type = "batch_norm" }, { type = "conv", name = "first", filters = 4, kernel = [3, 2, 3], stride = [1, 1, 2], padding = "same" },
  { type = "relu" }, { type = "max_pool", window = [2, 3, 2], stride = [2, 2, 1] },
  { type = "conv", filters = 5, kernel = [2, 1, 2], dilation = [2, 1, 1] }, { type = "leaky_relu" },
  { type = "conv_transpose", filters = 3, kernel = [2, 3, 2], stride = [2, 1, 2], padding = [[0, 1], [1, 0], 0], dilation = [1, 2, 1] },
  { type = "group_norm", groups = 1 }, { type = "upsample", factor = [1, 2, 1], mode = "linear" },
  { type = "average_pool", window = [1, 3, 2] }, { type = "global_average_pool" }, { type = "dense", units = 2 },
]"""

MASKS = """layers = [
  { type = "conv", filters = 4, kernel = 3, padding = "same" }, { type = "gelu" },
  { type = "upsample", factor = 2, mode = "linear" }, { type = "max_pool", window = 2 },
  { type = "upsample", factor = [1, 2, 3] }, { type = "average_pool", window = [1, 2, 3] },
  { type = "conv", filters = 2, kernel = 1 },
]"""

FLAT = """layers = [
  { type = "batch_norm" }, { type = "dense", units = 8 }, { type = "sigmoid" }, { type = "layer_norm" },
  { type = "dense", name = "b", units = 8 }, { type = "relu", name = "c" }, { type = "add", from = ["b", "c"] },
  { type = "dense", units = 5 },
]"""

UNTIED = """layers = [
  { type = "locally_connected", filters = 6, kernel = [4, 3], stride = [2, 1] }, { type = "silu" },
  { type = "l2_pool", window = 2, stride = 1, pooled = 3 },
  { type = "rica", filters = 5, kernel = [1, 2], output = "features" }, { type = "locally_connected", filters = 4, kernel = 2 },
  { type = "global_average_pool" }, { type = "dense", units = 3 },
]"""

PUT_TOGETHER = """layers = [
  { type = "rica", filters = 5, kernel = [3, 4], stride = [2, 1] },
  { type = "rica", filters = 3, kernel = 4, decoder = "own", pooled = 1 },
]"""

CONTRASTS = """layers = [
  { type = "local_contrast_norm", window = [5, 3] }, { type = "conv", filters = 6, kernel = 3 },
  { type = "local_contrast_norm", window = 3, floor = 0.5 },
]"""

RESNET = 'preset = "resnet"\nlevels = 2\nwidth = 8\noutputs = 3'
UNET = 'preset = "unet"\nlevels = 2\nwidth = 8\noutputs = 2'

# Samples and labels whose channels are orders apart (UNITS), and what to do about it.
UNITS = (3.0, 4e5, 2e-3, 50.0)
STATISTICS = 'normalise = { samples = "mean_std", labels = "mean_std" }'
LOGARITHMS = 'normalise = { samples = "log1p_mean_std", labels = "log1p_mean_std" }'

# name: a row of samples, a row of labels, how many values labels have (0: numbers), loss, layout, model, normalisation
NETWORKS = {
    "series": ((37, 3), (4,), 0, "mse", "as_stored", SERIES),
    "series read the other way": ((37, 3), (4,), 0, "mse", "reinterpret", SERIES),
    "planes": ((11, 9, 2), (3,), 0, "mae", "as_stored", PLANES),
    "planes read the other way": ((11, 9, 2), (3,), 0, "mse", "reinterpret", PLANES),
    "a class per pixel": ((9, 8, 2), (9, 8), 3, "cross_entropy", "as_stored", PIXELS),
    "cubes": ((7, 6, 8, 2), (2,), 0, "mse", "as_stored", CUBES),
    "masks of cubes": ((4, 3, 5, 1), (4, 3, 5, 2), 2, "binary_cross_entropy", "as_stored", MASKS),
    "untied": ((11, 9, 2), (3,), 0, "mse", "as_stored", UNTIED),
    "put together": ((9, 8, 2), (9, 8, 2), 0, "mse", "as_stored", PUT_TOGETHER),
    "contrasts": ((9, 8, 2), (7, 6, 6), 0, "mse", "as_stored", CONTRASTS),
    "flat features": ((6,), (), 5, "cross_entropy", "as_stored", FLAT),
    "resnet": ((15, 14, 3), (3,), 0, "mse", "as_stored", RESNET),
    "unet": ((8, 12, 1), (8, 12), 2, "cross_entropy", "as_stored", UNET),
    "statistics": ((37, 3), (4,), 0, "mse", "as_stored", SERIES, STATISTICS),
    "statistics, read the other way": ((37, 3), (4,), 0, "mse", "reinterpret", SERIES, STATISTICS),
    "logarithms": ((11, 9, 2), (3,), 0, "mae", "as_stored", PLANES, LOGARITHMS),
    "fields in units": ((4, 3, 5, 1), (4, 3, 5, 2), 0, "mse", "as_stored", MASKS, LOGARITHMS),
}

# Of layers that ONNX does not have; safetensors files hold them.
NOT_IN_ONNX = ("untied", "put together", "contrasts")


def mrmf(*words):
    program = os.path.abspath(os.environ.get("MRMF", os.path.join(HERE, "..", "..", "build", "mrmf")))
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=300, env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"mrmf {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def all_kinds():
    """Every type that a layer of an exported network may have, as the program says: what reads nothing of the network
    trains networks of several parts, and is left out of exports."""
    listed = re.search(r"\n  type\n +one of ([a-z0-9_, ]+)", mrmf("presets", "--keys"))
    return set(listed[1].split(", ")) - {"labels", "noise"}


def disturbed(tensors, rng):
    """The tensors with every part at some size of its own: new batch norms, say, have nothing that could be forgotten."""
    changed = {}
    for name, values in tensors.items():
        if name.endswith(("gamma", "running_variance")):
            values = values * rng.uniform(0.4, 2.5, values.shape)
        elif values.ndim == 1:
            values = values + rng.normal(0, 0.3, values.shape)
        changed[name] = values.astype("f4")
    return changed


def make_model(name, folder, seed=1):
    """Trains NETWORKS[name] a little in `folder`, and makes model.h5 of it with other biases and statistics. Returns the
    samples and what mrmf predicts."""
    sample, label, values, loss, layout, model, *normalise = NETWORKS[name]
    rng = np.random.default_rng(seed)
    samples = rng.normal(0.3, 1.2, (ROWS, *sample)).astype("f4")
    labels = rng.integers(0, values, (ROWS, *label)).astype("u1") if values else rng.normal(size=(ROWS, *label)).astype("f4")
    if normalise:
        samples = (np.abs(samples) * UNITS[:sample[-1]]).astype("f4")
        labels = (np.abs(labels) * UNITS[:label[-1]]).astype("f4")
    with h5py.File(f"{folder}/data.h5", "w") as file:
        file["x"], file["y"] = samples, labels
    with open(f"{folder}/config.toml", "w") as file:
        file.write(CONFIG % {"folder": folder, "loss": loss, "layout": layout, "model": model, "data": "".join(normalise)})
    mrmf("train", f"{folder}/config.toml")
    mrmf("export", f"{folder}/run", "-o", f"{folder}/run.safetensors")
    metadata, tensors = safetensors_file.read(f"{folder}/run.safetensors")
    safetensors_file.write(f"{folder}/changed.safetensors", disturbed(tensors, rng), metadata)
    mrmf("import", f"{folder}/changed.safetensors", "-o", f"{folder}/model.h5", "--config", f"{folder}/run/config.toml")
    mrmf("predict", f"{folder}/model.h5", "-o", f"{folder}/predicted.h5")
    with h5py.File(f"{folder}/predicted.h5") as file:
        return samples, {key: file[key][()] for key in file}


def deviation(got, want):
    """The largest difference, relative to the largest number wanted."""
    if got.shape != want.shape:
        return float("inf")
    return float(np.abs(got.astype("f8") - want).max() / np.abs(want).max())


def deviation_by_output(got, want):
    """The same of the worst output by itself: outputs may be orders apart."""
    if got.shape != want.shape:
        return float("inf")
    return max(deviation(got[..., output], want[..., output]) for output in range(want.shape[-1]))


def deviation_of(name):
    """How outputs of this network are compared: normalised labels may be orders apart."""
    return deviation_by_output if len(NETWORKS[name]) > 6 else deviation
