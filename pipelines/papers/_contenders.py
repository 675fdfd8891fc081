"""MISSION, its methods and its baselines as users call them, each with the widest sketch that fits into a budget.

Memory is what has to be kept, by formula: 4 bytes for a number, 8 for the id of a feature. A table holds its ids, a
weight for every class, and for "active" the sum that decides on the steps and the unit of values; a sketch has a number
for every cell and class; a cell of "active", of which there are twice the width, has a number for every class and the
sum; idf has two rows of counts. Room that a table has to spare while rows stream by is not counted, nor are blocks, nor
the units of other features, which data of zeros and ones do not need.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from _real import Scores, Task

import daskfs
from daskfs.algorithms.mission.rows import count_cells

NUMBER, ID = 4, 8  # bytes
DEPTH = 3
IHT_ROW = 4096  # entries of a row, which IHT has room for beside its weights, and twice as many sizes with their ids
RATES = (0.5, 2.0, 8.0, 32.0)  # for methods that have no race of their own


class Setting(NamedTuple):
    """How many features to choose, in how many bytes."""

    n_select: int
    budget: int

    def __str__(self) -> str:
        return f"{self.n_select:,} in {self.budget / 2**20:.3g} MiB"


@dataclass(frozen=True)
class Model:
    """What a contender has learned, and the bytes it keeps for that."""

    scores: Callable[[daskfs.Dataset], Scores]
    nbytes: int


Contender = Callable[[Task, Setting], Model | None]
"""None where it cannot take part: the budget is too small for it, or it is not there."""

MISSION: dict[str, dict[str, Any]] = {
    "hashing": {"method": "hashing"},
    "IHT": {"method": "iht"},
    "MISSION, paper": {"method": "paper"},
    "MISSION, active": {},
    "MISSION, active + refit": {"refit": 2},
    "MISSION, active + idf + refit": {"refit": 2, "idf": True},
}
"""Fields of `daskfs.Mission`; a line whose fields it does not know is left out."""


def mission(**fields: Any) -> Contender:
    """`daskfs.Mission` with some fields; of methods that do not race for a rate the best of `RATES` is taken."""

    def learned(task: Task, setting: Setting) -> Model | None:
        width = _widest(task, setting, fields)
        if width is None or not fields.keys() <= daskfs.Mission.__dataclass_fields__.keys():
            return None
        count = task.train.meta.n_features if fields.get("method") == "hashing" else setting.n_select
        loss = "logistic" if task.n_scores == 1 else "softmax"
        chosen = fields | {"n_select": count, "loss": loss, "width": width, "depth": DEPTH, "passes": task.passes}
        if "method" in fields:
            chosen["learning_rate"] = best_rate(task, chosen | {"n_select": setting.n_select, "passes": 1})
        selection = selected(task, daskfs.Mission(**chosen))
        return Model(selection.decision_function, kept_bytes(task.n_scores, setting.n_select, width, fields))

    return learned


def kept_bytes(n_scores: int, n_select: int, width: int, fields: dict[str, Any]) -> int:
    """What a method keeps.

    >>> kept_bytes(1, 10_000, 2**14, {}) == 2 * 2**14 * (4 + 4) + 10_000 * (8 + 4 + 4 + 4)
    True
    >>> kept_bytes(20, 10_000, 2**14, {}) == 2 * 2**14 * (20 * 4 + 4) + 10_000 * (8 + 20 * 4 + 4 + 4)
    True
    """
    method, vector = fields.get("method", "active"), NUMBER * n_scores
    if method == "hashing":
        return width * vector
    if method == "iht":
        return (n_select + IHT_ROW) * (ID + vector + 2 * (ID + NUMBER))
    counts = 2 * NUMBER * count_cells(width) if fields.get("idf") else 0
    is_active = method == "active"
    sketch, pace = width * (2 * (vector + NUMBER) if is_active else DEPTH * vector) + counts, 2 * NUMBER * is_active
    if fields.get("per_class"):
        return sketch + n_scores * n_select * (ID + NUMBER + pace)
    return sketch + n_select * (ID + vector + pace)


def _widest(task: Task, setting: Setting, fields: dict[str, Any]) -> int | None:
    """The largest power of two that fits into the budget; IHT, which has no sketch, takes what its rows take."""
    if fields.get("method") == "iht":
        return 2
    fitting = [
        width
        for width in (1 << bits for bits in range(1, 33))
        if kept_bytes(task.n_scores, setting.n_select, width, fields) <= setting.budget
    ]
    return max(fitting, default=None)


def best_rate(task: Task, chosen: dict[str, Any]) -> float:
    """The rate with which rows cost least before they are learned, in one pass."""
    costs = [_cost(task, daskfs.Mission(**chosen, learning_rate=rate)) for rate in RATES]
    return RATES[int(np.argmin(costs))]


def _cost(task: Task, algorithm: daskfs.Mission) -> float:
    return float(selected(task, algorithm).history["objective"][-1])


def selected(task: Task, algorithm: daskfs.Mission) -> daskfs.Selection:
    """A selection, of all features there are where a contender asks for more."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*asked for: the data have no more")
        return daskfs.select(task.train, algorithm)
