"""The state of MISSION, the sizes of its arrays, the parameters of its kernels, and the result of a state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.keep import kept_features
from daskfs.algorithms.losses import CODE, decode_classes
from daskfs.algorithms.mission.calibration import FEW_ROWS, FIRST_ENTRIES, NEUTRAL, Calibration, race_width, rate_of
from daskfs.algorithms.mission.cell_kernels import mark_tables
from daskfs.algorithms.mission.common import most_common
from daskfs.algorithms.mission.halves import N_LEARNERS, POOL, HalvesState
from daskfs.algorithms.mission.memory_kernels import COUNT, SUM, UNIT, Memory, Rule, SparseRows
from daskfs.algorithms.mission.refit import RefitState, refit_nbytes
from daskfs.algorithms.mission.rows import (
    NameSpaces,
    RowCounts,
    count_cells,
    factors_of,
    interactions_nbytes,
    parents_of,
)
from daskfs.algorithms.mission.scaling import Scaling, scaling_nbytes
from daskfs.algorithms.mission.table_kernels import find_ids, insert_ids
from daskfs.protocol import NO_PARENT, Meta, Preview, Result

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

HISTORY = ("objective", "rows", "rate", "held_back_loss", "refitted")
"""Columns of the history. Every pass has the mean loss of rows before they were learned, the number of rows, and the
learning rate for rows of unit norm. The last refit has the loss of the final weights on the held-back rows, and whether
these weights are new."""
_SLACK = 1.5  # a table holds up to this many times the features it keeps, so that it is pruned only now and then
_MIN_SLACK = 4
_MIN_ROW = 256  # entries of a row that "iht" has room for at first


@dataclass(slots=True)
class MissionState:
    """The state of MISSION between blocks: learned memory, history, and data of the current pass."""

    memory: Memory
    room: int
    """The number of features at which a table is pruned."""
    classes: str
    """The classes that scores tell apart, in JSON; empty for a real target."""
    labels: NDArray[np.float64]
    """For softmax, the ascending values that stand for the classes in blocks; empty for other losses."""
    positive: float
    """The value that stands for the second of two classes in blocks; NaN where there are not two classes."""
    n_samples: int
    n_shards: int
    seed: int
    held_back: float
    """The share of rows that are held back for the refit."""
    fits_at_once: bool
    """Whether the refit keeps all rows in memory, so that no rows are held back."""
    keep: NDArray[np.uint64]
    """Ids of the features to keep, in the order in which they were named."""
    history: NDArray[np.float64]
    """(passes, columns): a row for every pass, with the columns in `HISTORY`."""
    passes: int = 0
    """The number of finished passes."""
    totals_before: NDArray[np.float64] = field(default_factory=lambda: np.zeros(6))
    """The totals of this pass up to the last merge; `memory.totals` has this shard's totals since the merge."""
    merged_shards: int = 1
    """The number of shards that this state was merged from; 1 as soon as the state learns again."""
    buffer: SparseRows | None = None
    """The first rows, until there are enough rows to calibrate the step size."""
    buffer_start: int = 0
    """The number of the first row in the buffer."""
    mixes: bool = False
    """Whether all rows are put into the buffer in every pass, and learned in random order, since they are not mixed."""
    calibration: Calibration | None = None
    """The step size estimated from the first rows; None before these rows are learned."""
    remark: str = ""
    """A remark for users on the data."""
    counts: RowCounts | None = None
    """Counts of the rows of each feature, only in the pass that counts for `idf`."""
    idf: NDArray[np.float32] | None = None
    """(2, cells): idf factors of features, after the pass that counts."""
    scaling: Scaling | None = None
    """Moments of numeric features in the first rows; None before these rows are learned, and without scaling."""
    target_unit: float = 1.0
    """The standard deviation of a real target in the first rows, by which targets are divided."""
    name_spaces: NameSpaces | None = None
    """Tables of name spaces; None without interactions."""
    common: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    """Common features in the first rows, ascending: see `mission.common`."""
    common_units: NDArray[np.float32] = field(default_factory=lambda: np.empty(0, np.float32))
    """The units of the common features, by which their values are multiplied in a table."""
    refit: RefitState | None = None
    """The state of the refit; None before the passes that refit."""
    halves: HalvesState | None = None
    """Learners of halves of the rows; None without error control."""
    slopes: NDArray[np.float64] | None = None
    """(T, capacity, V): `RefitState.slopes` of the weights in the tables; None before the refit has ended."""


