#!/usr/bin/env python3
"""Draws validation loss over what training cost, from the run folders of mrmf.

    jobs/plots/plot.py RUN... -o FILE.png|.svg [--what loss|metric|training] [--x seconds|gflop|epochs] [--mean]

One line per run, from its epochs.jsonl. Runs of one method with the same settings share a colour, and the legend says by
which settings the others differ; seeds differ in line style. With --mean they become one line of means in a band from the
least to the largest: a colour for each method, a line style for each of its settings and numbers of epochs. Thin dotted
parts are models before fusion (coarse and dense), the thick solid part is the model after the last fusion: its loss is
the one that counts. Dots mark where a phase of the plan ends. With --what metric the lines are the validation metric, with
--what training the training loss.
"""
import argparse
import itertools
import json
import pathlib
import sys
import tomllib

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt
import matplotlib.ticker
from matplotlib.lines import Line2D

AFTER = ("baseline", "finetune")
# Okabe and Ito's colours, told apart also by colour-blind readers; the grey prints well.
COLOURS = ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777",
           "#7A3E00", "#003A5C", "#7B1FA2", "#9E9D24", "#AD1457", "#00838F", "#5D4037", "#B0BEC5"]
LONGEST = 30  # characters of a setting in the legend
MEASURED = ("data.normalise.sample_mean", "data.normalise.sample_std", "data.normalise.label_mean", "data.normalise.label_std",
            "training.class_weights")
