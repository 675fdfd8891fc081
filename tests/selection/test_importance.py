"""What a selection says besides weights: importance, kept features, and what the data decided."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from selections import selection_of

import daskfs
from daskfs.algorithms.keep import kept_features, names_to_keep
from daskfs.errors import OptionError, SelectionError
from daskfs.protocol import NO_PARENT, Result
from daskfs.selection.products import Products
from daskfs.selection.selection import KeptFeatures, Selection

X = np.random.default_rng(3).normal(size=(60, 9)).astype(np.float32)
SOURCE = {"url": "some.zarr", "digest": "0", "n_samples": 60, "n_features": 9}


def as_selection(n_kept: int = 0, importance: np.ndarray | None = None) -> Selection:
    result = Result(
        features=np.array([4, 1, 7], np.uint64),
        weights=np.array([0.5, -2.0, 3.0]),
        intercept=np.array([1.0]),
        classes=None,
        history=[{"objective": 1.0}],
        importance=importance,
        n_kept=n_kept,
        chosen={"loss": "squared", "ridge": 0.5},
    )
    return Selection.from_result(result, ["x4", "x1", "x7"], {"name": "Any", "loss": "auto"}, SOURCE, 0)


def test_importance_is_a_share() -> None:
    assert as_selection(importance=np.array([3.0, 1.0, 0.0])).importance.tolist() == [0.75, 0.25, 0]
    assert as_selection(importance=np.zeros(3)).importance.tolist() == [1 / 3] * 3
    assert as_selection(1, np.array([3.0, 1.0, 9.0])).importance.tolist() == [0.75, 0.25]


def test_importance_without_a_measure_is_that_of_the_weights() -> None:
    np.testing.assert_allclose(as_selection().importance, np.array([0.5, 2, 3]) / 5.5)


def test_kept_features_predict_but_do_not_count(tmp_path: Path) -> None:
    selection = as_selection(n_kept=1)
    assert selection.names == ["x4", "x1"]
    np.testing.assert_array_equal(selection.transform(X), X[:, [4, 1]])
    scores = X.astype(float)[:, [4, 1, 7]] @ [0.5, -2.0, 3.0] + 1.0
    np.testing.assert_allclose(selection.predict(X), scores)
    np.testing.assert_allclose(selection.to_sklearn().predict(X[:, selection.model.features]), scores, rtol=1e-6)
    selection.save(tmp_path / "run")
    again = daskfs.load_selection(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(X), selection.predict(X))
    assert again.kept.names == ["x7"]
    assert (again.chosen, again.loss) == ({"loss": "squared", "ridge": 0.5}, "squared")
    np.testing.assert_array_equal(again.importance, selection.importance)


def test_kept_features_stand_before_products() -> None:
    pair = Products(np.array([[1, 2], [NO_PARENT, NO_PARENT]], np.uint64), [("x1", "x2"), ("", "")])
    kept = KeptFeatures(np.array([7], np.uint64), ["x7"], np.array([3.0]))
    selection = selection_of([100, 4], [0.5, -2.0], intercept=[1.0], names=["x1 × x2", "x4"])
    selection = replace(selection, products=pair, kept=kept)
    rows = X.astype(float)
    scores = 0.5 * rows[:, 1] * rows[:, 2] - 2 * rows[:, 4] + 3 * rows[:, 7] + 1
    np.testing.assert_allclose(selection.predict(X), scores, rtol=1e-5)


def test_a_feature_cannot_be_kept_and_selected() -> None:
    kept = KeptFeatures(np.array([4], np.uint64), ["x4"], np.array([3.0]))
    with pytest.raises(OptionError, match="twice"):
        replace(as_selection(), kept=kept)


def test_score_by_size_has_the_kept_features_in_every_fit(tmp_path: Path) -> None:
    y = 5 * X[:, 7] + X[:, 4] + 0.1 * X[:, 1]
    daskfs.write_dataset(tmp_path / "data.zarr", X, y)
    path = daskfs.size_path(as_selection(n_kept=1), tmp_path / "data.zarr", tmp_path / "data.zarr")
    alone = daskfs.size_path(as_selection(), tmp_path / "data.zarr", tmp_path / "data.zarr", [1, 2])
    assert path.sizes == [1, 2]
    assert path.scores[0] > 0.99 > 0.5 > max(alone.scores)


@pytest.mark.parametrize("kept", ["3", "[3]", '[{"id": 7, "name": "x7", "weight": "a"}]'])
def test_a_damaged_record_is_refused(tmp_path: Path, kept: str) -> None:
    as_selection(n_kept=1).save(tmp_path / "run")
    file = tmp_path / "run/selection.json"
    file.write_text(file.read_text().replace('"kept": ', f'"kept": {kept}, "was": '))
    with pytest.raises(SelectionError, match=r"damaged|make the selection again"):
        daskfs.load_selection(tmp_path / "run")


def test_names_to_keep(tmp_path: Path) -> None:
    daskfs.write_dataset(tmp_path / "named.zarr", X, X[:, 0], feature_names=["age", *(f"gene{i}" for i in range(8))])
    daskfs.write_dataset(tmp_path / "numbered.zarr", X, X[:, 0])
    (tmp_path / "rows.vw").write_text("1 |user sex=f age:3\n2 |user sex=m age:4\n")
    daskfs.ingest(tmp_path / "rows.vw", tmp_path / "rows.zarr", format="vw")
    (tmp_path / "reads.fa").write_text(">1\nACGTA\n>2\nTTACG\n")
    daskfs.ingest(tmp_path / "reads.fa", tmp_path / "reads.zarr", format="fasta", label="header:(.)", k=3)

    def names(dataset: str, *keep: str) -> list[str]:
        opened = daskfs.open_dataset(tmp_path / dataset)
        return opened.names(kept_features(keep, opened.meta))

    assert names("named.zarr", "gene3", "age", "gene3") == ["gene3", "age"]
    assert names("numbered.zarr", "x8", "0") == ["x8", "x0"]
    assert sorted(names("rows.zarr", "user")) == ["user^age", "user^sex=f", "user^sex=m"]
    assert names("reads.zarr", "ACG") == ["ACG"]
    for dataset, absent in [
        ("named.zarr", "gene8"),
        ("numbered.zarr", "x9"),
        ("numbered.zarr", "age"),
        ("reads.zarr", "x"),
    ]:
        with pytest.raises(OptionError, match=f"no feature '{absent}'"):
            names(dataset, absent)
    with pytest.raises(OptionError, match="list of names"):
        names_to_keep("age")
