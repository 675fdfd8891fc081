"""Online Substitution with permuted targets beside the real one, for `error_control="permuted"`.

A selected set of its own follows each of the permuted targets (*null sets*). One sweep over a block computes the
gradients of all sets, so that the data are read as often as without error control. All sets are treated alike, or their
t-values would not compare: one ridge penalty that no target chooses, the same passes, which end when no set changes,
and no second try for rejected columns, which would have to read other columns for each of the sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms import losses
from daskfs.algorithms.error_control import check_group_numbers, count_reported, q_values
from daskfs.algorithms.keep import kept_features
from daskfs.algorithms.losses import Floats
from daskfs.algorithms.substitution import exchange
from daskfs.algorithms.substitution.block import SMALL_RIDGE, BlockMethod, BlockState
from daskfs.algorithms.substitution.columns import AnyColumns, columns_of, dense_column, sweep_sets, windows_of
from daskfs.algorithms.substitution.error_control import (
    N_PERMUTED,
    check_groups,
    expected_false,
    number_groups,
    permuted_rows,
    t_values,
)
from daskfs.algorithms.substitution.final_fit import fit
from daskfs.algorithms.substitution.selected_set import RejectedColumns, SelectedSet, set_nbytes
from daskfs.errors import OptionError
from daskfs.protocol import Block, ErrorControl, Meta, Result, Schedule, Sharing, copy_state

MOST_RIDGE = {"squared": 0.1, "logistic": 0.02}
"""The ridge of the search by loss, on columns of unit norm, and the largest that is allowed."""
SMALLEST_RIDGE = {"logistic": 0.002}
"""The smallest ridge that is allowed: with 0.0001, 11 to 15 % of the features reported were false."""
_RIDGE_OF_T = {"squared": 1e-6}
"""The ridge under which features are judged, by loss; others are judged under that of the search.

