"""The result of a selected set: its features, ranked by what each adds to the features before it, and their weights.

Features join one after the other: always the one by which the objective, loss and ridge penalty, promises to fall most.
Then the weights of all features so far are fitted anew, and the importance of the feature is the fall. So the first
features are a good set by themselves, and all importances add up to what the features together are worth.

With the squared loss, the Gram matrix of the columns is enough for that. With other losses, weights are fitted to at
most 4,096 rows; each fit starts at the weights of the fit before, and takes a few Newton steps. After the first eight
features, several join between two fits, an eighth of the number that have joined: a quadratic model divides the fall of
the objective among them, and they are sorted by their shares. If a few features tell the classes of few rows apart, a
small ridge says little about the others: up to 4,096 rows are fitted with a ridge of at least 0.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import SQUARED
from daskfs.algorithms.losses import Floats
from daskfs.algorithms.substitution.final_fit import take_rows
from daskfs.algorithms.substitution.grams import products, weighted_gram
from daskfs.algorithms.substitution.selected_set import LEAST_RIDGE, SelectedSet
from daskfs.protocol import Label, Result

_MOST_ROWS = 4096
_RANKING_RIDGE = 0.2
_PREFIXES = 8  # fits until the number of features has grown by a factor of e
_DRIFT = 0.1  # share of the curvature that may change before promises are computed anew
_TINY = float(np.finfo(np.float64).tiny)
_STEPS = 25  # of Newton's method at most, for what is in the model without any feature


def make_result(
    selected: SelectedSet,
    n_select: int,
    spare: NDArray[np.int64],
    classes: tuple[Label, ...] | None,
    history: Sequence[Any],
    chosen: Mapping[str, float | str],
) -> Result:
    """Return the features of a fitted set, the most important first, with weights in the units of the data.

    If the data have fewer than `n_select` useful columns, because of constants and near-duplicates, the result is
    filled up with columns of `spare` with weight 0. The columns to keep come last, constant ones with weight 0.
    """
    k, keep, norm = selected.k, selected.keep, selected.norm
    order, importance = rank_features(selected)
    raw = selected.w[:, :k] / norm[:k]
    intercept = selected.w[:, 0] / np.sqrt(len(selected.h)) if selected.intercept else np.zeros(len(selected.w))
    intercept -= raw[:, selected.intercept :] @ selected.mean[selected.intercept : k]
    fill = spare[~np.isin(spare, [*selected.held.ids, *keep])][: n_select - len(order)]
    of_kept = np.zeros((len(selected.w), len(keep)))
    slots = np.arange(selected.intercept, selected.fixed)
    of_kept[:, [keep.tolist().index(feature) for feature in selected.ids[slots].tolist()]] = raw[:, slots]
    weights = np.hstack([raw[:, order], np.zeros((len(selected.w), len(fill))), of_kept])
    return Result(
        features=np.concatenate([selected.ids[order], fill, keep]).astype(np.uint64),
        weights=weights[0] if len(weights) == 1 else weights.T,
        intercept=intercept,
        classes=classes,
        history=history,
        importance=np.pad(importance, (0, len(fill) + len(keep))),
        n_kept=len(keep),
        chosen=chosen,
    )


def rank_features(selected: SelectedSet) -> tuple[NDArray[np.int64], Floats]:
    """Return the slots of all features, the most important first, and how far the objective falls by each of them."""
    n = len(selected.h)
    if selected.code == SQUARED:
        H, c = selected.quadratic()
        promises = _Promises(H + np.diag(selected.penalty()), c)
        for slot in range(selected.fixed):
            promises.take(slot)
        order, falls = list[int](), list[float]()
        while n_joining := _count_joining(len(order), selected):
            joining, fall = promises.take_best(n_joining)
            order, falls = order + joining, falls + fall
        return np.array(order, np.int64), np.array(falls)
    if n > _MOST_ROWS:
        whole = take_rows(selected, np.arange(0, n, -(-n // _MOST_ROWS)))
        whole.ridge *= len(whole.h) / n
    else:
        whole = selected.copy_fit()
        whole.ridge = max(whole.ridge, _RANKING_RIDGE)
    return _rank_by_fits(whole)


class _Promises:
    """A quadratic model ½ wᵀHw − cᵀw of the objective, whose weights join one after the other.

    The fall that a weight promises is ½ c_i² / H_ii once the weights that have joined are eliminated from H and c.
    """

    def __init__(self, H: Floats, c: Floats) -> None:
        self.H, self.c, self.falls = H, c, list[float]()
        self.is_left = np.ones(len(H), bool)

    def take(self, slot: int) -> None:
        """Let a weight join."""
        row, pivot, slope = self.H[slot].copy(), max(self.H[slot, slot], LEAST_RIDGE), self.c[:, slot].copy()
        self.falls.append(float((slope**2).sum() / pivot / 2))
        self.H -= np.outer(row, row / pivot)
        self.c -= np.outer(slope, row / pivot)
        self.is_left[slot] = False

    def take_best(self, n_joining: int) -> tuple[list[int], list[float]]:
        """Let weights join, each promising the largest fall; return their slots by descending falls, and the falls."""
        slots = list[int]()
        for _ in range(n_joining):
            left = np.flatnonzero(self.is_left)
            pivots = np.maximum(np.diag(self.H)[left], LEAST_RIDGE)
            slots.append(int(left[((self.c[:, left] ** 2).sum(axis=0) / pivots).argmax()]))
            self.take(slots[-1])
        falls = self.falls[-n_joining:]
        by_fall = sorted(range(n_joining), key=lambda at: -falls[at])
        return [slots[at] for at in by_fall], [falls[at] for at in by_fall]


def _count_joining(n_joined: int, selected: SelectedSet) -> int:
    """Return how many features join at once after `n_joined` others."""
    return min(1 + n_joined // _PREFIXES, selected.k - selected.fixed - n_joined)


def _rank_by_fits(whole: SelectedSet) -> tuple[NDArray[np.int64], Floats]:
    """Return what `rank_features` does, from a fit of the features that have joined after each of them."""
    X, fixed = whole.X[:, : whole.k], whole.fixed
    part = whole.copy_fit()
    part.X = np.zeros(X.shape, X.dtype, order="F")
    part.X[:, :fixed], part.w[:, fixed:], part.k = X[:, :fixed], 0.0, fixed
    part.u[:] = part.w[:, :fixed].astype(X.dtype) @ X[:, :fixed].T
    part.refresh(_STEPS)
    slot_of = {feature: slot for slot, feature in enumerate(whole.ids[: whole.k].tolist())}
    promises, order, falls, h = None, list[int](), list[float](), part.h
    while n_joining := _count_joining(len(order), whole):
        if promises is None or np.abs(part.h - h).sum() > _DRIFT * part.h.sum():
            inside, h = [slot_of[feature] for feature in part.ids[: part.k].tolist()], part.h.copy()
            H = weighted_gram(X, h) + np.diag(whole.penalty())
            H -= H[:, inside] @ part.inverse[: part.k, : part.k] @ H[inside]
            promises = _Promises(H, np.zeros((len(part.w), whole.k)))
            promises.is_left[[*range(fixed), *order]] = False
        promises.c = products(X, part.r)
        joining, promised = promises.take_best(n_joining)
        before = part.objective
        if part.enter(whole.columns.take(np.array(joining) - fixed), part.k - fixed + n_joining):
            part.settle()
        order += joining
        share = max(before - part.objective, 0.0) / max(sum(promised), _TINY)
        falls += [fall * share for fall in promised]
    return np.array(order, np.int64), np.array(falls)
