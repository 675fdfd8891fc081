"""How many of the reported features are false, and how many true ones are found, with `error_control="permuted"`.

Simulated rows with 30 true features among 2,000; 60 are searched, and those with a q-value of at most 0.1 are reported.
"False where 2 allowed" counts false features among those that ``max_false=2`` reports, which should be about 2 where
there is nothing to find. Features that a true one correlates with by more than 0.8 count as false, except in the column
"false, apart from neighbours". ``--quick`` takes half a minute, all seeds some minutes. ``--docs`` writes the table of
docs/error-control.md, and what it is made of beside it.

    python pipelines/papers/error_control.py --quick
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import numpy as np
import scipy.sparse as sp
from _docs_table import DOCS, replace_table
from _report import Record, report
from numpy.typing import NDArray

import daskfs

Floats = NDArray[np.float64]
Columns = Callable[[np.random.Generator, int, int], Any]
LEVEL, MOST_FALSE, SEARCHED = 0.1, 2.0, 60
ALIKE = 0.8  # correlation above which a feature stands for its neighbour
METRICS = ("false discovery rate", "apart from neighbours", "found", "anything", "false where 2 allowed")
HEAD = "| | seeds | false | apart from neighbours | found |\n|---|---|---|---|---|\n"


def independent(rng: np.random.Generator, n: int, p: int) -> Floats:
    return rng.standard_normal((n, p))


def neighbours(correlation: float) -> Columns:
    """Each column correlates with the next."""

    def columns(rng: np.random.Generator, n: int, p: int) -> Floats:
        X = rng.standard_normal((n, p))
        for j in range(1, p):
            X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
        return X

    return columns


def factors(rng: np.random.Generator, n: int, p: int) -> Floats:
    """Ten hidden factors are half of the variance of every column."""
    loadings = rng.standard_normal((10, p))
    common = rng.standard_normal((n, 10)) @ (loadings / np.linalg.norm(loadings, axis=0))
    return np.sqrt(0.5) * (common + rng.standard_normal((n, p)))


def genotypes(rng: np.random.Generator, n: int, p: int) -> Floats:
    """Counts 0, 1, 2 of a rarer allele; neighbouring places are inherited together."""
    rare = rng.uniform(0.05, 0.5, p)
    halves = [neighbours(0.8)(rng, n, p) for _ in range(2)]
    cuts = np.quantile(rng.standard_normal(100_000), rare)
    X = sum((half < cuts).astype(float) for half in halves)
    return (X - 2 * rare) / np.sqrt(2 * rare * (1 - rare))


def sparse(rng: np.random.Generator, n: int, p: int) -> Any:
    """Columns that are 1 in 5 to 30 % of the rows, otherwise 0."""
    return sp.csc_array((rng.random((n, p)) < rng.uniform(0.05, 0.3, p)).astype(np.float32))


@dataclass(frozen=True)
class Problem:
    """Columns, a target, and how many of the columns are behind it."""

    columns: Columns = independent
    rows: int = 600
    true: int = 30
    logistic: bool = False
    heavy_tails: bool = False
    rows_of_group: int = 1
    noise: float = 3.0
    seeds: int = 30
    n_features: int = field(default=2000, repr=False)

    def draw(self, seed: int) -> tuple[Any, NDArray[Any], NDArray[np.int64], NDArray[np.int64] | None]:
        """Return columns, target, the true columns, and groups of rows if there are any."""
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(self.rows // self.rows_of_group), self.rows_of_group)
        X = self.columns(rng, len(groups) // self.rows_of_group, self.n_features)
        true = rng.choice(self.n_features, self.true, replace=False)
        signs = rng.choice([-1.0, 1.0], self.true)
        scale = X[:, true].std(axis=0) if isinstance(X, np.ndarray) else np.sqrt(X[:, true].mean(axis=0))
        effects = X[:, true] @ (signs / scale * (1.0 if self.logistic else rng.uniform(0.5, 1.5, self.true)))
        if self.logistic:
            return X.astype(np.float32), rng.random(len(effects)) < 1 / (1 + np.exp(-effects)), true, None
        noise = rng.standard_t(3, len(effects)) / np.sqrt(3) if self.heavy_tails else rng.standard_normal(len(effects))
        y = effects + self.noise * noise
        if self.rows_of_group == 1:
            return X.astype(np.float32), y, true, None
        X, y = X[groups] + 0.3 * rng.standard_normal((self.rows, self.n_features)), y[groups]
        return X.astype(np.float32), y, true, groups


PROBLEMS = {
    "nothing there": Problem(true=0, seeds=200),
    "nothing there, logistic": Problem(true=0, rows=1000, logistic=True, seeds=200),
    "independent columns": Problem(),
    "neighbours 0.7": Problem(neighbours(0.7)),
    "neighbours 0.9": Problem(neighbours(0.9)),
    "factors": Problem(factors),
    "genotypes": Problem(genotypes),
    "logistic": Problem(rows=1000, logistic=True),
    "heavy tails": Problem(heavy_tails=True),
    "sparse columns": Problem(sparse),
    "4 rows a donor, by donor": Problem(rows=2400, rows_of_group=4),
    "neighbours 0.7, noise 0.3": Problem(neighbours(0.7), noise=0.3, n_features=1000, seeds=10),
    "neighbours 0.7, 4,000 rows": Problem(neighbours(0.7), rows=4000, n_features=1000, seeds=10),
    "neighbours 0.7, 4,000 rows, noise 0.9": Problem(neighbours(0.7), rows=4000, noise=0.9, n_features=1000, seeds=10),
    "genotypes, 4,000 rows": Problem(genotypes, rows=4000, n_features=1000, seeds=10),
    "genotypes, 4,000 rows, noise 0.9": Problem(genotypes, rows=4000, noise=0.9, n_features=1000, seeds=10),
    "logistic, neighbours 0.7, 4,000 rows": Problem(
        neighbours(0.7), rows=4000, logistic=True, n_features=1000, seeds=10
    ),
}


def judge(name: str, problem: Problem, seed: int) -> Record:
    """Select from one draw of a problem, and count what is false and what is found."""
    X, y, true, groups = problem.draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        algorithm = daskfs.OnlineSubstitution(SEARCHED, error_control="permuted")
        selection = daskfs.select(X, algorithm, y, groups=groups)
    features, numbers = selection.features.astype(int), selection.statistics
    reported, allowed = features[numbers["q_value"] <= LEVEL], features[numbers["expected_false"] <= MOST_FALSE]
    false = np.setdiff1d(reported, true)
    return {
        "method": name,
        "level": LEVEL,
        "seed": seed,
        "false discovery rate": len(false) / max(len(reported), 1),
        "apart from neighbours": len(_unlike(X, false, true)) / max(len(reported), 1),
        "found": len(np.intersect1d(reported, true)) / max(len(true), 1),
        "anything": float(len(reported) > 0),
        "false where 2 allowed": len(np.setdiff1d(allowed, true)),
    }


def _unlike(X: Any, false: NDArray[np.int64], true: NDArray[np.int64]) -> list[int]:
    """Return the false features that no true feature correlates with by more than `ALIKE`."""
    if not len(true):
        return false.tolist()
    columns = np.asarray((X[:, [*false, *true]]).todense() if sp.issparse(X) else X[:, [*false, *true]])
    correlations = np.abs(np.corrcoef(columns.T)[: len(false), len(false) :])
    return [feature for feature, row in zip(false.tolist(), correlations, strict=True) if row.max() <= ALIKE]


def records(names: Sequence[str], seeds: int | None, quick: bool) -> list[Record]:
    """Return a record for every problem and seed."""
    counts = {name: seeds or -(-PROBLEMS[name].seeds // (8 if quick else 1)) for name in names}
    return [judge(name, PROBLEMS[name], seed) for name in names for seed in range(counts[name])]


def means_of(found: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Return the number of seeds and the means of all metrics, rounded to four digits, for every problem."""
    means = {}
    for name in dict.fromkeys(record["method"] for record in found):
        of_name = [record for record in found if record["method"] == name]
        values = {metric: round(float(np.mean([record[metric] for record in of_name])), 4) for metric in METRICS}
        means[name] = {"seeds": len(of_name), **values}
    return means