LABELS = {"seconds": "training time [s]", "gflop": "arithmetic of training [TFLOP]", "epochs": "epochs of all models"}
STYLES = ["-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1))]


def fail(message):
    sys.exit(f"plot.py: {message}")


def damaged(message):
    """Exit code 3: the data or a full disk are to blame, not Python and matplotlib."""
    print(f"plot.py: {message}", file=sys.stderr)
    sys.exit(3)


def read_text(path):
    """A FIFO or a device would be waited for."""
    try:
        if path.exists() and not path.is_file():
            damaged(f"{path}: is no regular file")
        return path.read_text()
    except OSError as error:
        damaged(f"{path}: {error.strerror}; is this a run folder?")
    except UnicodeDecodeError:
        damaged(f"{path}: not text; is the run folder damaged?")


def read_object(text, place, types):
    """A JSON object that has at least these keys, with values of these types."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        damaged(f"{place}: not whole JSON; is the run folder damaged?")
    if not isinstance(value, dict):
        damaged(f"{place}: not a record of mrmf; is the run folder damaged?")
    for key, kinds in types.items():
        found = value.get(key, damaged)  # of none of the types
        if isinstance(found, bool) or not isinstance(found, kinds):
            damaged(f"{place}: not a record of mrmf (its '{key}' is missing or of another kind); is the run folder "
                    "damaged?")
    return value


NUMBER = (int, float)
EPOCH = {"stage": (int,), "role": (str,), "epoch": (int,), "total_seconds": NUMBER, "validation_loss": (*NUMBER, type(None))}
RESULT = {"method": (str,), "resolutions": (list,), "top": (str,), "seed": (int,), "target": (*NUMBER, type(None))}


def read_run(folder):
    """The epochs of a run, and its result where it is finished."""
    path = pathlib.Path(folder) / "epochs.jsonl"
    epochs = [read_object(line, f"{path}:{number}", EPOCH) for number, line in enumerate(read_text(path).splitlines(), 1)]
    if not epochs:
        fail(f"{path}: no epochs yet")
    result_path = path.parent / "result.json"
    if not result_path.exists():
        return epochs, {}
    result = read_object(read_text(result_path), result_path, RESULT)
    if not all(isinstance(r, list) and all(isinstance(f, int) for f in r) for r in result["resolutions"]):
        damaged(f"{result_path}: not a record of mrmf (its 'resolutions' are no lists of factors)")
    result["settings"] = read_settings(path.parent / "config.toml")
    result["bottom"] = result["settings"].get("method.bottom", "coarse")
    return epochs, result


def read_settings(path):
    """Every key of a run's configuration but those that repetitions may differ in, and those that methods are named by."""
    try:
        tables = tomllib.loads(path.read_text())
    except OSError:
        return {}
    except tomllib.TOMLDecodeError as error:
        fail(f"{path}: {error}; is the run folder damaged?")
    found = {}

    def flatten(table, prefix):
        for key, value in table.items():
            if isinstance(value, dict):
                flatten(value, prefix + key + ".")
            else:
                found[prefix + key] = value

    flatten(tables, "")
    if found.get("data.split.by") == "folds":  # what was measured over the training rows differs from fold to fold
        for key in MEASURED:
            found.pop(key, None)
    return {key: value for key, value in found.items() if not key.startswith("run.")
            and key not in ("training.seed", "method.resolutions", "data.channels", "method.name", "data.split.fold")}


def shown(value):
    text = "not set" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else text[:LONGEST - 1] + "…"


def by_settings(runs):
    """[(what sets these runs apart from the others in the list, the runs)]: one entry where all have the same settings."""
    groups = []
    for epochs, result in runs:
        settings = result.get("settings", {})
        same = next((group for group in groups if group[0] == settings), None)
        if same is None:
            groups.append((settings, [(epochs, result)]))
        else:
            same[1].append((epochs, result))
    keys = sorted({key for settings, _ in groups for key in settings
                   if any(other.get(key) != settings[key] for other, _ in groups)})
    labels = [", ".join(f"{key.partition('.')[2]} = {shown(settings.get(key))}" for key in keys) for settings, _ in groups]
    for i, label in enumerate(labels):  # cut short, two may look alike
        if labels.count(label) > 1:
            labels[i] = f"{label} ({labels[:i + 1].count(label)})" if i else label
    return [(label, own) for label, (_, own) in zip(labels, groups)]


def method_name(epochs, result, folder):
    """What runs of one kind have in common; the folder's name for a run that is not finished."""
    if not result:
        return f"{pathlib.Path(folder).name} (unfinished)"
    factors = " → ".join("×".join(map(str, r)) for r in result["resolutions"])
    if result.get("schedule"):
        return f"{result['schedule']} {factors}"
    name = {"mrt": "MRT", "mrmf": "MRMF"}.get(result["method"], result["method"])
    if result["method"] == "baseline":
        return name
    top = f", {result['top']} top" if result["method"] == "mrmf" else ""
    bottom = ", fresh bottom" if result["bottom"] == "fresh" else ""
    return f"{name} {factors}{top}{bottom}"


def kind_of(name, result):
    """The same for runs that average another axis of the samples: the paper takes the mean over all three."""
    for factors in result.get("resolutions", []):
        name = name.replace("×".join(map(str, factors)), "×".join(map(str, sorted(factors))))
    return name


def phases_of(epochs):
    """The epochs cut where the plan continues to its next phase."""
    phases = []
    for epoch in epochs:
        key = (epoch["stage"], epoch["role"])
        if not phases or phases[-1][0] != key:
            phases.append((key, []))
        phases[-1][1].append(epoch)
    return [phase for _, phase in phases]


def costs_of(epochs, measure):
    """What the run had cost at the end of each epoch."""
    if measure == "seconds":
        return [epoch["total_seconds"] for epoch in epochs]
    if measure == "epochs":
        return list(range(1, len(epochs) + 1))
    if not all(epoch.get("gflop") for epoch in epochs):
        fail("a run has no arithmetic in its records (it was made by an earlier version); take --x seconds")
    return list(itertools.accumulate(epoch["gflop"] / 1000 for epoch in epochs))


def draw_run(axes, epochs, costs, colour, style, band=None):
    position = 0
    for phase in phases_of(epochs):
        part = slice(position, position + len(phase))
        position += len(phase)
        x, y = costs[part], [loss_of(epoch) for epoch in phase]
        after = phase[0]["role"] in AFTER
        axes.plot(x, y, color=colour, linestyle=style if after else ":", linewidth=1.8 if after else 1.0,
                  marker="o" if len(phase) == 1 else None, markersize=3, alpha=1.0 if after else 0.65, zorder=3)
        axes.plot(x[-1], y[-1], "o", color=colour, markersize=5 if after else 3.5,
                  markerfacecolor=colour if after else "white", zorder=4)
        if band and after:
            axes.fill_between(x, band[0][part], band[1][part], color=colour, alpha=0.18, linewidth=0, zorder=2)


WHAT = "loss"  # what is drawn; set once, by the options


def metric_name(epoch):
    """The key of the validation metric; none where no metric was measured."""
    return next((key for key in epoch if key.startswith("validation_") and key != "validation_loss"), None)


def loss_of(epoch):
    """What is drawn of an epoch."""
    key = {"loss": "validation_loss", "training": "train_loss", "metric": metric_name(epoch)}[WHAT]
    value = epoch.get(key)
    return float(value) if isinstance(value, NUMBER) else float("nan")


def repetitions(runs):
    """Runs of a method apart by their epochs: those in one list differ in the seed alone, or in the axis averaged."""
    groups = {}
    for epochs, result in runs:
        places = tuple((epoch["stage"], epoch["role"], epoch["epoch"]) for epoch in epochs)
        groups.setdefault(places, []).append((epochs, result))
    return list(groups.values())


def repetition_label(name, runs, several):
    choices = {str(result.get("resolutions")) for _, result in runs}
    label = name + (f", mean of {len(choices)} choices of axes" if len(choices) > 1 else "")
    if several:
        label += f", {sum(epoch['role'] in AFTER for epoch in runs[0][0])} last epochs"
    seeds = {result.get("seed") for _, result in runs}
    return label + (f", {len(seeds)} seeds" if len(seeds) > 1 else "")


def draw_mean(axes, runs, measure, colour, style):
    """Repetitions as one line."""
    mean = lambda values: sum(values) / len(values)
    costs = [mean(values) for values in zip(*(costs_of(epochs, measure) for epochs, _ in runs))]
    losses = list(zip(*([loss_of(epoch) for epoch in epochs] for epochs, _ in runs)))
    key = {"loss": "validation_loss", "training": "train_loss", "metric": metric_name(runs[0][0][0])}[WHAT]
    epochs = [{**epoch, key: mean(values)} for epoch, values in zip(runs[0][0], losses)]
    draw_run(axes, epochs, costs, colour, style, ([min(v) for v in losses], [max(v) for v in losses]))


def draw_targets(axes, results):
    for target in sorted({result["target"] for result in results if result.get("target")}):
        axes.axhline(target, color="#555555", linewidth=0.9, linestyle=(0, (6, 3)), zorder=1)
        axes.annotate(f"target {target:g}", (0, target), xycoords=("axes fraction", "data"), xytext=(4, 3),
                      textcoords="offset points", ha="left", fontsize=8, color="#555555")


def scale(axes, losses):
    """Logarithmic where the losses span more than a factor of three, with plain numbers that do not overlap."""
    axes.set_yscale("log" if max(losses) > 3 * min(losses) > 0 else "linear")
    if axes.get_yscale() == "log":
        span = max(losses) / min(losses)
        subs = (1, 1.5, 2, 3, 4, 5, 7) if span < 20 else (1, 2, 5) if span < 300 else (1, 3) if span < 1e4 else (1,)
        locator = matplotlib.ticker.LogLocator(base=10, subs=subs, numticks=20)
        axes.yaxis.set_major_locator(locator)
        axes.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        axes.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())


