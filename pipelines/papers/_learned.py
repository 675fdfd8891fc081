"""MISSION and its baselines on a real task: what each learns with k features and a sketch of some width.

The learning rate of each method but the default is the best of `_contenders.RATES` with the fewest features, by the
loss of rows before they are learned.

IHT touches all k weights of every class after every row. Where that is more than `IHT_MOST` numbers, some ten minutes,
IHT is left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from _contenders import best_rate, selected
from _real import Task
from _report import Record

import daskfs

METHODS: dict[str, dict[str, Any]] = {
    "FH": {"method": "hashing"},
    "IHT": {"method": "iht"},
    "Batch IHT": {"method": "batch-iht"},
    "MISSION, paper": {"method": "paper"},
    "MISSION, active": {"refit": 0},
}
IHT_MOST = 10**11
PER_CLASS: dict[str, dict[str, Any]] = {
    f"{name}, per class": METHODS[name] | {"per_class": True} for name in ("MISSION, paper", "MISSION, active")
}
"""With k features of its own for every class, as in the paper; the others have k features for all classes."""
DEPTH = 3  # rows of the published sketch; FH and batch IHT have as many numbers as all of them


def learned(task: Task, name: str, k: int, width: int, tuned_with: int | None = None) -> list[Record]:
    """The scores of a method on every test of a task, or no record where IHT would take too long."""
    fields = (METHODS | PER_CLASS)[name]
    if name == "IHT" and task.train.n_samples * k * task.n_scores > IHT_MOST:
        return []
    options = fields | {"n_select": k, "width": width_of(name, width), "passes": task.passes}
    if "method" in fields:
        options["learning_rate"] = _rate(task, name, min(k, tuned_with or k), width)
    start = time.process_time()
    selection = selected(task, daskfs.Mission(**options))
    seconds = time.process_time() - start
    if name == "FH":  # it learns the same whatever is selected; to be judged, it needs all features that can occur
        options["n_select"] = min(task.train.meta.n_features, task.train.meta.n_entries)
        selection = selected(task, daskfs.Mission(**options))
    scores = {what: task.judge(task, test, selection.decision_function(test)) for what, test in task.tests.items()}
    return [{"method": name, "k": k, **scores, "cpu seconds": seconds}]


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
