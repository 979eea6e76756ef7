#!/usr/bin/env python3
"""Draws what a model said against what is true, from a file of mrmf predict and the labels' data set.

    jobs/plots/plot_labels.py PREDICTIONS.h5 --labels FILE:DATASET... -o FILE.png|.svg [--matrix]

Without --matrix: predicted against true numbers, a panel for each output with its R^2. With it: how often each class was
taken for each, from the data set "class"; or, for yes or no, a matrix for each output, from "probability". Rows are true
classes. Labels of several files follow one another, as the run's files do; of their rows, those count that the predictions
are of. Labels below 0, or above the last class, and those that the run ignores are left out, and the title says how many.
"""
import argparse
import json
import math
import pathlib

import h5py
import numpy as np
import plot

PANELS = 36       # at most
POINTS = 20000    # in a panel; R^2 is of all
NUMBERED = 20     # classes whose counts are written into the matrix


def require_file(path):
    """A FIFO or a device would be waited for."""
    if not pathlib.Path(path).is_file():
        plot.damaged(f"{path}: no such file, or no plain one")


def read(path, name, words=False):
    require_file(path)
    try:
        with h5py.File(path) as file:
            if not isinstance(file.get(name), h5py.Dataset):
                there = ", ".join(sorted(key for key in file if isinstance(file[key], h5py.Dataset))) or "none"
                plot.damaged(f"{path}: has no data set '{name}' (there is {there})")
            data = file[name]
            if words and h5py.check_string_dtype(data.dtype) and data.ndim > 0:
                return np.char.rstrip(data.asstr()[...].astype(str))
            if data.dtype.kind not in "fiub" or data.ndim == 0:
                plot.damaged(f"{path}: data set '{name}' does not hold rows of numbers")
            return data[...]
    except (OSError, RuntimeError, KeyError, ValueError, MemoryError) as error:
        plot.damaged(f"{path}: {str(error).splitlines()[0]}; is this the file of mrmf predict, or of its labels?")


def read_labels(options, found, words=False):
    """The labels of the rows that `found` was predicted of, with their channels last; NaN where the run ignores them."""
    parts = []
    for place in options.labels:
        path, colon, name = place.rpartition(":")
        if not (colon and path and name):
            plot.fail(f"--labels {place}: give a file and a data set, as in data.h5:val_y")
        parts.append(read(path, name, words))
    if len({part.shape[1:] for part in parts}) > 1:
        plot.damaged("--labels: the data sets' rows have different shapes")
    labels = channels_last(predicted_rows(options.predictions, parts), found, attribute(options.predictions, "label_axes"))
    ignore = attribute(options.predictions, "ignored_label")
    if labels.dtype.kind == "U":
        return labels
    try:
        return np.where(labels == float(ignore), np.nan, labels) if ignore else labels
    except ValueError:
        plot.damaged(f"{options.predictions}: the attribute 'ignored_label' is no number; is this the file of mrmf predict?")


def predicted_rows(predictions, parts):
    """Of each file's labels those that mrmf predict names; all where it names none, or where others were left out before."""
    labels = np.concatenate(parts)
    if not all(has(predictions, name) for name in ("file", "row", "files")):
        return labels
    files, rows = read(predictions, "file").astype(np.int64), read(predictions, "row").astype(np.int64)
    counts, names = np.array([len(part) for part in parts]), file_names(predictions)
    known = len(parts) == len(names) and len(files) == len(rows) and np.all((files >= 0) & (files < len(parts)) & (rows >= 0))
    if known and np.all(rows < counts[files]):
        return labels[np.cumsum(counts)[files] - counts[files] + rows]
    if len(labels) != len(rows):
        plot.damaged(f"{predictions}: of some rows of {', '.join(names[:3])}{' and more' if names[3:] else ''}, which are other "
                     f"files than those of the {len(parts)} --labels; name the labels of each, in this order")
    return labels


def file_names(predictions):
    try:
        with h5py.File(predictions) as file:
            return str(file["files"].asstr()[0]).split("\n")
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        plot.damaged(f"{predictions}: 'files' is no text ({str(error).splitlines()[0]}); is this the file of mrmf predict?")


