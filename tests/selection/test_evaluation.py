"""Selection.evaluate: every metric equal to scikit-learn's, over layouts, weights and labels, in bounded memory."""

from __future__ import annotations

import json
import math
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from faults.samples import small_blocks
from scipy.special import expit, softmax
from selections import selection_of
from sklearn import metrics

import daskfs
from daskfs.errors import OptionError
from daskfs.selection.ranking import SortedScores

RNG = np.random.default_rng(11)
N = 400
X = RNG.integers(-2, 3, size=(N, 4)).astype(np.float32)  # few distinct rows: most scores tie with many others
WORDS = ("ham", "spam")
COLOURS = ("blue", "green", "red")
# Sums of these are exact, in whatever order they are taken; and where scores differ, so do probabilities.
TWO = {"weights": [1.0, -0.5, 0.25], "intercept": [0.125], "classes": WORDS}
THREE = {
    "weights": RNG.integers(-(2**20), 2**20, (3, 3)) / 2**20,
    "intercept": [0.125, -0.25, 0.5],
    "classes": COLOURS,
}
FEATURES = [2, 0, 3]
COLUMNS = ("rows", "precision", "recall", "roc_auc", "average_precision")
LAYOUTS = ["rows", "columns", "both", "sparse rows", "sparse columns"]


def noisy(labels: np.ndarray, classes: tuple[Any, ...], share: float = 0.3) -> np.ndarray:
    return np.where(RNG.random(len(labels)) < share, RNG.choice(classes, len(labels)), labels)


def write(folder: Path, layout: str, X: np.ndarray, y: Any, weight: np.ndarray | None = None) -> daskfs.Dataset:
    """A dataset in several blocks; only sparse ones can have weights, which come from a VW file."""
    with small_blocks(entries=100):
        if not layout.startswith("sparse"):
            daskfs.write_dataset(folder, X, y, layout=layout, chunk_bytes=500)
        elif weight is None:
            daskfs.write_dataset(folder, sp.csr_array(X), y)
        else:
            write_vw(folder, X, y, weight)
        if layout == "sparse columns":
            folder.rename(folder.with_name("rows.zarr"))
            daskfs.transpose(folder.with_name("rows.zarr"), folder, block_entries=60)
    return daskfs.open_dataset(folder)


def write_vw(folder: Path, X: np.ndarray, y: Any, weight: np.ndarray) -> None:
    lines = [
        f"{label} {w} | " + " ".join(f"x{i}:{value}" for i, value in enumerate(row) if value)
        for row, label, w in zip(X, y, weight, strict=True)
    ]
    folder.with_suffix(".vw").write_text("\n".join(lines) + "\n")
    daskfs.ingest(folder.with_suffix(".vw"), folder, "vw", workers=1)


def by_scikit_learn(truth: np.ndarray, scores: np.ndarray, classes: tuple[Any, ...], weight: Any = None) -> Any:
    """All metrics and, per class, all columns; for labels of which all are classes and all classes occur."""
    proba = softmax(scores, axis=1) if scores.ndim == 2 else np.stack([1 - expit(scores), expit(scores)], axis=1)
    predicted = np.array(classes)[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)]
    one_hot, options = truth[:, None] == np.array(classes), {"sample_weight": weight}
    auc = [metrics.roc_auc_score(one_hot[:, c], proba[:, c], **options) for c in range(len(classes))]
    ap = [metrics.average_precision_score(one_hot[:, c], proba[:, c], **options) for c in range(len(classes))]
    several = len(classes) > 2
    overall = {
        "accuracy": metrics.accuracy_score(truth, predicted, **options),
        "balanced_accuracy": metrics.balanced_accuracy_score(truth, predicted, **options),
        "log_loss": metrics.log_loss(truth, proba, labels=classes, **options),
        "roc_auc": metrics.roc_auc_score(truth, proba, multi_class="ovr", **options) if several else auc[1],
        "average_precision": np.mean(ap) if several else ap[1],
    }
    shared = {"labels": classes, "average": None, "zero_division": np.nan} | options
    return overall, {
        "rows": one_hot.sum(axis=0),
        "precision": metrics.precision_score(truth, predicted, **shared),
        "recall": metrics.recall_score(truth, predicted, **shared),
        "roc_auc": auc,
        "average_precision": ap,
    }


