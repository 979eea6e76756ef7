"""What `mrmf compare` says about runs of the map and of the laboratory, and the words that tables have for it."""
import json
import pathlib
import shutil
import subprocess
import tempfile


def compare(program, root, folders, *options):
    """What the program says about these runs; their names are relative to the folder of all of them."""
    words = [program, "compare", *options, *(str(folder.relative_to(root)) for folder in folders)]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:3])} ...: {done.stderr}")
    return done.stdout


def columns_of(program, root, folders, *options):
    return json.loads(compare(program, root, folders, "--json", *options))["columns"]


def columns_of_rival(program, root, folders, baselines):
    """Columns of runs that trained another network than the baselines' in the way of a baseline, with what they save
    against these. The program takes every such run for a baseline, which saves nothing; so it is shown copies of another
    method's name."""
    with tempfile.TemporaryDirectory(prefix="mrmf-map-") as scratch:
        copies = [pathlib.Path(scratch) / folder.relative_to(root) for folder in folders]
        for folder, copy in zip(folders, copies):
            shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("checkpoints"))
            result = json.loads((copy / "result.json").read_text())
            (copy / "result.json").write_text(json.dumps(result | {"method": "progressive"}))
        return columns_of(program, pathlib.Path(scratch), copies, "--baselines", str(baselines))


def label(column):
    """The method and its epochs, from the name of a run's folder."""
    method, epochs, _ = pathlib.Path(column["runs"][0]["folder"]).name.rsplit("-", 2)
    return method, int(epochs)


def spread_text(values, digits):
    text = f"{values['mean']:.{digits}f}"
    return text if values["n"] < 2 else f"{text} ± {values['standard_deviation']:.{digits}f}"


def saving_text(saved):
    """A bound has no spread: it says what is certain. A loss above those of all baselines is no saving."""
    if not saved:
        return "–"
    saved = saved["gflop_saved"]
    if saved["bound"] == "at most":
        return "none: ends above every baseline"
    text = f"{100 * saved['mean']:.0f}"
    if saved["bound"] == "at least":
        return f"≥ {text} %"
    text = (f"{text} ± {100 * saved['standard_error']:.0f}" if saved["standard_error"] is not None else text) + " %"
    return text if saved["paired"] else text + ", unpaired"


def cost_text(column, epoch_gflop):
    return f"{column['gflop']['mean'] / epoch_gflop:.2f}"
