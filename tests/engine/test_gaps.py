"""Gaps, dates, booleans and identifiers of tables: what ingest makes of them, against plain Python."""

from __future__ import annotations

import datetime
import json
import statistics
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import daskfs
from daskfs.errors import BadLineError, OptionError, SourceError
from daskfs.store.ingest.gaps import ArrayCells, fill_values

COLOURS = ("red", "green", None, "blue")


def table(rows=200, seed=0, gaps=0.1):
    rng = np.random.default_rng(seed)
    ph = (5.86 + 0.01 * rng.normal(size=rows)).round(6).tolist()
    count = rng.integers(0, 4, rows).astype(float).tolist()
    for column in (ph, count):
        for row in np.flatnonzero(rng.random(rows) < gaps):
            column[row] = None
    return {
        "ph": ph,
        "whole": rng.normal(size=rows).round(3).tolist(),
        "count": count,
        "y": rng.integers(0, 2, rows).tolist(),
    }


def as_csv(path, columns):
    cells = zip(*columns.values(), strict=True)
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in cells]
    path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    return path


def matrix(dataset):
    """All cells of a small dataset by name, in the order of its rows."""
    if dataset.kind == "dense":
        names = dataset.names(np.arange(dataset.n_features))
        blocks = [block.X.copy() for block in dataset.blocks(axis=dataset.axis)]
        X = np.concatenate(blocks, axis=1 if dataset.axis == "columns" else 0)
        return [dict(zip(names, row.tolist(), strict=True)) for row in X]
    rows = []
    for block in dataset.blocks():
        names = dataset.names(block.ids)
        for a, b in zip(block.indptr[:-1], block.indptr[1:], strict=True):
            rows.append(dict(zip(names[a:b], block.values[a:b].tolist(), strict=True)))
    return rows


def float32(value):
    return float(np.float32(value))


def fill_of(how, cells):
    """The oracle: the mean in exact fractions, or the lower median."""
    numbers = [float32(cell) for cell in cells if cell is not None]
    if how == "median":
        return statistics.median_low(numbers)
    return float32(float(sum(map(Fraction, numbers)) / len(numbers)))


@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("how", ["auto", "mean", "median", "indicator", "zero", "drop"])
@pytest.mark.parametrize("kind", ["columns", "rows", "both", "sparse"])
def test_what_becomes_of_gaps(tmp_path, how, kind):
    columns = table()
    options = {"table": "sparse"} if kind == "sparse" else {"layout": kind}
    source = as_csv(tmp_path / "x.csv", columns)
    got = daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y", missing=how, order="as-is", **options)
    expected = []
    for row in range(200):
        cells = {name: columns[name][row] for name in ("ph", "whole", "count")}
        if how == "drop" and None in cells.values():
            continue
        filled = {name: 0.0 if how == "zero" else fill_of(how, columns[name]) for name in cells}
        numbers = {name: filled[name] if cell is None else float32(cell) for name, cell in cells.items()}
        if how == "indicator":
            numbers |= {f"{name}=(missing)": float(cells[name] is None) for name in ("ph", "count")}
        expected.append({name: cell for name, cell in numbers.items() if cell or kind != "sparse"})
    assert matrix(got) == expected
    if how not in ("drop", "zero"):
        fills = got.attributes["missing"]["values"]
        filled = ("ph", "count") if how == "auto" else ("ph", "whole", "count")
        assert fills == {name: fill_of(how, columns[name]) for name in filled}
    assert got.attributes["made"]["dropped"] == 200 - len(expected)


@pytest.mark.parametrize("how", ["mean", "median", "indicator"])
@pytest.mark.parametrize("options", [{"layout": "columns"}, {"layout": "rows"}, {"table": "sparse"}])
def test_the_result_depends_on_neither_pieces_nor_workers_nor_memory(tmp_path, monkeypatch, how, options):
    source = as_csv(tmp_path / "x.csv", table(rows=1500))
    digests = set()
    for name, part_bytes, where in (
        ("a", 1 << 20, {"workers": 1}),
        ("b", 3000, {"workers": 3}),
        ("c", 7000, {"workers": 2, "memory": "150MB"}),
    ):
        monkeypatch.setattr("daskfs.store.ingest.plan.LEAST_PART_BYTES", part_bytes)
        monkeypatch.setattr("daskfs.store.ingest.plan.PART_BYTES", part_bytes)
        got = daskfs.ingest(source, tmp_path / name, "csv", label="y", missing=how, **options, **where)
        digests.add(json.dumps([matrix(got), got.attributes["missing"], got.attributes["columns"]]))
    assert len(digests) == 1


