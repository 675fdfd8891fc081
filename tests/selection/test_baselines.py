"""What a selection has to beat: always the same answer, and the best single feature, against scikit-learn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from selections import selection_of
from sklearn.dummy import DummyClassifier
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    balanced_accuracy_score,
    log_loss,
    r2_score,
    roc_auc_score,
)

import daskfs
from daskfs.selection import baselines

RNG = np.random.default_rng(8)
X = RNG.normal(size=(2000, 6)).astype(np.float32)
LABELS = np.array(["blue", "green", "red"])


def test_the_most_frequent_class_for_all_rows() -> None:
    codes = RNG.choice(3, 2000, p=[0.2, 0.5, 0.3])
    model = selection_of([0, 3], RNG.normal(size=(2, 3)), intercept=[0, 0, 0], classes=tuple(LABELS))
    baseline = model.evaluate(X, LABELS[codes]).baseline
    dummy = DummyClassifier(strategy="prior").fit(X, codes)
    assert baseline.answer == "green"
    says, chances = dummy.predict(X), dummy.predict_proba(X)
    assert baseline.metrics == pytest.approx(
        {
            "accuracy": accuracy_score(codes, says),
            "balanced_accuracy": balanced_accuracy_score(codes, says),
            "log_loss": log_loss(codes, chances),
            "roc_auc": roc_auc_score(codes, chances, multi_class="ovr"),
            "average_precision": average_precision_score(np.eye(3)[codes], chances),
        }
    )


def test_the_mean_for_all_rows() -> None:
    target = X[:, 0] + RNG.normal(size=2000)
    baseline = selection_of([0], [1.0]).evaluate(X, target).baseline
    assert (baseline.answer, baseline.metrics) == (
        pytest.approx(target.mean()),
        pytest.approx({"r2": 0, "mse": target.var()}),
    )


@pytest.mark.parametrize("form", ["array", "sparse", "rows", "columns"])
@pytest.mark.parametrize("most_rows", [100, 1 << 14])
def test_the_best_single_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, most_rows: int) -> None:
    monkeypatch.setattr(baselines, "SAMPLE_ROWS", most_rows)
    target = X[:, 4] + 3 * X[:, 1] + RNG.normal(size=2000)
    labels = np.where(target > 1, "yes", "no")
    data = {"array": X, "sparse": sp.csr_array(X)}.get(form)
    here = slice(None, None, 2000 // most_rows if most_rows < 2000 else 1)
    for y, classes in ((target, None), (labels, ("no", "yes"))):
        model = selection_of([4, 1, 2], [1.0, -2.0, 0.5], classes=classes)  # the sign of one is wrong
        if data is None:
            daskfs.write_dataset(tmp_path / f"{classes}", X, y, layout=form, chunk_bytes=5000)
        best = (
            model.evaluate(data, y) if data is not None else model.evaluate(tmp_path / f"{classes}")
        ).baseline.best_feature
        assert best.rows == len(X[here])
        if classes is None:
            assert (best.name, best.metric) == ("x1", "r2")
            line = np.polyval(np.polyfit(X[here, 1], y[here], 1), X[here, 1])
            assert best.value == pytest.approx(r2_score(y[here], line), abs=1e-5)
        else:
            assert (best.name, best.metric) == ("x4", "roc_auc")
            assert best.value == pytest.approx(roc_auc_score(y[here] == "yes", X[here, 4]))


def test_noise_is_no_better_than_the_same_answer() -> None:
    noise = RNG.normal(size=2000)
    about_values = selection_of([0], [1.0]).evaluate(X, noise)
    assert about_values.is_useless
    assert about_values.verdict.startswith("no better than always saying ")
    labels = np.where(RNG.random(2000) < 0.3, "spam", "ham")
    about_classes = selection_of([0], [1.0], classes=("ham", "spam")).evaluate(X, labels)
    assert about_classes.is_useless
    assert "no better than always saying 'ham', the most frequent class" in about_classes.verdict


def test_a_useful_model_has_no_verdict() -> None:
    good = selection_of([0], [1.0]).evaluate(X, X[:, 0] + RNG.normal(size=2000))
    assert (good.is_useless, good.verdict) == (False, "")
    classes = selection_of([0], [1.0], classes=("ham", "spam"), intercept=[0.0])
    assert not classes.evaluate(X, np.where(X[:, 0] > 0.5, "spam", "ham")).verdict


def test_rare_classes_that_are_never_predicted_but_ranked() -> None:
    labels = np.where(X[:, 0] + RNG.normal(size=2000) > 2.5, "click", "none")
    model = selection_of([0], [-1.0], classes=("click", "none"), intercept=[9.0])
    evaluation = model.evaluate(X, labels)
    assert evaluation.metrics["balanced_accuracy"] == 0.5
    assert not evaluation.is_useless
    assert "no better than always saying 'none'" in evaluation.verdict
    assert "order rows" in evaluation.verdict
