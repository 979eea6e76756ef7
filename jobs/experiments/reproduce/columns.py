"""One method's runs as a column or row of a table, and how numbers are written."""
import csv
import io
import math
import statistics

TITLES = {"baseline": "Baseline", "mrt": "MRT", "one-fusion": "MRMF (one fusion)", "two-fusions": "MRMF (two fusions)",
          "interpolated": "MRMF, interpolated top", "progressive": "Progressive resizing", "top-only": "Top from dense"}


def spread(values, digits=None):
    """Mean, and the sample standard deviation where the values differ; three digits unless said otherwise."""
    values = list(values)
    if digits is None:
        mean = abs(statistics.fmean(values))
        digits = min(4, max(0, 2 - math.floor(math.log10(mean)))) if mean > 0 else 0
    text = f"{statistics.fmean(values):.{digits}f}"
    return text + (f" ± {statistics.stdev(values):.{digits}f}" if max(values) > min(values) else "")


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def number(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}"


def count(number_of, what):
    return f"{number_of} {what}{'s' * (number_of != 1)}"


def saved(own, other):
    return f"{100 * (1 - own / other):.1f} %"


def ratio(own, other, own_done=True, other_done=True):
    """own / other; a bound where one of them did not always reach the target, and so costs more than is known."""
    if not own or not other or not (own_done or other_done):
        return "–"
    return ("" if own_done and other_done else "< " if own_done else "> ") + f"{own / other:.2f}"


RATIOS = " A ratio to what did not always reach the target is less than what is printed (<), one of it is more (>)."


def repetitions(runs):
    """How many seeds are behind each column or row, from its runs; `runs` are by its title."""
    texts = {}
    for title, own in runs.items():
        seeds = sorted({run.result["seed"] for run in own})
        text = f"{count(len(seeds), 'seed')} ({', '.join(map(str, seeds))})"
        texts[title] = text if len(own) == len(seeds) else f"{len(own)} runs of {text}"
    common = statistics.mode(texts.values())
    return "; ".join([common, *(f"{title}: {text}" for title, text in texts.items() if text != common)])


COUNTED = " Where a run did not reach the target, all of the run counts."
SAVINGS = (" So a method whose runs did not all reach it has no saving that could be told (–), and a saving against one whose "
           "runs did not all reach it is more than what is printed (>).")


def unreached(columns, savings=False):
    """What costs, and savings, mean where a run did not reach the target; nothing where all did."""
    if all(column.all_done() for column in columns):
        return ""
    return COUNTED + SAVINGS * savings


def target_of(shop, application):
    """The loss that counts as reached: the size's, or where the first baseline ended."""
    given = application.sizes[shop.size].target
    return given or shop.run(application, "baseline", shop.first_seed(application)).result["validation_loss"]


def runs_csv(used, size):
    """What is behind a table or figure: a line for each run, with what it had cost when it reached the size's target."""
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(["application", "method", "ranks", "seed", "validation_loss", "seconds", "gflop", "target", "reached",
                    "coarse_epochs", "dense_epochs", "epochs_after_fusion_until", "seconds_until", "gflop_until"])
    for application, method, ranks, run in used:
        last = run.epochs[-1]
        row = [application.name, method, ranks, run.result["seed"], run.result["validation_loss"], last["total_seconds"],
               round(last["total_gflop"], 6)]
        target = application.sizes[size].target
        at = run.reached(target) if target else None
        row += [target or "", int(at.done) if at else "", run.count("coarse"), run.count("dense")]
        row += [at.epochs, at.record["total_seconds"], round(at.record["total_gflop"], 6)] if at else [""] * 3
        lines.writerow(row)
    return out.getvalue()


class Column:
    """One method's runs up to the target."""

    def __init__(self, runs, target):
        self.runs = runs
        self.reached = [run.reached(target) for run in runs]

    def loss(self):
        return spread((r.record["validation_loss"] for r in self.reached), 4)

    def epochs(self, role):
        counts = [run.count(role) for run in self.runs]
        return spread(counts, 0 if len(set(counts)) == 1 else 1) if any(counts) else "–"

    def after(self):
        return spread((r.epochs for r in self.reached), 0 if len({r.epochs for r in self.reached}) == 1 else 1)

    def cost(self, measure):
        return [r.record[f"total_{measure}"] for r in self.reached]

    def mean(self, measure):
        return statistics.fmean(self.cost(measure))

    def all_done(self):
        return all(r.done for r in self.reached)

    def saved(self, other, measure):
        """Part of the mean cost of the column `other`, whose true cost is more where it did not always reach the target."""
        if not self.all_done():
            return "–"
        return ("" if other.all_done() else "> ") + saved(self.mean(measure), other.mean(measure))

    def done(self):
        return f"{sum(r.done for r in self.reached)} of {len(self.reached)}"
