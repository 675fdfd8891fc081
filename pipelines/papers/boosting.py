"""Boosting with perceptrons as weak learners, the greedy rival of Sparse Random Features (NIPS 2014, section 3.3).

Both minimise the same objective over weights of features φ(x) = sign(ω·x − b):

    λ ‖w‖₁ + Σ max(0, 1 − y f(x))²        f(x) = Σ w φ(x)

Sparse Random Features draw new features at random. Boosting looks for the feature that goes along most with the
negative gradient g of the loss, the greedy step; for perceptrons that is hard, so that a convex surrogate takes its
place: the least-squares fit of g by a linear function, whose sign is the feature. Then all weights are fitted again,
for both, by liblinear.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

Floats = NDArray[np.float64]


@dataclass
class Boosting:
    """Perceptrons and their weights; a round of `rounds` adds one of them and fits all weights again."""

    penalty: float
    directions: list[Floats] = field(default_factory=list)
    """ω, and −b as the last number."""
    w: Floats = field(default_factory=lambda: np.empty(0))

    def scores(self, X: Floats) -> Floats:
        return self.expand(X) @ self.w if self.directions else np.zeros(len(X))

    def expand(self, X: Floats) -> Floats:
        """The features of rows, as columns of −1 and 1."""
        return np.where(_with_constant(X) @ np.transpose(self.directions) >= 0, 1.0, -1.0)

    def rounds(self, X: Floats, y: Floats, number: int) -> Iterator[float]:
        """Add perceptrons one by one, and yield the objective after each."""
        for _ in range(number):
            slope = 2 * y * np.maximum(0, 1 - y * self.scores(X))
            self.directions.append(weak_learner(X, slope))
            Phi = self.expand(X)
            self.w = corrected(Phi, y, self.penalty)
            yield objective(Phi @ self.w, y, self.w, self.penalty)


def weak_learner(X: Floats, slope: Floats) -> Floats:
    """The linear function, with a constant, that fits the negative gradient best."""
    found: Floats = np.linalg.lstsq(_with_constant(X), slope, rcond=None)[0]
    return found


def corrected(Phi: Floats, y: Floats, penalty: float) -> Floats:
    """The weights that minimise the objective for given features."""
    model = LinearSVC(C=1 / penalty, penalty="l1", dual=False, fit_intercept=False, random_state=0, tol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        w: Floats = model.fit(Phi, y).coef_[0]
    return w


def objective(scores: Floats, y: Floats, w: Floats, penalty: float) -> float:
    return float(penalty * np.abs(w).sum() + np.square(np.maximum(0, 1 - y * scores)).sum())


def _with_constant(X: Floats) -> Floats:
    return np.column_stack([X, np.ones(len(X))])
