"""The state of MISSION: flat arrays for the engine, and the same arrays as its kernels take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from daskfs.algorithms.losses import CODE
from daskfs.algorithms.mission.marks_kernels import MARKS
from daskfs.algorithms.mission.memory_kernels import Memory, Rule, move_table
from daskfs.protocol import State

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

_SLACK = 1.5  # a table has room for so many times as many as it keeps, so that it is pruned only now and then
_LEAST_SLACK = 4
_ROW = 256  # entries of a row that "iht" has room for; its table grows for longer ones


@dataclass(frozen=True, slots=True)
class Shape:
    """How large everything is."""

    n_scores: int
    """Of a row: 1 for a number or two classes, else one for each class."""
    n_tables: int
    """One, or one for each class."""
    n_select: int
    """Features to keep, in each table."""
    room: int
    """Features a table may hold until it is pruned."""
    bits: int
    depth: int
    has_sketch: bool
    is_adaptive: bool
    has_pairs: bool

    @classmethod
    def of(cls, params: Mission, n_scores: int, longest_row: int = 0) -> Shape:
        keep, row = params.n_select, max(_ROW, longest_row)
        bits, depth = params.width.bit_length() - 1, 1 if params.method == "hashing" else params.depth
        room = {"iht": keep + row, "batch-iht": keep + max(row, depth << bits)}
        return cls(
            n_scores=n_scores,
            n_tables=n_scores if params.per_class else 1,
            n_select=keep,
            room=room.get(params.method, int(_SLACK * keep) + _LEAST_SLACK),
            bits=bits,
            depth=depth,
            has_sketch=params.method not in room,
            is_adaptive=params.method == "active",
            has_pairs=params.interactions is not None,
        )

    @property
    def capacity(self) -> int:
        """Slots of a table: a power of two, at most half of them in use."""
        return 1 << (2 * self.room - 1).bit_length()

    def arrays(self) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Shape and type of every array of the memory."""
        tables, slots, vector = self.n_tables, self.capacity, self.n_scores // self.n_tables
        cells = (self.depth << self.bits) * self.n_scores if self.has_sketch else tables * slots * vector
        return {
            "sketch": ((cells,), np.float32),
            "tail": ((1 << self.bits if self.is_adaptive else 0,), np.float32),
            "keys": ((tables, slots), np.uint64),
            "weights": ((tables, slots, vector), np.float32),
            "sums": ((tables, slots), np.float32),
            "parents": ((tables, slots if self.has_pairs else 0, 2), np.uint64),
            "gauge": ((tables, 2), np.float64),
            "bias": ((self.n_scores,), np.float32),
            "bias_sum": ((1,), np.float32),
            "tally": ((3,), np.float64),
        }

    def empty(self) -> State:
        """The arrays of a memory that knows nothing."""
        return {name: np.zeros(shape, dtype) for name, (shape, dtype) in self.arrays().items()}

    @property
    def nbytes(self) -> int:
        return sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in self.arrays().values())

    @property
    def marks_nbytes(self) -> int:
        """What a kernel takes besides, to tell who is in a table."""
        return MARKS * self.n_tables * self.capacity if self.is_adaptive else 0


def shape_of(params: Mission, state: State) -> Shape:
    """The shape of a state's memory."""
    return Shape.of(params, len(state["bias"]), state["longest_row"])


def make_room(params: Mission, state: State, longest_row: int) -> None:
    """Let tables grow, where they must hold a whole row besides what they keep."""
    before = shape_of(params, state)
    if before.has_sketch or params.n_select + longest_row <= before.room:
        return
    old, state["longest_row"] = memory_of(state), 1 << (longest_row - 1).bit_length()
    shape = shape_of(params, state)
    larger = shape.empty()
    for name in ("bias", "bias_sum", "tally"):
        larger[name] = state[name]
    for t in range(shape.n_tables):
        move_table(old, memory_of(larger), t)
    state.update(larger)


def memory_of(state: State) -> Memory:
    """The arrays of a state as kernels take them; what they change is the state."""
    return Memory(**{name: state[name] for name in Memory._fields})


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast to learn: what the data and the race have settled."""

    rate: float
    """Of rows as they are."""
    per_sighting: float
    bias_value: float


def rule_of(params: Mission, shape: Shape, pace: Pace, lanes: int = 1) -> Rule:
    """How kernels learn; each of several lanes as if its rows stood for those of all."""
    return Rule(
        loss=CODE["logistic" if params.loss == "softmax" else params.loss],  # not looked at with several scores
        rate=pace.rate * lanes,
        per_sighting=pace.per_sighting,
        stands_for=float(lanes),
        bias_value=pace.bias_value if params.intercept else 0.0,
        bits=shape.bits,
        depth=shape.depth,
        n_select=shape.n_select,
        room=0 if params.method == "iht" else shape.room,  # "iht" settles after every row
        everyone_counts=params.method == "hashing",
    )
