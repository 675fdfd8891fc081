"""The order of rows by their labels: whether the rows are mixed, and whether they are sorted.

======== ============================== ============================ ===================================================
rows     neighbouring labels            labels of 1,024 rows         what it means
======== ============================== ============================ ===================================================
mixed    correlate by at most 0.2       are as varied as all labels  nothing is done
in runs  correlate by more (`mixed` is  are nearly as varied as all  an ingest in rows shuffles, since it writes anyway;
         False)                         labels                       a selection reads the rows as they are
sorted   correlate by more (`mixed` is  are less than half as varied learning row by row would fail: a selection that
         False)                         as all (`are_sorted`)        does so reads the rows in random order
======== ============================== ============================ ===================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.layout import can_be_classes

RowOrder = Literal["auto", "as-is"]
"""Whether sorted rows are put in random order, or left as they come."""
MOST_IN_MIXED = 0.2
"""The largest autocorrelation of neighbouring labels in mixed rows. Runs of 1.25 equal labels on average have 0.2."""
LEAST_IN_SORTED = 0.5
"""The least share of the variance of labels that lies between stretches of sorted rows, and not within them.

Two classes in runs of 1,400 rows have it. Runs of 1,000 rows cost MISSION nothing, runs of 4,000 cost a little."""
_STRETCH = 1024  # rows
_DEVIATIONS = 4  # of the autocorrelation of labels in random order, which is about 1 / sqrt(rows)


@dataclass
class LabelOrder:
    """Sums over the labels of some rows in order, which can be added up with the sums of the rows that follow.

    >>> order = LabelOrder.of(np.repeat([0.0, 1.0], 50))
    >>> order.autocorrelation.__round__(2), order.mixed
    (0.98, False)
    """

    rows: int = 0
    first: float = 0.0
    last: float = 0.0
    changes: int = 0  # rows whose label differs from the label of the row before
    squares: float = 0.0  # sum of squared differences between the labels of neighbouring rows
    mean: float = 0.0
    spread: float = 0.0  # sum of squared deviations from the mean
    counts: dict[float, int] | None = None  # rows of each label; None if the labels cannot be classes

    def __post_init__(self) -> None:
        if self.counts is not None:  # the keys of JSON are text
            self.counts = {float(label): count for label, count in self.counts.items()}

    @classmethod
    def of(cls, y: NDArray[np.float64]) -> Self:
        """Return the sums over an array of at least one label, or no sums over several targets (rows, targets)."""
        if y.ndim > 1:
            return cls()
        labels, counts = np.unique(y, return_counts=True)
        with np.errstate(over="ignore", invalid="ignore"):  # then the autocorrelation is NaN
            steps, mean = np.diff(y), float(y.mean())
            squares, spread = float(steps @ steps), float(((y - mean) ** 2).sum())
        return cls(
            rows=len(y),
            first=float(y[0]),
            last=float(y[-1]),
            changes=int(np.count_nonzero(steps)),
            squares=squares,
            mean=mean,
            spread=spread,
            counts=dict(zip(labels.tolist(), counts.tolist(), strict=True)) if can_be_classes(labels) else None,
        )

    def followed_by(self, later: LabelOrder) -> LabelOrder:
        """Return the sums over these rows and the rows that follow them."""
        if not self.rows or not later.rows:
            return self if self.rows else later
        rows, step, shift = self.rows + later.rows, later.first - self.last, later.mean - self.mean
        return LabelOrder(
            rows=rows,
            first=self.first,
            last=later.last,
            changes=self.changes + later.changes + (step != 0),
            squares=self.squares + later.squares + step * step,
            mean=self.mean + shift * later.rows / rows,
            spread=self.spread + later.spread + shift * shift * self.rows * later.rows / rows,
            counts=_add(self.counts, later.counts),
        )

    def recoded(self, codes: Mapping[int, int]) -> LabelOrder:
        """Return the same sums with other class numbers, without the sums that only numbers have."""
        counts = None if self.counts is None else {float(codes[int(old)]): n for old, n in self.counts.items()}
        return replace(self, first=codes[int(self.first)], last=codes[int(self.last)], counts=counts, spread=0.0)

    @property
    def autocorrelation(self) -> float:
        """The autocorrelation of neighbouring labels: 0 in random order, 1 where equal labels come together, or NaN.

        Labels that may be classes or numbers have two autocorrelations, of which the larger is returned: as classes, by
        how often neighbouring labels are equal, and as numbers, by their squared differences.
        """
        if self.rows < 2:
            return math.nan
        shares = np.array([*(self.counts or {}).values()]) / self.rows
        chance_of_change = 1 - float(shares @ shares)
        as_classes = as_numbers = math.nan
        if chance_of_change > 0:
            as_classes = 1 - self.changes / (self.rows - 1) / chance_of_change
        if self.spread > 0:
            as_numbers = 1 - self.squares / (self.rows - 1) / (2 * self.spread / self.rows)
        if self.counts is None:
            return as_numbers if self.spread > 0 else as_classes
        return float(np.fmax(as_classes, as_numbers))

    @property
    def mixed(self) -> bool | None:
        """Whether labels come in no particular order; None for too few rows to tell, and for labels that are all equal.

        The autocorrelation of mixed rows is at most `MOST_IN_MIXED`, or not more than chance would make it.
        """
        chance = _DEVIATIONS / math.sqrt(max(self.rows, 1))
        if chance >= 1 or math.isnan(self.autocorrelation):
            return None
        return self.autocorrelation <= max(MOST_IN_MIXED, chance)


def are_sorted(pieces: Iterable[NDArray[np.float64]]) -> bool:
    """Return whether labels are sorted, or come in very long runs; the pieces are those of all rows in order.

    >>> y = np.random.default_rng(0).integers(0, 2, 20_000).astype(float)
    >>> are_sorted([y]), are_sorted([np.sort(y)]), are_sorted([np.tile(np.repeat([0.0, 1.0], 1000), 10)])
    (False, True, False)
    """
    rows, means, within = np.array([(len(y), y.mean(), y.var() * len(y)) for y in _stretches(pieces)]).reshape(-1, 3).T
    if rows.sum() <= len(rows):  # a row in every stretch
        return False
    total = within.sum() + rows @ (means - np.average(means, weights=rows)) ** 2
    share_within = within.sum() / (rows.sum() - len(rows)) * (rows.sum() - 1) / total if total else 1.0
    return bool(1 - share_within >= LEAST_IN_SORTED)


def _stretches(pieces: Iterable[NDArray[np.float64]]) -> Iterator[NDArray[np.float64]]:
    """Yield the labels of every `_STRETCH` consecutive rows, and of the rows that are left."""
    left = np.empty(0)
    for piece in pieces:
        left = np.concatenate([left, piece])
        stop = len(left) // _STRETCH * _STRETCH
        yield from left[:stop].reshape(-1, _STRETCH)
        left = left[stop:]
    if len(left):
        yield left


def join_orders(parts: Iterable[LabelOrder]) -> LabelOrder:
    """Return the sums over all rows, from the sums over consecutive parts of the rows."""
    whole = LabelOrder()
    for part in parts:
        whole = whole.followed_by(part)
    return whole


def recoded_orders(parts: Sequence[tuple[LabelOrder, Sequence[str]]], classes: Sequence[str]) -> list[LabelOrder]:
    """Return the sums of parts whose labels are positions in a list of strings of each part, recoded to `classes`."""
    position = {label: code for code, label in enumerate(classes)}
    return [
        order.recoded({code: position[label] for code, label in enumerate(strings) if label in position})
        for order, strings in parts
        if order.rows
    ]


def _add(counts: dict[float, int] | None, more: dict[float, int] | None) -> dict[float, int] | None:
    if counts is None or more is None:
        return None
    total = {label: counts.get(label, 0) + more.get(label, 0) for label in {*counts, *more}}
    return total if can_be_classes(list(total)) else None
