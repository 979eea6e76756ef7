"""Records of the map's finished runs, kept in docs/results/map/records: a line for each run, of which every machine can make
its folder again as far as `mrmf compare` reads it. So the map goes on where another machine left it."""
import json
import pathlib

from problems import JOBS

RECORDS = JOBS.parent / "docs/results/map/records"
FILES = ("result.json", "epochs.jsonl", "config.toml")  # the result last when they are written: it says that a run is done
NEUTRAL = "runs/map"  # stands for the folder of all runs, wherever that is


def keep(root, folder):
    """Adds a finished run's records, unless they are there."""
    name = folder.relative_to(root)
    path = RECORDS / f"{name.parent}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text().splitlines() if path.exists() else []
    if any(json.loads(line)["run"] == str(name) for line in lines):
        return
    texts = {file: (folder / file).read_text().replace(str(root), NEUTRAL) for file in FILES}
    lines.append(json.dumps({"run": str(name), **texts}))
    partial = path.with_suffix(".partial")
    partial.write_text("\n".join(sorted(lines, key=lambda line: json.loads(line)["run"])) + "\n")
    partial.replace(path)


def restore(root):
    """Makes the folders of runs whose records are kept, where they are missing."""
    for path in sorted(RECORDS.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            folder = root / record["run"]
            if (folder / "result.json").exists():
                continue
            folder.mkdir(parents=True, exist_ok=True)
            for file in reversed(FILES):
                (folder / file).write_text(record[file].replace(NEUTRAL, str(root)))
