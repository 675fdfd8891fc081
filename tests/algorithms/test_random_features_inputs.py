"""Random features of few columns: their names and values, what predictions read, and what they are good for."""

from __future__ import annotations

import json
import math
import re
import warnings

import numpy as np
import pytest
from algorithms.smooth_rows import smooth, written
from reference import random_basis as reference
from sklearn.datasets import make_friedman1

import daskfs
from daskfs.basis import LINEAR
from daskfs.errors import OptionError, SelectionError
from daskfs.sklearn import SparseRandomFeaturesRegressor

LOSSES = ("squared", "squared_hinge", "logistic")
FEW = {"rounds": 3, "per_round": 40, "penalty": 0.2}

# As version 0.1.0 wrote it before features had a number of inputs.
OLD_SELECTION = """{
"algorithm": {"gamma": "auto", "kernel": "gaussian", "linear": true, "loss": "auto", "max_features": 2500, "n_select": 3, "name": "SparseRandomFeatures", "penalty": "auto", "per_round": 30, "rounds": 2, "scaling": "unit", "screen": true, "tolerance": 0.0001},
"chosen": {"gamma": 4.552205461974497, "loss": "squared", "penalty": 0.0},
"classes": null,
"features": [
{"id": 4611686018427387905, "importance": 0.4170523569264351, "name": "dose", "rank": 1, "weight": -1.5563755765346674},
{"id": 33, "importance": 0.307837389494413, "name": "gaussian 33", "rank": 2, "weight": 0.3244648392646113},
{"id": 4611686018427387906, "importance": 0.27511025357915186, "name": "time", "rank": 3, "weight": 0.9919841929580628}
],
"intercept": 0.7946586586934168,
"random_features": {"gamma": 4.552205461974497, "inputs": [{"high": 0.995, "importance": 0.04827293585979174, "low": 0.0, "name": "age", "offset": 0.0, "scale": 1.0050251256281406}, {"high": 0.995, "importance": 0.7950496556423803, "low": 0.004, "name": "dose", "offset": 0.004, "scale": 1.0090817356205852}, {"high": 1.0, "importance": 0.15667740849782802, "low": 0.0, "name": "time", "offset": 0.0, "scale": 1.0}], "kernel": "gaussian", "seed": 5},
"seed": 5,
"source": {"digest": "674c8039243049bacd93d3e057271a0ca27503f493d2df1b775c8baa98697ded", "n_features": 3, "n_samples": 300, "url": "old.zarr"},
"version": 1
}
"""  # noqa: E501
OLD_ROWS = np.array([[0.637, 0.27, 0.041], [0.017, 0.813, 0.913], [0.607, 0.729, 0.544], [0.935, 0.816, 0.003]])
OLD_SCORES = [0.87459241, 0.44975194, -0.26293946, -0.93556693]


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    return written(tmp_path_factory.mktemp("few"), *smooth())


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory):
    X, score = smooth()
    return written(tmp_path_factory.mktemp("few"), X, np.where(score > np.median(score), "high", "low"))


def columns_in(name):
    """The columns in the name of a random feature, or None if it names none."""
    found = re.fullmatch(r"(?:gaussian|laplacian|perceptron) \d+ \(((?:x\d, )*x\d)\)", name)
    return None if found is None else [int(column[1:]) for column in found.group(1).split(", ")]


def by_hand(selection, X):
    """The features in plain Python, from ids, kernel and seed alone."""
    expansion, d = selection.inputs.expansion, X.shape[1]
    scaled, features = (X - expansion.offset) * expansion.scale, []
    for feature in selection.features.tolist():
        if feature >= LINEAR:
            features.append(scaled[:, feature - LINEAR])
            continue
        counts = expansion.inputs_per_feature
        q = min(counts[feature % len(counts)] or d, d)
        omega, b = reference.feature_of_few(feature, d, expansion.seed, expansion.kernel, expansion.gamma, q)
        z = scaled @ omega
        steps = expansion.kernel == "perceptron"
        features.append(np.where(z - b >= 0, 1.0, -1.0) if steps else math.sqrt(2) * np.cos(z + b))
    return np.column_stack(features)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "perceptron"])
@pytest.mark.parametrize("loss", LOSSES)
def test_features_are_of_the_columns_in_their_names(regression, two_classes, loss, kernel):
    dataset = regression if loss == "squared" else two_classes
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(kernel, loss=loss, inputs_per_feature=2, **FEW), seed=3)
    waves = [(feature, columns_in(name)) for feature, name in zip(given.features.tolist(), given.names, strict=True)]
    assert sum(columns is not None for _, columns in waves) > 5
    for feature, columns in waves:
        if feature < LINEAR:
            assert columns == sorted(reference.columns_of(feature, 5, 3, 2))
    X, _ = smooth()
    difference = np.abs(given.transform(X) - by_hand(given, X))
    assert np.quantile(difference, 0.999) < 1e-4  # a row next to a step may be on either side of it


@pytest.mark.parametrize("screen", [True, False])
def test_a_number_above_all_columns_is_all_columns(regression, screen):
    fields = FEW | {"screen": screen}
    paper, many = (
        daskfs.select(regression, daskfs.SparseRandomFeatures(inputs_per_feature=count, **fields))
        for count in (None, 99)
    )
    assert paper.weights.tobytes() == many.weights.tobytes()
    assert paper.names == many.names


def test_the_algorithm_of_the_paper_has_features_of_all_columns(regression):
    fields = FEW | {"screen": False}
    paper, default = (
        daskfs.select(regression, daskfs.SparseRandomFeatures(**fields, **given))
        for given in ({"inputs_per_feature": None}, {})
    )
    assert paper.weights.tobytes() == default.weights.tobytes()
    assert paper.record() | {"algorithm": None} == default.record() | {"algorithm": None}
    assert "inputs_per_feature" not in default.record()["random_features"]


