"""The refit of MISSION: the weights of the selected features are learned again, without the noise of a sketch.

With "auto", rows with their selected features are kept in memory while the data are read once more: all rows if they
are few enough, or a random sample of a fixed size. These are fitted by `mission.fit`. They also have common features,
and those that contribute more take the place of selected ones if that clearly lowers the loss of rows left out.

If the rows in memory are only a sample, all rows are also learned one after the other. This begins when there are too
many rows to keep, with the rows kept so far.

Several learning rates are tried, one in each *trial*, since the best rate to select features may be too slow to fit
weights. The last weights of every trial, and their mean over the last pass (Polyak averaging), compete with the fit of
rows in memory and with the weights before the refit. The weights with the least loss on held-back rows are kept.
Held-back rows are never learned, and stay in memory. No rows are held back if all rows with all features fit into
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.algorithms.mission.feature_kernels import entries_in
from daskfs.algorithms.mission.fit import RidgeRows, choose_ridge, contributions
from daskfs.algorithms.mission.memory_kernels import LOSS, ROWS, UNIT, WEIGHT, Memory, Rule, SparseRows
from daskfs.algorithms.mission.rows import NO_ROWS, join_rows, read_only, take_rows
from daskfs.algorithms.mission.table_kernels import find_ids, insert_ids
from daskfs.algorithms.mission.tables_only_kernels import Drift, refit_rows
from daskfs.protocol import Meta

_ONE_IN = 16  # rows, at most, are held back
_MAX_ROWS = 4096
_MAX_ENTRIES = 1 << 20  # of the held-back rows, on average
_FIT_ENTRIES = 1 << 20  # kept in memory for the fit
_FIT_ROWS = 1 << 18
_CLEARLY = 0.98  # features of larger contribution replace those of larger weight if their loss is this share or less
_FACTORS = (1.0, 4.0)  # of the learning rate, one for each trial


class Trial(NamedTuple):
    """Weights, biases and AdaGrad sums of one trial of a learning rate, and the weights' sums over rows."""

    weights: NDArray[np.float32]
    pace: NDArray[np.float32]
    bias: NDArray[np.float32]
    bias_sum: NDArray[np.float32]
    drift: NDArray[np.float32]
    """The `Drift` of this shard since the last merge, together with `bias_drift` and `clock`."""
    bias_drift: NDArray[np.float32]
    clock: NDArray[np.float64]
    path: NDArray[np.float32]
    """The sum of `weights` over the rows of this pass up to the last merge."""
    bias_path: NDArray[np.float32]
    path_rows: NDArray[np.float64]
    """(1,): the number of rows in the sum `path`."""

    def learned_in(self, memory: Memory) -> Memory:
        """Return the memory with the weights of this trial."""
        return memory._replace(weights=self.weights, pace=self.pace, bias=self.bias, bias_sum=self.bias_sum)

    def with_path(self) -> Trial:
        """Return the trial with its drift added to the sums over rows (`path`), and with zero drift."""
        rows = np.float32(self.clock[0])
        return self._replace(
            drift=np.zeros_like(self.drift),
            bias_drift=np.zeros_like(self.bias_drift),
            clock=np.zeros(1),
            path=self.path + (rows * self.weights - self.drift),
            bias_path=self.bias_path + (rows * self.bias - self.bias_drift),
            path_rows=self.path_rows + rows,
        )


