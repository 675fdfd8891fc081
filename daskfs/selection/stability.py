"""Stability of a selection: how much selections under other seeds, or from other rows, have in common.

The stability index is 1 minus the variance of a feature's being selected, averaged over features and divided by the
variance for random sets of features of the same size (Nogueira, Sechidis and Brown, 2018, "On the Stability of Feature
Selection Algorithms"). The index is 1 if all selected sets of features are equal, and about 0 if they share no more
than random sets do. The index can be compared across numbers of features, and its interval is from the same paper.

An algorithm without randomness selects the same under all seeds, so that its index of 1 over seeds says nothing; the
record then has a remark. The effect of other rows shows in selections from halves of the rows, in disjoint pairs (Shah
and Samworth 2013, "Variable selection with error control"). A selection from half the rows is worse than one from all
rows, so that the index over halves is a lower bound.

Random features of two seeds are different functions whose ids cannot be compared. Selections of random features are
compared by the input columns that, largest first, make up nine tenths of the importance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, check_choice
from daskfs.selection.column_slices import FeatureIds
from daskfs.selection.false_bound import most_false
from daskfs.selection.intervals import UNKNOWN, Interval, Z
from daskfs.selection.ranking import mean_ranks
from daskfs.selection.records import without_nan
from daskfs.selection.selection import Selection

MOST_LISTED = 10_000  # features in a record
LONGEST_NAME = 200  # characters of a name in a record
FEWEST = 10  # selections for an interval: its variance is an asymptotic one
MATTERS = 0.9  # the share of the importance that defines the set of inputs

SAME = "The runs are the same to the last bit: the seed makes no difference here, and the index says nothing."


Over = Literal["seeds", "halves"]
MOST_FALSE = 1.0
"""The largest expected number of false features among the features in a sentence on halves."""


def sentence_on_halves(bounds: Sequence[Mapping[str, float]]) -> str:
    """Return a sentence on features that enough halves selected, so that at most one feature is expected to be false.

    >>> sentence_on_halves([{"times": 3, "features": 9, "false": 2.5}, {"times": 4, "features": 7, "false": 0.61}])
    '7 features were chosen by 4 halves or more; at most 0.61 of them are expected to be false'
    """
    few = next((bound for bound in bounds if bound["false"] <= MOST_FALSE), None)
    if few is None:
        return "so few halves cannot say how many of the features are false; more pairs can"
    n, times = int(few["features"]), int(few["times"])
    if not n:
        return f"no feature was chosen by {times} halves or more, which is needed to say that it is hardly false"
    chosen = "1 feature was" if n == 1 else f"{n:,} features were"
    return f"{chosen} chosen by {times} halves or more; at most {few['false']:.2g} of them are expected to be false"


@dataclass(frozen=True, eq=False)
class Stability:
    """Similarity of selections by one algorithm that differ in seed or rows.

    Parameters
    ----------
    over
        What was varied: "seeds", for the randomness of the algorithm, or "halves" of the rows.
    of
        What was compared: "features", or the important "inputs" of random features.
    seeds
        The seeds, in the order of the selections.
    index
        Nogueira's index, at most 1; NaN if all features were selected, so that nothing can vary.
    interval
        The 95 % interval of the index; NaN for fewer than ten selections.
    jaccard
        The Jaccard index of two selections, averaged over pairs.
    features, names
        All features that were selected at least once, most often selected first, then by mean rank.
    times
        The number of selections that have each feature.
    n_candidates
        The number of features that could be selected.
    identical
        Whether the selections are equal to the last bit: then the seed makes no difference, and the index says nothing.
    rank_correlation
        Spearman's rank correlation of the importance of inputs, averaged over pairs; None for features.
    """

    over: Over
    of: Literal["features", "inputs"]
    seeds: list[int]
    index: float
    interval: Interval
    jaccard: float
    features: FeatureIds
    names: list[str]
    times: NDArray[np.int64]
    n_candidates: int
    identical: bool
    rank_correlation: float | None = None

    def false_bounds(self) -> list[dict[str, float]]:
        """Return the number of "features" selected at least "times" times, and a bound on how many of them are "false".

        There is a record for every number of times above half the number of selections, in ascending order. The bounds
        hold for halves of the rows of dense columns, and not for MISSION: see `false_bound`.
        """
        n_pairs = len(self.seeds) // 2
        most = most_false(self.times.sum() / len(self.seeds), self.n_candidates, n_pairs)
        return [
            {"times": times, "features": int((self.times >= times).sum()), "false": float(most[times])}
            for times in range(n_pairs + 1, 2 * n_pairs + 1)
        ]

    def record(self) -> dict[str, Any]:
        """Return all fields as values for JSON, with None for NaN, the first 10,000 features, and long names cut."""
        listed = zip(self.features.tolist(), self.names, self.times.tolist(), strict=True)
        some: dict[str, Any] = {} if self.rank_correlation is None else {"rank_correlation": self.rank_correlation}
        some |= {"remark": SAME} if self.identical else {}
        plain: dict[str, Any] = without_nan(
            {
                "over": self.over,
                "of": self.of,
                "seeds": self.seeds,
                "index": self.index,
                "interval": self.interval,
                "jaccard": self.jaccard,
                "distinct": len(self.features),
                "n_candidates": self.n_candidates,
                "identical": self.identical,
                "features": [
                    {"id": feature, "name": name[:LONGEST_NAME], "times": times}
                    for (feature, name, times), _ in zip(listed, range(MOST_LISTED), strict=False)
                ],
                **some,
            }
        )
        return plain


def stability(selections: Sequence[Selection], over: Over = "seeds") -> Stability:
    """Return the similarity of selections that differ in seed or rows.

    Parameters
    ----------
    selections
        Two or more selections by one algorithm, each under another seed, from one dataset or from halves of it.
    over
        What differs: "seeds", or "halves" of the rows.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 30))
    >>> _ = daskfs.write_dataset("d.zarr", X, X[:, 3] > X[:, 8], layout="rows")
    >>> runs = [daskfs.select("d.zarr", daskfs.Mission(4, width=64, refit=1), seed=seed) for seed in range(3)]
    >>> stability = daskfs.stability(runs)
    >>> sorted(stability.names[:2]), stability.times[:2]
    (['x3', 'x8'], array([3, 3]))
    """
    check_choice("over", over, Over)
    _check_alike(selections, over)
    inputs = [selection.inputs for selection in selections if selection.inputs is not None]
    if inputs:
        names = inputs[0].names
        importances = np.stack([columns.expansion.importance for columns in inputs])
        sets, candidates = [_important_inputs(importance) for importance in importances], len(names)
        name_of = dict(enumerate(names))
    else:
        importances = None
        sets, candidates = [selection.features for selection in selections], _candidates(selections)
        name_of = {
            feature: name
            for selection in selections
            for feature, name in zip(selection.features.tolist(), selection.names, strict=True)
        }
    features, times = _by_frequency(sets)
    index, interval = nogueira(sets, candidates)
    return Stability(
        over=over,
        of="features" if importances is None else "inputs",
        seeds=[selection.seed for selection in selections],
        index=index,
        interval=interval,
        jaccard=_mean_jaccard(sets),
        features=features,
        names=[name_of[feature] for feature in features.tolist()],
        times=times,
        n_candidates=candidates,
        identical=all(_are_identical(selections[0], other) for other in selections[1:]),
        rank_correlation=None if importances is None else _mean_rank_correlation(importances),
    )


def nogueira(sets: Sequence[FeatureIds], n_candidates: int) -> tuple[float, Interval]:
    """Return Nogueira's stability index of sets of feature ids, and the 95 % interval of the index.

    >>> sets = [np.array(ids, np.uint64) for ids in ([1, 2, 3], [1, 2, 4], [1, 2, 3], [1, 5, 3]) * 3]
    >>> index, (low, high) = nogueira(sets, n_candidates=100)
    >>> round(index, 3), round(low, 3), round(high, 3)
    (0.719, 0.622, 0.816)
    """
    count, d = len(sets), n_candidates
    distinct, times = np.unique(np.concatenate(sets), return_counts=True)
    share, sizes = times / count, np.array([len(ids) for ids in sets])
    k = sizes.mean()
    by_chance = k / d * (1 - k / d) if d else 0.0
    if not by_chance > 0:
        return math.nan, UNKNOWN
    index = float(1 - count / (count - 1) * (share @ (1 - share)) / d / by_chance)
    agreed = np.array([share[np.searchsorted(distinct, ids)].sum() for ids in sets]) / d
    expected = sizes * k / d**2
    phi = (agreed - expected + index / 2 * (2 * expected - sizes / d - k / d + 1)) / by_chance
    if count < FEWEST:
        return index, UNKNOWN
    error = 2 / count * math.sqrt(float(np.square(phi - phi.mean()).sum()))
    return index, (index - Z * error, min(index + Z * error, 1.0))


def _check_alike(selections: Sequence[Selection], over: Over) -> None:
    """Raise OptionError if selections differ in more than their seeds, or halves of rows."""
    if len(selections) < 2:
        raise OptionError(f"{len(selections)} selections: stability needs two at least, each under another seed")
    first = selections[0]
    for other in selections[1:]:
        known = "digest" if over == "seeds" else "n_features"
        if other.source[known] != first.source[known]:
            raise OptionError(
                f"selections of {first.source['url']} and of {other.source['url']}: give those of one dataset"
            )
        then, now = first.algorithm, other.algorithm
        changed = [key for key in then | now if then.get(key) != now.get(key)]
        if changed:
            raise OptionError(f"the algorithms differ ({', '.join(changed)}): only the seed may")
    if len({selection.seed for selection in selections}) < len(selections):
        raise OptionError("a seed is there twice: run it under another one")


def _are_identical(left: Selection, right: Selection) -> bool:
    """Return whether two selections have the same features with the same weights."""
    pairs = ((left.features, right.features), (left.weights, right.weights), (left.intercept, right.intercept))
    return left.inputs is None and all(np.array_equal(a, b) for a, b in pairs)


def _candidates(selections: Sequence[Selection]) -> int:
    """Return the number of features that could be selected, including pairs of features if products were allowed."""
    features = int(selections[0].source["n_features"])
    pairs = any(selection.products is not None for selection in selections)
    return features * (features + 1) // 2 if pairs else features


def _important_inputs(importance: NDArray[np.float64]) -> FeatureIds:
    """Return the inputs, most important first, that make up nine tenths of the importance; none if all are 0."""
    order = np.argsort(-importance, kind="stable")
    sums = np.cumsum(importance[order])
    if not sums[-1] > 0:
        return np.empty(0, np.uint64)
    needed = int(np.searchsorted(sums, MATTERS * sums[-1])) + 1
    return order[:needed].astype(np.uint64)


def _by_frequency(sets: Sequence[FeatureIds]) -> tuple[FeatureIds, NDArray[np.int64]]:
    """Return all feature ids, most often selected first and then by mean rank, and how often each id was selected."""
    ids, where, times = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    places = np.bincount(where, np.concatenate([np.arange(len(members)) for members in sets]), len(ids)) / times
    order = np.lexsort((ids, places, -times))
    return ids[order], times[order].astype(np.int64)


def _mean_jaccard(sets: Sequence[FeatureIds]) -> float:
    shares = []
    for left, right in combinations(sets, 2):
        both = len(np.intersect1d(left, right, assume_unique=True))
        either = len(left) + len(right) - both
        shares.append(both / either if either else 1.0)  # two empty sets are equal
    return float(np.mean(shares))


def _mean_rank_correlation(importances: NDArray[np.float64]) -> float:
    """Return Spearman's correlation, averaged over pairs, or NaN if all inputs of a selection are equally important."""
    if (importances == importances[:, :1]).all(axis=1).any():
        return math.nan
    pairs = np.corrcoef([mean_ranks(each) for each in importances])
    return float(pairs[np.triu_indices(len(pairs), 1)].mean())
