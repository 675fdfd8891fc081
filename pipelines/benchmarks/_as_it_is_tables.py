"""The tables of `as_it_is.py`: scikit-learn's bundled sets, sets made from a seed, and public sets by their recipes.

Public sets are read from files anywhere below a folder with downloads, by the scripts in `datasets/`, which say where
each file comes from. A set whose files are not there is left out.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import datasets as bundled
from sklearn.model_selection import train_test_split

import daskfs

RECIPES = Path(__file__).parents[2] / "datasets"
FEW_ROWS, SPLITS, MORE_SPLITS = 1000, 3, 12  # of small sets more splits, since a single unseen row changes the score
LARGEST = 4000  # rows of a public set, of which a forest and an L1 path are learned beside


@dataclass(frozen=True)
class Table:
    """Rows with a target, cut into rows to select from and unseen rows."""

    name: str
    train: Any
    unseen: Any
    y: np.ndarray
    y_unseen: np.ndarray

    @property
    def is_real(self) -> bool:
        return self.y.dtype.kind == "f"


@dataclass(frozen=True)
class Source:
    """Where a table comes from: a function of a seed that returns X and y, and the share of unseen rows."""

    name: str
    draw: Callable[[int], tuple[Any, np.ndarray]]
    share: float = 0.3

    def table(self, seed: int) -> Table:
        """Return the table, split at random."""
        X, y = self.draw(seed)
        kind = None if y.dtype.kind == "f" else y
        train, unseen, y_train, y_unseen = train_test_split(
            X, y, test_size=self.share, random_state=seed, stratify=kind
        )
        return Table(self.name, train, unseen, y_train, y_unseen)

    def splits(self, most: int) -> range:
        """Return the seeds of the splits, at most so many."""
        is_small = len(self.table(0).y) <= FEW_ROWS
        return range(min(most, MORE_SPLITS if is_small else SPLITS))


def sources(folder: Path | None) -> list[Source]:
    """Return scikit-learn's bundled sets, wide sets made here, and the dense sets of a folder with downloads."""
    loaders = {
        "iris": bundled.load_iris,
        "wine": bundled.load_wine,
        "breast cancer": bundled.load_breast_cancer,
        "digits": bundled.load_digits,
        "diabetes": bundled.load_diabetes,
    }
    own = [Source(name, lambda _, load=load: named(*load(return_X_y=True))) for name, load in loaders.items()]
    own.append(Source("friedman 1", lambda seed: bundled.make_friedman1(2000, 30, noise=1.0, random_state=seed)))
    own += [Source(name, lambda seed, size=size: _scaled(seed, *size), 0.5) for name, size in SCALED.items()]
    return own + ([] if folder is None else downloads(folder))


SCALED = {"wide, 100 rows": (100, 10), "wide, 1,000 rows": (1000, 20)}


