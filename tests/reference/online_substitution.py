"""Online Substitution (KDD 2016), algorithm 1 in float64, one column at a time: slow, and short enough to be believed.

What the paper leaves open is settled here, for `daskfs.OnlineSubstitution` to be compared with set for set: columns are
centred and scaled to unit norm, constant ones (max = min) skipped; they come in natural order in every pass; real
targets are centred, labels are -1 and 1 with a constant offset u0 in u, the best constant score; m = 1; gamma = step /
(curvature L), with the L from before x_j came; L follows λ_max(X_SᵀX_S) by one warm power iteration for each column
accepted, and is never below 1; of equally small weights the first slot leaves, and x_j itself before any of them.
Weights are those of the standardised columns.
"""

import numpy as np
from scipy.special import expit

CURVATURE = {"squared": 1.0, "squared_hinge": 1.0, "logistic": 0.25}
SLOPE = {
    "squared": lambda u, y: u - y,
    "squared_hinge": lambda u, y: -y * np.maximum(0, 1 - y * u),
    "logistic": lambda u, y: -y * expit(-y * u),
}
OFFSET = {"squared_hinge": np.mean, "logistic": lambda y: np.log(np.sum(y > 0) / np.sum(y < 0))}


def prepared(X, y, loss):
    """Standardised columns, which of them vary, the target, and the offset u0."""
    varying = np.flatnonzero(np.ptp(X, axis=0))
    X = np.asfortranarray(X - X.mean(axis=0, dtype=np.float64))
    X[:, varying] /= np.linalg.norm(X[:, varying], axis=0)
    return (X, varying, y - y.mean(), 0.0) if loss == "squared" else (X, varying, y, OFFSET[loss](y))


def power_step(L, v, X_S):
    """The next estimate of λ_max(X_SᵀX_S); v, which may have more slots than S, is turned in place."""
    z = X_S.T @ (X_S @ v[: X_S.shape[1]])
    now = np.linalg.norm(z)
    v[: len(z)] = z / now
    return max(now if now > L else 0.9 * L + 0.1 * now, 1.0)


def substitute(S, w, j, w_j, s):
    """Lines 7 to 9: S and w with j in, unless j is the least itself; and the slot it took, or None."""
    if len(S) < s:
        return [*S, j], np.append(w, w_j), len(S)
    slot = int(np.argmin(np.abs(w)))
    if abs(w[slot]) >= abs(w_j):
        return S, w, None
    return [*S[:slot], j, *S[slot + 1 :]], np.concatenate([w[:slot], [w_j], w[slot + 1 :]]), slot


def online_substitution(X, y, s, loss="squared", passes=2, step=0.9):
    """The ids of the selected columns, by slot, and their weights."""
    X, varying, y, u0 = prepared(X, y, loss)
    S, w, L, v = [], np.zeros(0), 1.0, np.ones(s + 1)
    for j in (j for _ in range(passes) for j in varying if j not in S):  # line 3
        gamma = step / (CURVATURE[loss] * L)
        r = SLOPE[loss](u0 + X[:, S] @ w, y)  # line 4, and the slope of the loss at u
        w_S, w_j = w - gamma * X[:, S].T @ r, -gamma * X[:, j] @ r  # lines 5 and 6, at the same u
        S, w, slot = substitute(S, w_S, j, w_j, s)
        if slot is not None:
            v[slot] += 0.01
            L = power_step(L, v, X[:, S])
    return np.array(S), w
