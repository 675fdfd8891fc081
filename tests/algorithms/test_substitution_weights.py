"""The ridge of the selection, the ridge of the weights, and importance, against plain numpy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from reference import forward_backward as plain
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import daskfs
from daskfs.algorithms.losses import CODE, row_losses
from daskfs.algorithms.substitution.final_fit import LeftOut, fit, leave_one_out
from daskfs.algorithms.substitution.selected_set import SelectedSet

pytestmark = pytest.mark.kernels


def store(folder, X, y):
    daskfs.write_dataset(folder / "d.zarr", X, y, overwrite=True)
    return daskfs.open_dataset(folder / "d.zarr")


def fitted(X, y, loss, ridge):
    """A selected set of all columns, already standardised, and an intercept."""
    n, k = X.shape
    selected = SelectedSet.empty(n, k, 8, CODE[loss], intercept=True, n_scores=len(y), ridge=ridge)
    selected.X[:, 1:], selected.target[:], selected.k, selected.ids[1:] = X, y, k + 1, np.arange(k)
    fit(selected)
    return selected


@pytest.mark.parametrize("n_scores", [1, 3])
def test_importance_is_what_the_objective_falls_by_one_feature_after_the_other(tmp_path, n_scores):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 10)) + rng.normal(size=(80, 1))
    score = X[:, :4] @ rng.normal(size=(4, 3)) + rng.normal(size=(80, 3))
    y, ridge = score[:, 0] if n_scores == 1 else score.argmax(axis=1), 0.3
    algorithm = daskfs.OnlineSubstitution(5, loss="squared", ridge=ridge)
    selection = daskfs.select(store(tmp_path, X, y), algorithm)
    Y = y[:, None] if n_scores == 1 else plain.indicators(y)
    order, falls = plain.ranking(plain.standardised(X), Y, selection.features.astype(int).tolist(), ridge)
    assert selection.features.tolist() == order
    np.testing.assert_allclose(selection.importance, falls / falls.sum(), rtol=1e-6)


def objective(columns, y, loss, ridge):
    """The loss and penalty of scikit-learn's fit, where each row of y is told apart from the other rows, or softmax."""
    if not columns.shape[1]:
        columns = np.zeros((len(columns), 1))
    total = 0.0
    for target in [y] if loss == "softmax" else plain.indicators(y).T[1 if len(np.unique(y)) == 2 else 0 :]:
        fit = LogisticRegression(C=1 / ridge, tol=1e-8, max_iter=3000).fit(columns, target)
        total -= fit.predict_log_proba(columns)[np.arange(len(y)), np.searchsorted(fit.classes_, target)].sum()
        total += ridge / 2 * (fit.coef_**2).sum()
    return total


@pytest.mark.parametrize(
    ("n_classes", "loss", "ridge", "within"),
    [(2, "logistic", 0.2, 0.01), (2, "logistic", 0.001, 0.01), (3, "softmax", 0.4, 0.05), (3, "logistic", 0.2, 0.05)],
)
def test_importance_of_classes_is_what_refits_of_the_first_features_gain(tmp_path, n_classes, loss, ridge, within):
    """Against scikit-learn's fits of the first m features, with a ridge of at least 0.2; importances are distinct."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 8)) + 0.5 * rng.normal(size=(400, 1))
    score = X @ rng.normal(size=(8, n_classes)) + 0.5 * rng.gumbel(size=(400, n_classes))
    y = score.argmax(axis=1)
    selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(6, ridge=ridge, loss=loss))
    Z = plain.standardised(X)[:, selection.features.astype(int)]
    objectives = [objective(Z[:, :m], y, loss, max(ridge, 0.2)) for m in range(7)]
    falls = -np.diff(objectives)
    np.testing.assert_allclose(selection.importance, falls / falls.sum(), rtol=within, atol=within / 10)
    assert len(np.unique(selection.importance)) == 6


def test_importance_of_many_rows_is_that_of_a_part_of_them(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(9000, 6)).astype(np.float32)
    y = X @ [2, 1.5, 1, 0.7, 0.5, 0.3] + rng.logistic(size=9000) > 0
    selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(6, ridge=0.2))
    assert selection.features.tolist() == [0, 1, 2, 3, 4, 5]
    Z = plain.standardised(X)[::3]  # at most 4,096 rows
    falls = -np.diff([objective(Z[:, :m], y[::3], "logistic", 0.2 / 3) for m in range(7)])
    np.testing.assert_allclose(selection.importance, falls / falls.sum(), rtol=0.01)


def test_the_first_of_two_copies_of_the_truth_is_a_good_set(tmp_path):
    """Without one of two similar columns next to nothing is lost; the better one comes first all the same."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 5))
    X[:, 1] = X[:, 0] + 0.05 * rng.normal(size=300)
    y = 5 * X[:, 0] + X[:, 2] + 0.5 * X[:, 3] + 0.3 * rng.normal(size=300)
    selection = daskfs.select(store(tmp_path, X, y), daskfs.OnlineSubstitution(4, ridge=0.1))
    assert selection.features[0] in (0, 1)


