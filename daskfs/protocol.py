"""READ FIRST: the interface between the engine and the algorithms.

The store cuts a dataset into *blocks*. The engine decides which worker reads which block, and when. An *algorithm*
folds blocks into a *state* and turns the final state into a *result*:

    state = algorithm.start(meta, seed)
    for each pass:
        before its first block:          state = algorithm.update(state, columns of algorithm.visit_first(state))
        for each block:                  state = algorithm.update(state, block)
        (several shards of a pass)       state = algorithm.merge([state of shard 0, state of shard 1, ...])
        state, go_on = algorithm.end_pass(state)
    after the last pass:                 state = algorithm.update(state, columns of algorithm.revisit(state))
    result = algorithm.result(state)

An `AsynchronousAlgorithm` splits `update` in two, so that workers need not wait for each other. Workers turn blocks
into *offers*. A *centre*, the dask actor that owns the state, folds the offers into the state and sends *views* (parts
of the state) to workers, like the push and pull of a parameter server:

    view = algorithm.view(state, worker)                     # at the centre, for one worker
    own, offer = algorithm.work(own, view, block)            # on the worker; the view may be out of date
    offer = algorithm.combine_offers(offer, later, view)     # on the worker, while the centre is busy
    state = algorithm.accept(state, offer)                   # at the centre

This file imports only numpy. The algorithms under ``algorithms/`` and the engine import this file, but do not import
each other.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

Kind = Literal["dense", "sparse"]
Axis = Literal["columns", "rows"]
Label = float | str
_USUAL_FDR = 0.1  # up to which q-values are counted where no limit was given
State = Any
"""The state of an algorithm: a dataclass whose fields are arrays, numbers, strings, None, other such dataclasses, named
tuples of arrays, or lists of these types. `copy_state`, `flatten` and `restore` work on any such dataclass."""
NO_PARENT = 2**64 - 1
"""Stands in place of both parent ids of a feature that is not a product of two features; feature ids have 63 bits."""


def _no_features(space: str) -> NDArray[np.uint64]:
    return np.empty(0, np.uint64)


def _no_groups() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Meta:
    """Facts about a dataset that are known before its blocks are read: its shape, its labels, and sizes in bytes."""

    kind: Kind
    n_samples: int
    n_features: int
    """How many features can be chosen: columns, the largest id + 1, or distinct names where ids are hashes."""
    n_entries: int
    """How many numbers are stored: the non-zeros of a sparse dataset, or all cells of a dense dataset."""
    max_id: int
    """The largest feature id, which may exceed `n_features` because ids may be hashes or packed k-mers."""
    classes: tuple[Label, ...] | None
    """The distinct labels, sorted, where the target is a class; None where the target is a real number."""
    block_nbytes: int
    """Bytes of the largest block in memory."""
    itemsize: int = 4
    """Bytes of one number: 4 for float32, 8 for float64."""
    weighted: bool = False
    """Whether rows have weights."""
    n_shards: int = 1
    """How many workers share a pass and merge their states at fixed places of the pass."""
    members: Callable[[str], NDArray[np.uint64]] = _no_features
    """Returns the ascending ids of all features in a name space, the part of feature names before "^", "=" or ":"."""
    mixed: bool | None = None
    """Whether the labels come in no particular order of rows; False for rows sorted by label or in runs of a label, and
    None where this is not known."""
    targets: tuple[str, ...] | None = None
    """The names of several targets, which are real numbers; None where rows have one target or a class."""
    axes: tuple[Axis, ...] = ("columns", "rows")
    """The axes along which the blocks of the dataset can be read."""
    row_groups: Callable[[], NDArray[np.int64]] = _no_groups
    """Returns the number of the group of every row, for rows that belong together; an empty array without groups."""

    def class_codes(self, y: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the class numbers 0 … C-1 of target values in the encoding of `ColumnBlock.y`."""
        if self.classes is None:
            raise ValueError("the target is a real number, it has no classes")
        if isinstance(self.classes[0], str):
            return y.astype(np.int64)
        return np.searchsorted(np.asarray(self.classes, dtype=np.float64), y).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBlock:
    """Whole columns of a dense matrix, with every column contiguous in memory."""

    ids: NDArray[np.uint64]  # (b,), ascending
    X: NDArray[np.floating[Any]]  # (n, b), Fortran order
    y: NDArray[np.float64]
    """Target of every row: the number itself, or the class number where labels are strings; or (n, targets)."""
    weight: NDArray[np.float32] | None = None
    """Importance weight of every row; None if the rows have no weights."""

    @property
    def nbytes(self) -> int:
        return self.X.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class SparseColumnBlock:
    """Whole columns of a sparse matrix in CSC form, with ascending row numbers within a column."""

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
    """Consecutive whole rows of a dense matrix, starting at row number `first`."""

    first: int
    X: NDArray[np.floating[Any]]  # (r, p), C order
    y: NDArray[np.float64]
    weight: NDArray[np.float32] | None = None

    @property
    def nbytes(self) -> int:
        return self.X.nbytes + self.y.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class SparseBlock:
    """Consecutive whole rows of a sparse matrix in CSR form from row `first` on, with ascending ids in a row."""

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
    """Parameters of the random feature map (kernel, seed, scaling) that turns columns of a dataset into features."""

    kernel: Literal["gaussian", "laplacian", "perceptron"]
    gamma: float
    seed: int
    offset: NDArray[np.float64]
    scale: NDArray[np.float64]
    """(d,): a column x is replaced by (x - offset) · scale before the feature map."""
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    """(d,): the smallest (`low`) and largest (`high`) value of every column in the training data."""
    importance: NDArray[np.float64]
    """(d,): the importance of every column for the model's scores, normalised to a sum of 1."""
    inputs_per_feature: tuple[int, ...] = ()
    """Numbers of columns that random features are functions of, by the ids of features as in `basis.Basis`."""