A ridge λ leaves a share λ of every effect in the residuals, where its neighbours explain it: they stand out if effects
are large beside the noise (with 4,000 rows and λ = 0.1, half of the features reported at a false discovery rate of
0.1). Without a ridge, logistic weights grow where columns tell classes apart, and no effect stands out.
"""
_MANY_ROWS = 4096  # with more a smaller ridge is enough for the squared loss
_MOST_COLUMNS = 8192  # of a sparse block that are swept at once
_NO_IDS = np.empty(0, np.uint64)
_FEW_ROWS = 7  # for each feature searched, below which many true features do not stand out


@dataclass(slots=True)
class PermutedState(BlockState):
    """A `BlockState` with null sets."""

    seed: int = 0
    groups: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # of every row, or empty
    group_ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # of the columns with groups
    group_ids_read: int = 0
    nulls: list[SelectedSet] = field(default_factory=list)
    residuals: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0)))  # (sets, n), the real set first
    curvatures: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0)))  # empty if they are 1
    nulls_changed: bool = False  # whether a column has entered a null set in this pass


@dataclass(frozen=True)
class PermutedMethod(BlockMethod):
    """`BlockMethod` with error control: features have t-values, q-values and expected numbers of false features."""

    several_targets = False

    def start(self, meta: Meta, seed: int) -> PermutedState:
        plain, code = super().start(meta, seed), losses.CODE[self.params.loss]
        shape = meta.n_samples, self.n_select, meta.itemsize, code, self.params.intercept
        values = {name: getattr(plain, name) for name in BlockState.__dataclass_fields__}
        group_ids = _NO_IDS if self.params.groups is None else kept_features([self.params.groups], meta, "groups")
        n_curved = 0 if self.params.loss == "squared" else N_PERMUTED + 1
        return PermutedState(
            **values,
            seed=seed,
            groups=np.zeros(meta.n_samples, np.int64) if len(group_ids) else meta.row_groups(),
            group_ids=group_ids.astype(np.int64),
            nulls=[SelectedSet.empty(*shape, ridge=plain.sets[0].ridge) for _ in range(N_PERMUTED)],
            residuals=np.zeros((N_PERMUTED + 1, meta.n_samples), plain.sets[0].r.dtype),
            curvatures=np.zeros((n_curved, meta.n_samples), plain.sets[0].r.dtype),
        )

    @property
    def sharing(self) -> Sharing:
        merges = super().sharing.min_merges_per_pass
        return Sharing(Schedule.SYNCHRONOUS, min_merges_per_pass=merges, has_fixed_shards=True)

    def update(self, state: BlockState, any_block: Block) -> PermutedState:
        assert isinstance(state, PermutedState)
        block = columns_of(any_block)
        if state.group_ids_read < len(state.group_ids):
            self._read_groups(state, block)
            return state
        self._take_target(state, block)
        self._begin_shard(state)
        for part in windows_of(block, _MOST_COLUMNS) if len(block.ids) else ():
            self._update_sets(state, part)
        return state

    def _update_sets(self, state: PermutedState, block: AnyColumns) -> None:
        """Let columns enter all sets, whose gradients one sweep computes."""
        sweeps = sweep_sets(block, state.residuals, state.curvatures, self.params.intercept)
        are_groups = np.isin(block.ids.astype(np.int64), state.group_ids)
        for sweep in sweeps if are_groups.any() else ():
            sweep.g[:, are_groups], sweep.norm[are_groups] = 0.0, 0.0  # as of constants, which are never selected
        for number, (selected, sweep) in enumerate(zip(_all_sets(state), sweeps, strict=True)):
            if number and not exchange.any_nominee(selected, sweep, self.n_select):
                continue
            n_entered = exchange.update_set(selected, block, self.n_select, sweep)
            if n_entered:
                _write_rows(state, number, selected)
            if number:
                state.nulls_changed |= n_entered > 0
            else:
                state.changes += n_entered

    def visit_first(self, state: BlockState) -> NDArray[np.uint64]:
        assert isinstance(state, PermutedState)
        return state.group_ids[state.group_ids_read :].astype(np.uint64)

    def _read_groups(self, state: PermutedState, block: AnyColumns) -> None:
        """Read groups of rows from columns: the number of a group, or the category of which a column has 1 in a row."""
        for number, feature in enumerate(block.ids.astype(np.int64).tolist()):
            values = dense_column(block, number)
            place = int(np.flatnonzero(state.group_ids == feature)[0])
            codes = (values != 0) * (place + 1) if len(state.group_ids) > 1 else _codes_of(values)
            state.groups += codes
            state.group_ids_read += 1
        if state.group_ids_read == len(state.group_ids) > 1 and (n_without := int((state.groups == 0).sum())):
            raise OptionError(f"groups: {n_without:,} rows have no value of {self.params.groups!r:.80}; leave them out")

    def _take_target(self, state: BlockState, block: AnyColumns) -> None:
        is_first = not state.started
        super()._take_target(state, block)
        if not (is_first and isinstance(state, PermutedState)):
            return
        target = state.sets[0].target
        if len(state.groups):
            state.groups = number_groups(state.groups)
            check_groups(target[0], state.groups)
        for number, null in enumerate(state.nulls):
            null.target[:] = target[:, permuted_rows(state.seed, number, target[0], state.groups)]
            null.row_weight[:] = 1.0
            null.refresh()
        state.groups = state.groups[:0]
        _write_all_rows(state)

    def merge(self, states: Sequence[BlockState]) -> PermutedState:
        merged, begun = super().merge(states), [state for state in states if state.started]
        assert isinstance(merged, PermutedState)
        for number in range(N_PERMUTED if begun else 0):
            of_shards = [state.nulls[number] for state in begun if isinstance(state, PermutedState)]
            of_shards.sort(key=lambda null: np.sort(null.features).tolist())
            merged.nulls[number] = copy_state(of_shards[0])
            exchange.merge_sets([merged.nulls[number], *of_shards[1:]], self.n_select)
        merged.nulls_changed = any(getattr(state, "nulls_changed", False) for state in states)
        _write_all_rows(merged)
        return merged

    def end_pass(self, state: BlockState) -> tuple[BlockState, bool]:
        assert isinstance(state, PermutedState)
        for null in state.nulls if state.nulls_changed else ():
            null.refresh()
        _, go_on = super().end_pass(state)
        go_on |= state.nulls_changed and state.passes < self.passes
        state.nulls_changed = False
        _write_all_rows(state)
        return state, go_on

    def revisit(self, state: BlockState) -> NDArray[np.uint64]:
        return np.empty(0, np.uint64)

    def result(self, state: BlockState) -> Result:
        assert isinstance(state, PermutedState)
        ridge = _RIDGE_OF_T.get(self.params.loss)
        selected, null_t = _fitted(state.sets[0], ridge), [t_values(_fitted(null, ridge)) for null in state.nulls]
        t, selected.ridge = t_values(selected), state.sets[0].ridge
        order = np.argsort(-t, kind="stable")
        slots, t, best = selected.fixed + order, t[order], [values.max(initial=0.0) for values in null_t]
        expected = expected_false(t, np.concatenate(null_t))
        q = q_values(t, expected)
        n_reported = count_reported(t, expected, self.params.max_fdr, self.params.max_false)
        control = ErrorControl(
            n_searched=len(t),
            n_reported=n_reported,
            max_fdr=self.params.max_fdr,
            max_false=self.params.max_false,
            p_value_nothing=(1 + sum(value >= t[0] for value in best)) / (N_PERMUTED + 1) if len(t) else 1.0,
            expected_false=tuple(expected.tolist()),
            q_values=tuple(q.tolist()),
            n_permuted=N_PERMUTED,
        )
        reported = replace(state, sets=[_only(selected, slots[:n_reported])])
        model = super().result(reported)
        numbers = {"t_value": t, "expected_false": expected, "q_value": q}
        return replace(
            _in_order(model, selected.ids[slots[:n_reported]]),
            importance=t[:n_reported] ** 2,
            statistics={name: values[:n_reported] for name, values in numbers.items()},
            error_control=control,
            remarks=self._remarks(len(state.weight)),
        )

    def _remarks(self, n_samples: int) -> tuple[str, ...]:
        if n_samples >= _FEW_ROWS * self.n_select:
            return ()
        return (
            f"{n_samples:,} rows are few to judge {self.n_select:,} features: below {_FEW_ROWS} rows for each feature "
            "that is searched, many true ones do not stand out; search fewer",
        )

    def nbytes(self, meta: Meta) -> int:
        n, n_sets = meta.n_samples, N_PERMUTED + 1
        nulls = N_PERMUTED * set_nbytes(n, self.n_select, meta.itemsize)
        rows = n_sets * n * meta.itemsize * (1 if self.params.loss == "squared" else 2)
        if meta.kind == "dense":
            widest = meta.block_nbytes // (n * meta.itemsize)
        else:
            widest = min(meta.n_features, _MOST_COLUMNS)
            rows *= 2  # by rows, for sparse columns
        numbers = {"dense": (12, 16), "sparse": (7, 12)}[meta.kind][self.params.loss != "squared"]  # of a column
        sweeps = n_sets * widest * 8 * numbers
        copies = set_nbytes(n, self.n_select, meta.itemsize) + 40 * n  # of the features reported, and permuted rows
        return super().nbytes(meta) + nulls + rows + sweeps + copies

    def _first_ridge(self, n_samples: int) -> float:
        if self.params.ridge != "auto":
            return super()._first_ridge(n_samples)
        is_small = n_samples > _MANY_ROWS and self.params.loss == "squared"
        return SMALL_RIDGE if is_small else MOST_RIDGE[self.params.loss]

    def _n_folds(self, n_samples: int) -> int:
        return 0  # held-back rows would choose the ridge of the real target alone


def _codes_of(values: Floats) -> NDArray[np.int64]:
    """Return numbers of groups for the values of a column of numbers. Raise OptionError if these are not groups."""
    check_group_numbers(values)
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _all_sets(state: PermutedState) -> list[SelectedSet]:
    return [state.sets[0], *state.nulls]


def _write_rows(state: PermutedState, number: int, selected: SelectedSet) -> None:
    """Write the residuals and curvatures of a set into the arrays that a sweep reads."""
    state.residuals[number] = selected.r[0]
    if len(state.curvatures):
        state.curvatures[number] = selected.h


def _write_all_rows(state: PermutedState) -> None:
    for number, selected in enumerate(_all_sets(state)):
        _write_rows(state, number, selected)


def _fitted(selected: SelectedSet, ridge: float | None) -> SelectedSet:
    """Return a copy of a set with weights that minimise the loss, with a given ridge penalty or that of the search."""
    copied = selected.copy_fit()
    copied.ridge = selected.ridge if ridge is None else ridge
    fit(copied)
    return copied


def _only(selected: SelectedSet, slots: NDArray[np.int64]) -> SelectedSet:
    """Return a set with the features of some slots, whose weights are still to be fitted."""
    slots = np.concatenate([np.arange(selected.fixed), slots])
    X, w = np.asfortranarray(selected.X[:, slots]), selected.w[:, slots]
    by_slot = {name: getattr(selected, name)[slots] for name in ("ids", "mean", "norm", "diagonal")}
    inverse = selected.inverse[np.ix_(slots, slots)]
    u = (w.astype(X.dtype) @ X.T).astype(np.float64)
    return replace(selected, k=len(slots), X=X, w=w, inverse=inverse, u=u, rejected=RejectedColumns(), **by_slot)


def _in_order(result: Result, ids: NDArray[np.int64]) -> Result:
    """Return a result with its features in the order of `ids`."""
    place = {feature: number for number, feature in enumerate(result.features.tolist())}
    order = np.array([place[feature] for feature in ids.tolist()], np.int64)
    return replace(result, features=result.features[order], weights=result.weights[order])
