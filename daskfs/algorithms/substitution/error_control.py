"""How many of the selected features are false: t-values compared with those of permuted targets.

With a permuted target all selected features are false. Their t-values show how large the t-values of false features
become by the same search. With P permuted targets, EFP(t) = (1 + number of their t-values ≥ t) / P false features are
expected at t or above. The "1 +" is needed: without it a selection from pure noise would report something twice as
often as promised. The q-value of the feature with the i-th largest t-value is the least EFP(t_l) / l over l ≥
i: the false discovery rate at which the feature is reported.

This is calibrated by simulation, see ``docs/error-control.md``. Only the p-value of "there is nothing here" is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.error_control import permutation
from daskfs.algorithms.loss_kernels import SQUARED
from daskfs.algorithms.losses import Floats
from daskfs.algorithms.substitution.selected_set import SelectedSet
from daskfs.errors import OptionError

N_PERMUTED = 10
"""Permuted targets beside the real one: with fewer no single feature could have a q-value of 0.1."""
MOST_IN_PLACE = 0.2
"""The share of rows that permutations of groups may leave in place, where a permuted target still finds something."""


def permuted_rows(seed: int, number: int, target: Floats, groups: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Return for every row the number of the row whose target it takes in a permutation.

    Rows of a group stay together. If every group has one value of the target, such as the diagnosis of a donor, the
    groups exchange these values. Otherwise groups of the same size exchange their targets, row by row.
    """
    if groups is None or not len(groups):
        return permutation(seed, number, len(target))
    by_group = np.argsort(groups, kind="stable")
    _, first, sizes = np.unique(groups[by_group], return_index=True, return_counts=True)
    order, rows = permutation(seed, number, len(sizes)), np.empty(len(target), np.int64)
    if _is_constant(target[by_group], first, sizes):
        rows[by_group] = by_group[np.repeat(first[order], sizes)]
        return rows
    for size in np.unique(sizes):
        alike = np.flatnonzero(sizes == size)
        sources = order[np.isin(order, alike)]
        offsets = np.arange(size)
        rows[by_group[first[alike][:, None] + offsets]] = by_group[first[sources][:, None] + offsets]
    return rows


def number_groups(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the group of every row, with groups renumbered from 0 in the order of their first rows.

    >>> number_groups(np.array([7, 7, 2, 9, 2])).tolist()
    [0, 0, 1, 2, 1]
    """
    _, first, codes = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def _is_constant(target: Floats, first: NDArray[np.int64], sizes: NDArray[np.int64]) -> bool:
    """Return whether each of several runs of rows has one value of the target."""
    return bool((target == np.repeat(target[first], sizes)).all())


def check_groups(target: Floats, groups: NDArray[np.int64]) -> None:
    """Raise OptionError if permutations of the groups would leave too many targets in place."""
    by_group = np.argsort(groups, kind="stable")
    _, first, sizes = np.unique(groups[by_group], return_index=True, return_counts=True)
    if _is_constant(target[by_group], first, sizes):
        in_place, why = 1 / len(sizes), "they are few"
    else:  # a group is among m of its size, and stays in its place with probability 1 / m
        in_place, why = float(np.unique(sizes).sum()) / len(target), "only groups of the same size can change places"
    if in_place > MOST_IN_PLACE:
        raise OptionError(
            f"groups: permuting {len(sizes):,} groups would leave {in_place:.0%} of the rows in place, since {why}; "
            "join or cut groups to a few sizes, or give a target with one value for each group"
        )


def t_values(selected: SelectedSet) -> Floats:
    """Return the t-value of every feature of a fitted set, in the order of slots.

    Its square is twice the rise of the loss without the feature, for the squared loss in units of the noise's variance.
    """
    squares = selected.usefulness()
    if selected.code == SQUARED:
        noise = float((selected.target[0] - selected.u[0]) @ (selected.target[0] - selected.u[0]))
        squares = squares * (len(selected.h) - selected.k) / max(noise, np.finfo(float).tiny)
    t: Floats = np.sqrt(squares)
    return t


def expected_false(t: Floats, null: Floats) -> Floats:
    """Return EFP(t) for each t-value t, given the t-values of selections with permuted targets."""
    pooled = np.sort(null.ravel())
    expected: Floats = (1 + len(pooled) - np.searchsorted(pooled, t, side="left")) / N_PERMUTED
    return expected
