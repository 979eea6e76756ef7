"""Records of the finished runs of the map and of the laboratory, kept in docs/results/map/records and docs/results/lab/records:
a line for each run, of which every machine can make its folder again as far as `mrmf compare` reads it. So either continues
where another machine left it."""
import json
import pathlib

from problems import EXPERIMENTS

RESULTS = EXPERIMENTS.parents[1] / "docs/results"
FILES = ("result.json", "epochs.jsonl", "config.toml")  # the result last when they are written: it says that a run is done


def neutral(which):
    """Stands for the folder of all runs, wherever that is."""
    return f"runs/{which}"


def keep(root, folder, which="map"):
    """Adds a finished run's records, unless they are there. `which`: map or lab."""
    name = folder.relative_to(root)
    path = RESULTS / which / f"records/{name.parent}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    if any(json.loads(line)["run"] == str(name) for line in lines):
        return
    texts = {file: (folder / file).read_text().replace(str(root), neutral(which)) for file in FILES}
    lines.append(json.dumps({"run": str(name), **texts}))
    partial = path.with_suffix(".partial")
    partial.write_text("\n".join(sorted(lines, key=lambda line: json.loads(line)["run"])) + "\n")
    partial.replace(path)


def restore(root, which="map"):
    """Makes the folders of runs whose records are kept, where they are missing."""
    for path in sorted((RESULTS / which / "records").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            folder = root / record["run"]
            if (folder / "result.json").exists():
                continue
            folder.mkdir(parents=True, exist_ok=True)
            for file in reversed(FILES):
                (folder / file).write_text(record[file].replace(neutral(which), str(root)))
