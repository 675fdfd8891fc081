"""How many features are false at most, of those that many halves of the rows choose: the bound of Shah and Samworth.

R. D. Shah and R. J. Samworth, *Variable selection with error control: another look at stability selection*, JRSS B
2013. A feature is called false here if half of the rows choose it no more often than a feature drawn at random, k of p
times. Of B pairs of complementary halves, c of 2B choose it. If the law of c / 2B is r-concave with r = -1/4, and that
of the share of pairs of which both halves choose it with r = -1/2, then of all false features at most

    p · min { D(k/p, c/2B; 2B, -1/4),  D((k/p)², c/B - 1; B, -1/2) }

are expected to be chosen c times or more. D(mean, t; N, r) is the largest probability of t or more that an r-concave
law on 0, 1/N, …, 1 with that mean can have. It belongs to a law (a + i)^(1/r) for i = 0 … l, with less mass than that
at l + 1, and none above; a and l remain to be tried.

The laws are r-concave where false features are alike, as dense columns in units of their own. Frequent features of
sparse rows are chosen often whatever the target is, and the bound fails.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

_TRIALS = 200  # values of a between the smallest and the largest that have the mean
_MOST_LOG = 25.0


def most_false(n_selected: float, n_candidates: int, n_pairs: int) -> NDArray[np.float64]:
    """Return how many false features are expected at most among those chosen at least 0, 1, … 2B times of 2B.

    >>> most_false(60, 2000, 25)[[25, 26, 34, 50]].round(2).tolist()
    [2000.0, 3.76, 0.97, 0.02]
    """
    share = n_selected / n_candidates
    worst = np.ones(2 * n_pairs + 1)
    alone, both = _largest_tails(share, 2 * n_pairs, -0.25), _largest_tails(share**2, n_pairs, -0.5)
    worst[n_pairs + 1 :] = np.minimum(alone[n_pairs + 1 :], both[1:])
    return n_candidates * worst


@cache
def _largest_tails(mean: float, n: int, r: float) -> NDArray[np.float64]:
    """Return D for 0, 1/n, …, 1: the largest probability of at least that much."""
    largest, want, places = np.zeros(n + 1), mean * n, np.arange(n + 1.0)
    for last in range(n + 1):
        low, high = (_log_with_mean(want, stop, r) for stop in (min(last + 1, n), last))
        if low > high or want >= last + 1:  # no a has this mean
            continue
        law = (np.exp(np.linspace(low, high, _TRIALS))[:, None] + places[: last + 1]) ** (1 / r)
        if last < n:
            above = (want * law.sum(axis=1) - law @ places[: last + 1]) / (last + 1 - want)
            law = np.column_stack([law, np.maximum(above, 0)])
        tails = law[:, ::-1].cumsum(axis=1)[:, ::-1] / law.sum(axis=1, keepdims=True)
        largest[: tails.shape[1]] = np.maximum(largest[: tails.shape[1]], tails.max(axis=0))
    largest[places <= 2 * want + 1] = 1.0  # where the law need not fall, nothing is known
    return largest


def _log_with_mean(want: float, last: int, r: float) -> float:
    """Return the logarithm of a with which the law (a + i)^(1/r) on 0 … `last` has a mean, as close as it can be."""
    places, low, high = np.arange(last + 1.0), -_MOST_LOG, _MOST_LOG
    for _ in range(60):  # the mean rises with a
        middle = (low + high) / 2
        law = (np.exp(middle) + places) ** (1 / r)
        low, high = (low, middle) if law @ places > want * law.sum() else (middle, high)
    return (low + high) / 2
