"""ROC curve, calibration, confusion and predicted against true values: as scikit-learn has them, however rows come."""

from __future__ import annotations

import io

import numpy as np
import pytest
from scipy.special import expit
from selections import selection_of
from sklearn import metrics
from sklearn.calibration import calibration_curve

import daskfs
from daskfs.selection.curves import ROC_GAP, CalibrationBins, Confusion, RocCurve, Scatter
from daskfs.selection.ranking import SortedScores, rank_quality

RNG = np.random.default_rng(5)
N = 3000
SCORES = RNG.normal(size=N)
IS_MEMBER = RNG.random(N) < expit(2 * SCORES)
WEIGHTS = RNG.integers(1, 5, N).astype(np.float32)


def pieces(size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, N, size)]


@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("decimals", [9, 1], ids=["distinct", "ties"])
@pytest.mark.parametrize("size", [N, 77])
def test_every_point_is_on_the_roc_curve(weight, decimals, size):
    scores = SCORES.round(decimals)
    each = np.ones(N) if weight is None else weight.astype(float)
    sorted_scores = SortedScores(io.BytesIO(), 1, run_bytes=1, merge_bytes=1)
    for rows in pieces(size):
        some = None if weight is None else weight[rows]
        sorted_scores.add(scores[rows, None], np.where(IS_MEMBER[rows], 0, 1), some)
    curve = RocCurve(each @ IS_MEMBER, each @ ~IS_MEMBER)
    area = rank_quality(sorted_scores.merge(0), curve).roc_auc
    found = np.array(list(curve.record().values())).T
    false, true, _ = metrics.roc_curve(IS_MEMBER, scores, sample_weight=weight, drop_intermediate=False)
    exact = np.stack([false, true], axis=1)
    assert np.abs(found[:, None] - exact[None]).sum(axis=2).min(axis=1).max() < 1e-12
    np.testing.assert_array_equal(found[[0, -1]], [[0, 0], [1, 1]])
    assert len(found) <= 2 / ROC_GAP + 2
    assert np.diff(found.sum(axis=1)).max() <= np.diff(exact.sum(axis=1)).max() + ROC_GAP
    assert metrics.auc(*found.T) == pytest.approx(area, abs=1e-3)


@pytest.mark.parametrize("size", [N, 77])
def test_calibration(size):
    bins, weighted = CalibrationBins(), CalibrationBins()
    for rows in pieces(size):
        bins.add(3 * SCORES[rows], IS_MEMBER[rows])
        weighted.add(3 * SCORES[rows], IS_MEMBER[rows], WEIGHTS[rows])
    found = bins.record()
    share, predicted = calibration_curve(IS_MEMBER, expit(3 * SCORES), n_bins=10)
    np.testing.assert_allclose(found["share"], share)
    np.testing.assert_allclose(found["predicted"], predicted)
    assert sum(found["rows"]) == N
    repeat = np.repeat(np.arange(N), WEIGHTS.astype(int))  # a row of weight 2 is two rows
    share, predicted = calibration_curve(IS_MEMBER[repeat], expit(3 * SCORES[repeat]), n_bins=10)
    np.testing.assert_allclose(weighted.record()["share"], share)
    np.testing.assert_allclose(weighted.record()["predicted"], predicted)


@pytest.mark.parametrize("size", [N, 77])
def test_confusion(size):
    truth = RNG.integers(0, 4, N)  # 3 is a label that the selection does not know
    predicted = RNG.integers(0, 3, N)
    confusion, many = Confusion(3), Confusion(31)
    for rows in pieces(size):
        confusion.add(truth[rows], predicted[rows], WEIGHTS[rows])
        many.add(truth[rows], predicted[rows])
    known = truth < 3
    expected = metrics.confusion_matrix(truth[known], predicted[known], sample_weight=WEIGHTS[known])
    np.testing.assert_allclose(confusion.record(), expected)
    assert many.record() is None


@pytest.mark.parametrize("size", [N, 77])
def test_scatter(size):
    scatter = Scatter(N)
    for rows in pieces(size):
        scatter.add(SCORES[rows], 2 * SCORES[rows])
    assert scatter.record() == {
        "true": SCORES[::3].tolist(),
        "predicted": (2 * SCORES[::3]).tolist(),
        "step": 3,
    }


@pytest.mark.parametrize("chunk_bytes", [10_000, 1_000_000])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_an_evaluation_has_the_curves_of_its_predictions(layout, chunk_bytes, tmp_path):
    X = np.stack([SCORES, RNG.normal(size=N)], axis=1).astype(np.float32)
    daskfs.write_dataset(tmp_path / "two.zarr", X, IS_MEMBER.astype(int), layout=layout, chunk_bytes=chunk_bytes)
    selection = selection_of([0], [2.0], classes=(0, 1), loss="logistic")
    curves = selection.evaluate(tmp_path / "two.zarr").curves
    scores = selection.decision_function(X)
    np.testing.assert_array_equal(curves["confusion"], metrics.confusion_matrix(IS_MEMBER, scores > 0))
    share, predicted = calibration_curve(IS_MEMBER, expit(scores), n_bins=10)
    np.testing.assert_allclose(curves["calibration"]["share"], share)
    np.testing.assert_allclose(curves["calibration"]["predicted"], predicted)
    area = metrics.auc(curves["roc"]["false_positive"], curves["roc"]["true_positive"])
    assert area == pytest.approx(metrics.roc_auc_score(IS_MEMBER, scores), abs=1e-3)
    number = selection_of([1], [2.0])
    scatter = number.evaluate(X, SCORES).curves["scatter"]
    np.testing.assert_allclose(scatter["predicted"], number.decision_function(X)[::3])
    assert scatter["true"] == SCORES[::3].tolist()


@pytest.mark.parametrize(("loss", "has_probabilities"), [("squared_hinge", False), ("logistic", True)])
def test_scores_that_are_no_log_odds_have_no_calibration(loss, has_probabilities):
    selection = selection_of([0], [2.0], classes=(0, 1), loss=loss)
    assert ("calibration" in selection.evaluate(SCORES[:, None], IS_MEMBER.astype(int)).curves) is has_probabilities


def test_rows_of_one_class_have_no_roc_curve():
    evaluation = selection_of([0], [2.0], classes=(0, 1)).evaluate(SCORES[:, None], np.zeros(N, int))
    assert evaluation.curves["roc"] is None
