"""Makes the numbers that tests/unit/test_peer_torch_layers.cpp compares with: golden_layers.json beside this file.

    .venv-peers/bin/python tests/peers/torch/golden_layers.py

golden_common.py says how. These are small networks of the layers that the presets do not have. A case lists its layers
as the test reads them, with the names and keys of a configuration, and network() makes PyTorch's of the same list. With
"target": "input" a network is trained to give its input.
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


# No layer here has a kink but LocalContrastNorm, which sees to it that rounding decides nothing. Before a global
# average comes an activation, since the bias of a convolution there would have a gradient that is the sum of equal
# numbers, whose roundings all go one way.
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
    # With an untied layer before it, whose gradient is made of that of reconstruction ICA's input.
    {"name": "reconstruction ICA, 1-D", "size": [20], "rows": 5, "steps": 5, "optimizer": SGD, "first_salt": 840,
     "entries": 100, "target": "input",
     "layers": [layer("rica", filters=6, kernel=[5], stride=[2], pooled=3, sparsity=2, row_length=0)]},
    {"name": "own decoder, 1-D", "size": [14], "rows": 4, "steps": 5, "optimizer": ADAM, "first_salt": 850,
     "entries": 100,
     "layers": [layer("locally_connected", filters=4, kernel=[3]),
                layer("rica", filters=5, kernel=[4], sparsity=2, epsilon=0.0625, decoder="own", row_length=0)]},
    {"name": "reconstruction ICA, 2-D", "size": [8, 9], "rows": 4, "steps": 5, "optimizer": SGD, "first_salt": 860,
     "entries": 100, "target": "input",
     "layers": [layer("rica", filters=6, kernel=[4, 3], stride=[2, 1], pooled=2, sparsity=8, row_length=0)]},
    {"name": "both decoders, 2-D", "size": [7, 8], "rows": 3, "steps": 5, "optimizer": SGD, "first_salt": 870,
     "entries": 100,
     "layers": [layer("locally_connected", filters=2, kernel=[2, 2]),
                layer("rica", filters=4, kernel=[3, 3], pooled=2, sparsity=4, row_length=0),
                layer("rica", filters=3, kernel=[2, 4], stride=[1, 3], sparsity=2, decoder="own", row_length=0)]},
    {"name": "features and contrast, 2-D", "size": [9, 10], "rows": 4, "steps": 5, "optimizer": SGD, "first_salt": 890,
     "entries": 100,
     "layers": [layer("rica", filters=6, kernel=[3, 2], stride=[1, 2], row_length=0, output="features"),
                layer("l2_pool", window=[2, 2], stride=[1, 1], pooled=3), layer("local_contrast_norm", window=[5, 3]),
                layer("rica", filters=4, kernel=[2, 2], row_length=0, output="features"), layer("silu"),
                layer("global_average_pool"), layer("dense", units=3)]},
    {"name": "contrast, 1-D", "size": [16], "rows": 5, "steps": 5, "optimizer": SGD, "first_salt": 910, "entries": 100,
     "layers": [layer("locally_connected", filters=3, kernel=[3]), layer("local_contrast_norm", window=[7], floor=1.5),
                layer("silu"), layer("global_average_pool"), layer("dense", units=3)]},
    {"name": "contrast, 3-D", "size": [4, 5, 6], "rows": 3, "steps": 5, "optimizer": SGD, "first_salt": 930,
     "entries": 100,
     "layers": [layer("locally_connected", filters=2, kernel=[2, 1, 2]),
                layer("local_contrast_norm", window=[3, 5, 3], floor=2.0)]},
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


class Rica(nn.Module):
    """Reconstruction ICA by PyTorch's unfold and fold. These know images alone, so a line is an image of one row.
    Parameters are in our order, as above. `penalty` is what the last forward adds to the loss."""

    def __init__(self, size, channels, spec):
        super().__init__()
        self.spec, self.channels, axes = spec, channels, len(size)
        self.kernel = [1] * (2 - axes) + spec["kernel"]
        self.stride = [1] * (2 - axes) + spec.get("stride", [1] * axes)
        self.positions = [(n - k) // s + 1 for n, k, s in zip(size, self.kernel[-axes:], self.stride[-axes:])]
        shape = int(np.prod(self.positions)) * spec["filters"], int(np.prod(self.kernel)) * channels
        self.weight = nn.Parameter(torch.zeros(shape))
        if spec.get("decoder") == "own":
            self.decoder = nn.Parameter(torch.zeros(shape))

    def fields(self, rows):
        """(positions, filters, field) with the channel first in a field, as unfold has it."""
        rows = rows.unflatten(0, (-1, self.spec["filters"])).unflatten(2, (-1, self.channels))
        return rows.transpose(2, 3).flatten(2)

    def forward(self, x):
        images = x.unsqueeze(2) if x.dim() == 3 else x
        z = torch.einsum("nkp,pfk->npf", F.unfold(images, self.kernel, stride=self.stride), self.fields(self.weight))
        if self.spec.get("output") == "features":
            return z.transpose(1, 2).unflatten(2, self.positions)
        groups = self.spec.get("pooled") or self.spec["filters"]
        squares = (z * z).unflatten(2, (groups, -1)).sum(3)
        self.penalty = self.spec["sparsity"] * (squares + self.spec.get("epsilon", 0.01)).sqrt().sum() / x.numel()
        decoder = self.decoder if self.spec.get("decoder") == "own" else self.weight
        parts = torch.einsum("npf,pfk->nkp", z, self.fields(decoder))
        return F.fold(parts, images.shape[2:], self.kernel, stride=self.stride).reshape(x.shape)


class LocalContrastNorm(nn.Module):
    """By convolutions of one channel with the window's weights, and of ones for what is inside."""

    def __init__(self, window, floor=0.01):
        super().__init__()
        self.floor, self.half = floor, [k // 2 for k in window]
        self.window = torch.ones([], dtype=torch.float64)
        for k in window:
            distance = torch.arange(k, dtype=torch.float64) - k // 2
            self.window = self.window[..., None] * torch.exp(-(distance / (k / 4)) ** 2 / 2)

    def mean(self, x):
        """Of all channels around each position, by the weights there are."""
        conv = (F.conv1d, F.conv2d, F.conv3d)[len(self.half) - 1]
        one, window = x.mean(1, keepdim=True), self.window[None, None].to(x.dtype)
        return conv(one, window, padding=self.half) / conv(torch.ones_like(one), window, padding=self.half)

    def forward(self, x):
        left = x - self.mean(x)
        deviation = self.mean(left * left).sqrt()
        assert (deviation - self.floor).abs().min() > 1e-4, "a kink"
        return left / deviation.clamp(min=self.floor)


class GlobalAverage(nn.Module):
    def forward(self, x):
        return x.flatten(2).mean(2)


class InOurOrder(nn.Module):
    """A sample's values in a row."""

    def forward(self, x):
        return x.movedim(1, -1).flatten(1)


def module(spec, channels, size):
    """PyTorch's module of a layer on so many channels and positions, and the channels behind it."""
    kind, axes = spec["type"], len(size)
    if kind == "locally_connected":
        stride = spec.get("stride", [1] * axes)
        return LocallyConnected(size, channels, spec["filters"], spec["kernel"], stride), spec["filters"]
    if kind == "rica":
        return Rica(size, channels, spec), spec["filters"] if spec.get("output") == "features" else channels
    if kind == "local_contrast_norm":
        return LocalContrastNorm(spec["window"], spec.get("floor", 0.01)), channels
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
    if x.dim() > 2:
        modules.append(InOurOrder())
    return nn.Sequential(*modules)


def parameters(case, model):
    """(name, tensor) in our arena's order."""
    counts = {}
    for spec, made in zip(case["layers"], model):
        kind = spec["type"]
        counts[kind] = counts.get(kind, 0) + 1
        for name, ours in (("weight", "gamma"), ("bias", "beta"), ("decoder", "")):
            if hasattr(made, name):
                yield f"{kind}{counts[kind]} {ours if kind.endswith('norm') else name}", getattr(made, name)


def run(case, dtype):
    """One case in one precision: the parameters' starts and the results."""
    model = network(case).to(dtype)
    starts = [common.start(name, tensor, salt)
              for salt, (name, tensor) in enumerate(parameters(case, model), case["first_salt"])]
    for (_, tensor), entry in zip(parameters(case, model), starts):
        common.fill(tensor, entry)
    shape = (case["rows"], *case["size"], 3)
    values = common.formula(np.prod(shape), **common.INPUT)
    x = common.channels_first(values, shape).to(dtype)
    outputs = model(x).shape[1]
    target = values if case.get("target") == "input" else common.formula(case["rows"] * outputs, **common.TARGET)
    target = torch.from_numpy(target).to(dtype).reshape(case["rows"], outputs)
    return starts, common.record(case, model, list(parameters(case, model)), [], x, target)


if __name__ == "__main__":
    torch.set_num_threads(1)  # one order of summation
    common.write_all("golden_layers.json", CASES, run)