@pytest.mark.parametrize("how", ["mean", "median"])
def test_means_and_medians_are_exact_over_any_cut(how):
    rng = np.random.default_rng(3)
    for _ in range(20):
        X = rng.normal(size=(int(rng.integers(1, 50)), 2)) * 10.0 ** rng.integers(-300, 300, 2)
        X[rng.random(X.shape) < 0.3] = np.nan
        parts = [ArrayCells(part) for part in np.split(X, np.sort(rng.integers(0, len(X), 3)))]
        got = fill_values(how, [0, 1], parts, lambda task, tasks: [task(*each) for each in tasks], X.dtype)
        for column, value in zip(X.T, got, strict=True):
            numbers = [float(cell) for cell in column if not np.isnan(cell)]
            exact = float(sum(map(Fraction, numbers)) / max(len(numbers), 1))
            assert value == (exact if how == "mean" else statistics.median_low(numbers or [0.0]))


def test_a_text_that_is_missing_is_a_token_of_its_own(tmp_path):
    columns = {"colour": [COLOURS[row % 4] for row in range(80)], "n": [row % 3 for row in range(80)]}
    columns["y"] = [row % 2 for row in range(80)]
    got = daskfs.ingest(as_csv(tmp_path / "x.csv", columns), tmp_path / "x.zarr", "csv", label="y")
    tokens = [name for row in matrix(got) for name in row if name.startswith("colour=")]
    assert tokens == [f"colour={COLOURS[row % 4] or '(missing)'}" for row in range(80)]
    row = {"column": "colour", "kind": "categorical", "gaps": 20}
    assert row in got.attributes["columns"]


def test_an_error_names_file_line_column_and_choices(tmp_path):
    source = as_csv(tmp_path / "x.csv", {"a": [1, 2, None, 4], "y": [0, 1, 0, 1]})
    with pytest.raises(BadLineError, match=r"x\.csv:4: a: no value; choose one of --missing mean, median"):
        daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y", missing="error")
    with pytest.raises(OptionError, match="missing: 'means' is none of"):
        daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y", missing="means")


def test_dropping_every_row_says_so(tmp_path):
    source = as_csv(tmp_path / "x.csv", {"a": [1, None], "b": [None, 1], "y": [0, 1]})
    with pytest.raises(SourceError, match="all 2 rows have a gap; choose another --missing"):
        daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y", missing="drop")


def test_a_killed_publishing_of_gaps_is_finished_by_the_next_call(tmp_path, monkeypatch):
    from daskfs.store.ingest import publish

    monkeypatch.setattr("daskfs.store.ingest.plan.LEAST_PART_BYTES", 1000)
    monkeypatch.setattr("daskfs.store.ingest.plan.PART_BYTES", 1000)
    source = as_csv(tmp_path / "x.csv", table())
    options = {"label": "y", "table": "sparse"}
    expected = daskfs.ingest(source, tmp_path / "expected", "csv", **options).digest
    original, calls = publish._publish_piece, []

    def killed(*arguments):
        calls.append(arguments)
        return 1 / 0 if len(calls) > 2 else original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(publish, "_publish_piece", killed)
        with pytest.raises(ZeroDivisionError):
            daskfs.ingest(source, tmp_path / "x.zarr", "csv", workers=1, **options)
    assert daskfs.ingest(source, tmp_path / "x.zarr", "csv", **options).digest == expected


# Columns that are not plain numbers


