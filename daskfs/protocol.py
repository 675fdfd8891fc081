"""READ FIRST: the terms in which the engine and the algorithms speak to each other.

The store cuts a dataset into *blocks*. The engine decides which worker reads which block, and when. An *algorithm*
folds blocks into a *state* and turns the final state into a *result*:

    state = algorithm.start(meta, seed)
    for each pass:
        for each block:                  state = algorithm.update(state, block)
        (several shards of a pass)       state = algorithm.merge([state of shard 0, state of shard 1, ...])
        state, go_on = algorithm.end_pass(state)
    after the last pass:                 state = algorithm.update(state, columns of algorithm.revisit(state))
    result = algorithm.result(state)

An `AsynchronousAlgorithm` splits `update` in two, so that workers need not wait for each other. Workers turn blocks
into *offers*; a *centre* folds offers into the one state and publishes *views* of it (pull and push, in the words of
parameter servers):

    view = algorithm.view(state, worker)                     # at the centre, for one worker
    own, offer = algorithm.work(own, view, block)            # on the worker; the view may be out of date
    offer = algorithm.combine_offers(offer, later, view)     # on the worker, while the centre is busy
    state = algorithm.accept(state, offer)                   # at the centre

This file needs numpy and nothing else. The papers under ``algorithms/`` import it, the engine imports it, and neither
imports the other.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

Kind = Literal["dense", "sparse"]
Axis = Literal["columns", "rows"]
Label = float | str
State = Any
"""The state of an algorithm: a dataclass whose fields are arrays, numbers, strings, None, other such dataclasses, named
tuples of arrays, or lists of these. `copy_state`, `flatten` and `restore` work on any of them."""
NO_PARENT = 2**64 - 1
"""Stands in place of the parents of a feature that is no product of two others; ids have 63 bits."""


def _no_features(space: str) -> NDArray[np.uint64]:
    return np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class Meta:
    """What an algorithm may know of a dataset before it has read a byte of it."""

    kind: Kind
    n_samples: int
    n_features: int
    """Features that can be chosen: columns; largest id + 1; distinct names where ids are hashes."""
    n_entries: int
    """Stored numbers: non-zeros of a sparse dataset, all cells of a dense one."""
    max_id: int
    """The largest feature id; ids are hashes or packed k-mers, so this may exceed `n_features`."""
    classes: tuple[Label, ...] | None
    """The distinct labels, sorted, where the target is a class; None where it is a real number."""
    block_nbytes: int
    """Bytes of the largest block, as the reader hands it out."""
    itemsize: int = 4
    """Bytes of one number: 4 for float32, 8 for float64."""
    weighted: bool = False
    """Whether rows have weights."""
    n_shards: int = 1
    """How many workers share a pass and merge their states now and then."""
    members: Callable[[str], NDArray[np.uint64]] = _no_features
    """The features of a name space, as in ``space^name``, ``space=token`` or ``space:name``, ascending."""

    def class_codes(self, y: NDArray[np.float64]) -> NDArray[np.int64]:
        """Class numbers 0 … C-1 of targets as blocks carry them (see `ColumnBlock.y`)."""
        if self.classes is None:
            raise ValueError("the target is a real number, it has no classes")
        if isinstance(self.classes[0], str):
            return y.astype(np.int64)
        return np.searchsorted(np.asarray(self.classes, dtype=np.float64), y).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBlock:
    """Whole columns of a dense matrix, each contiguous in memory."""

    ids: NDArray[np.uint64]  # (b,), ascending
    X: NDArray[np.floating[Any]]  # (n, b), Fortran order
    y: NDArray[np.float64]
    """Target of every row: the number itself, or the class number where labels are strings."""
    weight: NDArray[np.float32] | None = None
    """Importance of every row, where the source gave one."""

    @property
    def nbytes(self) -> int:
        return self.X.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class SparseColumnBlock:
    """Whole columns of a sparse matrix in CSC form, rows ascending in a column."""

    ids: NDArray[np.uint64]  # (b,), ascending
    indptr: NDArray[np.int64]  # (b + 1,)
    rows: NDArray[np.uint32]
    values: NDArray[np.float32]
    y: NDArray[np.float64]
    weight: NDArray[np.float32] | None = None

    @property
    def nbytes(self) -> int:
        return self.ids.nbytes + self.indptr.nbytes + self.rows.nbytes + self.values.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class RowBlock:
    """Whole rows ``first, first + 1, …`` of a dense matrix."""

    first: int
    X: NDArray[np.floating[Any]]  # (r, p), C order
    y: NDArray[np.float64]
    weight: NDArray[np.float32] | None = None

    @property
    def nbytes(self) -> int:
        return self.X.nbytes + self.y.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class SparseBlock:
    """Whole rows ``first, first + 1, …`` of a sparse matrix in CSR form, ids ascending in a row."""

    first: int
    indptr: NDArray[np.int64]  # (r + 1,)
    ids: NDArray[np.uint64]
    values: NDArray[np.float32]
    y: NDArray[np.float64]
    weight: NDArray[np.float32] | None = None

    @property
    def nbytes(self) -> int:
        weight = 0 if self.weight is None else self.weight.nbytes
        return self.indptr.nbytes + self.ids.nbytes + self.values.nbytes + self.y.nbytes + weight


Block = ColumnBlock | SparseColumnBlock | RowBlock | SparseBlock


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """How random features come out of the columns of a dataset: features are then integers, and no columns."""

    kernel: Literal["gaussian", "laplacian", "perceptron"]
    gamma: float
    seed: int
    offset: NDArray[np.float64]
    scale: NDArray[np.float64]
    """(d,): a column x is seen as (x - offset) · scale."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """(d,): the range of every column while it was learned."""
    importance: NDArray[np.float64]
    """(d,): how much every column matters to the scores, as shares of one."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What an algorithm hands back: features in order of importance, and a linear model over them."""

    features: NDArray[np.uint64]
    weights: NDArray[np.float64]  # (k,) or (k, classes), aligned with `features`
    intercept: NDArray[np.float64]  # (1,) or (classes,)
    classes: tuple[Label, ...] | None
    """The labels the scores tell apart (with two, a score above 0 means the second); None for real values."""
    history: Sequence[dict[str, float]]  # one record per pass or round, "objective" in each
    parents: NDArray[np.uint64] | None = None
    """(k, 2): the two features a feature is the product of, or twice `NO_PARENT`. None if none is a product."""
    expansion: Expansion | None = None
    """Where features are random ones: of what. Else they are columns."""
    remarks: tuple[str, ...] = ()
    """What whoever ran it should know and might not notice, in a line each."""


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """What a running selection looks like right now, for progress bars and the dashboard; not the final answer."""

    objective: float
    """NaN while there is none."""
    changes: float
    """How many features entered the selected set since the pass began; NaN where the algorithm does not count them."""
    features: NDArray[np.uint64]
    """A few features, the most important first."""
    weights: NDArray[np.float64]  # (t,) or (t, classes), aligned with `features`
    parents: NDArray[np.uint64] | None = None
    """As in `Result`."""
    staleness: NDArray[np.int64] | None = None
    """``staleness[v]`` offers of this pass were based on a view v versions old; None without a centre."""
    kind: str = ""
    """The kind of features that are not columns, such as "gaussian"."""


