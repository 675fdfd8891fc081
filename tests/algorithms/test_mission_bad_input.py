"""What MISSION makes of odd rows: F17 to F22 for data in rows. Each is used, or named in one line and loses nothing."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from algorithms.mission_rows import block_of, calibrated, meta_of, selected, some_rows

import daskfs
from daskfs.errors import DatasetError
from daskfs.protocol import SparseBlock, copy_state, flatten

pytestmark = pytest.mark.kernels
METHODS = ("active", "paper", "hashing", "iht", "batch-iht")
methods = pytest.mark.parametrize("method", METHODS)


@methods
def test_empty_rows_teach_the_constant_only(method):
    rows, y = some_rows(400, 50)
    without = selected(
        daskfs.Mission(5, method=method, width=2**8, intercept=False, learning_rate=0.5, scale=False, refit=0), rows, y
    )
    rows = [row for pair in zip(rows, [{}] * 400, strict=True) for row in pair]
    half = daskfs.Mission(5, method=method, width=2**8, intercept=False, learning_rate=0.25, scale=False, refit=0)
    given = selected(half, rows, np.repeat(y, 2))
    assert given.features.tolist() == without.features.tolist()
    np.testing.assert_allclose(given.weights, without.weights, rtol=1e-3)


@methods
@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_nothing_but_empty_rows(method, loss):
    y = np.where(np.arange(200) % 4 == 0, -1.0, 1.0)
    given = selected(daskfs.Mission(5, method=method, loss=loss, width=2**8, passes=5), [{}] * 200, y)
    assert len(given.features) == 0
    assert np.isfinite(given.intercept).all()
    assert given.intercept[-1] > 0


@pytest.mark.slow
@methods
def test_a_row_of_a_million_entries(method):
    rows, y = some_rows(300, 50)
    wide = 1_000_000
    ids = np.arange(wide, dtype=np.uint64) * 7 + 1
    usual = block_of(rows, y)
    indptr = np.concatenate([usual.indptr, [usual.indptr[-1] + wide]])
    values = np.concatenate([usual.values, np.full(wide, 1e-3, np.float32)])
    block = SparseBlock(0, indptr, np.concatenate([usual.ids, ids]), values, np.append(y, 1.0))
    meta = meta_of(rows)
    object.__setattr__(meta, "n_entries", len(values))
    object.__setattr__(meta, "block_nbytes", block.nbytes)
    chosen = daskfs.Mission(5, method=method, width=2**12)
    state, _ = chosen.end_pass(chosen.update(chosen.start(meta, 0), block))
    result = chosen.result(state)
    assert len(result.features) == 5
    assert np.isfinite(result.weights).all()
    assert sum(np.asarray(value).nbytes for value in flatten(state).values()) <= chosen.nbytes(meta)


@methods
def test_an_id_twice_in_a_row_counts_twice(method):
    rows, y = some_rows(500, 60)
    once = block_of([{feature: 2 * value for feature, value in row.items()} for row in rows], y)
    twice = SparseBlock(0, once.indptr * 2, np.repeat(once.ids, 2), np.repeat(once.values / 2, 2), y)
    results = []
    for block in (once, twice):
        chosen = daskfs.Mission(60, method=method, width=2**14, learning_rate=0.1, intercept=False)
        state = calibrated(chosen.start(meta_of(rows), 0))
        state, _ = chosen.end_pass(chosen.update(state, block))
        results.append(chosen.result(state))
    assert set(results[0].features.tolist()) == set(results[1].features.tolist())
    by_id = [result.weights[np.argsort(result.features)] for result in results]
    np.testing.assert_allclose(by_id[1], by_id[0], rtol=0.05, atol=0.02)


@methods
def test_a_class_that_never_appears_is_never_predicted(method):
    rows, y = some_rows(600, 50)
    given = selected(daskfs.Mission(20, method=method, loss="softmax", width=2**8), rows, y + 1, (0.0, 1.0, 2.0))
    assert given.weights.shape == (20, 3)
    assert given.intercept[1] < min(given.intercept[0], given.intercept[2])
    features = dict(zip(given.features.tolist(), given.weights, strict=True))
    for row in rows:
        scores = sum((features[f] * value for f, value in row.items() if f in features), given.intercept)
        assert scores.argmax() != 1


@methods
def test_fewer_features_than_asked_for_are_all_of_them_and_said(tmp_path, method):
    X = sp.csr_array(np.random.default_rng(0).normal(size=(50, 3)))
    daskfs.write_dataset(tmp_path / "three.zarr", X, X[:, [0]].toarray()[:, 0] > 0)
    with pytest.warns(UserWarning, match="three.zarr: 3 features of the 10 asked for: the data have no more"):
        selection = daskfs.select(tmp_path / "three.zarr", daskfs.Mission(10, method=method, width=2**8))
    assert sorted(selection.features.tolist()) == [0, 1, 2]


@methods
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, np.float32(3e38)])
def test_a_bad_value_in_the_middle_of_a_pass(method, bad):
    rows, y = some_rows(9000, 60)
    chosen = daskfs.Mission(5, method=method, width=2**8)
    before = chosen.update(chosen.start(meta_of(rows), 0), block_of(rows[:8500], y[:8500]))
    as_it_was = copy_state(before)
    rows[8700][list(rows[8700])[3]] = float(bad)
    with pytest.raises(daskfs.DaskfsError, match=f"^row 8700, feature {list(rows[8700])[3]}: the value .* too large"):
        chosen.update(before, block_of(rows[8500:], y[8500:], first=8500))
    up_to = chosen.update(as_it_was, block_of(rows[8500:8700], y[8500:8700], first=8500))
    for name in ("sketch", "keys", "weights", "bias"):
        np.testing.assert_array_equal(getattr(before.memory, name), getattr(up_to.memory, name), err_msg=name)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_large_values_of_many_rows_are_learned(loss):
    """Rows are hashed many at once. The sum of their squared values is beyond float32, but that of each row is not."""
    rows, y = some_rows(2000, 100)
    large = [{feature: value * 2.0**60 for feature, value in row.items()} for row in rows]
    chosen = daskfs.Mission(10, loss=loss, width=2**8, refit=0)
    classes, y = ((0.0, 1.0, 2.0), y + 1) if loss == "softmax" else ((-1.0, 1.0), y)
    usual, given = (selected(chosen, some, y, classes) for some in (rows, large))
    assert set(given.features.tolist()) == set(usual.features.tolist())
    assert given.history[0]["objective"] == pytest.approx(usual.history[0]["objective"], rel=1e-3)


def test_a_bad_value_is_named_with_its_dataset(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)).astype(np.float32)
    X[150, 2] = 2e30  # its square is beyond float32
    daskfs.write_dataset(tmp_path / "x.zarr", X, X[:, 0] > 0, feature_names=list("abcd"), layout="rows")
    with pytest.raises(DatasetError, match=r"x\.zarr: row 150: feature 'c': the value 2.* is not finite, or too large"):
        daskfs.select(tmp_path / "x.zarr", daskfs.Mission(2, width=2**8))


def test_columns_are_refused_in_a_line(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3))
    daskfs.write_dataset(tmp_path / "x.zarr", X, X[:, 0] > 0)
    with pytest.raises(daskfs.DaskfsError, match="layout"):
        daskfs.select(tmp_path / "x.zarr", daskfs.Mission(2))


@pytest.mark.parametrize(("run", "is_sorted"), [(10_000, True), (1000, False), (10, False), (1, False)])
def test_rows_in_the_order_of_classes_are_remarked_on(tmp_path, run, is_sorted, recwarn):
    """Runs of up to 1,000 equal labels cost nothing, and so are not remarked on."""
    X = sp.random_array((20_000, 50), density=0.1, format="csr", rng=np.random.default_rng(0))
    daskfs.write_dataset(tmp_path / "x.zarr", X, np.arange(20_000) // run % 2)
    daskfs.select(tmp_path / "x.zarr", daskfs.Mission(5, width=2**8), order="as-is")
    said = [str(warning.message) for warning in recwarn]
    assert len(said) == is_sorted
    assert all("x.zarr: its rows are sorted by label" in line for line in said)


@pytest.mark.parametrize("loss", ["logistic", "squared", "softmax"])
def test_few_rows_are_mixed_in_memory(tmp_path, loss, recwarn):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 40))
    y = X[:, :3] @ [3, -2, 2] + rng.normal(size=3000)
    y = y if loss == "squared" else np.digitize(y, [0] if loss == "logistic" else [-2, 2])
    features = []
    for order in (np.argsort(y, kind="stable"), rng.permutation(3000)):
        name = tmp_path / f"{len(features)}.zarr"
        daskfs.write_dataset(name, X[order], y[order], layout="rows")
        features.append(set(daskfs.select(name, daskfs.Mission(3, loss=loss, width=2**8)).features.tolist()))
    assert features == [{0, 1, 2}] * 2
    assert not recwarn.list


@pytest.mark.parametrize("method", ["paper", "hashing", "iht", "batch-iht"])
def test_a_rate_at_which_weights_explode_is_named(method):
    rows, y = some_rows(3000, 60)
    chosen = daskfs.Mission(5, loss="squared", method=method, width=2**8, learning_rate=1e6, passes=3)
    with pytest.raises(daskfs.DaskfsError, match=r"learning_rate=1e\+06: weights grew beyond all bounds"):
        selected(chosen, rows, y)