def channels_last(labels, found, axes):
    """As mrmf reads labels: stored in the axes of its samples, unless their positions fit with channels last alone."""
    names = axes.replace(",", " ").split()
    names = list(axes) if len(names) == 1 else names
    if "c" not in names or len(names) != labels.ndim:
        return labels
    moved, positions = np.moveaxis(labels, names.index("c"), -1), found.shape[1:labels.ndim - 1]
    return moved if moved.shape[1:-1] == positions or labels.shape[1:-1] != positions else labels


def attribute(path, name):
    require_file(path)
    try:
        with h5py.File(path) as file:
            return np.bytes_(file.attrs.get(name, b"")).decode()
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        plot.damaged(f"{path}: {str(error).splitlines()[0]}; is this the file of mrmf predict?")


def has(path, name):
    require_file(path)
    try:
        with h5py.File(path) as file:
            return name in file
    except OSError as error:
        plot.damaged(f"{path}: {str(error).splitlines()[0]}; is this the file of mrmf predict?")


def require_rows(found, labels, what):
    if len(found) != len(labels):
        plot.damaged(f"there are {len(found)} rows of predictions and {len(labels)} of labels; name the labels of the "
                     "samples that were predicted")
    # One number each needs no last axis. Any other difference could put numbers side by side that do not belong together.
    if len({shape[:-1] if shape[1:] and shape[-1] == 1 else shape for shape in (found.shape, labels.shape)}) > 1:
        plot.damaged(f"{what} of shape {found.shape} and labels of shape {labels.shape} do not fit")


def names(path, kind, count, otherwise):
    """What the file says that classes or outputs are called; their numbers where it says nothing."""
    text = attribute(path, kind)
    try:
        found = [str(name) for name in json.loads(text)] if text else []
    except (ValueError, TypeError):
        found = []
    return found if len(found) == count else [otherwise.format(i, i + 1) for i in range(count)]


def grid(count):
    """A figure with a square panel for each."""
    columns = min(count, max(1, math.ceil(math.sqrt(count))))
    rows = math.ceil(count / columns)
    side = 4.4 if count == 1 else 2.9
    figure, axes = plot.plt.subplots(rows, columns, figsize=(side * columns, side * rows), layout="constrained",
                                     squeeze=False)
    for spare in axes.flat[count:]:
        spare.set_axis_off()
    return figure, axes.flat[:count]


def r2(truth, found):
    spread = np.sum((truth - truth.mean()) ** 2)
    same = 3e-15 * np.sum(truth ** 2)  # labels that float32 does not tell apart, as mrmf evaluate counts
    return f"{1 - np.sum((truth - found) ** 2) / spread:.4f}" if spread > same else "-"


def draw_numbers(options):
    found = read(options.predictions, "prediction").astype(float)
    labels = read_labels(options, found).astype(float)
    require_rows(found, labels, "predictions")
    # As mrmf evaluate does, where data.not_finite leaves out rows: a row counts whole or not at all.
    whole_rows = np.isfinite(labels.reshape(len(labels), -1)).all(axis=1)
    found, labels = found[whole_rows], labels[whole_rows]
    outputs = found.shape[-1] if found.ndim > 1 else 1
    found, labels = found.reshape(-1, outputs), labels.reshape(-1, outputs)
    figure, panels = grid(min(outputs, PANELS))
    called = names(options.predictions, "label_names", outputs, "output {1}")
    for i, axes in enumerate(panels):
        known = np.isfinite(found[:, i])
        truth, said = labels[known, i], found[known, i]
        if not len(truth):
            axes.set_title(f"{called[i]}: no finite numbers", fontsize=9)
            continue
        step = math.ceil(len(truth) / POINTS)
        axes.scatter(truth[::step], said[::step], s=5, alpha=min(1, max(0.05, 400 / len(truth[::step]))), linewidths=0,
                     color="#0072B2", rasterized=len(truth) > 5000)
        ends = [min(truth.min(), said.min()), max(truth.max(), said.max())]
        axes.plot(ends, ends, color="#333333", linewidth=0.8, linestyle="--")
        room = 0.04 * (ends[1] - ends[0]) or 1
        axes.set(xlim=(ends[0] - room, ends[1] + room), ylim=(ends[0] - room, ends[1] + room), box_aspect=1)
        axes.set_title(f"{called[i]}: R² = {r2(truth, said)}", fontsize=9)
        axes.grid(True, linewidth=0.4, color="#dddddd")
        axes.tick_params(labelsize=7)
    figure.supxlabel("true", fontsize=10)
    figure.supylabel("predicted", fontsize=10)
    if outputs > PANELS:
        figure.suptitle(f"the first {PANELS} of {outputs} outputs", fontsize=9)
    plot.save(figure, options)


