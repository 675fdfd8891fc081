"""Selections from halves of the rows, side by side: as many as memory allows share the passes of one selection.

Of rows 2i and 2i + 1 one is in the first half of a pair and the other in the second, by a random bit that depends on
the seed and on i alone. So a half is the same however the data are cut into blocks, row r of the data is row r // 2 of
its half, and no list of rows has to be kept. Rows that belong together are in the same half: groups of rows, in random
order, are in the first half up to half of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.protocol import (
    Algorithm,
    Axis,
    Block,
    ColumnBlock,
    Meta,
    Preview,
    Result,
    RowBlock,
    Schedule,
    Sharing,
    SparseBlock,
    State,
    copy_state,
)
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.slicing import take_columns, take_rows
from daskfs.store.reorder.runs import row_keys

_FEWEST_GROUPS = 5
_STREAM = 2**40  # added to seeds, so that halves do not follow from the split that held back the test rows


@dataclass(slots=True)
class StatesOfHalves:
    """The states of all halves, and the columns still to revisit for halves whose passes have ended."""

    members: list[State]
    is_done: NDArray[np.bool_]  # (halves,): whether the passes of a half have ended
    to_revisit: list[NDArray[np.uint64]]  # the columns that each half reads once more after the last pass


@dataclass(frozen=True)
class FromHalves(Algorithm):
    """An algorithm that runs on both halves of several pairs, each as if the other rows did not exist.

    Parameters
    ----------
    algorithm
        The algorithm that selects from every half.
    seeds
        The seeds of the selections: those of the first and second half of a pair, of the next pair, and so on.
    row_groups
        The number of the group of every row, from 0 on, where rows belong together; only for blocks of columns.
    members
        The algorithm resolved for every half; empty before `resolve`.
    """

    algorithm: Algorithm
    seeds: tuple[int, ...]
    row_groups: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64), compare=False, repr=False)
    members: tuple[Algorithm, ...] = field(default=(), repr=False)

    @property
    def axis(self) -> Axis:  # type: ignore[override]  # that of the algorithm
        return (self.members or (self.algorithm,))[0].axis

    @property
    def several_targets(self) -> bool:  # type: ignore[override]
        return (self.members or (self.algorithm,))[0].several_targets

    @property
    def n_select(self) -> int | None:
        return self.algorithm.n_select

    @property
    def passes(self) -> int | None:
        return self.algorithm.passes

    @property
    def max_reads(self) -> int | None:
        return (self.members or (self.algorithm,))[0].max_reads

    @property
    def name(self) -> str:
        return f"{self.algorithm.name} on {len(self.seeds)} halves"

    @property
    def sharing(self) -> Sharing:
        """The sharing of the algorithm, but never asynchronous, since the states of halves are sent as a whole."""
        sharing = (self.members or (self.algorithm,))[0].sharing
        is_serial = sharing.schedule == Schedule.SERIAL
        schedule = Schedule.SERIAL if is_serial else Schedule.SYNCHRONOUS
        return replace(sharing, schedule=schedule, driver_only=frozenset(), needs_fresh_views=False)

    def resolve(self, meta: Meta) -> FromHalves:
        if self.members:
            return self
        of_half = (self.algorithm.resolve(self.meta_of(number, meta)) for number in range(len(self.seeds)))
        return replace(self, members=tuple(of_half))

    def needs_mixed_rows(self, meta: Meta) -> bool:
        return self.algorithm.needs_mixed_rows(meta)

    def start(self, meta: Meta, seed: int) -> StatesOfHalves:
        states = [
            member.start(self.meta_of(number, meta), self.seeds[number]) for number, member in enumerate(self.members)
        ]
        nothing = [np.empty(0, np.uint64) for _ in states]
        return StatesOfHalves(states, np.zeros(len(states), bool), nothing)

    def update(self, state: StatesOfHalves, block: Block) -> StatesOfHalves:
        for number, member in enumerate(self.members):
            part: Block | None = block
            if state.is_done[number]:
                part = take_columns(block, state.to_revisit[number]) if state.is_done.all() else None
            if part is not None and (part := self._rows_of(number, part)) is not None:
                state.members[number] = member.update(state.members[number], part)
        return state

    def merge(self, states: Sequence[StatesOfHalves]) -> StatesOfHalves:
        members = [
            copy_state(states[0].members[number])
            if states[0].is_done[number]
            else member.merge([state.members[number] for state in states])
            for number, member in enumerate(self.members)
        ]
        return StatesOfHalves(members, states[0].is_done.copy(), copy_state(states[0].to_revisit))

    def end_pass(self, state: StatesOfHalves) -> tuple[StatesOfHalves, bool]:
        for number in np.flatnonzero(~state.is_done).tolist():
            state.members[number], go_on = self.members[number].end_pass(state.members[number])
            if not go_on:
                state.is_done[number] = True
                state.to_revisit[number] = self.members[number].revisit(state.members[number])
        return state, not state.is_done.all()

    def visit_first(self, state: StatesOfHalves) -> NDArray[np.uint64]:
        """Return the columns that the first half visits; they depend on the parameters only, and not on the rows."""
        return self.members[0].visit_first(state.members[0])

    def revisit(self, state: StatesOfHalves) -> NDArray[np.uint64]:
        return np.unique(np.concatenate(state.to_revisit))

    def result(self, state: StatesOfHalves) -> Result:
        return self.results(state)[0]

    def results(self, state: StatesOfHalves) -> list[Result]:
        """Return the result of every half."""
        return [member.result(own) for member, own in zip(self.members, state.members, strict=True)]

    def nbytes(self, meta: Meta) -> int:
        of_halves = sum(member.nbytes(self.meta_of(number, meta)) for number, member in enumerate(self.members))
        return (
            of_halves + 2 * meta.block_nbytes + 48 * min(meta.n_samples, meta.block_nbytes) + 32 * len(self.row_groups)
        )

    def preview(self, state: StatesOfHalves, limit: int) -> Preview | None:
        return self.members[0].preview(state.members[0], limit)

    def meta_of(self, number: int, meta: Meta) -> Meta:
        """Return the facts about a half, given those about all rows."""
        n = meta.n_samples
        if len(self.row_groups):
            n_rows = int(self._is_in(number, 0, n).sum())
        else:
            n_rows = n // 2 + bool(n % 2 and self._is_in(number, n - 1, 1)[0])
        share = n_rows / max(n, 1)
        nbytes = meta.block_nbytes if meta.kind == "sparse" else -int(-meta.block_nbytes * share // 1)
        return replace(meta, n_samples=n_rows, n_entries=round(meta.n_entries * share), block_nbytes=nbytes)

    def _is_in(self, number: int, first: int, count: int) -> NDArray[np.bool_]:
        """Return which of some consecutive rows are in a half."""
        rows = np.arange(first, first + count)
        pair_seed = _STREAM + self.seeds[number - number % 2]
        if len(self.row_groups):
            sizes = np.bincount(self.row_groups)
            order = np.argsort(row_keys(pair_seed, 0, len(sizes)))
            is_in_first = np.empty(len(sizes), np.bool_)
            is_in_first[order] = 2 * np.cumsum(sizes[order]) - sizes[order] <= len(self.row_groups)
            of_groups: NDArray[np.bool_] = is_in_first[self.row_groups[rows]] == (number % 2 == 0)
            return of_groups
        keys = row_keys(pair_seed, first // 2, count // 2 + 1)
        bits = (keys >> np.uint64(63)).astype(np.int64)[rows // 2 - first // 2]
        is_in: NDArray[np.bool_] = (bits ^ (rows & 1)) == number % 2
        return is_in

    def _rows_of(self, number: int, block: Block) -> Block | None:
        """Return the rows of a block that are in a half, or None if there are none."""
        start = block.first if isinstance(block, RowBlock | SparseBlock) else 0
        is_in = self._is_in(number, start, len(block.y))
        if not is_in.any():
            return None
        part = take_rows(block, is_in, (start + int(np.argmax(is_in))) // 2)
        for entry in fields(block):  # kernels are compiled for read-only arrays, or not
            if isinstance(array := getattr(part, entry.name), np.ndarray):
                array.flags.writeable = getattr(block, entry.name).flags.writeable
        return part


def row_groups_of(dataset: Dataset, algorithm: Algorithm) -> NDArray[np.int64]:
    """Return the number of the group of every row of a dataset, from 0 on, if an algorithm names a column of groups.

    Raise OptionError if the algorithm reads rows, or if there are fewer than five groups.
    """
    name = algorithm.groups
    if name is None:
        return np.empty(0, np.int64)
    if algorithm.axis != "columns":
        raise OptionError(f"stability.pairs: {algorithm.name} halves groups of rows by error_control='halves' alone")
    ids = dataset.meta.members(name)
    if not len(ids):
        raise OptionError(f"groups: the dataset has no feature {name!r:.80}")
    values = np.zeros(dataset.n_samples)  # of the only column, or the number of the category
    for block in dataset.columns(ids, columns_per_block=1):
        rows = slice(None) if isinstance(block, ColumnBlock) else block.rows
        column = block.X[:, 0] if isinstance(block, ColumnBlock) else block.values
        values[rows] += column if len(ids) == 1 else (column != 0) * (1.0 + np.searchsorted(ids, block.ids[0]))
    groups = np.unique(values, return_inverse=True)[1].astype(np.int64)
    if (n_groups := len(np.unique(groups))) < _FEWEST_GROUPS:
        raise OptionError(f"groups: halves of {n_groups} groups say nothing; give {_FEWEST_GROUPS} at least")
    return groups


def kind_to_restore(state: StatesOfHalves) -> type:
    """Return a type with the fields of `StatesOfHalves`, and with type hints for the states of the halves."""
    of_members: Any = type(state.members[0])
    hints = [
        ("members", list[of_members]),
        ("is_done", NDArray[np.bool_]),
        ("to_revisit", list[NDArray[np.uint64]]),
    ]
    return make_dataclass("KindOfHalves", hints)
