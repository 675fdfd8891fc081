"""Sparse Random Features: against the listing and other solvers, and what users rely on."""

from __future__ import annotations

import json
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from algorithms.smooth_rows import smooth, unseen, written
from reference import sparse_random_features as reference
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

import daskfs
from daskfs.algorithms.random_features import scale, sums
from daskfs.algorithms.random_features.inputs import LINEAR_DEVIATION, WINDOW_CELLS, held_back_mask, row_windows
from daskfs.algorithms.random_features.models import begin_choice
from daskfs.algorithms.random_features.state import Quadratic, ScoreModel
from daskfs.basis import LINEAR
from daskfs.errors import OptionError, SelectionError
from daskfs.protocol import Meta, RowBlock
from daskfs.sklearn import SparseRandomFeaturesRegressor

LOSSES = ("squared", "squared_hinge", "logistic")


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    return written(tmp_path_factory.mktemp("srf"), *smooth())


@pytest.fixture(scope="module")
def two_classes(tmp_path_factory):
    X, score = smooth()
    return written(tmp_path_factory.mktemp("srf"), X, np.where(score > np.median(score), "high", "low"))


def plain(**fields):
    """As the paper has it, inputs and target as they are."""
    paper = {"penalty": 1.0, "gamma": 1.0, "scaling": "none", "screen": False, "linear": False}
    return daskfs.SparseRandomFeatures(**(paper | {"inputs_per_feature": None} | fields))


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
        lambda ids: basis.features(ids).expand(X.astype(np.float32)), y, penalty, rounds, per_round
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


@pytest.mark.parametrize("scaling", ["none", "unit", "standard"])
@pytest.mark.parametrize("loss", LOSSES)
def test_linear_terms_are_penalised_by_their_deviation(tmp_path, loss, scaling):
    X, score = smooth()
    X = X * [1, 0.01, 1, 100, 1] + [0, 50, 0, 0, 0]
    y = score + X[:, 3] / 100
    dataset = written(tmp_path, X, y if loss == "squared" else np.where(y > np.median(y), 1.0, 0.0))
    given = daskfs.select(dataset, plain(linear=True, screen=True, loss=loss, scaling=scaling, rounds=4, per_round=25))
    is_column = np.array([name.startswith("x") for name in given.names])
    assert 0 < is_column.sum() < len(is_column)
    assert "x3" in given.names
    assert [f"x{feature - LINEAR}" for feature in given.features[is_column].tolist()] == np.array(given.names)[
        is_column
    ].tolist()
    Phi = given.transform(dataset).astype(np.float64)
    scaled = (X - given.inputs.expansion.offset) * given.inputs.expansion.scale
    columns = (given.features[is_column] - LINEAR).astype(int)
    np.testing.assert_allclose(Phi[:, is_column], scaled[:, columns], rtol=1e-4, atol=1e-6)
    contributions = np.abs(given.weights) * Phi.std(axis=0)
    np.testing.assert_allclose(given.importance, contributions / contributions.sum(), rtol=0.1, atol=1e-4)
    assert (np.diff(given.importance) <= 0).all()
    spread = np.where(is_column, Phi.std(axis=0) / LINEAR_DEVIATION[loss], 1.0)
    scale = np.ptp(y) if loss == "squared" and scaling != "none" else 1.0  # the target is scaled to [0, 1]
    losses = objective(given, dataset, loss, 0.0) / scale**2
    expected = losses + np.abs(given.weights * spread).sum() / scale
    np.testing.assert_allclose(given.history.objective.values[-1] * len(y), expected, rtol=1e-3)


def test_linear_terms_are_no_worse_than_a_straight_line():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 10)) * np.geomspace(1e-3, 1e3, 10) + 5
    y = X @ (rng.normal(size=10) / np.geomspace(1e-3, 1e3, 10)) + 2 * rng.normal(size=1300)
    line = LinearRegression().fit(X[:300], y[:300]).score(X[300:], y[300:])
    scores = {}
    for linear in (True, False):
        model = SparseRandomFeaturesRegressor(linear=linear, penalty=3.0, rounds=5, per_round=60).fit(X[:300], y[:300])
        with warnings.catch_warnings(action="ignore"):  # rows outside the range
            scores[linear] = model.score(X[300:], y[300:])
    assert scores[True] > line - 0.01
    assert scores[False] < line - 0.02


