"""Predictions for DataFrames: columns are found by name, in any order, with texts and dates as in the table."""

from __future__ import annotations

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars
import pytest

import daskfs
from daskfs.errors import OptionError

N = 400


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "note": [f"n{i}" for i in range(N)],
            "age": rng.integers(18, 90, N).astype(float),
            "member": rng.random(N) < 0.5,
            "country": rng.choice(["uk", "fr", "a=b"], N),
            "joined": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
        }
    )
    days = (frame.joined - frame.joined.min()).dt.days
    score = (frame.age - 50) / 10 + 2 * frame.member + 3 * (frame.country == "a=b") - days / 200
    frame["bought"] = np.where(score + rng.normal(size=N) > 1, "yes", "no")
    frame.loc[:20, "age"] = np.nan
    frame.loc[10:30, "country"] = None
    return frame


@pytest.fixture(scope="module")
def trained(table, tmp_path_factory):
    """The selection, and its scores of the ingested rows."""
    folder = tmp_path_factory.mktemp("frames")
    table.to_csv(folder / "t.csv", index=False)
    dataset = daskfs.ingest(folder / "t.csv", folder / "d.zarr", "csv", label="bought")
    selection = daskfs.select(dataset, daskfs.Mission(7))
    assert {"age", "member", "country=a=b", "country=(missing)", "joined"} <= set(selection.names)
    return selection, selection.decision_function(dataset)


FORMS = {
    "pandas": lambda table: table,
    "another order": lambda table: table[table.columns[::-1]],
    "selected columns only": lambda table: table[["joined", "age", "country", "member"]],
    "texts for dates and booleans": lambda table: table.assign(
        joined=table.joined.dt.strftime("%Y-%m-%d"), member=table.member.map({True: "true", False: "false"})
    ),
    "categories": lambda table: table.assign(country=table.country.astype("category")),
    "another index": lambda table: table.set_index(np.arange(N)[::-1]),
    "polars": polars.from_pandas,
    "arrow": lambda table: polars.from_pandas(table).to_arrow(),
    "dask": lambda table: dd.from_pandas(table, npartitions=3),
}


@pytest.mark.parametrize("form", list(FORMS))
def test_the_same_scores_in_every_form(form, table, trained):
    selection, expected = trained
    frame = FORMS[form](table)
    np.testing.assert_allclose(selection.decision_function(frame), expected, rtol=1e-5, atol=1e-5)
    assert selection.transform(frame).shape == (N, 7)
    assert selection.predict(frame).tolist() == selection.predict(table).tolist()


@pytest.mark.parametrize("form", ["%d/%m/%Y", "%m.%d.%Y"])
def test_dates_in_other_orders(form, tmp_path, table):
    written = table.assign(joined=table.joined.dt.strftime(form))
    written.to_csv(tmp_path / "t.csv", index=False)
    dataset = daskfs.ingest(tmp_path / "t.csv", tmp_path / "d.zarr", "csv", label="bought", date_parts=["weekday"])
    daskfs.select(dataset, daskfs.Mission(8)).save(tmp_path / "run")
    selection = daskfs.load_selection(tmp_path / "run")
    assert {"joined", "joined:weekday"} <= set(selection.names)
    assert selection.date_formats == {"joined": form}
    expected = selection.decision_function(dataset)
    few = written[written.joined.str[3:5] <= "12"].head(5)  # of which the order cannot be told
    for frame in (written, table, written.assign(joined=table.joined.dt.strftime("%Y-%m-%d")), few):
        scores = selection.decision_function(frame)
        np.testing.assert_allclose(scores, expected[table.index.get_indexer(frame.index)], rtol=1e-5, atol=1e-5)


def test_an_unsure_order_is_a_warning(table):
    early = table.drop(columns="note").assign(joined=table.joined.dt.strftime("%m/%m/%Y"))
    with pytest.warns(UserWarning, match="column 'joined' is read as day/month/year, since no day is above 12"):
        selection = daskfs.select(early, daskfs.Mission(7), y="bought")
    assert "joined" in selection.names


@pytest.fixture(scope="module")
def by_zip(tmp_path_factory):
    """A selection of zip codes with leading zeros, and another one of those without."""
    folder, rng = tmp_path_factory.mktemp("zips"), np.random.default_rng(0)
    selections = []
    for codes in (["007", "008", "009"], ["7", "8", "9"]):
        table = pd.DataFrame({"zip": rng.choice(codes, N), "x": rng.normal(size=N)})
        table["y"] = (table.zip == codes[0]).astype(int)
        table.to_csv(folder / "t.csv", index=False)
        dataset = daskfs.ingest(folder / "t.csv", folder / codes[0], "csv", label="y", categorical=["zip"])
        selections.append(daskfs.select(dataset, daskfs.Mission(4)))
        assert f"zip={codes[0]}" in selections[-1].names
    return selections


@pytest.mark.parametrize("form", ["pandas", "polars", "dask"])
@pytest.mark.parametrize(("which", "values"), [(0, [7, 8, 9]), (1, ["007", "008", "009"]), (0, [7.0, None, 8.0])])
def test_categories_in_another_form_are_a_warning(by_zip, form, which, values):
    frame = FORMS[form](pd.DataFrame({"zip": values, "x": [0.0, 0.0, 0.0]}))
    with pytest.warns(UserWarning, match="no value of column 'zip' is one of the categories .* such as '(007|7)'"):
        by_zip[which].predict(frame)


