"""Online Substitution with more than two classes: one set of columns, a score for every class."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from reference import forward_backward as plain
from sklearn.linear_model import LogisticRegression

import daskfs
from daskfs.algorithms.losses import has_classes, loss_for
from daskfs.errors import OptionError
from daskfs.protocol import Meta

pytestmark = pytest.mark.kernels

LOSSES = ["softmax", "logistic", "squared", "squared_hinge"]
TRUE = [3, 11, 19, 30]


def problem(n=300, p=40, seed=0):
    """Four classes, of which each has the largest of four columns."""
    X = np.random.default_rng(seed).normal(size=(n, p))
    return X, np.array(["ash", "elm", "oak", "yew"])[X[:, TRUE].argmax(axis=1)]


def store(folder, X, y, **options):
    daskfs.write_dataset(folder / "d.zarr", X, y, overwrite=True, **options)
    return daskfs.open_dataset(folder / "d.zarr")


@pytest.mark.parametrize("loss", ["auto", *LOSSES])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_columns_that_tell_classes_apart(tmp_path, loss, kind):
    X, y = problem()
    X = ((X + 3) * np.geomspace(1e-3, 1e3, 40)).astype(np.float32)
    if kind == "dense":
        dataset = store(tmp_path, X, y, chunk_bytes=7 * 300 * 4)
    else:
        daskfs.write_dataset(tmp_path / "rows", sp.csr_array(X), y)
        dataset = daskfs.transpose(tmp_path / "rows", tmp_path / "columns", block_entries=2000)
    selection = daskfs.select(dataset, daskfs.OnlineSubstitution(4, loss=loss))
    assert sorted(selection.features.tolist()) == TRUE
    assert selection.weights.shape == (4, 4)
    assert selection.classes == ("ash", "elm", "oak", "yew")
    assert (selection.predict(X) == y).mean() > 0.9
    assert selection.loss == ("softmax" if loss == "auto" else loss)


@pytest.mark.parametrize("seed", range(4))
def test_no_exchange_of_two_columns_is_better(tmp_path, seed):
    """Squared loss: the set is one that plain numpy, which tries every exchange, cannot improve."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 12)) + rng.normal(size=(60, 1))
    y = (X[:, :5] @ rng.normal(size=(5, 3)) + 2 * rng.normal(size=(60, 3))).argmax(axis=1)
    algorithm = daskfs.OnlineSubstitution(4, loss="squared", ridge=0.5, passes=20)
    S = daskfs.select(store(tmp_path, X, y, chunk_bytes=5 * 60 * 8), algorithm).features.astype(int).tolist()
    Z, Y = plain.standardised(X), plain.indicators(y)
    assert plain.objective(Z, Y, S, 0.5)[0] <= plain.objective(Z, Y, plain.substitute(Z, Y, S, 0.5), 0.5)[0] + 1e-9


def test_squared_weights_are_those_of_the_indicators(tmp_path):
    X, y = problem()
    selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(4, loss="squared", ridge=0.3))
    S, Y = selection.features.astype(int), plain.indicators(y)
    scale = np.linalg.norm(X - X.mean(axis=0), axis=0)[S]
    W = plain.objective(plain.standardised(X), Y, S.tolist(), 0.3)[1] / scale[:, None]
    np.testing.assert_allclose(selection.weights, W, rtol=1e-8)
    np.testing.assert_allclose(selection.intercept, Y.mean(axis=0) - X[:, S].mean(axis=0) @ W, rtol=1e-8)


def test_softmax_weights_are_those_of_scikit_learn(tmp_path):
    X, y = problem(n=200)
    selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(4, ridge=0.2))
    S = selection.features.astype(int)
    scale = np.linalg.norm(X[:, S] - X[:, S].mean(axis=0), axis=0)
    fit = LogisticRegression(C=1 / 0.2, tol=1e-10, max_iter=5000).fit(X[:, S] / scale, y)
    np.testing.assert_allclose(selection.weights, (fit.coef_ / scale).T, atol=1e-3 * np.abs(selection.weights).max())
    shift = selection.intercept - fit.intercept_  # a constant for all classes changes nothing
    np.testing.assert_allclose(shift, shift[0], atol=2e-3)


def test_numbers_of_classes_and_row_weights(tmp_path):
    """Class numbers are names, whatever their order and distance; rows of weight 0 do not count."""
    X, y = problem()
    numbers = np.array([{"ash": 7.0, "elm": -3.0, "oak": 1000.0, "yew": 0.0}[name] for name in y])
    by_name, by_number = (daskfs.select(store(tmp_path, X, t), daskfs.OnlineSubstitution(4)) for t in (y, numbers))
    assert by_number.features.tolist() == by_name.features.tolist()
    assert by_number.classes == (-3.0, 0.0, 7.0, 1000.0)
    order = [list(by_number.classes).index(number) for number in (7.0, -3.0, 1000.0, 0.0)]
    np.testing.assert_allclose(by_number.weights[:, order], by_name.weights, rtol=1e-3)


@pytest.mark.parametrize(
    ("classes", "rows", "loss"),
    [
        (None, 100, "squared"),
        ((0.0, 1.0), 3, "logistic"),
        (("no", "yes"), 2, "logistic"),
        (tuple(map(float, range(10))), 1797, "softmax"),
        (tuple(map(float, range(32))), 96, "softmax"),
        (tuple(map(float, range(32))), 95, "squared"),
        (tuple(map(float, range(33))), 10**6, "squared"),  # such as an age
        (tuple(map(str, range(900))), 1000, "softmax"),
    ],
)
def test_what_is_a_class(classes, rows, loss):
    meta = Meta("dense", rows, 5, 5 * rows, 4, classes, 100)
    assert loss_for(meta) == loss
    assert has_classes(meta) == (loss != "squared")


def test_many_whole_numbers_are_a_number_with_a_remark(tmp_path):
    X = np.random.default_rng(0).normal(size=(2000, 6))
    age = np.clip(np.round(50 + 10 * X[:, 2]), 1, 99)
    with pytest.warns(UserWarning, match="whole numbers and is taken as a number; give the loss if they are classes"):
        selection = daskfs.select(store(tmp_path, X, age), daskfs.OnlineSubstitution(1))
    assert (selection.names, selection.loss, selection.classes) == (["x2"], "squared", None)
    assert selection.score(X, age) > 0.99
    daskfs.select(store(tmp_path, X, age), daskfs.OnlineSubstitution(1, loss="squared"))  # asked for by name


@pytest.mark.parametrize("synchronous", [True, False])
def test_two_workers(tmp_path, two_workers, synchronous):
    X, y = problem()
    dataset = store(tmp_path, X, y, chunk_bytes=3 * 300 * 8)
    shared = daskfs.select(dataset, daskfs.OnlineSubstitution(4), client=two_workers, synchronous=synchronous)
    alone = daskfs.select(dataset, daskfs.OnlineSubstitution(4))
    assert shared.features.tolist() == alone.features.tolist()
    np.testing.assert_allclose(shared.weights, alone.weights, rtol=1e-3)


@pytest.mark.parametrize("method", ["paper", "async"])
def test_the_published_methods_refuse_more_than_two_classes(tmp_path, method):
    X, y = problem()
    for loss, message in (("auto", "use method='block'"), ("squared", "numbers or two classes"), ("logistic", "has 4")):
        with pytest.raises(OptionError, match=message):
            daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(2, method=method, loss=loss))
