"""Sparse Random Features: against the listing and other solvers, and what users rely on."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from reference import sparse_random_features as reference
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import daskfs
from daskfs.algorithms import random_features_sums
from daskfs.errors import OptionError
from daskfs.protocol import Meta, RowBlock

LOSSES = ("squared", "squared_hinge", "logistic")


def smooth(n=600, seed=0, margin=0.0):
    """Five inputs of which two matter, together and in no straight line."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(margin, 1 - margin, size=(n, 5))
    return X, np.sin(5 * X[:, 0]) * X[:, 3] + 0.05 * rng.normal(size=n)


def unseen(n=600):
    """Rows that nobody has learned from, within the range of those that were."""
    return smooth(n, seed=1, margin=0.05)


def written(folder, X, y, **options):
    daskfs.write_dataset(folder / "d.zarr", X, y, **({"layout": "rows"} | options))
    return daskfs.open_dataset(folder / "d.zarr")


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    return written(tmp_path_factory.mktemp("srf"), *smooth())


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory):
    X, score = smooth()
    return written(tmp_path_factory.mktemp("srf"), X, np.where(score > np.median(score), "high", "low"))


def plain(**fields):
    """As the paper has it, inputs and target as they are."""
    return daskfs.SparseRandomFeatures(**({"gamma": 1.0, "scaling": "none", "screen": False} | fields))


def objective(selection, dataset, loss, penalty):
    """F of the weights as they were handed out, with scores in float64."""
    z = selection.transform(dataset).astype(np.float64) @ selection.weights + selection.intercept
    y = dataset.to_xarray().y.values
    if loss == "squared":
        losses = np.square(z - y) / 2
    else:
        margin = np.where(y == 1, 1.0, -1.0) * z
        losses = np.square(np.maximum(1 - margin, 0)) / 2 if loss == "squared_hinge" else np.logaddexp(0, -margin)
    return losses.sum() + penalty * np.abs(selection.weights).sum()


