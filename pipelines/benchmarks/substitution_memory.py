"""Peak memory of Online Substitution beside its promise: n = 100,000 rows, 100 features of 20 GB of columns.

python pipelines/benchmarks/substitution_memory.py [--gigabytes 20]

Columns are made as they are asked for, so that the size is that of the data and not of a disk. What counts is the
resident memory above that of the imports and warm kernels, against the plan that is printed before the first read.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
from _measure import console, show
from numpy.typing import ArrayLike, NDArray

import daskfs
from daskfs.engine.passes import PassProgress
from daskfs.engine.run import memory_plan
from daskfs.protocol import Axis, ColumnBlock, Meta

S, WIDTH = 100, 25


class Made(daskfs.Dataset):
    """A dataset whose columns are random numbers, drawn anew from the number of their block whenever they are read."""

    def __init__(self, like: daskfs.Dataset, n: int, blocks: int) -> None:
        super().__init__(like.location)
        self.n, self.count, self.y = n, blocks, np.zeros(n)
        rng = np.random.default_rng(0)
        for number in rng.choice(blocks, min(S, blocks), replace=False):  # one column of each counts
            self.y += self._made(number).X[:, 0] * rng.normal()

    @property
    def meta(self) -> Meta:
        p = self.count * WIDTH
        return Meta("dense", self.n, p, self.n * p, p - 1, None, 4 * self.n * WIDTH)

    def n_blocks(self, axis: Axis | None = None) -> int:
        return self.count

    def block_sizes(self, axis: Axis | None = None) -> NDArray[np.int64]:
        return np.full(self.count, 4 * self.n * WIDTH)

    def blocks(self, numbers: Sequence[int] | None = None, axis: Axis | None = None, ahead: int = 2) -> Iterator[Any]:
        buffer = np.empty((WIDTH, self.n), np.float32)
        for number in range(self.count) if numbers is None else numbers:
            yield self._made(number, buffer)

    def columns(self, ids: ArrayLike, columns_per_block: int | None = None) -> Iterator[Any]:
        for number in np.unique(np.asarray(ids) // np.uint64(WIDTH)).astype(int):
            yield self._made(number)

    def names(self, ids: ArrayLike) -> list[str]:
        return [f"x{i}" for i in np.asarray(ids)]

    def _made(self, number: int, buffer: NDArray[np.float32] | None = None) -> ColumnBlock:
        buffer = np.empty((WIDTH, self.n), np.float32) if buffer is None else buffer
        np.random.default_rng(int(number)).standard_normal(dtype=np.float32, out=buffer)
        ids = np.arange(number * WIDTH, (number + 1) * WIDTH, dtype=np.uint64)
        return ColumnBlock(ids, buffer.T, self.y)


def warm_up(folder: str) -> daskfs.Dataset:
    """Load all kernels and libraries by a small selection."""
    X = np.random.default_rng(0).normal(size=(5000, 200)).astype(np.float32)
    daskfs.write_dataset(Path(folder) / "small.zarr", X, X[:, 0])
    small = daskfs.open_dataset(Path(folder) / "small.zarr")
    daskfs.select(small, daskfs.OnlineSubstitution(5))
    return small


def high_water_mark() -> int:
    """The most bytes this process has had resident."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found, "needs Linux"
    return int(found[1]) * 1024


@click.command()
@click.option("--gigabytes", default=20.0)
@click.option("--samples", default=100_000)
@click.option("--passes", default=1)
def main(gigabytes: float, samples: int, passes: int) -> None:
    """Print the table."""
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        dataset = Made(warm_up(folder), samples, int(gigabytes * 1e9 / (4 * samples * WIDTH)))
        algorithm = daskfs.OnlineSubstitution(S, passes=passes)
        plan = memory_plan(dataset, algorithm)
        console.print(f"plan: {plan}")
        base, seen = process.memory_info().rss, []
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins anew

        def look(now: PassProgress) -> None:
            seen.append((now.blocks_done / now.blocks, process.memory_info().rss - base))

        selection = daskfs.select(dataset, algorithm, progress=look)
    quarters = [max(rss for done, rss in seen if done <= part) for part in (0.25, 0.5, 0.75, 1.0)]
    peak = high_water_mark() - base
    show(
        f"memory above the imports, n = {samples:,}, s = {S}, {gigabytes:g} GB of columns",
        ["", "1/4 of the pass", "1/2", "3/4", "whole", "peak", "of the plan"],
        [["MiB", *(f"{rss / 2**20:.0f}" for rss in [*quarters, peak]), f"{peak / plan.total:.2f}"]],
    )
    console.print(f"{len(selection.features)} features")


if __name__ == "__main__":
    main()
