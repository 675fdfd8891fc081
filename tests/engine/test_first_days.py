"""Times of day in a table whose numbers are float32: seconds since the day of the first row, in ingest and predict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import daskfs
from daskfs.cli import main
from daskfs.observe.describe import columns_table, describe
from daskfs.store.ingest.formats.dates import first_day_of

FORMS = {"iso": "%Y-%m-%d %H:%M:%S", "day first": "%d/%m/%Y %H:%M:%S", "typed": None}


def visits(n=600, seed=0):
    """Late visits of ten minutes of a day; float32 tells seconds since 2000 apart by no less than 64."""
    rng = np.random.default_rng(seed)
    time = pd.Timestamp("2026-03-25 10:00") + pd.to_timedelta(rng.permutation(n), "s")
    late = (time - pd.Timestamp("2026-03-25 10:00")).total_seconds().to_numpy() > n / 2
    return pd.DataFrame(
        {
            "time": time,
            "day": pd.Timestamp("2026-03-01") + pd.to_timedelta(rng.integers(0, 30, n), "D"),
            "a": rng.normal(size=n),
            "colour": rng.choice(["red", "green"], n),
            "y": np.where(late, "late", "early"),
        }
    )


def write(frame, path, form):
    texts = frame if FORMS[form] is None else frame.assign(time=frame.time.dt.strftime(FORMS[form]))
    if form == "typed":
        texts.to_parquet(path)
    else:
        texts.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("algorithm", [daskfs.OnlineSubstitution(1), daskfs.Mission(1, width=2**8)])
def test_seconds_are_told_apart(tmp_path, form, algorithm):
    frame = visits()
    name = "x.parquet" if form == "typed" else "x.csv"
    selection = daskfs.select(write(frame, tmp_path / name, form), algorithm, y="y")
    assert selection.names == ["time"]
    selection.save(tmp_path / "run")
    selection = daskfs.load_selection(tmp_path / "run")
    for new in (frame, frame.assign(time=frame.time.dt.strftime("%Y-%m-%d %H:%M:%S"))):
        right = selection.predict(new.drop(columns="y")) == frame.y.to_numpy()
        assert right.mean() > 0.97, "64 s of 600 would be wrong otherwise"


def test_what_is_stored(tmp_path):
    ds = daskfs.ingest(write(visits(), tmp_path / "x.csv", "day first"), tmp_path / "x.zarr", "csv", label="y")
    block = ds.read(0)
    values = dict(zip(ds.names(block.ids), block.values, strict=True))
    assert 0 <= values["time"] - 36_000 < 600, "10 o'clock, in seconds since midnight"
    assert values["day"] % 86_400 == 0
    assert values["day"] > 8e8, "float32 holds whole days since 2000"
    rows = {row["column"]: row for row in describe(ds)["columns"]}
    assert first_day_of(rows["time"]["format"])[1].isoformat() == "2026-03-25"
    assert "format" not in rows["day"]
    cells = [cell for column in columns_table(describe(ds)).columns for cell in map(str, column.cells)]
    assert {"date: seconds since 2026-03-25", "date: seconds since 2000"} <= set(cells)


def test_a_dataset_like_another_has_its_first_days(tmp_path):
    """Whole days in one, and times of day in the other, whose first row is of another day."""
    train = visits()
    ds = daskfs.ingest(write(train, tmp_path / "x.csv", "iso"), tmp_path / "x.zarr", "csv", label="y")
    later = train.assign(time=train.time + pd.Timedelta("3D"), day=train.day + pd.Timedelta("1h"))
    source = write(later, tmp_path / "later.csv", "iso")
    like = daskfs.ingest(source, tmp_path / "l.zarr", "csv", label="y", like=ds, order="as-is")
    block = like.read(0)
    values = dict(zip(like.names(block.ids), block.values, strict=True))
    assert 0 <= values["time"] - 36_000 - 3 * 86_400 < 600
    assert values["day"] > 8e8


def test_dense_tables_are_as_they_were(tmp_path):
    frame = visits().drop(columns="colour")
    ds = daskfs.ingest(write(frame, tmp_path / "x.csv", "iso"), tmp_path / "x.zarr", "csv", label="y")
    assert ds.arrays["X"].dtype == np.float64
    first = ds.names([0, 1, 2]).index("time")
    assert ds.read(0).X[0, first] == (frame.time[0] - pd.Timestamp("2000-01-01")).total_seconds()


def test_the_score_on_rows_held_back(tmp_path):
    write(visits(), tmp_path / "x.csv", "iso")
    flags = ["-k", "1", "--label", "y", "--serial", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(main, ["select", str(tmp_path / "x.csv"), *flags])
    assert done.exit_code == 0, done.stderr
    assert "1    time" in done.stdout
    assert "dates:" not in done.stderr + done.stdout, "ISO 8601 is no form to mention"


@pytest.mark.parametrize("form", ["since 2026-99-01", "since", "%d since", "since 2026-03-01 since"])
def test_what_is_no_first_day(form):
    assert first_day_of(form)[0] == form
