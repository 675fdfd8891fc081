"""MISSION: the top k of billions of features, from a sketch.

A. Aghazadeh, R. Spring, D. LeJeune, G. Dasarathy, A. Shrivastava, R. Baraniuk: *MISSION: Ultra Large-Scale Feature
Selection using Count-Sketches*, ICML 2018.

Rows stream by. Each is scored with the k largest weights; the gradient of its loss goes into a count-sketch for *all*
its features, so that what many rows agree on grows above the noise, however rare it is in each; the largest are read
back. Memory is the sketch and the table of the largest, whatever the number of features and rows.

============= ================================================== =====================================================
method        where weights are                                   steps
============= ================================================== =====================================================
``active``    of the largest: exact, in a table and out of the    smaller for what has been seen often; no overshooting
              sketch; of all others: in the sketch
``paper``     all in the sketch; a table remembers the largest    plain, as published
``hashing``   all in one row of cells, all of them count          plain: feature hashing, the baseline
``iht``       of the largest after every row; nothing else        plain: iterative hard thresholding, the baseline
``batch-iht`` the same, after as many features as the sketch has  plain
              cells
============= ================================================== =====================================================
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss import RowLoss, check_target, labels_told_apart, positive_target
from daskfs.algorithms.mission_learn import learn, only_selected
from daskfs.algorithms.mission_memory import Pace, Shape, rule_of
from daskfs.algorithms.mission_merge import merged_memories
from daskfs.algorithms.mission_pace import RATES, SIGHTINGS, measured, pace_of, raced, rate_of
from daskfs.algorithms.mission_result import HISTORY, result_of
from daskfs.algorithms.mission_rows import first_not_finite, numbers_of, rows_of
from daskfs.algorithms.sketch_kernels import MAX_DEPTH
from daskfs.errors import OptionError, RowError, check_choice, check_positive, check_whole
from daskfs.protocol import Axis, Block, Meta, Result, RowBlock, Schedule, SparseBlock, State, copied

Method = Literal["active", "paper", "hashing", "iht", "batch-iht"]
_MAX_BITS = 32


@dataclass(frozen=True)
class Mission:
    """Choose `n_select` features for a linear model from rows of any number of features.

    Parameters
    ----------
    n_select
        How many features to choose.
    loss
        "logistic" or "squared_hinge" for two classes, "softmax" for more, "squared" for numbers or two classes.
    passes
        How many times to read the data.
    width
        Cells in a row of the sketch, a power of two.
    depth
        Rows of the sketch, an odd number.
    learning_rate
        Of steps, for rows of unit norm: the norm of the rows there are is measured. "auto" tries several on the
        first rows.
    method
        "active", the default and the best; "paper", as published; "hashing", "iht" and "batch-iht", its baselines.
    per_class
        With softmax, choose `n_select` features for every class, as published, and not for all classes together.
    intercept
        Whether to fit a constant.
    sightings
        Of "active": after so many of a feature, steps for it begin to get smaller.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 300)) * (rng.random((2000, 300)) < 0.1)
    >>> daskfs.write_dataset("rows.zarr", X, X[:, 7] - 2 * X[:, 200] > 0, layout="rows")
    >>> daskfs.select("rows.zarr", daskfs.Mission(2, width=2**10)).features
    array([200,   7], dtype=uint64)
    """

    n_select: int
    loss: RowLoss = "logistic"
    passes: int = 1
    width: int = 2**18
    depth: int = 3
    learning_rate: float | Literal["auto"] = "auto"
    method: Method = "active"
    per_class: bool = False
    intercept: bool = True
    sightings: float = SIGHTINGS

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, RowLoss)
        check_choice("method", self.method, Method)
        for name in ("n_select", "passes", "width", "depth"):
            check_whole(name, getattr(self, name), 1)
        if self.width.bit_count() != 1 or not 2 <= self.width <= 1 << _MAX_BITS:
            raise OptionError(f"width={self.width}: must be a power of two, from 2 to 2**{_MAX_BITS}")
        if self.depth % 2 != 1 or not 1 <= self.depth <= MAX_DEPTH:
            raise OptionError(f"depth={self.depth}: must be an odd number from 1 to {MAX_DEPTH}")
        if self.learning_rate != "auto":
            check_positive("learning_rate", self.learning_rate, " or 'auto'")
        check_positive("sightings", self.sightings)
        if self.per_class and self.loss != "softmax":
            raise OptionError("per_class: only loss='softmax' has weights for every class")

    @property
    def axis(self) -> Axis:
        return "rows"

    @property
    def schedule(self) -> Schedule:
        return "chain" if self.method in ("iht", "batch-iht") else "rounds"

    def start(self, meta: Meta, seed: int) -> State:
        check_target(self.loss, meta)
        shape = Shape.of(self, self._n_scores(meta))
        several = shape.n_scores > 1
        return {
            **shape.empty(),
            "tally_before": np.zeros(3),  # the last merge; the tally is this lane's since then
            "merged_lanes": 1,  # how many this state was merged from, until it learns again
            "labels": numbers_of(meta) if several else np.empty(0),
            "classes": json.dumps(meta.classes) if several else labels_told_apart(meta),
            "positive": positive_target(meta),
            "lanes": meta.lanes,
            "size": np.full(2, np.nan),  # of rows and of values, once some have been seen
            "race": np.zeros(len(RATES)),
            "passes": 0,
            "history": np.full((self.passes, len(HISTORY)), np.nan),
        }

    def update(self, state: State, block: Block) -> State:
        if not isinstance(block, RowBlock | SparseBlock):
            raise OptionError("MISSION reads rows: write dense data with layout='rows' or 'both'")
        if state["merged_lanes"] > 1:
            state["tally_before"] += state["tally"]
            state["tally"][:], state["merged_lanes"] = 0.0, 1
        rows = rows_of(block, state)
        shape = Shape.of(self, len(state["bias"]))
        if np.isnan(state["size"]).any():
            state["size"][:] = measured(rows)
            state["race"] = raced(self, shape, state["size"], rows)
        learned = learn(self, shape, self._pace(state), state, rows, state["lanes"])
        if learned < len(rows.y):
            feature = first_not_finite(rows, learned)
            raise RowError(block.first + learned, feature, "not finite; write the data again without it")
        return state

    def merge(self, states: Sequence[State]) -> State:
        shape = Shape.of(self, len(states[0]["bias"]))
        begun = [state for state in states if not np.isnan(state["size"]).any()] or [states[0]]
        merged = copied(begun[0])
        if len(begun) > 1:
            merged["size"] = np.mean([state["size"] for state in begun], axis=0)
            merged["race"] = np.sum([state["race"] for state in begun], axis=0)
            rule = rule_of(self, shape, self._pace(merged))
            merged.update(merged_memories(shape, rule, begun, self.method == "active"))
        return merged

    def end_pass(self, state: State) -> tuple[State, bool]:
        loss, weight, rows = state["tally"] + state["tally_before"]
        rate = rate_of(self, state["race"])
        state["history"][state["passes"]] = loss / weight if weight else 0.0, rows, rate
        state["tally"][:], state["tally_before"][:], state["merged_lanes"] = 0.0, 0.0, 1
        state["passes"] += 1
        return state, state["passes"] < self.passes

    def revisit(self, state: State) -> NDArray[np.uint64]:
        return np.empty(0, np.uint64)

    def result(self, state: State) -> Result:
        shape = Shape.of(self, len(state["bias"]))
        return result_of(only_selected(self, shape, state), self._pace(state).bias_value)

    def nbytes(self, meta: Meta) -> int:
        shape = Shape.of(self, self._n_scores(meta))
        races = self.learning_rate == "auto" and self.method == "active"
        return shape.nbytes * (1 + races)

    def _n_scores(self, meta: Meta) -> int:
        return len(meta.classes or ()) if self.loss == "softmax" else 1

    def _pace(self, state: State) -> Pace:
        return pace_of(self, rate_of(self, state["race"]), state["size"])
