"""Stability: how much of a selection is left when the seed is another, or the rows are.

The index is that of Nogueira, Sechidis and Brown (2018, "On the Stability of Feature Selection Algorithms"): 1 minus
the variance of being chosen, over features, against that of sets of the same size drawn at random. It is 1 if all sets
are one, about 0 if they have no more in common than chance gives, and may be compared across numbers of features; the
interval follows from the variance published with it.

Many runs do nothing by chance: MISSION without a refit, Online Substitution with a given ridge. Then runs under all
seeds are the same to the last bit, the index is 1, and that says nothing; the record has a remark to that effect. What
other rows would do shows in selections from halves of the rows, in pairs that have none in common (Shah and Samworth
2013, "Variable selection with error control"); half the rows choose worse than all, so that this is a lower bound.

Random features of two seeds are not the same functions, and share no ids that mean anything. Of these it is the inputs
that are compared: which of them, largest first, make up nine tenths of the importance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, check_choice
from daskfs.selection.column_slices import FeatureIds
from daskfs.selection.intervals import UNKNOWN, Interval, Z
from daskfs.selection.records import without_nan
from daskfs.selection.selection import Selection

MOST_LISTED = 10_000  # features in a record
LONGEST_NAME = 200  # characters there; ids are what counts
FEWEST = 10  # selections that an interval can be told from: the variance is that of very many
MATTERS = 0.9  # the share of the importance that the inputs which count make up together

SAME = "The runs are the same to the last bit: the seed makes no difference here, and the index says nothing."


Over = Literal["seeds", "halves"]


@dataclass(frozen=True, eq=False)
class Stability:
    """How much selections by one algorithm have in common that differ in their seed, or in their rows.

    Parameters
    ----------
    over
        What was varied: "seeds", which tells what chance in the algorithm does; or "halves" of the rows.
    of
        What was compared: "features"; or "inputs", those that matter to random features.
    seeds
        The seeds, in the order of the selections.
    index
        Nogueira's index, at most 1; NaN where everything there is was chosen, so that nothing can vary.
    interval
        Its 95 % interval; NaN of fewer than ten selections.
    jaccard
        What two selections share, as a part of what either has, averaged over pairs.
    features, names
        All that was chosen at least once, most often chosen first, then by mean rank.
    times
        In how many selections each was chosen.
    n_candidates
        Of how many they were chosen; the index is about sets of that many.
    identical
        Whether the selections are the same to the last bit, so that the seed makes no difference and 1 says nothing.
    rank_correlation
        Of inputs: Spearman's rank correlation of their importance, averaged over pairs; None of features.
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

    def record(self) -> dict[str, Any]:
        """As JSON holds it: None for NaN, of the features the first 10,000, long names cut."""
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
    """How much selections that differ in their seed, or in their rows, have in common.

    Parameters
    ----------
    selections
        Two at least, by one algorithm, each under another seed: of one dataset, or of halves of it (`split`).
    over
        Which: "seeds" or "halves".

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 30))
    >>> daskfs.write_dataset("d.zarr", X, X[:, 3] > X[:, 8], layout="rows")
    >>> runs = [daskfs.select("d.zarr", daskfs.Mission(4, width=64, refit=1), seed=seed) for seed in range(3)]
    >>> found = daskfs.stability(runs)
    >>> sorted(found.names[:2]), found.times[:2]
    (['x3', 'x8'], array([3, 3]))
    """
    check_choice("over", over, Over)
    _check_alike(selections, over)
    inputs = [selection.inputs for selection in selections if selection.inputs is not None]
    if inputs:
        names = inputs[0].names
        importances = np.stack([each.expansion.importance for each in inputs])
        sets, candidates = [_that_matter(each) for each in importances], len(names)
        called = dict(enumerate(names))
    else:
        importances = None
        sets, candidates = [selection.features for selection in selections], _candidates(selections)
        called = {
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
        names=[called[feature] for feature in features.tolist()],
        times=times,
        n_candidates=candidates,
        identical=all(_same(selections[0], other) for other in selections[1:]),
        rank_correlation=None if importances is None else _mean_rank_correlation(importances),
    )