@pytest.mark.parametrize(("loss", "within"), [("squared", 1e-9), ("logistic", 0.01)])
def test_leave_one_out_is_what_fits_without_each_row_give(loss, within):
    rng = np.random.default_rng(2)
    X = plain.standardised(rng.normal(size=(40, 4)))
    score = 8 * X @ rng.normal(size=(4, 3)) + rng.normal(size=(40, 3))
    y = {"squared": score.T[:1], "logistic": np.sign(score.T[:1])}
    whole = fitted(X, y[loss], loss, ridge=0.3)
    total = 0.0
    for row in range(40):
        part = fitted(X, y[loss], loss, ridge=0.3)
        part.row_weight[row] = 0
        fit(part)
        total += row_losses(CODE[loss], part.u, y[loss])[row]
    assert leave_one_out(whole) == pytest.approx(total, rel=within)


def wide(seed, is_number, n=80, p=600):
    """Correlated columns, far more than rows, and 600 rows to judge by."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 600, 15)) @ (rng.normal(size=(15, p)) * (rng.random((15, p)) < 0.2))
    X += rng.normal(size=X.shape)
    score = X[:, :10] @ rng.normal(size=10)
    y = score / score.std() + 0.7 * rng.normal(size=len(X))
    return X, y if is_number else (y > 0).astype(int), n


def halves(load, seed):
    X, y = load(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    return X[order], y[order], len(X) // 2


@pytest.mark.slow_but_first
@pytest.mark.filterwarnings("ignore::FutureWarning")  # of scikit-learn, on defaults of its next version
@pytest.mark.parametrize(
    ("make", "k"),
    [
        pytest.param(lambda seed: wide(seed, is_number=True), 10, id="wide, a number"),
        pytest.param(lambda seed: wide(seed, is_number=True), 40, id="wide, a number, 40"),
        pytest.param(lambda seed: wide(seed, is_number=False), 10, id="wide, two classes"),
        pytest.param(lambda seed: halves(load_diabetes, seed), 4, id="diabetes"),
        pytest.param(lambda seed: halves(load_breast_cancer, seed), 8, id="breast cancer"),
        pytest.param(lambda seed: halves(load_wine, seed), 5, id="wine"),
    ],
)
def test_weights_are_as_good_as_a_cross_validated_fit_of_the_same_columns(tmp_path, make, k):
    """The mean R² or AUC over four seeds."""
    scores = []
    for seed in range(4):
        X, y, train = make(seed)
        selection = daskfs.select(store(tmp_path, X[:train], y[:train]), daskfs.OnlineSubstitution(k), seed=seed)
        columns = StandardScaler().fit(X[:train]).transform(X)[:, selection.features.astype(int)]
        if selection.classes is None:
            refit = RidgeCV(np.logspace(-3, 4, 15)).fit(columns[:train], y[:train])
            scores.append([selection.score(X[train:], y[train:]), refit.score(columns[train:], y[train:])])
            continue
        refit = LogisticRegressionCV(Cs=8, cv=5, max_iter=500, tol=1e-3).fit(columns[:train], y[:train])
        theirs, own = refit.predict_proba(columns[train:]), selection.decision_function(X[train:])
        own = own if own.ndim == 1 else softmax(own, axis=1)
        both = own, theirs if own.ndim == 2 else theirs[:, 1]
        scores.append([roc_auc_score(y[train:], column, multi_class="ovr") for column in both])
    own, theirs = np.mean(scores, axis=0)
    assert own >= theirs - 0.005


def test_the_ridge_stays_without_evidence_and_goes_with_it(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 300)).astype(np.float32)
    noise = daskfs.select(store(tmp_path, X, rng.normal(size=100)), daskfs.OnlineSubstitution(5))
    assert noise.chosen["ridge"] == 1.0
    clear = daskfs.select(store(tmp_path, *load_breast_cancer(return_X_y=True)), daskfs.OnlineSubstitution(8))
    assert clear.chosen["ridge"] < 0.2


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_several_classes_leave_out_folds(loss):
    """The loss of rows left out is that of scikit-learn's fits to the other rows, also where all classes are told."""
    rng = np.random.default_rng(2)
    X = plain.standardised(rng.normal(size=(80, 6)))
    labels = (X @ rng.normal(size=(6, 3))).argmax(axis=1)
    y = plain.indicators(labels).T
    whole = fitted(X, y, loss, ridge=0.3)
    left_out = LeftOut.of(whole)
    assert sorted(np.unique(left_out.folds[labels == 0], return_counts=True)[0]) == [0, 1, 2, 3]
    for ridge in (0.1, 1e-3):
        total = 0.0
        for fold in range(4):
            rest, test = left_out.folds != fold, left_out.folds == fold
            if loss == "softmax":
                fit_of = LogisticRegression(C=1 / ridge, tol=1e-8, max_iter=5000).fit(X[rest], labels[rest])
                total += -np.log(fit_of.predict_proba(X[test])[np.arange(test.sum()), labels[test]]).sum()
                continue
            for row in y:
                fit_of = LogisticRegression(C=1 / ridge, tol=1e-8, max_iter=5000).fit(X[rest], row[rest])
                total += np.logaddexp(0, -row[test] * fit_of.decision_function(X[test])).sum()
        assert left_out.loss(ridge) == pytest.approx(total, rel=0.02)
