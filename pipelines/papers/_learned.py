"""MISSION and its baselines on a real task: what each learns with k features and a sketch of some width.

The learning rate of each method but the default is the best of `_contenders.RATES` with the fewest features, by the
loss of rows before they are learned.

Feature hashing selects nothing, and scores rows with the weight of every cell: its memory is that of its cells, however
many features there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from _contenders import best_rate, selected
from _real import Scores, Task
from _report import Record

import daskfs
from daskfs.algorithms.mission.state import rule_of

METHODS: dict[str, dict[str, Any]] = {
    "FH": {"method": "hashing"},
    "IHT": {"method": "iht"},
    "Batch IHT": {"method": "batch-iht"},
    "MISSION, paper": {"method": "paper"},
    "MISSION, active": {"refit": 0},
}
PER_CLASS: dict[str, dict[str, Any]] = {
    f"{name}, per class": METHODS[name] | {"per_class": True} for name in ("MISSION, paper", "MISSION, active")
}
"""With k features of its own for every class, as in the paper; the others have k features for all classes."""
DEPTH = 3  # rows of the published sketch; FH and batch IHT have as many numbers as all of them


def learned(task: Task, name: str, k: int, width: int, tuned_with: int | None = None) -> list[Record]:
    """The scores of a method on every test of a task."""
    fields = (METHODS | PER_CLASS)[name]
    options = fields | {"n_select": k, "width": width_of(name, width), "passes": task.passes}
    if "method" in fields:
        options["learning_rate"] = _rate(task, name, min(k, tuned_with or k), width)
    start = time.process_time()
    if name == "FH":
        scores_of = hashed(task, daskfs.Mission(**options | {"n_select": 1}))
    else:
        scores_of = selected(task, daskfs.Mission(**options)).decision_function
    seconds = time.process_time() - start
    scores = {what: task.judge(task, test, scores_of(test)) for what, test in task.tests.items()}
    return [{"method": name, "k": k, **scores, "cpu seconds": seconds}]


def hashed(task: Task, algorithm: daskfs.Mission) -> Callable[[daskfs.Dataset], Scores]:
    """Learn by feature hashing, and return what scores rows with the weights of all cells, none of them selected."""
    meta = task.train.meta
    algorithm = algorithm.resolve(meta)
    state, go_on = algorithm.start(meta, seed=0), True
    while go_on:
        for block in task.train.blocks():
            state = algorithm.update(state, block)
        state, go_on = algorithm.end_pass(state)
    bias = state.memory.bias * rule_of(algorithm, state.room, state.calibration).bias_value
    weights = state.memory.sketch.reshape(algorithm.width, len(bias))

    def scores(test: daskfs.Dataset) -> Scores:
        found = np.concatenate([bias + signed_cells(block, algorithm.width) @ weights for block in test.blocks()])
        return found[:, 0] if len(bias) == 1 else found

    return scores


def signed_cells(block: Any, width: int) -> scipy.sparse.csr_array:
    """The rows of a block with a column for every cell: values of features times the signs of their cells."""
    h = block.ids.copy()
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):  # MurmurHash3
        h = (h ^ (h >> np.uint64(33))) * np.uint64(factor)
    h ^= h >> np.uint64(33)
    cells, signs = h >> np.uint64(65 - width.bit_length()), 1 - 2 * (h & np.uint64(1)).astype(np.float32)
    return scipy.sparse.csr_array(
        (block.values * signs, cells.astype(np.int64), block.indptr), shape=(len(block.indptr) - 1, width)
    )


def width_of(name: str, width: int) -> int:
    """The width with which a method has as many numbers as a sketch of `DEPTH` rows; FH has a power of two.

    Batch IHT adds up gradients for `DEPTH` · width features between two thresholds, and so needs no other width.
    """
    return width * (1 << (DEPTH - 1).bit_length()) if name == "FH" else width


def over_k(task: Task, names: Sequence[str], ks: Sequence[int], width: int) -> list[Record]:
    """Every method with every number of features; feature hashing, which selects none, is the same for all."""
    records = [record for name in names if name != "FH" for k in ks for record in learned(task, name, k, width, ks[0])]
    hashed = learned(task, "FH", ks[0], width) if "FH" in names else []
    return [*records, *(record | {"k": k} for record in hashed for k in ks)]


def _rate(task: Task, name: str, k: int, width: int) -> float:
    key = (task.train.url, name, k, width)
    if key not in _RATES:
        _RATES[key] = best_rate(
            task, (METHODS | PER_CLASS)[name] | {"n_select": k, "width": width_of(name, width), "passes": 1}
        )
    return _RATES[key]


_RATES: dict[tuple[str, str, int, int], float] = {}
