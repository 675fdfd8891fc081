"""ROC AUC and average precision of a class, with standard errors: exact, for any number of rows, in bounded memory.

Rows are sorted by score into *sorted runs* of some megabytes in a temporary file (`SortedScores`), which are merged
window by window (`SortedScores.merge`). Scores are compared as float64, so that ties are the same as in scikit-learn,
also across sorted runs. A histogram of scores is not exact enough: with 2^20 bins at the quantiles of all rows, the
average precision of 101 rows among five million is still wrong by 6e-3, since the first ranks decide it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.selection.column_slices import read_into
from daskfs.selection.curves import RocCurve
from daskfs.selection.intervals import UNKNOWN, FloatArray, Interval, Z, mean_error, on_odds_scale

RUN_BYTES = 8 << 20  # of the runs of all classes that are sorted together
LEAST_ROWS = 1 << 10  # of a run, however many classes there are
MERGE_BYTES = 4 << 20  # for the windows of all runs together
BATCH_ROWS = 1 << 15  # of a batch, which takes about 200 bytes a row while it is counted
LEAST_WINDOW = 64  # rows; only where there are tens of thousands of runs do windows outgrow that memory
ROW_BYTES = 12  # of a row in a run: key and weight
IN_ORDER = 1e-9  # within this distance of 1 (or 0) an area is that of perfectly ordered rows, but for rounding

Ranked = tuple[NDArray[np.uint64], NDArray[np.float32]]
"""Keys of scores in ascending order, and weights: above 0 for rows of the class in question, below 0 for others."""

_SIGN, _REST = np.uint64(63), np.uint64(2**63 - 1)


def mean_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ranks of values from 1, where equal values have their mean rank (as scipy.stats.rankdata).

    The import of scipy.stats would take half a second.
    """
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


class RankQuality(NamedTuple):
    """Areas under the ROC and the precision-recall curve of a class, with standard errors; undefined areas are NaN.

    Standard errors are computed by the infinitesimal jackknife: the squared influence of every row on the area, summed.
    The standard error of the AUC is exactly that of DeLong, DeLong and Clarke-Pearson (1988), generalised to weights.

    Parameters
    ----------
    roc_auc
        The probability that a row of the class has a higher score than another row; ties count one half.
    average_precision
        The share of rows of the class among those with at least a row's score, averaged over the rows of the class.
    roc_auc_error, average_precision_error
        The standard errors.
    members, others
        The number of rows of the class and of other rows; with weights, the effective number.
    """

    roc_auc: float
    average_precision: float
    roc_auc_error: float
    average_precision_error: float
    members: float
    others: float

    @property
    def roc_auc_interval(self) -> Interval:
        """The 95 % interval of ROC AUC, normal in the log-odds, or near Newcombe's (2006) if all rows are in order."""
        spare = Z**2 / 4 * (1 / self.members + 1 / self.others) if self.members and self.others else math.nan
        return _interval(self.roc_auc, self.roc_auc_error, spare)

    @property
    def average_precision_interval(self) -> Interval:
        """The 95 % interval of average precision, normal in the log-odds, or Wilson's if all rows are in order."""
        spare = Z**2 / (Z**2 + self.members) if self.members else math.nan
        return _interval(self.average_precision, self.average_precision_error, spare)


def mean_area_interval(name: Literal["roc_auc", "average_precision"], qualities: Sequence[RankQuality]) -> Interval:
    """Return the interval of the mean of "roc_auc" or "average_precision" over the classes for which it is known.

    The covariance of areas of the same rows is unknown. The mean of the areas' standard errors is used,
    which is an upper bound of the standard error of their mean, so that the interval is too wide.
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
    """Return the interval of an area, of width `spare` if all rows are in order or all in reverse order."""
    if area > 1 - IN_ORDER:
        return max(1 - spare, 0.0), 1.0
    if area < IN_ORDER:
        return 0.0, min(spare, 1.0)
    return on_odds_scale(area, error)


def rank_quality(batches: Iterable[Ranked], curve: RocCurve | None = None) -> RankQuality:
    """Return ROC AUC and average precision of scores that should rank the rows of a class before all others.

    Parameters
    ----------
    batches
        All rows in ascending order of keys (see `descending_keys`): no key of a batch is below one of an earlier batch.
    curve
        A ROC curve to which the same rows are added, except the rows with the lowest score, where every curve ends.

    Examples
    --------
    >>> rank_quality([(descending_keys(np.array([3.0, 2.0, 1.0])), np.array([1, -1, 1], np.float32))])[:2]
    (0.5, 0.8333333333333333)
    """
    counts, tie, last = RankCounts(), np.zeros((4, 1)), np.zeros(1, np.uint64)
    for keys, signed in batches:
        if not len(keys):
            continue
        keys, sums = np.concatenate([last, keys]), np.concatenate([tie, _weight_sums(signed)], axis=1)
        starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
        groups = np.add.reduceat(sums, starts, axis=1)
        counts.add(groups[:, :-1])
        if curve is not None:
            curve.add(groups[0, :-1], groups[1, :-1])
        tie, last = groups[:, -1:], keys[-1:]  # rows of the next batch may share the last score
    counts.add(tie)
    return counts.quality()


def _weight_sums(signed: NDArray[np.float32]) -> FloatArray:
    """Return rows' weights as members of the class and as others, and the squares of these weights: ``(4, rows)``."""
    weight = signed.astype(np.float64)
    members, others = np.maximum(weight, 0), np.maximum(-weight, 0)
    return np.stack([members, others, members**2, others**2])


