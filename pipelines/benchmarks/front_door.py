"""Tables as people have them, through `daskfs select TABLE -k K --label y`, beside scikit-learn's obvious pipeline.

    python pipelines/benchmarks/front_door.py [NAME ...] [--seeds N] [--json docs/front-door.json]

For every table and seed, a file of rows is written, and the command is run on it in a process of its own, with no flags
but -k and --label. Its selection predicts rows that are in no file. scikit-learn gets as many rows as the selection had
(the command holds a fifth back), and prepares them by hand as a person would: identifiers dropped, dates as numbers,
gaps filled, categories encoded, numbers scaled; then the better of SelectKBest and an L1 path with the same k, and a
logistic or ridge regression. Printed are both scores on the new rows, their difference, and the seconds of the command.
Ten tables are made here, each with a difficulty of its own; four are the real ones that scikit-learn brings with it,
split anew for every seed.

With `--json`, the scores of every seed are saved, and what the file has of other tables stays.
`pipelines/docs/front_door.py` draws the picture of the README from docs/front-door.json, which is made by

    python pipelines/benchmarks/front_door.py --json docs/front-door.json
    python pipelines/benchmarks/front_door.py breast_cancer digits wine diabetes --seeds 8 --json docs/front-door.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import SelectFromModel, SelectKBest, f_classif, f_regression
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Lasso, LogisticRegression, RidgeCV
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import daskfs

Rng = np.random.Generator
TEST_ROWS = 4000


class Table(NamedTuple):
    """A table with its target "y", the number of features to select, and what scikit-learn's user would leave out."""

    frame: pd.DataFrame
    k: int
    drop: tuple[str, ...] = ()
    test_rows: int = TEST_ROWS


def _classes(score: np.ndarray, rng: Rng, share: float = 0.5) -> np.ndarray:
    noisy = score + rng.logistic(size=len(score))
    return np.where(noisy > np.quantile(noisy, 1 - share), "yes", "no")


def _numbers(rng: Rng, n: int, p: int) -> pd.DataFrame:
    return pd.DataFrame(rng.normal(size=(n, p)), columns=[f"x{i}" for i in range(p)])


def mixed(rng: Rng, n: int) -> Table:
    frame = _numbers(rng, n, 20).assign(
        age=rng.integers(18, 90, n),
        country=rng.choice(["uk", "fr", "de", "it", "us"], n),
        plan=rng.choice(list("abc"), n),
    )
    score = 0.06 * (frame.age - 50) + 1.5 * (frame.country == "fr") - 1.2 * (frame.plan == "b") + frame.x3
    return Table(frame.assign(y=_classes(score.to_numpy(), rng)), 6)


def wide(rng: Rng, n: int) -> Table:
    frame = _numbers(rng, n, 1500)
    return Table(frame.assign(y=_classes(1.2 * frame.iloc[:, :12].to_numpy() @ rng.choice([-1, 1], 12), rng)), 12)


def text(rng: Rng, n: int) -> Table:
    """Documents of 30 words of 5,000, some of which go with the class."""
    y = rng.integers(0, 2, n)
    words = (rng.zipf(1.3, size=(n, 30)) % 5000).astype(int)
    for row in range(n):
        hits = rng.random(3) < 0.35
        words[row, :3][hits] = 4000 + 20 * y[row] + rng.integers(0, 20, hits.sum())
    documents = [" ".join(f"w{word}" for word in row) for row in words]
    return Table(pd.DataFrame({"y": np.where(y, "spam", "ham"), "text": documents}), 60)


def classes(rng: Rng, n: int) -> Table:
    y, centres = rng.integers(0, 8, n), rng.normal(size=(8, 10)) * 1.2
    X = rng.normal(size=(n, 40))
    X[:, :10] += centres[y]
    frame = pd.DataFrame(X * np.exp(rng.normal(0, 3, 40)), columns=[f"x{i}" for i in range(40)])
    return Table(frame.assign(y=[f"class{label}" for label in y]), 10)


def dates(rng: Rng, n: int) -> Table:
    frame = _numbers(rng, n, 15).assign(
        joined=pd.to_datetime("2018-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D"),
        order_id=rng.permutation(10**6)[:n],
    )
    days = (frame.joined - frame.joined.min()).dt.days / 600
    return Table(frame.assign(y=_classes(days.to_numpy() - frame.x1.to_numpy(), rng)), 3, drop=("order_id",))


