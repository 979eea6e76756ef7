"""Pictures of runs, by matplotlib."""

from __future__ import annotations

import io
from itertools import accumulate, groupby
from typing import Any, Dict, List, Mapping

from matplotlib.figure import Figure

Epochs = List[Dict[str, Any]]


class Picture(Figure):
    """A figure that notebooks show wherever it comes from: they know of pyplot's alone by themselves."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png")
        return content.getvalue()


def losses(epochs: Epochs, ylabel: str, title: str) -> Picture:
    """Training and validation loss over epochs, with a line where the plan continues to another role."""
    picture = Picture(figsize=(7, 4), layout="constrained")
    axes = picture.add_subplot()
    for key, label in (("train_loss", "training"), ("validation_loss", "validation")):
        axes.plot(range(1, len(epochs) + 1), [_or_nan(epoch[key]) for epoch in epochs], marker=".", label=label)
    for number in range(1, len(epochs)):
        if epochs[number]["role"] != epochs[number - 1]["role"]:
            axes.axvline(number + 0.5, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xlabel="epoch", ylabel=ylabel, title=title)
    axes.legend()
    return picture


def costs(runs: Mapping[str, Epochs]) -> Picture:
    """Validation losses of runs, by their names, over the arithmetic that training cost. Coarse phases are dotted."""
    picture = Picture(figsize=(7, 4), layout="constrained")
    axes = picture.add_subplot()
    for number, (name, epochs) in enumerate(runs.items()):
        spent = zip(accumulate(epoch["gflop"] for epoch in epochs), epochs)
        for (_, role), phase in groupby(spent, key=lambda one: (one[1]["stage"], one[1]["role"])):
            points = [(cost, _or_nan(epoch["validation_loss"])) for cost, epoch in phase]
            axes.plot(*zip(*points), marker=".", color=f"C{number}", linestyle=":" if role in ("coarse", "dense") else "-",
                      label=name)
            name = "_"  # in the legend once
    axes.set(xlabel="arithmetic of training (GFLOP)", ylabel="validation loss", yscale="log")
    axes.legend()
    return picture


def _or_nan(value: Any) -> float:
    return float("nan") if value is None else value
