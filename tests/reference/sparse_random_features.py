"""Algorithm 1 of Sparse Random Features in plain numpy: in float64, with all of Φ in memory, and FISTA for a solver.

Kept columns, which are no part of the paper, have no penalty.
"""

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


def rounds_with_kept(expansion, kept, y, penalty, n_rounds, per_round):
    """ids, weights, weights of kept columns and objective after every round; columns of `kept` are never dropped."""
    ids, found = np.empty(0, np.uint64), []
    U = np.column_stack([np.ones(len(y)), kept])
    for number in range(n_rounds):
        drawn = np.arange(number * per_round, (number + 1) * per_round, dtype=np.uint64)
        ids = np.concatenate([ids, drawn])
        Phi = expansion(ids).astype(np.float64)
        weights, _, objective = lasso(Phi - U @ np.linalg.lstsq(U, Phi)[0], y - U @ np.linalg.lstsq(U, y)[0], penalty)
        of_kept = np.linalg.lstsq(U, y - Phi @ weights)[0][1:]
        ids = ids[weights != 0]
        found.append((ids, weights[weights != 0], of_kept, objective))
    return found


def classifier(Phi, signs, penalties, loss, steps=40_000):
    """min Σ λ_h |w_h| + Σ L(y (Φw + β)), by FISTA with restarts; a penalty of 0 leaves a feature unpenalised."""
    X, y = np.column_stack([Phi, np.ones(len(Phi))]), signs
    lam = np.append(penalties, 0.0)
    step = 1 / np.linalg.norm(X, 2) ** 2 / (0.25 if loss == "logistic" else 1.0)

    def losses(w):
        m = y * (X @ w)
        return np.logaddexp(0, -m).sum() if loss == "logistic" else np.square(np.maximum(1 - m, 0)).sum() / 2

    def gradient(w):
        m = y * (X @ w)
        return X.T @ (-y / (1 + np.exp(m)) if loss == "logistic" else -y * np.maximum(1 - m, 0))

    w = z = np.zeros(X.shape[1])
    momentum = 1.0
    for _ in range(steps):
        moved = z - step * gradient(z)
        new = np.sign(moved) * np.maximum(np.abs(moved) - step * lam, 0)
        if (z - new) @ (new - w) > 0:
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        z, w, momentum = new + (momentum - 1) / following * (new - w), new, following
    return w[:-1], w[-1], losses(w) + lam @ np.abs(w)


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
