"""What Sparse Random Features say of options, rows and targets that they cannot use, or that should be known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from algorithms.smooth_rows import smooth, unseen, written

import daskfs
from daskfs.errors import OptionError, RowError
from daskfs.protocol import Meta, RowBlock


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    return written(tmp_path_factory.mktemp("srf"), *smooth())


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_f22_a_value_that_is_not_finite_is_named_by_row_and_column(value):
    X, y = smooth(50)
    X[31, 2] = value
    algorithm = daskfs.SparseRandomFeatures()
    state = algorithm.start(Meta("dense", 150, 5, 750, 4, None, 0), seed=0)
    with pytest.raises(RowError, match=r"row 131, feature 2: the value (nan|inf) is not finite") as caught:
        algorithm.update(state, RowBlock(100, X, y))
    assert (caught.value.row, caught.value.feature) == (131, 2)


def test_too_many_columns_are_refused_before_anything_is_read():
    with pytest.raises(OptionError, match="20,000 columns: random features look at all of them"):
        daskfs.SparseRandomFeatures().start(Meta("sparse", 9, 9, 9, 19_999, None, 0), seed=0)


@pytest.mark.parametrize("screen", [True, False])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "perceptron"])
def test_a_penalty_that_lets_nobody_in_is_said(regression, kernel, screen):
    with pytest.warns(UserWarning, match=r"penalty=1e\+09 lets no feature in, .* it must be below \d"):
        given = daskfs.select(regression, daskfs.SparseRandomFeatures(kernel, penalty=1e9, screen=screen))
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
    assert set(given.input_importance.input.values[-2:]) == {"x1", "x2"}
    assert given.input_importance.values[-2:].tolist() == [0, 0]


def test_rows_outside_the_range_are_counted(regression):
    given = daskfs.select(regression, daskfs.SparseRandomFeatures(rounds=2))
    X, _ = unseen(100)
    X[:7, 3] += 5
    X[3, 0] = -2
    with pytest.warns(UserWarning, match=r"X: 7 of 100 rows have values outside .* in 'x3' \(7\)"):
        predicted = given.predict(X)
    assert np.isfinite(predicted).all()


@pytest.mark.filterwarnings("ignore:.*away from optimal")
@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "logistic"])
def test_features_that_hardly_differ_end_in_no_nonsense(tmp_path, loss):
    """Nine different rows: sums in float32 leave a Gram matrix that is far from positive beside so small a penalty."""
    rng = np.random.default_rng(2)
    X = rng.integers(0, 3, size=(5000, 2)).astype(float)
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=5000)
    daskfs.write_dataset(tmp_path / "d", X, y if loss == "squared" else y > 1.5, layout="rows")
    algorithm = daskfs.SparseRandomFeatures(penalty=1e-3, rounds=3, per_round=50, loss=loss)
    selection = daskfs.select(tmp_path / "d", algorithm)
    assert (selection.history.objective.values >= 0).all()
    assert selection.score(tmp_path / "d") > 0.99


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "perceptron"])
def test_huge_inputs_are_predicted_with_a_number(tmp_path, kernel):
    X = np.random.default_rng(0).uniform(size=(300, 3))
    daskfs.write_dataset(tmp_path / "d", X, X[:, 0] > X[:, 1], layout="rows")
    algorithm = daskfs.SparseRandomFeatures(kernel=kernel, loss="logistic", rounds=1, per_round=30)
    selection = daskfs.select(tmp_path / "d", algorithm)
    with pytest.warns(UserWarning, match="outside the range"):
        scores = selection.decision_function(np.array([[1e300, -1e300, 0.5], [1e39, 0.5, 0.5]]))
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("scaling", ["unit", "none"])
def test_a_target_beyond_all_numbers_is_refused_and_a_large_one_is_not(tmp_path, scaling):
    X, y = smooth(300)
    algorithm = daskfs.SparseRandomFeatures(rounds=1, per_round=30, scaling=scaling, penalty="auto")
    with pytest.raises(OptionError, match=r"the target has values of .*e\+160"):
        daskfs.select(written(tmp_path / "huge", X, y * 1e160), algorithm)
    large = y * (1e14 if scaling == "none" else 1e110)
    selection = daskfs.select(written(tmp_path / "large", X, large), algorithm)
    assert selection.score(X, large) > 0.85
    assert selection.input_importance.values.sum() == pytest.approx(1)


def test_a_penalty_too_small_for_the_sums_is_said(tmp_path):
    X, y = smooth(400)
    dataset = written(tmp_path, X, y > np.median(y))
    algorithm = daskfs.SparseRandomFeatures(loss="logistic", rounds=2, per_round=60, penalty=1e-5)
    with pytest.warns(UserWarning, match="times the penalty away from optimal: it is too small"):
        daskfs.select(dataset, algorithm)


def test_no_more_features_than_rows_carry(tmp_path):
    X, y = smooth(40)
    with pytest.warns(UserWarning, match="of the 60 asked for: so few rows carry no more"):
        daskfs.select(written(tmp_path, X, y), daskfs.SparseRandomFeatures(n_select=60, rounds=3))
