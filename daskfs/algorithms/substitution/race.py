"""How much ridge: sets with different ridges race over the first passes, judged on rows they have not seen.

Ridge decides *which* columns look good, not only how much weight they get: with little of it columns must explain
what the others leave, with much of it they are chosen by their own correlation, which is safer where columns
outnumber rows by far. Only sets built under different ridges can tell, and only after two passes (after one, those
with little ridge are still behind), so all of them are built side by side, with some rows held back. The best of them
goes on with all rows.

Where rows are plenty the ridge matters little, a small one is taken, and nothing is held back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import residuals
from daskfs.algorithms.losses import CURVATURE, Loss
from daskfs.algorithms.substitution.refit import Fields, gram, transposed

# On columns of unit norm, times the curvature of the loss:
ENTRANTS = (1e-4, 0.02, 1.0, 10.0)
PLENTY = 1e-3  # where rows are plenty
REFIT = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # of the weights, once the set is known

LAPS = 2  # passes that a race lasts
_MOST_ROWS = 4096  # with more, rows are plenty
_LEAST_ROWS = 24  # with fewer there are none to spare
_HELD_BACK = 0.1  # of the rows,
_ENOUGH = 100  # but so many,
_AT_MOST = 0.25  # and no larger share; of labels, which say less than numbers, always that
_HARDLY_WORSE = 1.05
_ALL_BUT_PERFECT = 0.02  # sets that explain so much are still on their way, and little ridge leads furthest


def entrants(n_samples: int, loss: Loss) -> tuple[float, ...]:
    """The ridges that race on so many rows; a single one where there is nothing to race for."""
    ridges = ENTRANTS if _LEAST_ROWS <= n_samples <= _MOST_ROWS else (PLENTY,)
    return tuple(ridge * CURVATURE[loss] for ridge in ridges)


def held_back(n_samples: int, are_labels: bool, seed: int) -> NDArray[np.int64]:
    """Rows on which a race is judged, at random."""
    most = int(_AT_MOST * n_samples)
    count = most if are_labels else max(int(_HELD_BACK * n_samples), min(most, _ENOUGH))
    return np.sort(np.random.default_rng(seed).choice(n_samples, count, replace=False))


class Verdict(NamedTuple):
    """How a set does on rows it has not seen, once its weights have been fitted under the ridge that suits it best."""

    loss: float  # as a share of what a constant leaves
    ridge: float
    score: float  # balanced accuracy, or R²


def judged(one: Fields, rows: NDArray[np.int64], weight: NDArray[np.float64], loss: Loss) -> Verdict:
    """Fit the weights of a set under several ridges, on the rows it has seen, and take the best on the others."""
    k, X = one["k"], one["X"]
    H = gram(X[:, :k], one["h"])
    pull = transposed(X[:, :k], one["r"]) + H @ one["w"][:k]
    penalised = np.arange(k) >= one["fixed"]
    y, m = one["target"][rows], weight[rows]
    nothing = residuals(one["code"], np.full(len(y), y.mean()), y, m, np.empty(len(rows), X.dtype))
    verdicts = []
    for ridge in np.array(REFIT) * CURVATURE[loss]:
        w = np.linalg.solve(H + np.diag(np.where(penalised, ridge, 1e-9)), pull)
        u = (X[rows, :k] @ w.astype(X.dtype)).astype(np.float64)
        total = residuals(one["code"], u, y, m, np.empty(len(rows), X.dtype))
        verdicts.append(Verdict(float(total / max(nothing, 1e-300)), float(ridge), _score(u, y)))
    return min(verdicts)


def winner(verdicts: Sequence[Verdict]) -> int:
    """The place of the best; of those hardly worse, or all but perfect, the first, which has the least ridge."""
    bar = max(_HARDLY_WORSE * min(verdict.loss for verdict in verdicts), _ALL_BUT_PERFECT)
    return next(place for place, verdict in enumerate(verdicts) if verdict.loss <= bar)


def _score(u: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Balanced accuracy where the target is −1 or +1 throughout, else R²."""
    if (np.abs(y) == 1).all():
        found = [float((u[y == side] * side > 0).mean()) for side in (-1, 1) if (y == side).any()]
        return float(np.mean(found))
    spread = float(((y - y.mean()) ** 2).sum())
    return 1 - float(((y - u) ** 2).sum()) / spread if spread else 0.0
