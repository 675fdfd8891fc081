"""Intervals of scores: equal to their definitions, to scipy's, near the bootstrap's, and right 95 times in 100."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from reference.intervals import delong, jackknife, kish, pulls
from scipy.special import expit, logit
from scipy.stats import binomtest
from selections import selection_of
from sklearn import metrics

import daskfs
from daskfs.selection.intervals import Z, mean_of_shares, on_log_scale, on_odds_scale, wilson
from daskfs.selection.metrics import ClassTally, MeanTally, ValueTally
from daskfs.selection.ranking import RankQuality, descending_keys, rank_quality

WEIGHTS = {"none": np.ones(60), "whole": np.arange(60) % 4 + 1.0, "uneven": np.geomspace(0.01, 3, 60)}
TWO = ("a", "b")


def drawn(rows: int, seed: int, kind: str = "classes") -> tuple[np.ndarray, np.ndarray]:
    """A score and what is true."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    if kind == "classes":
        return x, np.where(rng.random(rows) < expit(1.5 * x - 0.5), "b", "a")
    return x, 2 * x + rng.normal(size=rows)


def evaluated(x: np.ndarray, y: np.ndarray) -> daskfs.Evaluation:
    if y.dtype.kind == "f":
        return selection_of([0], [1.8], intercept=[0.1]).evaluate(x[:, None], y)
    return selection_of([0], [1.5], intercept=[-0.2], classes=TWO).evaluate(x[:, None], y)


@pytest.mark.parametrize(("right", "rows"), [(0, 1), (1, 1), (0, 12), (5, 12), (12, 12), (700, 1000)])
def test_wilson_as_scipy_has_it(right, rows):
    low, high = wilson(np.array([right / rows]), np.array([rows]))
    expected = binomtest(right, rows).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_shares_of_classes_and_of_all():
    truth, predicted = np.array([0] * 10 + [1] * 4 + [2] * 2), np.array([0] * 7 + [1] * 6 + [0] * 3)
    tally = ClassTally(n_classes=2, n_labels=3)  # nobody predicts the third label
    for rows in np.array_split(np.arange(16), 5):
        tally.add(truth[rows], predicted[rows])
    assert tally.accuracy_interval == pytest.approx(tuple(binomtest(10, 16).proportion_ci(method="wilson")))
    ends = [tuple(binomtest(*share).proportion_ci(method="wilson")) for share in ((7, 10), (3, 4))]
    np.testing.assert_allclose(tally.recall_intervals, ends)
    shares = np.array([0.7, 0.75, 0.0])
    down, up = (math.hypot(*(shares[:2] - np.array(ends)[:, side])) / 3 for side in (0, 1))
    assert tally.balanced_accuracy_interval == pytest.approx((shares.mean() - down, shares.mean() + up))


@pytest.mark.parametrize("name", ["whole", "uneven"])
def test_shares_of_weighted_rows(name):
    """At most as sure as Kish's number of rows, and as sure as the variance of the weighted share says."""
    weight, rng = WEIGHTS[name], np.random.default_rng(1)
    right = rng.random(60) < 0.7
    tally = ClassTally(2, 2)
    tally.add(np.zeros(60, int), np.where(right, 0, 1), weight)
    varies = jackknife(metrics.accuracy_score, np.ones(60), right, weight) * math.sqrt(1 - 1 / kish(weight))
    share = np.average(right, weights=weight)
    rows = min(kish(weight), share * (1 - share) / varies**2)
    assert tally.accuracy_interval == pytest.approx([end for [end] in wilson(np.array([share]), np.array([rows]))])
    same = ClassTally(2, 2)
    same.add(np.zeros(60, int), np.where(right, 0, 1), 1000 * weight)
    assert same.accuracy_interval == pytest.approx(tally.accuracy_interval)


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)
def test_errors_of_values(weight):
    x, y = drawn(60, 2, "values")
    tally = ValueTally()
    for rows in np.array_split(np.arange(60), 7):
        tally.add(y[rows], 1.8 * x[rows], weight[rows])
    for metric, found, value in (
        (metrics.mean_squared_error, tally.squared.interval, tally.squared.mean),
        (metrics.mean_absolute_error, tally.absolute.interval, tally.absolute.mean),
    ):
        assert found == pytest.approx(on_log_scale(value, jackknife(metric, y, 1.8 * x, weight)), rel=1e-6)
    low, high = on_log_scale(1 - tally.r_squared, jackknife(metrics.r2_score, y, 1.8 * x, weight))
    assert tally.r_squared_interval == pytest.approx((1 - high, 1 - low), rel=1e-6)


def test_a_target_far_from_zero_in_any_pieces():
    x, y = drawn(5000, 3, "values")
    y = np.sort(y)  # its mean is another in every piece
    near, far = ValueTally(), ValueTally()
    near.add(y, 2 * x)
    for rows in np.array_split(np.arange(5000), 11):
        far.add(1e7 + y[rows], 1e7 + 2 * x[rows])
    assert far.r_squared_interval == pytest.approx(near.r_squared_interval, rel=1e-6)


