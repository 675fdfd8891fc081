"""How the cost of a selection grows with rows, columns and non-zeros: the exponent of CPU seconds, and memory.

    python pipelines/benchmarks/linear.py [--turns 3] [--scale 8] [--out FILE]

Every algorithm reads the same problem at sizes 1, 2, 4 and 8 of what is to grow: rows with as many non-zeros each, then
non-zeros a row, for MISSION; columns, then rows, for Online Substitution; rows for Sparse Random Features, with as many
features drawn. CPU seconds of a selection are the least of some turns, in which all sizes take part one after the
other. The *exponent* is the slope of their logarithm over that of the size; `of larger` leaves out the smallest size,
where what a selection costs once weighs most. *MB* is the peak of memory beyond what there was before. Every line is
saved in `--out` as soon as it is measured.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import ctypes
import gc
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click
import numpy as np
import scipy.sparse
from _measure import forget_peak, resident, save_records, show

import daskfs
from daskfs.protocol import Algorithm

SIZES = (1, 2, 4, 8)
SEED = 0
Problem = tuple[daskfs.Dataset, Algorithm]


def sparse_rows(folder: Path, rows: int, nonzeros: int) -> Problem:
    """Rows of a million features without meaning, and labels by chance."""
    rng = np.random.default_rng(SEED)
    ids = np.sort(rng.integers(0, 1_000_000, (rows, nonzeros), dtype=np.int32), axis=1)
    values = rng.random(ids.size, dtype=np.float32)
    X = scipy.sparse.csr_array((values, ids.ravel(), np.arange(0, ids.size + 1, nonzeros)), shape=(rows, 1_000_000))
    dataset = daskfs.write_dataset(folder, X, (rng.random(rows) < 0.5).astype(float))
    return dataset, daskfs.Mission(100, width=2**14, passes=1, refit=0)


def dense_columns(folder: Path, rows: int, columns: int) -> Problem:
    """Columns of noise, of which ten make the target."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((columns, rows), dtype=np.float32).T
    y = X[:, :10].sum(axis=1) + rng.standard_normal(rows)
    return daskfs.write_dataset(folder, X, y), daskfs.OnlineSubstitution(10, passes=2)


def dense_rows(folder: Path, rows: int) -> Problem:
    """Rows of ten numbers, of which three make a target that is no straight line."""
    rng = np.random.default_rng(SEED)
    X = rng.random((rows, 10), dtype=np.float32)
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(rows)
    drawn = daskfs.SparseRandomFeatures(gamma=1.0, penalty=1e-3 * rows, rounds=2, per_round=200, screen=False)
    return daskfs.write_dataset(folder, X, y, layout="rows"), drawn


GROWING: dict[str, Callable[[Path, float], Problem]] = {
    "MISSION, rows": lambda folder, size: sparse_rows(folder, round(20_000 * size), 50),
    "MISSION, non-zeros of a row": lambda folder, size: sparse_rows(folder, 20_000, round(50 * size)),
    "Online Substitution, columns": lambda folder, size: dense_columns(folder, 2000, round(2500 * size)),
    "Online Substitution, rows": lambda folder, size: dense_columns(folder, round(2000 * size), 2500),
    "Sparse Random Features, rows": lambda folder, size: dense_rows(folder, round(10_000 * size)),
}


class Growth(NamedTuple):
    """What a selection takes at every size: CPU seconds of its last pass, and peaks of memory in MB."""

    what: str
    sizes: list[float]
    seconds: list[float]
    megabytes: list[float]

    @property
    def exponent(self) -> float:
        return slope(self.sizes, self.seconds)

    @property
    def exponent_of_larger(self) -> float:
        """The same without the smallest size."""
        return slope(self.sizes[1:], self.seconds[1:])


def slope(sizes: list[float], seconds: list[float]) -> float:
    """Return the exponent e of seconds ≈ constant x size^e.

    >>> round(slope([1, 2, 4], [3, 6, 12]), 6), round(slope([1, 2, 4], [1, 4, 16]), 6)
    (1.0, 2.0)
    """
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def cost(problem: Problem) -> tuple[float, float]:
    """Return the CPU seconds of the selection and the megabytes by which memory grew at most."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    forget_peak()
    before, began = resident(), time.process_time()
    daskfs.select(*problem, seed=SEED)
    return time.process_time() - began, (resident("VmHWM") - before) / 1e6


def grown(what: str, folder: Path, scale: float, turns: int) -> Growth:
    """Measure all sizes, one after the other, in several turns; the best of each counts."""
    problems = [GROWING[what](folder / f"{what}-{size}.zarr", scale * size) for size in SIZES]
    cost(problems[0])  # compiles
    costs = np.array([[cost(problem) for problem in problems] for _ in range(turns)]).min(axis=0)
    return Growth(what, [float(size) for size in SIZES], *costs.T.tolist())


@click.command(context_settings={"show_default": True})
@click.option("--only", "which", multiple=True, type=click.Choice(list(GROWING)), help="These; repeatable.")
@click.option("--turns", default=3, help="Of which the best counts, for each size.")
@click.option("--scale", default=8.0, help="Times the usual sizes.")
@click.option("--out", type=click.Path(path_type=Path), help="For the figures: docs/scaling.json.")
def main(which: tuple[str, ...], turns: int, scale: float, out: Path | None) -> None:
    """Print the table."""
    growths = []
    for what in which or GROWING:
        with TemporaryDirectory() as folder:
            growths.append(grown(what, Path(folder), scale, turns))
        g = growths[-1]
        record = {**g._asdict(), "exponent": g.exponent, "of larger": g.exponent_of_larger, "turns": turns}
        save_records(out, "linear", [record], ("what",))
    rows = [
        [g.what, *(f"{seconds:.2f}" for seconds in g.seconds), f"{g.exponent:.2f}", f"{g.exponent_of_larger:.2f}",
         f"{g.megabytes[0]:.0f}", f"{g.megabytes[-1]:.0f}"] for g in growths
    ]  # fmt: skip
    columns = ["", *(f"CPU s, {size}x" for size in SIZES), "exponent", "of larger", "MB, 1x", f"MB, {SIZES[-1]}x"]
    show("CPU seconds and memory as data grow", columns, rows)


if __name__ == "__main__":
    main()
