"""Classes of very different size: scores stay as they are, and ``balanced=True`` moves the threshold of predictions."""

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

import daskfs
from daskfs.errors import OptionError, SelectionError
from daskfs.sklearn import MissionClassifier, OnlineSubstitutionClassifier

ALGORITHMS = [daskfs.OnlineSubstitution, daskfs.Mission, daskfs.Univariate]


def rare(rows, seed=0):
    """Rows of which one in sixteen is "yes"."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 12))
    return X, np.where(rng.random(rows) < expit(X[:, :3].sum(axis=1) - 3.7), "yes", "no")


def one_in_ten(rows, seed=0):
    """Rows of three classes, of which "common" has eight tenths."""
    rng = np.random.default_rng(seed)
    X, odds = rng.normal(size=(rows, 8)), np.log([0.1, 0.8, 0.1])
    likely = softmax(2 * X[:, :3] * [1, 0, 1] + odds, axis=1)
    codes = (rng.random((rows, 1)) > likely.cumsum(axis=1)).sum(axis=1)
    return X, np.array(["a", "common", "z"])[codes]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_predictions_change_and_are_as_good_as_those_of_balanced_class_weights(algorithm):
    (X, y), (unseen, truth) = rare(1200), rare(4000, seed=1)
    plain, balanced = (daskfs.select(X, algorithm(3, balanced=is_on), y=y) for is_on in (False, True))
    np.testing.assert_array_equal(plain.decision_function(unseen), balanced.decision_function(unseen))
    columns = plain.features.astype(int)
    refit = LogisticRegression(class_weight="balanced").fit(X[:, columns], y).predict(unseen[:, columns])
    assert balanced.score(unseen, truth) > balanced_accuracy_score(truth, refit) - 0.01
    assert balanced.score(unseen, truth) > plain.score(unseen, truth) + 0.1
    before, after = plain.evaluate(unseen, truth), balanced.evaluate(unseen, truth)
    assert after.metrics["balanced_accuracy"] == balanced.score(unseen, truth)
    assert after.metrics["balanced_accuracy"] == balanced_accuracy_score(truth, balanced.predict(unseen))
    for name in ("log_loss", "roc_auc", "average_precision"):
        assert after.metrics[name] == before.metrics[name]


@pytest.mark.parametrize("weight", [None, np.where(np.arange(800) % 3, 1.0, 5.0)], ids=["unweighted", "weighted"])
def test_a_row_is_of_a_class_that_is_likelier_than_in_any_row(weight):
    """The definition, from the probabilities and the weights of classes."""
    X, y = rare(800)
    model = OnlineSubstitutionClassifier(3, balanced=True).fit(X, y, weight)
    share = np.average(y == "yes", weights=weight)
    np.testing.assert_allclose(model.selection_.threshold, logit(share))
    np.testing.assert_array_equal(model.predict(X) == "yes", model.predict_proba(X)[:, 1] > share)


def test_several_classes_are_compared_beside_their_shares():
    (X, y), (unseen, truth) = one_in_ten(1500), one_in_ten(4000, seed=1)
    plain, balanced = (daskfs.select(X, daskfs.OnlineSubstitution(3, balanced=on), y=y) for on in (False, True))
    shares = np.array([np.mean(y == name) for name in balanced.classes])
    ratio = softmax(balanced.decision_function(unseen), axis=1) / shares
    np.testing.assert_array_equal(balanced.predict(unseen), np.array(balanced.classes)[ratio.argmax(axis=1)])
    assert balanced.score(unseen, truth) > plain.score(unseen, truth) + 0.05
    assert balanced.evaluate(unseen, truth).metrics["log_loss"] == plain.evaluate(unseen, truth).metrics["log_loss"]


def test_a_saved_selection_and_an_exported_model_predict_the_same(tmp_path):
    X, y = rare(800)
    selection = daskfs.select(X, daskfs.OnlineSubstitution(3, balanced=True), y=y)
    selection.save(tmp_path / "run")
    loaded = daskfs.load_selection(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict(X), selection.predict(X))
    np.testing.assert_array_equal(selection.to_sklearn().predict(X[:, selection.features]), selection.predict(X))
    assert np.mean(selection.predict(X) == "yes") > 2 * np.mean(y == "yes")


def test_an_estimator_predicts_as_its_selection():
    X, y = rare(800)
    model = MissionClassifier(3, balanced=True).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), model.selection_.predict(X))
    np.testing.assert_array_equal(model.predict(X) == "yes", model.predict_proba(X)[:, 1] > np.mean(y == "yes"))
    with pytest.raises(OptionError, match="balanced"):
        MissionClassifier(3, refit=0, balanced=True).partial_fit(X, y, classes=["no", "yes"])


def test_a_number_has_no_classes_to_balance():
    X, _ = rare(100)
    with pytest.warns(UserWarning, match="balanced has no effect"):
        selection = daskfs.select(X, daskfs.OnlineSubstitution(1, balanced=True), y=X[:, 0])
    assert selection.threshold is None


def test_a_threshold_that_does_not_fit_is_refused(tmp_path):
    X, y = rare(200)
    daskfs.select(X, daskfs.OnlineSubstitution(3, balanced=True), y=y).save(tmp_path / "run")
    record = tmp_path / "run" / "selection.json"
    whole = record.read_text()
    line = next(line for line in whole.splitlines() if line.startswith('"threshold"'))
    for wrong in ('"threshold": [1.0, 2.0],', '"threshold": 1.0,', '"threshold": ["x"],'):
        record.write_text(whole.replace(line, wrong))
        with pytest.raises(SelectionError):
            daskfs.load_selection(tmp_path / "run")


def test_a_model_without_features_says_the_frequent_class():
    X, y = rare(400)
    X = np.random.default_rng(5).normal(size=X.shape)
    selection = daskfs.select(X, 3, y, error_control="permuted", max_false=0.1)
    balanced = daskfs.select(
        X, daskfs.OnlineSubstitution(3, balanced=True, error_control="permuted", max_false=0.1), y=y
    )
    assert not selection.names
    assert balanced.predict(X[:5]).tolist() == selection.predict(X[:5]).tolist() == ["no"] * 5
