"""What a trained layer of reconstruction ICA has learnt (docs/guide/giants.md). Needs numpy and h5py, `filters`
matplotlib, too.

    python3 jobs/giants/features.py encoder layer1 -o encoder.safetensors         # for mrmf import, as run.sh does it
    python3 jobs/giants/features.py gather train.h5 validation.h5 -o features.h5  # predictions, as samples of the next
    python3 jobs/giants/features.py filters layer1 -o filters.png  # in colour where samples are; --layer as for share
    python3 jobs/giants/features.py readout layer1 digits.h5  # labels by a linear fit
    python3 jobs/giants/features.py share layer1 crops.h5     # of the signal that is not put together again, by
                                                              # the layer that --layer names, if there are several
    python3 jobs/giants/features.py halve crops.h5 -o half.h5           # samples on half the resolution
    python3 jobs/giants/features.py finer layer1 -o start.safetensors   # a layer of half the resolution, for the whole

`layer1` is a run's folder, of which the best epoch's model is taken, or a model file.
"""
import argparse
import json
import os
import re
import struct

import h5py
import numpy as np


class Layer:
    """A rica layer of a model file, by its name where there are several: weights (positions, units, field), tied, of images."""

    def __init__(self, path, name=None):
        if os.path.isdir(path):
            models = [os.path.join(path, "checkpoints", name) for name in ("best.h5", "final.h5")]
            path = next(filter(os.path.exists, models), models[-1])  # one of them where the last epoch is the best
        with h5py.File(path) as file:
            names = [name for name in file["parameters"] if "weight" in file["parameters"][name]]
            self.name = name or names[-1]
            part = file["parameters"][self.name]
            weight = part["weight"][:]
            self.decoder = part["decoder"][:] if "decoder" in part else weight
            config = file.attrs["config"] if "config" in file.attrs else file["config"][()]
            config = config.decode() if isinstance(config, bytes) else str(config)
        self.rows, self.columns, self.units, self.high, self.wide, self.channels = weight.shape
        stride = re.search(rf'name = "{self.name}"[^}}]*?stride = \[?(\d+)', config)
        self.stride = int(stride[1]) if stride else 1
        self.weight = weight.reshape(self.rows * self.columns, self.units, -1)
        self.decoder = self.decoder.reshape(self.weight.shape)

    def field(self, position, samples):
        row, column = position // self.columns * self.stride, position % self.columns * self.stride
        return samples[:, row:row + self.high, column:column + self.wide]

    def encode(self, samples):
        z = np.empty((len(samples), len(self.weight), self.units), "f4")
        for p, w in enumerate(self.weight):
            z[:, p] = self.field(p, samples).reshape(len(samples), -1) @ w.T
        return z.reshape(len(samples), self.rows, self.columns, self.units)

    def decode(self, z):
        size = [(n - 1) * self.stride + k for n, k in ((self.rows, self.high), (self.columns, self.wide))]
        whole = np.zeros((len(z), *size, self.channels), "f4")
        for p, (w, of) in enumerate(zip(self.decoder, np.moveaxis(z.reshape(len(z), -1, self.units), 1, 0))):
            part = self.field(p, whole)
            part += (of @ w).reshape(part.shape)
        return whole


def l2_pool(z, window, epsilon=0.01):
    """The root of sums of squares over window x window positions, at every position."""
    sums = z * z
    for axis in (1, 2):
        sums = np.lib.stride_tricks.sliding_window_view(sums, window, axis).sum(-1)
    return np.sqrt(sums + epsilon)


def encoder(options):
    """Parameters of a locally connected layer `code` that makes the features: those of a rica layer, without biases."""
    layer = Layer(options.model, options.layer)
    shape = [layer.rows, layer.columns, layer.units]
    parts = {"code.weight": layer.weight.reshape(*shape, layer.high, layer.wide, layer.channels),
             "code.bias": np.zeros(shape, "f4")}
    safetensors(options.output, parts)


def safetensors(path, tensors):
    header, end = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [end, end + values.nbytes]}
        end += values.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(np.ascontiguousarray(values, "f4"))


