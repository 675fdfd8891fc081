"""MISSION with `error_control="halves"`: estimates how many of the selected features are false.

Besides the learner of all rows, 2B learners are trained in the same pass: two for each of B random pairs of
complementary halves of the rows. Most of them select a feature that is related to the target. Let c be the number of
these learners that select a feature. To find out how often false features are selected, 2B *null learners* are trained
on the same halves with a permuted target, to which no feature is related. Let c⁰ be the number of null learners that
select a feature. Then

    EFP(c) = 1 + number of features with c⁰ ≥ c

false features are expected among those selected c times or more; see `error_control.q_values`.

Every learner has a *salt*, a random number that is combined with feature ids by exclusive or, so that each learner has
other hashes. With common hashes, all learners would select a false feature that shares its cell with a true feature, so
it would look reliable. The null learners would not reveal this, because with a permuted target no feature is true.

All learners use the step size and the scaling that the learner of all rows has measured on its first rows. The half of
a row depends on the row number and the seed only, and not on the division into blocks. A permutation of all targets
would require all targets before the first row is learned. Therefore the permuted target is *resampled*: the first rows,
which are learned together, exchange their targets, and every other row takes the target of a random earlier row, among
the first `POOL` rows. Each of several shards has first rows of its own.

If rows belong to groups, all rows of a group are in the same half of a pair. The groups among the first rows are
permuted, every other group is assigned to a random one of them, and each row takes the target of a random row of the
group to which its own group is assigned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.error_control import count_reported, permutation, q_values, random_words
from daskfs.algorithms.keep import kept_features
from daskfs.algorithms.losses import Floats
from daskfs.algorithms.mission.calibration import FEW_ROWS, are_few
from daskfs.algorithms.mission.memory_kernels import COUNT, Memory, SparseRows
from daskfs.algorithms.mission.rows import ignore_rows, keys_of_groups, read_only
from daskfs.errors import OptionError
from daskfs.protocol import ErrorControl, Meta, Result

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

N_PAIRS = 10
"""B: the number of pairs of complementary halves."""
N_LEARNERS = 4 * N_PAIRS
"""The number of learners of halves: for every pair, two with the target and two with the permuted target."""
POOL = FEW_ROWS
"""The largest number of first rows, from which all other rows take their permuted targets."""
FEWEST_GROUPS = 5
"""The least number of groups among the first rows: a permutation of fewer leaves more than a fifth in place."""
_ORDER, _DRAWS, _MEMBERS, _SALTS, _HALVES = 0, 1, 2, 2**32, 2**32 + 1  # streams of words, the last one for every pair
_NO_GROUPS, _NO_IDS = np.empty(0, np.uint64), np.empty(0, np.uint64)


@dataclass(slots=True)
class TargetPool:
    """Targets of consecutive rows, from which other rows take their permuted targets."""

    first: int
    """The number of the first row."""
    n_together: int
    """The number of first rows, which are learned together and exchange their targets."""
    targets: Floats
    groups: NDArray[np.uint64] = field(default_factory=_NO_GROUPS.copy)
    """The group of every row, or empty without groups. With groups, the pool has only the rows learned together."""

    def grow(self, y: Floats, first: int) -> None:
        """Append the targets y of the rows from row `first` on, if they directly follow the pool and it is not full."""
        if first == self.first + len(self.targets) and len(self.targets) < POOL:
            self.targets = np.concatenate([self.targets, y])[:POOL]

    def draw(self, first: int, stop: int, seed: int) -> Floats:
        """Return the permuted targets of the rows `first` … `stop` - 1."""
        numbers = np.arange(first, stop)
        at = numbers - self.first
        known = np.clip(at, self.n_together, len(self.targets)).astype(np.uint64)
        source = (random_words(seed, _DRAWS, numbers) % known).astype(np.int64)
        together = (at >= 0) & (at < self.n_together)
        source[together] = permutation(seed, _ORDER, self.n_together)[at[together]]
        drawn: Floats = self.targets[source]
        return drawn

    def draw_by_group(self, numbers: NDArray[np.int64], groups: NDArray[np.uint64], seed: int) -> Floats:
        """Return the permuted targets of the rows with these numbers, which belong to these groups."""
        known, code, sizes = np.unique(self.groups, return_inverse=True, return_counts=True)
        source = (random_words(seed, _DRAWS, groups) % np.uint64(len(known))).astype(np.int64)
        at = np.minimum(np.searchsorted(known, groups), len(known) - 1)
        is_known = known[at] == groups
        source[is_known] = permutation(seed, _ORDER, len(known))[at[is_known]]
        member = (random_words(seed, _MEMBERS, numbers) % sizes[source].astype(np.uint64)).astype(np.int64)
        rows = np.argsort(code, kind="stable")[(np.cumsum(sizes) - sizes)[source] + member]
        drawn: Floats = self.targets[rows]
        return drawn


@dataclass(slots=True)
class HalvesState:
    """Learners of halves, targets to permute, and in the end how often each feature was selected."""

    memories: list[Memory]
    """The memories of the `N_LEARNERS` learners in the order of `learners`; empty after the last pass that learns."""
    pools: list[TargetPool] = field(default_factory=list)
    """One pool of targets for the first rows, or one for the first rows of every shard, in the order of rows."""
    features: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    """The features that the learner of all rows selected, in descending order of `times`; empty before the end."""
    times: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """How many learners of halves selected each of `features`."""
    null_times: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """How many null learners selected each feature that any null learner selected."""
    group_ids: NDArray[np.uint64] = field(default_factory=_NO_IDS.copy)
    """The ascending ids of features that name the group of a row and are not learned; empty without groups."""
    row_groups: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """The group of every row, if groups are given as an array and not as a feature."""

    def groups_of(self, rows: SparseRows, first: int) -> NDArray[np.uint64]:
        """Return the groups of consecutive rows from row `first` on, or an empty array without groups."""
        if len(self.group_ids):
            return keys_of_groups(rows, self.group_ids)
        return self.row_groups[first : first + len(rows.y)].astype(np.uint64)

    def permuted(self, y: Floats, first: int, seed: int, groups: NDArray[np.uint64] = _NO_GROUPS) -> Floats:
        """Return the permuted targets of consecutive rows from row `first` on, whose targets are y.

        The rows of the first call exchange their targets with each other, or with `groups` whole groups do so. A row
        takes its target from the last pool that begins before it, so that it has the same target in every pass.
        """
        if len(groups):
            if not self.pools:
                check_groups(groups)
                self.pools = [TargetPool(first, len(y), y.copy(), groups)]
            return self.pools[0].draw_by_group(np.arange(first, first + len(y)), groups, seed)
        if not self.pools:
            self.pools = [TargetPool(first, len(y), y[:0])]
        if len(self.pools) == 1:
            self.pools[0].grow(y, first)
        starts = [pool.first for pool in self.pools]
        of_row = np.maximum(np.searchsorted(starts, np.arange(first, first + len(y)), side="right") - 1, 0)
        edges = np.searchsorted(of_row, np.arange(len(starts) + 1)).tolist()
        parts = zip(self.pools, pairwise(edges), strict=True)
        return np.concatenate([pool.draw(first + start, first + stop, seed) for pool, (start, stop) in parts])


def check_halves(params: Mission, meta: Meta) -> None:
    """Raise OptionError for options with which error control by halves is wrong, or has not been studied."""
    reasons = {
        f"method={params.method!r} has not been studied: use method='active'": params.method != "active",
        f"loss={params.loss!r} has not been studied: use loss='squared' or loss='logistic'": params.loss
        not in ("squared", "logistic"),
        "kept features explain the target, and not a permuted one: leave out keep": bool(params.keep),
        "interactions have not been studied: leave them out": params.interactions is not None,
        "fading has not been studied: leave it out": params.fading > 0,
        "rows with weights cannot change places: write the data without weights": meta.weighted,
    }
    for reason, applies in reasons.items():
        if applies:
            raise OptionError(f"error_control={params.error_control!r}: {reason}")


def check_order(params: Mission, meta: Meta) -> None:
    """Raise OptionError if many rows are sorted by target, so that rows would exchange equal targets."""
    if params.error_control is not None and meta.mixed is False and not are_few(meta):
        raise OptionError(
            f"error_control={params.error_control!r}: rows in the order of their targets cannot be permuted in one "
            "pass: daskfs shuffle mixes them"
        )


def group_features(params: Mission, meta: Meta) -> NDArray[np.uint64]:
    """Return the ascending ids of the features that name the group of a row."""
    return _NO_IDS if params.groups is None else np.sort(kept_features([params.groups], meta, "groups"))


def check_groups(groups: NDArray[np.uint64]) -> None:
    """Raise OptionError if the first rows, which have these groups, are of too few groups."""
    n_groups = len(np.unique(groups))
    if n_groups < FEWEST_GROUPS:
        raise OptionError(
            f"groups: the first {len(groups):,} rows are of {n_groups} groups, and at least {FEWEST_GROUPS} have to "
            "exchange their targets: give more groups, or put the rows in random order with daskfs shuffle"
        )


def salts(seed: int) -> NDArray[np.uint64]:
    """Return a salt for every learner, with 63 bits like the ids of features."""
    return random_words(seed, _SALTS, np.arange(N_LEARNERS)) >> np.uint64(1)


def is_in_first_half(
    seed: int, pair: int, rows: NDArray[np.int64], groups: NDArray[np.uint64] = _NO_GROUPS
) -> NDArray[np.bool_]:
    """Return a mask of the rows that are in the first half of a pair.

    Without groups, one of the rows 2i and 2i + 1 is in the first half. Rows of a group are in the same half.

    >>> first, second = is_in_first_half(0, 0, np.arange(0, 100, 2)), is_in_first_half(0, 0, np.arange(1, 100, 2))
    >>> bool((first ^ second).all()), 15 < int(first.sum()) < 35
    (True, True)
    """
    bits = random_words(seed, _HALVES + pair, groups if len(groups) else rows // 2) >> np.uint64(63)
    is_in: NDArray[np.bool_] = (bits.astype(np.int64) ^ (0 if len(groups) else rows & 1)) == 0
    return is_in


def learners(
    seed: int, rows: SparseRows, nulls: Floats, numbers: NDArray[np.int64], groups: NDArray[np.uint64] = _NO_GROUPS
) -> Iterator[SparseRows]:
    """Yield the rows as each learner learns them: the rows of its half, with its target and its salt.

    The arguments `nulls`, `numbers` and `groups` are the permuted targets, the numbers and the groups of the rows.
    """
    salt = iter(salts(seed))
    for pair in range(N_PAIRS):
        is_in_first = is_in_first_half(seed, pair, numbers, groups)
        for others in (~is_in_first, is_in_first):
            half = ignore_rows(rows, others)
            for y in (rows.y, nulls):
                ids = rows.ids ^ next(salt)
                yield read_only(half.indptr, ids, half.values, half.outside, half.pairs, y, half.weight)


def with_salt(memory: Memory, salt: np.uint64) -> Memory:
    """Return a memory with a salt added to the ids of features, or removed from ids that have it."""
    ids = (memory.keys - np.uint64(1)) ^ salt
    return memory._replace(keys=np.where(memory.keys > 0, ids + np.uint64(1), np.uint64(0)))


def count_times(selected: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the features that any of several learners selected, ascending, and how many selected each."""
    features, times = np.unique(np.concatenate(selected), return_counts=True)
    return features, times.astype(np.int64)


