"""Score against size: every prefix as if it were fitted alone, over layouts, targets, weights and kinds of features."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from faults.samples import small_blocks
from reference import prefix_discriminant, prefix_ridge
from selections import selection_of
from sklearn import metrics

import daskfs
from daskfs.errors import OptionError
from daskfs.selection import column_slices, sizes
from daskfs.selection.prefix_fits import RIDGES, CrossSums, prefix_fits
from daskfs.selection.records import SIZES, read_record, write_record
from daskfs.store.places.location import Location

RNG = np.random.default_rng(21)
N, P = 300, 8
MIXED = RNG.normal(size=(P, P)) / 2 + np.eye(P)
X = (RNG.normal(size=(2 * N, P)) @ MIXED).astype(np.float32)
X[np.abs(X) < 0.7] = 0  # for sparse layouts
SIGNAL = X[:, [5, 2, 0]] @ [2.0, -1.0, 0.5] + RNG.normal(size=2 * N)
TARGETS = {
    "values": SIGNAL,
    "words": np.where(SIGNAL > 1, "spam", "ham"),
    "colours": np.array(["blue", "green", "red"])[np.digitize(SIGNAL, [-1, 1])],
}
FEATURES = [5, 2, 0, 7, 1]
LAYOUTS = ["rows", "columns", "both", "sparse rows", "sparse columns"]


def model_of(target: str) -> daskfs.Selection:
    if target == "values":
        return selection_of(FEATURES, [1.9, -0.8, 0.4, 0.0, 0.1])
    if target == "words":
        return selection_of(FEATURES, [1.9, -0.8, 0.4, 0.0, 0.1], classes=("ham", "spam"))
    return selection_of(FEATURES, RNG.normal(size=(5, 3)), intercept=np.zeros(3), classes=("blue", "green", "red"))


def write(folder: Path, layout: str, X: np.ndarray, y: Any) -> daskfs.Dataset:
    with small_blocks(entries=100):
        if not layout.startswith("sparse"):
            daskfs.write_dataset(folder, X, y, layout=layout, chunk_bytes=1500)
        else:
            daskfs.write_dataset(folder, sp.csr_array(X), y)
        if layout == "sparse columns":
            folder.rename(folder.with_name("rows of it"))
            daskfs.transpose(folder.with_name("rows of it"), folder, block_entries=60)
            folder.with_name("rows of it").rename(folder.with_suffix(".rows"))
    return daskfs.open_dataset(folder)


def dense(cells: Any) -> np.ndarray:
    return np.asarray(cells.toarray() if sp.issparse(cells) else cells, np.float64)


def one_by_one(
    selection: daskfs.Selection, train: Any, test: Any, sizes: list[int], weights: tuple[Any, Any] = (None, None)
) -> tuple[list[float], list[float]]:
    """Scores and ridges, each size fitted on its own with everything in memory; train and test are X and y."""
    first = np.ones(len(train[1])) if weights[0] is None else weights[0]
    cells, others = (dense(selection.transform(part[0])) for part in (train, test))
    scores, ridges = [], []
    for size in sizes:
        predict, ridge = alone(selection, cells[:, :size], train[1], first)
        scores.append(judged(selection, predict(others[:, :size]), test[1], weights[1]))
        ridges.append(ridge)
    return scores, ridges


def alone(selection: daskfs.Selection, cells: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Any:
    if selection.classes is None:
        return prefix_ridge.fitted(cells, y[:, None], weight, RIDGES)
    codes = np.searchsorted(selection.classes, y)
    return prefix_discriminant.fitted(cells, codes, len(selection.classes), weight, RIDGES)


def judged(selection: daskfs.Selection, scores: np.ndarray, y: np.ndarray, weight: Any) -> float:
    if selection.classes is None:
        return metrics.r2_score(y, scores[:, 0], sample_weight=weight)
    return metrics.balanced_accuracy_score(y, np.array(selection.classes)[scores.argmax(axis=1)], sample_weight=weight)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_prefix_as_if_fitted_alone(tmp_path, monkeypatch, layout, target):
    monkeypatch.setattr(column_slices, "WINDOW_CELLS", 300)
    selection, y = model_of(target), TARGETS[target]
    train = write(tmp_path / "train.zarr", layout, X[:N], y[:N])
    test = write(tmp_path / "test.zarr", layout, X[N:], y[N:])
    assert train.n_blocks() > 1
    path = daskfs.size_path(selection, train, test)
    assert path.sizes == [1, 2, 3, 4, 5]
    scores, ridges = one_by_one(selection, (X[:N], y[:N]), (X[N:], y[N:]), path.sizes)
    np.testing.assert_allclose(path.scores, scores, rtol=1e-7)
    assert path.ridges == ridges
    found = selection.evaluate(test)
    assert path.as_selected == (found.metrics[path.metric], found.intervals[path.metric])
    assert all(low < score < high for score, (low, high) in zip(path.scores, path.intervals, strict=True))


def test_intervals_are_those_of_an_evaluation(tmp_path):
    """A model with the weights of a fit, evaluated, has its score and its interval."""
    y = TARGETS["values"]
    train, test = (write(tmp_path / name, "rows", X[rows], y[rows]) for name, rows in PARTS.items())
    path = daskfs.size_path(model_of("values"), train, test, [2])
    sums = CrossSums()
    sums.add(X[:N, FEATURES[:2]].astype(float), y[:N, None], None)
    [fit] = prefix_fits(sums.correlations(), [2])
    found = selection_of(FEATURES[:2], fit.weights[:, 0], intercept=fit.intercept).evaluate(test)
    assert path.scores == pytest.approx([found.metrics["r2"]])
    assert path.intervals[0] == pytest.approx(found.intervals["r2"])


PARTS = {"train.zarr": slice(0, N), "test.zarr": slice(N, 2 * N)}


def test_weights_count(tmp_path):
    weight = RNG.integers(0, 5, 2 * N) / 4
    datasets = []
    for name, rows in PARTS.items():
        lines = [
            f"{label} {w} | " + " ".join(f"x{i}:{value}" for i, value in enumerate(row) if value)
            for row, label, w in zip(X[rows], TARGETS["words"][rows], weight[rows], strict=True)
        ]
        (tmp_path / f"{name}.vw").write_text("\n".join(lines) + "\n")
        datasets.append(daskfs.ingest(tmp_path / f"{name}.vw", tmp_path / name, "vw", workers=1))
    train, test = datasets
    ids = {
        name: int(id_) for block in train.blocks() for name, id_ in zip(train.names(block.ids), block.ids, strict=True)
    }
    names = [f"x{feature}" for feature in FEATURES]
    selection = selection_of([ids[name] for name in names], names=names, classes=("ham", "spam"))
    path = daskfs.size_path(selection, train, test)
    by_number = selection_of(FEATURES, classes=("ham", "spam"))
    y, parts = TARGETS["words"], (slice(0, N), slice(N, 2 * N))
    scores, ridges = one_by_one(
        by_number, *((X[rows], y[rows]) for rows in parts), path.sizes, tuple(weight[rows] for rows in parts)
    )
    np.testing.assert_allclose(path.scores, scores, rtol=1e-7)
    assert path.ridges == ridges
    assert path.as_selected[0] == selection.evaluate(test).metrics["balanced_accuracy"]


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_random_features(tmp_path, layout):
    X = RNG.uniform(size=(600, 4))
    y = np.sin(5 * X[:, 0]) * X[:, 2] + 0.1 * RNG.normal(size=600)
    train = write(tmp_path / "train.zarr", layout, X[:400], y[:400])
    test = write(tmp_path / "test.zarr", layout, X[400:] * 0.9 + 0.05, y[400:])
    rows = write(tmp_path / "rows.zarr", "rows", X[:400], y[:400])
    selection = daskfs.select(rows, daskfs.SparseRandomFeatures(n_select=12, rounds=3, per_round=80))
    path = daskfs.size_path(selection, train, test, [1, 5, 12])
    scores, ridges = one_by_one(selection, (train, y[:400]), (test, y[400:]), path.sizes)
    np.testing.assert_allclose(path.scores, scores, rtol=1e-5)
    assert path.ridges == ridges
    assert path.scores[2] > path.scores[0]


def test_products_of_features(tmp_path):
    rows = np.where(X > 0, 1.0, 0.0).astype(np.float32)
    y = np.where((rows[:, 1] * rows[:, 4] + 0.3 * RNG.normal(size=2 * N)) > 0.5, 1.0, -1.0)
    train, test = (write(tmp_path / name, "sparse rows", rows[part], y[part]) for name, part in PARTS.items())
    selection = daskfs.select(train, daskfs.Mission(6, interactions="all", learning_rate=0.3, width=2**10))
    assert selection.products is not None
    path = daskfs.size_path(selection, train, test)
    scores, _ = one_by_one(selection, (train, y[:N]), (test, y[N:]), path.sizes)
    np.testing.assert_allclose(path.scores, scores, rtol=1e-7)


@pytest.mark.parametrize("layout", ["rows", "columns", "sparse rows"])
def test_constants_copies_and_far_columns(tmp_path, layout):
    """They do no harm: no NaN, and as good as without them."""
    far = np.stack([X[:, 5], np.full(2 * N, 3.0), X[:, 5], X[:, 2] * 1e-20, X[:, 0] * 1e20, 0 * X[:, 0]], axis=1)
    y = TARGETS["values"]
    train, test = (write(tmp_path / name, layout, far[part], y[part]) for name, part in PARTS.items())
    path = daskfs.size_path(selection_of([0, 1, 2, 3, 4, 5], [1.0] * 4 + [0, 0]), train, test)
    plain, _ = one_by_one(selection_of([5, 2, 0]), (X[:N], y[:N]), (X[N:], y[N:]), [1, 2, 3])
    np.testing.assert_allclose(np.array(path.scores)[[0, 1, 2, 3, 4, 5]], np.repeat(plain, [3, 1, 2]), atol=2e-3)


def test_a_column_and_a_target_far_from_zero(tmp_path):
    far, y = X.astype(np.float64) + 1e7, TARGETS["values"] + 1e9
    paths = []
    for number, (cells, values) in enumerate([(X.astype(np.float64), TARGETS["values"]), (far, y)]):
        train, test = (
            write(tmp_path / f"{number}{name}", "rows", cells[part], values[part]) for name, part in PARTS.items()
        )
        paths.append(daskfs.size_path(model_of("values"), train, test))
    np.testing.assert_allclose(paths[1].scores, paths[0].scores, rtol=1e-6)


def test_more_features_than_rows():
    """The ridge that cross-validation takes saves what least squares would lose."""
    rng = np.random.default_rng(5)
    X, b = rng.normal(size=(1040, 80)), np.r_[np.ones(10), np.zeros(70)]
    y = X @ b + 2 * rng.normal(size=1040)
    sums = CrossSums()
    sums.add(X[:40], y[:40, None], None)
    of = sums.correlations()
    fits, bare = prefix_fits(of, [10, 39, 80]), prefix_fits(of, [10, 39, 80], ridges=(1e-6,))
    scores, worse = (
        [metrics.r2_score(y[40:], X[40:, : len(fit.weights)] @ fit.weights[:, 0] + fit.intercept[0]) for fit in each]
        for each in (fits, bare)
    )
    assert scores[1] > worse[1] + 1
    assert scores[0] > 0.4
    assert all(np.isfinite(fit.weights).all() for fit in fits)


def test_windows_do_not_matter():
    rng = np.random.default_rng(0)
    X, Y, weight = rng.normal(size=(500, 7)) + 50, rng.normal(size=(500, 2)), rng.random(500).astype(np.float32)
    found = []
    for cuts, form in (([], np.asarray), ([1, 2, 77, 400], np.asarray), ([250], sp.csr_array)):
        sums = CrossSums()
        for rows in np.split(np.arange(500), cuts):
            sums.add(form(X[rows]), Y[rows], weight[rows])
        found.append(sums.correlations())
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)
    covariance = np.cov(X.T, aweights=weight)
    deviation = np.sqrt(covariance.diagonal())
    np.testing.assert_allclose(found[0].R, covariance / np.outer(deviation, deviation), rtol=1e-9, atol=1e-12)


def test_default_sizes(tmp_path):
    y = TARGETS["values"]
    wide = RNG.normal(size=(80, 100))
    daskfs.write_dataset(tmp_path / "d.zarr", wide, y[:80])
    path = daskfs.size_path(selection_of(range(100)), tmp_path / "d.zarr", tmp_path / "d.zarr")
    assert path.sizes == [1, 2, 3, 4, 5, 7, 9, 11, 14, 18, 23, 30, 38, 48, 62, 78, 100]
    assert len(path.scores) == len(path.intervals) == len(path.ridges) == 17


def test_too_many_features_say_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes, "MOST_FEATURES", 3)
    y = TARGETS["words"]
    train, test = (write(tmp_path / name, "sparse rows", X[part], y[part]) for name, part in PARTS.items())
    path = daskfs.size_path(model_of("words"), train, test)
    assert (path.sizes, path.n_features) == ([1, 2, 3], 5)
    assert "no more than 3 of its 5" in path.record()["how"]
    assert path.as_selected[0] == model_of("words").score(test)
    with pytest.raises(OptionError, match="none above 3"):
        daskfs.size_path(model_of("words"), train, test, [4])


def test_a_record_and_arrays(tmp_path):
    y = TARGETS["words"]
    train, test = (write(tmp_path / name, "rows", X[part], y[part]) for name, part in PARTS.items())
    path = daskfs.size_path(model_of("words"), train, test, sizes=[5, 1, 1])
    record = path.record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["dataset"], record["digest"]) == (test.url, test.digest)
    assert record["train"] == {"dataset": train.url, "digest": train.digest}
    assert (record["metric"], record["sizes"]) == ("balanced_accuracy", [1, 5])
    assert record["as_selected"]["size"] == 5
    write_record(Location(tmp_path / "run"), SIZES, record)
    assert read_record(Location(tmp_path / "run"), SIZES) == record
    arrays = path.to_xarray()
    assert arrays.score.sel(size=5).item() == path.scores[1]
    assert arrays.interval.sel(size=1, end="high").item() == path.intervals[0][1]


def test_bad_input(tmp_path):
    y, z = TARGETS["words"], TARGETS["colours"]
    train, test = (write(tmp_path / name, "rows", X[part], y[part]) for name, part in PARTS.items())
    other = write(
        tmp_path / "other.zarr", "rows", X, np.where(z == "red", "spam", np.where(z == "blue", "ham", "eggs"))
    )
    selection = model_of("words")
    for arguments, reason in (
        ((X, test), "train: a dataset is needed, or where one is, not a ndarray"),
        ((train, None), "test: a dataset is needed"),
        ((other, test), "other.zarr: has labels that the selection does not know"),
        ((train, test, []), "give some"),
        ((train, test, [0]), "sizes=0: must be a whole number, at least 1"),
        ((train, test, [6]), "none above 5"),
        ((train, write(tmp_path / "real.zarr", "rows", X, SIGNAL)), "real.zarr: its labels are real numbers"),
    ):
        with pytest.raises(OptionError, match=reason):
            daskfs.size_path(selection, *arguments)
    with pytest.raises(OptionError, match="has no features"):
        daskfs.size_path(selection_of([], [], classes=("ham", "spam")), train, test)


def test_no_feature_is_there(tmp_path):
    """A sparse dataset need not have seen any of them: all sizes predict one class."""
    y = TARGETS["words"]
    train, test = (write(tmp_path / name, "sparse columns", X[part], y[part]) for name, part in PARTS.items())
    path = daskfs.size_path(selection_of([20, 21], classes=("ham", "spam")), train, test)
    assert path.scores == [0.5, 0.5]


def test_progress_reaches_the_end(tmp_path):
    train, test = (write(tmp_path / name, "rows", X[part], SIGNAL[part]) for name, part in PARTS.items())
    seen: list[tuple[int, int]] = []
    daskfs.size_path(model_of("values"), train, test, progress=lambda *now: seen.append(now))
    assert seen == sorted(seen)
    assert seen[-1] == (2 * N, 2 * N)


@pytest.mark.slow_but_first
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_memory_does_not_grow_with_rows(tmp_path, monkeypatch, layout):
    """But for the scores of all rows in columns: of four sizes and the selection itself, twice while they add up."""
    monkeypatch.setattr(column_slices, "WINDOW_CELLS", 1 << 14)
    selection, peaks = selection_of(range(80)), []
    for rows in (1000, 10_000, 60_000):  # the first warms up
        cells = np.random.default_rng(0).normal(size=(rows, 80)).astype(np.float32)
        path = tmp_path / f"{layout}{rows}"
        daskfs.write_dataset(path, cells, cells[:, 3], layout=layout, chunk_bytes=240_000)
        tracemalloc.start()
        daskfs.size_path(selection, path, path, [1, 10, 20, 80])
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    held = 0 if layout == "rows" else 50_000 * 8 * 12  # and the target
    assert peaks[2] < peaks[1] + held + 1_500_000
    assert 2 * peaks[2] < 60_000 * 80 * 4
