"""The paper's tables, as Markdown, from our runs: our figures beside the paper's."""
import statistics

import paper
from columns import RATIOS, TITLES, Column, count, markdown, number, ratio, repetitions, saved, spread, target_of, unreached
from experiments import COSMOFLOW, METHODS, NEURON

PAPER_BASE = 2048  # of Figure 5: the paper's best batch
TABLES = {"table1": (COSMOFLOW, 0), "table2": (COSMOFLOW, 1), "table5": (NEURON, 0), "table6": (NEURON, 1)}


def paper_cells(figures, baseline, mrt):
    loss, coarse, dense, after, total = figures
    return [f"{loss:.4f}", number(coarse, 0), number(dense, 0), str(after), "", f"{total:.2f}",
            saved(total, baseline) if total != baseline else "–", saved(total, mrt) if total < mrt else "–", "", "", ""]


def own_cells(column, baseline, mrt):
    cells = [column.loss(), column.epochs("coarse"), column.epochs("dense"), column.after(), column.done()]
    for measure, scale in (("seconds", 1), ("gflop", 1e-3)):
        cells.append(spread(scale * cost for cost in column.cost(measure)))
        for other in (baseline, mrt):
            cells.append("–" if column in (baseline, other) else column.saved(other, measure))
    return cells


ROWS = ("validation loss (MSE)", "epochs before fusion, coarse", "epochs before fusion, dense", "epochs after fusion",
        "runs that reached the target", "total time (s)", "saved against baseline", "saved against MRT",
        "total arithmetic (TFLOP)", "arithmetic saved against baseline", "arithmetic saved against MRT")


def methods_table(shop, what, methods=METHODS[:3]):
    """Tables 1, 2, 5 and 6."""
    application, place = TABLES[what]
    ranks = application.sizes[shop.size].ranks[place]
    target = target_of(shop, application)
    columns = {m: Column(shop.runs(application, m, ranks), target) for m in methods}
    header, cells = [""], []
    for method, column in columns.items():
        header += [TITLES[method], "paper"]
        cells.append(own_cells(column, columns["baseline"], columns["mrt"]))
        figures = paper.METHODS[what]
        cells.append(paper_cells(figures[method], figures["baseline"][4], figures["mrt"][4]))
    return markdown(header, [[row, *(column[i] for column in cells)] for i, row in enumerate(ROWS)]) + (
        f"\nOurs: {count(ranks, 'rank')}, {repetitions({TITLES[m]: c.runs for m, c in columns.items()})}, target "
        f"{target:g}, costs up to the target. Paper: {application.gpus[place]} GPUs."
        f"{unreached(columns.values(), savings=True)}\n")


def stages_table(shop, what):
    """Tables 3 and 7."""
    application = COSMOFLOW if what == "table3" else NEURON
    settings = application.sizes[shop.size]
    target = target_of(shop, application)
    columns = {"one-fusion": Column(shop.one_fusion(application, settings.stages_coarse_batch), target),
               "two-fusions": Column(shop.runs(application, "two-fusions"), target)}
    header, cells, means = [""], [], {}
    for method, column in columns.items():
        header += [TITLES[method] + " (s)", "(TFLOP)", "paper (s)"]
        for measure, scale in (("seconds", 1), ("gflop", 1e-3)):
            stages = [[scale * run.before(measure, stage) for run in column.runs] for stage in (1, 2)]
            totals = [scale * cost for cost in column.cost(measure)]
            finetune = [total - sum(s[i] for s in stages) for i, total in enumerate(totals)]
            means[method, measure] = [statistics.fmean(values) for values in (*stages, finetune, totals)]
            cells.append([spread(s) if any(s) else "–" for s in stages] + [spread(finetune), spread(totals)]
                         + ([column.loss(), column.done()] if measure == "seconds" else ["", ""]))
        *seconds, loss = paper.STAGES[what][method]
        cells.append([number(s) for s in seconds] + [f"{loss:.4f}", ""])
    one, two = (columns[method].all_done() for method in ("one-fusion", "two-fusions"))
    for measure in ("seconds", "gflop"):
        pairs = list(zip(means["two-fusions", measure], means["one-fusion", measure]))
        cells.append([*(ratio(*pair) for pair in pairs[:2]), *(ratio(*pair, two, one) for pair in pairs[2:]), "", ""])
    cells.append([*(ratio(*pair) for pair in zip(paper.STAGES[what]["two-fusions"][:4], paper.STAGES[what]["one-fusion"])),
                  "", ""])
    header += ["two / one fusion: time", "arithmetic", "paper: time"]
    rows = ("first training stage", "second training stage", "finetuning stage", "total", "validation loss (MSE)",
            "runs that reached the target")
    return markdown(header, [[row, *(column[i] for column in cells)] for i, row in enumerate(rows)]) + (
        f"\nOurs: {count(settings.ranks[0], 'rank')}, {repetitions({TITLES[m]: c.runs for m, c in columns.items()})}, target "
        f"{target:g}, costs up to the target. Paper: {application.gpus[0]} GPUs.{unreached(columns.values())}"
        f"{RATIOS * (one != two)}\n")


