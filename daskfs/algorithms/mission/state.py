"""The state of MISSION, how large its arrays are, and the rule by which its kernels learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import CODE
from daskfs.algorithms.mission.calibration import NEUTRAL, Calibration, rate_of
from daskfs.algorithms.mission.features import NameSpaces, RowCounts
from daskfs.algorithms.mission.memory_kernels import Memory, Rule, SparseRows
from daskfs.algorithms.mission.refit import RefitState
from daskfs.algorithms.mission.table_kernels import FILTER_BYTES, insert_ids

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

_SLACK = 1.5  # a table holds up to this many times the features it keeps, so that it is pruned only now and then
_MIN_SLACK = 4
_MIN_ROW = 256  # entries of a row that "iht" has room for at first


@dataclass(slots=True)
class MissionState:
    """The state of MISSION."""

    memory: Memory
    room: int
    """Features at which a table is pruned."""
    classes: str
    """The classes that scores tell apart, in JSON; empty for a real target."""
    labels: NDArray[np.float64]
    """The classes of softmax as blocks carry them, ascending; empty for other losses."""
    positive: float
    """The second of two classes as blocks carry it; NaN where there are not two."""
    n_samples: int
    n_shards: int
    seed: int
    held_back: float
    """The share of rows that are held back for the refit."""
    history: NDArray[np.float64]
    """(passes, columns): as in `result.HISTORY`."""
    passes: int = 0
    """Finished passes."""
    totals_before: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    """The totals of this pass up to the last merge; `memory.totals` has those of this shard since then."""
    merged_shards: int = 1
    """How many shards this state was merged from; 1 as soon as it learns again."""
    buffer: SparseRows | None = None
    """The first rows, until there are enough of them to calibrate by."""
    buffer_start: int = 0
    """The number of the first row in the buffer."""
    calibration: Calibration | None = None
    """None before the first rows are learned."""
    remark: str = ""
    """What users should know of the data."""
    counts: RowCounts | None = None
    """Only while `idf` counts."""
    idf: NDArray[np.float32] | None = None
    """(2, cells): factors of features, once they were counted."""
    name_spaces: NameSpaces | None = None
    """Only with interactions."""
    refit: RefitState | None = None
    """Only in passes that refit."""


def has_sketch(params: Mission) -> bool:
    """Return whether the method uses a sketch; "iht" and "batch-iht" do not."""
    return params.method not in ("iht", "batch-iht")


def room_of(params: Mission, longest_row: int = 0) -> int:
    """Return at how many features a table is pruned; without a sketch it must have room for a whole row."""
    if has_sketch(params):
        return int(_SLACK * params.n_select) + _MIN_SLACK
    cells = params.depth * params.width if params.method == "batch-iht" else 0
    return params.n_select + max(_MIN_ROW, longest_row, cells)


def count_slots(features: int) -> int:
    """Return the slots of a table for some number of features: a power of two, at most half of them in use."""
    return 1 << (2 * features - 1).bit_length()


def _arrays(params: Mission, n_scores: int, room: int) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return shape and type of every array of the memory."""
    tables, slots = n_scores if params.per_class else 1, count_slots(room)
    vector, depth = n_scores // tables, 1 if params.method == "hashing" else params.depth
    return {
        "sketch": ((depth * params.width * n_scores if has_sketch(params) else tables * slots * vector,), np.float32),
        "tail": ((params.width if params.method == "active" else 0,), np.float32),
        "keys": ((tables, slots), np.uint64),
        "weights": ((tables, slots, vector), np.float32),
        "sums": ((tables, slots), np.float32),
        "parents": ((tables, 0 if params.interactions is None else slots, 2), np.uint64),
        "status": ((tables, 2), np.float64),
        "bias": ((n_scores,), np.float32),
        "bias_sum": ((1,), np.float32),
        "totals": ((3,), np.float64),
    }


def empty_memory(params: Mission, n_scores: int, room: int) -> Memory:
    """Return a memory in which nothing has been learned; a row has `n_scores` scores."""
    arrays = _arrays(params, n_scores, room)
    return Memory(**{name: np.zeros(shape, dtype) for name, (shape, dtype) in arrays.items()})


def memory_nbytes(params: Mission, n_scores: int, room: int) -> int:
    """Return the bytes of a memory."""
    arrays = _arrays(params, n_scores, room).values()
    return sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in arrays)


def filter_nbytes(params: Mission, n_scores: int, room: int) -> int:
    """Return the bytes of the filters that kernels use beside a memory."""
    tables = n_scores if params.per_class else 1
    return FILTER_BYTES * tables * count_slots(room) if params.method == "active" else 0


def rule_of(params: Mission, room: int, calibration: Calibration | None = None, n_shards: int = 1) -> Rule:
    """Return how kernels learn. Each of L shards multiplies its step by L."""
    norm, value = (calibration or NEUTRAL).mean_squares
    rate = rate_of(params, calibration)
    if params.loss == "squared" and params.method != "active":
        rate *= 2  # the paper's loss has no ½
    return Rule(
        loss=CODE["logistic" if params.loss == "softmax" else params.loss],  # unused with several scores
        rate=rate / norm * n_shards,
        decay=1 / (params.sightings * value) if params.method == "active" else 0.0,
        n_shards=float(n_shards),
        bias_value=value**0.5 if params.intercept else 0.0,
        bits=params.width.bit_length() - 1,
        depth=1 if params.method == "hashing" else params.depth,
        n_select=params.n_select,
        room=0 if params.method == "iht" else room,  # "iht" takes a step after every row
        scores_all=params.method == "hashing",
    )


def make_room(params: Mission, state: MissionState, longest_row: int) -> None:
    """Enlarge the tables where they must hold a whole row beside the features they keep."""
    if not has_sketch(params) and params.n_select + longest_row > state.room:
        state.room = room_of(params, 1 << (longest_row - 1).bit_length())
        state.memory = resize_tables(state.memory, count_slots(state.room))


def resize_tables(memory: Memory, slots: int) -> Memory:
    """Return a memory without a sketch whose tables have another number of slots."""
    n_tables = len(memory.keys)
    arrays: dict[str, NDArray[Any]] = {"weights": memory.weights, "sums": memory.sums}
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
