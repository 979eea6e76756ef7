"""Makes the numbers that tests/unit/test_peer_torch.cpp compares with: golden.json beside this file.

    .venv-peers/bin/python tests/peers/torch/golden.py

golden_common.py says how. This is the Neuron Inverter network.
"""
import numpy as np
import torch

import golden_common as common
from network import FULL, POOL, NeuronInverter

# first_salt and conv_bias (the mean of the convolutions' biases) are chosen so that the cases are well conditioned:
# features of the batch norm are on for some rows and off for others, none with so small a deviation that it amplifies
# rounding; no two positions of a pooling window are so close, and no pooled value so near zero, that rounding decides
# which one gets the gradient (margin() checks that). In the small case the float32 run stays within 2e-6 of the float64
# run even after ten Adam steps. (Where every row keeps a ReLU on, the bias before the batch norm has gradient zero but
# for rounding, and Adam makes full steps out of rounding.)
SMALLEST_MARGIN = 2e-6  # relative to the layer's largest output; float32 rounding there was seen to reach 6e-7
ADAM = {"name": "adam", "learning_rate": 1e-3, "epsilon": 1e-8}
CASES = [
    {"name": "small", "length": 256, "channels": [3, 6, 10, 12], "dense": [32, 32, 32, 16, 8, 19],
     "rows": 16, "steps": 10, "optimizer": ADAM, "conv_bias": -2.0, "first_salt": 260, "entries": 2000},
    {"name": "full", **FULL, "rows": 6, "steps": 0, "optimizer": ADAM, "conv_bias": 1.0, "first_salt": 6610,
     "entries": 32},
]


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
    """One case in one precision: the parameters' starts and the results."""
    rows = case["rows"]
    model = NeuronInverter(case["length"], case["channels"], case["dense"], dropout=0.0).to(dtype)
    starts = [common.start(name, tensor, salt, case["conv_bias"] if name.startswith("conv") else 0.0)
              for salt, (name, tensor) in enumerate(parameters(model), case["first_salt"])]
    for (_, tensor), entry in zip(parameters(model), starts):
        common.fill(tensor, entry)
    shape = (rows, case["length"], 3)
    x = common.channels_first(common.formula(np.prod(shape), **common.INPUT), shape).to(dtype)
    if dtype == torch.float64:
        print(f"{case['name']:6} margin {margin(model, x):.1e}")
        if margin(model, x) < SMALLEST_MARGIN:
            raise SystemExit(f"golden: {case['name']} is ill conditioned, choose another first_salt")
    target = torch.from_numpy(common.formula(rows * case["dense"][-1], **common.TARGET)).to(dtype).reshape(rows, -1)
    norms = [("batch_norm", model.norm)]
    return starts, common.record(case, model, list(parameters(model)), norms, x, target)


if __name__ == "__main__":
    torch.set_num_threads(1)  # one order of summation
    common.write_all("golden.json", CASES, run)
