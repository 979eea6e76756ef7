"""A network that `mrmf export --format safetensors` wrote, as a PyTorch module. Input and output have their channels last,
as mrmf's files have; normalisation of samples and labels is inside.

    network = load("mine.safetensors").eval()
    outputs = network(torch.from_numpy(samples))
    save(network, "trained-on.safetensors")  # mrmf import takes it back

python3 jobs/load_safetensors.py FILE prints the layers. Needs PyTorch alone.
"""
import json
import math
import struct
import sys

import torch
from torch import nn
from torch.nn import functional as F


def normalised(x, by):
    """Of numbers with channels last, in double: a large mean would leave few digits of a float. NaN is a missing number;
    with a mask, one more channel says where all are there."""
    missing = torch.isnan(x)
    x = torch.log1p(x.double()) if by["log1p"] else x.double()
    x = x * tensor(by["scale"], x) + tensor(by["shift"], x) if by["scale"] else x
    if by.get("fill"):
        x = torch.where(missing, tensor(by["fill"], x), x)
    if by.get("mask"):
        x = torch.cat([x, 1 - missing.any(-1, keepdim=True).double()], -1)
    return x.float()


def original(y, by):
    y = (y.double() - tensor(by["shift"], y)) / tensor(by["scale"], y) if by["scale"] else y.double()
    return (torch.expm1(y) if by["log1p"] else y).float()


def tensor(numbers, beside):
    return torch.tensor(numbers, dtype=torch.float64, device=beside.device)


def pads(before, after, sign=1):
    """As F.pad wants them: the last axis first."""
    return [sign * size for pair in zip(reversed(before), reversed(after)) for size in pair]


def fields(shape, layer):
    """The elements of a sample (positions..., channels) that each position's field has: (positions, kernel and channels)."""
    axes, of = len(shape) - 1, torch.arange(math.prod(shape)).reshape(shape)
    for axis, (size, stride) in enumerate(zip(layer["kernel"], layer["stride"])):
        of = of.unfold(axis, size, stride)
    return of.movedim(axes, -1).flatten(axes).flatten(0, axes - 1)


