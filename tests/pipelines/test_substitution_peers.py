"""The peers of Online Substitution that have no library, against libraries and definitions."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Lasso


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "pipelines" / "papers"))
    return importlib.import_module("peers")


@pytest.fixture
def columns():
    """Standardised columns, of which three make the target."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 40))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, X[:, [4, 17, 33]] @ [2.0, -3.0, 1.5] + 0.1 * rng.normal(size=120)


def test_proximal_steps_end_where_lasso_does(peers, columns):
    X, y = columns
    weights = peers.proximal_weights(X, y, penalty=0.2 * len(y), passes=200)
    assert weights == pytest.approx(Lasso(alpha=0.2).fit(X, y).coef_, abs=2e-4)


def kkt_residual(X, y, w, penalty):
    """How far −∇ Σ max(0, 1 − y u)²/2 is from penalty · ∂‖w‖₁, as a share of the penalty."""
    slope = X.T @ (-y * np.maximum(0, 1 - y * (X @ w)))
    off = np.where(w != 0, np.abs(slope + penalty * np.sign(w)), np.maximum(np.abs(slope) - penalty, 0))
    return off.max() / penalty


def test_l1_hinge_is_the_minimum(peers, columns):
    X, y = columns
    w, penalty = peers._l1_hinge_of(X, np.sign(y), 8)
    assert np.count_nonzero(w) >= 8
    assert kkt_residual(X, np.sign(y), w, penalty) < 0.02
    assert set(peers.l1_hinge(X, np.sign(y), 3).tolist()) == {4, 17, 33}


def test_proximal_steps_with_hinge_loss_end_where_liblinear_does(peers, columns):
    X, y = columns
    labels, fewer = np.sign(y), min(np.bincount(y > 0))
    balanced = np.concatenate([np.flatnonzero(labels == c)[:fewer] for c in (-1, 1)])  # the mean label, then, is 0
    X, labels = X[balanced], labels[balanced]
    expected, penalty = peers._l1_hinge_of(X, labels, 8)
    weights = peers.proximal_weights(X, labels, penalty, passes=300, loss="squared_hinge")
    assert weights == pytest.approx(expected, abs=2e-3)


def test_projection_of_orthogonal_columns_is_hard_thresholding(peers):
    Q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(60, 30)))
    X, y = Q * np.sqrt(60), Q[:, [3, 8, 20, 29]] @ [1.0, -2.0, 3.0, 0.1]
    expected = np.argsort(-np.abs(X.T @ (y - y.mean())))[:3]
    assert set(peers.cd_projection(X, y, 3, passes=1).tolist()) == set(expected.tolist())


def test_projection_is_its_definition(peers, columns):
    """Against weights in one long vector and scores that are computed anew for every column."""
    X, y = columns
    w = np.zeros(X.shape[1])
    for j in list(range(X.shape[1])) * 2:
        w[j] -= X[:, j] @ (X @ w + y.mean() - y) / len(y)
        if np.count_nonzero(w) > 5:
            w[min(np.flatnonzero(w), key=lambda i: abs(w[i]))] = 0
    assert set(peers.cd_projection(X, y, 5).tolist()) == set(np.flatnonzero(w).tolist())


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_grafting_ends_where_the_batch_method_does(peers, columns, loss):
    X, y = columns
    batch = peers.lasso if loss == "squared" else peers.l1_hinge
    y = y if loss == "squared" else np.sign(y)
    assert set(peers.grafting(X, y, 3, loss=loss).tolist()) == set(batch(X, y, 3).tolist())
