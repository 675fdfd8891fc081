"""The trials of `as_it_is.py`: what once went wrong without a warning, rebuilt on data made here."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from _as_it_is_fits import quality, refit, select
from _as_it_is_tables import Source, common_and_rare, named
from sklearn import datasets as bundled
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import daskfs


def messy_table(seed: int, rows: int = 4000, columns: int = 60) -> tuple[pd.DataFrame, list[str]]:
    """Return a clean table of two classes with its true columns; `DAMAGES` spoil copies of it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    frame = pd.DataFrame(X, columns=[f"c{number}" for number in range(columns)])
    score = X[:, :6] @ np.array([1.5, -1.5, 1.0, -1.0, 0.8, 0.8]) + rng.logistic(size=rows)
    frame["y"] = np.where(score > 0, "yes", "no")
    return frame, [f"c{number}" for number in range(6)]


def _in_other_units(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    columns = frame.columns.drop("y")
    return frame.assign(
        **{name: frame[name] * scale for name, scale in zip(columns, rng.lognormal(0, 2, len(columns)), strict=True)}
    )


def _with_gaps(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    columns = frame.columns.drop("y")
    return frame.assign(**{name: frame[name].mask(rng.random(len(frame)) < 0.05) for name in columns})


def _with_dates_and_ids(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, len(frame)), "D")
    return frame.assign(
        day=days.strftime("%Y-%m-%d"), customer=[f"C{number:06d}" for number in rng.permutation(len(frame))]
    )


DAMAGES: dict[str, Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]] = {
    "clean": lambda frame, rng: frame,
    "sorted by class": lambda frame, rng: frame.sort_values("y"),
    "units by lognormal(0, 2)": _in_other_units,
    "5 % gaps": _with_gaps,
    "dates and ids": _with_dates_and_ids,
}


def logistic_of_true_columns(seed: int) -> float:
    """Return the accuracy that gaps leave to a logistic regression of the true columns, filled with their means."""
    frame, true = messy_table(seed)
    frame = _with_gaps(frame, np.random.default_rng(seed))
    train, unseen = train_test_split(frame, test_size=0.3, random_state=seed)
    mean = train[true].mean()
    model = LogisticRegression(max_iter=1000).fit(train[true].fillna(mean), train["y"])
    return float(model.score(unseen[true].fillna(mean), unseen["y"]))


def from_csv(frame: pd.DataFrame, name: str, seed: int, k: int = 6) -> tuple[float, list[str]]:
    """Return accuracy on unseen rows, and names, of k features from a CSV file ingested and split by default."""
    algorithm = {"substitution": daskfs.OnlineSubstitution, "mission": daskfs.Mission}[name](k)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame.to_csv(f"{folder}/table.csv", index=False)
        daskfs.ingest(f"{folder}/table.csv", f"{folder}/all.zarr", format="csv", label="y", layout="both")
        daskfs.split(f"{folder}/all.zarr", f"{folder}/train.zarr", f"{folder}/test.zarr", 0.3, seed=seed)
        if name == "substitution" and daskfs.open_dataset(f"{folder}/train.zarr").layout == "rows":
            daskfs.transpose(f"{folder}/train.zarr", f"{folder}/columns.zarr")
            selection = daskfs.select(f"{folder}/columns.zarr", algorithm)
        else:
            selection = daskfs.select(f"{folder}/train.zarr", algorithm)
        return selection.evaluate(f"{folder}/test.zarr").metrics["accuracy"], selection.names


def sorted_texts(folder: Path) -> str:
    """Text in a folder per class, 600 documents each, which MISSION reads in that order."""
    rng = np.random.default_rng(0)
    for number, topic in enumerate(("autos", "guns", "space", "windows")):
        (folder / "texts" / topic).mkdir(parents=True)
        for document in range(600):
            words = np.concatenate([rng.integers(0, 3000, 60), 3000 + 40 * number + rng.integers(0, 40, 4)])
            (folder / "texts" / topic / f"{document}.txt").write_text(" ".join(f"w{word}" for word in words))
    daskfs.ingest(str(folder / "texts"), folder / "all.zarr", format="text", documents="files")
    daskfs.split(folder / "all.zarr", folder / "train.zarr", folder / "test.zarr", 0.3)
    selection = daskfs.select(folder / "train.zarr", daskfs.Mission(160))
    return f"accuracy {selection.evaluate(folder / 'test.zarr').metrics['accuracy']:.2f}"


