"""How daskfs does on data as people have them: sorted, unscaled, with gaps, dates and ids, in several classes.

Run `python pipelines/benchmarks/as_it_is.py [trials] [sets] [damage] [weights] [quarter] [rare]`, or without words:

trials   what once went wrong without a warning, on data made here
sets     features chosen by default against SelectKBest, an L1 path and a random forest, after the same refit
weights  the selection's own weights against a cross-validated refit of the same columns
quarter  the first quarter of the features against all of them, and against as many selected anew
rare     balanced accuracy where one row in sixteen is positive, with and without `balanced=True`
damage   what sorting, other units, gaps, dates and ids take from the score of a clean table

With `--data FOLDER`, the set a9a in such a folder (see `datasets/a9a.py`) is used as well. Everything runs with
defaults: nothing is scaled, shuffled or filled before daskfs sees it. With `--json FILE`, the figures of all algorithms
by themselves are written to a file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn import datasets as bundled
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeCV, lars_path
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import daskfs

Records = list[dict[str, Any]]
SEEDS = range(3)
FEW_ROWS, MORE_SEEDS = 1000, range(12)  # of small sets more splits, since a single unseen row changes the score


@dataclass(frozen=True)
class Table:
    """A set of rows with a target, cut into rows to select from and unseen rows."""

    name: str
    train: np.ndarray
    unseen: np.ndarray
    y: np.ndarray
    y_unseen: np.ndarray

    @property
    def is_real(self) -> bool:
        return self.y.dtype.kind == "f"

    @property
    def seeds(self) -> range:
        return SEEDS if len(self.y) > FEW_ROWS else MORE_SEEDS


def tables(seed: int, folder: Path | None = None) -> Iterator[Table]:
    """Yield scikit-learn's bundled sets, wide sets made here, and what a folder with downloads has."""
    loaders = {
        "iris": bundled.load_iris,
        "wine": bundled.load_wine,
        "breast cancer": bundled.load_breast_cancer,
        "digits": bundled.load_digits,
        "diabetes": bundled.load_diabetes,
    }
    for name, load in loaders.items():
        X, y = load(return_X_y=True)
        yield cut(name, X, y if name == "diabetes" else np.array([f"class {label}" for label in y]), seed)
    X, y = bundled.make_friedman1(2000, 30, noise=1.0, random_state=seed)
    yield cut("friedman 1", X, y, seed)
    for name, rows, true in (("wide, 100 rows", 100, 10), ("wide, 1,000 rows", 1000, 20)):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2 * rows, 2000)) * rng.lognormal(0, 2, 2000)
        score = (X / X.std(axis=0))[:, :true].sum(axis=1) + rng.normal(size=2 * rows)
        yield cut(name, X, np.where(score > 0, "yes", "no"), seed, share=0.5)
    if folder is not None:
        yield from downloads(folder, seed)


def downloads(folder: Path, seed: int) -> Iterator[Table]:
    """Yield the sets of `--data` that are small enough to refit: a9a."""
    path = folder / "a9a" / "a9a.bz2"
    if path.exists():
        X, y = bundled.load_svmlight_file(str(path))
        yield cut("a9a", X.toarray(), np.where(y > 0, "yes", "no"), seed)


def cut(name: str, X: np.ndarray, y: np.ndarray, seed: int, share: float = 0.3) -> Table:
    train, unseen, y_train, y_unseen = train_test_split(
        X.astype(np.float64), y, test_size=share, random_state=seed, stratify=None if y.dtype.kind == "f" else y
    )
    return Table(name, train, unseen, y_train, y_unseen)


def sizes(table: Table) -> list[int]:
    return [k for k in (2, 5, 10, 20, 50) if k < table.train.shape[1]][-2:]


def algorithms(table: Table, k: int) -> dict[str, Any]:
    known: dict[str, Any] = {"Online Substitution": daskfs.OnlineSubstitution(k), "MISSION": daskfs.Mission(k)}
    if table.train.shape[1] <= 100:
        known["Sparse Random Features"] = daskfs.SparseRandomFeatures()
    return known


