"""Online Substitution with several numeric targets: one set of columns, weights for every target."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from reference import forward_backward as plain
from toy_runs import Stop, always_due, stopping_after

import daskfs
from daskfs.algorithms import losses
from daskfs.algorithms.substitution import block
from daskfs.errors import OptionError
from daskfs.protocol import flatten
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest.arrays import encode_target

__all__ = ["always_due"]
pytestmark = pytest.mark.kernels

TRUE = [3, 11, 19, 30]
UNITS = np.array([1.0, 1e-6, 1e5])


def problem(n=300, p=40, noise=0.1, seed=0):
    """Three targets of very different units; each column of use matters for another one, or for two."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    W = np.array([[2.0, 0.0, 0.0], [0.0, 1.5, 0.0], [0.0, 0.0, -2.0], [1.0, -1.0, 0.0]])
    return X, (X[:, TRUE] @ W + noise * rng.normal(size=(n, 3)) + [5, 0, -100]) * UNITS


def store(folder, X, y, **options):
    daskfs.write_dataset(folder / "d.zarr", X, y, overwrite=True, **options)
    return daskfs.open_dataset(folder / "d.zarr")


def deviations(Y):
    """Targets in the units in which columns are selected."""
    return (Y - Y.mean(axis=0)) / Y.std(axis=0)


@pytest.mark.parametrize("n", [20, 300, 5000])  # without comparison of ridges, with it, and with so many rows
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_columns_of_all_targets_are_found(tmp_path, kind, n):
    X, Y = problem(n)
    X = ((X + 3) * np.geomspace(1e-3, 1e3, 40)).astype(np.float32)
    if kind == "dense":
        dataset = store(tmp_path, X, Y, chunk_bytes=7 * n * 4)
    else:
        daskfs.write_dataset(tmp_path / "rows", sp.csr_array(X), Y)
        dataset = daskfs.transpose(tmp_path / "rows", tmp_path / "columns", block_entries=7 * n)
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(4))
    assert sorted(selection.features.tolist()) == TRUE
    assert selection.weights.shape == (4, 3)
    assert selection.intercept.shape == (3,)
    assert selection.targets == ("y0", "y1", "y2")
    assert selection.classes is None
    assert selection.loss == "squared"
    assert selection.score(X, Y) > 0.97


