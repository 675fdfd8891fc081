"""Functions that all kinds of error control share: reproducible random words for permutations and halves, and q-values.

The 64-bit words come from splitmix64, a generator that computes the word of an item from a seed and the item's number.
So a permutation or a half of the rows is the same for every division into blocks, and on every worker.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats
from daskfs.errors import OptionError

_LARGEST_GROUP = 2**24  # float32 does not tell larger numbers apart
_DIGITS, _ROUNDING = 12, 1e-9  # of shares, and of limits that are compared with them
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # of splitmix64


def random_words(seed: int, stream: int, items: NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return a random word of 64 bits for every item, which depends on the seed, the stream and the item alone."""
    with np.errstate(over="ignore"):
        start = _mixed(
            np.array([seed * 0xA0761D6478BD642F + (stream + 1) * 0xD1342543DE82EF95 & (2**64 - 1)], np.uint64)
        )
        return _mixed(start + (items.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


def _mixed(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    for shift, factor in _MIX:
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed


def permutation(seed: int, number: int, n: int) -> NDArray[np.int64]:
    """Return a random order of n items that depends on the seed and the `number` of the permutation alone.

    >>> permutation(0, 1, 6).tolist()
    [1, 4, 0, 3, 5, 2]
    """
    return np.argsort(random_words(seed, number, np.arange(n)), kind="stable")


def q_values(scores: Floats, expected: Floats) -> Floats:
    """Return the q-values of features in descending order of scores, given how many are expected to be false.

    >>> q_values(np.array([9.0, 5.0, 4.0]), np.array([0.1, 0.1, 1.5])).tolist()
    [0.05, 0.05, 0.5]
    """
    q: Floats = np.minimum.accumulate(_false_shares(scores, expected)[::-1])[::-1]
    return q


def count_reported(scores: Floats, expected: Floats, max_fdr: float | None, max_false: float | None) -> int:
    """Return the largest number of first features that satisfies both limits, given features in descending order.

    Both limits are for the features reported together. With `max_false`, q-values do not tell the false discovery rate
    of these, since they may be those of more features.

    >>> count_reported(np.array([9.0, 5.0, 4.0]), np.array([0.1, 0.2, 0.2]), 0.07, None)
    3
    >>> count_reported(np.array([9.0, 5.0, 4.0]), np.array([0.1, 0.2, 0.2]), 0.07, 0.1)
    0
    """
    fits = np.ones(len(scores), bool)
    if max_fdr is not None:
        fits &= _false_shares(scores, expected) <= max_fdr * (1 + _ROUNDING)
    if max_false is not None:
        fits &= expected <= max_false * (1 + _ROUNDING)
    return int(np.flatnonzero(fits).max(initial=-1)) + 1


def _false_shares(scores: Floats, expected: Floats) -> Floats:
    """Return the share of features that are expected to be false, among each feature and those of scores as large."""
    n_at_least = np.searchsorted(-scores, -scores, side="right")  # features of the same score are reported together
    shares: Floats = np.minimum(np.round(expected / n_at_least, _DIGITS), 1.0)  # 2.7 / 9 is above 0.3
    return shares


def check_limits(
    max_fdr: float | None, max_false: float | None, control: str, is_on: bool, n_null: int, n_select: int
) -> None:
    """Raise OptionError for limits without error control, or so small that `n_null` permuted targets never reach them.

    The argument `control` is the value of `error_control` that the algorithm has.
    """
    for name, value, least in (("max_fdr", max_fdr, 1 / (n_null * n_select)), ("max_false", max_false, 1 / n_null)):
        if value is None:
            continue
        if not is_on:
            raise OptionError(f"{name}: needs error_control={control!r}")
        if value < least:
            targets = "one permuted target" if n_null == 1 else f"{n_null} permuted targets"
            raise OptionError(f"{name}={value}: {targets} cannot tell less than {least:.2g}")


def check_group_numbers(values: NDArray[np.floating]) -> None:
    """Raise OptionError if the values of a column of numbers are not those of groups of rows."""
    if np.abs(values).max(initial=0.0) > _LARGEST_GROUP or not np.array_equal(values, np.round(values)):
        raise OptionError(
            f"groups: must be whole numbers up to {_LARGEST_GROUP:,}, without gaps, or texts; number them from 0 on, "
            "or ingest the column as categories (categorical)"
        )
