"""The command line of jobs/reproduce.sh."""
import argparse
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True

import tables
from columns import runs_csv, target_of
from experiments import APPLICATIONS, COSMOFLOW, EXPERIMENTS, NEURON
from runs import Workshop


def figures():
    """Loaded where a figure is asked for: tables need no matplotlib."""
    try:
        import figures as module
    except ImportError as error:
        sys.exit(f"reproduce: {error}; figures need matplotlib: install it, name a Python that has it with PYTHON=..., "
                 "or ask for tables alone")
    return module


WHAT = {
    "table1": lambda shop, what: tables.methods_table(shop, what),
    "table2": lambda shop, what: tables.methods_table(shop, what),
    "table3": tables.stages_table,
    "table4": tables.epochs_table,
    "table5": lambda shop, what: tables.methods_table(shop, what),
    "table6": lambda shop, what: tables.methods_table(shop, what),
    "table7": tables.stages_table,
    "table8": tables.epochs_table,
    "table9": tables.pooling_table,
    "figure3": lambda shop, what: figures().breakdown(shop, what),
    "figure4": lambda shop, what: figures().breakdown(shop, what),
    "figure5": lambda shop, what: figures().batches(shop, what),
    "cosmoflow": lambda shop, what: rivals(shop, COSMOFLOW),
    "neuron": lambda shop, what: rivals(shop, NEURON),
}
TITLES = {
    "table1": "CosmoFlow, end to end, 32 GPUs in the paper", "table2": "CosmoFlow, end to end, 64 GPUs in the paper",
    "table3": "CosmoFlow, one and two fusions", "table4": "CosmoFlow, parts of an epoch",
    "table5": "Neuron Inverter, end to end, 16 GPUs in the paper",
    "table6": "Neuron Inverter, end to end, 32 GPUs in the paper", "table7": "Neuron Inverter, one and two fusions",
    "table8": "Neuron Inverter, parts of an epoch", "table9": "What averaging the data costs",
    "figure3": "CosmoFlow, stages of every method", "figure4": "Neuron Inverter, stages of every method",
    "figure5": "Neuron Inverter, batch of the coarse model",
    "cosmoflow": "CosmoFlow: all methods and what each part of fusion adds",
    "neuron": "Neuron Inverter: all methods and what each part of fusion adds",
}


def rivals(shop, application):
    """All methods: the ablation table, `mrmf compare`, loss against cost."""
    text = tables.ablation_table(shop, application)
    folders = [str(run.folder) for method in shop.rivals(application) for run in shop.runs(application, method)]
    target = target_of(shop, application)
    compared = subprocess.run([shop.program, "compare", "--target", f"{target:g}", *folders], check=True,
                              capture_output=True, text=True).stdout
    text += f"\n`mrmf compare --target {target:g}`:\n\n```\n{compared}```\n"
    (shop.root / "figures").mkdir(parents=True, exist_ok=True)
    for axis in ("gflop", "seconds"):
        for suffix in ("png", "svg"):
            image = shop.root / "figures" / f"{application.name}-loss-{axis}.{suffix}"
            subprocess.run([shop.program, "plot", *folders, "--mean", "--x", axis, "-o", str(image), "--overwrite"], check=True)
            text += f"\ndrawn: {image}"
    return text + "\n"


def describe(shop, what):
    lines = []
    for application in APPLICATIONS.values():
        if application.title not in TITLES[what] and what != "table9":
            continue
        settings = application.sizes[shop.size]
        data = "mrmf simulate " + " ".join(settings.simulate) if settings.simulate else "the published data"
        lines.append(f"{application.title}: {data}; batch {settings.batch} per rank")
    return f"Size `{shop.size}`. " + "; ".join(lines) + ".\n"


ABOUT = "Reproduces the paper's tables and figures: makes the runs that are missing, prints our figures beside the paper's."
NOTES = """sizes:
  smoke        10 cubes, 40 recordings, one epoch a step: that everything runs; all of it took 36 s of processor time
  workstation  1,280 cubes of 32^3, 4,000 recordings, three seeds; two cores take most of an hour for each application
  paper        the paper's own data, from the working folder or --set data.files=[...], on the paper's numbers of ranks,
               started by srun: run it inside an allocation that has so many ranks
environment:
  MRMF_LAUNCH  starts a run on more than one rank, such as "srun --mpi=pmix -n {ranks}"; mpirun, or srun at size paper
  PYTHON       the Python that runs this; /usr/bin/python3"""


def read_options():
    parser = argparse.ArgumentParser(prog="jobs/reproduce.sh", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description=ABOUT, epilog=NOTES)
    parser.add_argument("what", nargs="+", choices=[*WHAT, "all"], metavar="WHAT", help=", ".join([*WHAT, "all"]))
    parser.add_argument("--size", choices=("smoke", "workstation", "paper"), default="smoke")
    parser.add_argument("--folder", help="where runs and results go; runs/reproduce-SIZE. What is there "
                        "is used again; what was made here for other settings is made anew, all else is left alone")
    parser.add_argument("--program", default=str(EXPERIMENTS.parents[1] / "build/mrmf"), help="build/mrmf of this source folder")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="words",
                        help="a key of the configuration, for every run; may be repeated")
    parser.add_argument("--seeds", type=int, nargs="+", default=(), help="instead of the size's own")
    parser.add_argument("--methods", nargs="+", default=(), metavar="METHOD", help="of cosmoflow and neuron, these and the "
                        "baseline alone; their names are in jobs/experiments/APPLICATION/methods.txt")
    parser.add_argument("--threads", type=int, help="per rank; half the cores, so that two ranks get as many each; at "
                        "size paper what mrmf chooses")
    return parser.parse_args()


def main():
    options = read_options()
    if not os.access(options.program, os.X_OK):
        sys.exit(f"reproduce: {options.program}: no such program; run make, or give --program")
    root = pathlib.Path(options.folder or f"runs/reproduce-{options.size}")
    threads = options.threads
    if threads is None:
        threads = 0 if options.size == "paper" else max(1, (os.cpu_count() or 1) // 2)
    shop = Workshop(options.program, root, options.size, threads, tuple(options.seeds), tuple(options.words),
                    tuple(options.methods))
    for what in WHAT if "all" in options.what else options.what:
        print(f"== {what}: {TITLES[what]}", flush=True)
        text = f"## {what}: {TITLES[what]}\n\n{WHAT[what](shop, what)}\n{describe(shop, what)}"
        root.mkdir(parents=True, exist_ok=True)
        (root / f"{what}.md").write_text(text)
        (root / f"{what}.csv").write_text(runs_csv(shop.take_used(), options.size))
        print(f"\n{text}\nwritten: {root / what}.md, .csv\n", flush=True)


if __name__ == "__main__":
    main()