def quality_of(scores: np.ndarray, signed: np.ndarray, batch: int = 1000) -> RankQuality:
    """The quality of scores in any order, counted batch by batch."""
    keys = descending_keys(scores)
    order = np.argsort(keys)
    batches = (order[start : start + batch] for start in range(0, len(order), batch))
    return rank_quality((keys[rows], signed[rows]) for rows in batches)


@pytest.mark.parametrize("distinct", [4, 10**6], ids=["ties", "no ties"])
@pytest.mark.parametrize("name", WEIGHTS)
def test_areas_by_their_definition(name, distinct):
    rng, weight = np.random.default_rng(distinct), WEIGHTS[name].astype(np.float32)
    rng.shuffle(weight)
    member = rng.random(60) < 0.4
    scores = np.round((rng.normal(size=60) + member) * distinct / 8)
    found = quality_of(scores, np.where(member, weight, -weight), 17)
    moved = pulls(metrics.roc_auc_score, member, scores, weight)
    counts = [kish(weight[side].astype(float)) for side in (member, ~member)]
    parts = [(moved[side] ** 2).sum() * n / (n - 1) for side, n in zip((member, ~member), counts, strict=True)]
    assert found.roc_auc_error == pytest.approx(math.sqrt(sum(parts)), rel=1e-6)
    moved = pulls(metrics.average_precision_score, member, scores, weight)
    part = (moved[member] ** 2).sum() * counts[0] / (counts[0] - 1) + (moved[~member] ** 2).sum()
    assert found.average_precision_error == pytest.approx(math.sqrt(part), rel=1e-6)
    assert (found.members, found.others) == pytest.approx(counts)
    if name == "none":
        assert found.roc_auc_error == pytest.approx(delong(member, scores), rel=1e-12)


def test_log_loss_is_a_mean():
    values, tally = np.random.default_rng(4).exponential(size=500), MeanTally()
    for piece in np.array_split(values, 9):
        tally.add(piece)
    assert tally.error == pytest.approx(values.std(ddof=1) / math.sqrt(500))
    assert tally.interval == pytest.approx(on_log_scale(values.mean(), tally.error))


SCALES = {
    **dict.fromkeys(("accuracy", "balanced_accuracy", "roc_auc", "average_precision"), logit),
    **dict.fromkeys(("log_loss", "mse", "mae"), np.log),
    "r2": lambda r2: np.log(1 - r2),
}


@pytest.mark.slow_but_first
@pytest.mark.parametrize("kind", ["classes", "values"])
def test_as_wide_as_the_bootstrap_says(kind):
    x, y = drawn(800, 5, kind)
    rng, found = np.random.default_rng(6), evaluated(x, y)
    repeats: dict[str, list[float]] = {name: [] for name in found.metrics}
    for _ in range(200):
        rows = rng.integers(0, 800, 800)
        for name, value in evaluated(x[rows], y[rows]).metrics.items():
            repeats[name].append(SCALES[name](value))
    for name, ends in found.intervals.items():
        width = abs(np.diff(SCALES[name](np.array(ends)))[0])
        assert width == pytest.approx(2 * Z * np.std(repeats[name]), rel=0.2), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "values"])
def test_they_cover_what_they_say(kind):
    truth = evaluated(*drawn(1_000_000, 7, kind)).metrics
    covered = dict.fromkeys(truth, 0)
    for repeat in range(300):
        for name, (low, high) in evaluated(*drawn(150, 100 + repeat, kind)).intervals.items():
            covered[name] += low <= truth[name] <= high
    assert all(0.90 <= count / 300 <= 0.99 for count in covered.values()), covered


@pytest.mark.slow
def test_they_cover_with_weights():
    """Rows of one kind weigh more, and are also harder: a share of so many right rows would be too sure of itself."""
    covered = {"accuracy": 0, "mse": 0, "r2": 0, "roc_auc": 0}
    truth = weighted(np.random.default_rng(0), 1_000_000)
    for repeat in range(300):
        for name, (low, high) in weighted(np.random.default_rng(1 + repeat), 300, intervals=True).items():
            covered[name] += low <= truth[name] <= high
    assert all(0.90 <= count / 300 <= 0.99 for count in covered.values()), covered


def weighted(rng: np.random.Generator, rows: int, intervals: bool = False) -> dict[str, Any]:
    weight = rng.choice([0.2, 3.0], rows)
    x = rng.normal(size=rows)
    y = x + rng.normal(size=rows) * np.where(weight > 1, 1.5, 0.4)
    shares, values = ClassTally(2, 2), ValueTally()
    shares.add((y > 0).astype(int), (x > 0).astype(int), weight)
    values.add(y, x, weight)
    quality = quality_of(x, (np.where(y > 0, 1, -1) * weight).astype(np.float32))
    if intervals:
        return {
            "accuracy": shares.accuracy_interval,
            "mse": values.squared.interval,
            "r2": values.r_squared_interval,
            "roc_auc": quality.roc_auc_interval,
        }
    return {
        "accuracy": shares.accuracy,
        "mse": values.squared.mean,
        "r2": values.r_squared,
        "roc_auc": quality.roc_auc,
    }