def test_by_default_features_of_few_and_of_all_columns_are_drawn(regression):
    given = daskfs.select(regression, daskfs.SparseRandomFeatures(**FEW))
    sizes = {len(columns_in(name) or range(5)) for name in given.names if name.startswith("gaussian")}
    assert {2, 3, 5} <= sizes  # the target is no sum of functions of one column


@pytest.mark.parametrize("count", [2, "auto"])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_saved_model_predicts_the_same_here_and_in_scikit_learn(regression, two_classes, tmp_path, loss, count):
    dataset = regression if loss == "squared" else two_classes
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(loss=loss, inputs_per_feature=count, **FEW))
    given.save(tmp_path / "run")
    again = daskfs.load_selection(tmp_path / "run")
    X, _ = smooth()
    scores = given.decision_function(X)
    assert again.decision_function(X).tobytes() == scores.tobytes()
    assert again.names == given.names
    model = given.to_sklearn()
    exported = model.predict(X) if loss == "squared" else model.decision_function(X)
    np.testing.assert_allclose(exported, scores, rtol=1e-3, atol=1e-3 * np.abs(scores).max())


def test_columns_of_no_feature_are_not_read_and_of_no_importance(tmp_path):
    X, y = smooth()
    dataset = written(tmp_path, np.column_stack([X, np.random.default_rng(5).uniform(size=(len(X), 30))]), y)
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(inputs_per_feature=1, n_select=6, **FEW))
    used = {column for feature, name in zip(given.features.tolist(), given.names, strict=True)
            for column in ([feature - LINEAR] if feature >= LINEAR else columns_in_any(name))}  # fmt: skip
    assert 0 < len(used) <= 6
    importance = dict(zip(given.input_importance.input.values, given.input_importance.values, strict=True))
    assert all((importance[f"x{column}"] > 0) == (column in used) for column in range(35))
    new = np.column_stack([X, np.full((len(X), 30), 0.5)])
    expected = given.decision_function(new)
    for column in set(range(35)) - used:
        new[:, column] = 1e6  # far outside the range that was learned from
    with warnings.catch_warnings(action="error"):
        np.testing.assert_array_equal(given.decision_function(new), expected)


def columns_in_any(name):
    return [int(column) for column in re.findall(r"x(\d+)", name)]


def test_few_columns_find_what_noise_columns_hide():
    X, y = make_friedman1(1500, noise=1.0, random_state=0)
    X = np.column_stack([X, np.random.default_rng(0).uniform(size=(1500, 20))])
    scores = {}
    for count in ("auto", 2, None):
        model = SparseRandomFeaturesRegressor(inputs_per_feature=count, rounds=5, per_round=100)
        with warnings.catch_warnings(action="ignore"):  # rows outside the range
            scores[count] = model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:])
    assert scores["auto"] > scores[None] + 0.1
    assert scores[2] > scores[None] + 0.1


def test_a_wave_across_all_columns_is_found_by_default():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1500, 5))
    y = np.sin(2 * X.sum(axis=1)) + 0.1 * rng.normal(size=1500)
    scores = {}
    for count in ("auto", 2):
        model = SparseRandomFeaturesRegressor(inputs_per_feature=count, rounds=5, per_round=100)
        with warnings.catch_warnings(action="ignore"):
            scores[count] = model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:])
    assert scores["auto"] > 0.9
    assert scores[2] < 0.5


@pytest.mark.parametrize("count", [0, -1, 1.5, "all", True])
def test_a_number_that_is_none_is_refused(count):
    with pytest.raises(OptionError, match="inputs_per_feature"):
        daskfs.SparseRandomFeatures(inputs_per_feature=count)


def test_a_selection_of_an_earlier_version_predicts_as_it_did(regression, tmp_path):
    daskfs.select(regression, daskfs.SparseRandomFeatures(**FEW)).save(tmp_path / "run")
    (tmp_path / "run" / "selection.json").write_text(OLD_SELECTION)
    old = daskfs.load_selection(tmp_path / "run")
    assert old.inputs.expansion.inputs_per_feature == ()
    np.testing.assert_allclose(old.decision_function(OLD_ROWS), OLD_SCORES, rtol=1e-6)
    omega, b = reference.feature(33, 3, 5, "gaussian", 4.552205461974497)
    scaled = (OLD_ROWS - old.inputs.expansion.offset) * old.inputs.expansion.scale
    wave = math.sqrt(2) * np.cos(scaled @ omega + b)
    scores = np.column_stack([scaled[:, 1], wave, scaled[:, 2]]) @ old.weights + old.intercept
    np.testing.assert_allclose(scores, OLD_SCORES, rtol=1e-5)
    assert old.input_importance.input.values.tolist() == ["dose", "time", "age"]
    old.save(tmp_path / "again")
    assert (tmp_path / "again" / "selection.json").read_text() == OLD_SELECTION


@pytest.mark.parametrize("counts", [3, "2", [-1], [1.5], [True], ["2"], [2**70], None])
def test_a_damaged_number_of_inputs_is_refused(regression, tmp_path, counts):
    daskfs.select(regression, daskfs.SparseRandomFeatures(rounds=1, per_round=20)).save(tmp_path / "run")
    file = tmp_path / "run" / "selection.json"
    record = json.loads(file.read_text())
    record["random_features"]["inputs_per_feature"] = counts
    file.write_text(json.dumps(record))
    with pytest.raises(SelectionError, match="the selection is damaged"):
        daskfs.load_selection(tmp_path / "run")
