"""How well scores put the rows of a class before all others: exactly, for any number of rows, in bounded memory.

Rows are sorted by score in *runs*, as many rows as there is memory for, in a temporary file; the runs are then merged
through one window each, and the counting follows the merged order. Scores are float64 and compared as such: what ties
is what scikit-learn says ties, also across runs.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.selection import ranking_kernels as sum_of
from daskfs.selection.intervals import UNKNOWN, Interval, Z, mean_error, on_odds_scale
from daskfs.selection.ranking_kernels import SUMS, count_merged

MEMORY = 16 << 20  # bytes: for a run while it is sorted, and later for all windows together
ROW_BYTES = 12  # of a row in a file: key and weight
SORTING_BYTES = 32  # of a row while it is sorted: it, its place in the order, and a copy in that order
IN_ORDER = 1e-9  # an area so close to 1 (or 0) is of rows that are all in order, but for rounding
LEAST_WINDOW = 64  # rows; only where there are tens of thousands of runs do windows outgrow the memory

Ranked = tuple[NDArray[np.float64], NDArray[np.float32]]
"""Scores, none of them NaN, and weights: above 0 for rows of the class in question, below 0 for the others."""

_SIGN, _REST = np.uint64(63), np.uint64(2**63 - 1)


class RankQuality(NamedTuple):
    """Areas under two curves; NaN where there is no row of the class, or (`roc_auc`) no other one.

    Standard errors are the infinitesimal jackknife's: how much every row moves the area, squared and added up. That of
    the AUC is the one of DeLong, DeLong and Clarke-Pearson (1988), exactly, and with weights its generalisation.
    """

    roc_auc: float
    """The odds that a row of the class is above one that is not; where they tie, one half."""
    average_precision: float
    """The share of rows at or above a row that are of the class, averaged over the rows of the class."""
    roc_auc_error: float
    average_precision_error: float
    members: float
    others: float
    """How many rows are of the class, how many are not; with weights, the effective number of them."""

    @property
    def roc_auc_interval(self) -> Interval:
        """Normal in the log-odds; where all rows are in order, which leaves no variance, near Newcombe's (2006)."""
        spare = Z**2 / 4 * (1 / self.members + 1 / self.others) if self.members and self.others else math.nan
        return _interval(self.roc_auc, self.roc_auc_error, spare)

    @property
    def average_precision_interval(self) -> Interval:
        """Normal in the log-odds; where all rows are in order, Wilson's for the rows of the class."""
        spare = Z**2 / (Z**2 + self.members) if self.members else math.nan
        return _interval(self.average_precision, self.average_precision_error, spare)


def mean_area_interval(name: Literal["roc_auc", "average_precision"], qualities: Sequence[RankQuality]) -> Interval:
    """The interval of the mean of one area over several classes, of those that are known.

    How areas of the same rows vary together is not seen in one sort each. The standard error of their mean is never
    above the mean of theirs: this is taken, so that the interval is rather too wide.
    """
    known = [quality for quality in qualities if not math.isnan(getattr(quality, name))]
    if not known:
        return UNKNOWN
    intervals: list[Interval] = [getattr(quality, f"{name}_interval") for quality in known]
    if len(known) == 1:
        return intervals[0]
    area, error = (float(np.mean([getattr(quality, of) for quality in known])) for of in (name, f"{name}_error"))
    return _interval(area, error, float(np.mean([high - low for low, high in intervals])))


def _interval(area: float, error: float, spare: float) -> Interval:
    """Of an area with this standard error; all in order, or all in reverse, it may be so far off."""
    if area > 1 - IN_ORDER:
        return max(1 - spare, 0.0), 1.0
    if area < IN_ORDER:
        return 0.0, min(spare, 1.0)
    return on_odds_scale(area, error)


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
    >>> rank_quality([(np.array([3.0, 2.0, 1.0]), np.array([1, -1, 1], np.float32))])[:2]
    (0.5, 0.8333333333333333)
    """
    with tempfile.TemporaryFile() as file:  # it has no name: whatever happens to us, it will not stay
        lengths = _write_runs(pieces, max(memory // SORTING_BYTES, 1), file)
        sums = _counted(file, lengths, memory)
    return _quality(sums)


def _quality(sums: NDArray[np.float64]) -> RankQuality:
    """Areas and their standard errors from what was counted."""
    true, false = float(sums[sum_of.TRUE]), float(sums[sum_of.FALSE])
    squares_true, squares_false = float(sums[sum_of.SQUARES_TRUE]), float(sums[sum_of.SQUARES_FALSE])
    return RankQuality(
        roc_auc=(auc := float(sums[sum_of.AREA]) / true / false if true and false else math.nan),
        average_precision=(precision := float(sums[sum_of.PRECISION]) / true if true else math.nan),
        roc_auc_error=_auc_error(sums, auc) if true and false else math.nan,
        average_precision_error=_precision_error(sums, precision) if true else math.nan,
        members=true**2 / squares_true if true else 0.0,
        others=false**2 / squares_false if false else 0.0,
    )


def _auc_error(sums: NDArray[np.float64], auc: float) -> float:
    """How a member's share of the others below it, and another row's share of the members above it, vary."""
    errors = []
    for total, opposite, middle, first, second, squares in (
        (sum_of.TRUE, sum_of.FALSE, 1 - auc, sum_of.ABOVE_TRUE, sum_of.ABOVE_TRUE_2, sum_of.SQUARES_TRUE),
        (sum_of.FALSE, sum_of.TRUE, auc, sum_of.ABOVE_FALSE, sum_of.ABOVE_FALSE_2, sum_of.SQUARES_FALSE),
    ):
        rest = float(sums[opposite])
        deviations = sums[second] / rest**2 - 2 * middle * sums[first] / rest + middle**2 * sums[squares]
        errors.append(mean_error(float(sums[total]), float(sums[squares]), float(deviations)))
    return math.hypot(*errors)


def _precision_error(sums: NDArray[np.float64], precision: float) -> float:
    """A member has a precision and raises those below it; another row lowers those below it."""
    true, squares = float(sums[sum_of.TRUE]), float(sums[sum_of.SQUARES_TRUE])
    missing, lost = float(sums[sum_of.GAINED]) - precision, float(sums[sum_of.LOST])
    members = sums[sum_of.PULL_TRUE_2] + 2 * missing * sums[sum_of.PULL_TRUE] + missing**2 * squares
    others = sums[sum_of.PULL_FALSE_2] - 2 * lost * sums[sum_of.PULL_FALSE] + lost**2 * sums[sum_of.SQUARES_FALSE]
    return math.hypot(mean_error(true, squares, float(members)), math.sqrt(max(float(others), 0.0)) / true)


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