def count_scores(params: Mission, meta: Meta) -> int:
    """Return the number of scores of a row: one, or with softmax one for each class."""
    return len(meta.classes or ()) if params.row_loss == "softmax" else 1


def has_sketch(params: Mission) -> bool:
    """Return whether the method uses a sketch, which "iht" and "batch-iht" do not."""
    return params.method not in ("iht", "batch-iht")


def is_scaled(params: Mission) -> bool:
    """Return whether values are scaled, which the paper's methods do not do."""
    return params.scale and params.method == "active"


def room_of(params: Mission, n_kept: int, longest_row: int = 0) -> int:
    """Return the number of features at which a table is pruned, which without a sketch has room for a whole row."""
    if has_sketch(params):
        return int(_SLACK * params.n_select) + _MIN_SLACK + n_kept
    cells = params.depth * params.width if params.method == "batch-iht" else 0
    return params.n_select + n_kept + max(_MIN_ROW, longest_row, cells)


def count_slots(features: int) -> int:
    """Return the number of slots of a table for `features` features: a power of two, at most half of it in use."""
    return 1 << (2 * features - 1).bit_length()


def _arrays(params: Mission, n_scores: int, room: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return shape and type of every array of the memory."""
    tables, slots = n_scores if params.per_class else 1, count_slots(room)
    vector, is_active = n_scores // tables, params.method == "active"
    if params.method in ("active", "iht"):
        sketch = 0
    elif has_sketch(params):
        sketch = (1 if params.method == "hashing" else params.depth) * params.width * n_scores
    else:
        sketch = tables * slots * vector
    return {
        "sketch": ((sketch,), np.float32),
        "cells": (((n_scores + 1) << _cell_bits(params) if is_active else 0,), np.float32),
        "keys": ((tables, slots), np.uint64),
        "weights": ((tables, slots, vector), np.float32),
        "pace": ((tables, slots, 2), np.float32),
        "parents": ((tables, 0 if params.interactions is None else slots, 2), np.uint64),
        "kept": ((0,), np.uint64),
        "status": ((tables, 2), np.float64),
        "bias": ((n_scores,), np.float32),
        "bias_sum": ((1,), np.float32),
        "totals": ((6,), np.float64),
    }


def _cell_bits(params: Mission) -> int:
    """Return b for the 2^b cells of method "active".

    The cells take at most the memory of a sketch of depth 3 and of this width, with another row for sums.
    """
    return params.width.bit_length()


def empty_memory(params: Mission, n_scores: int, room: int) -> Memory:
    """Return a memory in which nothing has been learned, for rows with `n_scores` scores."""
    arrays = _arrays(params, n_scores, room)
    return Memory(**{name: np.zeros(shape, dtype) for name, (shape, dtype) in arrays.items()})


def with_kept(memory: Memory, ids: NDArray[np.uint64], units: NDArray[np.float32]) -> Memory:
    """Return an empty memory with features to keep in every table, whose values are multiplied by their units."""
    for t, keys in enumerate(memory.keys):
        insert_ids(ids, keys)
        slots = find_ids(ids, keys)
        memory.pace[t, slots, UNIT] = units
        memory.parents[t, slots if memory.parents.size else slots[:0]] = NO_PARENT
    memory.status[:, COUNT] += len(ids)
    if len(ids):
        C = len(memory.bias)
        mark_tables(memory.cells, memory.keys, (len(memory.cells) // (C + 1)).bit_length() - 1, C)
    return memory._replace(kept=np.sort(ids) + np.uint64(1))


def _count_bytes_of_memory(params: Mission, n_scores: int, room: int) -> int:
    arrays = _arrays(params, n_scores, room).values()
    return sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in arrays)


def count_bytes(params: Mission, meta: Meta) -> int:
    """Return the most bytes that the state and temporary arrays take."""
    n_scores, longest_row = count_scores(params, meta), 2 * min(meta.block_nbytes // 4, meta.n_entries)
    room = room_of(params, len(kept_features(params.keep, meta)), longest_row)
    learning = refitting = _count_bytes_of_memory(params, n_scores, room)
    if params.method == "active" and params.learning_rate == "auto":
        learning += _count_bytes_of_memory(replace(params, width=race_width(params.width)), n_scores, room)
    if params.error_control is not None:
        block_entries = min(meta.n_entries, meta.block_nbytes // (meta.itemsize if meta.kind == "dense" else 12))
        halves = N_LEARNERS * refitting + 8 * 8 * POOL + 20 * (block_entries + min(FIRST_ENTRIES, meta.n_entries))
        learning += halves + 16 * len(meta.row_groups())
    if params.method == "iht":  # the heap of `learn_row_by_row`
        tables = n_scores if params.per_class else 1
        learning += 2 * 12 * tables * (params.n_select + len(kept_features(params.keep, meta)) + longest_row)
    buffer = 12 * min(FIRST_ENTRIES, meta.n_entries) + 24 * min(FEW_ROWS, meta.n_samples)
    learning += 2 * buffer + meta.block_nbytes
    if is_scaled(params):
        learning += scaling_nbytes(meta)
    if params.n_refits:
        refitting += refit_nbytes((count_slots(room) + 2 * most_common(params.n_select)) * n_scores, n_scores, meta)
    counters = 3 * 2 * 4 * count_cells(params.width) if params.idf else 0
    return max(learning, refitting) + counters + interactions_nbytes(params.interactions, meta)


def rule_of(params: Mission, room: int, calibration: Calibration | None = None, n_shards: int = 1) -> Rule:
    """Return parameters of gradient steps; with L shards, whose weights are averaged, the rate is L times as large."""
    norm, value = (calibration or NEUTRAL).mean_squares
    rate = rate_of(params, calibration)
    if params.row_loss == "squared" and params.method != "active":
        rate *= 2  # the paper's loss has no ½
    return Rule(
        loss=CODE[params.row_loss],  # unused with several scores
        rate=rate / norm * n_shards,
        decay=1 / (params.sightings * value) if params.method == "active" else 0.0,
        n_shards=float(n_shards),
        bias_value=value**0.5 if params.intercept else 0.0,
        bits=_cell_bits(params) if params.method == "active" else params.width.bit_length() - 1,
        depth=1 if params.method == "hashing" else params.depth,
        n_select=params.n_select,
        room=room,
        scores_all=params.method == "hashing",
    )


def make_room(params: Mission, state: MissionState, longest_row: int) -> None:
    """Enlarge the tables of a method without a sketch if they cannot hold a whole row beside the selected features."""
    n_kept = len(state.keep)
    if not has_sketch(params) and params.n_select + n_kept + longest_row > state.room:
        state.room = room_of(params, n_kept, 1 << (longest_row - 1).bit_length())
        state.memory = resize_tables(state.memory, count_slots(state.room))


def resize_tables(memory: Memory, slots: int) -> Memory:
    """Return a memory without a sketch whose tables have `slots` slots."""
    n_tables = len(memory.keys)
    arrays: dict[str, NDArray[Any]] = {"weights": memory.weights, "pace": memory.pace}
    if memory.parents.size:
        arrays["parents"] = memory.parents
    if memory.sketch.size:
        arrays["sketch"] = memory.sketch.reshape(memory.weights.shape)
    keys = np.zeros((n_tables, slots), np.uint64)
    resized = {name: np.zeros((n_tables, slots, *array.shape[2:]), array.dtype) for name, array in arrays.items()}
    for t in range(n_tables):
        old = np.flatnonzero(memory.keys[t])
        insert_ids(memory.keys[t, old] - np.uint64(1), keys[t])
        new = np.flatnonzero(keys[t])
        old, new = old[np.argsort(memory.keys[t, old])], new[np.argsort(keys[t, new])]
        for name, array in arrays.items():
            resized[name][t, new] = array[t, old]
    if "sketch" in resized:
        resized["sketch"] = resized["sketch"].reshape(-1)
    return memory._replace(keys=keys, **resized)


def result_of(state: MissionState, bias_value: float) -> Result:
    """Return the result of a state whose tables hold only the selected features."""
    keys, weights = state.memory.keys, state.memory.weights
    features = np.unique(keys[keys > 0]) - np.uint64(1)
    by_class = np.zeros((len(features), len(state.memory.bias)))  # of scaled values
    units, contributions = np.zeros_like(by_class), np.zeros_like(by_class)
    # Without a refit, the sum of squared gradients says how often a feature had large values.
    slopes = np.sqrt(state.memory.pace[..., SUM, None]) if state.slopes is None else state.slopes
    slopes = np.broadcast_to(slopes if slopes.any() else np.ones_like(slopes), weights.shape)
    vector = weights.shape[2]
    for t in range(len(keys)):
        slots = np.flatnonzero(keys[t])
        at = np.searchsorted(features, keys[t, slots] - np.uint64(1))
        by_class[at, t * vector : (t + 1) * vector] = weights[t, slots]
        units[at, t * vector : (t + 1) * vector] = state.memory.pace[t, slots, UNIT, None]
        contributions[at, t * vector : (t + 1) * vector] = weights[t, slots] * slopes[t, slots]
    importance = np.abs(contributions).sum(axis=1)
    order = np.argsort(-importance, kind="stable")
    order = np.concatenate([order[~np.isin(features[order], state.keep)], np.searchsorted(features, _kept_in(state))])
    parents = parents_of(state.memory, features) if state.memory.parents.size else None
    by_class *= units * factors_of(state.idf, features, parents)[:, None] * state.target_unit
    intercept = state.memory.bias.astype(np.float64) * bias_value * state.target_unit
    if state.scaling is not None:
        _, mean, unit = state.scaling.moments_of(features)
        by_class *= unit[:, None]
        intercept -= mean @ by_class
    return Result(
        features=features[order],
        weights=by_class[order, 0] if by_class.shape[1] == 1 else by_class[order],
        intercept=intercept,
        classes=decode_classes(state.classes),
        history=[dict(zip(HISTORY, record, strict=True)) for record in state.history[: state.passes].tolist()],
        parents=None if parents is None else parents[order],
        importance=importance[order],
        n_kept=len(_kept_in(state)),
        remarks=(state.remark,) if state.remark else (),
    )


def _kept_in(state: MissionState) -> NDArray[np.uint64]:
    """Return the features to keep, or none before they are in the tables."""
    return state.keep if len(state.memory.kept) else state.keep[:0]


def preview_of(state: MissionState, limit: int) -> Preview:
    """Return the current features and weights in the tables, perhaps with too many features or slightly old weights.

    Features to keep come last.
    """
    loss, weight, *_ = state.memory.totals + state.totals_before
    objective = loss / weight * state.target_unit**2 if weight else np.nan
    if state.passes and not weight:
        objective = state.history[state.passes - 1, 0]
    result = result_of(state, 0.0)
    return Preview(
        objective=float(objective),
        changes=np.nan,
        features=result.features[:limit],
        weights=result.weights[:limit],
        parents=None if result.parents is None else result.parents[:limit],
    )