def test_gamma_and_penalty_are_chosen_together():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1500, 2))
    X[:2] = [0, 0], [1, 1]  # so that no row is outside the range
    truth = np.sin(25 * X[:, 0]) + X[:, 1]
    y = truth + 0.3 * rng.normal(size=1500)
    fields = {"rounds": 3, "per_round": 100}
    model = SparseRandomFeaturesRegressor(**fields).fit(X[:600], y[:600])
    fixed = SparseRandomFeaturesRegressor(**fields, gamma=model.selection_.chosen["gamma"] / 16, penalty=0.1)
    assert model.score(X[600:], truth[600:]) > 0.95
    assert fixed.fit(X[:600], y[:600]).score(X[600:], truth[600:]) < 0.8  # the median heuristic alone
    assert model.selection_.chosen["penalty"] > 0
    assert fixed.selection_.chosen == {}
    smoothest = SparseRandomFeaturesRegressor(**fields).fit(X[:600], X[:600, 1] ** 2 + 0.1 * rng.normal(size=600))
    assert smoothest.selection_.chosen["gamma"] <= model.selection_.chosen["gamma"] / 4


def test_smaller_penalties_are_tried_after_some_that_are_worse(monkeypatch):
    X, y = smooth(300)
    penalties = []
    for errors in ([1.0, *[9.0] * 14], [5.0, 6.0, 7.0, 8.0, 1.0, *[9.0] * 10]):
        monkeypatch.setattr(scale, "_errors", lambda *_, errors=errors: iter(errors))
        model = SparseRandomFeaturesRegressor(gamma=1.0, rounds=1, per_round=10).fit(X, y)
        penalties.append(model.selection_.chosen["penalty"])
    assert penalties[1] == pytest.approx(0.6**4 * penalties[0])


def test_the_loss_is_that_of_the_target(tmp_path):
    X, score = smooth(200)
    targets = {"squared": score, "logistic": np.round(2 * (score - score.min()))}
    for loss, y in targets.items():
        (tmp_path / loss).mkdir()
        given = daskfs.select(written(tmp_path / loss, X, y), daskfs.SparseRandomFeatures(rounds=1, per_round=20))
        assert given.chosen["loss"] == loss
        assert (given.classes is None) == (loss == "squared")


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


def of_liblinear_logistic(Phi, y, penalty):
    model = LogisticRegression(
        l1_ratio=1, C=1 / penalty, solver="liblinear", tol=1e-8, max_iter=100_000, intercept_scaling=100
    )
    return model.fit(Phi, y)


def of_saga(Phi, y, penalty):
    return LogisticRegression(l1_ratio=1, C=1 / penalty, solver="saga", tol=1e-9, max_iter=50_000).fit(Phi, y)


@pytest.mark.parametrize(
    ("loss", "other"),
    [("squared_hinge", of_liblinear), ("logistic", of_liblinear_logistic), ("logistic", of_saga)],
)
def test_no_other_solver_finds_a_lower_objective(two_classes, loss, other):
    penalty = 1.0
    given = daskfs.select(two_classes, plain(loss=loss, rounds=1, per_round=30, penalty=penalty, tolerance=1e-6))
    X, y = two_classes.to_xarray().X.values, np.where(two_classes.to_xarray().y.values == 1, 1, -1)
    Phi = given.inputs.basis.features(np.arange(30, dtype=np.uint64)).expand(X.astype(np.float32)).astype(np.float64)
    model = other(Phi, y, penalty)
    margin = y * (Phi @ model.coef_[0] + model.intercept_)
    losses = np.square(np.maximum(1 - margin, 0)) / 2 if loss == "squared_hinge" else np.logaddexp(0, -margin)
    theirs = losses.sum() + penalty * np.abs(model.coef_).sum()
    ours = given.history.objective.values[-1] * len(y)
    assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "perceptron"])
def test_what_no_straight_line_explains_is_found_with_the_inputs_that_matter(regression, kernel):
    given = daskfs.select(regression, daskfs.SparseRandomFeatures(kernel, penalty=0.03, rounds=6))
    X, y = unseen()
    assert given.score(X, y) > 0.9
    assert set(given.input_importance.input.values[:2]) == {"x0", "x3"}
    assert given.input_importance.values[:2].sum() > 0.7
    assert given.input_importance.values.sum() == pytest.approx(1)


def three_classes():
    X, _ = smooth()
    return X, np.where(X[:, 0] * X[:, 1] > 0.3, "both", np.where(np.abs(X[:, 2] - 0.5) > 0.3, "edge", "none"))