def gaps(rng: Rng, n: int) -> Table:
    frame = _numbers(rng, n, 30)
    score = frame.x0 + frame.x1 - frame.x2 + frame.x3
    frame = frame.mask(rng.random(frame.shape) < 0.1) * np.exp(rng.normal(0, 2, 30)) + 5
    return Table(frame.assign(y=_classes(1.5 * score.to_numpy(), rng)), 4)


def rare(rng: Rng, n: int) -> Table:
    frame = _numbers(rng, 5 * n, 25)
    score = 1.5 * frame.x0 - 1.2 * frame.x7 + frame.x9
    return Table(frame.assign(y=_classes(score.to_numpy(), rng, 0.01)), 3)


def regression(rng: Rng, n: int) -> Table:
    frame = _numbers(rng, n, 60).assign(area=rng.lognormal(4, 0.5, n), kind=rng.choice(["flat", "house"], n))
    price = 3000 * frame.area + 1e5 * (frame.kind == "house") + 4e4 * frame.x5 - 3e4 * frame.x9
    return Table(frame.assign(y=price + rng.normal(0, 5e4, n)), 4)


def ordered(rng: Rng, n: int) -> Table:
    frame = _numbers(rng, n, 30)
    frame["y"] = _classes(2 * (frame.x2 - frame.x4).to_numpy(), rng)
    return Table(frame, 2)


def tiny(rng: Rng, n: int) -> Table:
    frame = _numbers(rng, 60 + TEST_ROWS, 8)
    return Table(frame.assign(y=_classes(4 * (frame.x1 - frame.x6).to_numpy(), rng)), 2)