@dataclass(frozen=True, slots=True)
class Words:
    """How a report speaks of an algorithm and of the columns of its history."""

    title: str
    """The name of the algorithm as its paper writes it."""
    columns: Mapping[str, str]
    """Titles of the columns of `Result.history` that a report shows between the objective and the time, in order."""
    curves: tuple[str, ...] = ()
    """Those of the columns that a report also draws, as it draws the objective."""
    explain_history: Callable[[Mapping[str, Sequence[float]]], str] = lambda history: ""
    """Return a sentence on how to read this history, or ""; the argument holds the finite values of every column."""


class Schedule(StrEnum):
    """How several workers share a pass. With one worker all three are the serial loop, bit for bit."""

    SERIAL = "serial"
    """One after the other: a block needs the state that the block before it left."""
    SYNCHRONOUS = "synchronous"
    """Side by side, each with a shard of the blocks; their states are merged at fixed places."""
    ASYNCHRONOUS = "asynchronous"
    """Side by side around a centre, without waiting for each other."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How an algorithm's work can be shared among workers."""

    schedule: Schedule = Schedule.SERIAL
    min_merges_per_pass: int = 1
    """1 where merging only adds up; more where shards learn from each other."""
    min_bytes_per_merge: int = 0
    """Bytes of blocks a shard must read between two merges to be worth its merge; smaller data get fewer shards."""
    driver_only: frozenset[str] = frozenset()
    """Fields of the state that only `end_pass` and `result` use: workers and `merge` see None in their place."""
    needs_fresh_views: bool = False
    """Asynchronous only: an outdated view misleads workers, instead of merely producing an offer that is rejected.
    They then get a new view for every group of blocks and wait for the centre rather than go on with an old one."""


