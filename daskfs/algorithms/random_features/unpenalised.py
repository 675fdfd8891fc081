"""The terms of the model without a penalty, the intercept and the kept features, removed from the lasso problem.

The best intercept and the best weights v of the kept features K have a closed form for any weights w of the penalised
features P, so that a problem of w alone remains. After the intercept is removed from G and b,

    v(w) = N⁻¹ (b_K − G_KP w)   with N = G_KK + ρI,      problem of w:   G_PP − G_PK N⁻¹ G_KP,   b_P − G_PK N⁻¹ b_K

The ridge ρ is a millionth of the sum of squares of a kept feature. Without ρ the weights v would not be unique if kept
features are copies of each other, and not finite if kept features alone separate the classes. In all other cases ρ has
hardly any effect. Kept features are the first of the working set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from daskfs.algorithms.random_features import lasso
from daskfs.algorithms.random_features.inputs import LINEAR_DEVIATION
from daskfs.algorithms.random_features.lasso import Float64Array, LassoProblem
from daskfs.algorithms.random_features.state import RandomFeaturesState
from daskfs.errors import OptionError

KEPT_RIDGE = 1e-6  # as a share of the sum of squares of a kept feature; sums in float32 are not more exact
_CONSTANT = 1e-12  # a column whose variance is below this share of its mean square is constant up to rounding
_TINY = float(np.finfo(np.float64).tiny)  # in place of the curvature where all rows are classified with a margin


class KeptTerms(NamedTuple):
    """The kept features of one Gram matrix, without the intercept."""

    N: Float64Array  # G_KK + ρI (K, K)
    cross: Float64Array  # G_KP (K, P)
    b: Float64Array  # (K, scores)

    def best(self, w: Float64Array) -> Float64Array:
        """Return the best weights of the kept features for weights w (P, scores) of the penalised features."""
        return shortest_solution(self.N.copy(), self.b - self.cross @ w)

    def gain(self) -> float:
        """Return by how much the kept features alone lower the objective of the best constant."""
        return float(np.sum(self.b * shortest_solution(self.N.copy(), self.b)) / 2)

    def remove_from(self, G: Float64Array, b: Float64Array) -> LassoProblem:
        """Return the problem of the penalised features, for G and b of all features without the intercept.

        The row and column of a feature that is a linear function of kept features are set to zero.
        """
        n_kept = len(self.N)
        solved = shortest_solution(self.N.copy(), np.hstack([self.cross, self.b]))
        gram = self.cross.T @ solved[:, : self.cross.shape[1]]
        np.subtract(G[n_kept:, n_kept:], gram, out=gram)
        rest = b[n_kept:] - self.cross.T @ solved[:, self.cross.shape[1] :]
        explained = np.flatnonzero(gram.diagonal() <= 2 * KEPT_RIDGE * G.diagonal()[n_kept:])  # up to rounding
        gram[explained] = 0.0
        gram[:, explained] = 0.0
        rest[explained] = 0.0
        return gram, rest


def kept_ridge(state: RandomFeaturesState) -> float:
    """Return the ridge penalty ρ of kept features."""
    return KEPT_RIDGE * state.total * LINEAR_DEVIATION[state.fitted_loss] ** 2


def kept_terms(state: RandomFeaturesState) -> list[KeptTerms]:
    """Return the kept features of every Gram matrix."""
    K, terms = state.n_kept, []
    for G, b, s, n, t in _by_gram(state):
        rows = G[:K] - np.outer(s[:K], s / n)
        rows.flat[:: rows.shape[1] + 1] += kept_ridge(state)
        terms.append(KeptTerms(rows[:, :K].copy(), rows[:, K:].copy(), b[:K] - np.multiply.outer(s[:K], t / n)))
    return terms


def penalised_problems(state: RandomFeaturesState) -> Iterator[LassoProblem]:
    """Yield G (P, P) and b (P, scores) of the penalised features for every Gram matrix."""
    kept = kept_terms(state) if state.n_kept else []
    for number, (G, b, s, n, t) in enumerate(_by_gram(state)):
        problem = remove_intercept(G, b, s, n, t)
        yield kept[number].remove_from(*problem) if kept else problem


def _by_gram(
    state: RandomFeaturesState,
) -> Iterator[tuple[Float64Array, Float64Array, Float64Array, float, Float64Array]]:
    """Yield G, b, s, n and t (see `remove_intercept`) for every Gram matrix; all scores may share one."""
    quadratic = state.known_quadratic()
    for number, G in enumerate(quadratic.gram):
        columns = slice(None) if len(quadratic.gram) == 1 else slice(number, number + 1)
        n = max(float(quadratic.n[number]), _TINY)
        yield G, quadratic.b[:, columns], quadratic.s[:, number], n, quadratic.t[columns]


def all_weights(state: RandomFeaturesState, weights: Float64Array) -> Float64Array:
    """Return the best weights of kept features for weights (P, scores) of the penalised features, and then these."""
    if not state.n_kept:
        return weights
    terms = kept_terms(state)
    by_gram = [weights] if len(terms) == 1 else np.split(weights, len(terms), axis=1)
    best = np.hstack([kept.best(w) for kept, w in zip(terms, by_gram, strict=True)])
    return np.concatenate([best, weights])


def remove_intercept(G: ArrayLike, b: ArrayLike, s: ArrayLike, n: float, t: ArrayLike) -> LassoProblem:
    """Return G − ssᵀ/n and b − stᵀ/n: the problem without its unpenalised intercept, with s = ΦᵀD1, n = ΣD, t = 1ᵀDy.

    The row and column of a constant feature are set to zero, where rounding would leave small values.

    Examples
    --------
    >>> Phi, y = np.array([[0.0, 1], [1, 1], [2, 1]]), np.array([1.0, 3, 5])
    >>> gram, b = remove_intercept(Phi.T @ Phi, Phi.T @ y, Phi.sum(axis=0), 3, y.sum())
    >>> gram
    array([[2., 0.], [0., 0.]])
    """
    G, b, s, t = (np.asarray(array, dtype=np.float64) for array in (G, b, s, t))
    if not n > 0:
        raise OptionError(f"the weights of rows add up to {n}: there is nothing to fit")
    gram = np.outer(s, s / n)
    np.subtract(G, gram, out=gram)  # the only copy of G
    centred = b - np.multiply.outer(s, t / n)
    constant = np.flatnonzero(gram.diagonal() <= _CONSTANT * G.diagonal())
    gram[constant] = 0.0
    gram[:, constant] = 0.0
    centred[constant] = 0.0
    return gram, centred


def shortest_solution(H: Float64Array, b: Float64Array) -> Float64Array:
    """Return the shortest w that minimises ½ wᵀHw − bᵀw; H may be overwritten."""
    noise = len(H) * lasso.EPS
    try:
        lower, _ = scipy.linalg.cho_factor(H, lower=True)
    except np.linalg.LinAlgError:
        pass
    else:
        pivots = np.square(lower.diagonal())
        if pivots.min() > noise * pivots.max():
            return np.asarray(scipy.linalg.cho_solve((lower, True), b))
        del lower  # as large as H
    values, vectors = scipy.linalg.eigh(H, overwrite_a=True)  # ten times slower, but exact for singular matrices
    inverse = np.divide(1.0, values, where=values > noise * values[-1], out=np.zeros_like(values))
    return np.asarray(vectors @ ((vectors.T @ b).T * inverse).T)