@pytest.mark.parametrize(
    ("which", "values", "expected"),
    [
        (1, [7, 8], [1, 0]),
        (1, [7.0, None], [1, 0]),
        (1, ["7", "x"], [1, 0]),
        (0, ["007", "7"], [1, 0]),
        (0, ["some", "more"], [0, 0]),  # new categories
        (1, [3, 4], [0, 0]),
        (1, [None, None], [0, 0]),
    ],
)
def test_categories_in_the_form_of_the_data(by_zip, which, values, expected):
    assert by_zip[which].predict(pd.DataFrame({"zip": values, "x": [0.0, 0.0]})).tolist() == expected


def test_a_column_that_is_not_there(table, trained):
    with pytest.raises(
        OptionError, match=r"X has no column 'age' \(did you mean 'aged'\?\), which the selection needs"
    ):
        trained[0].predict(table.rename(columns={"age": "aged"}))


def test_a_column_of_another_kind(table, trained):
    with pytest.raises(OptionError, match="column 'age' is not what it was in the data"):
        trained[0].predict(table.assign(age="old"))


def test_gaps_that_nothing_fills(table, trained):
    with pytest.raises(OptionError, match=r"X\[3\] has a value of 'member' that is not finite"):
        trained[0].predict(table.assign(member=table.member.astype(float).where(np.arange(N) != 3)))


def test_names_that_are_only_numbers_are_positions():
    X = np.random.default_rng(1).normal(size=(100, 6))
    selection = daskfs.select(X, 1, y=X[:, 4] > 0)
    assert selection.score(pd.DataFrame(X), X[:, 4] > 0) == selection.score(X, X[:, 4] > 0)


def test_another_first_day_or_a_missing_column_of_an_ingested_table_is_an_error(tmp_path):
    """Two files that are ingested by themselves count times from different days, and sparse columns may be renamed."""
    rng = np.random.default_rng(0)
    hours = np.sort(rng.integers(0, 5000, 400))
    times = pd.Timestamp("2021-01-01") + pd.to_timedelta(hours, "h")
    table = pd.DataFrame({"when": times.strftime("%Y-%m-%d %H:%M:%S"), "x": rng.normal(size=400)})
    table["c"], table["y"] = rng.choice(list("ab"), 400), hours / 100 + table.x
    first, later = tmp_path / "first.csv", tmp_path / "later.csv"
    table[:300].to_csv(first, index=False)
    table[300:].to_csv(later, index=False)
    trained_on = daskfs.ingest(first, tmp_path / "first.zarr", "csv", label="y", shuffle=False)
    selection = daskfs.select(daskfs.transpose(trained_on, tmp_path / "columns.zarr"), daskfs.OnlineSubstitution(2))
    assert set(selection.names) == {"when", "x"}
    alone = daskfs.ingest(later, tmp_path / "alone.zarr", "csv", label="y")
    with pytest.raises(OptionError, match=r"'when' is in seconds since 2021-.*, and was since 2021-01-01 .*--like"):
        selection.score(alone)
    alike = daskfs.ingest(later, tmp_path / "alike.zarr", "csv", like=trained_on)
    assert selection.score(alike) > 0.9
    renamed = tmp_path / "renamed.csv"
    table[:100].rename(columns={"x": "X"}).to_csv(renamed, index=False)
    without = daskfs.ingest(renamed, tmp_path / "without.zarr", "csv", label="y")
    with pytest.raises(OptionError, match="the table has no column of the feature 'x', which the selection needs"):
        selection.score(without)


def test_gaps_that_a_table_of_its_own_fills_are_a_warning(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(50, 10, 400), "x": rng.normal(size=400)})
    table["y"] = table.age / 10 + table.x
    table.loc[::7, "age"] = np.nan
    table["age"] += np.arange(400) // 300 * 5
    paths = tmp_path / "first.csv", tmp_path / "later.csv"
    for path, rows in zip(paths, (table[:300], table[300:]), strict=True):
        rows.to_csv(path, index=False)
    trained_on = daskfs.ingest(paths[0], tmp_path / "first.zarr", "csv", label="y")
    selection = daskfs.select(trained_on, daskfs.OnlineSubstitution(2))
    alone = daskfs.ingest(paths[1], tmp_path / "alone.zarr", "csv", label="y")
    with pytest.warns(UserWarning, match=r"gaps of column 'age' are filled with 5.*, and with 4.* --like"):
        selection.score(alone)
    selection.score(daskfs.ingest(paths[1], tmp_path / "alike.zarr", "csv", like=trained_on))
    selection.score(trained_on)


def test_classes_that_look_like_gaps_or_like_each_other_are_a_warning():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(300, 5)), np.array(["Healthy", "healthy ", "ill", "?"])[rng.integers(0, 4, 300)]
    with (
        pytest.warns(UserWarning, match=r"the class '\?' looks like a gap: leave its rows out, if it is one"),
        pytest.warns(UserWarning, match="the classes 'Healthy' and 'healthy ' differ in blanks or case alone: make"),
    ):
        daskfs.select(X, 2, labels)