class Algorithm:
    """Base class of all algorithms: a frozen dataclass of parameters, without data and without state.

    An algorithm defines at least `start`, `update`, `end_pass`, `result` and `nbytes`, or a `resolve` that returns one
    that does.

    `update` and `end_pass` may change the state they are given and return it; `merge` changes none of its states.
    Blocks are read-only. How rows or columns were cut into blocks changes no result, unless a docstring says so.
    """

    if TYPE_CHECKING:  # fields of every algorithm; a property here would become their default value

        @property
        def n_select(self) -> int | None:
            """How many features to select; None where the data decide."""

        @property
        def passes(self) -> int | None:
            """How many passes at most; None where that is not known beforehand."""

    axis: ClassVar[Axis]
    """Whether the algorithm streams blocks of columns or blocks of rows."""
    verb: ClassVar[str] = "read"
    """What the algorithm does with blocks, in one word: Dask tasks are named after it."""

    @property
    def name(self) -> str:
        """The name of the algorithm in records, events and messages."""
        return type(self).__name__

    @property
    def sharing(self) -> Sharing:
        """How several workers share the work; by default they take turns."""
        return Sharing()

    def resolve(self, meta: Meta) -> Algorithm:
        """Return the algorithm that runs on this dataset, usually this one; OptionError if it cannot."""
        return self

    def start(self, meta: Meta, seed: int) -> State:
        """Return the state before the first block."""
        raise NotImplementedError

    def update(self, state: State, block: Block) -> State:
        """Fold one block into the state."""
        raise NotImplementedError

    def merge(self, states: Sequence[State]) -> State:
        """Return one state from those that several shards reached from a common one."""
        raise NotImplementedError(f"{type(self).__name__} cannot share a pass")

    def end_pass(self, state: State) -> tuple[State, bool]:
        """Close a pass. Return the state, and whether another pass is needed."""
        raise NotImplementedError

    def revisit(self, state: State) -> NDArray[np.uint64]:
        """Return ids of columns to `update` with once more after the last pass; by default none."""
        return np.empty(0, np.uint64)

    def result(self, state: State) -> Result:
        """Return the selection that the state stands for."""
        raise NotImplementedError

    def nbytes(self, meta: Meta) -> int:
        """Return the most memory that the state and work on it take, without blocks; a promise made before reading."""
        raise NotImplementedError

    def driver_nbytes(self, meta: Meta) -> int:
        """Return how much of `nbytes` only the driver needs: fields in `Sharing.driver_only`, and work on them."""
        return 0

    def preview(self, state: State, limit: int) -> Preview | None:
        """Return a quick look at the state with at most `limit` features, without changing it."""
        return None