def check(found: daskfs.Evaluation, expected: Any) -> None:
    overall, per_class = expected
    assert found.metrics == pytest.approx(overall, rel=1e-9, nan_ok=True)
    assert set(found.per_class.data_vars) == {*per_class, "recall_interval"}
    for name, column in per_class.items():
        np.testing.assert_allclose(found.per_class[name].values, column, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("model", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_classes(tmp_path, layout, model):
    selection = selection_of(FEATURES, **model)
    truth = noisy(selection.predict(X), model["classes"])
    dataset = write(tmp_path / "d.zarr", layout, X, truth)
    assert dataset.n_blocks() > 1
    found = selection.evaluate(dataset)
    check(found, by_scikit_learn(truth, selection.decision_function(X), model["classes"]))
    assert (found.rows, found.unknown_rows, found.weighted) == (N, 0, False)
    assert found.per_class["class"].values.tolist() == list(model["classes"])
    assert selection.score(dataset) == found.metrics["balanced_accuracy"]
    check(selection.evaluate(X, truth), (found.metrics, {name: found.per_class[name] for name in COLUMNS}))


@pytest.mark.parametrize("model", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("layout", ["sparse rows", "sparse columns"])
def test_weights_count(tmp_path, layout, model):
    names = [f"x{feature}" for feature in FEATURES]
    weight = RNG.integers(0, 5, N) / 4
    truth = noisy(selection_of(FEATURES, **model).predict(X), model["classes"])
    dataset = write(tmp_path / "d.zarr", layout, X, truth, weight)
    rows = daskfs.open_dataset(tmp_path / "rows.zarr") if layout == "sparse columns" else dataset
    ids = {
        name: int(id_) for block in rows.blocks() for name, id_ in zip(rows.names(block.ids), block.ids, strict=True)
    }
    selection = selection_of([ids[name] for name in names], **model, names=names)
    found = selection.evaluate(dataset)
    check(found, by_scikit_learn(truth, selection_of(FEATURES, **model).decision_function(X), model["classes"], weight))
    assert found.weighted
    unweighted = metrics.balanced_accuracy_score(truth, selection_of(FEATURES, **model).predict(X))
    assert selection.score(dataset) == pytest.approx(unweighted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_real_target(tmp_path, layout):
    selection = selection_of(FEATURES, TWO["weights"])
    values = selection.predict(X)
    truth = 1000 + values + RNG.normal(size=N)
    found = selection.evaluate(write(tmp_path / "d.zarr", layout, X, truth))
    expected = {
        "r2": metrics.r2_score(truth, values),
        "mse": metrics.mean_squared_error(truth, values),
        "mae": metrics.mean_absolute_error(truth, values),
    }
    assert found.metrics == pytest.approx(expected, rel=1e-9)
    assert (found.rows, found.per_class) == (N, None)
    assert selection.score(tmp_path / "d.zarr") == found.metrics["r2"]


def test_a_real_target_with_weights(tmp_path):
    weight, truth = RNG.integers(0, 5, N) / 4, X @ [1.0, 2, 3, 4] + 0.25 + (RNG.random(N) < 0.5)
    dataset = write(tmp_path / "d.zarr", "sparse rows", X, truth, weight)
    values = np.full(N, 0.5)
    found = selection_of([], [], intercept=[0.5]).evaluate(dataset)
    assert found.metrics == pytest.approx(
        {
            "r2": metrics.r2_score(truth, values, sample_weight=weight),
            "mse": metrics.mean_squared_error(truth, values, sample_weight=weight),
            "mae": metrics.mean_absolute_error(truth, values, sample_weight=weight),
        },
        rel=1e-9,
    )


def test_a_target_far_from_zero_and_from_its_first_rows():
    """Sums of squares would have no digit left."""
    truth = np.concatenate([np.full(300_000, 1e9), 1e9 + 3 + RNG.normal(size=300_000)])
    values = np.repeat([1e9, 1e9 + 3], 300_000)
    selection = selection_of([0], [1.0], intercept=[0.0])
    assert selection.evaluate(values[:, None], truth).metrics["r2"] == pytest.approx(metrics.r2_score(truth, values))


def test_classes_told_apart_one_against_the_rest_have_the_probabilities_of_scikit_learn(tmp_path):
    selection = selection_of(FEATURES, **THREE, loss="logistic")
    truth = noisy(selection.predict(X), COLOURS)
    proba = selection.to_sklearn().predict_proba(X[:, FEATURES])
    found = selection.evaluate(write(tmp_path / "d.zarr", "rows", X, truth)).metrics
    assert found["log_loss"] == pytest.approx(metrics.log_loss(truth, proba, labels=COLOURS))
    each = [metrics.roc_auc_score(truth == colour, proba[:, c]) for c, colour in enumerate(COLOURS)]
    assert found["roc_auc"] == pytest.approx(np.mean(each))


def test_a_class_that_does_not_occur(tmp_path):
    """It has no recall and no area; the means are of the others."""
    selection = selection_of(FEATURES, **THREE)
    truth = noisy(selection.predict(X), COLOURS)
    rows = truth != "green"
    dataset = write(tmp_path / "d.zarr", "rows", X[rows], truth[rows])
    assert dataset.classes == ("blue", "red")
    found, scores = selection.evaluate(dataset), selection.decision_function(X[rows])
    green = {name: found.per_class[name].sel({"class": "green"}).item() for name in COLUMNS}
    assert found.per_class.recall_interval.sel({"class": "green"}).isnull().all()
    assert green == pytest.approx(
        {"rows": 0, "precision": 0.0, "recall": math.nan, "roc_auc": math.nan, "average_precision": math.nan},
        nan_ok=True,
    )
    proba = softmax(scores, axis=1)
    each = [metrics.roc_auc_score(truth[rows] == COLOURS[c], proba[:, c]) for c in (0, 2)]
    assert found.metrics["roc_auc"] == pytest.approx(np.mean(each))
    assert found.metrics["log_loss"] == pytest.approx(metrics.log_loss(truth[rows], proba, labels=COLOURS))
    recalls = found.per_class.recall.values
    assert found.metrics["balanced_accuracy"] == pytest.approx(np.nanmean(recalls)) == selection.score(dataset)


@pytest.mark.parametrize("model", [TWO, THREE], ids=["two", "three"])
def test_a_class_nobody_told_the_selection_about(tmp_path, model):
    selection = selection_of(FEATURES, **model)
    classes, predicted, scores = model["classes"], selection.predict(X), selection.decision_function(X)
    truth = noisy(predicted, (*classes, "eggs"))
    dataset = write(tmp_path / "d.zarr", "sparse rows", X, truth)
    found = selection.evaluate(dataset)
    assert found.unknown_rows == (truth == "eggs").sum() > 0
    assert math.isnan(found.metrics["log_loss"])
    assert found.metrics["accuracy"] == pytest.approx((truth == predicted).mean())
    assert found.metrics["balanced_accuracy"] == selection.score(dataset)
    assert found.metrics["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(truth, predicted))
    proba = softmax(scores, axis=1) if scores.ndim == 2 else np.stack([-scores, scores], axis=1)
    for number, label in enumerate(classes):
        expected = metrics.roc_auc_score(truth == label, proba[:, number])
        assert found.per_class.roc_auc.values[number] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("spam", {"accuracy": 1.0, "balanced_accuracy": 1.0, "roc_auc": None, "average_precision": 1.0}),
        ("ham", {"accuracy": 0.0, "balanced_accuracy": 0.0, "roc_auc": None, "average_precision": None}),
    ],
)
def test_one_row(tmp_path, label, expected):
    daskfs.write_dataset(tmp_path / "d.zarr", np.array([[2.0]]), [label], layout="rows")
    found = selection_of([0], [1.0], intercept=[0.0], classes=WORDS).evaluate(tmp_path / "d.zarr")
    record = found.record()
    loss = record["metrics"].pop("log_loss")
    assert record["metrics"] == expected
    assert loss == pytest.approx(-math.log(expit(2.0 if label == "spam" else -2.0)))
    json.dumps(record, allow_nan=False)


def test_rows_without_entries(tmp_path):
    cells = X.copy()
    cells[100:300] = 0
    selection = selection_of(FEATURES, **TWO)
    truth = noisy(selection.predict(cells), WORDS)
    dataset = write(tmp_path / "d.zarr", "sparse rows", cells, truth)
    check(selection.evaluate(dataset), by_scikit_learn(truth, selection.decision_function(cells), WORDS))


def test_weights_that_are_all_zero(tmp_path):
    dataset = write(tmp_path / "d.zarr", "sparse rows", X, np.where(X[:, 0] > 0, "spam", "ham"), np.zeros(N))
    found = selection_of([], [], intercept=[0.5], classes=WORDS).evaluate(dataset)
    assert all(map(math.isnan, found.metrics.values()))
    assert found.per_class.rows.values.sum() == N


def test_no_rows():
    with pytest.raises(OptionError, match="one row at least"):
        selection_of(FEATURES, **TWO).evaluate(X[:0], [])


def test_a_score_that_overflows():
    big = np.array([[1.0], [1e300], [1.0]])
    selection = selection_of([0], [1e10], intercept=[0.0], classes=WORDS)
    with np.errstate(over="ignore"), pytest.raises(OptionError, match="row 1: its score is not finite"):
        selection.evaluate(big, ["ham", "spam", "ham"])


def test_far_apart_scores_still_rank():
    """Probabilities of 1 - 1e-30 and 1 - 1e-40 are one number; log-odds are two."""
    scores = np.array([[70.0, 0, -5], [90.0, 0, -5], [80.0, 0, -5]])
    weights = np.zeros((3, 3))
    np.fill_diagonal(weights, 1.0)
    selection = selection_of([0, 1, 2], weights, intercept=[0, 0, 0], classes=COLOURS)
    found = selection.evaluate(scores, ["green", "blue", "blue"])
    assert found.per_class.roc_auc.values[:2].tolist() == [1.0, 1.0]


def test_one_class_alone():
    """Softmax gives it all of the probability."""
    selection = selection_of([0], [[1.0]], intercept=[0.0], classes=("ham",))
    found = selection.evaluate(X, ["ham"] * N)
    assert found.metrics == pytest.approx(
        {"accuracy": 1, "balanced_accuracy": 1, "log_loss": 0, "roc_auc": math.nan, "average_precision": 1}, nan_ok=True
    )


def test_a_record_for_json(tmp_path):
    selection = selection_of(FEATURES, **(THREE | {"classes": (2.0, 5.0, 9.0)}))
    found = selection.evaluate(X, noisy(selection.predict(X), (2.0, 5.0)))
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert [line["class"] for line in record["per_class"]] == [2.0, 5.0, 9.0]
    assert [line["rows"] for line in record["per_class"]] == found.per_class.rows.values.tolist()
    assert record["metrics"]["roc_auc"] == found.metrics["roc_auc"]


def test_progress_reaches_the_end(tmp_path):
    dataset = write(tmp_path / "d.zarr", "rows", X, np.where(X[:, 0] > 0, "spam", "ham"))
    seen: list[tuple[int, int]] = []
    selection_of(FEATURES, **TWO).evaluate(dataset, progress=lambda *now: seen.append(now))
    assert seen == sorted(seen)
    assert seen[-1] == (3 * N, 3 * N)
    selection_of(FEATURES).evaluate(X, X[:, 0], progress=lambda *now: seen.append(now))
    assert seen[-1] == (N, N)


def test_scores_come_block_by_block(tmp_path):
    selection = selection_of(FEATURES, **THREE)
    for layout in LAYOUTS:
        dataset = write(tmp_path / layout / "d.zarr", layout, X, X[:, 0])
        blocks = list(selection.scores(dataset))
        assert (len(blocks) > 1) == layout.endswith("rows")
        assert [rows.start for rows, _ in blocks] == [0, *(rows.stop for rows, _ in blocks[:-1])]
        assert [len(scores) for _, scores in blocks] == [rows.stop - rows.start for rows, _ in blocks]
        np.testing.assert_array_equal(
            np.concatenate([scores for _, scores in blocks]), selection.decision_function(dataset)
        )


def test_data_under_other_names_is_refused_at_once(tmp_path):
    daskfs.write_dataset(tmp_path / "d.zarr", X, X[:, 0], ["a", "b", "c", "d"])
    for method in ("scores", "evaluate", "score"):
        with pytest.raises(OptionError, match="feature 2 is 'c' there and 'x2' in the selection"):
            getattr(selection_of(FEATURES), method)(tmp_path / "d.zarr")


@pytest.mark.slow_but_first
@pytest.mark.parametrize("model", [TWO, THREE], ids=["two", "three"])
def test_memory_does_not_grow_with_rows(tmp_path, monkeypatch, model):
    small = partial(SortedScores, run_bytes=1 << 20, merge_bytes=1 << 20)
    monkeypatch.setattr("daskfs.selection.evaluation.SortedScores", small)
    selection, peaks = selection_of(FEATURES, **model), []
    for rows in (1000, 200_000, 1_000_000):  # the first warms up; labels are stored in chunks of 131,072
        cells = np.tile(X, (rows // N + 1, 1))[:rows]
        truth = noisy(selection.predict(cells), model["classes"])
        daskfs.write_dataset(tmp_path / f"{rows}", cells, truth, layout="rows", chunk_bytes=1_000_000)
        for work in (selection.score, selection.evaluate):
            dataset = daskfs.open_dataset(tmp_path / f"{rows}")
            tracemalloc.start()
            work(dataset)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[4] < peaks[2] + 6_000_000  # how far the thread that reads ahead has come, and labels of recent rows
    assert peaks[5] < peaks[3] + 6_000_000
