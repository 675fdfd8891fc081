"""95 % intervals of metrics, computed with numpy only.

The intervals treat rows as independent draws, and the model as fixed. A weighted row counts as one draw. The
*effective* number of weighted rows is the number of rows without weights that would give the same variance. Unknown
intervals are NaN at both ends.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Z = 1.959963984540054  # standard deviations of the normal distribution within which 95 % of it lie

Interval = tuple[float, float]
FloatArray = NDArray[np.float64]
UNKNOWN = (math.nan, math.nan)


def effective_rows(weight: FloatArray, squares: FloatArray, squares_right: FloatArray) -> FloatArray:
    """Return the effective number of rows for the interval of an accuracy, the share of rows with a correct prediction.

    The effective number is Kish's (Σw)²/Σw² for row weights w, or less if rows with large weights are wrong more often.

    Parameters
    ----------
    weight
        The sum of all weights, and of the weights of correct rows: ``(2, …)``.
    squares, squares_right
        The sums of squared weights, of all rows and of correct rows.
    """
    total, right = weight
    with np.errstate(divide="ignore", invalid="ignore"):
        share, kish = right / total, total**2 / squares
        varies = (squares_right * (1 - share) ** 2 + (squares - squares_right) * share**2) / total**2
        rows: FloatArray = np.fmin(kish, share * (1 - share) / varies)
    return rows


def wilson(share: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the low and the high ends of Wilson's score intervals of shares of rows.

    >>> low, high = wilson(np.array([0.5, 1.0]), np.array([100, 10]))
    >>> low.round(3), high.round(3)
    (array([0.404, 0.722]), array([0.596, 1.   ]))
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        extra = Z**2 / rows
        middle = (share + extra / 2) / (1 + extra)
        half = np.sqrt(share * (1 - share) * extra + extra**2 / 4) / (1 + extra)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def mean_of_shares(shares: FloatArray, low: FloatArray, high: FloatArray) -> Interval:
    """Return the interval of the mean of independent shares by MOVER (Zou and Donner, 2008).

    The distance of a share from an end of its interval stands for the share's standard error on that side, so that
    shares of 0 and 1, whose variance is estimated as 0, still vary.
    """
    if len(shares) == 0:
        return UNKNOWN
    mean, count = shares.mean(), len(shares)
    down, up = (np.sqrt(np.square(shares - ends).sum()) / count for ends in (low, high))
    return max(float(mean - down), 0.0), min(float(mean + up), 1.0)


def mean_interval(ends: FloatArray) -> Interval:
    """Return the means of low and high ends (intervals, 2): the interval of a mean whose parts may rise together.

    >>> mean_interval(np.array([[0.5, 0.7], [0.1, 0.5]]))
    (0.3, 0.6)
    """
    low, high = ends.mean(axis=0).tolist()
    return low, high


def on_log_scale(value: float, error: float) -> Interval:
    """Return the interval of a value above 0 with this standard error, if the value's logarithm is normal.

    >>> tuple(round(end, 2) for end in on_log_scale(10.0, 1.0))
    (8.22, 12.17)
    """
    if not math.isfinite(error) or not value > 0:
        return (value, value) if value == error == 0 else UNKNOWN
    factor = math.exp(min(Z * error / value, 700.0))
    return value / factor, value * factor


def on_odds_scale(value: float, error: float) -> Interval:
    """Return the interval of a value between 0 and 1 with this standard error, if the value's log-odds are normal.

    >>> tuple(round(end, 3) for end in on_odds_scale(0.9, 0.05))
    (0.752, 0.964)
    """
    if not math.isfinite(error) or not 0 < value < 1:
        return UNKNOWN
    factor = math.exp(min(Z * error / (value * (1 - value)), 700.0))
    odds = value / (1 - value)
    return 1 / (1 + factor / odds), 1 / (1 + 1 / (factor * odds))


def mean_error(weight: float, squares: float, deviations: float) -> float:
    """Return the standard error of a weighted mean, or NaN for fewer than two rows or after an overflow.

    Parameters
    ----------
    weight, squares
        The sums of weights, and of squared weights.
    deviations
        The sum over rows of (weight × distance from the mean)².
    """
    rows = weight**2 / squares if squares > 0 else 0.0
    if not rows > 1 + 1e-9 or not math.isfinite(deviations):
        return math.nan
    return math.sqrt(max(deviations, 0.0) * rows / (rows - 1)) / weight
