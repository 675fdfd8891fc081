"""Data from which nothing can be learned, or that are not what they seem, end in an error or a warning that names them.

Every case once gave a selection without a word, or a traceback.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import daskfs
from daskfs.errors import DaskfsError, DatasetError, OptionError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 6))
SCORE = 2 * X[:, 0] - X[:, 1] + 0.3 * RNG.normal(size=120)
Y = np.where(SCORE > 0, "yes", "no")
FRAME = pd.DataFrame(X, columns=[f"c{column}" for column in range(6)])
ALGORITHMS = {
    "substitution": daskfs.OnlineSubstitution(2),
    "mission": daskfs.Mission(2),
    "random features": daskfs.SparseRandomFeatures(rounds=2, per_round=20),
    "univariate": daskfs.Univariate(2),
}


def replaced(values: np.ndarray, row: int, value: object) -> np.ndarray:
    values = values.astype(object) if not isinstance(value, float) else values.copy()
    values[row] = value
    return values


REFUSED = {
    "a constant number": (X, np.full(120, 3.25), "all 120 samples have the"),
    "a constant label": (X, np.full(120, "yes"), "all 120 samples have the"),
    "labels that are names of rows": (X, np.array([f"row {row}" for row in range(120)]), "120 different labels"),
    "a missing text": (X, replaced(Y, 7, None), r"y\[7\] is None: every row needs a label"),
    "a missing text of pandas": (FRAME, pd.Series(Y, dtype="string").mask(np.arange(120) == 7), r"y\[7\] is <NA>"),
    "a missing number": (X, replaced(SCORE, 7, np.nan), r"y\[7\] is nan"),
    "infinity": (np.where(np.arange(720).reshape(120, 6) == 33, np.inf, X), Y, "row 5: feature 'x3' is inf: values"),
    "infinity in a frame": (FRAME.assign(c0=replaced(X[:, 0], 5, np.inf)), Y, "row 5: feature 'c0' is inf"),
    "no rows": (X[:0], Y[:0], r"shape \(0, 6\): there is nothing to select from"),
    "no columns": (X[:, :0], Y, r"shape \(120, 0\): there is nothing to select from"),
    "rows of the target in another order": (FRAME, pd.Series(Y)[::-1], "in another order than the data"),
    "a column of several types": (
        FRAME.assign(mix=[1, "a"] * 60, y=Y),
        "y",
        "column mix .*: give every column one type",
    ),
    "numbers but for a text": (
        FRAME.assign(c0=replaced(FRAME.c0.astype(str).to_numpy(), 3, "?"), y=Y),
        "y",
        r"column c0 holds numbers but for 1 of the first 120 values, such as '\?'",
    ),
    "dates as target": (
        FRAME.assign(text="a", y=pd.date_range("2024-01-01", periods=120).astype(str)),
        "y",
        "--label y: holds dates or times",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_is_refused(name, case):
    data, y, message = REFUSED[case]
    with pytest.raises(DaskfsError, match=message):
        daskfs.select(data, ALGORITHMS[name], y=y)


def test_a_table_with_categories_is_refused_by_random_features_in_words():
    """The ids of its features are hashes, which are no number of columns."""
    with pytest.raises(OptionError, match=r"^8 features have ids up to [\d,]+, as categories and words have"):
        daskfs.select(FRAME.assign(colour=["red", "blue"] * 60, y=Y), ALGORITHMS["random features"], y="y")


@pytest.mark.parametrize("kind", ["numbers of text", "few of many", "several categories"])
def test_texts_that_are_categories_although_some_are_numbers(kind):
    texts = {
        "numbers of text": RNG.choice(["1", "2", "3", "x"], 120, p=[0.4, 0.3, 0.25, 0.05]),  # few distinct numbers
        "few of many": RNG.permutation([*range(30), *["a", "b"] * 45]).astype(str),  # most are no numbers
        "several categories": RNG.choice(["red", "green"], 120),
    }[kind]
    selection = daskfs.select(FRAME.assign(text=texts, y=Y), daskfs.OnlineSubstitution(2), y="y")
    assert set(selection.names) == {"c0", "c1"}


def test_a_column_declared_as_category_may_hold_numbers(tmp_path):
    texts = replaced(FRAME.c5.round(1).astype(str).to_numpy(), 3, "?")
    FRAME.assign(c5=texts, y=Y).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(OptionError, match="column c5 holds numbers but for 1"):
        daskfs.ingest(tmp_path / "t.csv", tmp_path / "a.zarr", "csv", label="y")
    daskfs.ingest(tmp_path / "t.csv", tmp_path / "b.zarr", "csv", label="y", categorical=["c5"])
    kinds = {row["column"]: row["kind"] for row in daskfs.open_dataset(tmp_path / "b.zarr").attributes["columns"]}
    assert kinds["c5"] == "categorical"


@pytest.mark.parametrize("name", ["substitution", "mission", "random features", "univariate"])
def test_a_target_of_one_column_is_one_target(name):
    flat, column = (daskfs.select(X, ALGORITHMS[name], y=y) for y in (SCORE, SCORE[:, None]))
    assert np.array_equal(flat.weights, column.weights)
    assert column.predict(X).shape == (120,)


def test_labels_that_are_objects(tmp_path):
    numbers, texts = SCORE.astype(object), Y.astype(object)
    same = [daskfs.select(X, 2, y=y).weights for y in (SCORE, numbers)]
    assert np.array_equal(*same)
    texts[[3, 9]] = None, np.nan
    with pytest.raises(DatasetError, match=r"y\[3\] is None"):
        daskfs.write_dataset(tmp_path / "d.zarr", X, texts)
    dataset = daskfs.write_dataset(tmp_path / "d.zarr", X, texts, on_bad_row="drop", overwrite=True)
    assert (dataset.n_samples, dataset.classes) == (118, ("no", "yes"))


@pytest.mark.parametrize("rows", [40, 400])
def test_a_few_rows_of_many_classes_are_no_error(rows):
    """Two of each class are enough, and up to twenty classes may have a row each."""
    classes = np.array([f"class {row % (20 if rows == 40 else 200)}" for row in range(rows)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        daskfs.select(RNG.normal(size=(rows, 3)), daskfs.Univariate(1), y=classes)


def test_a_constant_number_in_parts_of_the_rows_is_a_number(tmp_path):
    """Parts of an ingest, each of which has one number, hold several together."""
    for part, value in enumerate((0.5, 1.5)):
        FRAME.assign(y=value).to_csv(tmp_path / f"{part}.csv", index=False)
    both = [str(tmp_path / f"{part}.csv") for part in range(2)]
    dataset = daskfs.ingest(both, tmp_path / "both.zarr", "csv", label="y")
    assert dataset.classes is None
    half = daskfs.ingest(both[:1], tmp_path / "half.zarr", "csv", label="y")
    assert (half.classes, half.attributes["mixed"]) == ((0.5,), None)


def test_categories_that_are_intervals_are_an_error_that_says_what_to_do():
    with pytest.raises(OptionError, match=r"interval.*: make the categories texts, as with .astype\(str\)"):
        daskfs.select(FRAME.assign(cut=pd.cut(SCORE, 5)), 2, y=SCORE)
    daskfs.select(FRAME.assign(cut=pd.cut(SCORE, 5).astype(str)), 2, y=SCORE)