def test_the_listing_is_followed_to_the_letter(regression):
    rounds, per_round, penalty = 3, 15, 1.0
    given = daskfs.select(regression, plain(rounds=rounds, per_round=per_round, penalty=penalty, tolerance=1e-6))
    X, y = regression.to_xarray().X.values, regression.to_xarray().y.values
    basis = given.inputs.basis
    expected = reference.rounds(
        lambda ids: basis.drawn(ids).expand(X.astype(np.float32)), y, penalty, rounds, per_round
    )
    found = given.history.objective.values[1:] * len(y)
    np.testing.assert_allclose(found, [each[3] for each in expected], rtol=1e-5)
    ids, weights, intercept, _ = expected[-1]
    assert sorted(given.features.tolist()) == ids.tolist()
    order = np.argsort(given.features)
    np.testing.assert_allclose(given.weights[order], weights, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(given.intercept[0], intercept, atol=1e-3)


@pytest.mark.parametrize("screen", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_never_rises_and_is_that_of_the_weights(regression, two_classes, loss, screen):
    dataset = regression if loss == "squared" else two_classes
    given = daskfs.select(dataset, plain(loss=loss, screen=screen, rounds=4, per_round=25, penalty=0.5))
    values = given.history.objective.values
    assert (np.diff(values) <= 1e-6 * values[0]).all()
    assert values[-1] < 0.7 * values[0]
    np.testing.assert_allclose(values[-1] * dataset.n_samples, objective(given, dataset, loss, 0.5), rtol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_superset_is_no_worse_than_its_subset(regression, two_classes, loss):
    dataset = regression if loss == "squared" else two_classes
    few, more = (
        daskfs.select(dataset, plain(loss=loss, rounds=1, per_round=count, tolerance=1e-6)) for count in (20, 60)
    )
    assert more.history.objective.values[-1] <= few.history.objective.values[-1] * (1 + 1e-6)


def of_liblinear(Phi, y, penalty):
    """With a huge intercept scaling its penalty on the intercept is next to nothing."""
    model = LinearSVC(penalty="l1", dual=False, C=1 / (2 * penalty), tol=1e-8, max_iter=100_000, intercept_scaling=100)
    return model.fit(Phi, y)


def of_saga(Phi, y, penalty):
    return LogisticRegression(l1_ratio=1, C=1 / penalty, solver="saga", tol=1e-9, max_iter=50_000).fit(Phi, y)


@pytest.mark.parametrize(("loss", "other"), [("squared_hinge", of_liblinear), ("logistic", of_saga)])
def test_no_other_solver_finds_a_lower_objective(two_classes, loss, other):
    penalty = 1.0
    given = daskfs.select(two_classes, plain(loss=loss, rounds=1, per_round=30, penalty=penalty, tolerance=1e-6))
    X, y = two_classes.to_xarray().X.values, np.where(two_classes.to_xarray().y.values == 1, 1, -1)
    Phi = given.inputs.basis.drawn(np.arange(30, dtype=np.uint64)).expand(X.astype(np.float32)).astype(np.float64)
    model = other(Phi, y, penalty)
    margin = y * (Phi @ model.coef_[0] + model.intercept_)
    losses = np.square(np.maximum(1 - margin, 0)) / 2 if loss == "squared_hinge" else np.logaddexp(0, -margin)
    theirs = losses.sum() + penalty * np.abs(model.coef_).sum()
    ours = given.history.objective.values[-1] * len(y)
    assert ours <= theirs * (1 + 1e-5)
    assert ours >= theirs * (1 - 1e-2)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "perceptron"])
def test_what_no_straight_line_explains_is_found_with_the_inputs_that_matter(regression, kernel):
    given = daskfs.select(regression, daskfs.SparseRandomFeatures(kernel, penalty=0.03, rounds=6))
    X, y = unseen()
    assert given.score(X, y) > 0.9
    assert set(given.importance.input.values[:2]) == {"x0", "x3"}
    assert given.importance.values[:2].sum() > 0.7
    assert given.importance.values.sum() == pytest.approx(1)


@pytest.mark.parametrize("loss", LOSSES)
def test_several_classes_of_text(tmp_path, loss):
    X, _ = smooth()
    y = np.where(X[:, 0] * X[:, 1] > 0.3, "both", np.where(np.abs(X[:, 2] - 0.5) > 0.3, "edge", "none"))
    dataset = written(tmp_path, X, y)
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(loss=loss, penalty=0.3, rounds=4, per_round=100))
    assert given.classes == ("both", "edge", "none")
    assert given.weights.shape == (len(given.features), 3)
    assert given.score(dataset) > 0.93


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [1, 7, 40])
def test_exactly_k_features(regression, two_classes, loss, k):
    dataset = regression if loss == "squared" else two_classes
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(loss=loss, n_select=k, rounds=6, per_round=60))
    assert len(given.features) == len(set(given.features.tolist())) == k
    if k == 40:
        X, y = unseen()
        truth = y if loss == "squared" else np.where(y > np.median(y), "high", "low")
        assert given.score(X, truth) > 0.85


@pytest.mark.parametrize("loss", LOSSES)
def test_the_penalty_is_chosen_on_rows_held_back(tmp_path, loss):
    X, score = smooth(400)
    y = score + np.random.default_rng(3).normal(size=400)
    dataset = written(tmp_path, X, y if loss == "squared" else np.where(y > np.median(y), "high", "low"))
    new, truth = unseen(2000)
    scores = {}
    for penalty in ("auto", 0.001):
        given = daskfs.select(dataset, daskfs.SparseRandomFeatures(loss=loss, penalty=penalty, rounds=5, per_round=60))
        z = given.decision_function(new)
        scores[penalty] = np.corrcoef(z if loss == "squared" else -z, truth)[0, 1]
    assert scores["auto"] > scores[0.001] + 0.05  # the small one explains the noise


