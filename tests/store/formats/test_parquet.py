"""Parquet against the Python lists it was written from."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from store.formats.dense_rows_of import dense_rows_of
from store.formats.rows_of import Rows, rows_of

from daskfs.errors import BadLineError, OptionError, SourceError
from daskfs.store.ingest.formats.parquet import Parquet
from daskfs.store.ingest.sources import find_sources


def written(path: Path, columns: Mapping[str, Any], rows_per_group: int = 1000) -> Path:
    pq.write_table(pa.table(dict(columns)), path, row_group_size=rows_per_group)
    return path


def resolved(format: Parquet, path: Path) -> Parquet:
    return format.resolve(find_sources([str(path)]))


def expected_rows(columns: Mapping[str, list[Any]], label: str) -> list[dict[str, float]]:
    """What each row means, by the definition of a sparse table."""
    rows: list[dict[str, float]] = [{} for _ in columns[label]]
    for name, cells in columns.items():
        for row, cell in zip(rows, cells, strict=True):
            if name != label and cell not in (None, "", 0):
                row |= {f"{name}={cell}": 1.0} if isinstance(cell, str) else {name: float(np.float32(cell))}
    return rows


N = 500
MIXED: dict[str, list[Any]] = {
    "clicks": [None if i % 7 == 0 else i % 5 for i in range(N)],
    "town": [["Ulm", "Köln", None, "", "Bad Aibling"][i % 5] for i in range(N)],
    "y": [i % 3 for i in range(N)],
    "price": [i / 8 - 20 for i in range(N)],
    "page": [f"u{i * i % 211}" for i in range(N)],
    "new": [i % 4 == 0 for i in range(N)],
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("parquet") / "mixed.parquet", MIXED, rows_per_group=70)


@pytest.fixture(scope="module")
def mixed_rows(mixed: Path) -> Rows:
    return rows_of(Parquet(label="y", missing="zero"), [mixed])


def test_a_mixed_table_becomes_named_sparse_rows(mixed_rows: Rows) -> None:
    assert mixed_rows.named() == expected_rows(MIXED, "y")
    assert mixed_rows.y.tolist() == MIXED["y"]


def test_what_is_resolved_is_a_record_that_survives_json(mixed: Path, mixed_rows: Rows) -> None:
    format = resolved(Parquet(label="y", missing="zero"), mixed)
    assert (format.kind, format.names_from) == ("sparse", {"from": "table"})
    assert (format.numeric, format.categorical) == (("clicks", "price", "new"), ("town", "page"))
    again = Parquet(**json.loads(json.dumps(asdict(format))))
    assert asdict(resolved(again, mixed)) == asdict(format)
    rows_of(again, [mixed]).assert_equal(mixed_rows)


@pytest.mark.parametrize("part_bytes", [1, 3000, 1 << 20])
@pytest.mark.parametrize("window_bytes", [1, 500, 1 << 20])
def test_how_a_file_is_cut_does_not_matter(mixed: Path, mixed_rows: Rows, part_bytes: int, window_bytes: int) -> None:
    rows = rows_of(
        Parquet(label="y", missing="zero"),
        [mixed],
        part_bytes=part_bytes,
        window_bytes=window_bytes,
        block_rows=9,
        block_entries=40,
        names_bytes=1024,
    )
    rows.assert_equal(mixed_rows)


def test_parts_are_runs_of_row_groups(mixed: Path) -> None:
    (source,) = find_sources([str(mixed)])
    format = Parquet(label="y", missing="zero").resolve([source])
    single = [(part.start, part.stop) for part in format.parts(source, 1)]
    assert single == [(i, i + 1) for i in range(8)]
    for part_bytes in (2500, 5000, 10_000):
        edges = [(part.start, part.stop) for part in format.parts(source, part_bytes)]
        assert [start for start, _ in edges[1:]] == [stop for _, stop in edges[:-1]]
        assert (edges[0][0], edges[-1][1]) == (0, 8)
    assert [(part.start, part.stop) for part in format.parts(source, 1 << 30)] == [(0, 8)]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
)
def test_every_kind_of_text_is_categorical(tmp_path: Path, kind: pa.DataType) -> None:
    texts = ["b", None, "a", "", "b"]
    path = written(tmp_path / "t.parquet", {"y": [1, 2, 3, 4, 5], "t": pa.array(texts).cast(kind)}, rows_per_group=2)
    assert rows_of(Parquet(label="y", missing="zero"), [path]).named() == [
        {"t=b": 1.0},
        {},
        {"t=a": 1.0},
        {},
        {"t=b": 1.0},
    ]


def test_columns_can_be_forced_and_ignored(tmp_path: Path) -> None:
    columns = {
        "y": [0, 1],
        "id": [7, 8],
        "text": ["1.5", " 2"],
        "when": [datetime.date(2024, 1, 2), None],
        "x": ["p", "q"],
    }
    path = written(tmp_path / "t.parquet", columns)
    format = Parquet(label="y", categorical=("id", "when"), numeric=("text",), ignore=("x",), missing="zero")
    assert rows_of(format, [path]).named() == [
        {"id=7": 1.0, "text": 1.5, "when=2024-01-02": 1.0},
        {"id=8": 1.0, "text": 2.0},
    ]


def test_string_labels_are_classes(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", {"y": ["dog", "cat", "dog"], "t": ["a", "b", "c"]}, rows_per_group=1)
    rows = rows_of(Parquet(label="y", missing="zero"), [path])
    assert [rows.labels[int(code)] for code in rows.y] == ["dog", "cat", "dog"]


# Dense tables


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (pa.int8(), "float32"),
        (pa.uint16(), "float32"),
        (pa.bool_(), "float32"),
        (pa.float32(), "float32"),
        (pa.int32(), "float64"),
        (pa.int64(), "float64"),
        (pa.float64(), "float64"),
        (pa.decimal128(5, 1), "float64"),
    ],
)
def test_a_dense_table_is_stored_in_the_smallest_type_that_is_exact(
    tmp_path: Path, kind: pa.DataType, dtype: str
) -> None:
    a = pa.array([Decimal(0), Decimal(1), Decimal(1)] if pa.types.is_decimal(kind) else [0, 1, 1]).cast(kind)
    path = written(tmp_path / "t.parquet", {"a": a, "y": [0.1, 0.2, 0.3], "b": pa.array([2, 3, 4], pa.int8())})
    rows = dense_rows_of(Parquet(label="y", missing="zero"), [path], window_bytes=1)
    assert rows.X.dtype == dtype
    assert rows.X.tolist() == [[0, 2], [1, 3], [1, 4]]
    assert (rows.y.tolist(), rows.columns) == ([0.1, 0.2, 0.3], ["a", "b"])


def test_dtype_can_be_chosen(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", {"a": [0.1, 0.2], "y": [1, 2]})
    rows = dense_rows_of(Parquet(label="y", dtype="float32"), [path])
    np.testing.assert_array_equal(rows.X, np.array([[0.1], [0.2]], np.float32))


def test_integers_beyond_2_to_the_53_are_rounded_not_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "t.parquet", {"a": [2**60 + 1], "y": [1]})
    assert dense_rows_of(Parquet(label="y", missing="zero"), [path]).X.item() == float(2**60)


# Bad rows

BAD = {
    "NaN": ("x", float("nan"), "x: no value; choose one of --missing"),
    "infinite": ("x", float("-inf"), "x: -inf is infinite"),
    "too large": ("x", 1e39, r"x: 1e\+39 is infinite or too large"),
    "text in a numeric column": ("n", "abc", "n: 'abc' is not a number; pass --categorical n"),
    "a label is missing": ("y", None, "y: the label is missing"),
    "a label is NaN": ("y", float("nan"), "y: the label is missing"),
}


def with_bad_cells(column: str, cell: Any, rows: list[int]) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {
        "y": [float(i % 2) for i in range(90)],
        "n": [str(i) for i in range(90)],
        "x": [i / 4 for i in range(90)],
        "t": [f"t{i % 6}" for i in range(90)],
    }
    for row in rows:
        columns[column][row] = cell
    return columns


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("row", [0, 44, 89])
@pytest.mark.parametrize("window_bytes", [1, 1 << 16])
@pytest.mark.parametrize(("column", "cell", "reason"), BAD.values(), ids=BAD)
def test_a_bad_row_is_named_exactly(
    tmp_path: Path, column: str, cell: Any, reason: str, row: int, window_bytes: int
) -> None:
    path = written(tmp_path / "t.parquet", with_bad_cells(column, cell, [row]), rows_per_group=40)
    with pytest.raises(BadLineError, match=rf"t\.parquet:row {row + 1}: {reason}"):
        rows_of(Parquet(label="y", numeric=("n",), missing="error"), [path], window_bytes=window_bytes)


@pytest.mark.parametrize(("column", "cell", "reason"), BAD.values(), ids=BAD)
def test_skipping_leaves_out_the_bad_rows_and_nothing_else(tmp_path: Path, column: str, cell: Any, reason: str) -> None:
    bad = [0, 20, 21, 88]
    format = Parquet(label="y", numeric=("n",), missing="error")
    clean = rows_of(format, [written(tmp_path / "clean.parquet", with_bad_cells("x", 1.0, []))])
    rows = rows_of(format, [written(tmp_path / "bad.parquet", with_bad_cells(column, cell, bad), 40)], skip_bad=True)
    assert rows.bad == len(bad)
    assert rows.named() == [row for i, row in enumerate(clean.named()) if i not in bad]
    assert rows.y.tolist() == [y for i, y in enumerate(clean.y) if i not in bad]


def test_a_gap_in_a_dense_table_is_an_error_that_names_the_remedy(tmp_path: Path) -> None:
    first = written(tmp_path / "a.parquet", {"y": [1, 0], "a": [1, 2]})
    second = written(tmp_path / "b.parquet", {"y": [1, 0, 1], "a": [1, None, 2]})
    with pytest.raises(BadLineError, match=r"b\.parquet:row 2: a: no value; choose one of --missing .*--ignore a"):
        dense_rows_of(Parquet(label="y", missing="error"), [first, second])


# Schemas and options


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": [1], "n": [2], "s": ["a"]}, r"b\.parquet: column 3 is 's', but 't' in the first file"),
        ({"y": [1], "n": [2]}, r"b\.parquet: column 3 is missing, but 't' in the first file"),
        ({"y": [1], "n": ["2"], "t": ["a"]}, r"b\.parquet: column n is categorical, but numeric in the first file"),
    ],
)
def test_every_file_must_have_the_same_schema(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    first = written(tmp_path / "a.parquet", {"y": [1], "n": [2], "t": ["a"]})
    with pytest.raises(SourceError, match=message):
        rows_of(Parquet(label="y", missing="zero"), [first, written(tmp_path / "b.parquet", columns)])


def test_numbers_may_differ_in_width_between_files(tmp_path: Path) -> None:
    first = written(tmp_path / "a.parquet", {"y": [1], "n": pa.array([2], pa.int32()), "t": ["a"]})
    second = written(tmp_path / "b.parquet", {"y": [1.0], "n": [2.5], "t": pa.array(["b"]).dictionary_encode()})
    assert rows_of(Parquet(label="y", missing="zero"), [first, second]).named() == [
        {"n": 2.0, "t=a": 1.0},
        {"n": 2.5, "t=b": 1.0},
    ]


def test_options_that_cannot_work(tmp_path: Path) -> None:
    when = pa.array([datetime.datetime(2024, 1, 1)])
    path = written(tmp_path / "t.parquet", {"y": [1], "n": [2], "when": when, "list": pa.array([[1]])})
    for options, message in [
        ({}, "which column is the label.* y, n, when, list"),
        ({"label": "z"}, "--label z: no such column; there are y, n, when, list"),
        (
            {"label": "y"},
            "column list holds list.*, no feature: pass --categorical or --ignore list",
        ),
        ({"label": "y", "numeric": ("when",), "ignore": ("list",)}, "column when .* cannot be numeric: pass --ignore"),
        ({"label": "y", "categorical": ("list",), "ignore": ("when",)}, "column list .* cannot be categorical"),
    ]:
        with pytest.raises(OptionError, match=message):
            resolved(Parquet(**options), path)


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"y,a\n1,2\n" * 10)
    with pytest.raises(SourceError, match=r"t\.parquet: damaged, or no Parquet file"):
        resolved(Parquet(label="y", missing="zero"), path)


def test_a_damaged_page_is_an_error_with_the_file_name(mixed: Path, tmp_path: Path) -> None:
    content = bytearray(mixed.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path = tmp_path / "damaged.parquet"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=r"damaged\.parquet"):
        rows_of(Parquet(label="y", missing="zero"), [path])


def test_a_file_without_rows(tmp_path: Path) -> None:
    empty = written(tmp_path / "a.parquet", {"y": pa.array([], pa.int64()), "t": pa.array([], pa.string())})
    full = written(tmp_path / "b.parquet", {"y": [1], "t": ["a"]})
    assert rows_of(Parquet(label="y", missing="zero"), [empty, full]).named() == [{"t=a": 1.0}]


def test_without_pyarrow_the_error_says_what_to_install(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(OptionError, match=r"needs pyarrow: pip install 'daskfs\[tabular\]'"):
        resolved(Parquet(label="y", missing="zero"), mixed)