def lines_of(methods, mean):
    """(colour, style, title, runs) of every line of the legend. Runs of a method are apart by their settings; for means
    also by their numbers of epochs, then the method has one colour. Style None: the seeds'."""
    colours = itertools.cycle(COLOURS)
    for name, group in methods.values():
        variants = by_settings(group)
        titled = [(f"{name}, {label}" if label else name, runs) for label, runs in variants]
        if not mean:
            yield from ((next(colours), None, title, runs) for title, runs in titled)
            continue
        labelled = [(repetition_label(title, part, len(parts) > 1), part)
                    for title, parts in ((title, repetitions(runs)) for title, runs in titled) for part in parts]
        for i, (title, part) in enumerate(labelled):
            style = STYLES[i % len(STYLES)]
            colour = next(colours) if style == STYLES[0] else colour
            yield colour, style, title, part


def draw(runs, options):
    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    methods, seeds = {}, {}
    for folder, (epochs, result) in runs:
        name = method_name(epochs, result, folder)
        methods.setdefault(kind_of(name, result) if options.mean else name, (name, []))[1].append((epochs, result))
    handles = []
    for colour, style, title, group in lines_of(methods, options.mean):
        handles.append(Line2D([], [], color=colour, linewidth=1.8, linestyle=style or "-", label=title))
        if options.mean:
            draw_mean(axes, group, options.x, colour, style)
            continue
        for epochs, result in group:
            style = "-"
            if "seed" in result:
                style = seeds.setdefault(result["seed"], STYLES[len(seeds) % len(STYLES)])
            draw_run(axes, epochs, costs_of(epochs, options.x), colour, style)
    if len(seeds) > 1:
        for seed, style in seeds.items():
            handles.append(Line2D([], [], color="#555555", linewidth=1.2, linestyle=style, label=f"seed {seed}"))
    if any(epoch["role"] not in AFTER for _, (epochs, _) in runs for epoch in epochs):
        handles.append(Line2D([], [], color="#555555", linewidth=1.0, linestyle=":", marker="o", markersize=3.5,
                              markerfacecolor="white", alpha=0.8, label="coarse or dense model"))
    if WHAT == "loss":
        draw_targets(axes, [result for _, (_, result) in runs])
    drawn = [loss_of(e) for _, (epochs, _) in runs for e in epochs]
    scale(axes, [value for value in drawn if value == value and value != 0] or [1])
    axes.set_xlim(left=0)
    axes.set_xlabel(LABELS[options.x])
    names = {metric_name(epoch) for _, (epochs, _) in runs for epoch in epochs} - {None}
    axes.set_ylabel({"loss": "validation loss", "training": "training loss",
                     "metric": ", ".join(sorted(names)).replace("_", " ")}[WHAT])
    axes.grid(True, linewidth=0.4, color="#cccccc")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(handles=handles, fontsize=8, frameon=True, framealpha=0.9, edgecolor="#cccccc", loc="best")
    save(figure, options)


