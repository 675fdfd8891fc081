"""Dexter: wide text data of the NIPS 2003 feature selection challenge, half of its features probes.

600 short texts (the challenge's training and validation sets) with 20,000 features, of which 9,947 are
frequencies of word stems (2,562 of those always zero) and 10,053 are probes without any meaning; the label,
1 or -1, says whether a text is about a corporate acquisition. 0.5 % of the cells are not zero. Online
Substitution reads it as dense columns; `--sparse` writes sparse rows for MISSION.

Known truth: the labels; which features are the probes was never published with the data.

    python datasets/dexter.py dexter.zarr --from DIR
"""

from __future__ import annotations

import lzma
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import scipy.sparse
from _recipe import RecipeError, announce, find_files, recipe, source_folder
from numpy.typing import NDArray

import daskfs

ORIGIN = 'UCI machine learning repository, "Dexter", or OpenML (expected: dexter.arff.txt.xz, sparse ARFF)'


class Table(NamedTuple):
    """A sparse ARFF file whose last attribute is the class."""

    names: list[str]
    X: scipy.sparse.csr_array
    y: NDArray[np.float64]


@recipe
@source_folder
@click.option("--sparse", is_flag=True, help="Sparse rows instead of dense columns.")
def main(out: str, folder: Path | None, sparse: bool, overwrite: bool) -> None:
    """600 texts with 20,000 features, half of them probes."""
    (path,) = find_files(folder, ["dexter.arff.txt.xz"], ORIGIN)
    table = read_sparse_arff(path)
    X = table.X if sparse else table.X.toarray()
    daskfs.write_dataset(out, X, table.y, feature_names=table.names, overwrite=overwrite)
    announce(out)


def read_sparse_arff(path: Path) -> Table:
    """Rows ``{number value,number value,…}``; what is not written is zero, or the first of the classes."""
    with lzma.open(path, "rt") as file:
        lines = [line.strip() for line in file]
    attributes = [line.split(maxsplit=2) for line in lines if line.lower().startswith("@attribute")]
    rows = [dict(_cell(cell) for cell in line[1:-1].split(",") if cell) for line in lines if line.startswith("{")]
    if not attributes or not rows:
        raise RecipeError(f"{path}: not a sparse ARFF file")
    classes = [float(label) for label in attributes[-1][2].strip("{} ").split(",")]
    last = len(attributes) - 1
    y = np.array([row.pop(last, classes[0]) for row in rows])
    starts = np.cumsum([0, *map(len, rows)])
    ids, values = (np.array([cell[i] for row in rows for cell in row.items()]) for i in (0, 1))
    X = scipy.sparse.csr_array((values.astype(np.float32), ids, starts), shape=(len(rows), last))
    X.sort_indices()
    return Table([attribute[1] for attribute in attributes[:-1]], X, y)


def _cell(text: str) -> tuple[int, float]:
    number, value = text.split()
    return int(number), float(value)


if __name__ == "__main__":
    main()
