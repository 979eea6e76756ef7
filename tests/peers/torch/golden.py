"""Makes the numbers that tests/unit/test_peer_torch.cpp compares with: golden.json beside this file.

    .venv-peers/bin/python tests/peers/torch/golden.py

Weights, inputs and targets come from an integer formula that both sides evaluate exactly, so only results are stored.
Everything is in our layout: activations (n, t, c), filters (out, k, in), flat feature = t * channels + c.
PyTorch runs in float64 (the stored numbers) and in float32; `float32_deviation` is how far the second is from the
first, relative to the largest magnitude of the tensor: the yardstick for the test's tolerances.
"""
import json
import pathlib
import re

import numpy as np
import torch

from network import FULL, POOL, NeuronInverter

# first_salt and conv_bias (the mean of the convolutions' biases) are chosen so that the cases are well conditioned:
# features of the batch norm are on for some rows and off for others, none with so small a deviation that it amplifies
# rounding; no two positions of a pooling window are so close, and no pooled value so near zero, that rounding decides
# which one gets the gradient (margin() checks that). In the small case the float32 run stays within 2e-6 of the float64
# run even after ten Adam steps. (Where every row keeps a ReLU on, the bias before the batch norm has gradient zero but
# for rounding, and Adam makes full steps out of rounding.)
SMALLEST_MARGIN = 2e-6  # relative to the layer's largest output; float32 rounding there was seen to reach 6e-7
CASES = [
    {"name": "small", "length": 256, "channels": [3, 6, 10, 12], "dense": [32, 32, 32, 16, 8, 19],
     "rows": 16, "steps": 10, "conv_bias": -2.0, "first_salt": 260, "entries": 2000},
    {"name": "full", **FULL, "rows": 6, "steps": 0, "conv_bias": 1.0, "first_salt": 6610, "entries": 32},
]
TRAINED_ENTRIES = 256  # stored entries per tensor after training; "entries" is the same before
INPUT = {"salt": 1, "scale": 4.0, "offset": 0.0}
TARGET = {"salt": 2, "scale": 2.0, "offset": 0.0}
ADAM = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8}


def formula(count, salt, scale, offset):
    """offset + scale * (u - 1/2), u the top 20 bits of a 32-bit mix of the index: exact in float32 for the powers of
    two used here. (The mix is Ellis & Wellons' lowbias32.)"""
    h = np.arange(count, dtype=np.uint32) + np.uint32((salt * 0x9E3779B9) & 0xFFFFFFFF)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x7FEB352D)
    h ^= h >> np.uint32(15)
    h *= np.uint32(0x846CA68B)
    h ^= h >> np.uint32(16)
    return offset + scale * ((h >> np.uint32(12)).astype(np.float64) * 2.0**-20 - 0.5)


def to_ours(tensor):
    """A parameter or its gradient as a flat array in our order: filters (out, in, k) become (out, k, in)."""
    array = tensor.detach().double().numpy().copy()  # not a view: the next step overwrites it
    return (array.transpose(0, 2, 1) if array.ndim == 3 else array).reshape(-1)


def parameters(model):
    """(name, tensor) in our arena's order."""
    for i, conv in enumerate(model.convs):
        yield f"conv{i + 1} weight", conv.weight
        yield f"conv{i + 1} bias", conv.bias
    yield "batch_norm gamma", model.norm.weight
    yield "batch_norm beta", model.norm.bias
    for i, dense in enumerate(model.denses):
        yield f"dense{i + 1} weight", dense.weight
        yield f"dense{i + 1} bias", dense.bias


def start(name, tensor, salt, conv_bias):
    """Where a parameter's entries start: the formula's salt, scale and offset."""
    scale = 0.25
    offset = 1.0 if name.endswith("gamma") else conv_bias if name.startswith("conv") else 0.0
    if tensor.ndim > 1:  # about He's uniform bound, rounded to a power of two
        fan_in = tensor[0].numel()
        offset, scale = 0.0, 2.0 ** round(np.log2(2 * np.sqrt(6 / fan_in)))
    return {"name": name, "count": tensor.numel(), "salt": salt, "scale": scale, "offset": offset}


def fill(tensor, entry):
    values = formula(entry["count"], entry["salt"], entry["scale"], entry["offset"])
    if tensor.ndim == 3:
        out, inner, k = tensor.shape
        values = values.reshape(out, k, inner).transpose(0, 2, 1)
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(values.reshape(tensor.shape).copy()))