class RankCounts:
    """Sums over rows in descending order of their scores, which give ROC AUC, average precision and standard errors.

    The influence of a row on an area depends on the weights of the rows above and on totals that are known only at the
    end. Sums of influences and of squared influences are therefore kept as polynomials of the totals.
    """

    def __init__(self) -> None:
        self._true = self._false = self._area = self._precision = 0.0
        self._squares = np.zeros(2)  # of the weights of members, of others
        self._above_true, self._above_false = np.zeros(2), np.zeros(2)
        """Sums over members and over others of squared weight × A and × A², for the weight A of opposite rows above."""
        self._gained = self._lost = 0.0
        """Rise of the sum of precisions by one more member on top, and fall by one more other row on top."""
        self._pull_true, self._pull_false = np.zeros(2), np.zeros(2)
        """Sums over members and over others of squared weight × I and × I², for influence I on average precision."""

    def add(self, ties: FloatArray) -> None:
        """Add the `_weight_sums` of groups of rows that share a score, in descending order of scores."""
        t, f, tt, ff = ties
        true, false = self._true + np.cumsum(t), self._false + np.cumsum(f)
        above_true, above_false = false - 0.5 * f, true - 0.5 * t
        self._area += _dot(f, above_false)
        self._above_true += _dot(tt, above_true), _dot(tt, above_true**2)
        self._above_false += _dot(ff, above_false), _dot(ff, above_false**2)
        total = np.where(t > 0, true + false, 1.0)
        precision = np.where(t > 0, true / total, 0.0)
        gains, losses = t * false / total**2, t * true / total**2
        gained, lost = self._gained + np.cumsum(gains), self._lost + np.cumsum(losses)
        self._precision += _dot(t, precision)
        pull_true, pull_false = precision - (gained - gains), lost - losses
        self._pull_true += _dot(tt, pull_true), _dot(tt, pull_true**2)
        self._pull_false += _dot(ff, pull_false), _dot(ff, pull_false**2)
        self._squares += tt.sum(), ff.sum()
        if len(t):
            self._true, self._false = float(true[-1]), float(false[-1])
            self._gained, self._lost = float(gained[-1]), float(lost[-1])

    def quality(self) -> RankQuality:
        """Return ROC AUC and average precision with their standard errors."""
        true, false = self._true, self._false
        auc = self._area / true / false if true and false else math.nan
        precision = self._precision / true if true else math.nan
        return RankQuality(
            roc_auc=auc,
            average_precision=precision,
            roc_auc_error=self._auc_error(auc) if true and false else math.nan,
            average_precision_error=self._precision_error(precision) if true else math.nan,
            members=true**2 / float(self._squares[0]) if true else 0.0,
            others=false**2 / float(self._squares[1]) if false else 0.0,
        )

    def _auc_error(self, auc: float) -> float:
        """Return DeLong's standard error of the AUC, from the share of rows of the other class above each row."""
        errors = []
        for total, opposite, middle, above, squares in (
            (self._true, self._false, 1 - auc, self._above_true, self._squares[0]),
            (self._false, self._true, auc, self._above_false, self._squares[1]),
        ):
            deviations = above[1] / opposite**2 - 2 * middle * above[0] / opposite + middle**2 * squares
            errors.append(mean_error(total, float(squares), float(deviations)))
        return math.hypot(*errors)

    def _precision_error(self, precision: float) -> float:
        """Return the standard error of the average precision from the influences of members and of other rows."""
        missing, lost, squares = self._gained - precision, self._lost, self._squares
        members = self._pull_true[1] + 2 * missing * self._pull_true[0] + missing**2 * squares[0]
        others = self._pull_false[1] - 2 * lost * self._pull_false[0] + lost**2 * squares[1]
        spread = math.sqrt(max(float(others), 0.0)) / self._true
        return math.hypot(mean_error(self._true, float(squares[0]), float(members)), spread)


def _dot(left: FloatArray, right: FloatArray) -> float:
    """Return the inner product without BLAS, whose threads cost more than they save on short arrays."""
    return float(np.einsum("i,i", left, right))