def select(table: Table, algorithm: Any, seed: int = 0) -> daskfs.Selection:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        daskfs.write_dataset(f"{folder}/d.zarr", table.train, table.y, layout="both")
        return daskfs.select(f"{folder}/d.zarr", algorithm, seed=seed)


def quality(table: Table, predicted: np.ndarray) -> float:
    metric = r2_score if table.is_real else balanced_accuracy_score
    return float(metric(table.y_unseen, predicted))


def refit(table: Table, columns: np.ndarray) -> float:
    """Return the score of a cross-validated linear model of some columns."""
    if table.is_real:
        model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 30)))
    else:
        model = make_pipeline(
            StandardScaler(), LogisticRegressionCV(Cs=10, cv=5, max_iter=2000, scoring="balanced_accuracy")
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table.train[:, columns], table.y)
    return quality(table, model.predict(table.unseen[:, columns]))


def rivals(table: Table, k: int, seed: int) -> dict[str, np.ndarray]:
    """Return the k columns that each of scikit-learn's usual ways selects, of standardised data."""
    X = StandardScaler().fit_transform(table.train)
    codes = table.y if table.is_real else np.unique(table.y, return_inverse=True)[1]
    forest = (RandomForestRegressor if table.is_real else RandomForestClassifier)(200, n_jobs=2, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = SelectKBest(f_regression if table.is_real else f_classif, k=k).fit(X, codes)
        return {
            "SelectKBest": best.get_support(indices=True),
            "L1": l1_columns(X, codes, k, table.is_real),
            "random forest": np.argsort(-forest.fit(X, codes).feature_importances_)[:k],
        }


def l1_columns(X: np.ndarray, y: np.ndarray, k: int, is_real: bool) -> np.ndarray:
    """Return the first k columns of an L1 path: those with the largest weights at the first penalty with k or more."""
    if is_real:
        path = lars_path(X, y - y.mean(), method="lasso", max_iter=4 * k)[2]  # (columns, steps)
        entered = np.where((path != 0).any(axis=1), (path != 0).argmax(axis=1), path.shape[1])
        return np.argsort(entered, kind="stable")[:k]
    for C in np.logspace(-3, 2, 16):
        model = LogisticRegression(C=C, penalty="l1", solver="saga", max_iter=300).fit(X, y)
        strength = np.abs(model.coef_).max(axis=0)
        if np.count_nonzero(strength) >= k:
            break
    return np.argsort(-strength)[:k]


def compare_sets(folder: Path | None) -> Records:
    """Print, for every set and k, the score after the same refit of our columns and of the rivals' columns."""
    print("\n## Features chosen by default, after the same refit (mean of 3 splits, of small sets 12)\n")
    print("| set | k | Online Substitution | MISSION | SelectKBest | L1 | random forest | best of ours - best rival |")
    print("|---|---|---|---|---|---|---|---|")
    gaps: dict[str, list[float]] = {"Online Substitution": [], "MISSION": [], "the better of both": []}
    records = []
    for number, first in enumerate(tables(0, folder)):
        for k in sizes(first):
            scores: dict[str, list[float]] = {}
            for seed in first.seeds:
                table = next(found for at, found in enumerate(tables(seed, folder)) if at == number)
                for name, algorithm in algorithms(table, k).items():
                    if name != "Sparse Random Features":
                        scores.setdefault(name, []).append(refit(table, select(table, algorithm).features.astype(int)))
                for name, columns in rivals(table, k, seed).items():
                    scores.setdefault(name, []).append(refit(table, columns))
            mean = {name: float(np.mean(values)) for name, values in scores.items()}
            records.append({"set": first.name, "k": k, **mean})
            ours = {name: mean.pop(name) for name in ("Online Substitution", "MISSION")}
            ours["the better of both"] = max(ours.values())
            for name, value in ours.items():
                gaps[name].append(value - max(mean.values()))
            cells = " | ".join(f"{np.mean(values):.3f}" for values in scores.values())
            print(f"| {first.name} | {k} | {cells} | {gaps['the better of both'][-1]:+.3f} |", flush=True)
    for name, of in gaps.items():
        within = sum(gap > -0.01 for gap in of)
        print(f"\n{name}: within .01 of the best rival, or ahead, {within} of {len(of)}; worst {min(of):+.3f}")
    return records


def compare_weights(folder: Path | None) -> Records:
    """Print the score of every selection's own weights beside a cross-validated refit of the same columns."""
    print("\n## Own weights against a cross-validated refit of the same columns (mean of 3 splits, of small sets 12)\n")
    print("| set | k | algorithm | own | refitted | own - refitted |\n|---|---|---|---|---|---|")
    gaps, records = [], []
    for number, first in enumerate(tables(0, folder)):
        k = sizes(first)[-1]
        for name in algorithms(first, k):
            own, again = [], []
            for seed in first.seeds:
                table = next(found for at, found in enumerate(tables(seed, folder)) if at == number)
                selection = select(table, algorithms(table, k)[name])
                own.append(quality(table, selection.predict(table.unseen)))
                if selection.inputs is None:
                    again.append(refit(table, selection.features.astype(int)))
                else:
                    waves = Table(
                        name,
                        selection.transform(table.train),
                        selection.transform(table.unseen),
                        table.y,
                        table.y_unseen,
                    )
                    again.append(refit(waves, np.arange(waves.train.shape[1])))
            gaps.append(np.mean(own) - np.mean(again))
            figures = {"own": float(np.mean(own)), "refitted": float(np.mean(again))}
            records.append({"set": first.name, "k": k, "algorithm": name, **figures})
            print(
                f"| {first.name} | {k} | {name} | {np.mean(own):.3f} | {np.mean(again):.3f} | {gaps[-1]:+.3f} |",
                flush=True,
            )
    print(
        f"\nat most .005 below the refit: {sum(gap >= -0.005 for gap in gaps)} of {len(gaps)}; worst {min(gaps):+.3f}"
    )
    return records


QUARTERED = {"iris": 4, "wine": 12, "breast cancer": 20, "digits": 40, "diabetes": 8, "friedman 1": 20}
"""The number of features of which the first quarter is compared, where it is not the largest of `sizes`."""


def compare_quarters(folder: Path | None) -> Records:
    """Print how far the first k/4 of k features come from chance to all k, beside k/4 features selected anew."""
    print("\n## The first quarter of the features, after the same refit (mean of 3 splits)\n")
    print("| set | k | algorithm | all | first quarter | as many selected anew | share of the way from chance |")
    print("|---|---|---|---|---|---|---|")
    scores: dict[tuple[str, int, str], list[tuple[float, float, float, float]]] = {}
    for seed in SEEDS:
        for table in tables(seed, folder):
            k = QUARTERED.get(table.name, sizes(table)[-1])
            chance = 0.0 if table.is_real else 1 / len(np.unique(table.y))
            for name, algorithm in (("Online Substitution", daskfs.OnlineSubstitution), ("MISSION", daskfs.Mission)):
                features = select(table, algorithm(k)).features.astype(int)
                anew = select(table, algorithm(k // 4)).features.astype(int)
                found = [refit(table, columns) for columns in (features, features[: k // 4], anew)]
                scores.setdefault((table.name, k, name), []).append((*found, chance))
    records = []
    for (name, k, algorithm), of_seeds in scores.items():
        whole, first, anew, chance = np.mean(of_seeds, axis=0).tolist()
        share = (first - chance) / (whole - chance)
        figures = {"all": whole, "first quarter": first, "selected anew": anew, "share": share}
        records.append({"set": name, "k": k, "algorithm": algorithm, **figures})
        print(f"| {name} | {k} | {algorithm} | {whole:.3f} | {first:.3f} | {anew:.3f} | {share:.2f} |", flush=True)
    good = sum(
        record["share"] >= 0.9 or record["first quarter"] >= record["selected anew"] - 0.005 for record in records
    )
    print(f"\n.9 of the way, or as good as selected anew within .005: {good} of {len(records)}")
    return records


def compare_rare() -> Records:
    """Print the balanced accuracy of a rare class, by default and balanced, beside a balanced refit."""
    print("\n## One row in sixteen is positive (1,500 rows, 50 columns, 5 true, k = 5; mean of 3 draws)\n")
    print("| algorithm | by default | balanced=True | a balanced logistic regression of the same |\n|---|---|---|---|")
    records = []
    kinds: dict[str, Callable[[bool], Any]] = {
        "Online Substitution": lambda balanced: daskfs.OnlineSubstitution(5, balanced=balanced),
        "MISSION": lambda balanced: daskfs.Mission(5, balanced=balanced),
        "Sparse Random Features": lambda balanced: daskfs.SparseRandomFeatures(balanced=balanced),
    }
    for name, algorithm in kinds.items():
        scores = np.mean([_rare_scores(algorithm, seed) for seed in SEEDS], axis=0).tolist()
        records.append(dict(zip(("algorithm", "default", "balanced", "refitted"), (name, *scores), strict=True)))
        print(f"| {name} | " + " | ".join(f"{score:.3f}" for score in scores) + " |", flush=True)
    return records


def _rare_scores(algorithm: Callable[[bool], Any], seed: int) -> tuple[float, float, float]:
    """Return the balanced accuracy by default, with `balanced=True`, and of a balanced refit of the same features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7500, 50))
    y = np.where(rng.random(7500) < 1 / (1 + np.exp(4.5 - X[:, :5].sum(axis=1))), "yes", "no")
    table = Table("rare", X[:1500], X[1500:], y[:1500], y[1500:])
    plain, balanced = (select(table, algorithm(is_on)) for is_on in (False, True))
    model = LogisticRegressionCV(Cs=10, cv=5, scoring="balanced_accuracy", class_weight="balanced", max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(plain.transform(table.train), table.y)
        again = quality(table, model.predict(plain.transform(table.unseen)))
        return quality(table, plain.predict(table.unseen)), quality(table, balanced.predict(table.unseen)), again


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


def compare_damage() -> Records:
    """Print the scores from CSV files, by default, with each kind of damage."""
    print("\n## What damage to a table takes from the score (two classes, 4,000 rows, 60 columns, 6 true, k = 6)\n")
    print("| damage | algorithm | accuracy on unseen rows | true columns of 6 | against clean |\n|---|---|---|---|---|")
    clean: dict[str, float] = {}
    records = []
    for damage, spoil in DAMAGES.items():
        for name in ("substitution", "mission"):
            scores, hits = [], []
            for seed in SEEDS:
                frame, true = messy_table(seed)
                frame = spoil(frame, np.random.default_rng(seed))
                score, names = from_csv(frame, name, seed)
                scores.append(score)
                hits.append(len(set(names) & set(true)))
            clean.setdefault(name, float(np.mean(scores)))
            change = np.mean(scores) - clean[name]
            figures = {"accuracy": float(np.mean(scores)), "true": float(np.mean(hits))}
            records.append({"damage": damage, "algorithm": name, **figures})
            print(f"| {damage} | {name} | {np.mean(scores):.3f} | {np.mean(hits):.1f} | {change:+.3f} |", flush=True)
    known = [_with_true_columns(seed) for seed in SEEDS]
    print(f"\nscikit-learn, told the true columns, their gaps filled with the mean: {np.mean(known):.3f}")
    return [
        *records,
        {"damage": "5 % gaps", "algorithm": "logistic, told the true columns", "accuracy": float(np.mean(known))},
    ]


def _with_true_columns(seed: int) -> float:
    """Return the accuracy that gaps leave to a logistic regression of the true columns, filled with their means."""
    frame, true = messy_table(seed)
    frame = _with_gaps(frame, np.random.default_rng(seed))
    train, unseen = train_test_split(frame, test_size=0.3, random_state=seed)
    mean = train[true].mean()
    model = LogisticRegression(max_iter=1000).fit(train[true].fillna(mean), train["y"])
    return float(model.score(unseen[true].fillna(mean), unseen["y"]))


def run_trials() -> Records:
    """Print what each trial gives now beside what it gave when it was wrong without a warning."""
    print("\n## What once went wrong without a warning\n\n| trial | once | now |\n|---|---|---|")
    records = []
    for trial, once, run in TRIALS:
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            records.append({"trial": trial, "once": once, "now": run(Path(folder))})
            print(f"| {trial} | {once} | {records[-1]['now']} |", flush=True)
    return records


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
    rng = np.random.default_rng(0)
    rows, common, rare = 20_000, 10, 300
    X = np.hstack([rng.random((rows, common)) < 0.4, rng.random((rows, rare)) < 0.004]).astype(np.float32)
    effect = np.concatenate([np.full(common, 0.8), rng.choice([-3, 3], rare)])
    y = np.where(rng.random(rows) < 1 / (1 + np.exp(-(X @ effect - X[:, :common].sum(axis=1).mean() * 0.8))), 1, 0)
    daskfs.write_dataset(folder / "d.zarr", sparse.csr_array(X[:14_000]), y[:14_000], layout="rows")
    daskfs.write_dataset(folder / "t.zarr", sparse.csr_array(X[14_000:]), y[14_000:], layout="rows")
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
    X, y = bundled.load_diabetes(return_X_y=True)
    for seed in range(5):
        table = cut("diabetes", X, y, seed)
        waves.append(quality(table, select(table, daskfs.SparseRandomFeatures()).predict(table.unseen)))
        line.append(refit(table, np.arange(10)))
    return f"R² {np.mean(waves):.2f}, a straight line {np.mean(line):.2f}"


def small_and_wide(folder: Path) -> str:
    """60 rows, 3,000 columns, by Online Substitution: ridge by itself against a fixed 1.0 (mean of 8 draws)."""
    scores: dict[Any, list[float]] = {"auto": [], 1.0: []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(360, 3000)) + rng.normal(size=(360, 1))
        y = X[:, :8].sum(axis=1) + 2 * rng.normal(size=360)
        table = Table("wide", X[:60], X[60:], y[:60], y[60:])
        for ridge, found in scores.items():
            algorithm = daskfs.OnlineSubstitution(10, ridge=ridge)
            found.append(quality(table, select(table, algorithm).predict(table.unseen)))
    return f"R² {np.mean(scores['auto']):.3f} against {np.mean(scores[1.0]):.3f}"


TRIALS = [
    ("texts of 4 classes in folders, sorted by class, MISSION", "accuracy .25", sorted_texts),
    ("300 columns in different units, MISSION", "2 of 11 true, accuracy .59", other_units),
    ("digits, 10 classes, Online Substitution", "regresses on the numbers of the classes", ten_classes),
    ("clicks, MISSION, k = 50", "order by weight: rank 1 alone .5055, rank 45 alone .573", order_of_use),
    ("mean 5.86, sd .01, 8 % gaps, in a sparse table, MISSION, k = 1", "invisible", gaps_in_a_column),
    ("dates and customer ids, MISSION", "customer_id=C001988 is selected", dates_and_ids),
    ("iris, MISSION", "accuracy .71", few_rows),
    ("diabetes, Sparse Random Features", "R² .36, a straight line .42", straight_line),
    (
        "60 rows, 3,000 columns, Online Substitution, ridge by itself against 1.0",
        "worse on ten of eleven",
        small_and_wide,
    ),
]


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = ["trials", "sets", "weights", "quarter", "rare", "damage"]
    parser.add_argument("what", nargs="*", choices=[*known, []], default=[])
    parser.add_argument("--data", type=Path, help="a folder with downloaded sets")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    runs: dict[str, Callable[[], Records]] = {
        "trials": run_trials,
        "sets": lambda: compare_sets(arguments.data),
        "weights": lambda: compare_weights(arguments.data),
        "quarter": lambda: compare_quarters(arguments.data),
        "rare": compare_rare,
        "damage": compare_damage,
    }
    figures = {name: runs[name]() for name in known if name in (arguments.what or known)}
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
