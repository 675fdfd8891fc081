"""MISSION does not depend on the units of features: new units change neither the set nor the predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from algorithms.mission_rows import block_of, meta_of, selected, some_rows

import daskfs
from daskfs.algorithms.mission.rows import outside_of, rows_of
from daskfs.algorithms.mission.scaling import Scaling, scale_rows
from daskfs.protocol import Meta, Result, RowBlock, copy_state

pytestmark = pytest.mark.kernels
UNITS = 10.0 ** np.random.default_rng(5).uniform(-6, 6, 400)


def dense(n: int = 1500, p: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of columns with large means, small spreads and heavy tails, a column of zeros and a constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    y = np.where(X[:, 3] - 2 * X[:, 7] + X[:, 11] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    X[:, 7] = 5.86 + 0.01 * X[:, 7]
    X[:, 20:25] = np.exp(X[:, 20:25])
    X[:, 25:28] *= rng.random((n, 3)) < 0.35
    X[:, 28], X[:, 29] = 0, 3
    return X, y


def fitted(chosen: daskfs.Mission, X: np.ndarray, y: np.ndarray) -> Result:
    meta = Meta("dense", *X.shape, X.size, X.shape[1] - 1, tuple(np.unique(y).tolist()), X.nbytes)
    state, go_on = chosen.start(meta, 0), True
    while go_on:
        for first in range(0, len(y), 400):
            state = chosen.update(state, RowBlock(first, X[first : first + 400], y[first : first + 400]))
        state, go_on = chosen.end_pass(state)
    return chosen.result(state)


def scores(result: Result, X: np.ndarray) -> np.ndarray:
    return X[:, result.features.astype(int)] @ result.weights + result.intercept


@pytest.mark.parametrize("options", [{}, {"loss": "softmax"}, {"loss": "squared", "intercept": False}, {"refit": 1}])
def test_units_of_dense_columns_change_nothing(options):
    X, y = dense()
    if options.get("loss") == "softmax":
        y = y + (X[:, 5] > 0)
    chosen = daskfs.Mission(8, width=2**8, **options)
    given, scaled = fitted(chosen, X, y), fitted(chosen, X * UNITS[:30], y)
    assert set(given.features) == set(scaled.features)
    expected = scores(given, X)
    rounding = 3e-4 * np.abs(expected).max()  # the last fit ends within a small tolerance of the best weights
    np.testing.assert_allclose(scores(scaled, X * UNITS[:30]), expected, rtol=2e-3, atol=rounding)


def test_a_column_with_a_large_mean_and_a_small_spread_is_found():
    X, y = dense()
    assert set(fitted(daskfs.Mission(3, width=2**8), X, y).features.tolist()) == {3, 7, 11}
    assert 7 not in fitted(daskfs.Mission(3, width=2**8, scale=False), X, y).features


@pytest.mark.parametrize(
    "options", [{}, {"idf": True}, {"loss": "softmax", "per_class": True}, {"interactions": "all"}]
)
@pytest.mark.parametrize("shards", [1, 2])
def test_units_of_sparse_features_change_nothing(options, shards):
    """Some features are in a fifth of the rows and others in one of a hundred."""
    often, y = some_rows(1200, 30, per_row=6)
    seldom, _ = some_rows(1200, 300, per_row=3, seed=1)
    rows = [{**a, **{f + 7: v for f, v in b.items() if v}} for a, b in zip(often, seldom, strict=True)]
    units = {f: UNITS[f // 1_000_003] for row in rows for f in row}
    others = [{f: v * units[f] for f, v in row.items()} for row in rows]
    chosen, results = daskfs.Mission(12, width=2**8, **options), []
    for some in (rows, others):
        state, go_on = chosen.start(replace(meta_of(some), n_shards=shards), 0), True
        while go_on:
            parts = [block_of(some[s::shards], y[s::shards]) for s in range(shards)]
            states = [chosen.update(copy_state(state), part) for part in parts]
            state, go_on = chosen.end_pass(chosen.merge(states) if shards > 1 else states[0])
        results.append(chosen.result(state))
    given, scaled = results
    assert set(given.features) == set(scaled.features)
    if "interactions" not in options:
        order = [list(scaled.features).index(f) for f in given.features]
        unit = np.array([units[int(f)] for f in given.features])
        weights = (scaled.weights[order].T * unit).T
        np.testing.assert_allclose(weights, given.weights, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(scaled.intercept, given.intercept, rtol=2e-3, atol=2e-3)


def test_words_are_learned_as_without_scaling():
    rows, y = some_rows(800, 100)
    rows = [dict.fromkeys(row, 1.0) for row in rows]
    given, plain = (selected(daskfs.Mission(12, width=2**8, scale=scale), rows, y) for scale in (True, False))
    assert given.features.tolist() == plain.features.tolist()
    assert given.weights.tolist() == plain.weights.tolist()


def test_scaled_columns_are_standardised():
    X, y = dense()
    raw = rows_of(RowBlock(0, X, y), y)
    rows = scale_rows(raw, Scaling.measure(raw, centre=True))
    for values, columns, expected in (
        (rows.values, np.s_[:25], (X - X.mean(0)) / X.std(0).clip(1e-9)),
        (outside_of(rows), np.s_[25:28], X / (np.abs(X).sum(0) / (X != 0).sum(0).clip(1)).clip(1e-9)),
        (rows.values, np.s_[28:], np.zeros(X.shape)),
    ):
        Z = np.zeros(X.shape)
        Z[np.repeat(np.arange(len(y)), np.diff(rows.indptr)), rows.ids.astype(int)] = values
        np.testing.assert_allclose(Z[:, columns], expected[:, columns], atol=2e-4)