def other_units(folder: Path) -> str:
    """300 columns in different units, 11 of them true."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 300))
    y = np.where(X[:, :11].sum(axis=1) + 2 * rng.logistic(size=6000) > 0, "yes", "no")
    X *= rng.lognormal(0, 3, 300)
    daskfs.write_dataset(folder / "d.zarr", X[:4000], y[:4000], layout="rows")
    selection = daskfs.select(folder / "d.zarr", daskfs.Mission(11))
    accuracy = selection.evaluate(X[4000:], y[4000:]).metrics["accuracy"]
    return f"{np.count_nonzero(selection.features < 11)} of 11, accuracy {accuracy:.2f}"


def ten_classes(folder: Path) -> str:
    """The ten digits, numbered 0 to 9, by Online Substitution."""
    X, y = bundled.load_digits(return_X_y=True)
    daskfs.write_dataset(folder / "d.zarr", X[:1200], y[:1200], layout="columns")
    selection = daskfs.select(folder / "d.zarr", daskfs.OnlineSubstitution(20))
    return f"loss {selection.loss}, balanced accuracy {selection.score(X[1200:], y[1200:]):.2f}"


def order_of_use(folder: Path) -> str:
    """Rare strong features beside common useful ones: the first of 50 alone, and a quarter of them."""
    X, y = common_and_rare(0)
    daskfs.write_dataset(folder / "d.zarr", X[:14_000], y[:14_000], layout="rows")
    daskfs.write_dataset(folder / "t.zarr", X[14_000:], y[14_000:], layout="rows")
    path = daskfs.size_path(
        daskfs.select(folder / "d.zarr", daskfs.Mission(50)), folder / "d.zarr", folder / "t.zarr", [1, 12, 50]
    )
    first, quarter, whole = path.scores
    fewer = daskfs.select(folder / "d.zarr", daskfs.Mission(12)).score(folder / "t.zarr")
    return f"the first alone {first:.3f}, a quarter {quarter:.3f}, all {whole:.3f}; 12 selected anew {fewer:.3f}"


def gaps_in_a_column(folder: Path) -> str:
    """A true column with mean 5.86, sd .01 and 8 % gaps, beside a column of categories."""
    rng = np.random.default_rng(0)
    true = rng.normal(size=3000)
    frame = pd.DataFrame({f"c{number}": rng.normal(size=3000) for number in range(10)})
    frame["ph"] = np.where(rng.random(3000) < 0.08, np.nan, (5.86 + 0.01 * true).round(5))
    frame["colour"] = rng.choice(["red", "green"], 3000)
    frame["y"] = np.where(true + 0.3 * rng.normal(size=3000) > 0, "yes", "no")
    accuracy, names = from_csv(frame, "mission", 0, k=1)
    return f"{names[0]}, accuracy {accuracy:.2f}"


def dates_and_ids(folder: Path) -> str:
    """A table with a date and a customer id."""
    frame, true = messy_table(0)
    accuracy, names = from_csv(_with_dates_and_ids(frame, np.random.default_rng(0)), "mission", 0)
    return f"{len(set(names) & set(true))} of 6, accuracy {accuracy:.2f}"


def digits_with_names(folder: Path) -> str:
    """The ten digits, labelled with texts, by Online Substitution."""
    X, y = bundled.load_digits(return_X_y=True)
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[y]
    daskfs.write_dataset(folder / "d.zarr", X[:1200], names[:1200], layout="columns")
    selection = daskfs.select(folder / "d.zarr", daskfs.OnlineSubstitution(20))
    return f"loss {selection.loss}, balanced accuracy {selection.score(X[1200:], names[1200:]):.2f}"


def dense_gaps(folder: Path) -> str:
    """8 % gaps in every one of 40 numeric columns, 4 of them true: rows without a gap are one in thirty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 40))
    frame = pd.DataFrame(
        np.where(rng.random(X.shape) < 0.08, np.nan, X), columns=[f"c{number}" for number in range(40)]
    )
    frame["y"] = np.where(X[:, :4].sum(axis=1) + rng.logistic(size=3000) > 0, "yes", "no")
    accuracy, names = from_csv(frame, "substitution", 0, k=4)
    return f"{len(set(names) & {'c0', 'c1', 'c2', 'c3'})} of 4, accuracy {accuracy:.2f}"


def few_rows(folder: Path) -> str:
    """150 rows of three classes: iris by MISSION."""
    X, y = bundled.load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], np.array([f"class {label}" for label in y[order]])
    daskfs.write_dataset(folder / "d.zarr", X[:100], y[:100], layout="rows")
    selection = daskfs.select(folder / "d.zarr", daskfs.Mission(4))
    return f"accuracy {selection.evaluate(X[100:], y[100:]).metrics['accuracy']:.2f}"


def straight_line(folder: Path) -> str:
    """Diabetes, 442 x 10, by Sparse Random Features, beside a straight line (mean of 5 splits)."""
    waves, line = [], []
    source = Source("diabetes", lambda _: named(*bundled.load_diabetes(return_X_y=True)))
    for seed in range(5):
        table = source.table(seed)
        waves.append(quality(table, select(table, daskfs.SparseRandomFeatures()).predict(table.unseen)))
        line.append(refit(table, np.arange(10)))
    return f"R² {np.mean(waves):.2f}, a straight line {np.mean(line):.2f}"


TRIALS = [
    ("texts of 4 classes in folders, sorted by class, MISSION", "accuracy .25", sorted_texts),
    ("300 columns in different units, MISSION", "2 of 11 true, accuracy .59", other_units),
    ("digits, 10 classes, Online Substitution", "regresses on the numbers of the classes", ten_classes),
    ("the same with text labels", "an error that advises to number them", digits_with_names),
    ("clicks, MISSION, k = 50", "order by weight: rank 1 alone .5055, rank 45 alone .573", order_of_use),
    ("mean 5.86, sd .01, 8 % gaps, in a sparse table, MISSION, k = 1", "invisible", gaps_in_a_column),
    ("8 % gaps in every column, dense", "an error, or nearly all rows dropped", dense_gaps),
    ("dates and customer ids, MISSION", "customer_id=C001988 is selected", dates_and_ids),
    ("iris, MISSION", "accuracy .71", few_rows),
    ("diabetes, Sparse Random Features", "R² .36, a straight line .42", straight_line),
]
