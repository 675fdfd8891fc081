"""Selections as plain scikit-learn models, in a process that has no daskfs."""

from __future__ import annotations

import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest

import daskfs
from daskfs.errors import OptionError

WAVES = {"rounds": 2, "per_round": 50}
NAMES = [f"gene {column}" for column in range(12)]
CASES = {
    "numbers": (daskfs.OnlineSubstitution(3), "numbers", "LinearRegression"),
    "two classes, squared": (daskfs.OnlineSubstitution(3, "squared"), "two", "SGDClassifier"),
    "two classes, squared hinge": (daskfs.OnlineSubstitution(3, "squared_hinge"), "two", "LinearSVC"),
    "two classes, logistic": (daskfs.Mission(3, width=2**10), "two", "LogisticRegression"),
    "two classes, softmax": (daskfs.Mission(3, "softmax", width=2**10), "two", "LogisticRegression"),
    "three classes": (daskfs.Mission(3, "softmax", width=2**10), "three", "LogisticRegression"),
    "waves, numbers": (daskfs.SparseRandomFeatures(**WAVES), "numbers", "LinearRegression"),
    "waves, three classes": (daskfs.SparseRandomFeatures(loss="logistic", **WAVES), "three", "SGDClassifier"),
    "rough waves": (daskfs.SparseRandomFeatures("laplacian", loss="squared_hinge", **WAVES), "two", "LinearSVC"),
    "standard scale": (
        daskfs.SparseRandomFeatures(scaling="standard", loss="squared", **WAVES),
        "two",
        "SGDClassifier",
    ),
}


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(300, 12))
    X[:, 5] = 3  # scaled by 0
    targets = {
        "numbers": np.sin(X[:, 3]) + X[:, 1],
        "two": X[:, 3] > X[:, 7],
        "three": np.array(["a", "b", "c"])[np.argmax(X[:, :3], axis=1)],
    }
    return pd.DataFrame(X, columns=NAMES), targets


@pytest.fixture(scope="module")
def served(data, tmp_path_factory):
    """Every case: its selection, and what its pickled model says in a process that cannot import daskfs."""
    folder = tmp_path_factory.mktemp("served")
    (X, targets), selections, models = data, {}, {}
    for case, (algorithm, target, _) in CASES.items():
        daskfs.write_dataset(folder / case, X, targets[target], layout=algorithm.axis)
        selections[case] = daskfs.select(folder / case, algorithm)
        model = selections[case].to_sklearn()
        joblib.dump(model, folder / f"{case}.joblib")
        models[case] = [str(name) for name in getattr(model, "feature_names_in_", [])]
    joblib.dump((X, models), folder / "data.joblib")
    program = (
        "import sys, joblib\n"
        "sys.modules['daskfs'] = None\n"
        "X, models = joblib.load('data.joblib')\n"
        "said = {}\n"
        "for case, names in models.items():\n"
        "    model = joblib.load(case + '.joblib')\n"
        "    scores = getattr(model, 'decision_function', model.predict)(X[names])\n"
        "    sure = model.predict_proba(X[names]) if hasattr(model, 'predict_proba') else None\n"
        "    last = type(model[-1] if hasattr(model, 'steps') else model).__name__\n"
        "    said[case] = last, scores, model.predict(X[names]), sure\n"
        "joblib.dump(said, 'said.joblib')\n"
        "assert not any(name.startswith('daskfs') for name in sys.modules if sys.modules[name])\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, cwd=folder)
    return selections, joblib.load(folder / "said.joblib")


@pytest.mark.parametrize("case", CASES)
def test_it_says_the_same_where_daskfs_is_not(case, served, data):
    (X, _), selection, (model, scores, labels, sure) = data, served[0][case], served[1][case]
    ours = selection.decision_function(X)
    if ours.shape != scores.shape:  # two classes by softmax have one score there
        ours = ours[:, 1] - ours[:, 0]
    tolerance = 1e-12 if selection.inputs is None else 1e-5
    np.testing.assert_allclose(scores, ours, atol=tolerance * np.abs(ours).max(), rtol=0)
    assert model == CASES[case][2]
    if selection.classes is not None:
        assert np.array_equal(labels, selection.predict(X))
    loss = selection.loss
    assert (sure is not None) == (loss in ("logistic", "softmax"))
    if sure is not None:
        if scores.ndim == 1:
            odds = np.stack([np.ones(len(ours)), np.exp(ours)], axis=1)
        else:
            odds = np.exp(ours) if loss == "softmax" else 1 / (1 + np.exp(-ours))
        np.testing.assert_allclose(sure, odds / odds.sum(axis=1, keepdims=True), atol=1e-4)


def test_the_columns_it_takes(served):
    chosen, waves = served[0]["numbers"].to_sklearn(), served[0]["waves, numbers"].to_sklearn()
    assert chosen.feature_names_in_.tolist() == served[0]["numbers"].names
    assert chosen.n_features_in_ == 3
    assert waves.feature_names_in_.tolist() == NAMES


def test_numbered_columns_need_no_names(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 5))
    daskfs.write_dataset(tmp_path / "X", X, X[:, 1] - X[:, 3])
    selection = daskfs.select(tmp_path / "X", daskfs.OnlineSubstitution(2))
    model = daskfs.load_selection(_saved(selection, tmp_path)).to_sklearn()
    np.testing.assert_allclose(model.predict(X[:, selection.features]), selection.predict(X), atol=1e-12)


def _saved(selection, folder):
    selection.save(folder / "run")
    return folder / "run"


def test_what_scikit_learn_has_not(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 5))
    daskfs.write_dataset(tmp_path / "X", X, X[:, 1] * X[:, 3] > 0, layout="rows")
    steps = daskfs.select(tmp_path / "X", daskfs.SparseRandomFeatures("perceptron", **WAVES))
    with pytest.raises(OptionError, match="perceptron"):
        steps.to_sklearn()
    pairs = daskfs.select(tmp_path / "X", daskfs.Mission(2, width=2**10, interactions="all"))
    with pytest.raises(OptionError, match="products"):
        pairs.to_sklearn()
