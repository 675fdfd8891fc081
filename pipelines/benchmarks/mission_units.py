"""MISSION: what it costs, in time and in quality, not to depend on the units of features.

    python pipelines/benchmarks/mission_units.py [--seeds 5] [--json docs/mission-speed.json]

Rows are those of `datasets/rcv1_like.py`: rows of unit norm, so that the value of a word differs from row to row. They
are learned as they are, and with every word in a unit of its own, 10^-3 to 10^3, with `scale` and without. A run is one
pass without a refit, from blocks in memory; AUC is that of its own weights, recall that of the planted features.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from _measure import save, show
from mission import K, Rows, in_memory, joined, json_option, rows_of, work_option
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import daskfs
from daskfs.protocol import SparseBlock

WIDTHS = 2**14, 2**18, 2**22


def in_units(blocks: list[SparseBlock]) -> list[SparseBlock]:
    """The same rows, with every feature in a unit of its own."""
    return [SparseBlock(b.first, b.indptr, b.ids, b.values * units_of(b.ids), b.y) for b in blocks]


def units_of(ids: NDArray[np.uint64]) -> NDArray[np.float32]:
    shares = (ids * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(40)).astype(np.float64) / 2**24
    return (10 ** (6 * shares - 3)).astype(np.float32)


def learned(rows: Rows, train: list[SparseBlock], test: list[SparseBlock], **fields: Any) -> list[float]:
    """The learning rate, AUC, recall, and CPU ns an entry."""
    algorithm = daskfs.Mission(K, refit=0, **fields)
    started, state = time.process_time(), algorithm.start(rows.train.meta, 0)
    for block in train:
        state = algorithm.update(state, block)
    seconds = time.process_time() - started
    result = algorithm.result(algorithm.end_pass(state)[0])
    order = np.argsort(result.features)
    indptr, ids, values, y = joined(test)
    at = np.minimum(np.searchsorted(result.features[order], ids), len(order) - 1)
    weights = np.where(result.features[order][at] == ids, result.weights[order][at], 0.0)
    scores = np.add.reduceat(np.append(weights * values, 0.0), indptr[:-1])
    recall = len(rows.truth & set(result.features.tolist())) / len(rows.truth)
    entries = sum(len(block.ids) for block in train)
    return [result.history[0]["rate"], float(roc_auc_score(y > 0, scores)), recall, seconds / entries * 1e9]


@click.command(context_settings={"show_default": True})
@work_option
@click.option("--rows", "count", default=100_000)
@click.option("--seeds", "n_seeds", default=5)
@json_option
def main(work: Path, count: int, n_seeds: int, path: Path | None) -> None:
    """Print a line for each width, with and without scaling, for rows as they are and in other units."""
    found: dict[tuple[int, str, bool], list[list[float]]] = {}
    for seed in range(n_seeds):
        rows = rows_of(work, count, seed)
        train, test = in_memory(rows.train), in_memory(rows.test)
        for units, (own, judges) in {
            "as they are": (train, test),
            "own units": (in_units(train), in_units(test)),
        }.items():
            for width in WIDTHS:
                for scale in (True, False):
                    line = learned(rows, own, judges, width=width, scale=scale)
                    found.setdefault((width, units, scale), []).append(line)
    lines, figures = [], {}
    for (width, units, scale), of_seeds in found.items():
        rate, auc, recall, _ = np.mean(of_seeds, axis=0)
        cost = min(line[-1] for line in of_seeds)
        name = f"width {width}, {units}, scale={scale}"
        lines.append([name, f"{rate:.1f}", f"{auc:.4f}", f"{recall:.4f}", f"{cost:.1f}"])
        figures[name] = {"auc": round(auc, 4), "recall": round(recall, 4), "ns_an_entry": round(cost, 1)}
    save(path, f"mission_units.py --rows {count} --seeds {n_seeds}", figures)
    show(f"{count:,} rows, one pass, {n_seeds} seeds", ["", "rate", "AUC", "recall", "ns an entry, best"], lines)


if __name__ == "__main__":
    main()
