"""Makes the numbers that tests/unit/test_peer_torch_cosmoflow.cpp compares with: golden_cosmoflow.json beside this file.

    .venv-peers/bin/python tests/peers/torch/golden_cosmoflow.py

golden_common.py says how. These are the two CosmoFlow networks with dropout off.
"""
import numpy as np
import torch
from torch.nn import functional as F

import golden_common as common
from cosmoflow import CONVS, DENSE, POOLED, CosmoFlow, CosmoFlowMlperf

NETWORKS = {"cosmoflow": CosmoFlow, "cosmoflow_mlperf": CosmoFlowMlperf}

# A bias before a batch norm has gradient zero but for rounding, and Adam with its usual epsilon makes full steps out of
# rounding. A large epsilon leaves them small.
ADAM = {"name": "adam", "learning_rate": 1e-2, "epsilon": 0.1}
SGD = {"name": "sgd", "learning_rate": 1e-2, "momentum": 0.9}
SMALL = {"preset": "cosmoflow", "size": [16, 8, 12], "convs": [4, 6, 8, 8, 10, 8, 6], "dense": [24, 12, 4], "pooled": 2,
         "rows": 6, "steps": 6, "entries": 96}
# first_salt is chosen so that no ReLU's input, and no runner-up of a max pooling window, is so near that rounding
# decides (margin() checks that). In the small cases the strided convolution gets sizes 4, 2 and 3: padded after alone,
# and on both sides. The full network has 20 million ReLU inputs, and rounding decides a few of them: its float32
# deviations say how much that matters (up to 4e-3 in gradients of the first layers).
SMALLEST_MARGIN = 1e-5  # relative; float32 rounding is a few 1e-7
CASES = [
    {"name": "adam", **SMALL, "optimizer": ADAM, "first_salt": 380},
    {"name": "sgd", **SMALL, "optimizer": SGD, "first_salt": 240},
    {"name": "mlperf", "preset": "cosmoflow_mlperf", "size": [16, 8, 12], "convs": [4, 6, 8, 8, 6], "dense": [12, 8, 4],
     "pooled": 2, "rows": 6, "steps": 6, "optimizer": ADAM, "first_salt": 340, "entries": 96},
    {"name": "full", "preset": "cosmoflow", "size": [64, 64, 64], "convs": CONVS, "dense": DENSE, "pooled": POOLED,
     "rows": 4, "steps": 0, "optimizer": ADAM, "first_salt": 400, "entries": 32},
]


def parameters(model):
    """(name, tensor) in our arena's order."""
    norms = list(model.norms)
    if norms:
        yield "batch_norm1 gamma", norms[0].weight
        yield "batch_norm1 beta", norms[0].bias
    for i, conv in enumerate(model.convs, 1):
        yield f"conv{i} weight", conv.weight
        yield f"conv{i} bias", conv.bias
        if norms:
            yield f"batch_norm{i + 1} gamma", norms[i].weight
            yield f"batch_norm{i + 1} beta", norms[i].bias
    for i, dense in enumerate(model.denses, 1):
        yield f"dense{i} weight", dense.weight
        yield f"dense{i} bias", dense.bias


@torch.no_grad()
def margin(model, x):
    """Smallest distance, relative to its layer's largest, of a ReLU's input from zero, and of a max pooling winner from
    the runner-up."""
    smallest = np.inf
    *layers, flat = model.before_relu(x)
    for i, y in enumerate(layers):
        distance = y.abs().min()
        if isinstance(model, CosmoFlowMlperf) and i < model.pooled:
            windows = y.unfold(2, 2, 2).unfold(3, 2, 2).unfold(4, 2, 2).flatten(5)
            first, second = windows.topk(2, dim=5).values.unbind(5)
            distance = torch.minimum(distance, (first - second).min())
        smallest = min(smallest, (distance / y.abs().max()).item())
    for dense in model.denses[:-1]:
        y = dense(flat)
        smallest = min(smallest, (y.abs().min() / y.abs().max()).item())
        flat = torch.relu(y) if model.norms else F.leaky_relu(y, 0.3)
    return smallest


def build(case, dtype):
    """The model with its parameters' starts, and x."""
    model = NETWORKS[case["preset"]](case["size"], case["convs"], case["dense"], case["pooled"], dropout=0.0).to(dtype)
    starts = [common.start(name, tensor, salt)
              for salt, (name, tensor) in enumerate(parameters(model), case["first_salt"])]
    for (_, tensor), entry in zip(parameters(model), starts):
        common.fill(tensor, entry)
    shape = (case["rows"], *case["size"], 4)
    return model, starts, common.channels_first(common.formula(np.prod(shape), **common.INPUT), shape).to(dtype)


def run(case, dtype):
    """One case in one precision: the parameters' starts and the results."""
    model, starts, x = build(case, dtype)
    target = common.formula(case["rows"] * case["dense"][-1], **common.TARGET)
    target = torch.from_numpy(target).to(dtype).reshape(case["rows"], -1)
    norms = [(f"batch_norm{i}", norm) for i, norm in enumerate(model.norms, 1)]
    return starts, common.record(case, model, list(parameters(model)), norms, x, target)


def zero_gradients(case, exact):
    """Scales for what is zero but for rounding, the gradients of biases before a batch norm: as large as the same
    convolution's weights' gradients."""
    if case["preset"] != "cosmoflow":
        return {}
    return {f"gradient conv{i} bias": float(np.abs(exact[f"gradient conv{i} weight"]).max())
            for i in range(1, 1 + len(case["convs"]))}


def main():
    cases = []
    for case in CASES:
        model, _, x = build(case, torch.float64)
        case["margin"] = float(f"{margin(model, x):.1g}")
        print(f"{case['name']:6} margin {case['margin']}")
        if case["steps"] and case["margin"] < SMALLEST_MARGIN:
            raise SystemExit(f"golden_cosmoflow: {case['name']} is ill conditioned, choose another first_salt")
        starts, exact = run(case, torch.float64)
        _, single = run(case, torch.float32)
        cases.append(common.stored_case(case, starts, exact, single, zero_gradients(case, exact)))
    common.write("golden_cosmoflow.json", cases)


if __name__ == "__main__":
    torch.set_num_threads(1)  # one order of summation
    main()