def nogueira(sets: Sequence[FeatureIds], n_candidates: int) -> tuple[float, Interval]:
    """Nogueira's index of sets of ids, each without duplicates, and its 95 % interval.

    >>> sets = [np.array(ids, np.uint64) for ids in ([1, 2, 3], [1, 2, 4], [1, 2, 3], [1, 5, 3]) * 3]
    >>> index, (low, high) = nogueira(sets, n_candidates=100)
    >>> round(index, 3), round(low, 3), round(high, 3)
    (0.719, 0.622, 0.816)
    """
    count, d = len(sets), n_candidates
    ids, times = np.unique(np.concatenate(sets), return_counts=True)
    share, sizes = times / count, np.array([len(one) for one in sets])
    k = sizes.mean()
    by_chance = k / d * (1 - k / d) if d else 0.0
    if not by_chance > 0:
        return math.nan, UNKNOWN
    index = float(1 - count / (count - 1) * (share @ (1 - share)) / d / by_chance)
    agreed = np.array([share[np.searchsorted(ids, one)].sum() for one in sets]) / d
    expected = sizes * k / d**2
    phi = (agreed - expected + index / 2 * (2 * expected - sizes / d - k / d + 1)) / by_chance
    if count < FEWEST:
        return index, UNKNOWN
    error = 2 / count * math.sqrt(float(np.square(phi - phi.mean()).sum()))
    return index, (index - Z * error, min(index + Z * error, 1.0))


def _check_alike(selections: Sequence[Selection], over: Over) -> None:
    """OptionError unless nothing but the seed differs, and perhaps the rows."""
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


def _same(one: Selection, other: Selection) -> bool:
    """Whether two selections are the same features with the same weights."""
    pairs = ((one.features, other.features), (one.weights, other.weights), (one.intercept, other.intercept))
    return one.inputs is None and all(np.array_equal(mine, yours) for mine, yours in pairs)


def _candidates(selections: Sequence[Selection]) -> int:
    """Of how many features they were chosen; with products, of all single ones and all pairs."""
    features = int(selections[0].source["n_features"])
    made = any(selection.products is not None for selection in selections)
    return features * (features + 1) // 2 if made else features


def _that_matter(importance: NDArray[np.float64]) -> FeatureIds:
    """The inputs, largest first, that make up nine tenths of the importance together; none if there is none."""
    order = np.argsort(-importance, kind="stable")
    sums = np.cumsum(importance[order])
    if not sums[-1] > 0:
        return np.empty(0, np.uint64)
    needed = int(np.searchsorted(sums, MATTERS * sums[-1])) + 1
    return order[:needed].astype(np.uint64)


def _by_frequency(sets: Sequence[FeatureIds]) -> tuple[FeatureIds, NDArray[np.int64]]:
    """All ids, most frequent first, then by their mean place; and how often each is there."""
    ids, where, times = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    places = np.bincount(where, np.concatenate([np.arange(len(one)) for one in sets]), len(ids)) / times
    order = np.lexsort((ids, places, -times))
    return ids[order], times[order].astype(np.int64)


def _mean_jaccard(sets: Sequence[FeatureIds]) -> float:
    shares = []
    for one, other in combinations(sets, 2):
        both = len(np.intersect1d(one, other, assume_unique=True))
        either = len(one) + len(other) - both
        shares.append(both / either if either else 1.0)  # two empty sets are the same
    return float(np.mean(shares))


def _mean_rank_correlation(importances: NDArray[np.float64]) -> float:
    """Spearman's, averaged over pairs; NaN where an importance is the same for all inputs."""
    ranks = np.stack([_ranks(importance) for importance in importances])
    ranks -= ranks.mean(axis=1, keepdims=True)
    lengths = np.sqrt(np.square(ranks).sum(axis=1))
    if not (lengths > 0).all():
        return math.nan
    pairs = (ranks / lengths[:, None]) @ (ranks / lengths[:, None]).T
    return float(pairs[np.triu_indices(len(pairs), 1)].mean())


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 1 for the smallest; those that tie share the mean of their ranks."""
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    shared: NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return shared[where]
