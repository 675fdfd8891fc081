"""Common features that contribute more than features of larger weight: they are compared, and chosen where they win."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import roc_auc_score

import daskfs
from daskfs.algorithms.mission.common import common_features, most_common
from daskfs.algorithms.mission.rows import rows_of
from daskfs.protocol import Meta, SparseBlock, copy_state

COMMON, RARE, ROWS = 10, 300, 20_000


@pytest.fixture(scope="module")
def clicks():
    """Ten common features of moderate effect, and 300 rare ones of strong effect: rows, classes, unseen rows."""
    rng = np.random.default_rng(0)
    X = np.hstack([rng.random((ROWS, COMMON)) < 0.4, rng.random((ROWS, RARE)) < 0.004]).astype(np.float32)
    score = X @ np.concatenate([np.full(COMMON, 0.8), rng.choice([-3, 3], RARE)])
    y = (rng.random(ROWS) < 1 / (1 + np.exp(0.8 * X[:, :COMMON].sum(axis=1).mean() - score))).astype(float)
    return X[:14_000], y[:14_000], X[14_000:], y[14_000:]


def test_common_features_take_the_place_of_rare_ones_where_that_lowers_the_loss(clicks, tmp_path, monkeypatch):
    X, y, unseen, y_unseen = clicks
    daskfs.write_dataset(tmp_path / "d.zarr", scipy.sparse.csr_array(X), y, layout="rows")
    areas = []
    for share in (0.0, 0.98):  # with 0, nothing is clearly better
        monkeypatch.setattr("daskfs.algorithms.mission.refit._CLEARLY", share)
        selection = daskfs.select(tmp_path / "d.zarr", daskfs.Mission(50))
        assert len(np.unique(selection.features)) == 50
        areas.append(roc_auc_score(y_unseen, selection.decision_function(unseen)))
        n_common = np.count_nonzero(selection.features < COMMON)
        assert n_common <= 1 if share == 0 else n_common >= 9
    assert areas[1] > areas[0] + 0.05
    assert (np.diff(selection.importance) <= 0).all()


def test_features_to_keep_stay_beside_them(clicks, tmp_path):
    X, y, *_ = clicks
    names = [f"f{number}" for number in range(COMMON + RARE)]
    daskfs.write_dataset(tmp_path / "d.zarr", scipy.sparse.csr_array(X), y, feature_names=names, layout="rows")
    selection = daskfs.select(tmp_path / "d.zarr", daskfs.Mission(50, keep=("f3", "f300")))
    assert selection.kept.names == ["f3", "f300"]
    assert len({*selection.names, *selection.kept.names}) == 52
    assert np.count_nonzero(selection.features < COMMON) >= 8


def test_shards_compare_the_same_common_features(clicks):
    X, y, *_ = clicks
    (n, p), half = X.shape, len(X) // 2
    meta = Meta("sparse", n, p, np.count_nonzero(X), p - 1, (0.0, 1.0), X.nbytes, n_shards=2, mixed=True)
    algorithm = daskfs.Mission(50).resolve(meta)
    blocks = [block_of(X[:half], y[:half]), block_of(X[half:], y[half:], half)]
    state, go_on = algorithm.start(meta, 0), True
    while go_on:
        shards = [algorithm.update(copy_state(state), block) for block in blocks]
        state, go_on = algorithm.end_pass(algorithm.merge(shards))
    result = algorithm.result(state)
    assert len(result.features) == 50
    assert np.count_nonzero(result.features < COMMON) >= 9


def block_of(X, y, first=0):
    X = scipy.sparse.csr_array(X)
    return SparseBlock(first, X.indptr.astype(np.int64), X.indices.astype(np.uint64), X.data.astype(np.float32), y)


def test_common_features_are_those_with_the_largest_correlation_among_frequent_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 300)) * (rng.random((600, 300)) < np.linspace(0.001, 0.5, 300))
    y = np.sign(X[:, ::7].sum(axis=1) + rng.normal(size=600))
    rows = rows_of(block_of(X, y), y)
    frequent = np.flatnonzero((X != 0).sum(axis=0) >= 6)
    strength = [abs(np.corrcoef(X[:, j], y)[0, 1]) for j in frequent]
    expected = frequent[np.argsort(strength)[::-1][: most_common(80)]]
    np.testing.assert_array_equal(common_features(rows, 1, 80), np.sort(expected))
