"""The paper's tables, as Markdown, from our runs: our figures beside the paper's."""
import math
import statistics

import paper
from experiments import COSMOFLOW, METHODS, NEURON

TITLES = {"baseline": "Baseline", "mrt": "MRT", "one-fusion": "MRMF (one fusion)", "two-fusions": "MRMF (two fusions)",
          "interpolated": "MRMF, interpolated top", "progressive": "Progressive resizing", "top-only": "Top from dense"}
TABLES = {"table1": (COSMOFLOW, 0), "table2": (COSMOFLOW, 1), "table5": (NEURON, 0), "table6": (NEURON, 1)}


def spread(values, digits=None):
    """Mean, and the sample standard deviation where there are several values; three digits unless said otherwise."""
    values = list(values)
    if digits is None:
        mean = abs(statistics.fmean(values))
        digits = min(4, max(0, 2 - math.floor(math.log10(mean)))) if mean > 0 else 0
    text = f"{statistics.fmean(values):.{digits}f}"
    return text + (f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else "")


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def number(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}"


def count(number_of, what):
    return f"{number_of} {what}{'s' * (number_of != 1)}"


def saved(own, other):
    return f"{100 * (1 - own / other):.1f} %"


def target_of(shop, application):
    """The loss that counts as reached: the size's, or where the first baseline ended."""
    given = application.sizes[shop.size].target
    return given or shop.run(application, "baseline", shop.first_seed(application)).result["validation_loss"]


class Column:
    """One method's runs up to the target."""

    def __init__(self, runs, target):
        self.runs = runs
        self.reached = [run.reached(target) for run in runs]

    def loss(self):
        return spread((r.record["validation_loss"] for r in self.reached), 4)

    def epochs(self, role):
        counts = [run.count(role) for run in self.runs]
        return spread(counts, 0 if len(set(counts)) == 1 else 1).split(" ± 0")[0] if any(counts) else "–"

    def after(self):
        return spread((r.epochs for r in self.reached), 0 if len({r.epochs for r in self.reached}) == 1 else 1)

    def cost(self, measure):
        return [r.record[f"total_{measure}"] for r in self.reached]

    def mean(self, measure):
        return statistics.fmean(self.cost(measure))

    def all_done(self):
        return all(r.done for r in self.reached)

    def done(self):
        return f"{sum(r.done for r in self.reached)} of {len(self.reached)}"


def paper_cells(figures, baseline, mrt):
    loss, coarse, dense, after, total = figures
    return [f"{loss:.4f}", number(coarse, 0), number(dense, 0), str(after), "", f"{total:.2f}",
            saved(total, baseline) if total != baseline else "–", saved(total, mrt) if total < mrt else "–", "", "", ""]


def own_cells(column, baseline, mrt):
    cells = [column.loss(), column.epochs("coarse"), column.epochs("dense"), column.after(), column.done()]
    for measure, scale in (("seconds", 1), ("gflop", 1e-3)):
        cells.append(spread(scale * cost for cost in column.cost(measure)))
        for other in (baseline, mrt):
            known = other is not None and other is not column and column is not baseline and column.all_done()
            cells.append(saved(column.mean(measure), other.mean(measure)) if known else "–")
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
        f"\nOurs: {count(ranks, 'rank')}, target {target:g}, costs up to the target. "
        f"Paper: {application.gpus[place]} GPUs.\n")


def stages_table(shop, what):
    """Tables 3 and 7."""
    application = COSMOFLOW if what == "table3" else NEURON
    target = target_of(shop, application)
    header, cells = [""], []
    for method in ("one-fusion", "two-fusions"):
        own_batch = application.sizes[shop.size].stages_coarse_batch
        runs = shop.one_fusion(application, own_batch) if method == "one-fusion" else shop.runs(application, method)
        header += [TITLES[method] + " (s)", "(TFLOP)", "paper (s)"]
        for measure, scale in (("seconds", 1), ("gflop", 1e-3)):
            column = Column(runs, target)
            stages = [[scale * run.before(measure, stage) for run in runs] for stage in (1, 2)]
            totals = [scale * cost for cost in column.cost(measure)]
            finetune = [total - sum(s[i] for s in stages) for i, total in enumerate(totals)]
            cells.append([spread(s) if any(s) else "–" for s in stages] + [spread(finetune), spread(totals)]
                         + [column.loss() if measure == "seconds" else ""])
        *seconds, loss = paper.STAGES[what][method]
        cells.append([number(s) for s in seconds] + [f"{loss:.4f}"])
    rows = ("first training stage", "second training stage", "finetuning stage", "total", "validation loss (MSE)")
    return markdown(header, [[row, *(column[i] for column in cells)] for i, row in enumerate(rows)]) + (
        f"\nOurs: {count(application.sizes[shop.size].ranks[0], 'rank')}, target {target:g}. "
        f"Paper: {application.gpus[0]} GPUs.\n")


