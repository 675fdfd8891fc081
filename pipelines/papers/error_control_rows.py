"""How many of MISSION's features are false, and how many true ones are found, with `error_control="halves"`.

Simulated rows with 50 draws each of 20,000 words, whose frequencies fall as 1 / rank (Zipf). 200 words among the 4,000
most frequent tell two classes apart, or make up a number with noise. Of k words searched, those with a q-value of at
most 0.1 are reported. With fewer cells than words, words share cells. ``--quick`` takes some minutes, all seeds three
times as long. ``--docs`` writes the table of docs/error-control.md, and what it is made of beside it.

    python pipelines/papers/error_control_rows.py --quick
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import click
import numpy as np
import scipy.sparse as sp
from _docs_table import DOCS, replace_table
from _report import Record, report
from numpy.typing import NDArray

import daskfs

LEVEL, MOST_FALSE = 0.1, 2.0
SEARCHED = (200, 400, 800)
METRICS = ("false discovery rate", "found", "anything", "false where 2 allowed")
FIGURES = DOCS / "error-control-rows.json"
HEAD = "| 200 true of 20,000 words (Zipf), false / found at q ≤ 0.1 | seeds | k = 200 | k = 400 | k = 800 |\n"


@dataclass(frozen=True)
class Problem:
    """Rows of words, a target, and how many of the words are behind it."""

    rows: int = 100_000
    true: int = 200
    width: int = 2**14  # cells are twice as many
    target: Literal["classes", "numbers"] = "classes"
    seeds: int = 3
    words: int = 20_000
    frequent: int = 4_000
    per_row: int = 50

    def draw(self, seed: int) -> tuple[sp.csr_array, NDArray[np.float64], NDArray[np.int64]]:
        """Return rows, target and the true words."""
        rng = np.random.default_rng(seed)
        shares = np.cumsum(1 / np.arange(1, self.words + 1))
        words = np.searchsorted(shares / shares[-1], rng.random(self.rows * self.per_row))
        cells = np.unique(
            np.repeat(np.arange(self.rows), self.per_row) * self.words + words
        )  # a word counts once a row
        X = sp.csr_array(
            (np.ones(len(cells), np.float32), (cells // self.words, cells % self.words)), (self.rows, self.words)
        )
        true = rng.choice(self.frequent, self.true, replace=False)
        effects = np.zeros(self.words)
        effects[true] = rng.choice([-1.0, 1.0], self.true) * rng.uniform(0.5, 1.5, self.true)
        score = X @ effects
        score -= score.mean()
        ids = rng.permutation(self.words)  # so that ids say nothing of frequencies
        X = X[:, np.argsort(ids)]
        if self.target == "numbers":
            return X, score + 3 * rng.standard_normal(self.rows), ids[true]
        return X, (rng.random(self.rows) < 1 / (1 + np.exp(-score))).astype(float), ids[true]


PROBLEMS = {
    "two classes, 100,000 rows": Problem(),
    "two classes, 60,000 rows": Problem(rows=60_000),
    "the same with 4,096 cells": Problem(rows=60_000, width=2**11),
    "a number with noise, 60,000 rows": Problem(rows=60_000, target="numbers"),
    "nothing there, 60,000 rows": Problem(rows=60_000, true=0),
}


def judge(name: str, problem: Problem, k: int, seed: int) -> Record:
    """Select from one draw of a problem, and count what is false and what is found."""
    X, y, true = problem.draw(seed)
    algorithm = daskfs.Mission(k, width=problem.width, error_control="halves", refit=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        selection = daskfs.select(X, algorithm, y, seed=seed)
    features, numbers = selection.features.astype(int), selection.statistics
    reported, allowed = features[numbers["q_value"] <= LEVEL], features[numbers["expected_false"] <= MOST_FALSE]
    return {
        "method": name,
        "k": k,
        "seed": seed,
        "false discovery rate": len(np.setdiff1d(reported, true)) / max(len(reported), 1),
        "found": len(np.intersect1d(reported, true)) / max(len(true), 1),
        "anything": float(len(reported) > 0),
        "false where 2 allowed": len(np.setdiff1d(allowed, true)),
    }


def records(names: Sequence[str], searched: Sequence[int], seeds: int | None, quick: bool) -> list[Record]:
    """Return a record for every problem, number of features and seed."""
    counts = {name: seeds or (1 if quick else PROBLEMS[name].seeds) for name in names}
    return [judge(name, PROBLEMS[name], k, seed) for name in names for k in searched for seed in range(counts[name])]


Means = dict[str, dict[str, dict[str, float]]]


def means_of(found: Sequence[Record]) -> Means:
    """Return the number of seeds and the means of all metrics, for every problem and number of features searched."""
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in found:
        groups.setdefault((record["method"], record["k"]), []).append(record)
    means: Means = {}
    for (name, k), of in groups.items():
        values = {metric: round(float(np.mean([record[metric] for record in of])), 4) for metric in METRICS}
        means.setdefault(name, {})[str(k)] = {"seeds": len(of), **values}
    return means


def table_of(means: Means) -> str:
    """Return the table of the docs, in Markdown."""
    lines = [HEAD, "|---|---|---|---|---|\n"]
    for name, of in means.items():
        seeds = sorted({round(values["seeds"]) for values in of.values()})
        cells = [_cell(name, of.get(str(k))) for k in SEARCHED]
        lines.append(f"| {name} | {' to '.join(map(str, seeds))} | {' | '.join(cells)} |\n")
    return "".join(lines)


def _cell(name: str, values: dict[str, float] | None) -> str:
    if values is None:
        return ""
    if not PROBLEMS[name].true:
        return f"reported in {values['anything']:.2f} of the runs"
    return f"{values['false discovery rate']:.3f} / {values['found']:.2f}"


def write_docs(found: Sequence[Record]) -> None:
    """Replace what was measured before of the same problems, and the table of the docs."""
    known = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    for name, of in means_of(found).items():
        known[name] = known.get(name, {}) | of
    means = {name: known[name] for name in PROBLEMS if name in known}
    FIGURES.write_text(json.dumps(means, indent=1) + "\n", "utf-8")
    replace_table(DOCS / "error-control.md", HEAD, table_of(means))


@click.command()
@click.option("--only", multiple=True, type=click.Choice(list(PROBLEMS)), help="Some of the problems.")
@click.option("-k", "searched", multiple=True, type=click.IntRange(1), help="How many features to search.")
@click.option("--seeds", type=click.IntRange(1), help="Of each problem.")
@click.option("--quick", is_flag=True, help="One seed.")
@click.option("--json", "as_json", is_flag=True, help="Every run, for machines.")
@click.option("--docs", is_flag=True, help="Write the table of the docs, too.")
def main(
    only: Sequence[str], searched: Sequence[int], seeds: int | None, quick: bool, as_json: bool, docs: bool
) -> None:
    """Print the false discovery rate and the share of true features found, for every problem."""
    found = records(only or list(PROBLEMS), searched or SEARCHED, seeds, quick)
    report("error control of MISSION", found, "k", METRICS, as_json)
    if docs:
        write_docs(found)


if __name__ == "__main__":
    main()
