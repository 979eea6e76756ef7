"""Shared by the scripts that make the numbers of tests/unit/test_peer_torch*.cpp.

Weights, inputs and targets come from an integer formula that both sides evaluate exactly, so only results are stored.
Everything is in our layout: activations (n, positions..., c), filters (out, kernel..., in), flat feature =
position * channels + c. PyTorch runs in float64 (the stored numbers) and in float32; `float32_deviation` is how far the
second is from the first, relative to the largest magnitude of the tensor: the yardstick for the test's tolerances.
"""
import json
import pathlib
import re

import numpy as np
import torch

from golden_formula import formula  # noqa: F401 (the scripts call it by this module)

TRAINED_ENTRIES = 256  # largest number of stored entries per tensor after training; before: a case's "entries"
INPUT = {"salt": 1, "scale": 4.0, "offset": 0.0}
TARGET = {"salt": 2, "scale": 2.0, "offset": 0.0}


def to_ours(tensor):
    """A parameter or its gradient as a flat array in our order: filters (out, in, k...) become (out, k..., in)."""
    array = tensor.detach().double().numpy().copy()  # not a view: the next step overwrites it
    return (np.moveaxis(array, 1, -1) if array.ndim > 2 else array).reshape(-1)


def channels_first(values, shape):
    """Values in our order, of this shape (n, positions..., c), as PyTorch's tensor (n, c, positions...)."""
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(values.reshape(shape), -1, 1)))


def start(name, tensor, salt, bias=0.0):
    """Where a parameter's entries start: the formula's salt, scale and offset."""
    scale = 0.25
    offset = 1.0 if name.endswith("gamma") else bias
    if tensor.ndim > 1:  # about He's uniform bound, rounded to a power of two
        fan_in = tensor[0].numel()
        offset, scale = 0.0, 2.0 ** round(np.log2(2 * np.sqrt(6 / fan_in)))
    return {"name": name, "count": tensor.numel(), "salt": salt, "scale": scale, "offset": offset}


def fill(tensor, entry):
    values = formula(entry["count"], entry["salt"], entry["scale"], entry["offset"])
    if tensor.ndim > 2:
        values = np.moveaxis(values.reshape(tensor.shape[0], *tensor.shape[2:], tensor.shape[1]), -1, 1)
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(values.reshape(tensor.shape).copy()))


def make_optimizer(parameters, settings):
    if settings["name"] == "sgd":
        return torch.optim.SGD(parameters, lr=settings["learning_rate"], momentum=settings["momentum"])
    return torch.optim.Adam(parameters, lr=settings["learning_rate"], betas=(0.9, 0.999), eps=settings["epsilon"])


def record(case, model, parameters, norms, x, target):
    """Forward, loss, gradients, running statistics and evaluation of one step, and what case["steps"] optimizer steps
    lead to: {key: array} in the order in which it happens. `parameters` and `norms` are lists of (name, tensor or
    module) in our arena's order."""
    steps = case["steps"]
    optimizer = make_optimizer(model.parameters(), case["optimizer"])
    result, losses = {}, []

    def keep_state(prefix):
        for name, norm in norms:
            result[f"{prefix}{name} running mean"] = to_ours(norm.running_mean)
            result[f"{prefix}{name} running variance"] = to_ours(norm.running_var)
        model.eval()
        with torch.no_grad():
            result[prefix + "evaluation output"] = model(x).double().numpy().reshape(-1)
        model.train()

    for step in range(max(steps, 1)):
        optimizer.zero_grad()
        y = model(x)
        loss = torch.nn.functional.mse_loss(y, target)
        # Some layers add to what is minimised, but not to the loss that is shown.
        (loss + sum(part.penalty for part in model.modules() if hasattr(part, "penalty"))).backward()
        losses.append(loss.item())
        if step == 0:
            result["output"] = y.detach().double().numpy().reshape(-1)
            for name, tensor in parameters:
                result["gradient " + name] = to_ours(tensor.grad)
            keep_state("")
        if steps:
            optimizer.step()
    result["losses"] = np.array(losses)
    if steps:
        for name, tensor in parameters:
            result["trained " + name] = to_ours(tensor)
        keep_state("trained ")
    return result


def stored(exact, single, limit, scale=None):
    """Every stride-th entry, the whole tensor's norms and the float32 run's deviation. `scale`: what deviations are
    relative to, when it is not the largest magnitude."""
    largest = float(np.abs(exact).max())
    stride = -(-exact.size // limit)
    return {
        "count": exact.size,
        "stride": stride,
        "largest": float(f"{largest:.10g}"),
        **({"scale": float(f"{scale:.4g}")} if scale else {}),
        "norm": float(f"{np.linalg.norm(exact):.10g}"),
        "float32_deviation": float(f"{np.abs(single - exact).max() / (scale or largest):.2g}"),
        "values": [float(f"{v:.9g}") for v in exact[::stride]],
    }


def stored_case(case, starts, exact, single, scales=None):
    """An entry of "cases" from the two runs' results. scales: {key: scale} for stored()."""
    results = {}
    for key, values in exact.items():
        limit = min(TRAINED_ENTRIES, case["entries"]) if key.startswith("trained") else case["entries"]
        results[key] = stored(values, single[key], limit, (scales or {}).get(key))
        print(f"{case['name']:6} {key:36} largest {results[key]['largest']:.3e}"
              f"  float32 deviation {results[key]['float32_deviation']:.1e}")
    return {**case, "parameters": starts, "results": results}


def write(name, cases):
    golden = {"torch": torch.__version__, "input": INPUT, "target": TARGET, "cases": cases}
    path = pathlib.Path(__file__).with_name(name)
    text = json.dumps(golden, indent=1)
    # One line per list of numbers.
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", "", m.group(1)) + "]", text)
    path.write_text(text + "\n")
    print(f"{path}: {path.stat().st_size} bytes, PyTorch {torch.__version__}")


def without_deviations(entry):
    """What every processor computes alike. PyTorch's sums in float32 have another order on another processor."""
    entry = json.loads(json.dumps(entry))
    for result in entry["results"].values():
        del result["float32_deviation"]
    return entry


def write_all(name, cases, run):
    """What run(case, dtype) gives: where parameters start, and what is recorded, in float64 and in float32. A case
    whose numbers are those of the file stays as it is there."""
    path = pathlib.Path(__file__).with_name(name)
    there = {entry["name"]: entry for entry in json.loads(path.read_text())["cases"]} if path.exists() else {}
    entries = []
    for case in cases:
        starts, exact = run(case, torch.float64)
        _, single = run(case, torch.float32)
        entry, before = stored_case(case, starts, exact, single), there.get(case["name"])
        same = before is not None and without_deviations(entry) == without_deviations(before)
        entries.append(before if same else entry)
    write(name, entries)
