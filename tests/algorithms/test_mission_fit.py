"""The last fit of MISSION against scikit-learn: the model of a ridge, the choice of the ridge, and importance."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

import daskfs
from daskfs.algorithms.losses import CODE
from daskfs.algorithms.mission import fit
from daskfs.algorithms.mission.fit import RidgeRows, choose_ridge, contributions

LOSSES = ["squared", "logistic", "softmax"]


def problem(loss, n=400, seed=0):
    """Rows of eight features in different units, a target as the losses take it, and weights of rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) * rng.lognormal(0, 2, 8) * (rng.random((n, 8)) < 0.7)
    score = (X / X.std(axis=0)) @ rng.normal(size=(8, 3)) + rng.normal(size=(n, 3))
    y = {"squared": score[:, 0] + 5, "logistic": np.sign(score[:, 0]), "softmax": score.argmax(axis=1)}[loss]
    return X, y.astype(np.float64), rng.uniform(0.5, 2, n)


def rows_of(loss, X, y, weight):
    return RidgeRows(sp.csr_array(X), y, weight, 3 if loss == "softmax" else 1, CODE[loss], True)


def deviations(X, weight):
    mean = np.average(X, axis=0, weights=weight)
    return np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weight))


def model_of(loss, X, y, weight, ridge, power=0.5):
    """Weights (features, scores) and intercepts by scikit-learn, with columns divided by powers of deviations."""
    deviation = deviations(X, weight) ** power
    classifier = LogisticRegression(C=1 / ridge, tol=1e-10, max_iter=20_000)
    model = Ridge(ridge, tol=1e-12) if loss == "squared" else classifier
    model.fit(X / deviation, y, sample_weight=weight)
    return (np.atleast_2d(model.coef_) / deviation).T, np.atleast_1d(model.intercept_)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ridge", [0.1, 30.0])
def test_the_model_of_a_ridge_is_that_of_scikit_learn(monkeypatch, loss, ridge):
    monkeypatch.setattr(fit, "_RIDGES", (ridge,))
    monkeypatch.setattr(fit, "_STEPS", 5000)
    X, y, weight = problem(loss)
    weights, intercept = choose_ridge(rows_of(loss, X, y, weight)).model()
    expected, constant = model_of(loss, X, y, weight, ridge)
    np.testing.assert_allclose(weights, expected, rtol=0.01, atol=1e-3 * np.abs(expected).max())
    shift = intercept - constant  # softmax: a constant for all classes changes nothing
    np.testing.assert_allclose(shift, shift.mean() if loss == "softmax" else 0, atol=5e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_contributions_are_weights_times_deviations(loss):
    X, y, weight = problem(loss)
    expected, _ = model_of(loss, X, y, weight, 1.0, power=1)
    expected = np.abs(expected * deviations(X, weight)[:, None]).sum(axis=1)
    np.testing.assert_allclose(contributions(rows_of(loss, X, y, weight), 1.0), expected, rtol=0.05)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(2))
def test_the_ridge_is_the_best_of_rows_left_out(loss, seed):
    X, y, weight = problem(loss, n=60, seed=seed)
    chosen = choose_ridge(rows_of(loss, X, y, weight))
    (weights, _), least = chosen.model(), chosen.loss
    folds = np.random.default_rng(0).permutation(len(y)) % fit._FOLDS
    left_out = []
    for ridge in fit._RIDGES:
        total = 0.0
        for fold in range(fit._FOLDS):
            learned, test = folds != fold, folds == fold
            Z = X / np.sqrt(deviations(X, weight))  # those of all rows
            model = Ridge(ridge) if loss == "squared" else LogisticRegression(C=1 / ridge, max_iter=5000)
            model.fit(Z[learned], y[learned], sample_weight=weight[learned])
            if loss == "squared":
                losses = 0.5 * (model.predict(Z[test]) - y[test]) ** 2
            else:
                classes = {label: number for number, label in enumerate(model.classes_)}
                p = model.predict_proba(Z[test])
                losses = -np.log([p[row, classes[label]] for row, label in enumerate(y[test])])
            total += weight[test] @ losses
        left_out.append(total / weight.sum())
    assert least == pytest.approx(min(left_out), rel=0.02)
    expected, _ = model_of(loss, X, y, weight, fit._RIDGES[int(np.argmin(left_out))])
    np.testing.assert_allclose(weights, expected, rtol=0.05, atol=0.02 * np.abs(expected).max())


def test_a_feature_with_one_value_has_no_weight():
    X, y, weight = problem("logistic")
    X[:, 3] = 2.0
    chosen = choose_ridge(rows_of("logistic", X, y, weight))
    (weights, intercept), loss = chosen.model(), chosen.loss
    assert weights[3] == 0
    assert np.isfinite([*weights[:, 0], *intercept, loss]).all()


@pytest.mark.parametrize("classes", [False, True])
def test_importance_is_weight_times_covariance_with_the_target(tmp_path, classes):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(800, 12)) * rng.lognormal(0, 2, 12)).astype(np.float32)
    score = (X / X.std(axis=0)) @ np.array([3.0, -2, 1, 0.5, *[0] * 8]) + rng.normal(size=800)
    y = score > 0 if classes else score
    daskfs.write_dataset(tmp_path / "d", X, y, layout="rows")
    selection = daskfs.select(tmp_path / "d", daskfs.Mission(4, width=2**10))
    columns = selection.features.astype(int)
    expected = np.abs(selection.weights * ((X[:, columns] - X[:, columns].mean(axis=0)).T @ (y - y.mean())))
    np.testing.assert_allclose(selection.importance, expected / expected.sum(), rtol=1e-3)
    assert (np.diff(selection.importance) <= 0).all()