def selected_in(memory: Memory, salt: np.uint64 | int = 0) -> NDArray[np.uint64]:
    """Return the features in the tables of a memory, without their salt."""
    keys = memory.keys[memory.keys > 0]
    features: NDArray[np.uint64] = (keys - np.uint64(1)) ^ np.uint64(salt)
    return features


def judge(halves: HalvesState, memory: Memory, seed: int) -> None:
    """Count how many learners of halves selected each feature of a memory, and drop these learners.

    The tables of all learners must have been pruned to the selected features.
    """
    by_learner = [selected_in(own, salt) for own, salt in zip(halves.memories, salts(seed), strict=True)]
    features, times = count_times(by_learner[0::2])
    slots = np.flatnonzero(memory.keys[0])
    searched = memory.keys[0, slots] - np.uint64(1)
    sizes = np.abs(memory.weights[0, slots, 0])
    at = np.minimum(np.searchsorted(features, searched), len(features) - 1)
    chosen = np.where(features[at] == searched, times[at], 0) if len(features) else np.zeros(len(slots), np.int64)
    order = np.lexsort((searched, -sizes, -chosen))
    halves.features, halves.times = searched[order], chosen[order]
    halves.null_times = count_times(by_learner[1::2])[1]
    halves.memories = []


def expected_false(halves: HalvesState) -> Floats:
    """Return EFP(c) for the number c of learners of halves that selected each of `halves.features`."""
    null = np.sort(halves.null_times)
    n_null = len(null) - np.searchsorted(null, np.maximum(halves.times, 1), side="left")
    return (1 + n_null).astype(np.float64)


