"""Makes the numbers that tests/unit/test_peer_torch_losses.cpp compares with: golden_losses.json beside this file.

    .venv-peers/bin/python tests/peers/torch/golden_losses.py

Losses and gradients in float64, of small outputs that the file holds, too. `mean` says that PyTorch's own
reduction = "mean" over the whole mini-batch was taken; elsewhere ours, a mean per sample first (docs/losses.md).
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import golden_common as common

# rows, positions, channels
CASES = [
    {"name": "classes", "loss": [{"kind": "cross_entropy"}], "shape": [7, 1, 5], "mean": True},
    {"name": "classes of positions", "loss": [{"kind": "cross_entropy"}], "shape": [3, 6, 4], "mean": True},
    {"name": "weights and ignored labels", "loss": [{"kind": "cross_entropy", "weight": 0.5}], "shape": [3, 6, 4],
     "class_weights": [1, 2, 0.25, 4], "ignore": True},
    {"name": "cross-entropy and dice", "loss": [{"kind": "cross_entropy"}, {"kind": "dice", "weight": 2, "smooth": 0.5}],
     "shape": [2, 9, 3], "class_weights": [1, 2, 0.25], "ignore": True},
    {"name": "yes or no", "loss": [{"kind": "binary_cross_entropy"}], "shape": [5, 1, 4], "mean": True},
    {"name": "yes or no of positions and dice", "loss": [{"kind": "binary_cross_entropy"}, {"kind": "dice"}],
     "shape": [2, 8, 2], "ignore": True},
    {"name": "huber", "loss": [{"kind": "huber", "delta": 0.75}], "shape": [4, 1, 6], "mean": True},
    {"name": "mse and mae of positions", "loss": [{"kind": "mse"}, {"kind": "mae", "weight": 0.25}], "shape": [2, 5, 3],
     "mean": True},
    {"name": "focal of classes", "loss": [{"kind": "cross_entropy", "gamma": 2}], "shape": [3, 6, 4],
     "class_weights": [1, 2, 0.25, 4], "ignore": True},
    {"name": "focal of yes or no", "loss": [{"kind": "binary_cross_entropy", "gamma": 1.5}], "shape": [2, 8, 2],
     "ignore": True},
]


def of_classes(case):
    kinds = {term["kind"] for term in case["loss"]}
    return "cross_entropy" in kinds


def numbers(case, salt):
    rows, positions, channels = case["shape"]
    y = common.formula(rows * positions * channels, salt, 8.0, 0.0).reshape(case["shape"])
    if of_classes(case):
        target = np.floor(common.formula(rows * positions, salt + 1, 1.0, 0.5) * channels).reshape(rows, positions, 1)
    else:
        target = common.formula(y.size, salt + 1, 1.0, 0.5).reshape(case["shape"])
    if case.get("ignore"):
        target.reshape(-1)[::5] = -1
    return y, target


def dice(p, t, counted, term, weights):
    """Of one sample: (positions, classes)."""
    smooth = term.get("smooth", 1.0)
    overlap = (2 * (p * t).sum(0) + smooth) / ((p * counted).sum(0) + t.sum(0) + smooth)
    return 1 - (weights * overlap).sum() / weights.sum()


def of_sample(case, term, y, target, weights):
    kind, counted = term["kind"], (target >= 0).double()
    if of_classes(case):
        labels = torch.where(counted > 0, target, 0.0).long()[:, 0]
        if kind == "cross_entropy":
            losses = F.cross_entropy(y, labels, weight=weights, reduction="none") * counted[:, 0]
            right = torch.exp(-F.cross_entropy(y, labels, reduction="none"))
            losses = losses * (1 - right) ** term.get("gamma", 0)
            return losses.sum() / counted.sum()
        one_hot = F.one_hot(labels, y.shape[1]) * counted
        return dice(torch.softmax(y, 1), one_hot, counted, term, weights)
    if kind == "binary_cross_entropy":
        losses = F.binary_cross_entropy_with_logits(y, target, weight=weights, reduction="none") * counted
        if term.get("gamma"):  # labels are shares: each side has its own probability
            p, yes, no = torch.sigmoid(y), -F.logsigmoid(y), -F.logsigmoid(-y)
            losses = weights * counted * (target * (1 - p) ** term["gamma"] * yes + (1 - target) * p ** term["gamma"] * no)
        return losses.sum() / counted.sum()
    if kind == "dice":
        return dice(torch.sigmoid(y), target * counted, counted, term, weights)
    return of_numbers(term, y, target)


def of_numbers(term, y, target):
    if term["kind"] == "huber":
        return F.huber_loss(y, target, delta=term["delta"])
    return {"mse": F.mse_loss, "mae": F.l1_loss}[term["kind"]](y, target)


def whole_batch(term, y, target):
    """PyTorch's own mean."""
    if term["kind"] == "cross_entropy":
        return F.cross_entropy(y.flatten(0, 1), target.flatten().long())
    if term["kind"] == "binary_cross_entropy":
        return F.binary_cross_entropy_with_logits(y, target)
    return of_numbers(term, y, target)


def run(case, salt):
    y, target = numbers(case, salt)
    outputs, labels = torch.from_numpy(y).requires_grad_(), torch.from_numpy(target)
    weights = torch.tensor(case.get("class_weights", [1.0] * y.shape[2]), dtype=torch.float64)
    loss = 0
    for term in case["loss"]:
        if case.get("mean"):
            value = whole_batch(term, outputs, labels)
        else:
            value = sum(of_sample(case, term, outputs[row], labels[row], weights) for row in range(len(y))) / len(y)
        loss = loss + term.get("weight", 1.0) * value
    loss.backward()
    short = lambda values: [float(f"{v:.9g}") for v in np.asarray(values).reshape(-1)]
    return {**case, "y": short(y), "target": short(target), "value": float(f"{loss.item():.10g}"),
            "gradient": short(outputs.grad.numpy())}


def main():
    cases = [run(case, 40 + 2 * i) for i, case in enumerate(CASES)]
    path = pathlib.Path(__file__).with_name("golden_losses.json")
    lines = ",\n".join(" " + json.dumps(case) for case in cases)
    path.write_text(f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n')
    print(f"{path}: {path.stat().st_size} bytes, PyTorch {torch.__version__}")


if __name__ == "__main__":
    main()