def draw_matrix(axes, truth, said, classes, title, called=None):
    """Rows are shared out: each adds up to 1, so a rare class is seen as well as a frequent one."""
    known = (truth >= 0) & (truth < classes)
    counts = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(counts, (truth[known], said[known]), 1)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    accuracy = np.trace(counts) / max(counts.sum(), 1)
    left_out = len(truth) - known.sum()
    axes.set_title(f"{title}accuracy {accuracy:.4f}" + (f", {left_out} labels left out" if left_out else ""), fontsize=9)
    if classes <= NUMBERED:
        axes.set_xticks(range(classes))
        axes.set_yticks(range(classes))
        if called:
            long = max(map(len, called)) > 4
            axes.set_xticklabels(called, rotation=60 if long else 0, ha="right" if long else "center", fontsize=7)
            axes.set_yticklabels(called, fontsize=7)
        for row, column in np.ndindex(classes, classes):
            axes.text(column, row, f"{counts[row, column]}", ha="center", va="center", fontsize=max(5, 9 - classes // 4),
                      color="white" if shares[row, column] > 0.55 else "black")
    return image


def draw_matrices(options):
    if has(options.predictions, "class"):
        cases = [class_case(options)]
    elif has(options.predictions, "probability"):
        cases = yes_or_no_cases(options)
    else:
        plot.damaged(f"{options.predictions}: holds neither 'class' nor 'probability'; the model's outputs are numbers: draw "
                     "them with --what labels")
    figure, panels = grid(min(len(cases), PANELS))
    for axes, case in zip(panels, cases):
        image = draw_matrix(axes, *case)
    figure.colorbar(image, ax=list(panels), shrink=0.7, label="share of the true class")
    figure.supxlabel("predicted", fontsize=10)
    figure.supylabel("true", fontsize=10)
    plot.save(figure, options)


def whole(labels):
    if labels.dtype.kind == "f" and not np.all(np.isnan(labels) | (labels == np.round(labels))):
        plot.damaged("--labels: classes are whole numbers, and these are not")
    return np.where(np.isfinite(labels), labels, -1).astype(np.int64).ravel()


def class_numbers(labels, said, outputs, values):
    """Labels as numbers of classes: as the run named them, or of one-hot rows; -1 where there is none."""
    if values:
        try:
            values = json.loads(values)
        except ValueError:
            plot.damaged("the attribute 'class_values' is no list; is this the file of mrmf predict?")
        numbers = np.full(labels.shape, -1)
        for number, value in enumerate(values):
            numbers[labels == (value if labels.dtype.kind != "U" else str(value))] = number
        return numbers
    if outputs > 1 and labels.shape == (*said.shape, outputs):
        return np.where((labels == 1).sum(-1) == 1, labels.argmax(-1), -1)
    return labels


def class_case(options):
    said = read(options.predictions, "class")
    outputs = read(options.predictions, "prediction").shape[-1]
    values = attribute(options.predictions, "class_values")
    labels = class_numbers(read_labels(options, said, words=bool(values)), said, outputs, values)
    require_rows(said, labels, "classes")
    called = names(options.predictions, "class_names", outputs, "{}")
    return whole(labels), said.astype(np.int64).ravel(), outputs, "", called


def yes_or_no_cases(options):
    said = read(options.predictions, "probability")
    labels = read_labels(options, said)
    require_rows(said, labels, "probabilities")
    outputs = said.shape[-1] if said.ndim > 1 else 1
    said, labels = said.reshape(-1, outputs), labels.reshape(-1, outputs)
    called = names(options.predictions, "label_names", outputs, "output {1}")
    return [(whole(labels[:, i]), (said[:, i] > 0.5).astype(np.int64), 2, f"{called[i]}: ") for i in range(outputs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("predictions", help="file of mrmf predict")
    parser.add_argument("--labels", nargs="+", required=True, help="FILE:DATASET of the true labels")
    parser.add_argument("--matrix", action="store_true", help="how often each class was taken for each")
    plot.add_output(parser)
    options = plot.parsed(parser)
    (draw_matrices if options.matrix else draw_numbers)(options)


if __name__ == "__main__":
    main()
