#!/usr/bin/env python3
"""Writes cubes.h5: cubes of 32^3 counts in four channels, whose spread in each channel follows a label. Enough to time steps."""
import h5py
import numpy as np


def main():
    rng = np.random.default_rng(7)
    with h5py.File("cubes.h5", "w") as file:
        for name, count in (("train", 256), ("val", 16)):
            labels = rng.uniform(-1, 1, (count, 4)).astype("float32")
            field = rng.normal(0, 1, (count, 32, 32, 32, 4)) * (0.5 + 0.25 * labels[:, None, None, None, :])
            file[f"{name}_cubes"] = field.astype("float32")
            file[f"{name}_labels"] = labels


if __name__ == "__main__":
    main()
