"""Small problems with planted features, for the tests of estimators."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from toy_runs import TIMES

import daskfs

PLANTED = (3, 7)


def wide(n: int = 240, p: int = 40, seed: int = 0) -> np.ndarray:
    """Columns of a normal distribution."""
    return np.random.default_rng(seed).normal(size=(n, p))


def score_of(X: np.ndarray) -> np.ndarray:
    """What the planted columns say."""
    return X[:, PLANTED[0]] - 2 * X[:, PLANTED[1]]


def thinned(X: np.ndarray, share: float = 0.4) -> sp.csr_array:
    """The same with few entries."""
    return sp.csr_array(np.where(np.random.default_rng(1).random(X.shape) < share, X, 0))


def differences(one: daskfs.Selection, other: daskfs.Selection) -> list[str]:
    """What is not the same bit for bit in what both have, but for the seconds that passed."""
    found = [
        name
        for name in ("features", "weights", "intercept")
        if getattr(one, name).tobytes() != getattr(other, name).tobytes()
    ]
    found += [name for name in ("names", "classes") if getattr(one, name) != getattr(other, name)]
    columns = (set(one.history) & set(other.history)) - set(TIMES)
    return found + [
        name for name in columns if not np.array_equal(one.history[name], other.history[name], equal_nan=True)
    ]
