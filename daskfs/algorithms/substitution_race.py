"""How much ridge: sets with different ridges race over the first passes, judged on rows they have not seen.

Ridge decides *which* columns look good, not only how much weight they get: with little of it columns must explain
what the others leave, with much of it they are chosen by their own correlation, which is safer where columns
outnumber rows by far. Only sets built under different ridges can tell, and only after two passes (after one, those
with little ridge are still behind), so all of them are built side by side on three quarters of the rows. The best of
them goes on with all rows.

Where rows are plenty the ridge matters little, a small one is taken, and nothing is held back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss import CURVATURE, Loss
from daskfs.algorithms.loss_kernels import pulls
from daskfs.algorithms.substitution_refit import Fields, gram, transposed

# On columns of unit norm, times the curvature of the loss:
ENTRANTS = (1e-4, 0.1, 1.0, 10.0)
PLENTY = 1e-3  # where rows are plenty
REFIT = (1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # of the weights, once the set is known

LAPS = 2  # passes that a race lasts
_MOST_ROWS = 4096  # with more, rows are plenty
_LEAST_ROWS = 24  # with fewer there are none to spare
_HELD_BACK = 0.25


def entrants(n_samples: int, loss: Loss) -> tuple[float, ...]:
    """The ridges that race on so many rows; a single one where there is nothing to race for."""
    ridges = ENTRANTS if _LEAST_ROWS <= n_samples <= _MOST_ROWS else (PLENTY,)
    return tuple(ridge * CURVATURE[loss] for ridge in ridges)


def held_back(n_samples: int, seed: int) -> NDArray[np.int64]:
    """Rows on which a race is judged, at random."""
    rows = np.random.default_rng(seed).choice(n_samples, int(_HELD_BACK * n_samples), replace=False)
    return np.sort(rows)


def judged(one: Fields, rows: NDArray[np.int64], weight: NDArray[np.float64], loss: Loss) -> tuple[float, float]:
    """The mean loss of a set on rows it has not seen, under the ridge that refits it best, and that ridge."""
    k, X = one["k"], one["X"]
    H = gram(X[:, :k], one["h"])
    pull = transposed(X[:, :k], one["r"]) + H @ one["w"][:k]
    penalised = np.arange(k) >= one["fixed"]
    trials = []
    for ridge in np.array(REFIT) * CURVATURE[loss]:
        w = np.linalg.solve(H + np.diag(np.where(penalised, ridge, 1e-9)), pull)
        u = (X[rows, :k] @ w.astype(X.dtype)).astype(np.float64)
        total = pulls(one["code"], u, one["target"][rows], weight[rows], np.empty(len(rows), X.dtype))
        trials.append((float(total / weight[rows].sum()), float(ridge)))
    return min(trials)