@dataclass(frozen=True, slots=True)
class ErrorControl:
    """How many of the selected features are expected to be false, by comparison with permuted targets."""

    n_searched: int
    """How many features the algorithm selected, of which those that stand out most are reported."""
    n_reported: int
    max_fdr: float | None
    """The largest q-value of a reported feature that the user allowed, or None."""
    max_false: float | None
    """How many of the reported features may be expected to be false, or None."""
    p_value_nothing: float | None
    """The p-value of "there is nothing here": that the target is as good as permuted. None with one permuted target."""
    expected_false: tuple[float, ...]
    """How many features are expected to be false among the first 1, 2, … of those searched."""
    q_values: tuple[float, ...]
    """The q-values of all features searched, in the same order."""
    n_permuted: int = 10
    """The number of permuted targets."""

    def record(self) -> dict[str, Any]:
        """Return all fields for JSON."""
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ErrorControl:
        """Return the error control of a `record`, in which lists stand for tuples. Raise ValueError if it is damaged.

        >>> control = ErrorControl(2, 1, 0.1, None, 0.1, (0.1, 1.0), (0.1, 0.5))
        >>> ErrorControl.from_record(control.record()) == control
        True
        """
        values: dict[str, Any] = {entry.name: record.get(entry.name) for entry in fields(cls)}
        values["n_permuted"] = record.get("n_permuted", 10)
        columns = {name: values.pop(name) for name in ("expected_false", "q_values")}
        limits = [values[name] for name in ("max_fdr", "max_false", "p_value_nothing") if values[name] is not None]
        counts = [values[name] for name in ("n_searched", "n_reported", "n_permuted")]
        numbers = [*limits, *counts]
        for column in columns.values():
            if not isinstance(column, list | tuple) or len(column) != counts[0]:
                raise ValueError("error control has no number for each of the features searched")
            numbers += column
        if not all(type(number) in (int, float) and 0 <= number < math.inf for number in numbers):
            raise ValueError("error control has something else than numbers from 0")
        if any(type(count) is not int for count in counts) or counts[1] > counts[0]:
            raise ValueError("error control has other numbers of features than whole ones")
        values |= {name: tuple(column) for name, column in columns.items()}
        return cls(**values)

    @property
    def sentence(self) -> str:
        """How many features are reported and how many of them are expected to be false at most, in words.

        >>> ErrorControl(3, 2, 0.1, None, None, (0.1, 0.2, 1.0), (0.1, 0.1, 0.3)).sentence
        '2 of 3 features at a false discovery rate of 0.1; at most about 0.2 expected to be false'
        """
        n, p_value = self.n_reported, self.p_value_nothing
        at = f" at a false discovery rate of {self.max_fdr:g}" if self.max_fdr is not None else ""
        at += f" with at most {self.max_false:g} expected to be false" if self.max_false is not None else ""
        nothing = "" if p_value is None else f'; the p-value of "there is nothing here" is {p_value:.2g}'
        if p_value is not None and p_value * (self.n_permuted + 1) < 1.5:  # a rank of 1
            nothing += f", the least that {self.n_permuted} permutations can show"
        if not n:
            return f"none of {self.n_searched:,} features{at}{nothing}"
        if not at:  # far below a cut the expected number is too large, since it counts as if nothing were true
            n_good = sum(q <= _USUAL_FDR for q in self.q_values)
            return f"all {n:,} features, as no limit was given; {n_good:,} have a q-value up to {_USUAL_FDR:g}{nothing}"
        expected = min(self.expected_false[n - 1], n)
        return f"{n:,} of {self.n_searched:,} features{at}; at most about {expected:.2g} expected to be false{nothing}"


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The outcome of an algorithm: features in order of importance, and a linear model over these features."""

    features: NDArray[np.uint64]
    """The selected features, most important first; then the `n_kept` features that the user asked to keep."""
    weights: NDArray[np.float64]  # (k,), (k, classes) or (k, targets), aligned with `features`
    intercept: NDArray[np.float64]  # (1,), (classes,) or (targets,)
    classes: tuple[Label, ...] | None
    """The labels that the scores tell apart, of which a positive score means the second; None for a real target."""
    history: Sequence[dict[str, float]]  # one record per pass or round, "objective" in each
    parents: NDArray[np.uint64] | None = None
    """(k, 2): ids of the two factors if a feature is a product, else `NO_PARENT` twice; None without any products."""
    importance: NDArray[np.float64] | None = None
    """How much each of `features` contributes to the model, by the algorithm's own measure, on any scale from 0; None
    stands for the size of the weights."""
    n_kept: int = 0
    """How many of the last `features` are in the model only because the user asked to keep them."""
    chosen: Mapping[str, float | str] = field(default_factory=dict)
    """Values that the data decided for parameters such as ``loss="auto"``, by the name of the parameter."""
    expansion: Expansion | None = None
    """The map that computes the features if they are random features; None if the features are columns."""
    statistics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Numbers for each of `features` by name, such as "score" and "p_value", where an algorithm computes any."""
    error_control: ErrorControl | None = None
    """How many of `features` are expected to be false, where an algorithm was asked for that."""
    remarks: tuple[str, ...] = ()
    """Remarks on the result for the user, such as a warning that too few features were found, one line per remark."""


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """A summary of a selection that is still running, for progress bars and the dashboard."""

    objective: float
    """The objective; NaN while no objective has been computed."""
    changes: float
    """How many features entered the selected set since the pass began; NaN where the algorithm does not count them."""
    features: NDArray[np.uint64]
    """The ids of a few features, the most important first."""
    weights: NDArray[np.float64]  # (t,), (t, classes) or (t, targets), aligned with `features`
    parents: NDArray[np.uint64] | None = None
    """(k, 2): ids of the two factors of features that are products; see `Result.parents`."""
    staleness: NDArray[np.int64] | None = None
    """``staleness[v]`` is the number of offers in this pass that were based on a view v versions old, or None."""
    kind: str = ""
    """The kind of random features, such as "gaussian"; empty if the features are columns."""


