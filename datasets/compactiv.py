"""Computer activity (DELVE comp-activ): the regression "CPU" of Sparse Random Features (NIPS 2014, table 1).

8,192 moments of a running computer with 21 measures each; the target is the share of time its processors
spent on users' work, `usr`, 0 … 99. The paper scales the target to [0, 1], and so does the recipe
(`--raw-target` leaves it); the 21 inputs stay as they are. The paper trains on 6,554 rows and tests on 819:
`--part` takes them, and the 819 left for validation, from a random order of the rows.

Known truth: the target; which inputs matter is not known.

    python datasets/compactiv.py cpu.zarr --from DIR --part train
    python datasets/compactiv.py cpu-test.zarr --from DIR --part test
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from _recipe import RecipeError, announce, find_files, recipe, seed_option, source_folder
from numpy.typing import NDArray

import daskfs

ORIGIN = 'KEEL dataset repository, regression, "compactiv" (expected: compactiv.dat)'
HIGHEST_TARGET = 99
TRAIN, TEST = 0.8, 0.9  # up to here in a random order: training; from here on: test


@recipe
@source_folder
@click.option("--part", type=click.Choice(["all", "train", "validation", "test"]), default="all", help="Which rows.")
@click.option("--raw-target", is_flag=True, help="Leave the target at 0 … 99.")
@seed_option
def main(out: str, folder: Path | None, part: str, raw_target: bool, seed: int, overwrite: bool) -> None:
    """21 measures of a computer, and how busy its users kept it."""
    (path,) = find_files(folder, ["compactiv.dat"], ORIGIN)
    names, table = read_keel(path)
    table = table[rows_of_part(part, len(table), seed)]
    y = table[:, -1] / (1 if raw_target else HIGHEST_TARGET)
    daskfs.write_dataset(out, table[:, :-1], y, feature_names=names[:-1], layout="rows", overwrite=overwrite)
    announce(out)


def read_keel(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Names of the columns and the table of a KEEL text: ``@attribute NAME …`` lines, ``@data``, then CSV."""
    head, mark, body = path.read_text().partition("@data\n")
    names = [line.split()[1] for line in head.splitlines() if line.startswith("@attribute")]
    table = np.loadtxt(body.splitlines(), delimiter=",", ndmin=2)
    if not mark or table.shape[1] != len(names):
        raise RecipeError(f"{path}: not a table in KEEL's format")
    return names, table


def rows_of_part(part: str, n: int, seed: int) -> NDArray[np.int64]:
    """The rows of a part, ascending; the parts of one seed are disjoint and make up all of them."""
    order = np.random.default_rng(seed).permutation(n)
    train, test = round(TRAIN * n), round(TEST * n)
    cut = {"all": slice(None), "train": slice(train), "validation": slice(train, test), "test": slice(test, None)}
    return np.sort(order[cut[part]])


if __name__ == "__main__":
    main()
