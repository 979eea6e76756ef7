"""A surrogate in the loop against a fixed design of as many members: the loss of the same network on a test design that
neither has seen, for several seeds of the design. Prints a line for each, as CSV.

    rounds.py --seeds 1,2,3
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = pathlib.Path(__file__).resolve().parent
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--test", type=int, default=1000, help="members of the test design")
    parser.add_argument("--program", default=ROOT / "build/mrmf")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("runs/rounds"))
    options = parser.parse_args()
    folder = options.folder.resolve()

    def mrmf(*words):
        done = subprocess.run([options.program, *map(str, words)], env=ENVIRONMENT, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{words}\n{done.stdout}{done.stderr}")
        return done.stdout

    def ensemble(name, *settings):
        words = [word for setting in settings for word in ("--set", setting)]
        mrmf("ensemble", HERE / "rounds.toml", "--set", f"ensemble.folder={folder / name}", "--set",
             f"ensemble.rounds.config={HERE / 'surrogate.toml'}", *words)
        return folder / name / "data.h5"

    def loss(data, run, seed):
        """Scores on the test design."""
        if not (folder / run / "result.json").exists():
            mrmf("train", HERE / "surrogate.toml", "--set", f"data.files=['{data}']", "--set", f"training.seed={seed}", "--set",
                 f"run.folder={folder / run}")
        scores = json.loads(mrmf("evaluate", folder / run, "--files", test, "--samples", "labels", "--labels", "summaries", "--json"))
        return scores

    test = ensemble("test", "ensemble.rounds.count=0", f"design.members={options.test}", "ensemble.seed=1000",
                    "design.kind=latin-hypercube")
    print("seed,design,members,model,relative_error")
    found = {"rounds": [], "fixed": []}
    for seed in map(int, options.seeds.split(",")):
        designs = {"rounds": ensemble(f"rounds-{seed}", f"ensemble.seed={seed}"),
                   "fixed": ensemble(f"fixed-{seed}", f"ensemble.seed={seed}", "ensemble.rounds.count=0", "design.members=160")}
        for design, data in designs.items():
            for model in (101, 102):
                error = relative_error(loss(data, f"{design}-{seed}-model-{model}", model))
                found[design].append(error)
                print(f"{seed},{design},160,{model},{error:.5f}", flush=True)
    for design, errors in found.items():
        print(f"# {design}: mean {statistics.mean(errors):.5f}, from {min(errors):.5f} to {max(errors):.5f}")


def relative_error(scores):
    """1 - R2, the squared error in units of an output's variance; the mean over the outputs."""
    return statistics.mean(1 - label["r2"] for label in scores["labels"])


if __name__ == "__main__":
    main()