def _bundled(load: Callable[..., Any], rng: Rng, k: int) -> Table:
    """Return a real table of scikit-learn's in random order, three tenths of it for the test."""
    bunch = load(as_frame=True)
    y = bunch.target if load is load_diabetes else np.asarray(bunch.target_names)[bunch.target].astype(str)
    frame = bunch.data.assign(y=y).sample(frac=1, random_state=int(rng.integers(2**31)))
    return Table(frame, k, test_rows=len(frame) * 3 // 10)


def breast_cancer(rng: Rng, n: int) -> Table:
    return _bundled(load_breast_cancer, rng, 5)


def digits(rng: Rng, n: int) -> Table:
    table = _bundled(load_digits, rng, 20)
    return table._replace(frame=table.frame.assign(y="digit " + table.frame.y))


def wine(rng: Rng, n: int) -> Table:
    return _bundled(load_wine, rng, 4)


def diabetes(rng: Rng, n: int) -> Table:
    return _bundled(load_diabetes, rng, 4)


MADE = (mixed, wide, text, classes, dates, gaps, rare, regression, ordered, tiny)
REAL = (breast_cancer, digits, wine, diabetes)
TABLES: dict[str, Callable[[Rng, int], Table]] = {function.__name__: function for function in MADE + REAL}


def daskfs_score(train: pd.DataFrame, test: pd.DataFrame, k: int, is_text: bool) -> tuple[float, float, int]:
    """Run the command on a file, and return the score of its selection on new rows, its seconds and its test rows."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / ("table.txt" if is_text else "table.csv")
        train.to_csv(path, index=False, header=not is_text, sep="\t" if is_text else ",")
        label = [] if is_text else ["--label", "y"]
        command = [
            sys.executable,
            "-c",
            "from daskfs.cli import main; main()",
            "select",
            str(path),
            "-k",
            str(k),
            *label,
            "--out",
            f"{folder}/out",
        ]
        begun = perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = perf_counter() - begun
        if done.returncode:
            raise SystemExit(done.stderr)
        selection = daskfs.load_selection(f"{folder}/out")
        held_back = int(done.stdout.split("on ")[1].split(" rows held back")[0].replace(",", ""))
        data: Any = test
        if is_text:
            test.to_csv(f"{folder}/new.txt", index=False, header=False, sep="\t")
            data = daskfs.ingest(f"{folder}/new.txt", f"{folder}/new.zarr", "text", order="as-is")
        return (
            score_of(test.y, selection.decision_function(data), selection.predict(data), selection.classes),
            seconds,
            held_back,
        )


def metric_of(y: pd.Series) -> str:
    if y.dtype.kind == "f":
        return "R²"
    return "ROC AUC" if y.nunique() == 2 else "balanced accuracy"


def score_of(y: pd.Series, scores: np.ndarray, predicted: np.ndarray, labels: Any) -> float:
    if labels is None:
        return float(r2_score(y, predicted))
    if len(labels) == 2:
        return float(roc_auc_score(y == labels[1], scores))
    return float(balanced_accuracy_score(y, predicted))


def sklearn_score(train: pd.DataFrame, test: pd.DataFrame, k: int, drop: tuple[str, ...]) -> float:
    """Return the better score of SelectKBest and an L1 path with the same number of features."""
    is_number = train.y.dtype.kind == "f"
    if "text" in train:
        prepare: Any = CountVectorizer()
        features, new = train.text, test.text
    else:
        frames = [frame.drop(columns=["y", *drop]) for frame in (train, test)]
        for frame in frames:
            for name in frame.select_dtypes("datetime"):
                frame[name] = frame[name].astype("int64") / 1e9
        features, new = frames
        numeric = features.select_dtypes("number").columns
        others = [name for name in features if name not in numeric]
        encode = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
        prepare = ColumnTransformer(
            [("n", make_pipeline(SimpleImputer(), StandardScaler()), numeric), ("c", encode, others)],
            sparse_threshold=0,
        )
    scores = []
    penalised: list[Any] = [Lasso(alpha=a) for a in (0.001, 0.01, 0.1)] if is_number else []
    penalised += (
        [] if is_number else [LogisticRegression(C=c, l1_ratio=1, solver="saga", max_iter=300) for c in (0.03, 0.3)]
    )
    selectors: list[Any] = [SelectKBest(f_regression if is_number else f_classif, k=k)]
    selectors += [SelectFromModel(model, max_features=k, threshold=-np.inf) for model in penalised]
    y = train.y / train.y.std() if is_number else train.y
    for selector in selectors:
        final = RidgeCV(np.logspace(-3, 3, 13)) if is_number else LogisticRegression(max_iter=2000)
        model = make_pipeline(prepare, selector, final).fit(features, y)
        if is_number:
            scores.append(float(r2_score(test.y / train.y.std(), model.predict(new))))
        elif len(model.classes_) == 2:
            scores.append(float(roc_auc_score(test.y == model.classes_[1], model.decision_function(new))))
        else:
            scores.append(float(balanced_accuracy_score(test.y, model.predict(new))))
    return max(scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", default=[made.__name__ for made in MADE], help="tables; the made ones by default"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also save the scores here")
    arguments = parser.parse_args()
    results = []
    print(f"{'table':12}{'rows':>8}{'k':>5}{'daskfs':>9}{'sklearn':>9}{'difference':>12}{'seconds':>9}")
    for name in arguments.names:
        ours, theirs, times = [], [], []
        for seed in range(arguments.seeds):
            rng = np.random.default_rng(seed)
            table = TABLES[name](rng, 2000 + TEST_ROWS)
            test, train = table.frame[-table.test_rows :], table.frame[: -table.test_rows]
            if name == "ordered":
                train = train.sort_values("y")
            score, seconds, held_back = daskfs_score(train, test, table.k, name == "text")
            fewer = train.sample(len(train) - held_back, random_state=seed)
            ours.append(score)
            theirs.append(sklearn_score(fewer, test, table.k, table.drop))
            times.append(seconds)
        difference = np.mean(ours) - np.mean(theirs)
        print(
            f"{name:12}{len(train):8,}{table.k:5}{np.mean(ours):9.3f}{np.mean(theirs):9.3f}{difference:+12.3f}{min(times):9.1f}",
            flush=True,
        )
        results.append(
            {
                "table": name.replace("_", " "),
                "real": TABLES[name] in REAL,
                "rows": len(train),
                "columns": train.shape[1] - 1,
                "k": table.k,
                "metric": metric_of(table.frame.y),
                "daskfs": [round(score, 4) for score in ours],
                "sklearn": [round(score, 4) for score in theirs],
            }
        )
    if arguments.json is not None:
        save(arguments.json, results)


def save(file: Path, results: list[dict[str, Any]]) -> None:
    """Write results to a JSON file, a line for each table, in place of those of the same tables."""
    known = json.loads(file.read_text("utf-8"))["tables"] if file.exists() else []
    tables = {table["table"]: table for table in [*known, *results]}
    lines = ",\n".join(f"  {json.dumps(table, ensure_ascii=False)}" for table in tables.values())
    versions = f'"daskfs_version": "{daskfs.__version__}", "sklearn_version": "{sklearn.__version__}"'
    file.write_text(f'{{\n {versions},\n "tables": [\n{lines}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
