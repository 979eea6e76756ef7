"""Random networks with branches, trained by mrmf and by PyTorch in float64 from the same weights on the same samples:

    .venv-peers/bin/python tests/peers/torch/random_networks.py [--count 40] [--seed 1] [--mrmf build/mrmf]

Each has one to three axes, six to sixteen layers of all kinds, and layers that read earlier outputs, add or concatenate
them. Three epochs of SGD with momentum. Losses of every epoch, parameters and running statistics after the last are
compared, each array by itself. The yardstick is PyTorch's own float32 run: mrmf may deviate from float64 a small
multiple of what that does in the same array, or in the median one.
Needs h5py beside PyTorch. Exit code 1 when one network deviates.
"""
import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
from torch.nn import functional as F

SAMPLES, VALIDATION, BATCH, EPOCHS = 24, 10, 8, 3
RATE, MOMENTUM = 0.02, 0.9
MULTIPLE, LEAST = 20, 2e-5  # of PyTorch's float32 deviation; relative, for networks in which that is luckily small
ACTIVATIONS = ("relu", "leaky_relu", "tanh", "gelu", "silu", "softplus", "sigmoid")
NORMS = ("batch_norm", "group_norm", "layer_norm")


class Generator:
    """A list of layers; shapes[name] is (positions, channels), positions () for a flat output."""

    def __init__(self, rng):
        self.rng = rng
        self.axes = rng.choice((1, 2, 3))
        size = {1: (20, 28), 2: (9, 14), 3: (6, 9)}[self.axes]
        self.input = (tuple(rng.randint(*size) for _ in range(self.axes)), rng.randint(1, 4))
        self.layers, self.shapes, self.unread, self.last = [], {"input": self.input}, [], "input"

    def network(self):
        for _ in range(self.rng.randint(5, 13)):
            self.step()
        self.finish()
        return self.layers

    def add(self, kind, sources, shape, **keys):
        name = f"n{len(self.layers)}_{kind}"
        layer = {"type": kind, "name": name, **keys}
        if sources != [self.last] or self.rng.random() < 0.1:
            layer["from"] = sources if len(sources) > 1 else sources[0]
        self.layers.append(layer)
        self.unread = [other for other in self.unread if other not in sources] + [name]
        self.shapes[name] = shape
        self.last = name
        return name

    def source(self):
        """Mostly the last output, now and then one that others read, too."""
        spatial = [name for name, (positions, _) in self.shapes.items() if positions]
        if self.shapes[self.last][0] and self.rng.random() < 0.7:
            return self.last
        return self.rng.choice(spatial)

    def join(self):
        """Adds or concatenates two or three outputs, where some fit."""
        name = self.source()
        positions, channels = self.shapes[name]
        same = [other for other, (p, _) in self.shapes.items() if p == positions and other != name]
        alike = [other for other in same if self.shapes[other][1] == channels]
        if alike and self.rng.random() < 0.6:
            sources = [name, *self.rng.sample(alike, min(len(alike), self.rng.choice((1, 1, 2))))]
            return self.add("add", sources, (positions, channels))
        if same:
            sources = [name, *self.rng.sample(same, min(len(same), self.rng.choice((1, 1, 2))))]
            width = sum(self.shapes[source][1] for source in sources)
            if width <= 24:
                return self.add("concat", sources, (positions, width))
        return None

    def windows(self, kind, positions):
        """Sizes per axis, and the positions that they lead to; None when too few or too many are left."""
        rng = self.rng
        kernel = [rng.randint(1, 4) for _ in positions]
        stride = [rng.choice((1, 1, 2)) for _ in positions]
        dilation = [rng.choice((1, 1, 2)) if k > 1 else 1 for k in kernel]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        padding = [rng.randint(0, r // 2) for r in reach]
        if kind == "conv":
            out = [(n + 2 * p - r) // s + 1 for n, p, r, s in zip(positions, padding, reach, stride)]
        else:
            out = [(n - 1) * s + r - 2 * p for n, p, r, s in zip(positions, padding, reach, stride)]
        if min(out) < 2 or np.prod(out) > 1200:
            return None
        return {"kernel": kernel, "stride": stride, "dilation": dilation, "padding": padding}, tuple(out)

    def step(self):
        rng = self.rng
        if rng.random() < 0.3 and self.join():
            return
        name = self.source()
        positions, channels = self.shapes[name]
        kind = rng.choice(("conv", "conv", "conv", "conv_transpose", "pool", "upsample", "norm", "norm", "activation",
                           "activation"))
        if kind in ("conv", "conv_transpose"):
            found = self.windows(kind, positions)
            if found:
                filters = rng.choice((2, 3, 4, 6, 8))
                self.add(kind, [name], (found[1], filters), filters=filters, **found[0])
        elif kind == "pool" and min(positions) >= 4:
            window = [rng.choice((1, 2, 3)) for _ in positions]
            out = tuple(n // w for n, w in zip(positions, window))
            if min(out) >= 2:
                self.add(rng.choice(("max_pool", "average_pool")), [name], (out, channels), window=window)
        elif kind == "upsample":
            factor = [rng.choice((1, 2, 3)) for _ in positions]
            out = tuple(n * f for n, f in zip(positions, factor))
            if np.prod(out) <= 1200:
                self.add("upsample", [name], (out, channels), factor=factor, mode=rng.choice(("nearest", "linear")))
        elif kind == "norm":
            norm = rng.choice(NORMS)
            groups = {"groups": rng.choice([g for g in range(1, channels + 1) if channels % g == 0])}
            self.add(norm, [name], (positions, channels), **(groups if norm == "group_norm" else {}))
        elif kind == "activation":
            self.add(rng.choice(ACTIVATIONS), [name], (positions, channels))

    def finish(self):
        """Whatever nobody has read goes into the answer."""
        if not self.unread:
            self.add("conv", ["input"], (self.input[0], 4), filters=4, kernel=[1] * self.axes)
        flat = [name for name in self.unread]
        for name in list(flat):
            flat.remove(name)
            positions, channels = self.shapes[name]
            if np.prod(positions) * channels <= 400 and self.rng.random() < 0.5:
                flat.append(self.add("flatten", [name], ((), int(np.prod(positions)) * channels)))
            else:
                flat.append(self.add("global_average_pool", [name], ((), channels)))
        if len(flat) > 1:
            self.add("concat", flat, ((), sum(self.shapes[name][1] for name in flat)))
        self.add("dense", [self.last], ((), 6), units=6)
        before = self.last
        self.add(self.rng.choice(ACTIVATIONS), [before], ((), 6))
        if self.rng.random() < 0.5:
            self.add("add", [self.last, before], ((), 6))
        self.add("dense", [self.last], ((), 2), units=2)


def toml(layers):
    def text(value):
        return json.dumps(value)  # numbers, texts and lists look the same in both
    return "\n".join("[[model.layers]]\n" + "\n".join(f"{key} = {text(value)}" for key, value in layer.items())
                     for layer in layers)


class Network:
    """What PyTorch computes of the list, with parameters in mrmf's shapes."""

    def __init__(self, layers, axes, model, dtype):
        self.layers, self.axes, self.dtype = layers, axes, dtype
        self.parameters, self.state = {}, {}
        with h5py.File(model) as file:
            for target, group, gradient in ((self.parameters, "parameters", True), (self.state, "state", False)):
                for layer in file.get(group, {}):
                    for part in file[group][layer]:
                        value = torch.from_numpy(file[group][layer][part][()]).to(dtype)
                        target[f"{layer}/{part}"] = value.requires_grad_(gradient)

    def __call__(self, x, training):
        outputs, last = {"input": x}, x
        for layer in self.layers:
            names = layer.get("from")
            inputs = [last] if names is None else [outputs[n] for n in ([names] if isinstance(names, str) else names)]
            last = outputs[layer["name"]] = self.layer(layer, inputs, training)
        return last

    def layer(self, layer, inputs, training):
        kind, x = layer["type"], inputs[0]
        if kind == "add":
            return sum(inputs[1:], start=x)
        if kind == "concat":
            return torch.cat(inputs, 1)
        if kind == "flatten":  # feature = position * channels + channel
            return x.movedim(1, -1).flatten(1)
        if kind == "global_average_pool":
            return x.flatten(2).mean(2)
        if kind.endswith("norm"):
            return self.norm(layer, x, training)
        if kind in ACTIVATIONS:
            return {"relu": F.relu, "leaky_relu": lambda v: F.leaky_relu(v, 0.01), "tanh": torch.tanh, "gelu": F.gelu,
                    "silu": F.silu, "softplus": F.softplus, "sigmoid": torch.sigmoid}[kind](x)
        if kind == "upsample":
            mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[self.axes] if layer["mode"] == "linear" else "nearest"
            align = None if mode == "nearest" else False
            return F.interpolate(x, scale_factor=[float(f) for f in layer["factor"]], mode=mode, align_corners=align)
        if kind in ("max_pool", "average_pool"):
            name = ("max" if kind == "max_pool" else "avg") + f"_pool{self.axes}d"
            return getattr(F, name)(x, layer["window"])
        weight, bias = self.parameters[layer["name"] + "/weight"], self.parameters[layer["name"] + "/bias"]
        if kind == "dense":
            return F.linear(x, weight, bias)
        keys = {key: layer[key] for key in ("stride", "padding", "dilation") if key in layer}
        return getattr(F, f"{kind}{self.axes}d")(x, weight.movedim(-1, 1), bias, **keys)

    def norm(self, layer, x, training):
        gamma, beta = (self.parameters[f"{layer['name']}/{part}"] for part in ("gamma", "beta"))
        if layer["type"] != "batch_norm":
            return F.group_norm(x, layer.get("groups", 1), gamma, beta)
        mean, variance = (self.state[f"{layer['name']}/running_{part}"] for part in ("mean", "variance"))
        return F.batch_norm(x, mean, variance, gamma, beta, training)


def train(network, data):
    """Losses of training and validation per epoch; the parameters change in place."""
    tensors = list(network.parameters.values())
    optimizer = torch.optim.SGD(tensors, lr=RATE, momentum=MOMENTUM)
    x, y, validation_x, validation_y = (torch.from_numpy(part).to(network.dtype) for part in data)
    x, validation_x = x.movedim(-1, 1), validation_x.movedim(-1, 1)
    losses = []
    for _ in range(EPOCHS):
        total = 0.0
        for first in range(0, SAMPLES, BATCH):
            rows = slice(first, first + BATCH)
            loss = F.mse_loss(network(x[rows], True), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * BATCH / SAMPLES
        with torch.no_grad():
            losses += [total, F.mse_loss(network(validation_x, False), validation_y).item()]
    return losses


def write_data(path, generator, rng):
    positions, channels = generator.input
    data = []
    with h5py.File(path, "w") as file:
        for name, count in (("train", SAMPLES), ("val", VALIDATION)):
            for what, shape in (("x", (count, *positions, channels)), ("y", (count, 2))):
                data.append(rng.standard_normal(shape).astype("float32"))
                file[f"{name}_{what}"] = data[-1]
    return data


CONFIG = f"""
[data]
files = ["data.h5"]
train = {{ samples = "train_x", labels = "train_y" }}
validation = {{ samples = "val_x", labels = "val_y" }}
shuffle = false
[training]
optimizer = {{ name = "sgd", learning_rate = {RATE}, momentum = {MOMENTUM} }}
batch = {BATCH}
epochs = {EPOCHS}
[method]
name = "baseline"
[run]
folder = "trained"
threads = 2
"""


def run(mrmf, folder, *words):
    done = subprocess.run([mrmf, "train", "config.toml", *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])


def deviations(ours, exact):
    """Of each array, relative to the largest magnitude of its kind."""
    return {name: float(np.abs(ours[name] - exact[name]).max() / max(np.abs(exact[name]).max(), 1e-3)) for name in exact}


def arrays(network, losses):
    found = {"losses": np.array(losses)}
    for name, tensor in {**network.parameters, **network.state}.items():
        found[name] = tensor.detach().double().numpy()
    return found


def compare(mrmf, seed):
    """(layers, parameters, our worst deviation, PyTorch's float32 one there, whether it is near enough)"""
    generator = Generator(random.Random(seed))
    layers = generator.network()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = write_data(folder / "data.h5", generator, np.random.default_rng(seed))
        (folder / "config.toml").write_text(CONFIG + toml(layers) + "\n")
        # A rate that changes no bit, and one epoch: the weights that every run of this seed begins with.
        run(mrmf, folder, "--set", "run.folder=begun", "--set", "training.epochs=1", "--set",
            "training.optimizer.learning_rate=1e-35", "--set", "training.optimizer.momentum=0")
        run(mrmf, folder)
        found = {}
        for dtype in (torch.float64, torch.float32):
            network = Network(layers, generator.axes, folder / "begun/checkpoints/final.h5", dtype)
            for part, tensor in network.state.items():  # the one epoch has moved these
                tensor.fill_(1.0 if part.endswith("variance") else 0.0)
            found[dtype] = arrays(network, train(network, data))
        ours = arrays(Network(layers, generator.axes, folder / "trained/checkpoints/final.h5", torch.float64), [])
        records = [json.loads(line) for line in (folder / "trained/epochs.jsonl").read_text().splitlines()]
        ours["losses"] = np.array([epoch[key] for epoch in records for key in ("train_loss", "validation_loss")])
    exact = found[torch.float64]
    mine, theirs = deviations(ours, exact), deviations(found[torch.float32], exact)
    usual = statistics.median(theirs.values())  # an array's own may be luckily small
    allowed = {part: max(MULTIPLE * theirs[part], MULTIPLE * usual, LEAST) for part in mine}
    worst = max(mine, key=lambda part: mine[part] / allowed[part])
    near = mine[worst] <= allowed[worst]
    count = sum(tensor.size for part, tensor in exact.items() if part != "losses")
    return len(layers), count, worst, mine[worst], theirs[worst], near


def main():
    parser = argparse.ArgumentParser(description="random networks with branches beside PyTorch in float64")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mrmf", default="build/mrmf")
    parser.add_argument("--show", action="store_true", help="print each network's layers")
    options = parser.parse_args()
    mrmf = str(pathlib.Path(options.mrmf).resolve())
    torch.set_num_threads(1)
    far = 0
    print(f"{'seed':>5} {'axes':>4} {'layers':>6} {'values':>7} {'deviation':>10} {'float32':>9}  worst")
    for seed in range(options.seed, options.seed + options.count):
        generator = Generator(random.Random(seed))
        layers = generator.network()
        if options.show:
            print(toml(layers))
        try:
            length, count, worst, mine, theirs, near = compare(mrmf, seed)
        except RuntimeError as error:
            print(f"{seed:>5} {generator.axes:>4} failed: {error}")
            far += 1
            continue
        print(f"{seed:>5} {generator.axes:>4} {length:>6} {count:>7} {mine:>10.1e} {theirs:>9.1e}  {worst}"
              f"{'' if near else '  TOO FAR'}", flush=True)
        far += not near
    print(f"{options.count - far} of {options.count} networks agree with PyTorch in float64 over {EPOCHS} epochs of SGD")
    sys.exit(far > 0)


if __name__ == "__main__":
    main()