def halve(options):
    """Means of blocks of 2x2 pixels, as large in the mean square as the samples are."""
    with h5py.File(options.samples) as file, h5py.File(options.output, "w") as made:
        scale = None
        for name in ("train", "validation"):
            rows = file[name][:]
            n, height, width, channels = rows.shape
            half = rows.reshape(n, height // 2, 2, width // 2, 2, channels).mean((2, 4))
            scale = scale or np.sqrt((rows ** 2).mean() / (half ** 2).mean())
            made[name] = half * scale


def finer(options):
    """Fields of half the resolution on the whole one. Each position becomes four. The first has the weights of the one
    before, each on the 2x2 pixels under it; so it sees what half the resolution shows. The other three have the same
    with the signs of Haar's details along the rows, the columns and both, and see what it does not show. They begin a
    pixel later, so a row or column of weights leaves their fields. Rows get this length."""
    layer = Layer(options.model)
    weight = layer.weight.reshape(layer.rows, layer.columns, layer.units, layer.high, layer.wide, layer.channels)
    made = np.zeros((2 * layer.rows - 1, 2 * layer.columns - 1, layer.units, 2 * layer.high, 2 * layer.wide,
                     layer.channels), "f4")
    signs = np.ones((2, 2 * max(layer.high, layer.wide)), "f4")
    signs[1, 1::2] = -1
    for row in range(made.shape[0]):
        for column in range(made.shape[1]):
            odd = row % 2, column % 2
            field = weight[row // 2, column // 2].repeat(2, 1).repeat(2, 2)
            field *= signs[odd[0], :field.shape[1], None, None] * signs[odd[1], :field.shape[2], None]
            made[row, column, :, :field.shape[1] - odd[0], :field.shape[2] - odd[1]] = field[:, odd[0]:, odd[1]:]
    lengths = np.linalg.norm(made.reshape(*made.shape[:3], -1), axis=3)
    made *= (options.row_length / np.maximum(lengths, 1e-12))[..., None, None, None]
    safetensors(options.output, {f"{layer.name}.weight": made})


def gather(options):
    with h5py.File(options.output, "w") as made:
        for path in options.files:
            with h5py.File(path) as file:
                file.copy("prediction", made, os.path.splitext(os.path.basename(path))[0])


def share(options):
    layer = Layer(options.model, options.layer)
    with h5py.File(options.samples) as file:
        samples = file["validation"][:256]
    error = layer.decode(layer.encode(samples)) - samples[:, :layer.rows * layer.stride - layer.stride + layer.high,
                                                          :layer.columns * layer.stride - layer.stride + layer.wide]
    print(f"unexplained share {(error ** 2).sum() / (samples ** 2).sum():.4f}")


def right_share(features, labels, others, other_labels):
    """Of the others, whose classes are told by a linear fit: ridge regression of one-hot rows, with the strength that
    tells most of the last fifth of the training rows right when fitted to the rest."""
    mean, deviation = features.mean(0), features.std(0) + 1e-3
    x, y = (features - mean) / deviation, (others - mean) / deviation
    wanted = np.eye(labels.max() + 1)[labels] - 0.1

    def told(rows, strength, of):
        gram = rows.T @ rows + strength * len(rows) * np.eye(rows.shape[1])
        return (of @ np.linalg.solve(gram, rows.T @ wanted[:len(rows)])).argmax(1)

    kept = len(x) * 4 // 5
    best = max((0.01, 0.1, 1, 10), key=lambda strength: (told(x[:kept], strength, x[kept:]) == labels[kept:]).mean())
    return (told(x, best, y) == other_labels).mean()


def readout(options):
    layer = Layer(options.model)
    with h5py.File(options.samples) as file:
        rows = {name: file[name][:] for name in file}
    labels = rows["train_label"], rows["validation_label"]

    def shown(what, of):
        train, validation = (of(name).reshape(len(rows[name]), -1).astype("f8") for name in ("train", "validation"))
        print(f"{what}: {right_share(train, labels[0], validation, labels[1]):.3f} of labels right, "
              f"{train.shape[1]} numbers a sample")

    def features(name):
        return l2_pool(layer.encode(rows[name]), options.pool)[:, ::2, ::2]

    shown("pixels", lambda name: rows[f"{name}_pixels"])
    shown("learnt filters", features)
    random = np.random.default_rng(0).normal(size=layer.weight.shape).astype("f4")
    layer.weight = random / np.linalg.norm(random, axis=2, keepdims=True)
    shown("random filters", features)


def filters(options):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    layer = Layer(options.model, options.layer)
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(layer.weight), size=(8, 12)), rng.integers(layer.units, size=(8, 12))
    figure, axes = pyplot.subplots(8, 12, figsize=(9, 6))
    for axis, position, unit in zip(axes.flat, chosen[0].flat, chosen[1].flat):
        w = layer.weight[position, unit].reshape(layer.high, layer.wide, layer.channels)
        w = w if layer.channels in (1, 3) else w[..., :1]
        axis.imshow(0.5 + 0.5 * w / np.abs(w).max(), cmap="gray", vmin=0, vmax=1)
        axis.axis("off")
    figure.savefig(options.output, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    wants = {encoder: ("model", "output", "layer"), gather: ("files", "output"), filters: ("model", "output", "layer"),
             share: ("model", "samples", "layer"), readout: ("model", "samples", "pool"), halve: ("samples", "output"),
             finer: ("model", "output", "row_length")}
    for run, words in wants.items():
        command = commands.add_parser(run.__name__)
        command.set_defaults(run=run)
        for word in ("model", "samples"):
            if word in words:
                command.add_argument(word)
        if "files" in words:
            command.add_argument("files", nargs="+")
        if "output" in words:
            command.add_argument("-o", "--output", required=True)
        if "row_length" in words:
            command.add_argument("--row-length", type=float, default=1, help="of the weights of every feature")
        if "layer" in words:
            command.add_argument("--layer", help="name of the layer, where a model has several")
        if "pool" in words:
            command.add_argument("--pool", type=int, default=5)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
