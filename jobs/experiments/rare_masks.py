#!/usr/bin/env python3
"""What `mrmf init` writes for masks with rare classes, beside plain cross-entropy.

    jobs/experiments/rare_masks.py --work /scratch/rare [--epochs 20] [--seeds 1 2 3] [--problems lesions vessels organs]

makes three data sets of noisy images (a blob of 1 %; thin lines of 3 %; two classes of 2 % and 0.3 %), lets `init` write
a configuration for each, trains it as it is and with other losses, weights and flips, and prints Dice of the test
split (without the background), a line for each, as docs/results/rare-masks.md has them. Runs that are there already are not
trained again."""
import argparse
import json
import os
import subprocess

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SIDE, ROWS, CONTRAST = 48, 120, 0.8


def blob(mask, rng, value, radius):
    y, x = rng.uniform(radius, SIDE - radius, 2)
    grid = np.arange(SIDE)
    mask[(grid[:, None] - y) ** 2 + (grid - x) ** 2 < radius ** 2] = value


def line(mask, rng):
    at, angle, grid = rng.uniform(8, SIDE - 8, 2), rng.uniform(0, np.pi), np.arange(SIDE)
    distance = (grid[:, None] - at[0]) * np.cos(angle) + (grid - at[1]) * np.sin(angle)
    mask[np.abs(distance) < 0.7] = 1


def lesions(mask, rng):
    blob(mask, rng, 1, rng.uniform(2, 3.5))


def vessels(mask, rng):
    line(mask, rng)


def organs(mask, rng):
    blob(mask, rng, 1, rng.uniform(3, 5))
    blob(mask, rng, 2, rng.uniform(1.2, 2))


PROBLEMS = {"lesions": lesions, "vessels": vessels, "organs": organs}
PLAIN = 'training.loss="cross_entropy"'
STILL = "data.augment.flip=[]"
WEIGHTS = 'training.class_weights="balanced"'
WAYS = {"what init writes: cross-entropy with Dice, flips": [], "plain cross-entropy": [PLAIN, STILL], "plain cross-entropy, flips": [PLAIN],
        "balanced weights, flips": [PLAIN, WEIGHTS], "cross-entropy with Dice": [STILL],
        "cross-entropy with Dice, balanced weights, flips": [WEIGHTS], "focal, flips": ['training.loss="focal"']}


def make(path, draw):
    rng = np.random.default_rng(0)
    masks = np.zeros((ROWS, SIDE, SIDE), "u1")
    for mask in masks:
        draw(mask, rng)
    images = CONTRAST * masks + rng.normal(0, 1, masks.shape)
    with h5py.File(path, "w") as file:
        file["image"], file["mask"] = images[..., None].astype("f4"), masks
    return [float(np.mean(masks == c)) for c in range(1, int(masks.max()) + 1)]


def mrmf(work, *words):
    program = os.environ.get("MRMF", os.path.join(HERE, "..", "..", "build", "mrmf"))
    done = subprocess.run([os.path.abspath(program), *words], cwd=work, text=True, capture_output=True)
    if done.returncode != 0:
        raise SystemExit(f"mrmf {' '.join(words)}: {done.stderr}")
    return done.stdout


def dice(work, problem, way, sets, seed, epochs):
    folder = f"{problem}-{way}-{seed}"
    if not os.path.exists(os.path.join(work, folder, "result.json")):
        more = [*sets, f"training.seed={seed}", f"training.epochs={epochs}", f"run.folder={folder}", "data.split.test=0.2"]
        mrmf(work, "train", f"{problem}.toml", *(word for one in more for word in ("--set", one)))
    return json.loads(mrmf(work, "evaluate", folder, "--split", "test", "--json"))["dice"] or 0.0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--work", required=True)
    options.add_argument("--epochs", type=int, default=20)
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    given = options.parse_args()
    os.makedirs(given.work, exist_ok=True)
    for problem in given.problems:
        shares = make(os.path.join(given.work, f"{problem}.h5"), PROBLEMS[problem])
        mrmf(given.work, "init", f"{problem}.h5", "-o", f"{problem}.toml", "--overwrite")
        print(f"{problem}: {', '.join(f'{100 * share:.2f} %' for share in shares)}", flush=True)
        for i, (way, sets) in enumerate(WAYS.items()):
            scores = [dice(given.work, problem, i, sets, seed, given.epochs) for seed in given.seeds]
            print(f"  {way:<50} {np.mean(scores):.3f} ({', '.join(f'{score:.3f}' for score in scores)})", flush=True)


if __name__ == "__main__":
    main()