def test_a_saved_model_is_integers_and_weights(regression, tmp_path):
    given = daskfs.select(regression, daskfs.SparseRandomFeatures(rounds=3, penalty=0.1), seed=3)
    given.save(tmp_path / "run")
    again = daskfs.load_selection(tmp_path / "run")
    X, _ = unseen()
    assert again.decision_function(X).tobytes() == given.decision_function(X).tobytes()
    assert again.transform(X).shape == (len(X), len(given.features))
    np.testing.assert_array_equal(again.importance.values, given.importance.values)
    assert (tmp_path / "run" / "selection.json").stat().st_size < 100 * len(given.features) + 200 * 5 + 1000
    other = daskfs.select(regression, daskfs.SparseRandomFeatures(rounds=3, penalty=0.1), seed=4)
    assert other.decision_function(X).tobytes() != given.decision_function(X).tobytes()


@pytest.mark.parametrize("loss", LOSSES)
def test_row_weights_count_as_repeated_rows(loss):
    X, y = smooth(300)
    y = y if loss == "squared" else np.where(y > np.median(y), 1.0, 0.0)
    weight = np.random.default_rng(2).integers(0, 4, 300)
    algorithm = daskfs.SparseRandomFeatures(
        loss=loss, rounds=2, per_round=30, gamma=1.0, scaling="none", tolerance=1e-6
    )

    def fitted(*rows):
        block = RowBlock(0, *rows)
        classes = None if loss == "squared" else (0.0, 1.0)
        state, go_on = algorithm.start(Meta("dense", len(block.y), 5, block.X.size, 4, classes, 0), seed=0), True
        while go_on:
            state, go_on = algorithm.end_pass(algorithm.update(state, block))
        return algorithm.result(state)

    weighted = fitted(X, y, weight.astype(np.float32))
    repeated = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.features.tolist() == repeated.features.tolist()
    np.testing.assert_allclose(weighted.weights, repeated.weights, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_grams_in_panels_are_the_gram(regression, two_classes, loss, monkeypatch):
    dataset = regression if loss == "squared" else two_classes
    algorithm = daskfs.SparseRandomFeatures(loss=loss, rounds=2, per_round=40)
    whole = daskfs.select(dataset, algorithm)
    monkeypatch.setattr(random_features_sums, "PANEL_BYTES", 4000)
    paneled = daskfs.select(dataset, algorithm)
    assert paneled.history.sizes["step"] > 1.5 * whole.history.sizes["step"]
    assert paneled.features.tolist() == whole.features.tolist()
    np.testing.assert_allclose(paneled.weights, whole.weights, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("scaling", ["unit", "standard"])
def test_scales_of_inputs_and_of_the_target_do_not_matter(tmp_path, scaling):
    X, y = smooth()
    scores = []
    for number, (a, b, c) in enumerate([(1, 0, 1), (1e-4, 1, 1e7)]):
        (tmp_path / str(number)).mkdir()
        dataset = written(tmp_path / str(number), a * X + b, c * y - 3 * c)
        scores.append(daskfs.select(dataset, daskfs.SparseRandomFeatures(scaling=scaling, rounds=4)).score(dataset))
    assert scores[0] > 0.9
    assert scores[1] == pytest.approx(scores[0], abs=0.01)


@pytest.mark.parametrize("screen", [False, True])
@pytest.mark.parametrize("scaling", ["unit", "none"])
def test_a_target_far_from_zero_is_met_as_well_as_one_around_it(tmp_path, scaling, screen):
    """Squares of the target, and float32 products with it, have no digits left for what differs between rows."""
    X, y = smooth()
    algorithm = daskfs.SparseRandomFeatures(scaling=scaling, screen=screen, gamma=1.0, rounds=3, per_round=40)
    found = []
    for number, far in enumerate([0, 1e7]):
        (tmp_path / str(number)).mkdir()
        dataset = written(tmp_path / str(number), X, y + far)
        given = daskfs.select(dataset, algorithm)
        found.append((given.score(dataset), given.history.objective.values[-1]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3)


def test_sparse_rows_are_seen_as_dense_ones(tmp_path):
    X, y = smooth()
    X[X < 0.4] = 0
    X = X.astype(np.float32)
    algorithm = daskfs.SparseRandomFeatures(rounds=2, per_round=40)
    (tmp_path / "s").mkdir()
    dense, sparse = (
        daskfs.select(written(at, M, y), algorithm) for at, M in ((tmp_path, X), (tmp_path / "s", sp.csr_array(X)))
    )
    assert dense.features.tolist() == sparse.features.tolist()
    assert dense.weights.tobytes() == sparse.weights.tobytes()


def test_memory_is_as_promised_whatever_the_number_of_rows(tmp_path):
    X, y = smooth(20_000)
    dataset = written(tmp_path, X, y, chunk_bytes=200_000)
    algorithm = daskfs.SparseRandomFeatures(rounds=2, per_round=100, max_features=300)
    daskfs.select(dataset, algorithm)
    tracemalloc.start()
    daskfs.select(dataset, algorithm)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < algorithm.nbytes(dataset.meta) + 3 * dataset.meta.block_nbytes + 2_000_000
    assert peak < 20_000 * 300 * 4 * 2  # far from an array of all features of all rows


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "perceptron"])
def test_a_penalty_that_lets_nobody_in_is_said(regression, kernel):
    with pytest.warns(UserWarning, match=r"penalty=1e\+09 lets no feature in, .* it must be below \d"):
        given = daskfs.select(regression, daskfs.SparseRandomFeatures(kernel, penalty=1e9))
    assert len(given.features) == 0
    y = regression.to_xarray().y.values
    np.testing.assert_allclose(given.predict(regression), y.mean(), rtol=1e-6)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"penalty": 0}, "penalty=0: must be a number above 0"),
        ({"penalty": -1.0}, "penalty"),
        ({"penalty": math.nan}, "penalty"),
        ({"gamma": 0}, "gamma"),
        ({"kernel": "cosine"}, "kernel"),
        ({"loss": "softmax"}, "loss"),
        ({"scaling": "log"}, "scaling"),
        ({"rounds": 0}, "rounds"),
        ({"per_round": 1.5}, "per_round"),
        ({"n_select": 0}, "n_select"),
        ({"n_select": 50, "max_features": 40}, "max_features"),
        ({"tolerance": 0}, "tolerance"),
    ],
)
def test_wrong_options_are_refused(fields, message):
    with pytest.raises(OptionError, match=message):
        daskfs.SparseRandomFeatures(**fields)


