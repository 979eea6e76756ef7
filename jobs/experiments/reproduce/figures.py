"""The paper's figures from our runs, as PNG and SVG."""
import statistics

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.fonttype"] = "none"
import matplotlib.pyplot as plt

import paper
import tables
from columns import TITLES, Column, count, markdown, repetitions, saved, spread, target_of, unreached
from experiments import COSMOFLOW, METHODS, NEURON

# Okabe and Ito's, told apart by colour-blind readers: first stage, second stage, finetune.
PARTS = (("first stage", "#D55E00"), ("second stage", "#E69F00"), ("finetune", "#0072B2"))
UNITS = {"seconds": ("time to the target (s)", 1), "gflop": ("arithmetic to the target (TFLOP)", 1e-3)}


def save(figure, shop, name):
    folder = shop.root / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg"):
        figure.savefig(folder / f"{name}.{suffix}", dpi=150, metadata={"Date": None} if suffix == "svg" else None)
    plt.close(figure)
    return f"drawn: {folder / name}.png, .svg\n"


def parts_of(column, measure):
    """Means of the first stage, the second and what came after the last fusion, up to the target."""
    stages = [statistics.fmean(run.before(measure, stage) for run in column.runs) for stage in (1, 2)]
    return [*stages, column.mean(measure) - sum(stages)]


def breakdown(shop, what):
    """Figures 3 and 4: what the stages of every method cost, on both numbers of ranks."""
    application = COSMOFLOW if what == "figure3" else NEURON
    settings = application.sizes[shop.size]
    target = target_of(shop, application)
    by_ranks = {count(ranks, "rank"): {TITLES[m]: Column(shop.runs(application, m, ranks), target) for m in METHODS}
                for ranks in settings.ranks}
    columns = [(f"{title}\n{ranks}", column) for ranks, methods in by_ranks.items() for title, column in methods.items()]
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for axes, (measure, (label, scale)) in zip(panels, UNITS.items()):
        bottom = [0.0] * len(columns)
        for part, (name, colour) in enumerate(PARTS):
            heights = [scale * parts_of(column, measure)[part] for _, column in columns]
            axes.bar(range(len(columns)), heights, bottom=bottom, color=colour, label=name, width=0.7)
            bottom = [b + h for b, h in zip(bottom, heights)]
        deviations = [scale * (statistics.stdev(c.cost(measure)) if len(c.runs) > 1 else 0) for _, c in columns]
        axes.errorbar(range(len(columns)), bottom, yerr=deviations, fmt="none", ecolor="#333333", capsize=3)
        axes.set_xticks(range(len(columns)), [name for name, _ in columns], fontsize=6.5, rotation=30, ha="right")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(fontsize=8)
    rows = []
    for (ranks, methods), gpus in zip(by_ranks.items(), application.gpus):
        baseline, theirs = methods[TITLES["baseline"]], paper_totals(application, gpus)
        for method, column in zip(METHODS, methods.values()):
            against = ["–" if column is baseline else column.saved(baseline, measure) for measure in UNITS]
            known = method != "baseline" and method in theirs
            rows.append([f"{TITLES[method]}, {ranks}", *(f"{x:.2f}" for x in parts_of(column, "seconds")),
                         spread(column.cost("seconds")), spread((x / 1000 for x in column.cost("gflop"))), *against,
                         saved(theirs[method], theirs["baseline"]) if known else "–", column.done()])
    header = ["", "first stage (s)", "second stage (s)", "finetune (s)", "total (s)", "total (TFLOP)",
              "time saved against baseline", "arithmetic saved", "paper: time saved", "reached the target"]
    seeds = ". ".join(f"On {ranks}: " + repetitions({title: c.runs for title, c in methods.items()})
                      for ranks, methods in by_ranks.items())
    return markdown(header, rows) + (
        f"\n{seeds}. Target {target:g}, costs up to it.{unreached([c for _, c in columns], savings=True)}\n\n"
        + save(figure, shop, what))


def paper_totals(application, gpus):
    """Total seconds of the paper's methods; two fusions are known on the fewer GPUs alone."""
    fewer = gpus == application.gpus[0]
    names = ("table1", "table2", "table3") if application is COSMOFLOW else ("table5", "table6", "table7")
    totals = {method: figures[4] for method, figures in paper.METHODS[names[0 if fewer else 1]].items()}
    return totals | ({"two-fusions": paper.STAGES[names[2]]["two-fusions"][3]} if fewer else {})


def batches(shop, what):
    """Figure 5: one fusion with larger batches for the coarse model."""
    settings = NEURON.sizes[shop.size]
    target = target_of(shop, NEURON)
    columns = {batch: Column(shop.one_fusion(NEURON, batch), target) for batch in settings.coarse_batches}
    figure, panels = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
    for axes, (measure, (label, scale)) in zip(panels, UNITS.items()):
        means = [scale * column.mean(measure) for column in columns.values()]
        deviations = [scale * (statistics.stdev(c.cost(measure)) if len(c.runs) > 1 else 0) for c in columns.values()]
        axes.bar(range(len(means)), means, yerr=deviations, color="#0072B2", width=0.6, capsize=3)
        axes.set_xticks(range(len(means)), [str(batch) for batch in columns])
        axes.set_xlabel("batch of the coarse model, per rank")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    return tables.batches_table(columns, settings, target) + "\n\n" + save(figure, shop, what)