def error_control_of(params: Mission, halves: HalvesState) -> ErrorControl:
    """Return how many of `halves.features` are reported, and how many of these are expected to be false."""
    expected = expected_false(halves)
    times = halves.times.astype(np.float64)
    q = q_values(times, expected)
    return ErrorControl(
        n_searched=len(q),
        n_reported=count_reported(times, expected, params.max_fdr, params.max_false),
        max_fdr=params.max_fdr,
        max_false=params.max_false,
        p_value_nothing=None,
        expected_false=tuple(expected.tolist()),
        q_values=tuple(q.tolist()),
        n_permuted=1,
    )


def with_error_control(params: Mission, halves: HalvesState, result: Result) -> Result:
    """Return a result of reported features with the statistics of error control for each feature."""
    control = error_control_of(params, halves)
    place = {feature: number for number, feature in enumerate(halves.features.tolist())}
    at = np.array([place[feature] for feature in result.features.tolist()], np.int64)
    columns = {
        "times_chosen": halves.times.astype(np.float64),
        "expected_false": np.array(control.expected_false),
        "q_value": np.array(control.q_values),
    }
    return replace(result, statistics={name: column[at] for name, column in columns.items()}, error_control=control)


def only_reported(params: Mission, halves: HalvesState, memory: Memory) -> Memory:
    """Return a memory whose tables have only the reported features; prune the tables before a look-up."""
    features = halves.features[: error_control_of(params, halves).n_reported]
    stay = np.isin(memory.keys, features + np.uint64(1))
    memory.status[:, COUNT] = stay.sum(axis=1)
    return memory._replace(keys=np.where(stay, memory.keys, np.uint64(0)))