def contrast_normalised(x, layer):
    """x less the mean over all channels of a window, weighted by distance, divided by the deviation of that there."""
    axes, weights = x.dim() - 2, torch.ones(1, dtype=x.dtype, device=x.device)
    for size in layer["window"]:
        along = torch.exp(-(torch.arange(size, device=x.device) - size // 2).to(x.dtype).div(size / 4).square() / 2)
        weights = weights.unsqueeze(-1) * along
    half = [size // 2 for size in layer["window"]]

    def mean(values):
        sums = [getattr(F, f"conv{axes}d")(v, weights[None], padding=half) for v in (values, torch.ones_like(values))]
        return sums[0] / sums[1]

    left = x - mean(x.mean(1, keepdim=True))
    return left / mean(left.square().mean(1, keepdim=True)).sqrt().clamp(min=layer["floor"])


class Network(nn.Module):
    """Parameters keep mrmf's order, filters (out, kernel..., in), so that they can be saved as they are."""

    def __init__(self, metadata, tensors):
        super().__init__()
        self.metadata, self.what, self.names = metadata, json.loads(metadata["network"]), {}
        for i, layer in enumerate(self.what["layers"]):
            for name in [name for name in tensors if name.rpartition(".")[0] == layer["name"]]:
                part = f"{name.rpartition('.')[2]}_{i}"
                self.names[name] = part
                if part.startswith("running_"):
                    self.register_buffer(part, tensors[name])
                else:
                    self.register_parameter(part, nn.Parameter(tensors[name]))

    def forward(self, x):
        x = normalised(x, self.what["samples"])
        if self.what["reinterpret"]:
            x = x.reshape(len(x), x.shape[-1], *x.shape[1:-1])
        outputs = [x if self.what["reinterpret"] else x.movedim(-1, 1)]
        for i, layer in enumerate(self.what["layers"]):
            outputs.append(self.run(i, layer, [outputs[number] for number in layer["reads"]]))
        return original(outputs[-1].movedim(1, -1), self.what["labels"])

    def run(self, i, layer, inputs):
        kind, x, axes = layer["type"], inputs[0], inputs[0].dim() - 2

        def part(name):
            return getattr(self, f"{name}_{i}")

        def of_axes(name):
            return getattr(F, f"{name}{axes}d")

        if kind == "conv":
            return of_axes("conv")(F.pad(x, pads(layer["pad_before"], layer["pad_after"])),
                                   part("weight").movedim(-1, 1), part("bias"), layer["stride"],
                                   dilation=layer["dilation"])
        if kind == "conv_transpose":
            w = part("weight").movedim(-1, 1)
            whole = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in
                     zip(x.shape[2:], layer["stride"], w.shape[2:], layer["dilation"])]
            behind = [max(0, out + b + a - n) for out, b, a, n in
                      zip(layer["out"], layer["pad_before"], layer["pad_after"], whole)]
            y = of_axes("conv_transpose")(x, w, part("bias"), layer["stride"], 0, behind, 1, layer["dilation"])
            return F.pad(y, pads(layer["pad_before"], layer["pad_after"], -1))
        if kind in ("locally_connected", "rica"):
            w, x = part("weight"), x.movedim(1, -1)
            inputs_of = fields(x.shape[1:], layer)
            z = torch.einsum("npk,pok->npo", x.flatten(1)[:, inputs_of], w.flatten(axes + 1).flatten(0, axes - 1))
            if kind == "locally_connected":
                return (z.unflatten(1, w.shape[:axes]) + part("bias")).movedim(-1, 1)
            if layer.get("output") == "features":
                return z.unflatten(1, w.shape[:axes]).movedim(-1, 1)
            back = getattr(self, f"decoder_{i}", w).flatten(axes + 1).flatten(0, axes - 1)
            parts = torch.einsum("npo,pok->npk", z, back).flatten(1)
            y = torch.zeros_like(x.flatten(1)).index_add(1, inputs_of.flatten(), parts)
            return y.unflatten(1, x.shape[1:]).movedim(-1, 1)
        if kind == "l2_pool":
            sums = of_axes("avg_pool")(x * x, layer["window"], layer["stride"]) * math.prod(layer["window"])
            return (sums.unflatten(1, (-1, layer["pooled"])).sum(2) + layer["epsilon"]).sqrt()
        if kind == "local_contrast_norm":
            return contrast_normalised(x, layer)
        if kind in ("max_pool", "average_pool"):
            return of_axes(kind.replace("average", "avg"))(x, layer["window"], layer["stride"])
        if kind == "upsample":
            mode = ("linear", "bilinear", "trilinear")[axes - 1] if layer["mode"] == "linear" else "nearest"
            return F.interpolate(x, scale_factor=[float(factor) for factor in layer["factor"]], mode=mode)
        if kind == "batch_norm":
            return F.batch_norm(x, part("running_mean"), part("running_variance"), part("gamma"), part("beta"),
                                self.training, layer["momentum"], layer["epsilon"])
        if kind in ("group_norm", "layer_norm"):
            return F.group_norm(x, layer["groups"], part("gamma"), part("beta"), layer["epsilon"])
        if kind == "dense":
            return F.linear(x, part("weight"), part("bias"))
        if kind == "slice":
            return x[:, layer["first"]:layer["first"] + layer["channels"]]
        if kind == "stop_gradient":
            return x.detach()
        if kind == "dropout":
            return F.dropout(x, layer["rate"], self.training)
        return {"global_average_pool": lambda: x.flatten(2).mean(2), "flatten": lambda: x.movedim(1, -1).flatten(1),
                "leaky_relu": lambda: F.leaky_relu(x, layer["slope"]), "tanh": lambda: layer["scale"] * torch.tanh(x),
                "add": lambda: sum(inputs[1:], x), "concat": lambda: torch.cat(inputs, 1)}.get(
                    kind, lambda: getattr(F, kind)(x))()


def load(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)
    metadata, tensors = header.pop("__metadata__"), {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        tensors[name] = data[first // 4:last // 4].reshape(entry["shape"]).clone()
    return Network(metadata, tensors)


def save(network, path):
    header, data = {"__metadata__": network.metadata}, b""
    for name, part in network.names.items():
        values = getattr(network, part).detach().float().contiguous().cpu().numpy()
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


if __name__ == "__main__":
    for each in load(sys.argv[1]).what["layers"]:
        print(each)