@dataclass(frozen=True, slots=True)
class Words:
    """Texts for reports: the title of an algorithm, and titles for the columns of its history."""

    title: str
    """The name of the algorithm as its paper writes it."""
    columns: Mapping[str, str]
    """Titles of the columns of `Result.history` that a report shows between the objective and the time, in order."""
    curves: tuple[str, ...] = ()
    """Names of the history columns whose values compare from pass to pass, best first; a report plots the first of them
    that has several values. Objectives compare only if all passes have the same penalties and the same features."""
    explain_history: Callable[[Mapping[str, Sequence[float]]], str] = lambda history: ""
    """Return a sentence on how to read a history, or "", from the finite values of every column of the history."""


class Schedule(StrEnum):
    """How several workers share a pass. With one worker every schedule gives exactly the result of the serial loop."""

    SERIAL = "serial"
    """Workers take turns, because a block needs the state that the previous block left."""
    SYNCHRONOUS = "synchronous"
    """Every worker folds a shard of the blocks, and the states of all shards are merged at fixed places of a pass."""
    ASYNCHRONOUS = "asynchronous"
    """Workers send offers to a *centre*, the dask actor that owns the state, without waiting for each other."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How an algorithm's work can be shared among workers."""

    schedule: Schedule = Schedule.SERIAL
    min_merges_per_pass: int = 1
    """How often shards must merge in a pass: 1 where merging only adds up, more where shards learn from each other."""
    min_bytes_per_merge: int = 0
    """Bytes of blocks that a shard must read between two merges to be worth a merge; small datasets get few shards."""
    has_fixed_shards: bool = False
    """Whether the number of shards follows from the size of the data alone, also without a cluster, so that the result
    does not depend on the number of workers. A worker may get several shards, and more workers than shards wait."""
    driver_only: frozenset[str] = frozenset()
    """Names of state fields that only `end_pass` and `result` use; on workers and in `merge` these fields are None."""
    needs_fresh_views: bool = False
    """Whether an outdated view misleads the workers of an asynchronous pass, instead of only causing rejected offers.
    If True, workers get a new view for every group of blocks and wait for the dask actor that owns the state."""


