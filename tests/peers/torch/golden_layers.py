"""Makes the numbers that tests/unit/test_peer_torch_layers.cpp compares with: golden_layers.json beside this file.

    .venv-peers/bin/python tests/peers/torch/golden_layers.py

golden_common.py says how. These are small networks of the layers that the presets do not have. A case lists its layers
as the test reads them, with the names and keys of a configuration, and network() makes PyTorch's of the same list.
"""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import golden_common as common

ADAM = {"name": "adam", "learning_rate": 1e-2, "epsilon": 1e-3}
SGD = {"name": "sgd", "learning_rate": 1e-2, "momentum": 0.9}


def layer(kind, **keys):
    return {"type": kind, **keys}


# No layer here has a kink, so rounding decides nothing. Before a global average comes an activation, since the bias of
# a convolution there would have a gradient that is the sum of equal numbers, whose roundings all go one way.
CASES = [
    {"name": "1-D", "size": [22], "rows": 5, "steps": 5, "optimizer": ADAM, "first_salt": 700, "entries": 200,
     "layers": [layer("conv", filters=8, kernel=[3], dilation=[3], padding=[3]), layer("group_norm", groups=4),
                layer("gelu"),
                layer("conv", filters=12, kernel=[4], stride=[2], padding=[1]), layer("layer_norm"), layer("silu"),
                layer("conv_transpose", filters=6, kernel=[4], stride=[2], padding=[1]), layer("softplus"),
                layer("upsample", factor=[3], mode="linear"),
                layer("conv", filters=5, kernel=[3], dilation=[2], padding=[0]), layer("sigmoid"),
                layer("global_average_pool"), layer("dense", units=7), layer("gelu"), layer("dense", units=3)]},
    {"name": "2-D", "size": [9, 8], "rows": 4, "steps": 5, "optimizer": SGD, "first_salt": 740, "entries": 200,
     "layers": [layer("conv", filters=6, kernel=[3, 3], dilation=[2, 1], padding=[2, 1]), layer("silu"),
                layer("conv_transpose", filters=8, kernel=[3, 2], stride=[2, 1], padding=[1, 0], dilation=[1, 2]),
                layer("group_norm", groups=2), layer("upsample", factor=[1, 2], mode="nearest"), layer("gelu"),
                layer("conv", filters=4, kernel=[3, 3], stride=[2, 2], padding=[1, 1]), layer("layer_norm"),
                layer("global_average_pool"), layer("layer_norm"), layer("dense", units=4), layer("sigmoid")]},
    {"name": "untied, 1-D", "size": [17], "rows": 5, "steps": 5, "optimizer": ADAM, "first_salt": 780, "entries": 200,
     "layers": [layer("locally_connected", filters=6, kernel=[5], stride=[2]), layer("gelu"),
                layer("locally_connected", filters=4, kernel=[3]), layer("silu"), layer("global_average_pool"),
                layer("dense", units=3)]},
    {"name": "untied, 2-D", "size": [9, 11], "rows": 4, "steps": 5, "optimizer": SGD, "first_salt": 800, "entries": 200,
     "layers": [layer("locally_connected", filters=6, kernel=[4, 3], stride=[1, 2]),
                layer("l2_pool", window=[2, 2], stride=[1, 1], pooled=3), layer("locally_connected", filters=5, kernel=[2, 2]),
                layer("silu"), layer("global_average_pool"), layer("dense", units=3)]},
    {"name": "untied, 3-D", "size": [5, 4, 6], "rows": 3, "steps": 5, "optimizer": SGD, "first_salt": 820, "entries": 200,
     "layers": [layer("locally_connected", filters=4, kernel=[2, 3, 3], stride=[1, 1, 2]), layer("softplus"),
                layer("global_average_pool"), layer("dense", units=3)]},
]


class Upsample(nn.Module):
    """By integer factors. PyTorch's linear mode takes all axes at once, and so does this."""

    def __init__(self, factor, mode):
        super().__init__()
        self.factor = [float(f) for f in factor]
        self.mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(factor)] if mode == "linear" else "nearest"

    def forward(self, x):
        align = None if self.mode == "nearest" else False
        return F.interpolate(x, scale_factor=self.factor, mode=self.mode, align_corners=align)


