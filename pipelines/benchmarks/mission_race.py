"""MISSION: the learning rate that the race on the first rows chooses, beside the one that is best on 8,192 rows.

    python pipelines/benchmarks/mission_race.py [--from DIR] [--seeds 5] [--json docs/mission-speed.json]

Sets are the rows of `datasets/rcv1_like.py`, with values as they are, as counts and as ones, and public sets of which
the files lie below --from or which are in --work; a set that is not there is said. The best rate of a set has the least
loss of the rows 6,144 … 8,191, before they are learned, or of all rows where they are too few or too long for that.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
import numpy as np
import scipy.sparse as sp
from _measure import save, show
from mission import REAL, RECIPE, K, in_memory, joined, json_option, rows_of, work_option
from numpy.typing import NDArray

import daskfs
from daskfs.algorithms.mission.calibration import FIRST_ROWS, RATES
from daskfs.algorithms.mission.memory_kernels import LOSS, WEIGHT
from daskfs.protocol import ColumnBlock, Meta, RowBlock, SparseBlock

ALL_ROWS = 8192
CHANGES: dict[str, Callable[[NDArray[np.float32]], NDArray[np.float32]]] = {
    "unit norm": lambda values: values,
    "term counts": lambda values: np.maximum(1, np.round(values * 20)).astype(np.float32),
    "binary": np.ones_like,
}
RECIPES = {name: (real.recipe, *real.train) for name, real in REAL.items()} | {
    "a9a": ("a9a.py",),
    "dexter": ("dexter.py",),
}
"""The recipe of every public set, and its arguments."""
TEXTS = {"rcv1_small": "rcv1_small.dat"}
"""Files of VW text of further public sets."""


def public_sets(work: Path, source: Path | None) -> Iterator[tuple[str, daskfs.Dataset | None]]:
    """Every public set and its name, or None in place of a set that is not there."""
    for name, (recipe, *options) in RECIPES.items():
        out = work / f"{name}.zarr"
        if source is not None and not out.exists():
            command = [sys.executable, str(RECIPE.with_name(recipe)), str(out), "--from", str(source), *options]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield name, opened(out)
    for name, file in TEXTS.items():
        out, files = work / f"{name}.zarr", sorted(source.rglob(file)) if source is not None else []
        if files and not out.exists():
            daskfs.ingest(str(files[0]), str(out), "vw")
        yield name, opened(out)


def opened(out: Path) -> daskfs.Dataset | None:
    return daskfs.open_dataset(out) if out.exists() else None


def first_rows(blocks: Iterable[SparseBlock | RowBlock]) -> SparseBlock:
    """The first 8,192 rows, or all if they are fewer, in random order."""
    some, count = [], 0
    for block in blocks:
        some.append(sparse(block))
        count += len(block.y)
        if count >= ALL_ROWS:
            break
    indptr, ids, values, y = joined(some)
    order = np.random.default_rng(0).permutation(min(count, ALL_ROWS))
    sizes = np.diff(indptr)[order]
    ends = np.cumsum(sizes)
    entries = np.repeat(indptr[order] - ends + sizes, sizes) + np.arange(ends[-1])
    return SparseBlock(0, np.concatenate([[0], ends]), ids[entries], values[entries], y[order])


def rows_in(dataset: daskfs.Dataset) -> Iterator[SparseBlock | RowBlock]:
    """The rows of a dataset, block by block; those of a small one that has only columns at once."""
    if "rows" not in dataset.meta.axes:
        columns = [ColumnBlock(b.ids, b.X.copy(), b.y) for b in dataset.blocks() if isinstance(b, ColumnBlock)]
        yield RowBlock(0, np.hstack([block.X for block in columns]), columns[0].y)
        return
    for block in dataset.blocks():
        if isinstance(block, SparseBlock | RowBlock):
            yield block


def sparse(block: SparseBlock | RowBlock) -> SparseBlock:
    """A block as sparse rows, in memory of its own."""
    if isinstance(block, SparseBlock):
        arrays = (block.indptr, block.ids, block.values, block.y)
        return SparseBlock(0, *(array.copy() for array in arrays))
    X = sp.csr_matrix(block.X)
    return SparseBlock(
        0, X.indptr.astype(np.int64), X.indices.astype(np.uint64), X.data.astype(np.float32), block.y.copy()
    )


def cut(block: SparseBlock, start: int, stop: int) -> SparseBlock:
    a, b = block.indptr[start], block.indptr[stop]
    return SparseBlock(
        start, block.indptr[start : stop + 1] - a, block.ids[a:b], block.values[a:b], block.y[start:stop]
    )


def raced(meta: Meta, rows: SparseBlock) -> float:
    """The rate that wins the race, which is twice the rate that is taken."""
    algorithm = daskfs.Mission(K, refit=0).resolve(meta)
    state, _ = algorithm.end_pass(algorithm.update(algorithm.start(meta, 0), rows))
    return 2 * float(state.history[0, 2])


def losses_at_rates(meta: Meta, rows: SparseBlock) -> dict[float, float]:
    losses, n = {}, len(rows.y)
    for rate in RATES:
        algorithm = daskfs.Mission(K, refit=0, learning_rate=rate).resolve(meta)
        state = algorithm.update(algorithm.start(meta, 0), cut(rows, 0, min(n, FIRST_ROWS)))
        before = state.memory.totals.copy()
        is_split = state.calibration is not None and n > FIRST_ROWS
        if is_split:
            state = algorithm.update(state, cut(rows, FIRST_ROWS, n))
            of_rest = state.memory.totals - before
        try:
            state, _ = algorithm.end_pass(state)
        except daskfs.OptionError:  # weights grew beyond all bounds
            losses[rate] = np.inf
            continue
        losses[rate] = float(of_rest[LOSS] / of_rest[WEIGHT]) if is_split else float(state.history[0, 0])
    return losses


@click.command(context_settings={"show_default": True})
@work_option
@click.option("--from", "source", type=click.Path(path_type=Path, exists=True), help="Public files.")
@click.option("--seeds", "n_seeds", default=5, help="Of the RCV1-like rows.")
@json_option
def main(work: Path, source: Path | None, n_seeds: int, path: Path | None) -> None:
    """Print a line for each set: the winner of the race, the best rate, and the loss at every rate."""
    lines, figures = [], {}

    def add(name: str, meta: Meta, rows: SparseBlock) -> None:
        started = time.process_time()
        winner, seconds = raced(meta, rows), time.process_time() - started
        losses = {f"{rate:g}": round(loss, 4) for rate, loss in losses_at_rates(meta, rows).items() if loss < np.inf}
        best = min(losses, key=losses.__getitem__)
        figures[name] = {"winner": f"{winner:g}", "best": best, "losses": losses}
        lines.append([name, f"{winner:g}", best, f"{seconds:.2f}", *map(str, losses.values())])

    for seed in range(n_seeds):
        train = rows_of(work, 100_000, seed).train
        rows = first_rows(in_memory(train)[:3])
        for kind, change in CHANGES.items():
            changed = SparseBlock(0, rows.indptr, rows.ids, change(rows.values), rows.y)
            add(f"RCV1-like, {kind}, seed {seed}", train.meta, changed)
    for name, dataset in public_sets(work, source):
        if dataset is None:
            lines.append([name, "not there"])
        else:
            add(name, dataset.meta, first_rows(rows_in(dataset)))
    save(path, "mission_race.py", figures)
    show("learning rates", ["", "winner", "best", "CPU s of the race", *(f"loss at {rate:g}" for rate in RATES)], lines)


if __name__ == "__main__":
    main()
