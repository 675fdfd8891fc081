"""Algorithm 1 of Sparse Random Features in plain numpy: in float64, with all of Φ in memory, and FISTA for a solver."""

from __future__ import annotations

import numpy as np


def rounds(expansion, y, penalty, n_rounds, per_round):
    """ids, weights, intercept and objective after every round; `expansion` gives Φ for ids."""
    ids, found = np.empty(0, np.uint64), []
    for number in range(n_rounds):
        drawn = np.arange(number * per_round, (number + 1) * per_round, dtype=np.uint64)
        ids = np.concatenate([ids, drawn])
        weights, intercept, objective = lasso(expansion(ids), y, penalty)
        ids = ids[weights != 0]
        found.append((ids, weights[weights != 0], intercept, objective))
    return found


def lasso(Phi, y, penalty, steps=60_000):
    """min λ‖w‖₁ + ½‖Φw + β − y‖², by FISTA with restarts; the intercept is removed by centring."""
    centre, mean = Phi.mean(axis=0), y.mean()
    X, t = Phi - centre, y - mean
    G, b = X.T @ X, X.T @ t
    step = 1 / np.linalg.eigvalsh(G)[-1]
    w = z = np.zeros(len(b))
    momentum = 1.0
    for _ in range(steps):
        moved = z - step * (G @ z - b)
        new = np.sign(moved) * np.maximum(np.abs(moved) - step * penalty, 0)
        if (z - new) @ (new - w) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        z, w, momentum = new + (momentum - 1) / following * (new - w), new, following
    return w, mean - centre @ w, penalty * np.abs(w).sum() + np.square(X @ w - t).sum() / 2
