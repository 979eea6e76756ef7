"""What auto plans for the map's problems when it measures their data, as it does by default. Kept in
docs/results/map/details.csv, because the data are not."""
import csv
import re
import subprocess

from problems import EXPERIMENTS, PROBLEMS, data_words, parts

TABLE = EXPERIMENTS.parents[1] / "docs/results/map/details.csv"
COLUMNS = ("problem", "samples", "unexplained_without", "unexplained_with", "plan")


def made(root, name, samples):
    """The parts of a problem's data, if all of them are there."""
    problem, place = PROBLEMS[name], root / "data" / f"{name}-{samples}"
    found = parts(problem, samples, place)
    done = ((part.output if problem.folder else place).with_suffix(".done") for part in found)
    return found if all(file.exists() for file in done) else []


def detail(program, problem, found):
    """The last three columns. The measurement knows neither epochs nor method keys."""
    words = ["method.name=auto", *data_words(problem, found)]
    command = [program, "plan", str(problem.config)] + [part for word in words for part in ("--set", word)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"map: {' '.join(command[:3])} ...: {done.stderr}")
    figures = re.search(r"leaves ([\d.]+) of their variance unexplained without the finest detail and ([\d.]+) with it",
                        done.stdout)
    plan = "baseline" if "so the plan is the baseline" in done.stdout else "coarse first"
    return (*(figures.groups() if figures else ("", "")), plan)


def details(program, root, names):
    """(problem, samples) -> what auto plans by default: those of the table, and of problems whose data are there."""
    rows = {}
    if TABLE.exists():
        with open(TABLE, newline="") as file:
            rows = {(row["problem"], int(row["samples"])): tuple(row[column] for column in COLUMNS[2:])
                    for row in csv.DictReader(file)}
    for name, samples in names:
        found = made(root, name, samples)
        if found:
            rows[name, samples] = detail(program, PROBLEMS[name], found)
    with open(TABLE, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([COLUMNS, *((*key, *row) for key, row in sorted(rows.items()))])
    return {key: row[-1] for key, row in rows.items()}