def part_text(part):
    """Seconds; also of the least and the most busy rank, where there are several."""
    return f"{part.mean:.3f}" + ("" if part.least is None else f" ({part.least:.3f}–{part.most:.3f})")


def epochs_table(shop, what):
    """Tables 4 and 8: the parts of an epoch, from the one-fusion runs."""
    application = COSMOFLOW if what == "table4" else NEURON
    rows, runs = [], {}
    for ranks, gpus in zip(application.sizes[shop.size].ranks, application.gpus):
        run = shop.run(application, "one-fusion", shop.first_seed(application), ranks)
        runs[count(ranks, "rank")] = [run]
        for data in ("coarse", "dense"):
            rows.append([str(ranks), str(gpus), data, *map(part_text, run.mean_epoch(data == "dense").values()),
                         *(number(x) for x in paper.EPOCHS[what][gpus, data])])
    header = ["ranks", "GPUs in the paper", "data", "I/O (s)", "compute (s)", "communication (s)", "epoch (s)",
              "paper: I/O", "compute", "communication", "epoch"]
    return markdown(header, rows) + (
        f"\nOurs: one fusion, {repetitions(runs)}; without the first epoch of each phase. On several ranks: the mean "
        "over them (least–most).\n")


def pooling_table(shop, _what):
    """Table 9: what averaging the data costs, once while loading or in every epoch."""
    rows, runs = [], {}
    for application in (COSMOFLOW, NEURON):
        seed = shop.first_seed(application)
        baseline = shop.run(application, "baseline", seed)
        loading = shop.run(application, "one-fusion", seed)
        every = shop.run(application, "one-fusion", seed, extra=("data.averaging=epoch",), label="-averaging-epoch")
        runs[application.title] = [baseline]
        own = [baseline.mean_epoch(True)["epoch"].mean,
               *(coarse_epochs(run)[0]["averaging_seconds"] for run in (loading, every))]
        rows.append([application.title, devices([baseline, loading, every]), *(f"{x:.2f}" if x else "–" for x in own),
                     *(f"{x:.2f}" for x in paper.POOLING[application.name])])
    header = ["", "device", "epoch of the original model (s)", "averaging once, while loading (s)",
              "averaging in every epoch, of an epoch (s)", "paper: epoch", "on CPUs", "on GPUs"]
    return markdown(header, rows) + (
        f"\nOurs: {repetitions(runs)}, on the device named; `--set run.device=cpu` or `cuda` and a --folder of its own make "
        "the same table for the other. Averaging: the loader's own seconds, training and validation samples, without reading "
        "them and making batches; – where a GPU averages inside its captured step. The paper averages on CPUs or on GPUs.\n")


def devices(runs):
    """What the runs computed on, as they recorded it; several where they differ."""
    return "; ".join(sorted({device(run.result) for run in runs}))


