"""The bound of Shah and Samworth on the number of false features among those that many halves of the rows select.

R. D. Shah and R. J. Samworth, *Variable selection with error control: another look at stability selection*, JRSS B
2013. Every half of the rows selects k of p features. A feature is called false here if a random half selects it with a
probability of at most k/p, as if features were drawn at random. There are B pairs of complementary halves, and c of the
2B halves select a feature. If the distribution of c / 2B is r-concave with r = -1/4, and that of the share of pairs in
which both halves select the feature is r-concave with r = -1/2, then the expected number of false features that are
selected c times or more is at most

    p · min { D(k/p, c/2B; 2B, -1/4),  D((k/p)², c/B - 1; B, -1/2) }

D(mean, t; N, r) is the largest probability of t or more under an r-concave distribution on 0, 1/N, …, 1 with that mean.
The largest probability is reached by a distribution with a mass proportional to (a + i)^(1/r) at i/N for i = 0 … l, a
smaller mass at (l + 1)/N, and none above. Several a are tried for every l.

The distributions are r-concave if false features are alike, as dense columns are that have been standardised. The bound
does not hold for sparse rows, where frequent features are selected often whatever the target is.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

_TRIALS = 200  # values of a between the smallest and the largest that have the mean
_MOST_LOG = 25.0


def most_false(n_selected: float, n_candidates: int, n_pairs: int) -> NDArray[np.float64]:
    """Return the bounds on the number of false features among those selected at least 0, 1, …, 2B times.

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
    """Return D(mean, t; n, r) for t = 0, 1/n, …, 1."""
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
    """Return log a for which the distribution (a + i)^(1/r) on i = 0 … `last` has the mean `want`, or the nearest."""
    places, low, high = np.arange(last + 1.0), -_MOST_LOG, _MOST_LOG
    for _ in range(60):  # the mean rises with a
        middle = (low + high) / 2
        law = (np.exp(middle) + places) ** (1 / r)
        low, high = (low, middle) if law @ places > want * law.sum() else (middle, high)
    return (low + high) / 2
