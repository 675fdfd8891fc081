"""The plain numpy forms of Online Substitution and Asy-OS, against what can be worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from reference.asy_os import asy_os
from reference.online_substitution import CURVATURE, SLOPE, online_substitution, power_step, prepared

# Three orthonormal columns with mean 0; with y = X @ c the gradient for column j is w_j - c_j, whatever S is.
ORTHONORMAL = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / 2

LOSS = {
    "squared": lambda u, y: (u - y) ** 2 / 2,
    "squared_hinge": lambda u, y: np.maximum(0, 1 - y * u) ** 2 / 2,
    "logistic": lambda u, y: np.log1p(np.exp(-y * u)),
}


def signs(n=60, p=12, s=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, np.sign(X[:, :s].sum(axis=1) + 0.3)


def test_one_slot_by_hand():
    S, w = online_substitution(ORTHONORMAL, ORTHONORMAL @ [1.0, 2.0, 3.0], s=1, passes=1, step=0.5)
    gamma = 0.5 / 1.01  # L = 1 for the first column only: the iteration starts from v = 1.01
    second = 2 * gamma  # above the first column's 0.5 + gamma * 0.5
    assert S.tolist() == [1]
    assert w == pytest.approx([second + gamma * (2 - second)])  # 1.490: the third column, with 1.485, is turned away


def test_two_slots_by_hand():
    S, w = online_substitution(ORTHONORMAL, ORTHONORMAL @ [1.0, 2.0, 3.0], s=2, passes=1, step=0.5)
    assert S.tolist() == [2, 1]  # the third column takes the slot of the first
    gamma = 0.5 / np.hypot(1, 1.01)  # two slots, v = (1, 1.01)
    second = 2 * 0.5 / 1.01
    assert w == pytest.approx([3 * gamma, second + gamma * (2 - second)])


def test_estimate_rises_at_once_and_falls_slowly():
    v = np.array([3.0, 4.0, 1.0])
    assert power_step(1.0, v, 3 * np.eye(2)) == pytest.approx(45)
    assert v == pytest.approx([0.6, 0.8, 1.0])  # a third slot is still empty
    assert power_step(4.0, v, np.eye(2)) == pytest.approx(0.9 * 4 + 0.1)


def test_columns_enter_whatever_their_scale_and_never_when_constant():
    X, y = signs()
    S, w = online_substitution(X, y, 4)
    scaled = np.c_[np.full(len(X), 0.1), X * np.geomspace(1e-6, 1e6, X.shape[1]) + 5]
    S_scaled, w_scaled = online_substitution(scaled, y, 4)
    assert S_scaled.tolist() == (S + 1).tolist()
    assert w_scaled == pytest.approx(w)


@pytest.mark.parametrize("loss", LOSS)
def test_slope_is_the_derivative_of_the_loss(loss):
    u, y = np.linspace(-3, 3, 26), np.resize([1.0, -1.0], 26)
    difference = (LOSS[loss](u + 1e-6, y) - LOSS[loss](u - 1e-6, y)) / 2e-6
    assert SLOPE[loss](u, y) == pytest.approx(difference, abs=1e-8)
    around_0 = (SLOPE[loss](1e-6, y) - SLOPE[loss](-1e-6, y)) / 2e-6
    assert around_0 == pytest.approx(CURVATURE[loss])  # of these three it is largest there


@pytest.mark.parametrize("loss", LOSS)
def test_offset_is_the_best_constant(loss):
    _, _, y, u0 = prepared(*signs(), loss)
    assert np.sum(SLOPE[loss](u0, y)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("loss", LOSS)
def test_one_worker_is_algorithm_1(loss):
    X, y = signs()
    S, w = online_substitution(X, y, 5, loss, passes=3)
    S_one, w_one, staleness = asy_os(X, y, 5, q=1, loss=loss, passes=3)
    assert S_one.tolist() == S.tolist()
    assert w_one == pytest.approx(w)
    assert set(staleness) == {0}


def test_workers_with_columns_alike_do_not_diverge():
    """Neighbours go to different workers: each sees few that are alike, all together see many."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 1)) + rng.standard_normal((80, 40))
    y = X[:, :4].sum(axis=1)
    _, w, _ = asy_os(X, y, 16, q=8, passes=4)
    assert np.abs(w).max() < np.linalg.norm(y)


@pytest.mark.parametrize("q", [2, 3])
def test_workers_keep_to_their_budgets_and_columns(q):
    X, y = signs(p=40)
    S, _, staleness = asy_os(X, y, 7, q, passes=3)
    assert np.bincount(S % q).tolist() == [7 // q + (t < 7 % q) for t in range(q)]
    assert len(set(S)) == 7
    assert max(staleness) == q - 1
    assert np.median(staleness) == q - 1
