"""CSV and TSV against Python's csv module and dictionaries."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store.formats.dense_rows_of import dense_rows_of
from store.formats.rows_of import Rows, rows_of

from daskfs.errors import BadLineError, OptionError, SourceError
from daskfs.store.dataset.hashing_kernels import id_of_name
from daskfs.store.ingest.formats.delimited import Delimited, TabSeparated
from daskfs.store.ingest.sources import find_sources

GAPS = ("", "NA", "null", "NaN")


def expected_rows(text: str, numeric: Sequence[str], categorical: Sequence[str], delimiter: str = ",") -> list[dict]:
    """What each line means, by the csv module and the definition of a sparse table."""
    rows = []
    for line in csv.DictReader(io.StringIO(text), delimiter=delimiter):
        numbers = {name: float(np.float32(line[name])) for name in numeric if line[name] not in GAPS}
        texts = {f"{name}={line[name]}": 1.0 for name in categorical if line[name] not in GAPS}
        rows.append({name: value for name, value in numbers.items() if value} | texts)
    return rows


def written(folder: Path, *texts: str | bytes) -> list[Path]:
    paths = [folder / f"part-{i}.csv" for i in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return paths


def resolved(format: Delimited, paths: Sequence[Path]) -> Delimited:
    return format.resolve(find_sources([str(path) for path in paths]))


MIXED = """y,size,colour,weight,town
1,10,red,0.5,Ulm
0,,blue,-2e3,"Bad Aibling, upper ""old"" town"
1,0,,NA,Köln
0,7,NA,1.25,
"""


def test_a_mixed_table_becomes_named_sparse_rows(tmp_path: Path) -> None:
    rows = rows_of(Delimited(label="y", missing="zero"), written(tmp_path, MIXED))
    assert rows.named() == expected_rows(MIXED, ["size", "weight"], ["colour", "town"])
    assert rows.y.tolist() == [1, 0, 1, 0]
    assert all(id_of_name(name.decode()) == i for i, name in rows.names.items())
    assert "size" in {name.decode() for name in rows.names.values()}


def test_what_is_resolved_is_a_record_that_survives_json(tmp_path: Path) -> None:
    paths = written(tmp_path, MIXED)
    format = resolved(Delimited(label="y", missing="zero"), paths)
    assert (format.kind, format.names_from) == ("sparse", {"from": "table"})
    assert (format.columns, format.labels) == (("y", "size", "colour", "weight", "town"), "numbers")
    assert (format.numeric, format.categorical) == (("size", "weight"), ("colour", "town"))
    again = Delimited(**json.loads(json.dumps(asdict(format))))
    assert asdict(again.resolve(find_sources([str(paths[0])]))) == asdict(format)
    rows_of(again, paths).assert_equal(rows_of(Delimited(label="y", missing="zero"), paths))


def test_columns_can_be_forced_and_ignored(tmp_path: Path) -> None:
    format = Delimited(label="y", categorical=("size",), ignore=("town", "colour"), missing="zero")
    rows = rows_of(format, written(tmp_path, MIXED))
    assert rows.named() == expected_rows(MIXED, ["weight"], ["size"])


def test_a_column_of_zeros_is_no_feature(tmp_path: Path) -> None:
    rows = rows_of(Delimited(label="y", table="sparse", missing="zero"), written(tmp_path, "y,a,b\n1,0,3\n0,0.0,\n"))
    assert rows.named() == [{"b": 3.0}, {}]
    assert list(rows.names.values()) == [b"b"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", ["\n", ""])
def test_line_ends_marks_and_empty_lines_do_not_matter(tmp_path: Path, newline: str, bom: bytes, last: str) -> None:
    text = (MIXED.rstrip("\n") + last).replace("\n0,", "\n\n\n0,").replace("\n", newline)
    rows = rows_of(
        Delimited(label="y", missing="zero"), written(tmp_path, bom + text.encode()), window_bytes=64, part_bytes=50
    )
    assert rows.named() == expected_rows(MIXED, ["size", "weight"], ["colour", "town"])
    assert rows.y.tolist() == [1, 0, 1, 0]


def criteo(n_rows: int, seed: int = 0) -> list[list[str]]:
    """Rows like Criteo's: a label, 13 counts, 26 hexadecimal categories, gaps in all but the label."""
    draw = random.Random(seed)
    counts = [lambda: "" if draw.random() < 0.2 else str(int(draw.expovariate(0.02)) - 1) for _ in range(13)]
    texts = [
        lambda size=size: "" if draw.random() < 0.1 else f"{int(size ** draw.random()) * 2654435761 % 2**32:08x}"
        for size in [10 ** (1 + i % 5) for i in range(26)]
    ]
    return [[str(int(draw.random() < 0.25))] + [column() for column in counts + texts] for _ in range(n_rows)]