def table_of(means: dict[str, dict[str, float]]) -> str:
    """Return the table of the docs, in Markdown."""
    rows = []
    for name, of in means.items():
        false, apart, share = (f"{of[metric]:.3f}" for metric in METRICS[:3])
        if not PROBLEMS[name].true:
            share = f"`max_false=2` reports {of['false where 2 allowed']:.1f}"
        rows.append(f"| {name} | {of['seeds']} | {false} | {apart} | {share} |\n")
    return HEAD + "".join(rows)


def write_docs(found: Sequence[Record]) -> None:
    """Replace what was measured before of the same problems, and the table of the docs."""
    file, page = DOCS / "error-control.json", DOCS / "error-control.md"
    means = json.loads(file.read_text("utf-8")) if file.exists() else {}
    means |= means_of(found)
    file.write_text(json.dumps({name: means[name] for name in PROBLEMS if name in means}, indent=1) + "\n", "utf-8")
    replace_table(page, HEAD, table_of(json.loads(file.read_text("utf-8"))))


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(PROBLEMS)), help="Some of the problems.")
@click.option("--seeds", type=click.IntRange(1), help="Of each problem.")
@click.option("--quick", is_flag=True, help="An eighth of the seeds.")
@click.option("--json", "as_json", is_flag=True, help="Every run, for machines.")
@click.option("--docs", is_flag=True, help="Write the table of the docs, too.")
def main(only: Sequence[str], seeds: int | None, quick: bool, as_json: bool, docs: bool) -> None:
    """Print the false discovery rate and the share of true features found, for every problem."""
    found = records(only or list(PROBLEMS), seeds, quick)
    report("error control", found, "level", METRICS, as_json)
    if docs:
        write_docs(found)


if __name__ == "__main__":
    main()