class AsynchronousAlgorithm(Algorithm):
    """Base class for `Schedule.ASYNCHRONOUS`. Its state has a field ``version`` that rises when views change.

    An offer may reach the centre late, twice or never, and none of these may do harm. An `update` with a block of no
    columns only takes over the target. Columns to `revisit` come as offers, too.
    """

    def view(self, state: State, worker: int) -> State:
        """Return what a worker needs to know of the state: small."""
        raise NotImplementedError

    def work(self, own: State | None, view: State, block: Block, worker: int) -> tuple[State, State | None]:
        """Process one block on a worker. Return the worker's own state (None at first) and perhaps an offer."""
        raise NotImplementedError

    def combine_offers(self, offer: State, later: State, view: State) -> State:
        """Return one offer, no larger than offers are, from two that could not be sent yet."""
        raise NotImplementedError

    def remaining_offer(self, own: State) -> State | None:
        """Return an offer of what a worker has gathered and not offered yet; the engine asks for it now and then."""
        return None

    def accept(self, state: State, offer: State) -> State:
        """Fold an offer into the state, whatever version of the view it was based on."""
        raise NotImplementedError

    def n_workers(self, state: State) -> int:
        """Return how many workers have a part of their own in the state; 0 where the state does not tell them apart."""
        return 0

    def held_features(self, state: State) -> NDArray[np.uint64]:
        """Return the ids that turn an older state into one as good as this one when it is `update`d with them."""
        raise NotImplementedError


def copy_state(state: State) -> State:
    """Return a deep copy of a state: the copy shares no array with the original."""
    if isinstance(state, np.ndarray):
        return np.copy(state, order="K")
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{field.name: copy_state(getattr(state, field.name)) for field in fields(state)})
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*map(copy_state, state))
    if isinstance(state, list):
        return [copy_state(item) for item in state]
    return state


def take_fields(state: State, names: frozenset[str]) -> tuple[State, dict[str, Any]]:
    """Return the state with None in place of some fields, and what they held."""
    held = {name: getattr(state, name) for name in names}
    return (replace(state, **dict.fromkeys(names)) if names else state), held


def put_fields(state: State, held: Mapping[str, Any]) -> State:
    """Return the state with some fields put back."""
    return replace(state, **held) if held else state


def flatten(state: State) -> dict[str, Any]:
    """Return the arrays and scalars of a state by name, such as ``"sets/0/weights"``; None is left out.

    >>> from dataclasses import dataclass
    >>> from daskfs.protocol import flatten, restore
    >>> @dataclass
    ... class Sums:
    ...     rows: int
    ...     totals: NDArray[np.float64]
    >>> flatten(Sums(3, np.ones(2)))
    {'rows': 3, 'totals': array([1., 1.])}
    >>> restore(Sums, flatten(Sums(3, np.ones(2))))
    Sums(rows=3, totals=array([1., 1.]))
    """
    return {name.removeprefix("/"): value for name, value in _leaves("", state)}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if is_dataclass(value):
        for field in fields(value):
            yield from _leaves(f"{path}/{field.name}", getattr(value, field.name))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name, item in zip(value._fields, value, strict=True):
            yield from _leaves(f"{path}/{name}", item)
    elif isinstance(value, list):
        yield path, len(value)
        for number, item in enumerate(value):
            yield from _leaves(f"{path}/{number}", item)
    elif value is not None:
        yield path, value


def restore(kind: Any, values: Mapping[str, Any], path: str = "") -> Any:
    """Return a state of the type `kind` from flattened values; KeyError, TypeError or ValueError if they do not fit."""
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(option for option in get_args(kind) if option is not type(None))
        if path not in values and not any(name.startswith(f"{path}/") for name in values):
            return None
    if get_origin(kind) is list:
        (item,) = get_args(kind)
        return [restore(item, values, f"{path}/{number}") for number in range(values[path])]
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        prefix = f"{path}/" if path else ""
        return kind(**{name: restore(hint, values, prefix + name) for name, hint in hints.items()})
    value, expected = values[path], np.ndarray if get_origin(kind) is np.ndarray else kind
    if expected is not Any and not isinstance(value, expected):
        raise TypeError(f"{path}: {type(value).__name__} in place of {expected.__name__}")
    return value
