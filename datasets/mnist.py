"""MNIST digits with image features: the images for Online Substitution's classification (KDD 2016, section 5).

The paper classifies photographs by 7,488 image features (colour histograms, local binary patterns, HOG);
that set is not public. Here the images are digits, 28 x 28, and the features are those asked for, side by
side: `pixels` (784), `products` of pairs of pixels, `gradients` (1,568), `hog` (1,296). The pairs are all
of pixels at most R rows and columns apart (`--pairs near:R`, with R = 1: 2,970) or N of all 306,936
(`--pairs random:N`). Values are float32, pixels between 0 and 1; the label is the digit.

The whole matrix is made in memory: 11,791 images of 4 and 9 with pixels and near products take 180 MB.

Known truth: the labels; which features matter is not known.

    python datasets/mnist.py fours-and-nines.zarr --from DIR --digits 4,9 --features pixels,products
    python datasets/mnist.py test.zarr --from DIR --part test --digits 4,9 --features pixels,products
    python datasets/mnist.py hog.zarr --from DIR --features hog
"""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import click
import numpy as np
from _image_features import Features, Images, gradients, hog, near_pairs, pixels, products, random_pairs
from _recipe import RecipeError, WholeNumbers, announce, find_files, recipe, seed_option, source_folder
from numpy.typing import NDArray

import daskfs

ORIGIN = "the MNIST database of Yann LeCun et al. (expected: {0}-images-idx3-ubyte.gz, {0}-labels-idx1-ubyte.gz)"
PARTS = {"train": "train", "test": "t10k"}
FEATURES = ("pixels", "products", "gradients", "hog")
IDX_BYTES = 8  # the code of unsigned bytes in an idx header


@recipe
@source_folder
@click.option("--part", type=click.Choice(list(PARTS)), default="train", help="Which images.")
@click.option("--digits", type=WholeNumbers(), default="0,1,2,3,4,5,6,7,8,9", help="Which digits.")
@click.option("--features", default="pixels", help=f"One or several, between commas, of {', '.join(FEATURES)}.")
@click.option("--pairs", default="near:1", help="For products: near:R, or random:N (see --seed).")
@click.option("--rows", type=click.IntRange(min=1), help="Only the first so many of these images.")
@seed_option
def main(
    out: str,
    folder: Path | None,
    part: str,
    digits: tuple[int, ...],
    features: str,
    pairs: str,
    rows: int | None,
    seed: int,
    overwrite: bool,
) -> None:
    """Handwritten digits as pixels, products of pixels, gradients or HOG."""
    names = [f"{PARTS[part]}-{kind}.gz" for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
    image_file, label_file = find_files(folder, names, ORIGIN.format(PARTS[part]))
    labels = read_idx(label_file)
    wanted = np.flatnonzero(np.isin(labels, digits))[:rows]
    if not len(wanted):
        raise click.UsageError(f"--digits {digits}: there are no such images")
    images = read_idx(image_file)[wanted].astype(np.float32) / 255
    made = [_made(name, images, pairs, seed) for name in features.split(",")]
    X = made[0].X if len(made) == 1 else np.concatenate([group.X for group in made], axis=1)
    columns = [name for group in made for name in group.names]
    daskfs.write_dataset(out, X, labels[wanted], feature_names=columns, overwrite=overwrite)
    announce(out)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes from a gzipped idx file: its header gives the number of axes and their lengths."""
    with gzip.open(path, "rb") as file:
        zero, kind, axes = np.frombuffer(file.read(4), ">u2,u1,u1")[0]
        shape = tuple(np.frombuffer(file.read(4 * axes), ">u4").astype(int).tolist())
        cells = np.frombuffer(file.read(), np.uint8)
    if zero or kind != IDX_BYTES or len(cells) != math.prod(shape):
        raise RecipeError(f"{path}: not an idx file of bytes, or cut short")
    return cells.reshape(shape)


def _made(name: str, images: Images, pairs: str, seed: int) -> Features:
    if name == "products":
        return products(images, _pairs(pairs, images.shape[1], images.shape[2], seed))
    makers = {"pixels": pixels, "gradients": gradients, "hog": hog}
    if name not in makers:
        raise click.UsageError(f"--features {name}: choose among {', '.join(FEATURES)}")
    return makers[name](images)


def _pairs(how: str, height: int, width: int, seed: int) -> NDArray[np.int64]:
    kind, _, number = how.partition(":")
    if kind not in ("near", "random") or not number.isdecimal() or not int(number):
        raise click.UsageError(f"--pairs {how}: near:R or random:N, with a whole number")
    if kind == "near":
        return near_pairs(height, width, int(number))
    there_are = math.comb(height * width, 2)
    if int(number) > there_are:
        raise click.UsageError(f"--pairs {how}: there are only {there_are:,} pairs")
    return random_pairs(height, width, int(number), seed)


if __name__ == "__main__":
    main()
