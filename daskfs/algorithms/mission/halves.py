"""How many of MISSION's features are false: how often halves of the rows choose them, for `error_control="halves"`.

Beside the learner of all rows, 2B more learn in the same pass, from B random halves of the rows and from the rows that
each half leaves out. A feature that is there for a reason is chosen by most of them, c of 2B times. How often false
features are chosen shows the same with a permuted target, which has nothing to find: 2B more learners, the *null
learners*. With c⁰ the times that these choose each feature,

    EFP(c) = 1 + number of features with c⁰ ≥ c

false features are expected among those chosen c times or more; see `error_control.q_values`.

Every learner has a *salt*, which is added to the ids of features (exclusive or) and so gives the learner hashes of its
own. With common hashes, a feature that shares its cell with a true one would be chosen by all halves alike, and its
frequency would say nothing. A permuted target has no true features, and would not show it.

All learners have the calibration of the learner of all rows. The halves follow from row numbers, however blocks are
cut. To permute all targets one would have to know them before the first row is learned. Therefore the permuted target
is *resampled*: the first rows, which are learned together, exchange their targets, and every other row takes the target
of some row before it, among the first `POOL` rows. Of several shards each has first rows of its own.

Rows of a group are in the same half of every pair. The groups among the first rows exchange their targets, and every
other group takes those of one of them: each of its rows that of any row of this group.
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
from daskfs.algorithms.mission.calibration import FIRST_ROWS, are_few
from daskfs.algorithms.mission.memory_kernels import COUNT, Memory, SparseRows
from daskfs.algorithms.mission.rows import ignore_rows, keys_of_groups, read_only
from daskfs.errors import OptionError
from daskfs.protocol import ErrorControl, Meta, Result

if TYPE_CHECKING:
    from daskfs.algorithms.mission import Mission

N_PAIRS = 10
"""B: pairs of complementary halves."""
N_LEARNERS = 4 * N_PAIRS
"""Learners of halves: of every pair, two for the target and two for the permuted target."""
POOL = FIRST_ROWS
"""Rows from which all others take their targets, if there are as many."""
FEWEST_GROUPS = 5
"""Groups among the first rows: a permutation of fewer leaves more than a fifth of the rows in place."""
_ORDER, _DRAWS, _MEMBERS, _SALTS, _HALVES = 0, 1, 2, 2**32, 2**32 + 1  # streams of words, the last one for every pair
_NO_GROUPS, _NO_IDS = np.empty(0, np.uint64), np.empty(0, np.uint64)


@dataclass(slots=True)
class TargetPool:
    """Targets of consecutive rows, which stand for the targets of other rows."""

    first: int
    """The number of the first row."""
    n_together: int
    """How many rows were learned together, and exchange their targets."""
    targets: Floats
    groups: NDArray[np.uint64] = field(default_factory=_NO_GROUPS.copy)
    """The group of each of these rows, of which there are only those learned together; empty without groups."""

    def grow(self, y: Floats, first: int) -> None:
        """Add the targets y of the rows from row `first` on, if they come next and there is room."""
        if first == self.first + len(self.targets) and len(self.targets) < POOL:
            self.targets = np.concatenate([self.targets, y])[:POOL]

    def draw(self, first: int, stop: int, seed: int) -> Floats:
        """Return the permuted targets of the rows from number `first` up to `stop`."""
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
    """Learners of halves, targets to permute, and in the end how often each feature was chosen."""

    memories: list[Memory]
    """Of the `N_LEARNERS` learners, in the order of `learners`; empty after the last pass that learns."""
    pools: list[TargetPool] = field(default_factory=list)
    """Targets for other rows, in the order of row numbers: of the first rows, or of the first rows of every shard."""
    features: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    """The features searched, those first that were chosen most often; empty before the last pass has ended."""
    times: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """How many halves chose each of `features`."""
    null_times: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """How many halves chose each feature that any chose with the permuted target."""
    group_ids: NDArray[np.uint64] = field(default_factory=_NO_IDS.copy)
    """The features that say to which group a row belongs, ascending, which are not learned; empty without groups."""
    row_groups: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """The group of every row, if it was given for rows and not as a feature."""

    def groups_of(self, rows: SparseRows, first: int) -> NDArray[np.uint64]:
        """Return the groups of consecutive rows from row `first` on; nothing without groups."""
        if len(self.group_ids):
            return keys_of_groups(rows, self.group_ids)
        return self.row_groups[first : first + len(rows.y)].astype(np.uint64)

    def permuted(self, y: Floats, first: int, seed: int, groups: NDArray[np.uint64] = _NO_GROUPS) -> Floats:
        """Return the permuted targets of consecutive rows from row `first` on, whose targets are y.

        The rows of the first call exchange their targets, and where there are `groups` of rows, these do. A row takes
        its target from the last pool that begins before it, so that it has the same one in every pass.
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
    """Raise OptionError if frequencies over halves would say nothing, or have not been studied."""
    reasons = {
        f"method={params.method!r} has not been studied: use method='active'": params.method != "active",
        f"loss={params.loss!r} has not been studied: use loss='squared' or loss='logistic'": params.loss
        not in ("squared", "logistic"),
        "kept features explain the target, and not a permuted one: leave out keep": bool(params.keep),
        "interactions have not been studied: leave them out": params.interactions is not None,
        "fading has not been studied: leave it out": params.fading > 0,
        "rows with weights cannot change places: write the data without weights": meta.weighted,
        "workers of a cluster cannot share groups given for rows: make them a column of the data and pass its name": (
            meta.n_shards > 1 and len(meta.row_groups()) > 0
        ),
    }
    for reason, applies in reasons.items():
        if applies:
            raise OptionError(f"error_control={params.error_control!r}: {reason}")


