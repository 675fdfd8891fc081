"""How good predictions are. numpy only; tests hold these equal to scikit-learn's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError


def balanced_accuracy(truth: NDArray[np.int64], predicted: NDArray[np.int64]) -> float:
    """The share of rows that are right, of every class that occurs, averaged over classes.

    >>> balanced_accuracy(np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0]))
    0.5
    """
    _check_aligned(truth, predicted)
    rows = np.bincount(truth)
    right = np.bincount(truth[truth == predicted], minlength=len(rows))
    occurs = rows > 0
    return float(np.mean(right[occurs] / rows[occurs]))


def r_squared(truth: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """The share of the target's variance that predictions explain; of a constant target, 1 if all are right, else 0.

    >>> r_squared(np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0]))
    0.5
    """
    _check_aligned(truth, predicted)
    unexplained = float(np.sum((truth - predicted) ** 2))
    total = float(np.sum((truth - truth.mean()) ** 2))
    if total == 0:
        return float(unexplained == 0)
    return 1 - unexplained / total


def _check_aligned(truth: NDArray[np.generic], predicted: NDArray[np.generic]) -> None:
    if truth.shape != predicted.shape or len(truth) == 0:
        raise OptionError(
            f"labels of shape {truth.shape} for predictions of shape {predicted.shape}: one a row, please"
        )
