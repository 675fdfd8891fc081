"""What others would choose k columns with: the peers of Online Substitution, on matrices that fit in memory.

A peer takes standardised columns (mean 0, variance 1; none constant), a target (a number, or -1 and 1), and k; it
gives the places of the columns it chooses: k where it can, for OMP stops early where columns depend on each other.

================ =======================================================================================
`omp`            orthogonal matching pursuit (scikit-learn)
`proj_gd`        projected gradient onto ‖w‖₀ ≤ k, the OS paper's batch counterpart, run until it has settled
`lasso`          the LASSO path down to the first penalty with k non-zeros; of these the k largest (scikit-learn)
`l1_logistic`    the same with logistic loss (liblinear)
`grafting`       columns one by one into a small LASSO (Perkins and Theiler 2003), with the penalty of `lasso`
`select_k_best`  the largest F statistics (scikit-learn)
`abess`          best subset by splicing (Zhu et al. 2020, package abess); with logistic loss for labels
================ =======================================================================================
"""

from __future__ import annotations

import warnings
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import f_classif, f_regression
from sklearn.linear_model import LogisticRegression, lasso_path, orthogonal_mp
from sklearn.svm import l1_min_c

Columns = NDArray[np.float64]
Target = NDArray[np.float64]
Ids = NDArray[np.int64]

PATH_STEP = 0.9  # between penalties of the LASSO path
SETTLED = 50  # steps without a change of the support after which projected gradient has converged


def omp(Z: Columns, y: Target, k: int) -> Ids:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Orthogonal matching pursuit ended prematurely", RuntimeWarning)
        return np.flatnonzero(orthogonal_mp(Z, y - y.mean(), n_nonzero_coefs=k))


def select_k_best(Z: Columns, y: Target, k: int) -> Ids:
    test = f_classif if _is_labels(y) else f_regression
    F, _ = test(Z, y)
    return _largest(F, k)


def lasso(Z: Columns, y: Target, k: int) -> Ids:
    w, _ = _lasso_of(Z, y, k)
    return _largest(np.abs(w), k)


def _lasso_of(Z: Columns, y: Target, k: int) -> tuple[NDArray[np.float64], float]:
    """Weights and penalty at the first point of the path with at least k non-zeros."""
    y = y - y.mean()
    correlations = Z.T @ y
    gram = Z.T @ Z if Z.shape[0] > Z.shape[1] else False  # once, instead of at every point of the path
    penalty, w = np.abs(correlations).max() / len(y), np.zeros(Z.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # which columns are not zero is settled long before
        while np.count_nonzero(w) < k:
            penalty *= PATH_STEP
            _, path, _ = lasso_path(Z, y, alphas=[penalty], coef_init=w, precompute=gram, Xy=correlations)
            w = path[:, 0]
    return w, penalty


def l1_logistic(Z: Columns, y: Target, k: int) -> Ids:
    smallest = l1_min_c(Z, y, loss="log")
    for number in count(1):
        model = LogisticRegression(C=smallest * 2 ** (number / 2), l1_ratio=1, solver="liblinear", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            w = model.fit(Z, y).coef_[0]
        if np.count_nonzero(w) >= k:
            break
    return _largest(np.abs(w), k)


def grafting(Z: Columns, y: Target, k: int, passes: int = 2) -> Ids:
    _, penalty = _lasso_of(Z, y, k)
    y = y - y.mean()
    S, w, r = np.empty(0, np.int64), np.empty(0), y
    for j in (j for _ in range(passes) for j in range(Z.shape[1])):
        if j in S or abs(Z[:, j] @ r) <= len(y) * penalty:
            continue
        S = np.append(S, j)
        Z_S = Z[:, S]
        _, path, _ = lasso_path(Z_S, y, alphas=[penalty], coef_init=np.append(w, 0.0), precompute=False)
        kept = np.flatnonzero(path[:, 0])
        S, w, r = S[kept], path[kept, 0], y - Z_S @ path[:, 0]
    return S[_largest(np.abs(w), k)]


def abess(Z: Columns, y: Target, k: int) -> Ids:
    from abess import linear  # optional: only whoever asks for it needs it

    if _is_labels(y):
        model = linear.LogisticRegression(support_size=k, thread=1).fit(Z, (y > 0).astype(int))
    else:
        model = linear.LinearRegression(support_size=k, thread=1).fit(Z, y)
    return np.flatnonzero(model.coef_)


def proj_gd(Z: Columns, y: Target, k: int, loss: str = "squared", most: int = 2000) -> Ids:
    """Projected gradient with the longest step for which the quadratic bound of the loss holds."""
    value, slope, u0 = _loss(loss, y)
    w, u, S, unchanged = np.zeros(Z.shape[1]), np.full(len(y), u0), np.empty(0, np.int64), 0
    gamma = 1 / len(y)  # columns have norm √n
    for _ in range(most):
        g = Z.T @ slope(u)
        while True:
            stepped = w - gamma * g
            kept = np.sort(_largest(np.abs(stepped), k))
            moved = -w
            moved[kept] = stepped[kept] - w[kept]
            u_new = u0 + Z[:, kept] @ stepped[kept]
            if value(u_new) <= value(u) + g @ moved + moved @ moved / (2 * gamma) + 1e-12:
                break
            gamma /= 2
        unchanged = unchanged + 1 if np.array_equal(kept, S) else 0
        w, u, S, gamma = w + moved, u_new, kept, 1.2 * gamma
        if unchanged == SETTLED:
            break
    return S


def _loss(loss, y):
    """Loss and slope as functions of the score u, and the constant u to start from."""
    if loss == "squared":
        return lambda u: np.sum((u - y) ** 2) / 2, lambda u: u - y, y.mean()
    if loss == "squared_hinge":
        return lambda u: np.sum(np.maximum(0, 1 - y * u) ** 2) / 2, lambda u: -y * np.maximum(0, 1 - y * u), y.mean()
    odds = np.log(np.sum(y > 0) / np.sum(y < 0))
    return lambda u: np.sum(np.logaddexp(0, -y * u)), lambda u: -y * expit(-y * u), odds


def _is_labels(y: Target) -> bool:
    return set(np.unique(y)) == {-1.0, 1.0}


def _largest(score: NDArray[np.float64], k: int) -> Ids:
    return np.argpartition(-score, k - 1)[:k] if k < len(score) else np.arange(len(score))