def check_order(params: Mission, meta: Meta) -> None:
    """Raise OptionError if targets in runs would be permuted among rows with the same target."""
    if params.error_control is not None and meta.mixed is False and not are_few(meta):
        raise OptionError(
            f"error_control={params.error_control!r}: rows in the order of their targets cannot be permuted in one "
            "pass: daskfs shuffle mixes them"
        )


def group_features(params: Mission, meta: Meta) -> NDArray[np.uint64]:
    """Return the features that say to which group a row belongs, ascending."""
    return _NO_IDS if params.groups is None else np.sort(kept_features([params.groups], meta, "groups"))


def check_groups(groups: NDArray[np.uint64]) -> None:
    """Raise OptionError if too few groups are among the first rows, whose groups are given."""
    n_groups = len(np.unique(groups))
    if n_groups < FEWEST_GROUPS:
        raise OptionError(
            f"groups: the first {len(groups):,} rows are of {n_groups} groups, and at least {FEWEST_GROUPS} have to "
            "exchange their targets: give more groups, or put the rows in random order with daskfs shuffle"
        )


def salts(seed: int) -> NDArray[np.uint64]:
    """Return a salt of 63 bits for every learner, as ids of features have."""
    return random_words(seed, _SALTS, np.arange(N_LEARNERS)) >> np.uint64(1)


def is_in_first_half(
    seed: int, pair: int, rows: NDArray[np.int64], groups: NDArray[np.uint64] = _NO_GROUPS
) -> NDArray[np.bool_]:
    """Return which rows are in the first half of a pair; of rows 2i and 2i + 1, one is. A group is in it as a whole.

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
    """Yield the rows as each learner learns them: those of its half, with its target and its salt.

    The arguments are the permuted targets of the rows, the numbers of the rows, and their groups, if there are any.
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
    """Return a memory with the ids of features in place of those with a salt, or the other way round."""
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
    """Count how often halves chose the features of a memory, and drop the learners; their tables are pruned already."""
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
    """Return how many false features are expected among those chosen as often as each of the features searched."""
    null = np.sort(halves.null_times)
    n_null = len(null) - np.searchsorted(null, np.maximum(halves.times, 1), side="left")
    return (1 + n_null).astype(np.float64)


def error_control_of(params: Mission, halves: HalvesState) -> ErrorControl:
    """Return how many of the features searched are reported, and how many of these are expected to be false."""
    expected = expected_false(halves)
    q = q_values(halves.times.astype(np.float64), expected)
    return ErrorControl(
        n_searched=len(q),
        n_reported=count_reported(q, expected, params.max_fdr, params.max_false),
        max_fdr=params.max_fdr,
        max_false=params.max_false,
        p_value_nothing=None,
        expected_false=tuple(expected.tolist()),
        q_values=tuple(q.tolist()),
    )


def with_error_control(params: Mission, halves: HalvesState, result: Result) -> Result:
    """Return a result with the numbers for each of its features, which are the reported ones in any order."""
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
    """Return a memory whose tables have only the reported features, and must be pruned before a look-up."""
    features = halves.features[: error_control_of(params, halves).n_reported]
    stay = np.isin(memory.keys, features + np.uint64(1))
    memory.status[:, COUNT] = stay.sum(axis=1)
    return memory._replace(keys=np.where(stay, memory.keys, np.uint64(0)))
