"""What others would choose k columns with: the peers of Online Substitution, on matrices that fit in memory.

A peer takes standardised columns (mean 0, variance 1; none constant), a target (a number, or -1 and 1), and k; it
gives the places of the columns it chooses: k where it can, for OMP stops early where columns depend on each other.

================ =======================================================================================
`omp`            orthogonal matching pursuit (scikit-learn)
`proj_gd`        projected gradient onto ‖w‖₀ ≤ k, the OS paper's batch counterpart, run until it has settled
`lasso`          the LASSO path down to the first penalty with k non-zeros; of these the k largest (scikit-learn)
`l1_logistic`    the same with logistic loss (liblinear)
`l1_hinge`       the same with squared hinge loss (liblinear)
`grafting`       columns one by one into a small LASSO (Perkins and Theiler 2003), with the penalty of `lasso`;
                 with squared hinge loss into a small problem of liblinear, with the penalty of `l1_hinge`
`cd_projection`  the OS paper's first naive method: a step for the column that comes, then the k largest weights stay
`cd_proximal`    its second: a step for the column that comes, shrunk by the penalty of `lasso` or `l1_hinge`
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
from sklearn.svm import LinearSVC, l1_min_c

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


def l1_hinge(Z: Columns, y: Target, k: int) -> Ids:
    w, _ = _l1_hinge_of(Z, y, k)
    return _largest(np.abs(w), k)


def _l1_hinge_of(Z: Columns, y: Target, k: int) -> tuple[NDArray[np.float64], float]:
    """Weights and penalty of Σ max(0, 1 - y u)² / 2 + penalty ‖w‖₁, where at least k of them are not zero."""
    smallest = l1_min_c(Z, y, loss="squared_hinge", fit_intercept=False)
    for number in count(1):
        penalty = 1 / (2 * smallest * 2 ** (number / 4))
        w = _l1_hinge_at(Z, y, penalty)
        if np.count_nonzero(w) >= k:
            return w, penalty
    raise AssertionError  # for type checkers: the loop ends above


def _l1_hinge_at(Z: Columns, y: Target, penalty: float) -> NDArray[np.float64]:
    """Weights for one penalty; liblinear's squared hinge has no ½, and no constant is fitted."""
    model = LinearSVC(C=1 / (2 * penalty), penalty="l1", dual=False, fit_intercept=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # which weights are not zero is settled long before
        w: NDArray[np.float64] = model.fit(Z, y).coef_[0]
    return w


def grafting(Z: Columns, y: Target, k: int, passes: int = 2, loss: str = "squared") -> Ids:
    if loss == "squared":
        _, penalty = _lasso_of(Z, y, k)
        penalty *= len(y)
        y = y - y.mean()
    else:
        _, penalty = _l1_hinge_of(Z, y, k)
    _, slope, _ = _loss(loss, y)
    S, w, u = np.empty(0, np.int64), np.empty(0), np.zeros(len(y))
    for j in (j for _ in range(passes) for j in range(Z.shape[1])):
        if j in S or abs(Z[:, j] @ slope(u)) <= penalty:
            continue
        S = np.append(S, j)
        Z_S = Z[:, S]
        if loss == "squared":
            _, path, _ = lasso_path(Z_S, y, alphas=[penalty / len(y)], coef_init=np.append(w, 0.0), precompute=False)
            fitted = path[:, 0]
        else:
            fitted = _l1_hinge_at(Z_S, y, penalty)
        kept = np.flatnonzero(fitted)
        S, w, u = S[kept], fitted[kept], Z_S @ fitted
    return S[_largest(np.abs(w), k)]


def cd_projection(Z: Columns, y: Target, k: int, passes: int = 2, loss: str = "squared") -> Ids:
    """The weight of the column that comes is the best for it alone (for squared loss); of k + 1, the least leaves."""
    _, slope, u0 = _loss(loss, y)
    w, u = dict[int, float](), np.full(len(y), u0)
    for j in (j for _ in range(passes) for j in range(Z.shape[1])):
        step = -(Z[:, j] @ slope(u)) / len(y)  # columns have norm √n, and no loss here bends more than ½u²
        w[j] = w.get(j, 0.0) + step
        u += step * Z[:, j]
        if len(w) > k:
            least = min(w, key=lambda i: abs(w[i]))
            u -= w.pop(least) * Z[:, least]
    return np.array(list(w))


def cd_proximal(Z: Columns, y: Target, k: int, passes: int = 2, loss: str = "squared") -> Ids:
    """The same step, then soft thresholding, so that there is no bound on the columns held; the k largest count."""
    _, penalty = _lasso_of(Z, y, k) if loss == "squared" else _l1_hinge_of(Z, y, k)
    w = proximal_weights(Z, y, penalty * (len(y) if loss == "squared" else 1), passes, loss)
    held = np.flatnonzero(w)
    return held[_largest(np.abs(w[held]), k)]


def proximal_weights(Z: Columns, y: Target, penalty: float, passes: int, loss: str = "squared") -> NDArray[np.float64]:
    """Weights for Σ loss + penalty ‖w‖₁ after some passes over the columns."""
    _, slope, u0 = _loss(loss, y)
    w, u, n = np.zeros(Z.shape[1]), np.full(len(y), u0), len(y)
    for j in (j for _ in range(passes) for j in range(Z.shape[1])):
        stepped = w[j] - (Z[:, j] @ slope(u)) / n
        new = np.sign(stepped) * max(abs(stepped) - penalty / n, 0.0)
        if new != w[j]:
            u += (new - w[j]) * Z[:, j]
            w[j] = new
    return w


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