def named(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return classes as texts, which no algorithm can mistake for numbers."""
    return X.astype(np.float64), y if y.dtype.kind == "f" else np.array([f"class {label}" for label in y])


def _scaled(seed: int, rows: int, true: int) -> tuple[np.ndarray, np.ndarray]:
    """Return twice as many rows of 2,000 columns in different units, the first of which are true."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2 * rows, 2000)) * rng.lognormal(0, 2, 2000)
    score = (X / X.std(axis=0))[:, :true].sum(axis=1) + rng.normal(size=2 * rows)
    return X, np.where(score > 0, "yes", "no")


@dataclass(frozen=True)
class Wide:
    """A wide set with few rows, as of gene expression: columns share factors, and some of them make the target."""

    rows: int
    columns: int
    true: int
    factors: int
    noise: float
    is_real: bool = False

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows to select from and 600 more."""
        rng = np.random.default_rng(seed)
        n = self.rows + 600
        common = rng.normal(size=(n, self.factors)) @ rng.normal(size=(self.factors, self.columns))
        X = common / self.factors**0.5 + rng.normal(size=(n, self.columns))
        score = X[:, : self.true] @ rng.normal(size=self.true)
        score = (score - score.mean()) / score.std() + self.noise * rng.normal(size=n)
        return X * rng.lognormal(0, 1, self.columns), score if self.is_real else np.where(score > 0, "yes", "no")

    def source(self, name: str) -> Source:
        return Source(name, self.draw, 600 / (self.rows + 600))


WIDE = {
    "38 x 7,000": Wide(38, 7000, 10, 3, 0.3),
    "62 x 2,000": Wide(62, 2000, 10, 5, 0.5),
    "100 x 10,000": Wide(100, 10_000, 20, 10, 0.5),
    "168 x 2,900": Wide(168, 2900, 20, 5, 1.0),
    "80 x 5,000, a number": Wide(80, 5000, 10, 5, 0.5, is_real=True),
    "200 x 4,000, a number": Wide(200, 4000, 20, 10, 0.5, is_real=True),
}


def downloads(folder: Path) -> list[Source]:
    """Return the public sets that are in a folder, as dense tables of at most `LARGEST` rows."""
    recipes: dict[str, tuple[str, ...]] = {
        "a9a": ("a9a.py",),
        "madelon": ("madelon.py",),
        "dexter": ("dexter.py",),
        "mnist": ("mnist.py", "--rows", "3000"),
        "ijcnn1": ("ijcnn1.py",),
        "compactiv": ("compactiv.py",),
    }
    return [
        Source(name, lambda _, name=name, recipe=recipe: _some_rows(*of_recipe(folder, name, recipe)))
        for name, recipe in recipes.items()
        if of_recipe(folder, name, recipe) is not None
    ]


def _some_rows(X: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(0).permutation(len(y))[:LARGEST]
    X = X[rows]
    return named((X.toarray() if sparse.issparse(X) else X).astype(np.float64), y[rows])


def texts(folder: Path | None) -> list[Source]:
    """Return sets of sparse rows: words drawn from a seed, and the texts of a folder with downloads."""
    known = [Source("clicks", common_and_rare), Source("RCV1-like rows", drawn_words)]
    if folder is None:
        return known
    news = of_recipe(folder, "news20", ("news20.py", "--words", "1", "--chars", "", "--shuffle"))
    if news is not None:
        for name, (first, second) in NEWS.items():
            known.append(Source(f"news: {name}", lambda _, a=first, b=second: _two_groups(*news, a, b)))
    dexter = of_recipe(folder, "dexter, sparse", ("dexter.py", "--sparse"))
    splice = of_recipe(folder, "splice", ("splice.py", "--part", "test", "--k", "3"))
    for name, rows in (("dexter", dexter), ("splice", splice)):
        if rows is not None:
            known.append(Source(name, lambda _, rows=rows: _first_rows(*rows, 20_000)))
    for name, pattern, how in (
        ("RCV1, 1,000 rows", "rcv1_small.dat", {"format": "vw"}),
        ("Criteo, 2,000 rows", "train.tiny.csv", {"format": "csv", "label": "Label", "layout": "rows"}),
    ):
        known += [
            Source(name, lambda _, path=path, how=how: from_text(path, tuple(how.items())))
            for path in sorted(folder.rglob(pattern))[:1]
        ]
    return known


NEWS = {
    "computers and recreation": ("comp.", "rec."),
    "science and talk": ("sci.", "talk."),
    "baseball and hockey": ("rec.sport.baseball", "rec.sport.hockey"),
    "atheism and religion": ("alt.atheism", "soc.religion"),
}


def common_and_rare(seed: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Return 20,000 rows with 10 common features of moderate effect, and 300 rare ones of strong effect."""
    rng = np.random.default_rng(seed)
    rows, common, rare = 20_000, 10, 300
    X = np.hstack([rng.random((rows, common)) < 0.4, rng.random((rows, rare)) < 0.004]).astype(np.float32)
    score = X @ np.concatenate([np.full(common, 0.8), rng.choice([-3, 3], rare)])
    odds = score - 0.8 * X[:, :common].sum(axis=1).mean()
    return sparse.csr_array(X), np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")


def drawn_words(seed: int) -> tuple[sparse.csr_array, np.ndarray]:
    """Return 12,000 rows of 60 of 50,000 words by Zipf's law, of which 500 matter, with values of unit norm."""
    rng = np.random.default_rng(seed)
    rows, words = 12_000, 50_000
    ids = (words ** rng.random((rows, 60))).astype(np.int32) - 1
    indptr = np.arange(0, ids.size + 1, 60, dtype=np.int32)
    X = sparse.csr_array((np.ones(ids.size), ids.ravel(), indptr), shape=(rows, words))
    X.sum_duplicates()
    X.data /= np.sqrt(np.repeat(X.power(2).sum(axis=1), np.diff(X.indptr)))
    weights = np.zeros(words)
    weights[rng.choice(5000, 500, replace=False)] = rng.normal(size=500)
    score = X @ weights
    y = np.where((score - score.mean()) / score.std() + 0.5 * rng.logistic(size=rows) > 0, "yes", "no")
    return X.astype(np.float32), y


def _two_groups(X: Any, y: np.ndarray, first: str, second: str) -> tuple[Any, np.ndarray]:
    inside = np.array([label.startswith((first, second)) for label in y])
    return X[inside], np.where([label.startswith(first) for label in y[inside]], "first", "second")


def _first_rows(X: Any, y: np.ndarray, count: int) -> tuple[Any, np.ndarray]:
    rows = np.random.default_rng(0).permutation(len(y))[:count]
    return X[rows], np.array([f"class {label:g}" if y.dtype.kind == "f" else str(label) for label in y[rows]])


@cache
def of_recipe(folder: Path, name: str, command: tuple[str, ...]) -> tuple[Any, np.ndarray] | None:
    """Return the rows that a recipe writes from the files below a folder, or None, with a line, if they are not there.

    Features that no row has are left out.
    """
    with tempfile.TemporaryDirectory() as work:
        recipe, *options = command
        arguments = [sys.executable, str(RECIPES / recipe), f"{work}/d.zarr", "--from", str(folder), *options]
        done = subprocess.run(arguments, capture_output=True, text=True)
        if done.returncode:
            print(f"{name} is left out: {(done.stderr.strip() or 'no word').splitlines()[-1]}", file=sys.stderr)
            return None
        return rows_in(daskfs.open_dataset(f"{work}/d.zarr"))


@cache
def from_text(path: Path, how: tuple[tuple[str, str], ...]) -> tuple[Any, np.ndarray]:
    """Return the rows of a file of text, ingested with some options."""
    with tempfile.TemporaryDirectory() as work, contextlib.redirect_stdout(io.StringIO()):
        X, y = rows_in(daskfs.ingest(str(path), f"{work}/d.zarr", **dict(how)))  # type: ignore[arg-type]
    return sparse.csr_array(X), np.array([f"class {label}" for label in y])


def rows_in(dataset: daskfs.Dataset) -> tuple[Any, np.ndarray]:
    """Return all rows of a dataset, sparse ones without features that no row has, and labels as the source had them."""
    y = np.concatenate(list(dataset.targets()))
    if dataset.classes is not None:
        y = np.array(dataset.classes)[dataset.meta.class_codes(y)]
    if dataset.kind == "dense":
        axis = "rows" if "rows" in dataset.meta.axes else "columns"
        blocks = [dataset.read(number, axis=axis).X.copy() for number in range(dataset.n_blocks(axis))]
        return np.concatenate(blocks, axis=0 if axis == "rows" else 1), y
    parts = [(np.diff(block.indptr), block.ids.copy(), block.values.copy()) for block in dataset.blocks()]
    lengths, ids, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    features, columns = np.unique(ids, return_inverse=True)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)  # 64 bits are too many for scikit-learn
    return sparse.csr_array((values, columns.astype(np.int32), indptr), shape=(len(y), len(features))), y
