"""Profiles of features: as numpy and scipy compute them from the same rows, over layouts and sizes of blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from faults.samples import small_blocks
from scipy.stats import binned_statistic
from selections import selection_of

import daskfs
from daskfs.selection import alternatives, profiles, summaries
from daskfs.selection.products import Products
from daskfs.selection.selection import KeptFeatures

RNG = np.random.default_rng(3)
N, STEP = 600, 5
X = RNG.normal(size=(N, 12)).astype(np.float32)
X[:, 7] = 0.8 * X[:, 2] + 0.4 * X[:, 7]
X[:, 8] = -X[:, 2] + 0.2 * X[:, 8]
X[:, 9] = X[:, 2] + 0.9 * X[:, 9]
X[:, 10] = X[:, 2] + 0.8 * X[:, 10]
X[:, 11] = RNG.integers(0, 2, N)
SPARSE = X * (RNG.random(X.shape) < 0.4)
SPARSE[:, 7] = 2 * SPARSE[:, 2]
SPARSE[:, 8] = SPARSE[:, 0]
LABELS = np.array(["a", "b", "c"])[np.digitize(X[:, 2] + 0.3 * RNG.normal(size=N), [-0.5, 1.0])]
NUMBERS = 2 * X[:, 2] + X[:, 5] + 1000
FEATURES = [5, 2, 0, 11]
WIDE = {"weights": np.ones((4, 3)), "intercept": [0.0] * 3, "classes": ("a", "b", "c")}


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """A sample of every fifth row."""
    monkeypatch.setattr(summaries, "SAMPLE_ROWS", N // STEP)
    monkeypatch.setattr(alternatives, "SAMPLE_ROWS", N // STEP)


def written(folder: Path, X: Any, y: np.ndarray, layout: str, size: int) -> daskfs.Dataset:
    with small_blocks(entries=size // 4):
        if isinstance(X, np.ndarray):
            daskfs.write_dataset(folder, X, y, layout=layout, chunk_bytes=size)
        else:
            daskfs.write_dataset(folder, X, y)
        if layout == "columns" and not isinstance(X, np.ndarray):
            folder.rename(folder.with_name("rows.zarr"))
            daskfs.transpose(folder.with_name("rows.zarr"), folder, block_entries=size // 4)
    return daskfs.open_dataset(folder)


LAYOUTS = pytest.mark.parametrize("layout", ["rows", "columns"])
SIZES = pytest.mark.parametrize("size", [3000, 1_000_000])


@LAYOUTS
@SIZES
def test_distributions_by_class(layout, size, tmp_path):
    dataset = written(tmp_path / "d.zarr", X, LABELS, layout, size)
    record = profiles.feature_profiles(selection_of(FEATURES, **WIDE), dataset)
    assert record["classes"] == [{"class": label, "rows": int((label == LABELS).sum())} for label in "abc"]
    assert (record["rows"], record["sampled"], record["shown"]) == (N, N // STEP, [0, 1, 2])
    assert [feature["id"] for feature in record["features"]] == FEATURES
    for feature in record["features"]:
        values = X[::STEP, feature["id"]].astype(float)
        low, high = np.quantile(values, [0.01, 0.99])
        np.testing.assert_allclose([feature["edges"][0], feature["edges"][-1]], [low, high])
        for label, counts in zip("abc", feature["counts"], strict=True):
            inside = np.clip(values[LABELS[::STEP] == label], low, high)
            np.testing.assert_array_equal(counts, np.histogram(inside, 24, (low, high))[0])


def test_only_the_most_frequent_classes_are_shown(tmp_path):
    y = np.concatenate([np.repeat(np.arange(8), 50), np.repeat(np.arange(2, 8), [40, 30, 20, 10, 50, 50])])
    model = {"weights": np.ones((1, 8)), "intercept": [0.0] * 8, "classes": tuple(range(8))}
    record = profiles.feature_profiles(
        selection_of([2], **model), written(tmp_path / "d.zarr", X, y, "columns", 1_000_000)
    )
    assert record["shown"] == [2, 3, 4, 5, 6, 7]
    [feature] = record["features"]
    np.testing.assert_array_equal(np.sum(feature["counts"], axis=1), np.bincount(y[::STEP])[2:])


def test_a_constant_and_a_nearly_constant_column(tmp_path):
    cells = X.copy()
    cells[:, 0], cells[:, 5] = 7, 0
    cells[STEP, 5] = 1
    dataset = written(tmp_path / "d.zarr", cells, LABELS, "columns", 1_000_000)
    nearly, _, constant, _ = profiles.feature_profiles(selection_of(FEATURES, **WIDE), dataset)["features"]
    assert constant["edges"] == [7, 7]
    assert sum(map(sum, constant["counts"])) == N // STEP
    assert (nearly["edges"][0], nearly["edges"][-1]) == (0, 1)
    assert np.sum(nearly["counts"], axis=0).tolist() == [N // STEP - 1, *([0] * 22), 1]


@LAYOUTS
@SIZES
def test_the_mean_target_in_bins(layout, size, tmp_path):
    dataset = written(tmp_path / "d.zarr", X, NUMBERS, layout, size)
    record = profiles.feature_profiles(selection_of(FEATURES), dataset)
    assert record["classes"] is None
    *numbers, flag = record["features"]
    for feature in numbers:
        values, target = X[::STEP, feature["id"]].astype(float), NUMBERS[::STEP]
        edges = np.quantile(values, np.linspace(0, 1, 13))
        np.testing.assert_allclose(feature["means"], binned_statistic(values, target, "mean", edges)[0])
        np.testing.assert_allclose(feature["places"], binned_statistic(values, values, "mean", edges)[0])
        np.testing.assert_array_equal(feature["counts"], np.histogram(values, edges)[0])
    values = X[::STEP, 11]
    assert flag["places"] == [0, 1]
    np.testing.assert_allclose(
        flag["means"], [NUMBERS[::STEP][values == 0].mean(), NUMBERS[::STEP][values == 1].mean()]
    )


def test_several_targets_have_distributions_of_all_rows(tmp_path):
    dataset = written(tmp_path / "d.zarr", X, np.stack([NUMBERS, -NUMBERS], axis=1), "columns", 3000)
    model = {"weights": np.ones((4, 2)), "intercept": [0.0, 0.0], "targets": ("y0", "y1")}
    for feature in profiles.feature_profiles(selection_of(FEATURES, **model), dataset)["features"]:
        assert np.sum(feature["counts"]) == N // STEP


@LAYOUTS
@SIZES
def test_sparse_features_in_all_rows(layout, size, tmp_path):
    dataset = written(tmp_path / "d.zarr", sp.csr_array(SPARSE), LABELS, layout, size)
    record = profiles.feature_profiles(selection_of(FEATURES, **WIDE), dataset)
    assert [each["rows"] for each in record["classes"]] == [int((label == LABELS).sum()) for label in "abc"]
    for feature in record["features"]:
        columns = [SPARSE[label == LABELS, feature["id"]] for label in "abc"]
        assert feature["present"] == [np.count_nonzero(column) for column in columns]
        np.testing.assert_allclose(feature["values"], [column[column != 0].mean() for column in columns], rtol=1e-6)


@LAYOUTS
@SIZES
def test_sparse_features_and_a_number(layout, size, tmp_path):
    dataset = written(tmp_path / "d.zarr", sp.csr_array(SPARSE), NUMBERS, layout, size)
    for feature in profiles.feature_profiles(selection_of(FEATURES), dataset)["features"]:
        there = SPARSE[:, feature["id"]] != 0
        assert feature["present"] == [there.sum()]
        np.testing.assert_allclose(
            [feature["with"], feature["without"]], [NUMBERS[there].mean(), NUMBERS[~there].mean()]
        )


@LAYOUTS
@SIZES
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_alternatives_are_the_most_correlated_columns(kind, layout, size, tmp_path):
    dense = X if kind == "dense" else SPARSE
    rows = dense[::STEP] if kind == "dense" else dense
    expected = np.corrcoef(rows.T.astype(float))
    expected[:, FEATURES] = 0
    dataset = written(tmp_path / "d.zarr", X if kind == "dense" else sp.csr_array(SPARSE), NUMBERS, layout, size)
    record = profiles.feature_profiles(selection_of(FEATURES), dataset)
    assert record["alternatives"] == ""
    some = 0
    for feature in record["features"]:
        own = expected[feature["id"]]
        wanted = [at for at in np.argsort(-np.abs(own))[:3] if abs(own[at]) >= 0.5]
        assert [one["id"] for one in feature["alternatives"]] == wanted
        assert [one["name"] for one in feature["alternatives"]] == [f"x{at}" for at in wanted]
        np.testing.assert_allclose([one["correlation"] for one in feature["alternatives"]], own[wanted], atol=1e-5)
        some += len(wanted)
    assert some >= 2


def test_kept_features_and_parents_of_products_are_no_alternatives(tmp_path):
    dataset = written(tmp_path / "d.zarr", X, NUMBERS, "columns", 3000)
    none = 2**64 - 1
    products = Products(np.array([[none, none], [8, 9]], np.uint64), [("", ""), ("x8", "x9")])
    selection = selection_of([2, 99], names=["x2", "x8 × x9"])
    kept = KeptFeatures(np.array([10], np.uint64), ["x10"], np.ones(1))
    selection = replace(selection, products=products, kept=kept)
    single, product = profiles.feature_profiles(selection, dataset)["features"]
    assert [one["id"] for one in single["alternatives"]] == [7]
    assert "alternatives" not in product
    np.testing.assert_allclose(product["places"][0], np.sort((X[:, 8] * X[:, 9])[::STEP])[:10].mean(), rtol=1e-5)


@LAYOUTS
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_selection_of_products_alone(kind, layout, tmp_path):
    cells = X if kind == "dense" else sp.csr_array(SPARSE)
    dataset = written(tmp_path / "d.zarr", cells, NUMBERS, layout, 3000)
    selection = selection_of([99], names=["x8 × x9"])
    selection = replace(selection, products=Products(np.array([[8, 9]], np.uint64), [("x8", "x9")]))
    [product] = profiles.feature_profiles(selection, dataset)["features"]
    assert "alternatives" not in product


def test_chance_is_no_alternative(tmp_path):
    """Of 2,000 columns of 20 rows, several are correlated with any column by more than a half."""
    noise = RNG.normal(size=(20, 2000)).astype(np.float32)
    assert (np.abs(np.corrcoef(noise.T)[0, 1:]) > 0.5).sum() > 5
    dataset = written(tmp_path / "d.zarr", noise, noise[:, 0], "columns", 1_000_000)
    [feature] = profiles.feature_profiles(selection_of([0]), dataset)["features"]
    assert feature["alternatives"] == []


@LAYOUTS
def test_a_rare_column_is_no_alternative(layout, tmp_path):
    rare = np.zeros((N, 4), np.float32)
    rare[:9, :2] = 1
    rare[20:30, 2:] = 1
    dataset = written(tmp_path / "d.zarr", sp.csr_array(rare), NUMBERS, layout, 3000)
    nine, ten = profiles.feature_profiles(selection_of([0, 2]), dataset)["features"]
    assert nine["alternatives"] == []
    assert [one["id"] for one in ten["alternatives"]] == [3]


@pytest.mark.parametrize(
    ("limit", "kind", "layout", "said"),
    [
        ("MOST_BYTES", "dense", "columns", "the dataset has more than"),
        ("MOST_SUMS", "dense", "rows", "laid out in rows"),
        ("MOST_SUMS", "sparse", "rows", "laid out in rows, and have feature ids up to 11"),
    ],
)
def test_what_costs_too_much_is_left_out_with_a_reason(limit, kind, layout, said, tmp_path, monkeypatch):
    monkeypatch.setattr(alternatives, limit, 40)
    cells = X if kind == "dense" else sp.csr_array(SPARSE)
    record = profiles.feature_profiles(
        selection_of(FEATURES), written(tmp_path / "d.zarr", cells, NUMBERS, layout, 3000)
    )
    assert said in record["alternatives"]
    assert all("alternatives" not in feature for feature in record["features"])


def test_sparse_columns_with_many_entries_are_compared_for_the_first_features(tmp_path, monkeypatch):
    dataset = written(tmp_path / "d.zarr", sp.csr_array(SPARSE), NUMBERS, "columns", 3000)
    monkeypatch.setattr(alternatives, "MOST_ENTRIES", int(np.count_nonzero(SPARSE[:, FEATURES[:2]])))
    record = profiles.feature_profiles(selection_of(FEATURES), dataset)
    assert record["alternatives"] == "Only the first 2 features were compared with all others."
    assert ["alternatives" in feature for feature in record["features"]] == [True, True, False, False]


@pytest.mark.parametrize("layout", ["rows", "both"])
@pytest.mark.parametrize("target", ["numbers", "two", "three"])
def test_inputs_of_random_features(target, layout, tmp_path):
    y = {"numbers": np.cos(3 * X[:, 2]) + X[:, 5], "two": LABELS == "a", "three": LABELS}[target]
    columns = X[:, [2, 5, 7, 0]]
    dataset = written(tmp_path / "d.zarr", columns, y, layout, 3000)
    selection = daskfs.select(dataset, daskfs.SparseRandomFeatures(n_select=6, rounds=2, per_round=40))
    record = profiles.feature_profiles(selection, dataset)
    shares = selection.input_importance
    assert [feature["name"] for feature in record["features"]] == shares.input.values.tolist()
    np.testing.assert_allclose([feature["importance"] for feature in record["features"]], shares.values)
    assert record["effect_of"] == ("prediction" if target == "numbers" else "probability")
    model, sample = selection.to_sklearn(), columns[::STEP]
    for feature in record["features"]:
        at = feature["id"]
        np.testing.assert_allclose(
            feature["effect"]["values"][::20], np.quantile(sample[:, at], [0.01, 0.99]), rtol=1e-6
        )
        for number in (0, 11, 20):
            rows = sample.astype(float)
            rows[:, at] = feature["effect"]["values"][number]
            expected = model.predict(rows)[:, None] if target == "numbers" else model.predict_proba(rows)
            expected = expected[:, 1:] if target == "two" else expected
            found = [mean[number] for mean in feature["effect"]["means"]]
            np.testing.assert_allclose(found, expected.mean(axis=0), rtol=1e-3, atol=1e-3)
        own = np.corrcoef(sample.T.astype(float))[at]
        wanted = [other for other in np.argsort(-np.abs(own))[1:4] if abs(own[other]) >= 0.5]
        assert [one["id"] for one in feature["alternatives"]] == wanted
    assert any(feature["alternatives"] for feature in record["features"])


def test_no_more_than_fifty_features(tmp_path):
    wide = RNG.normal(size=(100, 70)).astype(np.float32)
    dataset = written(tmp_path / "d.zarr", wide, wide[:, 0], "columns", 1_000_000)
    assert len(profiles.feature_profiles(selection_of(list(range(60))), dataset)["features"]) == 50