@pytest.fixture(scope="module")
def criteo_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("criteo")
    lines = ["\t".join(row) + "\n" for row in criteo(300)]
    return written(folder, "".join(lines[:130]), "".join(lines[130:]))


@pytest.fixture(scope="module")
def criteo_rows(criteo_files: list[Path]) -> Rows:
    return rows_of(TabSeparated(label="c0", header=False, missing="zero"), criteo_files)


def test_a_tsv_without_header_like_criteo(criteo_files: list[Path], criteo_rows: Rows) -> None:
    header = "\t".join(f"c{i}" for i in range(40)) + "\n"
    text = header + "".join(path.read_text() for path in criteo_files)
    numeric, categorical = [f"c{i}" for i in range(1, 14)], [f"c{i}" for i in range(14, 40)]
    assert criteo_rows.named() == expected_rows(text, numeric, categorical, "\t")
    assert criteo_rows.y.tolist() == [float(row[0]) for row in criteo(300)]


@pytest.mark.parametrize("part_bytes", [300, 5000])
@pytest.mark.parametrize("window_bytes", [64, 1000, 1 << 20])
def test_how_files_are_cut_does_not_matter(
    criteo_files: list[Path], criteo_rows: Rows, part_bytes: int, window_bytes: int
) -> None:
    format = TabSeparated(label="c0", header=False, missing="zero")
    rows = rows_of(format, criteo_files, part_bytes=part_bytes, window_bytes=window_bytes, block_rows=7)
    rows.assert_equal(criteo_rows)


@pytest.mark.parametrize("block_entries", [1, 50, 999])
def test_block_sizes_do_not_matter(criteo_files: list[Path], criteo_rows: Rows, block_entries: int) -> None:
    format = TabSeparated(label="c0", header=False, missing="zero")
    rows_of(format, criteo_files, block_rows=3, block_entries=block_entries).assert_equal(criteo_rows)


def test_names_that_do_not_fit_at_once_all_come_out(criteo_files: list[Path], criteo_rows: Rows) -> None:
    assert len(criteo_rows.names) > 200
    rows_of(TabSeparated(label="c0", header=False, missing="zero"), criteo_files, names_bytes=1024).assert_equal(
        criteo_rows
    )


def test_names_of_many_numeric_columns_all_come_out(tmp_path: Path) -> None:
    columns = [f"column{i}" for i in range(50)]
    paths = written(tmp_path, ",".join(["y", *columns]) + "\n1" + ",2" * 50 + "\n")
    rows = rows_of(Delimited(label="y", table="sparse"), paths, names_bytes=1024)
    assert rows.named() == [dict.fromkeys(columns, 2.0)]


def test_a_quote_inside_a_field_is_a_character_like_others(tmp_path: Path) -> None:
    rows = rows_of(Delimited(label="y", missing="zero"), written(tmp_path, 'y,t\n1,5" pipe\n0,"6"" pipe"\n'))
    assert rows.named() == [{'t=5" pipe': 1.0}, {'t=6" pipe': 1.0}]