def device(result):
    backend = result["versions"]["backend"]
    return f"GPU: {backend}" if "CUDA" in backend else f"CPU: {result['machine']['processor']}, {backend}"


def coarse_epochs(run):
    return [epoch for epoch in run.epochs if epoch["role"] == "coarse"]


SOURCES = {"baseline": ("new", "new"), "mrt": ("coarse", "new"), "top-only": ("new", "dense"),
           "one-fusion": ("coarse", "dense"), "interpolated": ("coarse", "coarse, interpolated"),
           "progressive": ("coarse", "coarse where it fits"), "two-fusions": ("coarse, twice", "dense, twice")}


def row_title(method):
    kind = method.removesuffix("-half")
    return TITLES[kind] + ", half the cost" * (kind != method)


def ablation_table(shop, application):
    """What each part of fusion adds: the same batch and learning-rate rule for all."""
    target = target_of(shop, application)
    columns = {m: Column(shop.runs(application, m), target) for m in shop.rivals(application)}
    baseline = columns["baseline"]
    rows = []
    for method, c in columns.items():
        kind = method.removesuffix("-half")
        bottom, top = SOURCES[kind]
        finals = [run.result["validation_loss"] for run in c.runs]
        whole = [1e-3 * run.epochs[-1]["total_gflop"] for run in c.runs]
        rows.append([row_title(method), bottom, top, c.epochs("coarse"), c.epochs("dense"), spread(finals, 4), spread(whole),
                     c.done(), c.after(), spread(1e-3 * x for x in c.cost("gflop")),
                     "–" if c is baseline else c.saved(baseline, "gflop"),
                     spread(c.cost("seconds"))])
    header = ["method", "bottom from", "top from", "coarse epochs", "dense epochs", "loss at the end",
              "arithmetic of all (TFLOP)", "reached the target", "epochs after fusion until then",
              "arithmetic until then (TFLOP)", "saved against baseline", "time until then (s)"]
    return markdown(header, rows) + (
        f"\n{application.title}, {repetitions({row_title(m): c.runs for m, c in columns.items()})}, target {target:g}."
        f"{unreached(columns.values(), savings=True)}\n")


def batches_table(columns, settings, target):
    """Figure 5 in numbers: columns by the coarse model's batch. The paper gives numbers for two of its batches; the
    ratios are to the first of these, ours to the batch in its place."""
    rows, known_batches = [], (512, 1024, 2048, 4096)
    base = dict(zip(known_batches, columns.values())).get(PAPER_BASE)
    for (batch, column), theirs in zip(columns.items(), known_batches):
        coarse = statistics.fmean(run.before("seconds", 1) for run in column.runs)
        known = paper.BATCHES.get(theirs)
        rows.append([str(batch), column.loss(), column.epochs("coarse"), column.after(), column.done(), f"{coarse:.2f}",
                     spread(column.cost("seconds")), spread(x / 1000 for x in column.cost("gflop")),
                     *(["–", "–"] if base is None else
                       [ratio(column.mean(measure), base.mean(measure), column.all_done(), base.all_done())
                        for measure in ("seconds", "gflop")]),
                     f"{theirs}: {known:.2f}" if known else f"{theirs}: –",
                     ratio(known, paper.BATCHES[PAPER_BASE])])
    header = ["coarse batch", "validation loss", "coarse epochs", "epochs after fusion", "reached the target",
              "before fusion (s)", "total (s)", "total (TFLOP)", "total / that of the third batch: time", "arithmetic",
              "paper: batch, total (s)", f"paper: / {PAPER_BASE}"]
    seeds = repetitions({f"coarse batch {batch}": column.runs for batch, column in columns.items()})
    return markdown(header, rows) + (
        f"\nOn {count(settings.ranks[0], 'rank')}, {seeds}, target {target:g}, costs up to it."
        f"{unreached(columns.values())}"
        f"{RATIOS * (len({column.all_done() for column in columns.values()}) > 1)}")