def descending_keys(scores: FloatArray) -> NDArray[np.uint64]:
    """Return unsigned integers that ascend as scores descend, and are equal where scores are equal.

    >>> descending_keys(np.array([np.inf, 1.0, 0.0, -0.0, -1.0, -np.inf])).argsort(kind="stable")
    array([0, 1, 2, 3, 4, 5])
    """
    bits = (scores + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    return np.where(bits >> _SIGN, bits, bits ^ _REST)


class SortedScores:
    """Temporary file of the scores of all rows, in sorted runs of equal length for each class.

    The file holds, for every sorted run and every class, keys and then weights in ascending order of keys: 12 bytes a
    row and class.

    Parameters
    ----------
    file
        An empty file that nothing else writes or reads.
    n_classes
        The number of scores of a row.
    run_bytes
        The approximate size of the sorted runs of all classes that are sorted together.
    merge_bytes
        The approximate size of the windows of all runs that are merged.
    """

    def __init__(
        self, file: IO[bytes], n_classes: int, run_bytes: int = RUN_BYTES, merge_bytes: int = MERGE_BYTES
    ) -> None:
        self._run_rows = max(run_bytes // (8 * n_classes + 8), LEAST_ROWS)
        self._scores = np.empty((n_classes, self._run_rows))
        self._numbers = np.empty(self._run_rows, np.int32)
        self._weights = np.empty(self._run_rows, np.float32)
        self._file, self._merge_bytes, self._lengths, self._filled = file, merge_bytes, list[int](), 0

    def add(self, scores: FloatArray, numbers: NDArray[np.integer], weights: NDArray[np.float32] | None) -> None:
        """Add rows: scores ``(rows, classes)``, the number of each row's class, and weights unless all are 1."""
        done = 0
        while done < len(scores):
            count = min(self._run_rows - self._filled, len(scores) - done)
            here, rows = slice(self._filled, self._filled + count), slice(done, done + count)
            self._scores[:, here] = scores[rows].T
            self._numbers[here] = numbers[rows]
            self._weights[here] = 1 if weights is None else weights[rows]
            done, self._filled = rows.stop, here.stop
            if self._filled == self._run_rows:
                self._write_runs()

    def _write_runs(self) -> None:
        numbers, weights = self._numbers[: self._filled], self._weights[: self._filled]
        self._file.seek(len(self._lengths) * len(self._scores) * self._run_rows * ROW_BYTES)
        for number, scores in enumerate(self._scores[:, : self._filled]):
            keys = descending_keys(scores)
            order = np.argsort(keys)
            self._file.write(keys[order].data)
            self._file.write(np.where(numbers == number, weights, -weights)[order].data)
        self._lengths.append(self._filled)
        self._filled = 0

    def merge(self, number: int) -> Iterator[Ranked]:
        """Yield all rows in ascending order of keys for the class of this number, in batches for `rank_quality`."""
        if self._filled:
            self._write_runs()
        width = max(self._merge_bytes // (ROW_BYTES * max(len(self._lengths), 1)), LEAST_WINDOW)
        windows = [self._read(run, number, 0, width) for run in range(len(self._lengths))]
        read = [len(keys) for keys, _ in windows]
        while any(len(keys) for keys, _ in windows):
            unread = [run for run, length in enumerate(self._lengths) if read[run] < length]
            limit = min((windows[run][0][-1] for run in unread), default=np.uint64(2**64 - 1))
            batch = []
            for run, (keys, signed) in enumerate(windows):
                count = int(np.searchsorted(keys, limit, side="right"))
                if count == 0:
                    continue
                batch.append((keys[:count], signed[:count]))
                more = self._read(run, number, read[run], count)
                read[run] += len(more[0])
                windows[run] = np.concatenate([keys[count:], more[0]]), np.concatenate([signed[count:], more[1]])
            keys, signed = (np.concatenate(part) for part in zip(*batch, strict=True))
            order = np.argsort(keys, kind="stable")  # which merges runs that are sorted
            for start in range(0, len(order), BATCH_ROWS):
                some = order[start : start + BATCH_ROWS]
                yield keys[some], signed[some]

    def _read(self, run: int, number: int, first: int, count: int) -> Ranked:
        """Return the keys and weights of at most `count` rows of a sorted run from row `first` on."""
        length = self._lengths[run]
        start = (run * len(self._scores) * self._run_rows + number * length) * ROW_BYTES
        count = min(count, length - first)
        keys, signed = np.empty(count, np.uint64), np.empty(count, np.float32)
        read_into(self._file, start + first * keys.itemsize, keys)
        read_into(self._file, start + length * keys.itemsize + first * signed.itemsize, signed)
        return keys, signed