@torch.no_grad()
def margin(model, x):
    """Smallest distance, relative to its layer's largest output, of a pooling winner from the runner-up (where the ReLU
    lets it pass) and of a pooled value from the ReLU's kink."""
    smallest = np.inf
    for conv in model.convs:
        y = conv(x)
        windows = y[:, :, : y.shape[2] // POOL * POOL].unflatten(2, (-1, POOL))
        first, second = windows.topk(2, dim=3).values.unbind(3)
        distance = torch.minimum((first - second)[first > 0].min(), first.abs().min())
        smallest = min(smallest, (distance / y.abs().max()).item())
        x = torch.relu(model.pool(y))
    return smallest


def run(case, dtype):
    """One case in one precision: the parameters' starts and {key: array} in the order in which it happens."""
    rows, steps = case["rows"], case["steps"]
    model = NeuronInverter(case["length"], case["channels"], case["dense"], dropout=0.0).to(dtype)
    starts = [start(name, tensor, salt, case["conv_bias"])
              for salt, (name, tensor) in enumerate(parameters(model), case["first_salt"])]
    for (_, tensor), entry in zip(parameters(model), starts):
        fill(tensor, entry)
    x = torch.from_numpy(formula(rows * case["length"] * 3, **INPUT)).to(dtype)
    x = x.reshape(rows, case["length"], 3).transpose(1, 2).contiguous()
    if dtype == torch.float64:
        print(f"{case['name']:6} margin {margin(model, x):.1e}")
        if margin(model, x) < SMALLEST_MARGIN:
            raise SystemExit(f"golden: {case['name']} is ill conditioned, choose another first_salt")
    target = torch.from_numpy(formula(rows * case["dense"][-1], **TARGET)).to(dtype).reshape(rows, -1)
    loss_of = torch.nn.MSELoss()
    optimizer = torch.optim.Adam(model.parameters(), **ADAM)
    result, losses = {}, []

    def evaluate():
        model.eval()
        with torch.no_grad():
            y = model(x)
        model.train()
        return y.double().numpy().reshape(-1)

    for step in range(max(steps, 1)):
        optimizer.zero_grad()
        y = model(x)
        loss = loss_of(y, target)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            result["output"] = y.detach().double().numpy().reshape(-1)
            for name, tensor in parameters(model):
                result["gradient " + name] = to_ours(tensor.grad)
            result["running mean"] = to_ours(model.norm.running_mean)
            result["running variance"] = to_ours(model.norm.running_var)
            result["evaluation output"] = evaluate()
        if steps:
            optimizer.step()
    result["losses"] = np.array(losses)
    if steps:
        for name, tensor in parameters(model):
            result["trained " + name] = to_ours(tensor)
        result["trained running mean"] = to_ours(model.norm.running_mean)
        result["trained running variance"] = to_ours(model.norm.running_var)
        result["trained evaluation output"] = evaluate()
    return starts, result


def stored(exact, single, limit):
    """Every stride-th entry, the whole tensor's norms and the float32 run's deviation."""
    largest = float(np.abs(exact).max())
    stride = -(-exact.size // limit)
    return {
        "count": exact.size,
        "stride": stride,
        "largest": float(f"{largest:.10g}"),
        "norm": float(f"{np.linalg.norm(exact):.10g}"),
        "float32_deviation": float(f"{np.abs(single - exact).max() / largest:.2g}"),
        "values": [float(f"{v:.9g}") for v in exact[::stride]],
    }


def main():
    cases = []
    for case in CASES:
        starts, exact = run(case, torch.float64)
        _, single = run(case, torch.float32)
        results = {}
        for key, values in exact.items():
            limit = TRAINED_ENTRIES if key.startswith("trained") else case["entries"]
            results[key] = stored(values, single[key], limit)
            print(f"{case['name']:6} {key:32} largest {results[key]['largest']:.3e}"
                  f"  float32 deviation {results[key]['float32_deviation']:.1e}")
        cases.append({**case, "parameters": starts, "results": results})
    golden = {"torch": torch.__version__, "adam": ADAM, "input": INPUT, "target": TARGET, "cases": cases}
    path = pathlib.Path(__file__).with_name("golden.json")
    text = json.dumps(golden, indent=1)
    # One line per list of numbers.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", "", m.group(1)) + "]", text)
    path.write_text(text + "\n")
    print(f"{path}: {path.stat().st_size} bytes, PyTorch {torch.__version__}")


if __name__ == "__main__":
    torch.set_num_threads(1)  # one order of summation
    main()
