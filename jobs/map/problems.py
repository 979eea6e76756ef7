"""The problems of the map: how their data are made, the tuned configuration, and what a method sets in it."""
import dataclasses
import json
import pathlib
import re
import sys

JOBS = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.append(str(JOBS / "reproduce"))
from runs import published_split  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Problem:
    config: pathlib.Path
    simulate: tuple        # arguments of `mrmf simulate` but --samples
    axes: int
    folder: bool = False   # the simulator writes a folder of files and data.toml, not one file


PROBLEMS = {
    "cubes": Problem(JOBS / "demo/cubes.toml",
                     ("cosmology", "--size", "32", "--box", "256", "--method", "lpt"), 3, folder=True),
    "neuron": Problem(JOBS / "demo/neuron.toml", ("neuron", "--cells", "8"), 1),
    "heat": Problem(JOBS / "fields/workstation.toml", ("fields", "--kind", "heat"), 2),
    "texture": Problem(JOBS / "fields/workstation.toml", ("fields", "--kind", "texture"), 2),
}


def simulate_words(problem, samples, output):
    """Arguments of the program that make a problem's data."""
    return ["simulate", *problem.simulate, "--samples", str(samples), "--seed", "1", "--output", str(output)]


def data_words(problem, output):
    """KEY=VALUE words that point a run to these data."""
    if not problem.folder:
        return [f"data.files={json.dumps([str(output)])}"]
    train, validation = (json.dumps([str(file) for file in files]) for files in published_split(output / "data.toml"))
    return [f"data.files={train}", f"data.validation.files={validation}"]


def method_words(problem, method, epochs):
    """KEY=VALUE words of a method, where a baseline would get so many epochs. The methods between the baseline and auto
    differ in what they hand over: they have a coarse phase of as many epochs, and a last one of a third."""
    half, full = json.dumps([2] * problem.axes), json.dumps([1] * problem.axes)
    two = [f"method.resolutions=[{half},{full}]", "method.coarse.rule=constant"]
    lengths = [f"method.stop.coarse.epochs={epochs}", f"method.stop.finetune.epochs={max(1, round(epochs / 3))}"]
    if method in ("baseline", "auto"):
        return [f"method.name={method}"]
    if method in ("mrt", "progressive"):
        return [f"method.name={method}", *two, *lengths]
    if re.fullmatch(r"\d+\+\d+", method):  # as auto, with these epochs in its two phases
        coarse, fine = method.split("+")
        return ["method.name=mrmf", "method.top=interpolated", *two, f"method.stop.coarse.epochs={coarse}",
                f"method.stop.finetune.epochs={fine}", "training.precise_batch_norm=64"]
    if method == "interpolated":
        return ["method.name=mrmf", "method.top=interpolated", *two, *lengths]
    if method == "paper":  # one fusion with the stop rule of section 3.2, which may take as many epochs as a baseline
        rule = [f"method.stop.{part}={{epochs={epochs},threshold=2e-4,patience=3}}" for part in ("coarse", "dense")]
        return ["method.name=mrmf", "method.top=dense", *two, "method.dense.rule=constant", *rule,
                f"method.stop.finetune.epochs={epochs}"]
    raise SystemExit(f"map: no method '{method}'")
