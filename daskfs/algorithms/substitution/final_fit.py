"""The final fit of a selected set: its weights at the minimum of the loss, under the best ridge penalty."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import SOFTMAX, SQUARED, curvatures
from daskfs.algorithms.losses import Floats
from daskfs.algorithms.substitution.grams import inverse_of, leverages, weighted_gram
from daskfs.algorithms.substitution.selected_set import LEAST_RIDGE, SelectedSet
from daskfs.protocol import copy_state

_NOTHING = 1e-12  # share of the objective below which the last steps of a fit of several scores end
_LEAST_CURVATURE = 1e-8  # the least curvature of a row in the final fit, only to make H invertible
_DESCENTS = 500  # steps of L-BFGS at most, for several scores
_PAIRS = 12  # steps that L-BFGS remembers
_ROWS_TO_CHOOSE = 4096  # on which ridges of the final fit are compared at most
_ENOUGH_ROWS = 100  # for each feature, with which the ridge of the final fit hardly matters
_CHOICE_FACTOR = 10**0.5  # from one of these ridges to the next
_MOST_CHOICES = 12  # of these factors, up or down
_LEAST_LEFT = 1e-3  # of the curvature of a row, without the row
_STEPS = 25  # of Newton's method at most in the final fit; from a good start it takes a few


def fit(selected: SelectedSet) -> None:
    """Fit the weights of the set to the minimum of the loss under the ridge penalty."""
    if len(selected.w) > 1 and selected.code != SQUARED:
        selected.refresh()
        _descend(selected)
        selected.refresh(steps=1)
        return
    selected.refresh(_STEPS)
    if selected.code != SQUARED:
        selected.refresh(_STEPS, _LEAST_CURVATURE)


def fit_best(selected: SelectedSet, least_ridge: float = LEAST_RIDGE) -> None:
    """Fit the weights under the ridge penalty with the least leave-one-out loss, but at least `least_ridge`.

    Of many rows a part is enough to choose the penalty, and of very many for each feature any penalty will do.
    """
    if len(selected.h) > max(_ENOUGH_ROWS * selected.k, _ROWS_TO_CHOOSE):
        fit(selected)
        return
    rows = np.arange(0, len(selected.h), -(-len(selected.h) // _ROWS_TO_CHOOSE))
    trial, losses = _part(selected, rows), dict[int, float]()
    best, ridge = 0, max(selected.ridge, least_ridge)
    for direction in (1, -1):
        while abs(best) < _MOST_CHOICES:
            for number in (best, best + direction):
                if number not in losses:
                    trial.ridge = max(ridge * _CHOICE_FACTOR**number, least_ridge)
                    fit(trial)
                    losses[number] = leave_one_out(trial)
            if losses[best + direction] >= losses[best]:
                break
            best += direction
    selected.ridge = max(ridge * _CHOICE_FACTOR**best, least_ridge)
    fit(selected)


def _part(selected: SelectedSet, rows: NDArray[np.int64]) -> SelectedSet:
    """Return a copy of the set with some of the rows, which shares the matrix X if these are all rows."""
    if len(rows) == len(selected.h):
        return selected.copy_fit()
    copied: SelectedSet = copy_state(replace(selected, X=selected.X[:0]))
    arrays = {name: getattr(selected, name)[..., rows] for name in ("target", "importance", "u", "r", "h")}
    return replace(copied, X=np.asfortranarray(selected.X[rows, : selected.k]), **arrays)


def leave_one_out(selected: SelectedSet) -> float:
    """Return the loss of all rows, of which each is scored by weights that were fitted without it.

    A Newton step from the joint fit gives these scores; for the squared loss they are exact.
    """
    X, u, shared = selected.X[:, : selected.k], np.empty_like(selected.u), None
    if len(u) == 1 or selected.code == SQUARED:
        shared = leverages(X, selected.inverse[: selected.k, : selected.k])
    for c in range(len(u)):
        h = selected.h if shared is not None else _curvature_of(selected, c)
        at = leverages(X, inverse_of(weighted_gram(X, h) + np.diag(selected.penalty()))) if shared is None else shared
        u[c] = selected.u[c] - at * selected.r[c] / np.maximum(1 - at * h, _LEAST_LEFT)
    return selected.write_residuals(u, np.empty_like(selected.r))


def _curvature_of(selected: SelectedSet, c: int) -> Floats:
    """Return the weighted curvature of every row along one of several scores."""
    h = np.empty(len(selected.h))
    if selected.code != SOFTMAX:
        curvatures(selected.code, selected.u[c], selected.target[c], selected.importance, _LEAST_CURVATURE, h)
        return h
    p = np.where(selected.target[c] > 0, 1.0, 0.0) - selected.r[c] / np.maximum(selected.importance, 1e-12)
    # Only differences of scores matter: of two scores, each has half of the curvature of their difference.
    curved: Floats = (
        selected.importance * np.maximum(p * (1 - p), _LEAST_CURVATURE) * len(selected.u) / (len(selected.u) - 1)
    )
    return curved


def _descend(selected: SelectedSet) -> None:
    """Minimise the loss of several scores by L-BFGS, in the metric of the Hessian that they share."""
    k, X = selected.k, selected.X
    pairs: list[tuple[Floats, Floats]] = []  # of steps, and how each changed the slope
    slope = selected.slope()
    for _ in range(_DESCENTS):
        step, shares = slope.copy(), []
        for moved, turned in reversed(pairs):
            shares.append(float((moved * step).sum() / (moved * turned).sum()))
            step -= shares[-1] * turned
        step = step @ selected.inverse[:k, :k]
        for (moved, turned), share in zip(pairs, reversed(shares), strict=True):
            step += (share - float((turned * step).sum() / (moved * turned).sum())) * moved
        old, promised = selected.w[:, :k].copy(), float((slope * step).sum())
        before = selected.search_line(step, step.astype(X.dtype) @ X[:, :k].T)
        selected.write_residuals(selected.u, selected.r)
        previous, slope = slope, selected.slope()
        pair = selected.w[:, :k] - old, previous - slope
        if promised < _NOTHING * before or float((pair[0] * pair[1]).sum()) <= 0:
            break
        pairs = [*pairs[1 - _PAIRS :], pair]
