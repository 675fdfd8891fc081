"""Baselines of the papers that are written here, against libraries and definitions."""

from __future__ import annotations

import importlib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from algorithms.mission_rows import selected, some_rows
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, SGDClassifier
from sklearn.svm import SVC

import daskfs
from daskfs.basis import Basis


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "pipelines" / "papers"))
    return importlib.import_module


@pytest.fixture
def waves(load):
    """Rows of three numbers between 0 and 1, and a target that is no straight line."""
    rng = np.random.default_rng(0)
    X = rng.random((260, 3), dtype=np.float32)
    y = np.sin(5 * X[:, 0]) + X[:, 1].astype(np.float64)
    parts = np.split(X, [140, 200])
    return load("_random_features_peers").InMemory(parts[0], y[:140], parts[1], y[140:200], parts[2]), y[200:]


def squares(y, u):
    return float(np.mean((y - u) ** 2))


def test_projected_gradient_finds_the_best_subset(load):
    """The best of all 220 sets of three columns, by least squares."""
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(80, 12))
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    y = Z[:, [2, 5, 9]] @ [1.0, -1.5, 0.7] + 0.3 * rng.normal(size=80)

    def left(S):
        return np.linalg.lstsq(np.column_stack([Z[:, S], np.ones(80)]), y)[1][0]

    best = min(combinations(range(12), 3), key=lambda S: left(list(S)))
    assert set(load("peers").proj_gd(Z, y, 3).tolist()) == set(best)


def test_the_exact_kernel_is_that_of_scikit_learn(load, waves):
    rows, y_test = waves
    peers = load("_random_features_peers")
    given = peers.kernel_ridge(rows, "gaussian", 2.0, squares)
    mean = rows.y.mean()
    models = [KernelRidge(alpha=a, kernel="rbf", gamma=2.0).fit(rows.X, rows.y - mean) for a in peers.RIDGES]
    best = min(models, key=lambda model: squares(rows.y_validation, model.predict(rows.X_validation) + mean))
    np.testing.assert_allclose(given.scores, best.predict(rows.X_test) + mean, atol=1e-4)
    assert squares(y_test, given.scores) < 0.01


def test_the_support_vector_machine_is_that_of_scikit_learn(load, waves):
    rows, _ = waves
    peers = load("_random_features_peers")
    labels = [np.sign(y - np.median(rows.y)) for y in (rows.y, rows.y_validation)]
    data = peers.InMemory(rows.X, labels[0], rows.X_validation, labels[1], rows.X_test)

    def wrong(y, u):
        return float(np.mean(np.sign(u) != y))

    given = peers.support_vectors(data, "gaussian", 2.0, wrong)
    models = [SVC(C=cost, gamma=2.0).fit(data.X, data.y) for cost in peers.SVM_COSTS]
    best = min(models, key=lambda model: wrong(data.y_validation, model.decision_function(data.X_validation)))
    np.testing.assert_allclose(given.scores, best.decision_function(data.X_test), atol=1e-2)
    assert given.size == best.n_support_.sum()


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "perceptron"])
def test_kernels_are_means_over_random_features(load, waves, kernel):
    """As many features as are needed for two digits."""
    rows, _ = waves
    Phi = Basis(kernel, 0.5, 0, 3).features(np.arange(40_000, dtype=np.uint64)).expand(rows.X[:40]).astype(np.float64)
    expected = load("_random_features_peers").kernel_of(kernel, 0.5, rows.X[:40], rows.X[:40])
    np.testing.assert_allclose(Phi @ Phi.T / Phi.shape[1], expected, atol=0.03)


def test_dense_random_features_are_a_ridge_on_all_of_them(load, waves):
    rows, _ = waves
    peers, count = load("_random_features_peers"), 50
    given = peers.dense_features(rows, "gaussian", 2.0, count, squares)
    basis = Basis("gaussian", 2.0, 0, 3).features(np.arange(count, dtype=np.uint64))
    mean, inputs = rows.y.mean(), (rows.X, rows.X_validation, rows.X_test)
    parts = [np.column_stack([basis.expand(X), np.ones(len(X))]).astype(np.float64) for X in inputs]
    models = [
        Ridge(alpha=a * (count + 1), fit_intercept=False, solver="svd").fit(parts[0], rows.y - mean)
        for a in peers.RIDGES
    ]
    best = min(models, key=lambda model: squares(rows.y_validation, model.predict(parts[1]) + mean))
    np.testing.assert_allclose(given.scores, best.predict(parts[2]) + mean, atol=1e-3)


def test_feature_hashing_without_collisions_is_stochastic_gradient_descent():
    """As scikit-learn has it: plain steps of logistic regression, a weight for every feature."""
    rows, y = some_rows(300, 60)
    features = sorted({feature for row in rows for feature in row})
    X = np.array([[row.get(feature, 0.0) for feature in features] for row in rows])
    rate = 0.2 / np.mean(np.square(X).sum(axis=1))
    model = SGDClassifier(
        loss="log_loss", penalty=None, learning_rate="constant", eta0=rate, shuffle=False, max_iter=1, tol=None,
        fit_intercept=False,
    ).fit(X, y)  # fmt: skip
    chosen = daskfs.Mission(60, method="hashing", width=2**20, learning_rate=0.2, intercept=False, loss="logistic")
    given = selected(chosen, rows, y)
    weights = dict(zip(given.features.tolist(), given.weights.tolist(), strict=True))
    for feature, weight in zip(features, model.coef_[0], strict=True):
        assert weights[feature] == pytest.approx(weight, abs=2e-4)