@pytest.mark.parametrize("ridge", [1e-6, 0.3, 20.0])
def test_weights_are_those_of_ridge_regression_of_each_target(tmp_path, ridge):
    X, Y = problem(noise=1)
    selection = daskfs.select(store(tmp_path, X, Y), daskfs.OnlineSubstitution(5, ridge=ridge))
    S = selection.features.astype(int)
    scale = np.linalg.norm(X - X.mean(axis=0), axis=0)[S]
    W = plain.objective(plain.standardised(X), Y, S.tolist(), ridge)[1] / scale[:, None]
    np.testing.assert_allclose(selection.weights, W, rtol=1e-8, atol=1e-10 * np.abs(W).max(axis=0).min())
    np.testing.assert_allclose(selection.intercept, Y.mean(axis=0) - X[:, S].mean(axis=0) @ W, rtol=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_no_exchange_of_two_columns_is_better(tmp_path, seed):
    """The set is one that plain numpy, which tries every exchange, cannot improve."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 12)) + rng.normal(size=(60, 1))
    Y = (X[:, :5] @ rng.normal(size=(5, 3)) + 2 * rng.normal(size=(60, 3))) * UNITS
    algorithm = daskfs.OnlineSubstitution(4, ridge=0.5, passes=20)
    S = daskfs.select(store(tmp_path, X, Y, chunk_bytes=5 * 60 * 8), algorithm).features.astype(int).tolist()
    Z, Y = plain.standardised(X), deviations(Y)
    assert plain.objective(Z, Y, S, 0.5)[0] <= plain.objective(Z, Y, plain.substitute(Z, Y, S, 0.5), 0.5)[0] + 1e-9


def test_importance_is_of_all_targets_together(tmp_path):
    X, Y = problem(noise=1)
    selection = daskfs.select(store(tmp_path, X, Y), daskfs.OnlineSubstitution(6, ridge=0.5))
    S = selection.features.astype(int).tolist()
    order, falls = plain.ranking(plain.standardised(X), deviations(Y), S, 0.5)
    assert order == S
    np.testing.assert_allclose(selection.importance, falls / falls.sum(), rtol=1e-8)


@pytest.mark.parametrize("ridge", ["auto", 0.5])
@pytest.mark.parametrize("n", [60, 300, 5000])
def test_copies_of_one_target_select_what_the_target_selects(tmp_path, n, ridge):
    X, Y = problem(n, noise=2)
    algorithm = daskfs.OnlineSubstitution(6, ridge=ridge)
    one = daskfs.select(store(tmp_path, X, Y[:, 0]), algorithm)
    three = daskfs.select(store(tmp_path, X, Y[:, [0, 0, 0]]), algorithm)
    assert three.features.tolist() == one.features.tolist()
    np.testing.assert_allclose(three.weights, one.weights[:, None].repeat(3, axis=1), rtol=1e-7)
    np.testing.assert_allclose(three.intercept, one.intercept.repeat(3), rtol=1e-7)
    np.testing.assert_allclose(three.importance, one.importance, rtol=1e-6)
    assert three.chosen == one.chosen
    held_back = [selection.history["held_back"].values for selection in (one, three)]
    np.testing.assert_allclose(*held_back, rtol=1e-7)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("factor", [2.0**20, 1e6, 1e-150, 1e200])
def test_units_of_a_target_do_not_matter(tmp_path, factor, intercept):
    X, Y = problem(noise=3)
    algorithm = daskfs.OnlineSubstitution(8, intercept=intercept)
    before = daskfs.select(store(tmp_path, X, Y), algorithm)
    after = daskfs.select(store(tmp_path, X, Y * [1, factor, 1]), algorithm)
    assert after.features.tolist() == before.features.tolist()
    np.testing.assert_allclose(after.weights, before.weights * [1, factor, 1], rtol=1e-6)
    np.testing.assert_allclose(after.importance, before.importance, rtol=1e-6)


def test_an_offset_of_a_target_is_its_intercept(tmp_path):
    X, Y = problem(noise=3)
    before, after = (
        daskfs.select(store(tmp_path, X, Y + offset), daskfs.OnlineSubstitution(8)) for offset in (0, [0, 0, 1e9])
    )
    assert after.features.tolist() == before.features.tolist()
    np.testing.assert_allclose(after.weights, before.weights, rtol=1e-6)
    np.testing.assert_allclose(after.intercept, before.intercept + np.array([0, 0, 1e9]), rtol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 0.1, -1e30])
def test_a_constant_target_does_no_harm(tmp_path, constant):
    X, Y = problem(noise=2)
    three = np.column_stack([Y[:, 0], np.full(len(Y), constant), Y[:, 0]])
    one = daskfs.select(store(tmp_path, X, Y[:, 0]), daskfs.OnlineSubstitution(5, ridge=0.1))
    selection = daskfs.select(store(tmp_path, X, three), daskfs.OnlineSubstitution(5, ridge=0.1))
    assert selection.features.tolist() == one.features.tolist()
    np.testing.assert_allclose(selection.predict(X)[:, 1], constant, rtol=1e-12)


def test_without_intercept_fits_go_through_the_origin(tmp_path):
    X, Y = problem(noise=1)
    Y = Y + 4 * Y.std(axis=0)
    selection = daskfs.select(store(tmp_path, X, Y), daskfs.OnlineSubstitution(5, ridge=1e-6, intercept=False))
    S = selection.features.astype(int)
    np.testing.assert_allclose(selection.weights, np.linalg.lstsq(X[:, S], Y)[0], rtol=1e-5)
    assert (selection.intercept == 0).all()


def test_weights_of_rows():
    """Rows of weight 0 are not there; a row of weight 2 is there twice."""
    X, Y = problem(200, noise=1)
    weight = np.random.default_rng(1).integers(0, 3, 200)
    algorithm = daskfs.OnlineSubstitution(5, ridge=1e-6)
    weighted = InMemory(X, *encode_target(Y), "columns", weight=weight.astype(np.float32))
    selection = daskfs.select(weighted, algorithm)
    S, rows = selection.features.astype(int), np.repeat(np.arange(200), weight)
    A = np.column_stack([np.ones(200), X[:, S]])[rows]
    expected = np.linalg.lstsq(A, Y[rows])[0]
    np.testing.assert_allclose(selection.weights, expected[1:], rtol=1e-4, atol=1e-6 * np.abs(expected[1:]).min())
    np.testing.assert_allclose(selection.intercept, expected[0], rtol=1e-4)


@pytest.mark.parametrize("chunk_bytes", [1, 3 * 300 * 8, 10**9])
@pytest.mark.parametrize("seed", [0, 1])
def test_any_chunks_give_the_same_set(tmp_path, chunk_bytes, seed):
    X, Y = problem(seed=seed)
    dataset = store(tmp_path, X, Y, chunk_bytes=chunk_bytes)
    assert sorted(daskfs.select(dataset, daskfs.OnlineSubstitution(4)).features.tolist()) == TRUE


@pytest.mark.slow_but_first
@pytest.mark.parametrize("synchronous", [True, False])
def test_two_workers_find_the_same_set(tmp_path, two_workers, synchronous):
    X, Y = problem()
    dataset = store(tmp_path, X, Y, chunk_bytes=3 * 300 * 8)
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(4), client=two_workers, synchronous=synchronous)
    alone = daskfs.select(dataset, daskfs.OnlineSubstitution(4))
    assert sorted(selection.features.tolist()) == TRUE
    order = [selection.features.tolist().index(feature) for feature in alone.features.tolist()]
    np.testing.assert_allclose(selection.weights[order], alone.weights, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(selection.intercept, alone.intercept, rtol=1e-6)


@pytest.mark.usefixtures("always_due")
def test_a_stopped_run_resumes_to_the_same_bits(tmp_path):
    X, Y = problem(noise=2)
    dataset, algorithm = store(tmp_path, X, Y, chunk_bytes=9 * 300 * 8), daskfs.OnlineSubstitution(6)
    expected = daskfs.select(dataset, algorithm)
    with pytest.raises(Stop):
        daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c", progress=stopping_after(8))
    given = daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c", resume=True)
    for name in ("features", "weights", "intercept", "importance"):
        assert getattr(given, name).tobytes() == getattr(expected, name).tobytes()


def test_the_state_is_within_the_promised_memory(tmp_path):
    X, Y = problem(300)
    dataset = store(tmp_path, X, np.tile(Y, 20), chunk_bytes=7 * 300 * 8)
    algorithm = daskfs.OnlineSubstitution(4).resolve(dataset.meta)
    state = algorithm.start(dataset.meta, seed=0)
    for part in dataset.blocks():
        state = algorithm.update(state, part)
    used = sum(value.nbytes for value in flatten(state).values() if isinstance(value, np.ndarray))
    assert 0.2 * algorithm.nbytes(dataset.meta) < used < algorithm.nbytes(dataset.meta)
    assert len(pickle.dumps(state)) < algorithm.nbytes(dataset.meta)


def test_a_preview_has_the_units_of_the_targets(tmp_path):
    X, Y = problem()
    dataset = store(tmp_path, X, Y)
    algorithm = daskfs.OnlineSubstitution(4, ridge=1e-6).resolve(dataset.meta)
    assert algorithm.preview(algorithm.start(dataset.meta, seed=0), 3).weights.shape == (0, 3)
    state = algorithm.update(algorithm.start(dataset.meta, seed=0), dataset.read(0))
    preview, selection = algorithm.preview(state, 4), algorithm.result(state)
    order = [preview.features.tolist().index(feature) for feature in selection.features.tolist()]
    np.testing.assert_allclose(preview.weights[order], selection.weights, rtol=1e-6)


def test_targets_that_look_like_classes_are_numbers(tmp_path):
    """Half of the rows 0 and half 1: standardised they are −1 and +1, and still R² is the score, not the accuracy."""
    X, _ = problem()
    Y = np.column_stack([X[:, 3] > np.median(X[:, 3]), X[:, 11] > np.median(X[:, 11])])
    selection = daskfs.select(store(tmp_path, X, Y), daskfs.OnlineSubstitution(2))
    assert sorted(selection.features.tolist()) == [3, 11]
    assert selection.classes is None
    score = selection.score(X, Y.astype(float))
    assert selection.history["held_back"].values[-1] == pytest.approx(score, abs=0.1)
    assert 0.5 < score < 0.75  # while nearly all rows would be told apart


@pytest.mark.parametrize(
    ("algorithm", "line"),
    [
        (
            daskfs.OnlineSubstitution(2, method="paper"),
            "method='paper' takes one target, the dataset has 3: use method",
        ),
        (
            daskfs.OnlineSubstitution(2, method="async"),
            "method='async' takes one target, the dataset has 3: use method",
        ),
        (daskfs.OnlineSubstitution(2, loss="logistic"), "several targets are real numbers: use loss='squared'"),
        (daskfs.OnlineSubstitution(2, loss="softmax"), "several targets are real numbers: use loss='squared'"),
        (daskfs.Mission(2), r"Mission takes one target, .* has 3 \(y0, y1, y2\): use OnlineSubstitution"),
        (daskfs.SparseRandomFeatures(), r"SparseRandomFeatures takes one target, .* has 3 \(y0, y1, y2\)"),
    ],
)
def test_what_takes_one_target_says_so(tmp_path, algorithm, line):
    dataset = store(tmp_path, *problem(), layout="both")
    with pytest.raises(OptionError, match=line):
        daskfs.select(dataset, algorithm)


def test_units_of_targets():
    weight = np.array([0.5, 1.0, 1.5])
    target = np.array([[1.0, 2.0, 4.0], [7.0, 7.0, 7.0], [1e300, -1e300, 0.0]])
    mean, scale = losses.target_units(target, weight, centred=True)
    np.testing.assert_allclose(mean[0], (0.5 + 2 + 6) / 3)
    np.testing.assert_allclose(scale[0], np.sqrt(np.cov(target[0], aweights=weight, ddof=0)))
    assert scale[1] == 1
    assert np.isfinite(scale).all()
    mean, scale = losses.target_units(target[:1], weight, centred=False)
    assert mean == 0
    np.testing.assert_allclose(scale, np.sqrt((0.5 + 4 + 24) / 3))


def test_score_of_several_numbers_is_the_mean():
    y = np.array([[1.0, -1.0, 1.0, -1.0], [1.0, 2.0, 3.0, 4.0]])
    u = np.array([[0.5, -0.5, 0.5, -0.5], [1.0, 2.0, 3.0, 4.0]])
    assert block._score(u, y, of_classes=False) == pytest.approx((0.75 + 1) / 2)
    assert block._score(u[:1], y[:1], of_classes=True) == 1.0
