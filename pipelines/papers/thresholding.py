"""Hard thresholding: what MISSION's simulations compare it with, each by the whole gradient and in memory.

Columns X (n x p), a target y = X β without noise, how many of the weights are not zero, and a rate for columns of unit
norm, which the mean squared norm of the columns divides; the places of the chosen columns come back.

======= ==============================================================================================
`iht`   iterative hard thresholding (Blumensath and Davies 2009): a gradient step, then the k largest
`iti`   iterative thresholding with inversion (Maleki 2009): the same, then least squares on those k
`pht`   partial hard thresholding (Jain, Tewari and Dhillon 2017): the same, one column at a time
======= ==============================================================================================

MISSION's listing has stochastic steps instead, one row each; `daskfs.Mission(method="iht")` is that form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = NDArray[np.floating[Any]]
Weights = NDArray[np.float64]
Ids = NDArray[np.int64]

STEPS = 500  # far beyond what they need where they succeed
EXACT, DIVERGED = 1e-8, 1e8  # of the target's energy: what is left of it when it has been explained, or never will be


def iht(X: Columns, y: Weights, k: int, rate: float) -> Ids:
    eta, S, b = rate / _energy(X), np.arange(k), np.zeros(k)
    for _ in range(STEPS):
        r = y - X[:, S] @ b
        if not EXACT < r @ r / (y @ y) < DIVERGED:
            break
        z = eta * (X.T @ r)
        z[S] += b
        S = _largest(z, k)
        b = z[S]
    return S


def iti(X: Columns, y: Weights, k: int, rate: float) -> Ids:
    return _with_inversion(X, y, k, rate, lambda z, S: _largest(z, k))


def pht(X: Columns, y: Weights, k: int, rate: float) -> Ids:
    return _with_inversion(X, y, k, rate, _one_exchanged)


def _with_inversion(X: Columns, y: Weights, k: int, rate: float, next_of: Callable[[Weights, Ids], Ids]) -> Ids:
    """Least squares on the chosen columns and a gradient step from there choose the next ones, until they stay."""
    eta, S = rate / _energy(X), _largest(X.T @ y, k)
    for _ in range(STEPS):
        b = np.linalg.lstsq(X[:, S], y)[0]
        z = eta * (X.T @ (y - X[:, S] @ b))
        z[S] += b
        S, before = next_of(z, S), S
        if set(S.tolist()) == set(before.tolist()):
            break
    return S


def _one_exchanged(z: Weights, S: Ids) -> Ids:
    """The best of the columns outside comes in if it is larger than the least of those inside."""
    outside = np.abs(z)
    outside[S] = -1
    candidates = np.append(S, outside.argmax())
    return candidates[_largest(z[candidates], len(S))]


def _energy(X: Columns) -> float:
    """The mean squared norm of a column."""
    return float(np.square(X).sum() / X.shape[1])


def _largest(z: Weights, k: int) -> Ids:
    return np.argpartition(-np.abs(z), k - 1)[:k]
