"""The refit of MISSION: the selected features are learned again without a sketch and its traces of other features.

Several learning rates are tried, since the best rate to select features may be too slow to fit weights. The last
weights of every trial, and their mean over the last pass (Polyak averaging), compete with the weights before the refit.
The weights with the least loss on held-back rows are kept. Held-back rows are never learned, and stay in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.general_kernels import Drift, refit_rows
from daskfs.algorithms.mission.memory_kernels import LOSS, WEIGHT, Memory, Rule, SparseRows
from daskfs.algorithms.mission.rows import NO_ROWS, join_rows, read_only, take_rows
from daskfs.protocol import Meta

_ONE_IN = 16  # rows, at most, are held back
_MAX_ROWS = 4096
_MAX_ENTRIES = 1 << 20  # of the held-back rows, on average
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
    """The state of a refit beside the memory: trials of learning rates, and held-back rows."""

    trials: list[Trial]
    held_numbers: NDArray[np.int64]
    """The row numbers of `held_rows`, ascending."""
    held_rows: SparseRows

    @classmethod
    def start(cls, memory: Memory) -> RefitState:
        """Return the initial state of a refit of the features in the memory's tables."""
        learned: Any = (memory.weights, memory.pace, memory.bias, memory.bias_sum)
        path: Any = (memory.weights, memory.bias, np.zeros(1))
        trials = [Trial(*map(np.copy, learned), *map(np.zeros_like, path * 2)) for _ in _FACTORS]
        return cls(trials, np.zeros(0, np.int64), NO_ROWS)

    def start_pass(self) -> None:
        """Set the sums over rows of all trials to zero, since weights are averaged over the last pass only."""
        for trial in self.trials:
            for array in (trial.drift, trial.bias_drift, trial.clock, trial.path, trial.bias_path, trial.path_rows):
                array[:] = 0

    def hold_back(self, keys: NDArray[np.uint64], rows: SparseRows, which: NDArray[np.bool_], first: int) -> None:
        """Keep the held-back rows of a block, with only the features in the tables `keys`."""
        numbers = np.flatnonzero(which)
        if len(numbers) == 0:
            return
        own = take_rows(rows, numbers)
        inside = np.isin(own.ids, keys[keys > 0] - np.uint64(1))
        indptr, values = np.concatenate([[0], np.cumsum(inside)])[own.indptr], own.values[inside]
        weight = own.weight if len(own.weight) else np.ones(len(numbers), np.float32)
        own = read_only(indptr, own.ids[inside], values, values, own.pairs, own.y, weight)
        self._join([(self.held_numbers, self.held_rows), (numbers + first, own)])

    def learn(self, memory: Memory, rule: Rule, rows: SparseRows) -> int:
        """Learn rows in every trial up to a value that is not finite; return the number of rows learned."""
        for trial, factor in zip(self.trials, _FACTORS, strict=True):
            own = trial.learned_in(memory if trial is self.trials[0] else memory._replace(totals=np.zeros(3)))
            drift = Drift(trial.drift, trial.bias_drift, trial.clock)
            learned = int(refit_rows(rows, own, drift, rule._replace(rate=factor * rule.rate)))
            if learned < len(rows.y):
                break
        return learned

    @classmethod
    def merge(cls, refits: Sequence[RefitState], shards: Sequence[int]) -> RefitState:
        """Return the refit state with the mean of the shards' trials, and with all their held-back rows."""
        shares, trials = np.array(shards) / sum(shards), []
        for own in zip(*(refit.trials for refit in refits), strict=True):
            arrays = zip(*(trial.with_path() for trial in own), strict=True)
            trials.append(Trial(*(_mean(parts, shares) for parts in arrays)))
        merged = cls(trials, refits[0].held_numbers, refits[0].held_rows)
        merged._join([(refit.held_numbers, refit.held_rows) for refit in refits])
        return merged

    def choose_weights(self, memory: Memory, rule: Rule) -> tuple[Memory, float, bool]:
        """Return the memory with the best weights, their loss on held-back rows, and whether the weights are new."""
        choices = [(memory.weights, memory.bias)]
        for trial in map(Trial.with_path, self.trials):
            rows = np.float32(max(1.0, float(trial.path_rows[0])))
            choices += [(trial.weights, trial.bias), (trial.path / rows, trial.bias_path / rows)]
        candidates = [memory._replace(weights=weights, bias=bias) for weights, bias in choices]
        losses = np.array([_held_back_loss(self.held_rows, candidate, rule) for candidate in candidates])
        best = int(np.nan_to_num(losses, nan=np.inf).argmin())
        return candidates[best], float(losses[best]), best > 0

    def _join(self, parts: Sequence[tuple[NDArray[np.int64], SparseRows]]) -> None:
        """Set the held-back rows to the rows of all parts, each row once, since shards may hold the same rows."""
        self.held_numbers, order = np.unique(np.concatenate([part for part, _ in parts]), return_index=True)
        self.held_rows = take_rows(join_rows([rows for _, rows in parts]), order)


def held_back_share(meta: Meta) -> float:
    """Return the share of rows that are held back from learning."""
    per_row = max(1.0, meta.n_entries / meta.n_samples)
    return min(1 / _ONE_IN, _MAX_ROWS / meta.n_samples, _MAX_ENTRIES / per_row / meta.n_samples)


def is_held_back(first: int, count: int, seed: int, share: float) -> NDArray[np.bool_]:
    """Return a mask of the held-back rows among rows first … first + count - 1, by row number and seed alone."""
    numbers = np.arange(first, first + count, dtype=np.uint64) + (np.uint64(seed % 2**32) << np.uint64(32))
    mixed = (numbers ^ (numbers >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    return (mixed >> np.uint64(32)) < np.uint64(share * 2**32)


def refit_nbytes(n_weights: int, meta: Meta) -> int:
    """Return the bytes that a refit of tables with `n_weights` weights takes beyond the tables."""
    rows = held_back_share(meta) * meta.n_samples
    return 4 * n_weights * (1 + 5 * len(_FACTORS)) + int(rows * (40 + 12 * meta.n_entries / meta.n_samples)) * 3


def _held_back_loss(held: SparseRows, memory: Memory, rule: Rule) -> float:
    """Return the mean loss of the held-back rows, which are scored at learning rate zero and so not learned."""
    own = memory._replace(pace=memory.pace.copy(), bias_sum=memory.bias_sum.copy(), totals=np.zeros(3))
    drift = Drift(np.zeros_like(memory.weights), np.zeros_like(memory.bias), np.zeros(1))
    refit_rows(read_only(*held), own, drift, rule._replace(rate=0.0, n_shards=1.0))
    return float(own.totals[LOSS] / own.totals[WEIGHT]) if own.totals[WEIGHT] else float("nan")


def _mean(parts: Sequence[NDArray[Any]], shares: NDArray[np.float64]) -> NDArray[Any]:
    mean: Any = sum(share * part for share, part in zip(shares, parts, strict=True))
    return np.asarray(mean, parts[0].dtype)
