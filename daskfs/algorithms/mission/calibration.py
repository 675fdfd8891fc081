"""Calibration of MISSION's step size on the first rows of the data.

The learning rate is divided by the mean squared norm of the rows, so that a rate means the same for all data. The step
of a feature is multiplied by 1/√(1 + N/β), as in AdaGrad, where N is the sum of value² · ‖residual‖² over the rows that
have the feature. The constant β is `sightings` times the mean squared value, so that N/β counts rows with typical
values of the feature.

The best of several learning rates has the least loss on the first rows, where the loss of a row is measured before the
row is learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.memory_kernels import SparseRows
from daskfs.algorithms.mission.rows import outside_of
from daskfs.protocol import Meta

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

FIRST_ROWS = 6144
"""Rows to calibrate on. Blocks of short rows have 6,168 rows, so that no two blocks need to be joined."""
FEW_ROWS = 8192
"""Up to so many rows are put in random order if they are sorted, and are read several times."""
RACE = 2048, 4096
"""Rates race by the losses of the first rows between these numbers, if more rows follow, and otherwise by the losses of
all first rows. Before, rows are learned from nothing; losses of fewer rows choose a smaller rate on some data. Those of
the very first are no cheaper heat for many rates: the first thousand rows take as long as three thousand later ones."""
_RACE_WIDTH = 1 << 17
SQUARES_ROWS = 2048
"""Of the first rows, those of which `mean_squares` are taken."""
FIRST_ENTRIES = 1 << 20  # fewer rows suffice where rows are long
RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)  # 128 is best where features are seen once or twice
_FIRST_RATE = 1  # the search begins with this one and the next: usual data are best with one of them
PAPER_RATE = 0.5
_SLOWER = 2  # the best rate is divided by this: slower steps tell signal from noise better, and many more rows follow
_FAR = 30.0  # standard deviations: with a mean this far from zero the intercept is learned too late
_FAR_FROM_ZERO = (
    "its target is far from zero beside its spread; MISSION learns the intercept row by row like everything else, "
    "and meanwhile chooses by chance: subtract the mean of the target first"
)


@dataclass(slots=True)
class Calibration:
    """Estimates of the step size from the first rows: mean squares, and losses at several learning rates."""

    mean_squares: NDArray[np.float64]
    """(2,): the mean squared norm of rows, and the mean squared value of their entries."""
    rate_losses: NDArray[np.float64]
    """(len(RATES),): the mean loss of the first rows before they are learned, at each of the `RATES`; or zeros."""


NEUTRAL = Calibration(np.ones(2), np.zeros(len(RATES)))
"""The calibration for cases where the step size does not matter, or no row was read."""


def count_first_rows(rows: SparseRows) -> int | None:
    """Return the number of first rows to calibrate on, or None if there are too few rows."""
    by_entries = int(np.searchsorted(rows.indptr, FIRST_ENTRIES))
    count = min(FIRST_ROWS, by_entries)
    return count if count <= len(rows.y) else None


def race_width(width: int) -> int:
    """Return the width of the sketch in which rates race: 4,096 rows have few features, and need no larger sketch."""
    return min(width, _RACE_WIDTH)


def are_few(meta: Meta) -> bool:
    """Return whether all rows fit into the buffer where they are put in random order."""
    return meta.n_samples <= FEW_ROWS and meta.n_entries <= FIRST_ENTRIES


def target_sums(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums over targets for `remark_on`; the sums of several blocks may be added."""
    return np.array([len(y), y.sum(), y @ y])


def remark_on(sums: NDArray[np.float64], has_classes: bool) -> str:
    """Return a remark for users on the target, from its `target_sums`; usually an empty text."""
    n, total, square = sums
    mean = total / max(n, 1)
    is_far = not has_classes and abs(mean) > _FAR * max(0.0, square / max(n, 1) - mean**2) ** 0.5 > 0
    return _FAR_FROM_ZERO if is_far else ""


def mean_squares(parts: Iterable[SparseRows]) -> NDArray[np.float64]:
    """Return the mean squared norm of rows, and the mean squared value of their entries, or 1 for a mean of nothing."""
    total, n_rows, n_entries = 0.0, 0, 0
    for rows in parts:
        outside = outside_of(rows)
        total += float(np.square(outside, dtype=np.float64).sum())
        n_rows, n_entries = n_rows + len(rows.y), n_entries + int(np.count_nonzero(outside))
    return np.array([total / max(1, n_rows) or 1.0, total / max(1, n_entries) or 1.0])


def compare_rates(loss_at: Callable[[float], float]) -> NDArray[np.float64]:
    """Return the loss at each of the `RATES`, where some losses are extrapolated instead of measured.

    The loss is expected to fall up to the best learning rate and to rise after it. Two rates show on which side the
    best rate lies, and rates on that side are tried until the loss rises. Losses at other rates are extrapolated
    linearly, so that losses of shards that tried different rates can be averaged.
    """
    losses = np.full(len(RATES), np.nan)
    first = _FIRST_RATE
    losses[first], losses[first + 1] = loss_at(RATES[first]), loss_at(RATES[first + 1])
    step = 1 if _bounded(losses[first + 1]) < _bounded(losses[first]) else -1
    at = first + (step > 0)
    while 0 <= at + step < len(RATES):
        at += step
        losses[at] = loss_at(RATES[at])
        if _bounded(losses[at]) > _bounded(losses[at - step]):
            break
    low, high = min(first, at), max(first + 1, at)
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(high + 1, len(RATES)):
            losses[i] = 2 * losses[i - 1] - losses[i - 2]
        for i in range(low - 1, -1, -1):
            losses[i] = 2 * losses[i + 1] - losses[i + 2]
    return losses


def _bounded(losses: Any) -> Any:
    """Return losses with infinity in place of NaN, which stands for numbers that overflow at large learning rates."""
    return np.where(np.isnan(losses), np.inf, losses)


def rate_of(params: Mission, calibration: Calibration | None) -> float:
    """Return the learning rate for rows of unit norm: the user's rate, `PAPER_RATE`, or half the best of `RATES`."""
    if params.learning_rate != "auto":
        return float(params.learning_rate)
    if params.method != "active":
        return PAPER_RATE
    return RATES[int(_bounded((calibration or NEUTRAL).rate_losses).argmin())] / _SLOWER