@pytest.mark.slow
def test_several_classes_are_covered_rather_too_often():
    model = {"weights": np.eye(3), "intercept": [0.0, 0.2, -0.2], "classes": ("a", "b", "c")}
    selection = selection_of([0, 1, 2], **model)

    def rows_of(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(count, 3)) * 1.5
        return X, np.array(model["classes"])[(X + rng.gumbel(size=X.shape)).argmax(axis=1)]

    truth = selection.evaluate(*rows_of(300_000, 0)).metrics
    covered = dict.fromkeys(truth, 0)
    for repeat in range(150):
        for name, (low, high) in selection.evaluate(*rows_of(200, 1 + repeat)).intervals.items():
            covered[name] += low <= truth[name] <= high
    assert all(count / 150 >= 0.90 for count in covered.values()), covered
    assert covered["accuracy"] / 150 <= 0.99


@pytest.mark.parametrize(
    ("members", "others"),
    [(5, 5), (100, 3), (1, 1), (2, 50)],
)
def test_rows_that_are_all_in_order_are_not_sure(members, others):
    scores = np.arange(members + others, dtype=np.float64)
    for sign in (1, -1):
        signed = np.where(scores >= others, 1, -1).astype(np.float32)
        found = quality_of(sign * scores, signed)
        low, high = found.roc_auc_interval
        assert found.roc_auc == (high if sign > 0 else low) == (1 if sign > 0 else 0)
        assert 0 < high - low <= 1
        assert high - low == pytest.approx(min(1, Z**2 / 4 * (1 / members + 1 / others)))
    low, high = quality_of(scores, signed).average_precision_interval
    assert (low, high) == pytest.approx(tuple(binomtest(members, members).proportion_ci(method="wilson")))


def test_in_order_with_weights_but_for_rounding():
    weight = np.random.default_rng(0).random(1000).astype(np.float32)
    found = quality_of(np.arange(1000.0), np.where(np.arange(1000) < 400, -weight, weight))
    assert found.roc_auc_interval[1] == 1.0
    assert 0.98 < found.roc_auc_interval[0] < 0.999


@pytest.mark.parametrize(
    ("x", "y", "unknown"),
    [
        ([1.0], ["b"], {"log_loss", "roc_auc"}),
        ([1.0, 2.0], ["b", "b"], {"roc_auc"}),
        ([1.0, 2.0, 0.5], ["b", "a", "a"], {"roc_auc", "average_precision"}),  # one row of the class says little
        ([1.0, 2.0, 0.5], ["b", "a", "eggs"], {"log_loss", "roc_auc", "average_precision"}),
        ([1.0], [2.0], {"r2", "mse", "mae"}),
        ([1.0, 2.0], [2.0, 2.0], {"r2"}),
        ([1e80, 2e80, -1e80], [1.0, 2.0, 3.0], {"r2", "mse"}),
    ],
)
def test_what_cannot_be_told_is_nan(x, y, unknown):
    found = evaluated(np.array(x), np.array(y))
    assert {name for name, ends in found.intervals.items() if math.isnan(ends[0])} == unknown
    assert {name for name, ends in found.intervals.items() if math.isnan(ends[1])} == unknown
    record = found.record()
    assert {name for name, ends in record["intervals"].items() if ends == [None, None]} == unknown
    assert set(record["intervals"]) == set(record["metrics"])


def test_weights_of_nothing():
    tally = ValueTally()
    tally.add(np.ones(3), np.zeros(3), np.zeros(3))
    shares = ClassTally(2, 2)
    shares.add(np.array([0, 1]), np.array([0, 0]), np.zeros(2))
    for ends in (tally.r_squared_interval, tally.squared.interval, shares.accuracy_interval):
        assert all(map(math.isnan, ends))
    assert all(map(math.isnan, shares.balanced_accuracy_interval))
    assert all(map(math.isnan, mean_of_shares(np.empty(0), np.empty(0), np.empty(0))))


def test_predictions_without_an_error():
    found = selection_of([0], [1.0], intercept=[0.0]).evaluate(np.arange(9.0)[:, None], np.arange(9.0))
    assert found.intervals == {"r2": (1.0, 1.0), "mse": (0.0, 0.0), "mae": (0.0, 0.0)}


@pytest.mark.parametrize("value", [1e-300, 1e-9, 0.3, 1 - 1e-9])
@pytest.mark.parametrize("error", [0.0, 1e-12, 0.1, 1e9])
def test_ends_stay_where_values_can_be(value, error):
    for low, high in (on_odds_scale(value, error), on_log_scale(value, error)):
        assert 0 <= low <= value * (1 + 1e-9)
        assert high >= value * (1 - 1e-9)
    assert on_odds_scale(value, error)[1] <= 1
