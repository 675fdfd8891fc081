"""Sparse Random Features with columns that are always in the model: against plain numpy and scikit-learn."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from algorithms.smooth_rows import smooth, written
from click.testing import CliRunner
from reference import sparse_random_features as reference
from sklearn.linear_model import LinearRegression, LogisticRegression

import daskfs
from daskfs.basis import LINEAR
from daskfs.cli import main
from daskfs.errors import OptionError
from daskfs.protocol import Meta, RowBlock, copy_state

LOSSES = ("squared", "squared_hinge", "logistic")
KEPT = ("x2", "x1")


def rows():
    """Rows whose target depends on x1 by a straight line, besides what `smooth` has; x2 is of no use."""
    X, y = smooth(margin=0.02)
    return X, y + 2 * X[:, 1]


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    return written(tmp_path_factory.mktemp("kept"), *rows())


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory):
    X, y = rows()
    return written(tmp_path_factory.mktemp("kept"), X, np.where(y > np.median(y), "high", "low"))


def to_the_letter(**fields):
    fixed = {"penalty": 1.0, "gamma": 1.0, "scaling": "none", "screen": False, "linear": False, "keep": KEPT}
    return daskfs.SparseRandomFeatures(**(fixed | fields))


def test_rounds_are_those_of_plain_numpy(regression):
    algorithm = to_the_letter(rounds=3, per_round=15, tolerance=1e-6)
    given = daskfs.select(regression, algorithm)
    X, y = rows()
    basis = given.inputs.basis
    expected = reference.rounds_with_kept(
        lambda ids: basis.features(ids).expand(X.astype(np.float32)), X[:, [2, 1]], y, 1.0, 3, 15
    )
    np.testing.assert_allclose(given.history.objective.values[2:] * len(y), [each[3] for each in expected], rtol=1e-5)
    ids, weights, of_kept, _ = expected[-1]
    assert given.kept.names == list(KEPT)
    assert given.kept.features.tolist() == [LINEAR + 2, LINEAR + 1]
    np.testing.assert_allclose(given.kept.weights, of_kept, atol=5e-3)
    assert sorted(given.features.tolist()) == ids.tolist()
    np.testing.assert_allclose(given.weights[np.argsort(given.features)], weights, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_classes_are_fitted_as_in_plain_numpy(two_classes, loss):
    penalty = 1.0
    given = daskfs.select(two_classes, to_the_letter(loss=loss, rounds=1, per_round=20, tolerance=1e-6))
    X, _ = rows()
    signs = np.where(two_classes.to_xarray().y.values == 1, 1.0, -1.0)
    waves = given.inputs.basis.features(np.arange(20, dtype=np.uint64)).expand(X.astype(np.float32)).astype(float)
    kept = (X - X.mean(axis=0))[:, [2, 1]]
    weights, _, objective = reference.classifier(
        np.column_stack([kept, waves]), signs, np.array([0, 0, *[penalty] * 20]), loss
    )
    np.testing.assert_allclose(given.history.objective.values[-1] * len(signs), objective, rtol=1e-4)
    np.testing.assert_allclose(given.kept.weights, weights[:2], rtol=0.01, atol=0.02)


@pytest.mark.parametrize("scaling", ["none", "unit", "standard"])
def test_without_a_random_feature_the_kept_columns_are_an_ordinary_fit(regression, two_classes, scaling):
    fields = {"penalty": 1e9, "scaling": scaling, "keep": KEPT, "gamma": 1.0}
    X, y = rows()
    with pytest.warns(UserWarning, match="the model is the kept features alone"):
        given = daskfs.select(regression, daskfs.SparseRandomFeatures(**fields))
    assert len(given.features) == 0
    line = LinearRegression().fit(X[:, [2, 1]], y)
    np.testing.assert_allclose(given.predict(X), line.predict(X[:, [2, 1]]), atol=1e-4)
    with pytest.warns(UserWarning, match="the model is the kept features alone"):
        given = daskfs.select(two_classes, daskfs.SparseRandomFeatures(**fields))
    line = LogisticRegression(C=np.inf, tol=1e-8).fit(X[:, [2, 1]], np.where(y > np.median(y), "high", "low"))
    np.testing.assert_allclose(given.decision_function(X), line.decision_function(X[:, [2, 1]]), rtol=1e-3, atol=2e-3)


@pytest.mark.slow_but_first
@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("screen", [True, False])
@pytest.mark.parametrize("loss", LOSSES)
def test_kept_columns_are_not_counted_and_never_dropped(regression, two_classes, loss, screen, linear):
    dataset = regression if loss == "squared" else two_classes
    fields = {"loss": loss, "screen": screen, "linear": linear, "rounds": 3, "per_round": 30}
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(n_select=7, keep=("x4", "x1"), **fields))
    assert len(given.features) == 7
    assert given.kept.names == ["x4", "x1"]
    assert not {"x4", "x1"} & set(given.names)
    assert given.history.features.values[-1] == 7
    assert (np.abs(given.kept.weights) > 0).all()
    X, _ = rows()
    assert given.transform(X).shape == (len(X), 7)
    by_hand = given.transform(X) @ given.weights + given.intercept
    expansion = given.inputs.expansion
    scaled = (X - expansion.offset) * expansion.scale
    np.testing.assert_allclose(
        given.decision_function(X), by_hand + scaled[:, [4, 1]] @ given.kept.weights, rtol=1e-4, atol=1e-4
    )
    alone = daskfs.select(dataset, daskfs.SparseRandomFeatures(n_select=7, **fields))
    assert given.score(dataset) > alone.score(dataset) - 0.03


@pytest.mark.parametrize("loss", LOSSES)
def test_several_classes_have_a_weight_each(tmp_path, loss):
    X, y = rows()
    dataset = written(tmp_path, X, np.array(["low", "mid", "top"])[np.digitize(y, np.quantile(y, [0.3, 0.6]))])
    given = daskfs.select(
        dataset, daskfs.SparseRandomFeatures(loss=loss, penalty=0.5, rounds=3, per_round=60, keep=("x1", "x4"))
    )
    assert given.kept.weights.shape == (2, 3)
    assert given.score(dataset) > 0.85
    given.save(tmp_path / "run")
    again = daskfs.load_selection(tmp_path / "run")
    assert again.decision_function(X).tobytes() == given.decision_function(X).tobytes()
    exported = given.to_sklearn().decision_function(X)
    np.testing.assert_allclose(exported, given.decision_function(X), rtol=1e-4, atol=1e-3)


def test_gamma_and_penalty_are_chosen_for_what_kept_columns_leave(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(700, 2))
    wave = np.sin(25 * X[:, 0])
    dataset = written(tmp_path, X, wave + 0.1 * rng.normal(size=700) + 300 * X[:, 1])
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(linear=False, rounds=3, per_round=100, keep=("x1",)))
    rest = given.predict(X) - 300 * X[:, 1]
    assert np.corrcoef(rest, wave)[0, 1] > 0.97


def meta_of(X):
    ids = {f"x{column}": np.array([column], np.uint64) for column in range(X.shape[1])}
    return Meta("dense", *X.shape, X.size, X.shape[1] - 1, None, 0, members=ids.__getitem__)


def fit(algorithm, X, y, n_shards):
    """Fit in shards of one block each, as the synchronous schedule does."""
    cuts = np.linspace(0, len(y), n_shards + 1).astype(int)
    blocks = [RowBlock(low, X[low:high], y[low:high]) for low, high in pairwise(cuts)]
    state, go_on = algorithm.start(meta_of(X), seed=0), True
    while go_on:
        merged = algorithm.merge([algorithm.update(copy_state(state), block) for block in blocks])
        state, go_on = algorithm.end_pass(merged)
    return algorithm.result(state)


def test_shards_give_what_one_gives():
    X, y = rows()
    algorithm = daskfs.SparseRandomFeatures(penalty=0.05, gamma=2.0, rounds=3, per_round=40, keep=KEPT)
    one, three = fit(algorithm, X, y, 1), fit(algorithm, X, y, 3)
    assert one.n_kept == three.n_kept == 2
    assert one.features[-2:].tolist() == three.features[-2:].tolist() == [LINEAR + 2, LINEAR + 1]
    np.testing.assert_allclose(one.weights[-2:], three.weights[-2:], rtol=1e-2, atol=1e-3)
    assert one.history[-1]["objective"] == pytest.approx(three.history[-1]["objective"], rel=1e-4)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_kept_columns_that_copy_each_other_or_are_constant_do_no_harm(tmp_path, loss):
    X, y = rows()
    X = np.column_stack([X, X[:, 1], np.ones(len(X)), 1 - X[:, 2]])
    y = y if loss == "squared" else np.where(y > np.median(y), "high", "low")
    dataset = written(tmp_path, X, y)
    kept = ("x1", "x5", "x6", "x2", "x7")
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(rounds=3, per_round=60, penalty=0.1, keep=kept))
    assert given.kept.names == list(kept)
    assert given.kept.weights[2] == 0
    assert np.abs(given.kept.weights).max() < 100
    assert given.score(dataset) > 0.9


def test_a_kept_column_that_separates_the_classes_has_a_finite_weight(tmp_path):
    X, _ = rows()
    dataset = written(tmp_path, X, np.where(X[:, 3] > 0.5, "high", "low"))
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(rounds=2, per_round=20, penalty=1.0, keep=("x3",)))
    assert given.score(dataset) > 0.98
    assert np.isfinite(given.kept.weights).all()


@pytest.mark.filterwarnings("ignore:.*no feature has a weight")
def test_a_target_that_kept_columns_explain_needs_no_other_feature(tmp_path):
    X, _ = rows()
    dataset = written(tmp_path, X, 3 * X[:, 2] - X[:, 4])
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(keep=("x2", "x4"), rounds=3, per_round=30))
    assert len(given.features) == 0
    np.testing.assert_allclose(given.predict(X), 3 * X[:, 2] - X[:, 4], atol=1e-4)


@pytest.mark.parametrize("penalty", [0.1, "auto"])
def test_memory_is_as_promised_with_many_kept_columns(penalty):
    X = np.random.default_rng(0).uniform(size=(1500, 1000)).astype(np.float32)
    keep = tuple(f"x{column}" for column in range(900))
    algorithm = daskfs.SparseRandomFeatures(penalty=penalty, gamma=1.0, rounds=60, per_round=20, keep=keep)
    meta = meta_of(X)
    assert algorithm.driver_nbytes(meta) >= 40 * (1200 + 900) ** 2
    block = RowBlock(0, X, X[:, 0].astype(float) + X[:, 999] ** 2)
    state, go_on = algorithm.start(meta, seed=0), True
    tracemalloc.start()
    while go_on and state.round < 2:
        state, go_on = algorithm.end_pass(algorithm.update(state, block))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < algorithm.nbytes(meta)


def run_command(dataset, out, *options):
    command = ["select", dataset.url, "--algorithm", "random-features", *options, "--serial", "--out", str(out)]
    return CliRunner().invoke(main, command)


def test_an_unknown_name_is_one_line(regression, tmp_path):
    with pytest.raises(OptionError, match="keep: the dataset has no feature 'age'"):
        daskfs.select(regression, daskfs.SparseRandomFeatures(keep=("age",)))
    ran = run_command(regression, tmp_path / "run", "--keep", "x1,age")
    assert ran.exit_code != 0
    assert ran.stderr.splitlines() == ["error: --keep: the dataset has no feature 'age'"]


@pytest.mark.slow
def test_the_command_keeps_columns(regression, tmp_path):
    ran = run_command(regression, tmp_path / "run", "--keep", "x1,x4", "--rounds", "2", "--per-round", "20")
    assert ran.exit_code == 0, ran.output
    record = json.loads((tmp_path / "run" / "selection.json").read_text())
    assert [feature["name"] for feature in record["kept"]] == ["x1", "x4"]
    assert record["algorithm"]["keep"] == ["x1", "x4"]