def messy(rows=60, seed=1):
    rng = np.random.default_rng(seed)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(int(day)) for day in rng.integers(0, 900, rows)]
    times = [datetime.datetime(1999, 5, 1) + datetime.timedelta(seconds=int(s)) for s in rng.integers(0, 10**9, rows)]
    return {
        "customer": [f"C{number:05d}" for number in rng.permutation(rows)],
        "row": list(range(1000, 1000 + rows)),
        "account_id": (rng.permutation(rows) * 13).tolist(),
        "day": days,
        "time": times,
        "active": [bool(flag) for flag in rng.integers(0, 2, rows)],
        "zip": rng.integers(10_000, 10_005, rows).tolist(),
        "income": rng.permutation(rows * 100)[:rows].tolist(),
        "y": rng.integers(0, 2, rows).tolist(),
    }


def seconds(when):
    if not isinstance(when, datetime.datetime):
        when = datetime.datetime(when.year, when.month, when.day)
    return (when - datetime.datetime(2000, 1, 1)).total_seconds()


@pytest.mark.parametrize("source", ["csv", "parquet", "texts in parquet"])
def test_dates_booleans_and_identifiers_are_the_same_in_csv_and_parquet(tmp_path, source):
    columns = messy()
    path = tmp_path / "x"
    if source == "csv":
        as_csv(path, columns)
    else:
        texts = ("day", "time", "active") if source != "parquet" else ()
        cells = {name: list(map(str, column)) if name in texts else column for name, column in columns.items()}
        pq.write_table(pa.table(cells), path, row_group_size=7)
    kind = source.split()[-1]
    got = daskfs.ingest(path, tmp_path / "x.zarr", kind, label="y", order="as-is", date_parts=["weekday", "hour"])
    kinds = {row["column"]: row["kind"] for row in got.attributes["columns"]}
    assert kinds == {
        "customer": "identifier",
        "row": "identifier",
        "account_id": "identifier",
        "day": "date",
        "time": "date",
        "active": "boolean",
        "zip": "numeric",
        "income": "numeric",
        "y": "label",
    }
    assert matrix(got) == [
        {
            "day": seconds(day),
            "day:weekday": day.weekday(),
            "day:hour": 0,
            "time": seconds(time),
            "time:weekday": time.weekday(),
            "time:hour": time.hour,
            "active": float(active),
            "zip": zip_code,
            "income": income,
        }
        for day, time, active, zip_code, income in zip(
            *(columns[name] for name in ("day", "time", "active", "zip", "income")), strict=True
        )
    ]


def test_columns_can_be_kept_and_declared(tmp_path):
    source = as_csv(tmp_path / "x.csv", messy())
    options = {"include": ["row", "customer"], "categorical": ["zip", "day"], "numeric": ["account_id"]}
    got = daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y", **options)
    names = set().union(*matrix(got))
    assert {"row", "account_id", "time", "active", "income", "customer=C00007", "zip=10003"} <= names
    assert any(name.startswith("day=20") for name in names)


def test_zones_times_of_day_and_other_formats(tmp_path):
    source = as_csv(
        tmp_path / "x.csv",
        {
            "zoned": ["2000-01-01T02:00:00+02:00", "2000-01-02T00:00:00Z", ""],
            "clock": ["00:01", "10:00:00.5", "23:59:59"],
            "german": ["31.01.2000", "", "01.02.2000"],
            "y": [1, 2, 3],
        },
    )
    options = {"label": "y", "dates": ["german"], "date_format": "%d.%m.%Y"}
    got = daskfs.ingest(source, tmp_path / "x.zarr", "csv", **options)
    day = 86_400.0
    assert matrix(got) == [
        {"zoned": 0.0, "clock": 60.0, "german": 30 * day},
        {"zoned": day, "clock": 36_000.5, "german": 30.5 * day},
        {"zoned": day / 2, "clock": 86_399.0, "german": 31 * day},
    ]


WRITTEN = {
    "%d/%m/%Y": "%d/%m/%Y",
    "%d.%m.%Y": "%d.%m.%Y %H:%M",
    "%m/%d/%Y": "%m/%d/%Y %I:%M:%S %p",
    "%d-%m-%Y": "%-d-%-m-%Y %-H:%M:%S",
    "%Y/%m/%d": "%Y/%m/%d",
}


