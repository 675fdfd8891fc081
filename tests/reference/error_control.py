"""Error control by permuted targets in plain numpy: how many of k selected features are false.

The same selection also runs with P targets whose rows were permuted, so that these have nothing to find. T_j is the
t-value of feature j in the joint fit of the k selected columns, scaled to norm 1, under the ridge penalty λ:

    T_j² = D_j / (RSS / (n − k − 1)),   D_j = w_j² / [(XᵀX + λI)⁻¹]_jj,   which is twice the loss added without j.

EFP(t) = (1 + #{null T ≥ t}) / P false features are expected at t or above, and the q-value of the feature with the i-th
largest T is the least EFP(T_l) / l over l ≥ i, at most 1.
"""

import numpy as np


def t_values(X, y, ridge):
    """|T| of the columns of X (n x k)."""
    A = X - X.mean(axis=0)
    A = A / np.linalg.norm(A, axis=0)
    y = y - y.mean()
    inverse = np.linalg.inv(A.T @ A + ridge * np.eye(A.shape[1]))
    w = inverse @ A.T @ y
    rss = np.sum((y - A @ w) ** 2)
    return np.abs(w) / np.sqrt(np.diag(inverse) * rss / (len(y) - A.shape[1] - 1))


def expected_false(observed, null, runs):
    """EFP of every observed T, given all T of `runs` permuted targets."""
    return np.array([(1 + sum(t0 >= t for t0 in null)) / runs for t in observed])


def q_values(observed, null, runs):
    """The least EFP / (number selected) of all thresholds that select the feature, at most 1."""
    efp = expected_false(observed, null, runs)
    share = [efp[i] / sum(other >= t for other in observed) for i, t in enumerate(observed)]
    return np.array([min(1.0, *(share[i] for i, other in enumerate(observed) if other <= t)) for t in observed])


def nothing_here(observed, null_bests):
    """The p-value of "there is nothing here": the rank of the best T among those of the permuted targets."""
    return (1 + sum(best >= max(observed) for best in null_bests)) / (len(null_bests) + 1)
