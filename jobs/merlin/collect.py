"""Writes what a study came to, as one JSON object: members, losses of the stages, scores."""
import argparse
import json
import os


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--ensemble", "--scores", "--output"):
        parser.add_argument(option, required=True)
    parser.add_argument("--run", action="append", default=[], metavar="NAME=FOLDER")
    options = parser.parse_args()
    ensemble = read(os.path.join(options.ensemble, "result.json"))
    found = {"members": ensemble["members"], "done": ensemble["done"], "failed": ensemble["failed"],
             "data": os.path.join(options.ensemble, "data.h5"), "validation_loss": {}, "seconds": {}}
    for run in options.run:
        name, folder = run.split("=", 1)
        result = read(os.path.join(folder, "result.json"))
        found["validation_loss"][name] = result["validation_loss"]
        found["seconds"][name] = result["total_seconds"]
    found["scores"] = read(options.scores)
    with open(options.output + ".partial", "w", encoding="utf-8") as file:
        json.dump(found, file, indent=2)
    os.replace(options.output + ".partial", options.output)
    print(json.dumps(found["validation_loss"]))


if __name__ == "__main__":
    main()