@pytest.mark.parametrize("loss", LOSSES)
def test_several_classes_of_text(tmp_path, loss):
    dataset = written(tmp_path, *three_classes())
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
def test_exactly_k_features_of_several_classes(tmp_path, loss):
    dataset = written(tmp_path, *three_classes())
    given = daskfs.select(dataset, daskfs.SparseRandomFeatures(loss=loss, n_select=40, rounds=4, per_round=100))
    assert given.weights.shape == (40, 3)
    assert given.score(dataset) > 0.9


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_round_of_newtons_method_takes_five_passes_at_most(two_classes, loss):
    algorithm = daskfs.SparseRandomFeatures(loss=loss, penalty=0.1, rounds=6, per_round=60)
    history = daskfs.select(two_classes, algorithm).history
    rounds, passes = np.unique(history["round"].values, return_counts=True)
    # What ends a round ends with a record of the next one; the last has the passes that settle the weights, too.
    assert len(rounds) > 3
    assert (passes[1:-1] <= 1 + 5).all(), "one that screens, and those of Newton's method"


@pytest.mark.filterwarnings("ignore:.*away from optimal")
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
    np.testing.assert_array_equal(again.input_importance.values, given.input_importance.values)
    assert (tmp_path / "run" / "selection.json").stat().st_size < 140 * len(given.features) + 200 * 5 + 1000
    other = daskfs.select(regression, daskfs.SparseRandomFeatures(rounds=3, penalty=0.1), seed=4)
    assert other.decision_function(X).tobytes() != given.decision_function(X).tobytes()