def test_columns_of_a_file_without_header_can_be_named(tmp_path: Path) -> None:
    paths = written(tmp_path, "1,a,3\n0,b,\n")
    rows = rows_of(Delimited(label="y", header=False, columns=("y", "t", "n"), missing="zero"), paths)
    assert rows.named() == [{"t=a": 1.0, "n": 3.0}, {"t=b": 1.0}]


def test_compressed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(MIXED.encode()))
    rows_of(Delimited(label="y", missing="zero"), [path]).assert_equal(
        rows_of(Delimited(label="y", missing="zero"), written(tmp_path, MIXED))
    )


# Labels


def test_string_labels_are_classes(tmp_path: Path) -> None:
    paths = written(tmp_path, "y,t\ndog,a\ncat,b\ndog,c\n", "y,t\nbird,a\ncat,b\n")
    rows = rows_of(Delimited(label="y", missing="zero"), paths, window_bytes=64, part_bytes=12)
    assert [rows.labels[int(code)] for code in rows.y] == ["dog", "cat", "dog", "bird", "cat"]


def test_labels_that_look_like_numbers_can_be_strings(tmp_path: Path) -> None:
    rows = rows_of(Delimited(label="y", labels="strings"), written(tmp_path, "y,t\n07,a\n7,b\n"))
    assert rows.labels == ["07", "7"]


# Dense tables

DENSE = "a,y,b\n1,0.5,2.5\n-3,1.5,1e-3\n16777217,2.5,0\n"


@pytest.mark.parametrize("window_bytes", [64, 1 << 16])
@pytest.mark.parametrize("part_bytes", [5, 1 << 16])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_numbers_without_gaps_are_a_dense_table(tmp_path: Path, window_bytes: int, part_bytes: int, dtype: str) -> None:
    format = Delimited(label="y", dtype="float64") if dtype == "float64" else Delimited(label="y", missing="zero")
    rows = dense_rows_of(format, written(tmp_path, DENSE), window_bytes=window_bytes, part_bytes=part_bytes)
    assert rows.X.dtype == dtype
    np.testing.assert_array_equal(rows.X, np.array([[1, 2.5], [-3, 1e-3], [16777217, 0]]).astype(dtype))
    assert rows.y.tolist() == [0.5, 1.5, 2.5]
    assert rows.columns == ["a", "b"]


def test_a_gap_can_be_an_error_that_names_the_column_and_the_choices(tmp_path: Path) -> None:
    paths = written(tmp_path, DENSE, "a,y,b\n1,1,1\n\n2,1,\n3,1,3\n")
    message = (
        r"part-1\.csv:4: b: no value; choose one of --missing mean, median, indicator, drop, zero, or .*--ignore b"
    )
    with pytest.raises(BadLineError, match=message):
        dense_rows_of(Delimited(label="y", missing="error"), paths)
    rows = dense_rows_of(Delimited(label="y", missing="error"), paths, skip_bad=True)
    assert rows.X[3:].tolist() == [[1, 1], [3, 3]]
    assert rows.bad.count == 1


def test_string_labels_of_a_dense_table(tmp_path: Path) -> None:
    rows = dense_rows_of(Delimited(label="y", missing="zero"), written(tmp_path, "y,a\nno,1\nyes,2\nno,3\n"))
    assert [rows.labels[int(code)] for code in rows.y] == ["no", "yes", "no"]


def test_a_number_too_large_for_float32_fits_float64(tmp_path: Path) -> None:
    paths = written(tmp_path, "y,a\n1,1e300\n")
    with pytest.raises(BadLineError, match=r":2: a: 1e\+300 is .* too large for a float32"):
        dense_rows_of(Delimited(label="y", missing="zero"), paths)
    assert dense_rows_of(Delimited(label="y", dtype="float64"), paths).X.item() == 1e300


# Bad rows