def test_one_class_alone_and_a_real_target_for_classes_are_refused(tmp_path, regression):
    X, _ = smooth(50)
    with pytest.raises(OptionError, match="nothing to tell apart"):
        daskfs.select(written(tmp_path, X, np.full(50, "same")), daskfs.SparseRandomFeatures(loss="logistic"))
    with pytest.raises(OptionError, match="takes classes"):
        daskfs.select(regression, daskfs.SparseRandomFeatures(loss="squared_hinge"))


def test_constant_columns_do_no_harm(tmp_path):
    X, y = smooth()
    X[:, 1], X[:, 2] = 0, 7
    given = daskfs.select(written(tmp_path, X, y), daskfs.SparseRandomFeatures(rounds=4))
    assert given.score(X, y) > 0.9
    assert set(given.importance.input.values[-2:]) == {"x1", "x2"}
    assert given.importance.values[-2:].tolist() == [0, 0]


def test_rows_outside_the_range_are_counted(regression):
    given = daskfs.select(regression, daskfs.SparseRandomFeatures(rounds=2))
    X, _ = unseen(100)
    X[:7, 3] += 5
    X[3, 0] = -2
    with pytest.warns(UserWarning, match=r"X: 7 of 100 rows have values outside .* in 'x3' \(7\)"):
        given.predict(X)