@dataclass(slots=True)
class RefitState:
    """The state of a refit beside the memory: trials of learning rates, held-back rows, and rows to fit in memory."""

    trials: list[Trial]
    waits: bool
    """Whether trials begin only once `fit_rows` are too many; until then these are all rows that are not held back."""
    held_numbers: NDArray[np.int64]
    """The row numbers of `held_rows`, ascending."""
    held_rows: SparseRows
    fit_share: float
    """The share of rows that are kept in memory, 0 for none."""
    fit_numbers: NDArray[np.int64]
    """The row numbers of `fit_rows`, ascending."""
    fit_rows: SparseRows
    common: NDArray[np.uint64]
    """Common features, ascending: see `mission.common`. Rows are kept with these, too, but trials do not learn them."""
    common_units: NDArray[np.float32]

    @classmethod
    def start(
        cls,
        memory: Memory,
        fit_share: float,
        has_trials: bool,
        waits: bool,
        common: NDArray[np.uint64],
        common_units: NDArray[np.float32],
    ) -> RefitState:
        """Return the initial state of a refit; with `waits`, trials begin only if there are too many rows to keep."""
        no_numbers, waits = np.zeros(0, np.int64), has_trials and waits and fit_share == 1
        trials = _start_trials(memory) if has_trials and not waits else []
        new = find_ids(common, memory.keys[0]) < 0
        rows = (no_numbers, NO_ROWS, fit_share, no_numbers, NO_ROWS)
        return cls(trials, waits, *rows, common[new], common_units[new])

    def keys(self, memory: Memory) -> NDArray[np.uint64]:
        """Return the hash tables of the features with which rows are kept."""
        return memory.keys if not len(self.common) else self._with_common(memory).keys

    def start_pass(self) -> None:
        """Set the sums over rows of all trials to zero, since weights are averaged over the last pass only."""
        for trial in self.trials:
            for array in (trial.drift, trial.bias_drift, trial.clock, trial.path, trial.bias_path, trial.path_rows):
                array[:] = 0

    def hold_back(self, rows: SparseRows, which: NDArray[np.bool_], first: int) -> None:
        """Keep the held-back rows of a block of rows with only the selected features."""
        if which.any():
            part = np.flatnonzero(which) + first, take_rows(rows, np.flatnonzero(which))
            self.held_numbers, self.held_rows = _joined([(self.held_numbers, self.held_rows), part])

    def keep(
        self, memory: Memory, rule: Rule, rows: SparseRows, held: NDArray[np.bool_], first: int, seed: int
    ) -> None:
        """Keep a share of a block of rows with only the selected features; begin trials if it is not all rows."""
        which = is_held_back(first, len(rows.y), seed + 1, self.fit_share) & ~held
        if which.any():
            part = np.flatnonzero(which) + first, take_rows(rows, np.flatnonzero(which))
            before, (self.fit_numbers, self.fit_rows) = (
                self.fit_rows,
                _joined([(self.fit_numbers, self.fit_rows), part]),
            )
            if self.waits and self._are_too_many:
                self.trials, self.waits, totals = _start_trials(memory), False, np.zeros(3)
                self.learn(memory._replace(totals=totals), rule, before)
                memory.totals[:ROWS] += totals[:ROWS]  # the number of rows is counted already
            self._keep_fewer(seed)

    @property
    def _are_too_many(self) -> bool:
        """Whether the rows kept in memory exceed their limits."""
        return len(self.fit_rows.ids) > _FIT_ENTRIES or len(self.fit_rows.y) > _FIT_ROWS

    def _keep_fewer(self, seed: int) -> None:
        """Halve the share of the kept rows until they are few enough."""
        while self._are_too_many:
            self.fit_share /= 2
            numbers = np.flatnonzero(_is_drawn(self.fit_numbers.astype(np.uint64), seed + 1, self.fit_share))
            self.fit_numbers, self.fit_rows = self.fit_numbers[numbers], take_rows(self.fit_rows, numbers)

    def learn(self, memory: Memory, rule: Rule, rows: SparseRows) -> None:
        """Learn rows in every trial."""
        for trial, factor in zip(self.trials, _FACTORS[: len(self.trials)], strict=True):
            own = trial.learned_in(memory if trial is self.trials[0] else memory._replace(totals=np.zeros(3)))
            drift = Drift(trial.drift, trial.bias_drift, trial.clock)
            refit_rows(rows, own, drift, rule._replace(rate=factor * rule.rate))

    @classmethod
    def merge(cls, refits: Sequence[RefitState], shards: Sequence[int], seed: int) -> RefitState:
        """Return the refit state with the mean of the shards' trials, and with all their held-back rows."""
        shares, trials = np.array(shards) / sum(shards), []
        for own in zip(*(refit.trials for refit in refits), strict=True):
            arrays = zip(*(trial.with_path() for trial in own), strict=True)
            trials.append(Trial(*(_mean(parts, shares) for parts in arrays)))
        share = min(refit.fit_share for refit in refits)
        held = _joined([(refit.held_numbers, refit.held_rows) for refit in refits])
        kept = _joined([(refit.fit_numbers, refit.fit_rows) for refit in refits])
        common = refits[0].common, refits[0].common_units
        merged = cls(trials, all(refit.waits for refit in refits), *held, share, *kept, *common)
        merged._keep_fewer(seed)
        return merged

    def choose_weights(self, memory: Memory, rule: Rule) -> tuple[Memory, float, bool]:
        """Return the memory with the best weights, their loss on rows left out, and whether the weights are new."""
        candidates = [memory]
        if len(self.fit_rows.y):
            fitted, loss = self._fit(memory, rule)
            if not len(self.held_rows.y):
                return fitted, loss, True
            candidates.append(fitted)
        for trial in map(Trial.with_path, self.trials):
            rows = np.float32(max(1.0, float(trial.path_rows[0])))
            choices = (trial.weights, trial.bias), (trial.path / rows, trial.bias_path / rows)
            candidates += [memory._replace(weights=weights, bias=bias) for weights, bias in choices]
        losses = np.array([_held_back_loss(self.held_rows, candidate, rule) for candidate in candidates])
        best = int(np.nan_to_num(losses, nan=np.inf).argmin())
        return candidates[best], float(losses[best]), best > 0

    def _with_common(self, memory: Memory) -> Memory:
        """Return the memory with the common features in its table, with weight 0."""
        slots = np.flatnonzero(memory.keys[0])
        size = 1 << (2 * (len(slots) + len(self.common)) - 1).bit_length()
        larger = _in_new_tables(memory, slots, size)
        insert_ids(self.common, larger.keys[0])
        larger.pace[0, find_ids(self.common, larger.keys[0]), UNIT] = self.common_units
        return larger

    def slopes(self, memory: Memory) -> NDArray[np.float64]:
        """Return, for every weight in the tables, how fast the mean loss of the best constant falls with that weight.

        The slope is the covariance of feature and target, or for softmax of the feature and each class.
        """
        rows = self.fit_rows if len(self.fit_rows.y) else self.held_rows
        share = rows.weight / max(1e-30, float(rows.weight.sum()))
        targets = rows.y[:, None] if len(memory.bias) == 1 else rows.y[:, None] == np.arange(len(memory.bias))
        residuals = (targets - share @ targets) * share[:, None]
        entry_rows, slopes, (_, capacity, vector) = (
            np.repeat(np.arange(len(rows.y)), np.diff(rows.indptr)),
            np.zeros(memory.weights.shape),
            memory.weights.shape,
        )
        for t, keys in enumerate(memory.keys):
            slots = find_ids(rows.ids, keys)
            inside = np.flatnonzero(slots >= 0)
            slots, of = slots[inside], entry_rows[inside]
            values = rows.values[inside] * memory.pace[t, slots, UNIT]
            for c in range(vector):
                slopes[t, :, c] = np.bincount(slots, values * residuals[of, t * vector + c], capacity)
        return slopes

    def _fit(self, memory: Memory, rule: Rule) -> tuple[Memory, float]:
        """Return the memory with a fit of the rows kept in memory, and the loss of rows left out of it.

        Features that contribute more take the place of others if that clearly lowers the loss.
        """
        fit = choose_ridge(self._ridge_rows(memory, rule))
        larger = self._largest_contributions(memory, rule, fit.ridge) if len(self.common) else None
        if larger is not None:
            fit_of_larger = choose_ridge(self._ridge_rows(larger, rule))
            if fit_of_larger.loss < _CLEARLY * fit.loss:
                memory, fit = larger, fit_of_larger
        weights, (fitted, intercept) = np.zeros_like(memory.weights), fit.model()
        weights[0, memory.keys[0] > 0] = fitted
        bias = (intercept / (rule.bias_value or 1.0)).astype(np.float32)
        return memory._replace(weights=weights, bias=bias), fit.loss

    def _largest_contributions(self, memory: Memory, rule: Rule, ridge: float) -> Memory | None:
        """Return the memory with the largest contributions among its own and common features, or None if no common."""
        joint = self._with_common(memory)
        slots = np.flatnonzero(joint.keys[0])
        contribution = contributions(self._ridge_rows(joint, rule), ridge)
        contribution[np.isin(joint.keys[0, slots], memory.kept)] = np.inf
        slots = slots[np.argsort(-contribution, kind="stable")[: np.count_nonzero(memory.keys)]]
        if not np.isin(joint.keys[0, slots] - np.uint64(1), self.common).any():
            return None
        return _in_new_tables(joint, slots, memory.keys.shape[1])

    def _ridge_rows(self, memory: Memory, rule: Rule) -> RidgeRows:
        """Return the rows kept in memory, with a column for every feature in the table, in the order of its slots."""
        keys, rows = memory.keys[0], self.fit_rows
        slots = find_ids(rows.ids, keys)
        known = slots >= 0
        slots, indptr = slots[known], np.concatenate([[0], np.cumsum(known)])[rows.indptr]
        columns = np.cumsum(keys > 0, dtype=np.int32) - 1
        values = rows.values[known] * memory.pace[0, slots, UNIT].astype(np.float64)
        X = scipy.sparse.csr_array((values, columns[slots], indptr.astype(np.int32)), (len(rows.y), columns[-1] + 1))
        weight, has_intercept = rows.weight.astype(np.float64), bool(rule.bias_value > 0)
        return RidgeRows(X, rows.y, weight, len(memory.bias), rule.loss, has_intercept)