@pytest.mark.parametrize("source", ["csv", "parquet"])
@pytest.mark.parametrize("order", list(WRITTEN))
def test_dates_in_other_orders(tmp_path, source, order):
    times = [datetime.datetime(2021, 1, 1) + datetime.timedelta(hours=17 * i) for i in range(60)]
    times = [time if "%H" in WRITTEN[order] or "%M" in WRITTEN[order] else time.replace(hour=0) for time in times]
    texts = [time.strftime(WRITTEN[order]) for time in times]
    columns = {"when": [*texts, None], "x": [1.5] * 61, "y": [0, 1] * 30 + [0]}
    if source == "csv":
        as_csv(tmp_path / "x", columns)
    else:
        pq.write_table(pa.table(columns), tmp_path / "x")
    got = daskfs.ingest(tmp_path / "x", tmp_path / "x.zarr", source, label="y", dtype="float64", order="as-is")
    assert got.attributes["columns"][0] == {
        "column": "when",
        "kind": "date",
        "format": order,
        "gaps": 1,
        "fill": pytest.approx(np.mean(list(map(seconds, times)))),
    }
    assert [row["when"] for row in matrix(got)[:-1]] == list(map(seconds, times))
    like = daskfs.ingest(tmp_path / "x", tmp_path / "l.zarr", source, label="y", like=got, order="as-is")
    assert matrix(like) == matrix(got)


def test_day_and_month_that_cannot_be_told_apart(tmp_path):
    source = as_csv(tmp_path / "x.csv", {"a": ["1/2/2021", "11/12/2021"], "b": ["x", "31/31/2021"], "y": [0, 1]})
    got = daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y")
    assert got.attributes["columns"][0] == {"column": "a", "kind": "date", "format": "%d/%m/%Y", "unsure": True}
    assert matrix(got)[0]["a"] == float32(seconds(datetime.date(2021, 2, 1)))
    other = daskfs.ingest(source, tmp_path / "o.zarr", "csv", label="y", date_format="%m/%d/%Y")
    assert other.attributes["columns"][0] == {"column": "a", "kind": "date", "format": "%m/%d/%Y"}
    assert matrix(other)[0]["a"] == float32(seconds(datetime.date(2021, 1, 2)))
    declared = daskfs.ingest(source, tmp_path / "d.zarr", "csv", label="y", dates=["a"])
    assert declared.attributes["columns"] == got.attributes["columns"]


@pytest.mark.parametrize(
    ("cell", "first", "message"),
    [
        ("soon", "2024-01-01", r"x\.csv:{}: a: 'soon' is not a date; pass --categorical a"),
        (
            "08/19/2021",
            "11/08/2021",
            r"x\.csv:{}: a: '08/19/2021' is not a date as %d/%m/%Y; pass --categorical a, or another --date-format",
        ),
        ("maybe", "true", r"x\.csv:{}: a: 'maybe' is not true or false; pass --categorical a"),
        ("late", "10:30", r"x\.csv:{}: a: 'late' is not a time; pass --categorical a"),
    ],
)
def test_what_the_first_rows_promised_and_later_rows_break(tmp_path, monkeypatch, cell, first, message):
    monkeypatch.setattr("daskfs.store.ingest.formats.delimited.SAMPLE_BYTES", 100)
    source = as_csv(tmp_path / "x.csv", {"a": [first] * 100 + [cell], "b": [1.5] * 101, "y": [0, 1] * 50 + [0]})
    with pytest.raises(BadLineError, match=message.format(102)):
        daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y")
    got = daskfs.ingest(source, tmp_path / "y.zarr", "csv", label="y", categorical=["a"])
    assert f"a={cell}" in set().union(*matrix(got))