def epochs_table(shop, what):
    """Tables 4 and 8: the parts of an epoch, from the one-fusion runs."""
    application = COSMOFLOW if what == "table4" else NEURON
    rows = []
    for ranks, gpus in zip(application.sizes[shop.size].ranks, application.gpus):
        run = shop.run(application, "one-fusion", shop.first_seed(application), ranks)
        for data in ("coarse", "dense"):
            mean = run.mean_epoch(data == "dense")
            own = [mean[f"{part}_seconds"] for part in ("io", "compute", "communication")] + [mean["seconds"]]
            rows.append([str(ranks), str(gpus), data, *(f"{x:.3f}" for x in own),
                         *(number(x) for x in paper.EPOCHS[what][gpus, data])])
    header = ["ranks", "GPUs in the paper", "data", "I/O (s)", "compute (s)", "communication (s)", "epoch (s)",
              "paper: I/O", "compute", "communication", "epoch"]
    return markdown(header, rows) + "\nFirst seed; without the first epoch of each training step.\n"


def pooling_table(shop, _what):
    """Table 9: what averaging the data costs, once while loading or in every epoch."""
    rows = []
    for application in (COSMOFLOW, NEURON):
        baseline = shop.run(application, "baseline", shop.first_seed(application))
        epoch, backend = baseline.mean_epoch(True)["seconds"], baseline.result["versions"]["backend"]
        kept = coarse_epochs(shop.run(application, "one-fusion", shop.first_seed(application)))
        again = coarse_epochs(shop.run(application, "one-fusion", shop.first_seed(application), extra=("data.averaging=epoch",),
                                       label="-averaging-epoch"))
        once = kept[0]["io_seconds"] - steady(kept, "io_seconds")
        every = steady(again, "seconds") - steady(kept, "seconds")
        rows.append([application.title, f"{epoch:.2f}", f"{once:.2f}", f"{every:.2f}",
                     *(f"{x:.2f}" for x in paper.POOLING[application.name])])
    header = ["", "epoch of the original model (s)", "averaging once, while loading (s)",
              "averaging in every epoch: more per epoch (s)", "paper: epoch", "on CPUs", "on GPUs"]
    return markdown(header, rows) + f"\nOurs: first seed, {backend}. The paper averages on CPUs or on GPUs.\n"


def coarse_epochs(run):
    return [epoch for epoch in run.epochs if epoch["role"] == "coarse"]


def steady(epochs, part):
    return statistics.fmean(epoch[part] for epoch in (epochs[1:] or epochs))


SOURCES = {"baseline": ("new", "new"), "mrt": ("coarse", "new"), "top-only": ("new", "dense"),
           "one-fusion": ("coarse", "dense"), "interpolated": ("coarse", "coarse, interpolated"),
           "progressive": ("coarse", "coarse where it fits"), "two-fusions": ("coarse, twice", "dense, twice")}


def ablation_table(shop, application):
    """What each part of fusion adds: the same batch and learning-rate rule for all."""
    target = target_of(shop, application)
    columns = {m: Column(shop.runs(application, m), target) for m in application.rivals(shop.size)}
    baseline = columns["baseline"].mean("gflop")
    rows = []
    for method, c in columns.items():
        kind = method.removesuffix("-half")
        bottom, top = SOURCES[kind]
        finals = [run.result["validation_loss"] for run in c.runs]
        whole = [1e-3 * run.epochs[-1]["total_gflop"] for run in c.runs]
        rows.append([TITLES[kind] + ", half the cost" * (kind != method), bottom, top, c.epochs("coarse"), c.epochs("dense"), spread(finals, 4),
                     spread(whole), c.done(), c.after(), spread(1e-3 * x for x in c.cost("gflop")),
                     saved(c.mean("gflop"), baseline) if method != "baseline" and c.all_done() else "–",
                     spread(c.cost("seconds"))])
    header = ["method", "bottom from", "top from", "coarse epochs", "dense epochs", "loss at the end",
              "arithmetic of all (TFLOP)", "reached the target", "epochs after fusion until then",
              "arithmetic until then (TFLOP)", "saved against baseline", "time until then (s)"]
    return markdown(header, rows) + (
        f"\n{application.title}, {count(len(columns['baseline'].runs), 'seed')}, target {target:g}. Where a run did not reach "
        "it, all of the run counts, and a method whose runs did not all reach it has saved nothing that could be told.\n")