class LocallyConnected(nn.Module):
    """By unfolding. Parameters are in our order: (positions..., out) by (kernel..., in)."""

    def __init__(self, size, channels, filters, kernel, stride):
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.positions = [(n - k) // s + 1 for n, k, s in zip(size, kernel, stride)]
        units = int(np.prod(self.positions)) * filters
        self.weight = nn.Parameter(torch.zeros(units, int(np.prod(kernel)) * channels))
        self.bias = nn.Parameter(torch.zeros(units))

    def forward(self, x):
        axes, fields = len(self.kernel), x.movedim(1, -1)
        for axis, (k, s) in enumerate(zip(self.kernel, self.stride), 1):
            fields = fields.unfold(axis, k, s)
        fields = fields.movedim(axes + 1, -1).flatten(axes + 1).flatten(1, axes)
        w = self.weight.unflatten(0, (fields.shape[1], -1))
        y = torch.einsum("npk,pok->npo", fields, w) + self.bias.unflatten(0, w.shape[:2])
        return y.unflatten(1, self.positions).movedim(-1, 1)


class L2Pool(nn.Module):
    def __init__(self, window, stride, groups, epsilon=0.01):
        super().__init__()
        self.window, self.stride, self.groups, self.epsilon = window, stride, groups, epsilon

    def forward(self, x):
        sums = x * x
        for axis, (k, s) in enumerate(zip(self.window, self.stride), 2):
            sums = sums.unfold(axis, k, s).sum(-1)
        return (sums.unflatten(1, (self.groups, -1)).sum(2) + self.epsilon).sqrt()


class GlobalAverage(nn.Module):
    def forward(self, x):
        return x.flatten(2).mean(2)


def module(spec, channels, size):
    """PyTorch's module of a layer on so many channels and positions, and the channels behind it."""
    kind, axes = spec["type"], len(size)
    if kind == "locally_connected":
        stride = spec.get("stride", [1] * axes)
        return LocallyConnected(size, channels, spec["filters"], spec["kernel"], stride), spec["filters"]
    if kind == "l2_pool":
        return L2Pool(spec["window"], spec["stride"], spec["pooled"]), spec["pooled"]
    if kind in ("conv", "conv_transpose"):
        name = f"{'ConvTranspose' if kind == 'conv_transpose' else 'Conv'}{axes}d"
        keys = {"stride": spec.get("stride", 1), "padding": spec["padding"], "dilation": spec.get("dilation", 1)}
        return getattr(nn, name)(channels, spec["filters"], spec["kernel"], **keys), spec["filters"]
    if kind == "dense":
        return nn.Linear(channels, spec["units"]), spec["units"]
    if kind == "group_norm":
        return nn.GroupNorm(spec["groups"], channels), channels
    if kind == "layer_norm":
        return nn.GroupNorm(1, channels), channels
    if kind == "upsample":
        return Upsample(spec["factor"], spec["mode"]), channels
    if kind == "global_average_pool":
        return GlobalAverage(), channels
    return {"gelu": nn.GELU, "silu": nn.SiLU, "softplus": nn.Softplus, "sigmoid": nn.Sigmoid}[kind](), channels


def network(case):
    modules, channels, x = [], 3, torch.zeros(1, 3, *case["size"])
    for spec in case["layers"]:
        made, channels = module(spec, channels, x.shape[2:] if x.dim() > 2 else case["size"])
        modules.append(made)
        x = made(x)
    return nn.Sequential(*modules)


def parameters(case, model):
    """(name, tensor) in our arena's order."""
    counts = {}
    for spec, made in zip(case["layers"], model):
        kind = spec["type"]
        counts[kind] = counts.get(kind, 0) + 1
        names = ("gamma", "beta") if kind.endswith("norm") else ("weight", "bias")
        if hasattr(made, "weight"):
            yield f"{kind}{counts[kind]} {names[0]}", made.weight
            yield f"{kind}{counts[kind]} {names[1]}", made.bias


def run(case, dtype):
    """One case in one precision: the parameters' starts and the results."""
    model = network(case).to(dtype)
    starts = [common.start(name, tensor, salt)
              for salt, (name, tensor) in enumerate(parameters(case, model), case["first_salt"])]
    for (_, tensor), entry in zip(parameters(case, model), starts):
        common.fill(tensor, entry)
    shape = (case["rows"], *case["size"], 3)
    x = common.channels_first(common.formula(np.prod(shape), **common.INPUT), shape).to(dtype)
    outputs = model(x).shape[1]
    target = torch.from_numpy(common.formula(case["rows"] * outputs, **common.TARGET)).to(dtype)
    return starts, common.record(case, model, list(parameters(case, model)), [], x,
                                 target.reshape(case["rows"], outputs))


if __name__ == "__main__":
    torch.set_num_threads(1)  # one order of summation
    common.write_all("golden_layers.json", CASES, run)
