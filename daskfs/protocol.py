"""READ FIRST: the words in which the engine and the algorithms speak to each other.

The store cuts a dataset into *blocks*; the engine decides who reads which block and when; an
*algorithm* folds blocks into a *state* and turns the final state into a *result*:

    state = algorithm.start(meta, seed)
    for each pass:
        for each block:            state = algorithm.update(state, block)
        (in rounds)                state = algorithm.merge([state of worker 0, state of worker 1, ...])
        state, go_on = algorithm.end_pass(state)
    for columns seen once more:    state = algorithm.update(state, those of algorithm.revisit(state))
    result = algorithm.result(state)

An algorithm whose workers need not wait for each other (`Central`) splits `update` in two: workers
turn blocks into *offers*, a centre folds offers into the one state and publishes a *view* of it:

    view = algorithm.view(state, lane)                       # at the centre, for one of its workers
    own, offer = algorithm.work(own, view, block)            # on a worker, with a view that may be old
    offer = algorithm.both(offer, later, view)               # while the centre is busy with one before
    state = algorithm.accept(state, offer)                   # at the centre

This file needs numpy and nothing else: the three papers under ``algorithms/`` import it, the
machinery around them imports it, and neither imports the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Kind = Literal["dense", "sparse"]
Axis = Literal["columns", "rows"]
Label = float | str
State = dict[str, Any]
"""Flat: arrays and scalars by name, so that checkpoint, pickle and size are generic."""
NO_PARENT = 2**64 - 1
"""In place of the parents of a feature that is no product of two others; ids have 63 bits."""


def copied(state: State) -> State:
    """A state with memory of its own."""
    return {name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in state.items()}


def _nobody(space: str) -> NDArray[np.uint64]:
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
    lanes: int = 1
    """How many workers share a pass and merge what they learned now and then."""
    members: Callable[[str], NDArray[np.uint64]] = _nobody
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
class Glance:
    """What a state says at a moment's notice, to people who watch a run: a little of it, and not the last word."""

    objective: float
    """NaN while there is none."""
    changes: float
    """Of the set since the pass began; NaN where nobody counts them."""
    features: NDArray[np.uint64]
    """A few, the most important first."""
    weights: NDArray[np.float64]  # (t,) or (t, classes), aligned with `features`
    parents: NDArray[np.uint64] | None = None
    """As in `Result`."""
    lags: NDArray[np.int64] | None = None
    """How many offers of this pass came so many versions late; None without a centre."""
    called: str = ""
    """What features are that are no columns, such as "gaussian"."""


Schedule = Literal["chain", "rounds", "centre"]
"""How several workers share a pass: one after the other; side by side, merged now and then; or never waiting."""


@runtime_checkable
class Algorithm(Protocol):
    """A frozen dataclass of parameters with these methods; it holds no data and no state.

    `update` and `end_pass` may change and return the state they are given, `merge` must change none of
    its states. Nobody changes blocks, or depends on how rows or columns were cut into blocks beyond what
    the docstring says.
    """

    @property
    def axis(self) -> Axis:
        """Whether it streams column blocks or row blocks."""

    @property
    def schedule(self) -> Schedule:
        """How several workers share a pass; with one worker all three are the serial loop, bit for bit."""

    @property
    def round_nbytes(self) -> int:
        """Bytes of blocks that are worth a merge: with fewer of them in a round, a lane had better not be there."""

    @property
    def meetings(self) -> int:
        """How often, at least, lanes merge in a pass: 1 where they only add up, more where one learns from another."""

    @property
    def stays(self) -> frozenset[str]:
        """What of the state only `end_pass` and `result` look at: it is sent to no worker, `merge` never sees it."""

    def start(self, meta: Meta, seed: int) -> State:
        """The state before the first block."""

    def update(self, state: State, block: Block) -> State:
        """Fold one block into the state."""

    def merge(self, states: Sequence[State]) -> State:
        """One state from the states that several workers reached from a common one."""

    def end_pass(self, state: State) -> tuple[State, bool]:
        """Close a pass; True asks for another."""

    def revisit(self, state: State) -> NDArray[np.uint64]:
        """Columns to `update` with once more after the last pass, by random access; usually none."""

    def result(self, state: State) -> Result:
        """The selection the state stands for."""

    def nbytes(self, meta: Meta) -> int:
        """Memory the state and its work need at their largest, blocks excluded; promised before the first read."""

    def nbytes_staying(self, meta: Meta) -> int:
        """How much of `nbytes` is needed only where `end_pass` runs: what `stays`, and the work on it."""


@runtime_checkable
class Watchable(Protocol):
    """An algorithm whose runs can be watched. One that is not runs all the same."""

    @property
    def verb(self) -> str:
        """What it does with blocks, in one word: tasks are named after it."""

    def glance(self, state: State, most: int) -> Glance:
        """What there is to see, at most so many features of it; quick, at any time, and the state stays as it is."""


@runtime_checkable
class Central(Algorithm, Protocol):
    """An algorithm for the schedule ``"centre"``. Its state has a "version" that rises when workers should look again.

    An offer may reach the centre late, twice or never, and an `update` with a block of no columns only takes over the
    target; neither must do harm. Columns to `revisit` come as offers, too.
    """

    @property
    def needs_fresh_views(self) -> bool:
        """Whether an old view leads workers astray, and not only makes for an offer that is turned down.

        They are then given a new one for every group of blocks, and wait for the centre rather than go on with an old
        one; groups are short, and a pass begins with a new centre.
        """

    def view(self, state: State, lane: int) -> State:
        """What a worker needs to know of the state: small and flat."""

    def work(self, own: State, view: State, block: Block) -> tuple[State, State | None]:
        """One block on one worker: its own state (at first only its "lane"), and an offer for the centre, if any."""

    def both(self, offer: State, later: State, view: State) -> State:
        """One offer, no larger than offers are, of two that could not be sent yet, the newest view in hand."""

    def rest(self, own: State) -> State | None:
        """An offer of what a worker has gathered and not yet offered, asked for now and then."""

    def accept(self, state: State, offer: State) -> State:
        """Fold an offer into the state, whatever version of the view it was made from."""

    def keeps(self, state: State) -> NDArray[np.uint64]:
        """Features to `update` an older state with so that it becomes as good as this one, should this one be lost."""
