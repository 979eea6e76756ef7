"""The problems of the map: how their data are made, the tuned configuration, and what a method sets in it."""
import dataclasses
import json
import pathlib
import re
import sys
import tomllib

EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.append(str(EXPERIMENTS / "reproduce"))
from runs import published_split  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Problem:
    config: pathlib.Path
    simulate: tuple        # arguments of `mrmf simulate` but --samples
    axes: int
    folder: bool = False   # the simulator writes a folder of files and data.toml, not one file
    stem: pathlib.Path | None = None  # the configuration of the network that auto ends with, to be trained by itself
    part: int = 0          # samples of a part, each simulated by itself from a seed of its own; 0: all at once


PROBLEMS = {
    "cubes": Problem(EXPERIMENTS / "demo/cubes.toml",
                     ("cosmology", "--size", "32", "--box", "256", "--method", "lpt"), 3, folder=True),
    "cosmoflow128": Problem(EXPERIMENTS / "cosmoflow/workstation-128.toml",
                            ("cosmology", "--size", "128", "--box", "512", "--method", "lpt"), 3, folder=True, part=40),
    "neuron": Problem(EXPERIMENTS / "demo/neuron.toml", ("neuron", "--cells", "8"), 1, stem=EXPERIMENTS / "map/neuron-front.toml"),
    "heat": Problem(EXPERIMENTS / "fields/heat.toml", ("fields", "--kind", "heat"), 2, stem=EXPERIMENTS / "map/heat-front.toml"),
    "heat-untuned": Problem(EXPERIMENTS / "fields/workstation.toml", ("fields", "--kind", "heat"), 2),
    "heat-init": Problem(EXPERIMENTS / "map/heat-init.toml", ("fields", "--kind", "heat"), 2),
    "neuron-init": Problem(EXPERIMENTS / "map/neuron-init.toml", ("neuron", "--cells", "8"), 1),
    "cubes-init": Problem(EXPERIMENTS / "map/cubes-init.toml", ("cosmology", "--size", "32", "--box", "256", "--method", "lpt"), 3,
                          folder=True),
    "texture": Problem(EXPERIMENTS / "fields/workstation.toml", ("fields", "--kind", "texture"), 2),
}

# Whose trials auto's rules were fitted to (problem, samples); all others are held out and test these rules.
FITTED = (("cubes", 1280), ("neuron", 16000), ("heat", 4000), ("heat", 1000),
          ("heat-untuned", 4000), ("heat-init", 4000))


@dataclasses.dataclass(frozen=True)
class Part:
    """Data that one call of the simulator makes."""
    output: pathlib.Path
    samples: int
    seed: int


def parts(problem, samples, place):
    """The parts of a problem's data; `place` is their name without an ending."""
    if not problem.part:
        return [Part(place if problem.folder else place / "data.h5", samples, 1)]
    if samples % problem.part:
        raise SystemExit(f"map: {place.name}: its data come in parts of {problem.part} samples; use a multiple")
    return [Part(place / f"part-{seed}", problem.part, seed) for seed in range(1, samples // problem.part + 1)]


def simulate_words(problem, part):
    """Arguments of the program that make a part of a problem's data."""
    return ["simulate", *problem.simulate, "--samples", str(part.samples), "--seed", str(part.seed),
            "--output", str(part.output)]


def data_words(problem, made):
    """KEY=VALUE words that point a run to these parts."""
    if not problem.folder:
        return [f"data.files={json.dumps([str(part.output) for part in made])}"]
    splits = zip(*(published_split(part.output / "data.toml") for part in made))
    train, validation = (json.dumps([str(file) for files in split for file in files]) for split in splits)
    return [f"data.files={train}", f"data.validation.files={validation}"]


def config_of(problem, method):
    """The configuration that a method begins with."""
    if method != "frontnet":
        return problem.config
    if not problem.stem:
        raise SystemExit(f"map: no configuration of the network behind a stem for {problem.config}")
    return problem.stem


def statistics_batches(problem):
    """Batches of which batch norms are recalibrated, as auto chooses them."""
    training = tomllib.loads(problem.config.read_text())["training"]
    return training.get("precise_batch_norm") or -(-512 // training["batch"])


def method_words(problem, method, epochs):
    """KEY=VALUE words of a method, where a baseline would get so many epochs. The methods between the baseline and auto
    differ in what they transfer: they have a coarse phase of as many epochs, and a last one of a third."""
    half, full = json.dumps([2] * problem.axes), json.dumps([1] * problem.axes)
    two = [f"method.resolutions=[{half},{full}]", "method.coarse.rule=constant"]
    lengths = [f"method.stop.coarse.epochs={epochs}", f"method.stop.finetune.epochs={max(1, round(epochs / 3))}"]
    if method in ("baseline", "frontnet"):  # frontnet: the network that auto ends with, as a baseline from the beginning
        return ["method.name=baseline"]
    if method == "auto":  # what its schedule comes to, also where a measurement of the data would have said no
        return ["method.name=auto", "method.detail=ignore"]
    if method in ("mrt", "progressive"):
        return [f"method.name={method}", *two, *lengths]
    by_hand = re.fullmatch(r"(\d+)([+ifc])(\d+)", method)  # i: interpolated top; f, c: a stem, new or carried moments
    if by_hand:
        coarse, kind, last = by_hand.groups()
        statistics = 64 if kind == "+" else statistics_batches(problem)
        return ["method.name=mrmf", f"method.top={'stem' if kind in 'fc' else 'interpolated'}", *two,
                *(["method.moments=carry"] if kind == "c" else []),
                f"method.stop.coarse.epochs={coarse}", f"method.stop.finetune.epochs={last}",
                f"training.precise_batch_norm={statistics}"]
    if method == "interpolated":
        return ["method.name=mrmf", "method.top=interpolated", *two, *lengths]
    if method in ("paper", "paperstop"):  # one fusion with the stop rule of section 3.2; at most a baseline's epochs
        # The paper's own threshold for its neurons; or one that ends a phase where two epochs gain less than 0.02 each.
        rule = "threshold=2e-4,patience=3" if method == "paper" else "threshold=0.02,patience=2"
        rule = [f"method.stop.{part}={{epochs={epochs},{rule}}}" for part in ("coarse", "dense")]
        return ["method.name=mrmf", "method.top=dense", *two, "method.dense.rule=constant", *rule,
                f"method.stop.finetune.epochs={epochs}"]
    raise SystemExit(f"map: no method '{method}'")
