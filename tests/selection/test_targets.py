"""Selections for several targets: metrics equal to scikit-learn's, files that load again, predictions and exports."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray
from reference import prefix_ridge
from selections import selection_of
from sklearn import metrics

import daskfs
from daskfs.errors import OptionError, SelectionError
from daskfs.selection.evaluation import Evaluation
from daskfs.selection.prefix_fits import RIDGES
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest.arrays import encode_target

RNG = np.random.default_rng(5)
N = 400
X = RNG.normal(size=(N, 5))
NAMES = ("mass", "height", "age")
WEIGHTS = np.array([[1.0, 200.0, 0.0], [0.5, -100.0, 1e-3]])
Y = X[:, [2, 0]] @ WEIGHTS + [1.0, -5.0, 1e-3] + RNG.normal(size=(N, 3)) * [1, 50, 1e-3]


def selection(**changes):
    return replace(selection_of([2, 0], WEIGHTS, intercept=[1.0, -5.0, 1e-3], targets=NAMES), **changes)


def dataset(folder, layout="columns", Y=Y, names=NAMES):
    daskfs.write_dataset(folder / "d.zarr", X, pd.DataFrame(Y, columns=list(names)), layout=layout, chunk_bytes=2000)
    return daskfs.open_dataset(folder / "d.zarr")


def check_metrics(evaluation: Evaluation, predicted, Y, weight=None):
    functions = {"r2": metrics.r2_score, "mse": metrics.mean_squared_error, "mae": metrics.mean_absolute_error}
    for name, function in functions.items():
        each = function(Y, predicted, sample_weight=weight, multioutput="raw_values")
        np.testing.assert_allclose(evaluation.per_target[name], each, rtol=1e-9)
        np.testing.assert_allclose(evaluation.metrics[name], each.mean(), rtol=1e-9)
        low, high = evaluation.intervals[name]
        assert low < evaluation.metrics[name] < high


@pytest.mark.parametrize("layout", ["rows", "columns", "both"])
def test_metrics_are_those_of_scikit_learn(tmp_path, layout):
    data, model = dataset(tmp_path, layout), selection()
    predicted = model.predict(data)
    np.testing.assert_allclose(predicted, X[:, [2, 0]] @ WEIGHTS + [1.0, -5.0, 1e-3])
    evaluation = model.evaluate(data)
    check_metrics(evaluation, predicted, Y)
    assert model.score(data) == pytest.approx(metrics.r2_score(Y, predicted))
    assert model.score(X, Y) == pytest.approx(model.score(data))
    check_metrics(model.evaluate(X, Y), predicted, Y)
    assert evaluation.per_target.target.values.tolist() == list(NAMES)
    assert evaluation.per_class is None
    assert (evaluation.rows, evaluation.weighted, evaluation.unknown_rows) == (N, False, 0)


def test_metrics_with_weights_of_rows():
    weight = RNG.integers(0, 4, N).astype(np.float32)
    data = InMemory(X, *encode_target(Y, NAMES), "rows", weight=weight)
    model = selection()
    evaluation = model.evaluate(data)
    assert evaluation.weighted
    check_metrics(evaluation, model.predict(X), Y, weight)


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """Of the means over targets with correlated errors, in most of many samples."""
    rng, covered = np.random.default_rng(0), {"r2": 0, "mse": 0, "mae": 0}
    model = selection(targets=("a", "b", "c"))
    truth = {"mse": 1.0, "mae": np.sqrt(2 / np.pi)}
    big = rng.normal(size=(200_000, 5))
    signal = big[:, [2, 0]] @ WEIGHTS / [1, 200, 1e-3]
    truth["r2"] = np.mean(1 - 1 / (1 + signal.var(axis=0)))
    scaled = replace(model, weights=WEIGHTS / [1, 200, 1e-3], intercept=np.zeros(3))
    for _ in range(60):
        Z = rng.normal(size=(300, 5))
        errors = 0.8 * rng.normal(size=(300, 1)) + 0.6 * rng.normal(size=(300, 3))
        evaluation = scaled.evaluate(Z, Z[:, [2, 0]] @ scaled.weights + errors)
        for name, value in truth.items():
            low, high = evaluation.intervals[name]
            covered[name] += low <= value <= high
    assert min(covered.values()) >= 50


def test_baseline_and_verdict():
    good = selection().evaluate(X, Y)
    assert good.baseline.answer == "the mean of each target"
    assert good.baseline.metrics == {"r2": 0.0, "mse": pytest.approx(Y.var(axis=0).mean())}
    each = [[np.corrcoef(X[:, column], y)[0, 1] ** 2 for y in Y.T] for column in (2, 0)]
    assert good.baseline.best_feature.value == pytest.approx(np.mean(each, axis=1).max())
    assert (good.is_useless, good.verdict) == (False, "")
    useless = selection(weights=0 * WEIGHTS, intercept=Y.mean(axis=0)).evaluate(X, RNG.permutation(Y))
    assert useless.is_useless
    assert useless.verdict.startswith("no better than always saying the mean of each target: the 95 % interval of R²")


def test_a_constant_target_leaves_the_interval_unknown():
    constant = Y.copy()
    constant[:, 1] = 3.0
    evaluation = selection().evaluate(X, constant)
    assert evaluation.metrics["r2"] == pytest.approx(metrics.r2_score(constant, selection().predict(X)))
    assert evaluation.record()["intervals"]["r2"] == [None, None]
    assert not evaluation.is_useless


def test_targets_of_data_and_selection_must_be_the_same(tmp_path):
    data = dataset(tmp_path, names=("mass", "age", "height"))
    for model in (selection(), selection_of([2, 0])):
        with pytest.raises(OptionError, match=r"has the targets mass, age, height, the selection predicts"):
            model.score(data)
    daskfs.write_dataset(tmp_path / "one", X, Y[:, 0])
    with pytest.raises(OptionError, match="has one target, the selection predicts mass, height, age: write the data"):
        selection().evaluate(tmp_path / "one")
    for y in (Y[:, 0], Y[:, :2], Y[:5]):
        with pytest.raises(OptionError, match="3 targets a row, please"):
            selection().score(X, y)


def test_saved_selections_load_again(tmp_path):
    model = selection()
    model.save(tmp_path / "run")
    loaded = daskfs.load_selection(tmp_path / "run")
    assert loaded.targets == NAMES
    for name in ("features", "weights", "intercept", "importance"):
        assert np.array_equal(getattr(loaded, name), getattr(model, name))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "run/selection.json").read_bytes() == (tmp_path / "again/selection.json").read_bytes()
    selection_of([1, 2]).save(tmp_path / "one")
    assert "targets" not in json.loads((tmp_path / "one/selection.json").read_text())
    assert daskfs.load_selection(tmp_path / "one").targets is None


@pytest.mark.parametrize(
    "targets", [None, "abc", [], ["a"], ["a", "a", "b"], ["a", "b"], [1, 2, 3], ["a", "b", "\ud800"]]
)
def test_hostile_targets_are_refused(tmp_path, targets):
    selection().save(tmp_path / "run")
    path = tmp_path / "run/selection.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"targets": targets}))
    with pytest.raises(SelectionError, match=r"selection again|make it again"):
        daskfs.load_selection(tmp_path / "run")


def test_shapes_must_fit():
    with pytest.raises(OptionError, match=r"weights of shape \(2, 3\) do not predict 2 targets"):
        selection(targets=("a", "b"))
    with pytest.raises(OptionError, match="do not predict 3 targets"):
        selection(classes=("a", "b", "c"))


def test_predictions_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.selection.predictions.CHUNK_CELLS", 300)
    model = selection()
    model.write_predictions(dataset(tmp_path, "rows"), tmp_path / "p.zarr")
    group = xarray.open_zarr(tmp_path / "p.zarr")
    assert group.prediction.dims == group.score.dims == ("sample", "target")
    assert group.target.values.tolist() == list(NAMES)
    np.testing.assert_allclose(group.prediction, model.predict(X))
    assert np.array_equal(group.prediction, group.score)


def test_scikit_learn_and_xarray(tmp_path):
    model = selection()
    exported = model.to_sklearn()
    np.testing.assert_allclose(exported.predict(X[:, model.features]), model.predict(X))
    table = model.to_xarray()
    assert table.weights.sel(target="height").values.tolist() == WEIGHTS[:, 1].tolist()
    assert table.intercept.sel(target="age") == 1e-3
    slices = list(model.scores(X))
    assert slices[0][1].shape == (N, 3)


def test_scores_by_size_are_those_of_plain_ridge(tmp_path):
    """One ridge for all targets, chosen for targets of variance 1, whatever their units."""
    data, order = dataset(tmp_path), [2, 0, 1]
    model = selection_of(order, np.ones((3, 3)), intercept=[0.0] * 3, targets=NAMES)
    path = daskfs.size_path(model, data, data)
    assert (path.metric, path.sizes) == ("r2", [1, 2, 3])
    units = Y / Y.std(axis=0)
    for size, score, ridge in zip(path.sizes, path.scores, path.ridges, strict=True):
        predict, best = prefix_ridge.fitted(X[:, order[:size]], units, np.ones(N), RIDGES)
        assert score == pytest.approx(metrics.r2_score(units, predict(X[:, order[:size]])), rel=1e-9)
        assert ridge == best
    (tmp_path / "other").mkdir()
    other = dataset(tmp_path / "other", Y=Y * [1e9, 1, 1])
    scaled = daskfs.size_path(model, other, other)
    np.testing.assert_allclose(scaled.scores, path.scores, rtol=1e-9)
    assert scaled.ridges == path.ridges