def _in_new_tables(memory: Memory, slots: NDArray[np.intp], size: int) -> Memory:
    """Return the memory with only the features in some slots of its one table, in a table of another size."""
    keys = np.zeros((1, size), np.uint64)
    insert_ids(memory.keys[0, slots] - np.uint64(1), keys[0])
    new = find_ids(memory.keys[0, slots] - np.uint64(1), keys[0])
    arrays = {name: np.zeros((1, size, *getattr(memory, name).shape[2:]), np.float32) for name in ("weights", "pace")}
    for name, array in arrays.items():
        array[0, new] = getattr(memory, name)[0, slots]
    return memory._replace(keys=keys, **arrays)


def only_selected(rows: SparseRows, keys: NDArray[np.uint64]) -> SparseRows:
    """Return the rows with only the features in the tables `keys`, and with weights."""
    indptr, ids, values = entries_in(rows.indptr, rows.ids, rows.values, keys)
    weight = rows.weight if len(rows.weight) else np.ones(len(rows.y), np.float32)
    return read_only(indptr, ids, values, values, NO_ROWS.pairs, rows.y, weight)


def _start_trials(memory: Memory) -> list[Trial]:
    """Return a trial for every learning rate, with copies of the memory's weights."""
    learned: Any = (memory.weights, memory.pace, memory.bias, memory.bias_sum)
    path: Any = (memory.weights, memory.bias, np.zeros(1))
    return [Trial(*map(np.copy, learned), *map(np.zeros_like, path * 2)) for _ in _FACTORS]