class Algorithm:
    """Base class of all algorithms: a frozen dataclass of parameters, without data and without state.

    An algorithm defines at least `start`, `update`, `end_pass`, `result` and `nbytes`, or only a `resolve` that returns
    an algorithm with these methods.

    `update` and `end_pass` may change the state in place; `merge` must not change the states in its argument. Blocks
    are read-only. Results do not depend on the size of blocks, unless the docstring of the algorithm says otherwise.
    """

    if TYPE_CHECKING:  # parameters, which are fields of the dataclasses: a property would become a field's default

        @property
        def n_select(self) -> int | None:
            """How many features to select, or None where the data decide."""

        @property
        def passes(self) -> int | None:
            """The maximum number of passes, or None where the number is not known beforehand."""

        @property
        def loss(self) -> str | None:
            """The loss, "auto" where the target decides, or None if the algorithm has no choice of a loss."""

        @property
        def keep(self) -> tuple[str, ...]:
            """Names of features and name spaces that are in the model in any case; by default none."""

        @property
        def balanced(self) -> bool:
            """Whether classes are predicted as if all of them were equally frequent; by default False."""

        @property
        def error_control(self) -> str | None:
            """How false features are counted, or None, the default, if they are not."""

        @property
        def groups(self) -> str | None:
            """The column or name space whose values say which rows belong together, or None, the default."""

    else:
        loss, keep, balanced, error_control, groups = None, (), False, None, None

    axis: ClassVar[Axis]
    """Whether the algorithm streams blocks of columns or blocks of rows."""
    several_targets: ClassVar[bool] = False
    """Whether the algorithm selects features for several targets at once (see `Meta.targets`)."""
    fits_model: ClassVar[bool] = True
    """Whether the algorithm fits a model of the selected features; otherwise all weights are 0."""
    verb: ClassVar[str] = "read"
    """A verb for the work on blocks, such as "read", after which Dask tasks are named."""

    @property
    def name(self) -> str:
        """The name of the algorithm in records, events and messages."""
        return type(self).__name__

    @property
    def max_reads(self) -> int | None:
        """How many times the data are read at most: `passes`, and more if the algorithm also reads them otherwise."""
        return self.passes

    @property
    def needs_names(self) -> bool:
        """Whether the algorithm looks up features by name in `start`, for which the dataset must list all names."""
        return bool(self.keep or self.groups)

    @property
    def extra_work(self) -> str:
        """A remark for the plan on an option that takes much more time than the algorithm usually does, or ""."""
        return ""

    @property
    def sharing(self) -> Sharing:
        """How several workers share the work of this algorithm; by default the workers take turns."""
        return Sharing()

    def resolve(self, meta: Meta) -> Algorithm:
        """Return the algorithm to run on a dataset, usually `self`. Raise OptionError if the dataset is unsuitable."""
        return self

    def needs_mixed_rows(self, meta: Meta) -> bool:
        """Return whether rows must not be sorted by label, as for an algorithm that learns row by row."""
        return False

    def rehearse(self, meta: Meta) -> bool:
        """Learn from a few made-up rows, to compile the kernels of a run on a dataset and no others, and return True.

        The base class returns False, and all kernels of the algorithm's module are compiled before a run.
        """
        return False

    def start(self, meta: Meta, seed: int) -> State:
        """Return the initial state, before the first block is folded in."""
        raise NotImplementedError

    def update(self, state: State, block: Block) -> State:
        """Fold one block into the state."""
        raise NotImplementedError

    def merge(self, states: Sequence[State]) -> State:
        """Return one state merged from the states of several shards, which all started from the same state."""
        raise NotImplementedError(f"{type(self).__name__} cannot share a pass")

    def end_pass(self, state: State) -> tuple[State, bool]:
        """Finish a pass. Return the state, and whether another pass is needed."""
        raise NotImplementedError

    def visit_first(self, state: State) -> NDArray[np.uint64]:
        """Return ids of columns to fold into the state before the next pass; by default no ids."""
        return np.empty(0, np.uint64)

    def revisit(self, state: State) -> NDArray[np.uint64]:
        """Return ids of columns to fold into the state once more after the last pass; by default no ids."""
        return np.empty(0, np.uint64)

    def result(self, state: State) -> Result:
        """Return the selected features and their linear model, computed from the final state."""
        raise NotImplementedError

    def nbytes(self, meta: Meta) -> int:
        """Return an upper bound of the memory for the state and the work on the state, without the memory of blocks."""
        raise NotImplementedError

    def driver_nbytes(self, meta: Meta) -> int:
        """Return the part of `nbytes` that only the driver needs, for the state fields in `Sharing.driver_only`."""
        return 0

    def preview(self, state: State, limit: int) -> Preview | None:
        """Return a summary of the state with at most `limit` features, without changing the state."""
        return None


