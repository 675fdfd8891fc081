"""Learning of rows by MISSION: the choice of the kernel, fading of the sketch, and the merge of several shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.active_kernels import learn_active, learn_active_classes
from daskfs.algorithms.mission.calibration import (
    FIRST_ROWS,
    NEUTRAL,
    RACE,
    SQUARES_ROWS,
    Calibration,
    compare_rates,
    mean_squares,
    race_width,
)
from daskfs.algorithms.mission.cell_kernels import add_share_of_cells, fade_cells, mark_tables
from daskfs.algorithms.mission.halves import HalvesState, judge, learners, only_reported, salts, with_salt
from daskfs.algorithms.mission.memory_kernels import (
    LOSS,
    ROWS,
    WEIGHT,
    Memory,
    Rule,
    SparseRows,
    add_share,
    apply_gradients,
    fade,
    merge_tables,
    prune,
    read_weights,
)
from daskfs.algorithms.mission.paper_kernels import learn_sketch, learn_sketch_fast
from daskfs.algorithms.mission.rows import (
    multiply_values,
    outside_of,
    slice_rows,
    take_rows,
    windows,
    without_features,
)
from daskfs.algorithms.mission.scaling import Scaling, in_target_unit, in_units_of, scale_rows, scale_target, units_of
from daskfs.algorithms.mission.state import MissionState, empty_memory, has_sketch, rule_of, with_kept
from daskfs.algorithms.mission.tables_only_kernels import learn_thresholded
from daskfs.algorithms.mission.thresholding_kernels import learn_row_by_row
from daskfs.protocol import copy_state, put_fields, take_fields

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

_MAX_ROWS = 1000  # between two times that the sketch fades
_TIMES = 100  # that it fades in a pass, if there are enough rows


def _learn_memory(params: Mission, memory: Memory, rule: Rule, rows: SparseRows) -> int:
    """Learn rows with the kernel that fits the method and the number of classes; return the number of rows learned."""
    kernel: Any
    has_one_score = len(memory.bias) == 1
    if params.method == "iht":
        kernel = learn_row_by_row
    elif params.method == "batch-iht":
        kernel = learn_thresholded
    elif params.method == "active":
        kernel = learn_active if has_one_score else learn_active_classes
    else:
        kernel = learn_sketch_fast if has_one_score and rule.depth == 3 else learn_sketch
    return int(kernel(rows, memory, rule))


def learn(params: Mission, state: MissionState, rule: Rule, rows: SparseRows) -> int:
    """Learn rows up to a row with a value that is not finite; return the number of rows learned.

    With `fading` the sketch is scaled after fixed numbers of rows, however blocks are cut. The factor γ falls from 1 at
    the first row to 1 − `fading` at the last row of the last pass, as in the paper.
    """
    memory, shards = state.memory, state.n_shards
    if not params.fading:
        return _learn_memory(params, memory, rule, rows)
    every = max(1, min(_MAX_ROWS, state.n_samples // _TIMES) // shards)
    start, count = 0, len(rows.y)
    while start < count:
        at = int(memory.totals[ROWS])  # rows of this shard since the last merge
        stop = min(count, start + every - at % every)
        learned = start + _learn_memory(params, memory, rule, slice_rows(rows, start, stop))
        if learned < stop:
            return learned
        if (at + stop - start) % every == 0:
            rows_of_pass = state.totals_before[ROWS] + shards * memory.totals[ROWS]
            done = (state.passes - params.idf + rows_of_pass / state.n_samples) / params.n_passes
            factor = np.float32(1 - params.fading * min(1.0, done))
            if params.method == "active":
                fade_cells(memory.cells, factor, len(memory.bias))
            else:
                fade(memory, rule, factor)
        start = stop
    return count


def calibrate(params: Mission, state: MissionState, rows: SparseRows, first: int, are_all: bool) -> Calibration:
    """Estimate the step size from the first rows, with trials of several learning rates if the rate is "auto".

    Before the trials, the features of the parameter `keep` enter the tables, with units from the first rows. The
    argument `are_all` says whether the data have no other rows.
    """
    squares = mean_squares(windows(slice_rows(rows, 0, min(len(rows.y), SQUARES_ROWS)), state.name_spaces, first))
    calibration = Calibration(squares, NEUTRAL.rate_losses.copy())
    units = units_of(state.keep, rows) if len(state.keep) else np.empty(0, np.float32)
    state.memory = with_kept(state.memory, state.keep, units)
    if params.learning_rate == "auto" and params.method == "active":
        small = replace(params, width=race_width(params.width))
        rule, n_scores, n = rule_of(small, state.room, calibration), len(state.memory.bias), len(rows.y)
        start, stop = (0, n) if are_all or n < FIRST_ROWS else RACE
        stages = [(slice_rows(rows, 0, start), first), (slice_rows(rows, start, stop), first + start)]

        def loss_at(rate: float) -> float:
            trial = with_kept(empty_memory(small, n_scores, state.room), state.keep, units)
            for some_rows, number in stages:
                trial.totals[:] = 0.0
                for part in windows(some_rows, state.name_spaces, number):
                    _learn_memory(params, trial, rule._replace(rate=rate / squares[0]), part)
            return float(trial.totals[LOSS] / trial.totals[WEIGHT]) if trial.totals[WEIGHT] else 0.0

        calibration.rate_losses = compare_rates(loss_at)
    return calibration


def without_groups(state: MissionState, rows: SparseRows) -> SparseRows:
    """Return the rows without the features that name groups of rows, if there are any."""
    return rows if state.halves is None else without_features(rows, state.halves.group_ids)


def scaled_rows(state: MissionState, rows: SparseRows) -> SparseRows:
    """Return the rows as they are learned: with scaled values and target, without features that name groups."""
    rows = rows._replace(y=scale_target(rows.y, state.target_unit))
    return multiply_values(scale_rows(without_groups(state, rows), state.scaling), state.idf)


def learn_halves(
    params: Mission, state: MissionState, rows: SparseRows, first: int, order: NDArray[np.int64] | None = None
) -> None:
    """Train the learners of halves, if there are any, with consecutive rows from row `first` on.

    With an `order`, the rows are learned in this order.
    """
    halves = state.halves
    if halves is None or not len(rows.y):
        return
    groups, numbers = halves.groups_of(rows, first), np.arange(first, first + len(rows.y))
    nulls = halves.permuted(rows.y, first, state.seed, groups)
    if order is not None:
        rows, nulls, numbers = take_rows(rows, order), nulls[order], numbers[order]
        groups = groups[order] if len(groups) else groups
    rows = scaled_rows(state, rows)
    rows = rows._replace(outside=outside_of(rows))  # by ids without salts
    rule = rule_of(params, state.room, state.calibration, state.n_shards)
    nulls = scale_target(nulls, state.target_unit)
    for memory, own in zip(halves.memories, learners(state.seed, rows, nulls, numbers, groups), strict=True):
        _learn_memory(params, memory, rule, own)


def judge_halves(params: Mission, state: MissionState) -> None:
    """Apply error control by `halves`, if it is on, and leave only the features that it reports in the tables."""
    halves, rule = state.halves, rule_of(params, state.room, state.calibration)
    if halves is None or not halves.memories:
        return
    for memory in (state.memory, *halves.memories):
        keep_selected(params, memory, rule)
    judge(halves, state.memory, state.seed)
    state.memory = only_reported(params, halves, state.memory)


def keep_selected(params: Mission, memory: Memory, rule: Rule) -> None:
    """Apply pending gradients, bring weights up to date, and prune tables to the selected features."""
    for t in range(len(memory.keys)):
        if params.method == "batch-iht":
            apply_gradients(memory, rule, t)
            continue
        if params.method in ("paper", "hashing"):
            read_weights(memory, rule, t)
        prune(memory, rule, t)


def merge_learned(params: Mission, states: Sequence[MissionState]) -> MissionState:
    """Return the merged state of several shards, which began with a common state and each learned some rows.

    The calibrations of the shards are averaged, which leaves a common calibration as it is. The moments of features and
    the unit of the target are those of the shard with the first rows. Methods without a sketch are never shared.
    """
    assert has_sketch(params)  # the kernels would read beside its arrays
    first = min(states, key=lambda state: state.buffer_start)
    scaling, shards = first.scaling, [state.merged_shards for state in states]
    ratios = [state.target_unit / first.target_unit for state in states]
    memories = [in_target_unit(state.memory, ratio) for state, ratio in zip(states, ratios, strict=True)]
    if scaling is not None and any(state.scaling is not scaling for state in states):
        memories = [in_units_of(scaling, state.scaling, memory) for state, memory in zip(states, memories, strict=True)]
    rest, _ = take_fields(states[0], frozenset({"memory", "halves"}))
    calibrations = [state.calibration for state in states if state.calibration is not None]
    means = [
        np.average([getattr(calibration, name) for calibration in calibrations], axis=0, weights=shards)
        for name in ("mean_squares", "rate_losses")
    ]
    merged: MissionState = put_fields(
        copy_state(rest),
        {
            "memory": _merge_memories(params, memories, shards, states[0].room),
            "calibration": Calibration(*means),
            "scaling": scaling,
            "target_unit": first.target_unit,
            "common": first.common.copy(),
            "common_units": first.common_units.copy(),
            "halves": _merge_halves(params, states, scaling, shards, ratios),
            "merged_shards": sum(shards),
        },
    )
    return merged


def _merge_halves(
    params: Mission,
    states: Sequence[MissionState],
    scaling: Scaling | None,
    shards: Sequence[int],
    ratios: Sequence[float],
) -> HalvesState | None:
    """Return the merged learners of halves, with the pools of targets of all shards."""
    parts = [(state, state.halves) for state in states if state.halves is not None]
    if not parts:
        return None
    memories = []
    for number, salt in enumerate(salts(states[0].seed)):
        of_shards = [
            in_target_unit(halves.memories[number], ratio) for (_, halves), ratio in zip(parts, ratios, strict=True)
        ]
        if scaling is not None:
            units = (
                in_units_of(scaling, state.scaling, with_salt(memory, salt))
                for (state, _), memory in zip(parts, of_shards, strict=True)
            )
            of_shards = [with_salt(memory, salt) for memory in units]
        memories.append(_merge_memories(params, of_shards, shards, states[0].room))
    pools = {pool.first: copy_state(pool) for _, halves in parts for pool in halves.pools}
    return replace(parts[0][1], memories=memories, pools=[pools[first] for first in sorted(pools)])


def _merge_memories(params: Mission, memories: Sequence[Memory], shards: Sequence[int], room: int) -> Memory:
    """Return the merged memory of several shards.

    Each of L shards multiplied its steps by L, so the mean of the shards' memories is the memory they began with plus
    all that they learned. A feature with exact weights in a shard's table has no weight in the shard's cell. The merged
    weight of a feature is the mean of exact weights, over the shards that have the feature in a table, plus the weight
    in the merged cell, which is from the other shards. This weight is taken out of the cell.
    """
    shares = (np.array(shards) / sum(shards)).astype(np.float32)
    C = len(memories[0].bias)
    merged = empty_memory(params, C, room)._replace(kept=memories[0].kept)
    for share, memory in zip(shares, memories, strict=True):
        for name in ("sketch", "bias", "bias_sum"):
            add_share(getattr(merged, name), getattr(memory, name), share)
        add_share_of_cells(merged.cells, memory.cells, share, C)
    merged.totals[:] = sum(memory.totals for memory in memories)
    rule = rule_of(params, room)
    for t in range(len(merged.keys)):
        keys, weights, pace, parents = (
            np.concatenate([getattr(memory, name)[t] for memory in memories])
            for name in ("keys", "weights", "pace", "parents")
        )
        slots = np.flatnonzero(keys)
        order = slots[np.argsort(keys[slots], kind="stable")]
        parents = parents[order] if len(parents) else parents
        share = np.repeat(shares, merged.keys.shape[1])[order]
        merge_tables(keys[order], weights[order], pace[order], parents, share, merged, rule, t)
    mark_tables(merged.cells, merged.keys, rule.bits, C)
    return merged