def _joined(parts: Sequence[tuple[NDArray[np.int64], SparseRows]]) -> tuple[NDArray[np.int64], SparseRows]:
    """Return the numbers and rows of all parts, each row once, since shards may hold the same rows."""
    numbers, rows = np.concatenate([part for part, _ in parts]), join_rows([rows for _, rows in parts])
    if (np.diff(numbers) > 0).all():
        return numbers, rows
    numbers, order = np.unique(numbers, return_index=True)
    return numbers, take_rows(rows, order)


def fits_in_memory(meta: Meta) -> bool:
    """Return whether all rows can be kept in memory, and need not be learned one after the other."""
    return meta.n_entries <= _FIT_ENTRIES and meta.n_samples <= _FIT_ROWS


def held_back_share(meta: Meta) -> float:
    """Return the share of rows that are held back from learning."""
    per_row = max(1.0, meta.n_entries / meta.n_samples)
    return min(1 / _ONE_IN, _MAX_ROWS / meta.n_samples, _MAX_ENTRIES / per_row / meta.n_samples)


def is_held_back(first: int, count: int, seed: int, share: float) -> NDArray[np.bool_]:
    """Return a mask of the held-back rows among rows first … first + count - 1, by row number and seed alone."""
    if share == 0:
        return np.zeros(count, np.bool_)
    return _is_drawn(np.arange(first, first + count, dtype=np.uint64), seed, share)


def _is_drawn(numbers: NDArray[np.uint64], seed: int, share: float) -> NDArray[np.bool_]:
    """Return a mask of row numbers that belong to a random share of all rows; a smaller share is part of a larger."""
    numbers = numbers + (np.uint64(seed % 2**32) << np.uint64(32))
    mixed = (numbers ^ (numbers >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    drawn: NDArray[np.bool_] = (mixed >> np.uint64(32)) < np.uint64(share * 2**32)
    return drawn


def refit_nbytes(n_weights: int, n_scores: int, meta: Meta) -> int:
    """Return the bytes that a refit of tables with `n_weights` weights takes beyond the tables."""
    held = held_back_share(meta) * meta.n_samples
    trials = 4 * n_weights * (1 + 5 * len(_FACTORS)) + int(held * (40 + 12 * meta.n_entries / meta.n_samples)) * 3
    fit = 100 * min(meta.n_entries, _FIT_ENTRIES) + 8 * min(meta.n_samples, _FIT_ROWS) * (12 + 6 * n_scores)
    return trials + fit + 200 * n_weights


def _held_back_loss(held: SparseRows, memory: Memory, rule: Rule) -> float:
    """Return the mean loss of the held-back rows, which are scored at learning rate zero and so not learned."""
    own = memory._replace(pace=memory.pace.copy(), bias_sum=memory.bias_sum.copy(), totals=np.zeros(3))
    drift = Drift(np.zeros_like(memory.weights), np.zeros_like(memory.bias), np.zeros(1))
    refit_rows(read_only(*held), own, drift, rule._replace(rate=0.0, n_shards=1.0))
    return float(own.totals[LOSS] / own.totals[WEIGHT]) if own.totals[WEIGHT] else float("nan")


def _mean(parts: Sequence[NDArray[Any]], shares: NDArray[np.float64]) -> NDArray[Any]:
    mean: Any = sum(share * part for share, part in zip(shares, parts, strict=True))
    return np.asarray(mean, parts[0].dtype)
