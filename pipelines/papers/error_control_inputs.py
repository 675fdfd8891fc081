"""Why Sparse Random Features have no error control: inputs that matter not, beside copies of inputs with permuted rows.

Simulated rows with 30 inputs, of which 5 make up a number by waves, squares and a product. A copy of every input stands
beside them, whose rows were permuted, all copies alike. If an input that matters not were as important as a copy, one
that is more important than all copies would be 25/31 = 0.8 of 25, and half of the copies would be above it on average.
``--docs`` writes the table of docs/error-control.md, and what it is made of beside it. All seeds take some minutes.

    python pipelines/papers/error_control_inputs.py --seeds 2
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence

import click
import numpy as np
from _docs_table import DOCS, replace_table
from _report import Record, report
from numpy.typing import NDArray

import daskfs

ROWS, INPUTS, TRUE = 1000, 30, 5
NOISE = 0.5
CORRELATIONS = {"nothing there": 0.0, "independent inputs": 0.0, "neighbours 0.7": 0.7}
METRICS = ("false above all copies", "copies above a false one", "true above all copies")
FIGURES = DOCS / "error-control-inputs.json"
HEAD = "| inputs | seeds | false ones above all copies | share of copies above a false one | true ones above all |\n"


def draw(name: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return inputs, a target, and which of the inputs are behind it."""
    rng, correlation = np.random.default_rng(seed), CORRELATIONS[name]
    X = rng.standard_normal((ROWS, INPUTS))
    for j in range(1, INPUTS):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1 - correlation**2) * X[:, j]
    true = rng.choice(INPUTS, TRUE, replace=False)
    wave, square, left, right, line = X[:, true].T
    signal = np.sin(2 * wave) + square**2 / 1.5 + left * right + line
    if name == "nothing there":
        return X, rng.standard_normal(ROWS), true[:0]
    return X, signal / signal.std() + NOISE * rng.standard_normal(ROWS), true


def judge(name: str, seed: int) -> Record:
    """Compare the importance of inputs with that of their copies."""
    X, y, true = draw(name, seed)
    copies = X[np.random.default_rng([seed, 1]).permutation(ROWS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        both = np.hstack([X, copies]).astype(np.float32)
        selection = daskfs.select(both, daskfs.SparseRandomFeatures(), y, seed=seed)
    assert selection.inputs is not None
    importance = selection.inputs.expansion.importance
    of_inputs, of_copies = importance[:INPUTS], importance[INPUTS:]
    of_false = np.delete(of_inputs, true)
    above = (of_copies > of_false[:, None]).mean(axis=1) + (of_copies == of_false[:, None]).mean(axis=1) / 2
    return {
        "method": name,
        "inputs": INPUTS,
        "seed": seed,
        "false above all copies": int((of_false > of_copies.max()).sum()),
        "copies above a false one": float(above.mean()),
        "true above all copies": int((of_inputs[true] > of_copies.max()).sum()),
    }


def means_of(runs: Sequence[Record]) -> dict[str, dict[str, float]]:
    """Return the number of seeds and the means of all metrics for every kind of inputs."""
    means = {}
    for name in CORRELATIONS:
        of = [record for record in runs if record["method"] == name]
        means[name] = {"seeds": len(of), **{key: round(float(np.mean([r[key] for r in of])), 4) for key in METRICS}}
    return means


def table_of(means: dict[str, dict[str, float]]) -> str:
    """Return the table of the docs, in Markdown."""
    lines = [HEAD, "|---|---|---|---|---|\n"]
    for name, of in means.items():
        false, place, true = (of[metric] for metric in METRICS)
        n = 0 if name == "nothing there" else TRUE
        lines.append(f"| {name} | {of['seeds']} | {false:.1f} of {INPUTS - n} | {place:.2f} | {true:.1f} of {n} |\n")
    return "".join(lines)


@click.command()
@click.option("--seeds", default=20, type=click.IntRange(1), help="Of each kind of inputs.")
@click.option("--json", "as_json", is_flag=True, help="Every run, for machines.")
@click.option("--docs", is_flag=True, help="Write the table of the docs, too.")
def main(seeds: int, as_json: bool, docs: bool) -> None:
    """Print how inputs that matter not compare with copies whose rows were permuted."""
    runs = [judge(name, seed) for name in CORRELATIONS for seed in range(seeds)]
    report("inputs of Sparse Random Features", runs, "inputs", METRICS, as_json)
    if docs:
        means = means_of(runs)
        FIGURES.write_text(json.dumps(means, indent=1) + "\n", "utf-8")
        replace_table(DOCS / "error-control.md", HEAD, table_of(means))


if __name__ == "__main__":
    main()
