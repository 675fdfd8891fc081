"""Tables with several label columns: each is a target of its own, and all are numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from faults.samples import small_blocks

import daskfs
from daskfs.errors import BadLineError, OptionError

N = 200


def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(N, 4)), columns=list("abcd"))
    table["size"], table["age"] = 1e6 * table.b - table.c, np.arange(N) % 7
    return table


def with_text():
    table = frame()
    table["town"] = np.array(["Rome", "Oslo", "Bern"])[np.arange(N) % 3]
    return table


def save(folder, table, kind="csv"):
    path = folder / f"table.{kind}"
    table.to_parquet(path, row_group_size=60) if kind == "parquet" else table.to_csv(path, index=False)
    return path


def targets_of(dataset):
    return np.concatenate([piece.copy() for piece in dataset.targets()])


@pytest.mark.parametrize("label", ["size,age", ["size", "age"], ("size", "age")])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("table", [frame(), with_text()], ids=["dense", "sparse"])
@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
def test_tables_of_every_kind(tmp_path, table, kind, label, layout):
    path = save(tmp_path, table, kind)
    with small_blocks():
        dataset = daskfs.ingest(path, tmp_path / "d", kind, label=label, layout=layout, order="as-is")
    assert dataset.kind == ("sparse" if "town" in table else "dense")
    assert dataset.target_names == ("size", "age")
    assert np.array_equal(targets_of(dataset), table[["size", "age"]])
    axis = "rows" if dataset.layout == "both" else dataset.axis
    blocks = [dataset.read(number, axis) for number in range(dataset.n_blocks(axis))]
    assert axis == "columns" or np.array_equal(np.concatenate([block.y for block in blocks]), table[["size", "age"]])
    kinds = {row["column"]: row["kind"] for row in dataset.attributes["columns"]}
    assert (kinds["size"], kinds["age"], kinds["a"]) == ("label", "label", "numeric")
    assert dataset.n_features == (7 if "town" in table else 4)


def test_targets_have_the_order_that_was_asked_for(tmp_path):
    path = save(tmp_path, frame())
    dataset = daskfs.ingest(path, tmp_path / "d", "csv", label="age,size")
    assert dataset.target_names == ("age", "size")
    like = daskfs.ingest(path, tmp_path / "like", "csv", like=dataset)
    assert like.target_names == ("age", "size")
    assert np.array_equal(targets_of(like), frame()[["age", "size"]])


def test_a_column_whose_name_has_a_comma_is_one_label(tmp_path):
    path = save(tmp_path, frame().rename(columns={"size": "size,age"}))
    dataset = daskfs.ingest(path, tmp_path / "d", "csv", label="size,age")
    assert dataset.target_names is None
    both = daskfs.ingest(path, tmp_path / "both", "csv", label=["size,age", "age"])
    assert both.target_names == ("size,age", "age")


def test_one_label_in_a_list_is_one_target(tmp_path):
    path = save(tmp_path, frame())
    one, other = (
        daskfs.ingest(path, tmp_path / name, "csv", label=label) for name, label in (("a", "size"), ("b", ["size"]))
    )
    assert one.target_names is other.target_names is None
    assert np.array_equal(targets_of(one), targets_of(other))


def test_shuffled_while_ingested(tmp_path):
    dataset = daskfs.ingest(
        save(tmp_path, frame()), tmp_path / "d", "csv", label="size,age", layout="rows", shuffle=3, dtype="float64"
    )
    X = np.concatenate([dataset.read(number).X for number in range(dataset.n_blocks())])
    expected = frame().set_index("a").loc[X[:, 0]]
    assert X[:, 0].tolist() != frame().a.tolist()
    assert np.array_equal(targets_of(dataset), expected[["size", "age"]])


def test_rows_without_a_target(tmp_path):
    table = frame()
    table.loc[7, "age"] = np.nan
    path = save(tmp_path, table)
    with pytest.raises(BadLineError, match=r"table.csv:9: age: the label is missing"):
        daskfs.ingest(path, tmp_path / "d", "csv", label="size,age")
    dataset = daskfs.ingest(path, tmp_path / "d", "csv", label="size,age", on_bad_line="skip")
    assert np.array_equal(targets_of(dataset), table.drop(index=7)[["size", "age"]])


def test_rows_with_gaps_in_features_are_dropped_with_their_targets(tmp_path):
    table = with_text()
    table.loc[[3, 9], "a"] = np.nan
    dataset = daskfs.ingest(save(tmp_path, table), tmp_path / "d", "csv", label="size,age", missing="drop")
    assert np.array_equal(targets_of(dataset), table.drop(index=[3, 9])[["size", "age"]])


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"label": "size,town"}, "--label size, town: several labels must be numbers, and town holds categorical"),
        ({"label": "size,sage"}, "--label sage: no such column .did you mean 'age'"),
        ({"label": ["size", "size"]}, "--label size: is given twice"),
        ({"label": "size,age", "labels": "strings"}, "several labels must be numbers, and --labels strings takes one"),
        ({"label": "size,age", "ignore": ["age"]}, "column age cannot be --label and --ignore at once"),
        ({"label": []}, "which column is the label"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_labels_that_cannot_be_targets(tmp_path, options, line, kind):
    with pytest.raises(OptionError, match=line):
        daskfs.ingest(save(tmp_path, with_text(), kind), tmp_path / "d", kind, **options)


def test_text_after_the_first_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.store.ingest.formats.delimited.SAMPLE_BYTES", 2000)
    table = frame().astype(object)
    table.loc[150, "age"] = "old"
    with pytest.raises(
        BadLineError, match=r"table.csv:152: age: 'old' is not a number; several labels must be numbers"
    ):
        daskfs.ingest(save(tmp_path, table), tmp_path / "d", "csv", label="size,age")


@pytest.mark.parametrize("kind", ["text", "fasta"])
def test_other_formats_take_one_label(tmp_path, kind):
    (tmp_path / "lines").write_text("1\ta b\n")
    with pytest.raises(OptionError, match=f"label: format {kind} takes one label; only tables"):
        daskfs.ingest(tmp_path / "lines", tmp_path / "d", kind, label=["column:0", "column:1"])


def test_more_labels_do_not_change_features(tmp_path):
    """The features of a table with several labels are those with one label, if the others are ignored."""
    path = save(tmp_path, with_text())
    one = daskfs.ingest(path, tmp_path / "one", "csv", label="size", ignore=["age"])
    two = daskfs.ingest(path, tmp_path / "two", "csv", label="size,age")
    for left, right in zip(one.blocks(), two.blocks(), strict=True):
        for name in ("indptr", "ids", "values"):
            assert np.array_equal(getattr(left, name), getattr(right, name))
        assert np.array_equal(left.y, right.y[:, 0])
