"""Texts that tell rows apart are left out, however often they repeat; cities, words and advertisements are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import daskfs
from daskfs.store.ingest.formats.identifiers import mean_companions, names_rows

RNG = np.random.default_rng(0)


def codes_of(texts):
    """Numbers of texts in the order in which they appear, as of a dictionary."""
    return pd.factorize(texts)[0]


def zipf(distinct, n):
    p = 1 / np.arange(1, distinct + 1)
    return RNG.choice(distinct, n, p=p / p.sum())


# What the first rows hold, of how many rows in all, the name of the column, and whether it is an identifier.
COLUMNS = {
    "distinct": (np.arange(5000), 5000, "comment", True),
    "two rows each": (RNG.integers(0, 10_000, 20_000), 20_000, "customer", True),
    "five rows each": (RNG.integers(0, 4_000, 20_000), 20_000, "customer", True),
    "five rows each, one after the other": (np.arange(20_000) // 5, 20_000, "sessionId", True),
    "five rows each of very many": (RNG.integers(0, 2_000_000, 10_000), 1e7, "user", True),
    "the same, one after the other": (np.arange(10_000) // 5, 1e7, "user", True),
    "hardly any repeats, of any name": (RNG.integers(0, 20_000, 20_000), 20_000, "origin", True),
    "three hundred rows each": (RNG.integers(0, 300, 100_000), 100_000, "customer", False),
    "few customers": (RNG.integers(0, 20, 300), 300, "customer", False),
    "two hundred clients of a hundred rows, sorted": (np.arange(20_000) // 100, 20_000, "client", False),
    "cities": (zipf(5_000, 20_000), 20_000, "city", False),
    "words": (zipf(30_000, 20_000), 20_000, "word", False),
    "genes, of five variants each": (RNG.integers(0, 4_000, 20_000), 20_000, "gene", False),
    "advertisements, nearly all distinct so far": (RNG.integers(0, 50_000, 10_000), 1e7, "ad", False),
    "the same, called id": (RNG.integers(0, 50_000, 10_000), 1e7, "ad_id", False),
    "few rows": (np.arange(15), 15, "customer", False),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_what_is_an_identifier(name):
    texts, n_rows, column, expected = COLUMNS[name]
    assert names_rows(codes_of(texts), column, n_rows) is expected


def test_companions_are_those_of_a_table_of_pairs():
    texts = RNG.integers(0, 40, 300)
    expected = np.mean([np.sum(texts == text) - 1 for text in texts])
    assert mean_companions(codes_of(texts), 0) == pytest.approx(expected)


@pytest.mark.parametrize("rows_each", [2, 5])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_customers_are_left_out_and_said(tmp_path, rows_each, kind):
    n = 4000
    frame = pd.DataFrame(
        {
            "a": RNG.normal(size=n).round(3),
            "colour": RNG.choice(["red", "green"], n),
            "customer": [f"C{number:05d}" for number in RNG.integers(0, n // rows_each, n)],
            "y": RNG.choice(["yes", "no"], n),
        }
    )
    path = tmp_path / f"x.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    ds = daskfs.ingest(path, tmp_path / "x.zarr", kind, label="y")
    assert ds.n_features == 3
    assert {"column": "customer", "kind": "identifier"} in ds.attributes["columns"]
    kept = daskfs.ingest(path, tmp_path / "kept.zarr", kind, label="y", include=("customer",))
    assert kept.n_features == 3 + frame.customer.nunique()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("index_name", [None, "Unnamed: 0"])
@pytest.mark.parametrize("replace", [False, True])
def test_the_index_of_rows_drawn_from_a_sorted_table_is_left_out(tmp_path, kind, index_name, replace):
    """The number that a row had in a table sorted by class tells its class."""
    frame = pd.DataFrame({"a": RNG.normal(size=900), "y": np.repeat(["ill", "well"], 450)})
    frame = frame.sample(600, random_state=0, replace=replace).rename_axis(index_name)
    path = tmp_path / f"x.{kind}"
    getattr(frame, f"to_{kind}")(path)
    ds = daskfs.ingest(path, tmp_path / "x.zarr", kind, label="y")
    assert list(ds.names(np.arange(ds.n_features))) == ["a"]
    assert [row["kind"] for row in ds.attributes["columns"]].count("identifier") == 1


def test_whole_numbers_without_a_name_that_are_shared_by_rows_are_a_feature(tmp_path):
    frame = pd.DataFrame({"": RNG.integers(0, 9, 200), "y": RNG.normal(size=200)})
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert daskfs.ingest(tmp_path / "x.csv", tmp_path / "x.zarr", "csv", label="y").n_features == 1
