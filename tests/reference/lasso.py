"""The l1 problem ½ wᵀGw − bᵀw + lam Σ|w|, by proximal gradients (FISTA with restarts): slow, and short."""

import numpy as np


def fista(G, b, lam, steps=200_000, tolerance=1e-12):
    """The minimum of a well-conditioned problem."""
    rate = 1.0 / np.linalg.eigvalsh(G)[-1]
    w = v = np.zeros_like(b)
    momentum = 1.0
    for _ in range(steps):
        moved = v - rate * (G @ v - b)
        new = np.sign(moved) * np.maximum(np.abs(moved) - rate * lam, 0.0)
        if np.abs(new - v).max() <= tolerance * max(1.0, np.abs(new).max()):
            return new
        if np.sum((v - new) * (new - w)) > 0.0:  # momentum leads uphill: begin again without it
            momentum = 1.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        v = new + (momentum - 1.0) / following * (new - w)
        w, momentum = new, following
    raise ArithmeticError("no minimum within the steps allowed")


def residual(G, b, w, lam):
    """max_j dist(−(Gw − b)_j, lam ∂|w_j|) / lam, as the definition reads."""
    q = G @ w - b
    return np.where(w != 0, np.abs(q + lam * np.sign(w)), np.maximum(np.abs(q) - lam, 0.0)).max() / lam
