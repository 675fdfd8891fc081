"""The l1 problem over many penalties: the solutions of a descending sequence, and the first with enough features.

Each begins with the weights of the one before, whose support is nearly right: a path costs little more than its end.
Several problems over the same features, such as classes told apart one against the rest, descend together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from daskfs.algorithms.random_features.lasso import Problem, Solution, largest_penalty, solve_each
from daskfs.errors import OptionError

_RATIO = 0.7  # of a penalty to the one before
_DEPTH = 1e-8  # of the largest penalty: below, what is left to explain is rounding
_HALVINGS = 30  # of the gap between too few features and enough
_NARROWEST = 1e-7  # of a penalty: features that come closer than this come together


def path(problems: Sequence[Problem], penalties: Iterable[float], tolerance: float = 1e-6) -> Iterator[Solution]:
    """The solutions for penalties that descend, one by one, each when it is asked for.

    Examples
    --------
    >>> G, b = np.eye(2), np.array([3.0, 1.0])
    >>> for solution in path([(G, b)], [3.0, 2.0, 0.5]):
    ...     print(solution.penalty, solution.weights)
    3.0 [0. 0.]
    2.0 [1. 0.]
    0.5 [2.5 0.5]
    """
    weights = None
    before = np.inf
    for penalty in penalties:
        if penalty > before:
            raise OptionError(f"penalties must descend: {penalty} comes after {before}")
        solution = solve_each(problems, penalty, weights, tolerance)
        yield solution
        weights, before = solution.weights, penalty


def first_with(problems: Sequence[Problem], n_features: int, tolerance: float = 1e-6) -> Solution:
    """The solution of the largest penalty that uses at least `n_features`, and as few more as can be.

    A feature counts if any target uses it. The path descends in steps of 0.7 until there are enough, then the gap is
    halved until the number is right or two features come so close together that they cannot be told apart. Where even
    the smallest penalty has too few (features that are copies of each other, or fewer rows than features), the solution
    with the most is returned: look at its `support`.

    Examples
    --------
    >>> first_with([(np.eye(3), np.array([3.0, 2.0, 1.0]))], n_features=2).support
    array([0, 1])
    """
    n = len(problems[0][1])
    if not 1 <= n_features <= n:
        raise OptionError(f"n_features is {n_features}: it must be from 1 to {n}, the features there are")
    top = max(largest_penalty(b) for _, b in problems)
    if top == 0.0:
        raise OptionError("b is all zeros: no feature has anything to say about the target")
    below = path(problems, top * _RATIO ** np.arange(int(np.log(_DEPTH) / np.log(_RATIO)) + 1), tolerance)
    few = most = next(below)
    for enough in below:
        if len(enough.support) >= n_features:
            return _halved(problems, few, enough, n_features, tolerance)
        few = enough
        most = max(most, enough, key=_size)
    return most


def _halved(
    problems: Sequence[Problem], few: Solution, enough: Solution, n_features: int, tolerance: float
) -> Solution:
    """Between a solution with too few features and one with enough, the one with enough that has the fewest."""
    best = enough
    for _ in range(_HALVINGS):
        if len(best.support) == n_features or few.penalty <= enough.penalty * (1.0 + _NARROWEST):
            break
        middle = solve_each(problems, float(np.sqrt(few.penalty * enough.penalty)), few.weights, tolerance)
        if len(middle.support) < n_features:
            few = middle
        else:
            enough = middle
            best = min(middle, best, key=_size)  # of two as large the first, whose penalty is larger
    return best


def _size(solution: Solution) -> int:
    return len(solution.support)