GOOD = [f"{i % 2},{7 * i},t{i % 5},{i}.5" for i in range(60)]
HEADER = "y,n,t,x"
BAD = {
    "text in a numeric column": ("1,abc,t,1", "n: 'abc' is not a number; pass --categorical n"),
    "infinite": ("1,5,t,inf", "x: inf is infinite or too large for a float32"),
    "too large": ("1,5,t,-1e39", r"x: -1e\+39 is infinite or too large"),
    "too few fields": ("1,5,t", "3 fields, but there are 4 columns"),
    "too many fields": ("1,5,t,1,", "5 fields, but there are 4 columns"),
    "spaces only": ("   ", "1 fields, but there are 4 columns"),
    "a label is missing": (",5,t,1", "y: the label is missing"),
    "a label is NaN": ("nan,5,t,1", "y: the label is missing"),
    "a label is infinite": ("-inf,5,t,1", "y: -inf is infinite"),
    "a label is text": ("maybe,5,t,1", "y: 'maybe' is not a number; pass --labels strings"),
    "an open quote": ('1,5,"t,1', "a quote is not closed on its line"),
    "a carriage return": ("1,5,t\r,1", "a carriage return inside the line"),
}


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("window_bytes", [64, 1 << 16])
@pytest.mark.parametrize("at", [0, 17, 59])
@pytest.mark.parametrize(("line", "reason"), BAD.values(), ids=BAD)
def test_a_bad_row_is_named_exactly(tmp_path: Path, line: str, reason: str, at: int, window_bytes: int) -> None:
    lines = [HEADER, "", *GOOD[:at], line, *GOOD[at:]]
    paths = written(tmp_path, "\n".join([HEADER, *GOOD]) + "\n", "\n".join(lines) + "\n")
    with pytest.raises(BadLineError, match=rf"part-1\.csv:{at + 3}: {reason}"):
        rows_of(Delimited(label="y", missing="zero"), paths, window_bytes=window_bytes, part_bytes=200)


@pytest.mark.parametrize(("line", "reason"), BAD.values(), ids=BAD)
def test_skipping_leaves_out_the_bad_row_and_nothing_else(tmp_path: Path, line: str, reason: str) -> None:
    clean, dirty = tmp_path / "clean", tmp_path / "dirty"
    clean.mkdir()
    dirty.mkdir()
    expected = rows_of(Delimited(label="y", missing="zero"), written(clean, "\n".join([HEADER, *GOOD])))
    lines = [HEADER, line, *GOOD[:30], line, line, *GOOD[30:]]
    paths = written(dirty, "\n".join([HEADER, GOOD[0]]), "\n".join([*lines, ""]))
    rows = rows_of(Delimited(label="y", missing="zero"), paths, skip_bad=True)
    assert rows.bad == 3
    assert rows.named()[1:] == expected.named()
    assert rows.y[1:].tolist() == expected.y.tolist()


def test_bytes_that_are_not_utf8_are_a_bad_row_unless_ignored(tmp_path: Path) -> None:
    paths = written(tmp_path, b"y,n,t\n1,2,a\n1,2,K\xf6ln\n")
    with pytest.raises(BadLineError, match=r"part-0\.csv:3: not UTF-8 text"):
        rows_of(Delimited(label="y", missing="zero"), paths)
    assert len(rows_of(Delimited(label="y", ignore=("t",), table="sparse"), paths).y) == 2
    paths = written(tmp_path, b"y,n,t\n1,2,a\n1,K\xf6ln\n")  # nor is there a traceback if fields are missing, too
    with pytest.raises(BadLineError, match=r"part-0\.csv:3: not UTF-8 text .*Expected 3 columns, got 2"):
        rows_of(Delimited(label="y", missing="zero"), paths)


@pytest.mark.parametrize("window_bytes", [64, 1 << 16])
def test_a_line_break_inside_quotes_is_an_error(tmp_path: Path, window_bytes: int) -> None:
    text = "y,n,t\n" + "1,2,a\n" * 20 + '0,3,"two\nlines"\n' + "1,2,a\n" * 20
    with pytest.raises(BadLineError, match=r":22: a quote is not closed"):
        rows_of(Delimited(label="y", missing="zero"), written(tmp_path, text), window_bytes=window_bytes)