class AsynchronousAlgorithm(Algorithm):
    """Base class of algorithms for `Schedule.ASYNCHRONOUS`.

    The state of an asynchronous algorithm has a field ``version`` that rises when views change. An offer may reach the
    dask actor with the state late, twice or never without harm. An `update` with a block of no columns only copies the
    target into the state. Workers also send the columns of `visit_first` and `revisit` as offers.
    """

    def view(self, state: State, worker: int) -> State:
        """Return the small part of the state that a worker needs for its work on blocks."""
        raise NotImplementedError

    def work(self, own: State | None, view: State, block: Block, worker: int) -> tuple[State, State | None]:
        """Process a block on a worker. Return what the worker remembers, and an offer to send to the centre, or None.

        What the worker remembers is passed as `own` to the next call.
        """
        raise NotImplementedError

    def combine_offers(self, offer: State, later: State, view: State) -> State:
        """Return one offer of the usual size, combined from two offers that could not be sent yet."""
        raise NotImplementedError

    def remaining_offer(self, own: State) -> State | None:
        """Return an offer of results that a worker has gathered and not offered yet, or None if it has offered all."""
        return None

    def accept(self, state: State, offer: State) -> State:
        """Fold an offer into the state, whatever version of the view the offer was based on."""
        raise NotImplementedError

    def n_workers(self, state: State) -> int:
        """Return how many workers have a part of their own in the state, or 0 if the state has no parts by worker."""
        return 0

    def held_features(self, state: State) -> NDArray[np.uint64]:
        """Return the ids of columns that rebuild this state, if `update` folds these columns into an older state."""
        raise NotImplementedError


def copy_state(state: State) -> State:
    """Return a deep copy of a state: the copy shares no array with the original."""
    if isinstance(state, np.ndarray):
        return np.copy(state, order="K")
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{entry.name: copy_state(getattr(state, entry.name)) for entry in fields(state)})
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return type(state)(*map(copy_state, state))
    if isinstance(state, list):
        return [copy_state(item) for item in state]
    return state


def take_fields(state: State, names: frozenset[str]) -> tuple[State, dict[str, Any]]:
    """Return the state with None in place of the named fields, and a dict of the values of these fields."""
    held = {name: getattr(state, name) for name in names}
    return (replace(state, **dict.fromkeys(names)) if names else state), held


def put_fields(state: State, held: Mapping[str, Any]) -> State:
    """Return the state with the values of `held` put back into its fields; the inverse of `take_fields`."""
    return replace(state, **held) if held else state


def flatten(state: State) -> dict[str, Any]:
    """Return the arrays and scalars of a state by name, such as ``"sets/0/weights"``; fields with None are left out.

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
        for entry in fields(value):
            yield from _leaves(f"{path}/{entry.name}", getattr(value, entry.name))
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
    """Return a state of type `kind` from values of `flatten`. Raise KeyError, TypeError or ValueError for others."""
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(option for option in get_args(kind) if option is not type(None))
        if path not in values and not any(name.startswith(f"{path}/") for name in values):
            return None
    if get_origin(kind) is list:
        (item,) = get_args(kind)
        if values[path] < 0:
            raise ValueError(f"{path}: {values[path]} items")
        return [restore(item, values, f"{path}/{number}") for number in range(values[path])]
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        hints = get_type_hints(kind)
        prefix = f"{path}/" if path else ""
        return kind(**{name: restore(hint, values, prefix + name) for name, hint in hints.items()})
    value, expected = values[path], np.ndarray if get_origin(kind) is np.ndarray else kind
    if expected is not Any and not isinstance(value, expected):
        raise TypeError(f"{path}: {type(value).__name__} in place of {expected.__name__}")
    return value