@pytest.mark.parametrize(
    ("name", "numbers", "kind"),
    [
        ("Station", list(range(1, 41)), "identifier"),
        ("Station", np.random.default_rng(0).permutation(np.arange(7, 47)).tolist(), "identifier"),
        ("Station Nr", np.random.default_rng(0).permutation(400)[:40].tolist(), "identifier"),
        ("No.", [3 * i for i in range(40)], "identifier"),
        ("visits", [*range(20), *range(20)], "numeric"),
        ("visits", [*range(39), 37], "numeric"),
        ("price", [3 * i for i in range(40)], "numeric"),
        ("customerId", [3 * i for i in range(40)], "identifier"),
        ("paid", [3 * i for i in range(40)], "numeric"),
        ("volcano", [3 * i for i in range(40)], "numeric"),
        ("few", list(range(19)), "numeric"),
    ],
)
def test_running_numbers_are_identifiers(tmp_path, name, numbers, kind):
    columns = {name: numbers, "x": [i / 7 for i in range(len(numbers))], "y": [i % 2 for i in range(len(numbers))]}
    source = as_csv(tmp_path / "x.csv", columns)
    got = daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y")
    assert got.attributes["columns"][0] == {"column": name, "kind": kind}
    kept = daskfs.ingest(source, tmp_path / "k.zarr", "csv", label="y", include=[name])
    assert kept.attributes["columns"][0] == {"column": name, "kind": "numeric"}


def test_only_identifiers_is_an_error_that_names_the_flag(tmp_path):
    source = as_csv(tmp_path / "x.csv", {"id": list(range(30)), "y": [0, 1] * 15})
    with pytest.raises(OptionError, match=r"id: look like identifiers.*pass --include"):
        daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y")


def test_shuffle_split_and_transpose_keep_the_facts(tmp_path):
    source = as_csv(tmp_path / "x.csv", table())
    got = daskfs.ingest(source, tmp_path / "x.zarr", "csv", label="y", table="sparse")
    copies = [daskfs.shuffle(got, tmp_path / "s.zarr"), daskfs.transpose(got, tmp_path / "c.zarr")]
    for copy in (*copies, *daskfs.split(got, tmp_path / "a.zarr", tmp_path / "b.zarr")):
        assert copy.attributes["missing"] == got.attributes["missing"]
        assert copy.attributes["columns"] == got.attributes["columns"]


@pytest.mark.parametrize("how", ["auto", "median", "indicator"])
@pytest.mark.parametrize("options", [{}, {"layout": "rows"}, {"table": "sparse"}])
def test_test_data_are_filled_with_the_numbers_of_the_training_data(tmp_path, how, options):
    train, test = table(seed=1) | {"day": ["2024-01-01"] * 200}, table(rows=30, seed=2) | {"day": ["2024-02-01"] * 30}
    as_csv(tmp_path / "train.csv", train)
    as_csv(tmp_path / "test.csv", test)
    arguments = {"label": "y", "order": "as-is", **options}
    first = daskfs.ingest(tmp_path / "train.csv", tmp_path / "train.zarr", "csv", missing=how, **arguments)
    got = daskfs.ingest(tmp_path / "test.csv", tmp_path / "test.zarr", "csv", like=first, **arguments)
    assert got.attributes["missing"] == first.attributes["missing"]
    fills = {name: fill_of(how, train[name]) for name in ("ph", "count")}
    for row, cells in enumerate(matrix(got)):
        for name, fill in fills.items():
            assert cells.get(name, 0) == (fill if test[name][row] is None else float32(test[name][row]))
            if how == "indicator":
                assert cells.get(f"{name}=(missing)", 0) == (test[name][row] is None)
        assert cells["day"] == seconds(datetime.date(2024, 2, 1))


def test_a_gap_that_the_training_data_did_not_have(tmp_path):
    as_csv(tmp_path / "train.csv", {"a": [1.5, 2, 3.5], "b": [1, None, 2], "y": [0, 1, 0]})
    as_csv(tmp_path / "test.csv", {"a": [1.5, None], "b": [1, None], "y": [0, 1]})
    daskfs.ingest(tmp_path / "train.csv", tmp_path / "train.zarr", "csv", label="y")
    with pytest.raises(SourceError, match="column a has 1 gaps, and had none in the dataset to be like"):
        daskfs.ingest(tmp_path / "test.csv", tmp_path / "x.zarr", "csv", label="y", like=tmp_path / "train.zarr")
