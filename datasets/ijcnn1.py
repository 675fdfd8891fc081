"""IJCNN1: the classification "IJCNN" of Sparse Random Features (NIPS 2014, table 2).

Time series of an engine's ignition (the IJCNN 2001 challenge), as LIBSVM has them: 22 features, labels 1
(10 %) and -1, 49,990 rows for training and 91,701 for the test. The paper trains on 127,591 rows of the
141,691 and tests on 14,100: `--part paper-train` and `paper-test` take them from a random order of all.
Rows are dense, as Sparse Random Features reads them.

Known truth: the labels; which features matter is not known.

    python datasets/ijcnn1.py ijcnn.zarr --from DIR --part paper-train
    python datasets/ijcnn1.py ijcnn-test.zarr --from DIR --part paper-test
"""

from __future__ import annotations

import bz2
from pathlib import Path

import click
import numpy as np
from _recipe import announce, find_files, recipe, seed_option, source_folder
from numpy.typing import NDArray

import daskfs

ORIGIN = "LIBSVM data page (ijcnn1) (expected: ijcnn1.bz2 and ijcnn1.t.bz2, or ijcnn1.trn.bz2 and ijcnn1.tst.bz2)"
FILES = {"train": ["ijcnn1.trn.bz2|ijcnn1.bz2"], "test": ["ijcnn1.tst.bz2|ijcnn1.t.bz2"]}
BOTH = FILES["train"] + FILES["test"]
N_FEATURES = 22
PAPER_TEST_SHARE = 14_100 / 141_691


@recipe
@source_folder
@click.option(
    "--part", type=click.Choice(["train", "test", "paper-train", "paper-test"]), default="train", help="Which rows."
)
@seed_option
def main(out: str, folder: Path | None, part: str, seed: int, overwrite: bool) -> None:
    """22 features of an engine's ignition, in dense rows."""
    paths = find_files(folder, FILES.get(part, BOTH), ORIGIN)
    X, y = (np.concatenate(cells) for cells in zip(*map(read_dense, paths), strict=True))
    if part not in FILES:
        X, y = (cells[paper_rows(part, len(y), seed)] for cells in (X, y))
    names = [f"x{j}" for j in range(1, N_FEATURES + 1)]
    daskfs.write_dataset(out, X, y, feature_names=names, layout="rows", overwrite=overwrite)
    announce(out)


def read_dense(path: Path) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """The rows of a small svmlight file as a dense table; feature 1 is column 0."""
    with bz2.open(path, "rt") as lines:
        rows = [line.split() for line in lines]
    X = np.zeros((len(rows), N_FEATURES), np.float32)
    for row, (_, *cells) in enumerate(rows):
        for cell in cells:
            number, _, value = cell.partition(":")
            X[row, int(number) - 1] = float(value)
    return X, np.array([float(label) for label, *_ in rows])


def paper_rows(part: str, n: int, seed: int) -> NDArray[np.int64]:
    """The rows of a part, ascending: as large a share of them for the test as in the paper."""
    order = np.random.default_rng(seed).permutation(n)
    n_test = round(PAPER_TEST_SHARE * n)
    return np.sort(order[:n_test] if part == "paper-test" else order[n_test:])


if __name__ == "__main__":
    main()