@given(
    lines=st.lists(st.text('a1,"\r ', max_size=8), min_size=1, max_size=12),
    window_bytes=st.integers(64, 200),
    part_bytes=st.integers(1, 100),
)
@settings(max_examples=150, deadline=None)
def test_any_garbage_is_read_the_same_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], window_bytes: int, part_bytes: int
) -> None:
    """Lines are read as if each were alone: quotes and carriage returns never reach into the next."""
    paths = written(tmp_path_factory.mktemp("garbage"), "y,a,b\n" + "".join(f"{line}\n" for line in lines))
    format = Delimited(label="y", labels="strings", categorical=("a", "b"), table="sparse")
    whole = rows_of(format, paths, skip_bad=True)
    rows_of(format, paths, skip_bad=True, window_bytes=window_bytes, part_bytes=part_bytes).assert_equal(whole)
    alone = [rows_of(format, written(paths[0].parent, f"y,a,b\n{line}\n"), skip_bad=True) for line in lines]
    assert [row for rows in alone for row in rows.named()] == whole.named()
    assert sum(rows.bad for rows in alone) == whole.bad


# Headers and options


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("y,size,color,weight,town", r"part-1\.csv: column 3 is 'color', but 'colour' in the first file"),
        ("y,size,colour,weight", r"part-1\.csv: column 5 is missing, but 'town' in the first file"),
        ("y,size,colour,weight,town,z", r"part-1\.csv: column 6 is 'z', but missing in the first file"),
    ],
)
def test_every_file_must_have_the_same_header(tmp_path: Path, header: str, message: str) -> None:
    paths = written(tmp_path, MIXED, header + "\n1,2,3,4,5\n")
    with pytest.raises(SourceError, match=message):
        rows_of(Delimited(label="y", missing="zero"), paths)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "which column is the label.* y, size, colour, weight, town"),
        ({"label": "z"}, "--label z: no such column; there are y, size, colour, weight, town"),
        ({"label": "y", "ignore": ("tow",)}, "--ignore tow: no such column"),
        ({"label": "y", "numeric": ("size",), "ignore": ("size",)}, "size cannot be --numeric and --ignore at once"),
        ({"label": "y", "ignore": ("size", "colour", "weight", "town")}, "no column is left"),
        ({"label": "y", "table": "dense"}, "no dense table with text .colour, town"),
        ({"label": "y", "dtype": "float64"}, "a sparse table holds float32"),
    ],
)
def test_options_that_cannot_work(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        resolved(Delimited(**options), written(tmp_path, MIXED))


@pytest.mark.parametrize("delimiter", ["", "::", '"', "\n", "€"])
def test_delimiters_that_cannot_work(delimiter: str) -> None:
    with pytest.raises(OptionError, match="--delimiter"):
        Delimited(label="y", delimiter=delimiter)


def test_files_whose_columns_cannot_be_known(tmp_path: Path) -> None:
    for text, message in [("", "is empty"), ("\ny,a\n", "first line is empty"), (b"y,\xff\n", "not UTF-8")]:
        with pytest.raises(SourceError, match=message):
            resolved(Delimited(label="y", missing="zero"), written(tmp_path, text))
    with pytest.raises(OptionError, match="more than one column is called a"):
        resolved(Delimited(label="y", missing="zero"), written(tmp_path, "y,a,a\n1,2,3\n"))


def test_bad_rows_among_the_first_do_not_stop_the_look_at_them(tmp_path: Path) -> None:
    format = resolved(Delimited(label="y", missing="zero"), written(tmp_path, 'y,a,b\n1\n2,"\n1,x,2\n1,2,3,4\n0,3,4\n'))
    assert (format.numeric, format.categorical) == (("b",), ("a",))


def test_without_pyarrow_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(OptionError, match=r"needs pyarrow: pip install 'daskfs\[tabular\]'"):
        resolved(Delimited(label="y", missing="zero"), written(tmp_path, MIXED))