def save(figure, options):
    try:
        # The program that asks for a format made the file; when it is gone, nobody wants the image any more.
        with open(options.output, "r+b" if options.format else "wb") as file:
            figure.savefig(file, dpi=200, format=options.format or pathlib.Path(options.output).suffix[1:])
    except OSError as error:
        damaged(f"{options.output}: the image cannot be written: {error.strerror or error}")
    except ValueError as error:
        fail(f"{options.output}: {error}")


def add_output(parser):
    parser.add_argument("-o", "--output", required=True, help="image to write, .png or .svg")
    parser.add_argument("--format", choices=["png", "svg"], help="of a file that is there, whatever its name says")


def parsed(parser):
    options = parser.parse_args()
    if not options.format and pathlib.Path(options.output).suffix not in (".png", ".svg"):
        fail(f"{options.output}: the name must end in .png or .svg")
    return options


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="run folders")
    add_output(parser)
    parser.add_argument("--x", choices=list(LABELS), default="seconds", help="what the horizontal axis counts")
    parser.add_argument("--mean", action="store_true", help="one line per method: the mean over its seeds, and their range")
    parser.add_argument("--what", choices=["loss", "metric", "training"], default="loss",
                        help="the validation loss, the validation metric, or the training loss")
    options = parsed(parser)
    global WHAT
    WHAT = options.what
    runs = [(folder, read_run(folder)) for folder in options.runs]
    for folder, (epochs, _) in runs:
        if WHAT == "metric" and metric_name(epochs[0]) is None:
            fail(f"{folder}: measured no metric; set training.metric, or draw --what loss")
    draw(runs, options)


if __name__ == "__main__":
    main()