@pytest.mark.parametrize("loss", LOSSES)
def test_row_weights_count_as_repeated_rows(loss):
    X, y = smooth(300)
    y = y if loss == "squared" else np.where(y > np.median(y), 1.0, 0.0)
    weight = np.random.default_rng(2).integers(0, 4, 300)
    algorithm = daskfs.SparseRandomFeatures(
        loss=loss, penalty=1.0, rounds=2, per_round=30, gamma=1.0, scaling="none", tolerance=1e-6
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
    by_id, other = np.argsort(weighted.features), np.argsort(repeated.features)  # importance is that of a sample
    assert weighted.features[by_id].tolist() == repeated.features[other].tolist()
    np.testing.assert_allclose(weighted.weights[by_id], repeated.weights[other], rtol=0.02, atol=1e-3)


def fitted(algorithm, X, y, weight=None, classes=None):
    block, state = RowBlock(0, X, y, weight), algorithm.start(Meta("dense", *X.shape, X.size, 4, classes, 0), seed=0)
    go_on = True
    while go_on:
        state, go_on = algorithm.end_pass(algorithm.update(state, block))
    return algorithm.result(state)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_class_without_a_row_to_learn_from_does_no_harm_to_the_others(loss):
    X, score = smooth()
    y, weight = np.where(score > np.median(score), 1.0, 0.0), np.ones(600, np.float32)
    algorithm = daskfs.SparseRandomFeatures(loss=loss, rounds=3, per_round=60, penalty=0.5)
    weight[7] = 0
    two = fitted(algorithm, X, y, weight, (0.0, 1.0))
    y[7] = 2
    three = fitted(algorithm, X, y, weight, (0.0, 1.0, 2.0))
    assert three.history[-1]["objective"] == pytest.approx(2 * two.history[-1]["objective"], rel=1e-3)
    assert not three.weights[:, 2].any()
    assert three.intercept[2] <= -1


def test_rows_without_weight_are_refused():
    X, y = smooth(50)
    with pytest.raises(OptionError, match="every row has weight 0"):
        fitted(daskfs.SparseRandomFeatures(), X, y, np.zeros(50, np.float32))
    held_back = held_back_mask(np.arange(50), seed=0)
    assert held_back.any()
    with pytest.raises(OptionError, match="no row with a weight is left"):
        fitted(daskfs.SparseRandomFeatures(n_select=3), X, y, held_back.astype(np.float32))


def test_a_choice_without_rows_to_make_it_is_said():
    X, y = smooth(5)  # the seed holds none of them back
    given = fitted(daskfs.SparseRandomFeatures(penalty=0.01, rounds=3, per_round=20, n_select=3), X, y)
    assert any("too few rows to hold one back" in remark for remark in given.remarks)


@pytest.mark.parametrize("screen", [False, True])
@pytest.mark.parametrize("what", ["inputs", "target"])
def test_what_is_constant_has_no_penalty_and_no_features(screen, what):
    X, y = smooth()
    X, y = (np.ones_like(X), y) if what == "inputs" else (X, np.ones_like(y))
    given = fitted(daskfs.SparseRandomFeatures(penalty="auto", screen=screen, rounds=3, per_round=20), X, y)
    assert len(given.features) == 0
    np.testing.assert_allclose(given.intercept, y.mean(), atol=0.02)  # of the rows not held back


def test_features_without_a_weight_are_refitted_and_not_dropped():
    weights = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    algorithm = daskfs.SparseRandomFeatures(n_select=3)
    state = algorithm.start(Meta("dense", 9, 1, 9, 0, ("a", "b"), 0), seed=0)
    state.quadratic = Quadratic(
        np.stack([np.eye(3)] * 2), b=np.ones((3, 2)), s=np.zeros((3, 2)), n=np.ones(2), t=np.zeros(2)
    )
    state.pass_kind, state.total = "gram", 1.0
    state.active, state.model = np.arange(3, dtype=np.uint64), ScoreModel(weights, np.zeros(2))
    begin_choice(algorithm, state)
    assert len(state.models) == len(state.ridges)
    assert all(model.weights.any(axis=1).all() for model in state.models)


def test_any_whole_number_is_a_seed(regression):
    algorithm = daskfs.SparseRandomFeatures(rounds=1, per_round=20)
    given, other = (daskfs.select(regression, algorithm, seed=seed) for seed in (5, 2**64 + 5))
    assert given.weights.tobytes() == other.weights.tobytes()


WHOLE = [None, [], {}]
PARTS = [{"gamma": 10**400}, {"gamma": True}, {"gamma": -1.0}, {"seed": 0.5}, {"inputs": [1]}]
FIRST_INPUT = [{"offset": 10**400}, {"offset": [1, 2]}, {"scale": "1"}, {"low": None}, {"name": 3}]


@pytest.mark.parametrize(
    "damage",
    [
        *(lambda record, given=given: record.update(random_features=given) for given in WHOLE),
        *(lambda record, part=part: record["random_features"].update(part) for part in PARTS),
        *(lambda record, one=one: record["random_features"]["inputs"][0].update(one) for one in FIRST_INPUT),
        lambda record: record["features"][0].update(id=LINEAR + 5),
    ],
)
def test_a_damaged_model_is_refused(regression, tmp_path, damage):
    daskfs.select(regression, daskfs.SparseRandomFeatures(rounds=1, per_round=20)).save(tmp_path / "run")
    file = tmp_path / "run" / "selection.json"
    record = json.loads(file.read_text())
    damage(record)
    file.write_text(json.dumps(record))
    with pytest.raises(SelectionError, match="the selection is damaged"):
        daskfs.load_selection(tmp_path / "run")


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_gram_matrix_in_slices_is_the_same(regression, two_classes, loss, monkeypatch):
    dataset = regression if loss == "squared" else two_classes
    algorithm = daskfs.SparseRandomFeatures(loss=loss, rounds=2, per_round=40)
    whole = daskfs.select(dataset, algorithm)
    monkeypatch.setattr(sums, "GRAM_BYTES_PER_PASS", 4000)
    sliced = daskfs.select(dataset, algorithm)
    assert sliced.history.sizes["step"] > 1.5 * whole.history.sizes["step"]
    assert sliced.features.tolist() == whole.features.tolist()
    np.testing.assert_allclose(sliced.weights, whole.weights, rtol=1e-3, atol=1e-5)


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
    assert peak < 20_000 * 300 * 4 * 3  # far from an array of all features of all rows


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "n_classes"), [(1500, 3000, 0), (2500, 3, 400)])
def test_memory_is_as_promised_with_many_inputs_or_many_classes(n, d, n_classes):
    X = np.random.default_rng(0).uniform(size=(n, d)).astype(np.float32)
    classes = tuple(f"{number:03d}" for number in range(n_classes)) or None
    block = RowBlock(0, X, np.arange(n) % n_classes * 1.0 if n_classes else X[:, 0].astype(float))
    algorithm = daskfs.SparseRandomFeatures(penalty="auto", rounds=1, per_round=20)
    meta = Meta("dense", n, d, X.size, d - 1, classes, 0)
    state, go_on = algorithm.start(meta, seed=0), True
    tracemalloc.start()
    while go_on:
        state, go_on = algorithm.end_pass(algorithm.update(state, block))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < algorithm.nbytes(meta) < 150_000_000


def test_targets_of_many_classes_are_made_a_few_rows_at_a_time():
    n, classes = 50_000, tuple(f"{number:03d}" for number in range(100))
    algorithm = daskfs.SparseRandomFeatures()
    state = algorithm.start(Meta("dense", n, 1, n, 0, classes, 0), seed=0)
    block = RowBlock(0, np.ones((n, 1), np.float32), np.arange(n) % 100.0)
    assert max(rows.Y.nbytes for _, rows in row_windows(block, state)) <= 8 * WINDOW_CELLS


def test_rows_of_no_weight_do_not_decide_on_the_scale_of_the_target():
    X = np.random.default_rng(0).uniform(size=(400, 3))
    y, weight = np.sin(6 * X[:, 1]), np.ones(400)
    y[7], weight[7] = 1e4, 0.0
    model = SparseRandomFeaturesRegressor(penalty=0.05, rounds=3, per_round=60).fit(X, y, sample_weight=weight)
    assert model.score(X, y, sample_weight=weight) > 0.97
