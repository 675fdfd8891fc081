"""How well scores put the rows of a class before all others: exactly, for any number of rows, in bounded memory.

Rows are sorted by score in *runs*, as many rows as there is memory for, in a temporary file; the runs are then merged
through one window each, and the counting follows the merged order. Scores are float64 and compared as such: what ties
is what scikit-learn says ties, also across runs.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.store.ranking_kernels import AREA, FALSE, PRECISION, SUMS, TRUE, count_merged

MEMORY = 16 << 20  # bytes: for a run while it is sorted, and later for all windows together
ROW_BYTES = 12  # of a row in a file: key and weight
SORTING_BYTES = 32  # of a row while it is sorted: it, its place in the order, and a copy in that order
LEAST_WINDOW = 64  # rows; only where there are tens of thousands of runs do windows outgrow the memory

Ranked = tuple[NDArray[np.float64], NDArray[np.float32]]
"""Scores, none of them NaN, and weights: above 0 for rows of the class in question, below 0 for the others."""

_SIGN, _REST = np.uint64(63), np.uint64(2**63 - 1)


class RankQuality(NamedTuple):
    """Areas under two curves; NaN where there is no row of the class, or (`roc_auc`) no other one."""

    roc_auc: float
    """The odds that a row of the class is above one that is not; where they tie, one half."""
    average_precision: float
    """The share of rows at or above a row that are of the class, averaged over the rows of the class."""


def rank_quality(pieces: Iterable[Ranked], memory: int = MEMORY) -> RankQuality:
    """How well scores rank the rows of a class.

    Parameters
    ----------
    pieces
        The rows, as they come.
    memory
        Bytes to do it in.

    Examples
    --------
    >>> rank_quality([(np.array([3.0, 2.0, 1.0]), np.array([1, -1, 1], np.float32))])
    RankQuality(roc_auc=0.5, average_precision=0.8333333333333333)
    """
    with tempfile.TemporaryFile() as file:  # it has no name: whatever happens to us, it will not stay
        lengths = _write_runs(pieces, max(memory // SORTING_BYTES, 1), file)
        sums = _counted(file, lengths, memory)
    true, false = float(sums[TRUE]), float(sums[FALSE])
    return RankQuality(
        float(sums[AREA]) / true / false if true and false else math.nan,
        float(sums[PRECISION]) / true if true else math.nan,
    )


def descending_keys(scores: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Whole numbers that ascend as scores descend, and are equal where these are.

    >>> descending_keys(np.array([np.inf, 1.0, 0.0, -0.0, -1.0, -np.inf])).argsort(kind="stable")
    array([0, 1, 2, 3, 4, 5])
    """
    bits = (scores + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    return np.where(bits >> _SIGN, bits, bits ^ _REST)


def _write_runs(pieces: Iterable[Ranked], run_rows: int, file: IO[bytes]) -> list[int]:
    """Write sorted runs one after the other, keys before weights; all but the last have `run_rows` rows."""
    keys, signed = np.empty(run_rows, np.uint64), np.empty(run_rows, np.float32)
    lengths, filled = [], 0
    for scores, weights in pieces:
        taken = 0
        while taken < len(scores):
            count = min(run_rows - filled, len(scores) - taken)
            keys[filled : filled + count] = descending_keys(scores[taken : taken + count])
            signed[filled : filled + count] = weights[taken : taken + count]
            taken, filled = taken + count, filled + count
            if filled == run_rows:
                lengths.append(_write_run(keys, signed, file))
                filled = 0
    if filled:
        lengths.append(_write_run(keys[:filled], signed[:filled], file))
    return lengths


def _write_run(keys: NDArray[np.uint64], signed: NDArray[np.float32], file: IO[bytes]) -> int:
    order = np.argsort(keys)
    file.write(keys[order].data)
    file.write(signed[order].data)
    return len(keys)


def _counted(file: IO[bytes], lengths: list[int], memory: int) -> NDArray[np.float64]:
    """Merge the runs and count along."""
    sums = np.zeros(SUMS)
    if not lengths:
        return sums
    width = min(max(memory // (ROW_BYTES * len(lengths)), LEAST_WINDOW), lengths[0])
    keys, signed = np.empty((len(lengths), width), np.uint64), np.empty((len(lengths), width), np.float32)
    at, stop, done = (np.zeros(len(lengths), np.int64) for _ in range(3))

    def refill(run: int) -> None:
        start, count = run * lengths[0] * ROW_BYTES, min(width, lengths[run] - int(done[run]))
        read_into(file, start + int(done[run]) * keys.itemsize, keys[run, :count])
        read_into(file, start + lengths[run] * keys.itemsize + int(done[run]) * signed.itemsize, signed[run, :count])
        at[run], stop[run] = 0, count
        done[run] += count

    for run in range(len(lengths)):
        refill(run)
    heap, left, tie = np.argsort(keys[:, 0]), len(lengths), np.zeros(1, np.uint64)  # what is sorted is a heap
    while left := count_merged(keys, signed, at, stop, heap, left, tie, sums):
        refill(int(heap[0]))
    return sums


def read_into(file: IO[bytes], start: int, out: NDArray[Any]) -> None:
    """Fill an array with the bytes of a file."""
    file.seek(start)
    file.readinto(out.data)  # type: ignore[attr-defined]  # files that are not text have it
