"""Boosting with the least-squares surrogate, against definitions and a general minimiser."""

from __future__ import annotations

import importlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression

PENALTY = 20.0


@pytest.fixture
def boosting(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "pipelines" / "papers"))
    return importlib.import_module("boosting")


@pytest.fixture
def rows():
    """Two classes that no straight line separates."""
    X = np.random.default_rng(0).uniform(size=(200, 3))
    return X, np.where(np.abs(X[:, 0] - 0.5) + 0.3 * X[:, 1] > 0.4, 1.0, -1.0)


def test_the_weak_learner_is_a_linear_regression(boosting, rows):
    X, y = rows
    fitted = LinearRegression().fit(X, y)
    assert boosting.weak_learner(X, y) == pytest.approx([*fitted.coef_, fitted.intercept_])


def test_weights_minimise_the_objective(boosting, rows):
    X, y = rows
    model = boosting.Boosting(PENALTY)
    *_, reached = model.rounds(X, y, 5)
    Phi = model.expand(X)

    def of_halves(halves):
        """The objective with w as a difference of numbers that are not negative, and its slope."""
        w = halves[:5] - halves[5:]
        slack = np.maximum(0, 1 - y * (Phi @ w))
        slope = -2 * Phi.T @ (y * slack)
        return PENALTY * halves.sum() + slack @ slack, np.concatenate([PENALTY + slope, PENALTY - slope])

    best = minimize(of_halves, np.zeros(10), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 10)
    assert reached == pytest.approx(best.fun, rel=1e-4)


def test_rounds_lower_the_objective_and_the_error(boosting, rows):
    X, y = rows
    model = boosting.Boosting(PENALTY)
    objectives = list(model.rounds(X, y, 8))
    assert all(later <= before * (1 + 1e-6) for before, later in pairwise(objectives))
    assert objectives[-1] < len(y)  # that of no feature at all
    assert np.mean(np.sign(model.scores(X)) == y) > max(np.mean(y > 0), np.mean(y < 0))


def test_the_first_perceptron_is_the_sign_of_the_linear_fit_of_the_labels(boosting, rows):
    X, y = rows
    model = boosting.Boosting(PENALTY)
    next(model.rounds(X, y, 1))
    linear = LinearRegression().fit(X, 2 * y).predict(X)
    assert np.array_equal(model.expand(X)[:, 0], np.where(linear >= 0, 1.0, -1.0))
