"""The final fit of a selected set: its weights at the minimum of the loss, under the best ridge penalty."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import SQUARED
from daskfs.algorithms.losses import Floats, row_losses
from daskfs.algorithms.substitution.grams import leverages
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
_COARSELY = 1e-7  # in place of it, while ridges are compared
_FOLDS = 4
_LEAST_LEFT = 1e-3  # of the curvature of a row, without the row
_STEPS = 25  # of Newton's method at most in the final fit; from a good start it takes a few


def fit(selected: SelectedSet, tolerance: float = _NOTHING) -> None:
    """Fit the weights of the set to the minimum of the loss under the ridge penalty.

    A fit of several scores ends when a step promises less than the `tolerance`, a share of the objective.
    """
    if len(selected.w) > 1 and selected.code != SQUARED:
        selected.refresh()
        _descend(selected, tolerance)
        selected.refresh(steps=1)
        return
    selected.refresh(_STEPS)
    if selected.code != SQUARED:
        selected.refresh(_STEPS, _LEAST_CURVATURE)


def fit_best(selected: SelectedSet, least_ridge: float = LEAST_RIDGE) -> None:
    """Fit the weights under the ridge penalty with the least loss of rows left out, but at least `least_ridge`.

    Of many rows a part is enough to choose the penalty, and of very many for each feature any penalty will do.
    """
    if len(selected.h) > max(_ENOUGH_ROWS * selected.k, _ROWS_TO_CHOOSE):
        fit(selected)
        return
    part = take_rows(selected, np.arange(0, len(selected.h), -(-len(selected.h) // _ROWS_TO_CHOOSE)))
    left_out = LeftOut.of(part)
    losses, best, ridge = dict[int, float](), 0, max(selected.ridge, least_ridge)
    for direction in (1, -1):
        while abs(best) < _MOST_CHOICES:
            for number in (best, best + direction):
                if number not in losses:
                    losses[number] = left_out.loss(max(ridge * _CHOICE_FACTOR**number, least_ridge))
            if losses[best + direction] >= losses[best]:
                break
            best += direction
    selected.ridge = max(ridge * _CHOICE_FACTOR**best, least_ridge)
    fit(selected)


@dataclass(frozen=True)
class LeftOut:
    """Fits of a set that tell the loss of rows left out, each of which starts from the one before.

    One score: a fit to all rows, from which `leave_one_out` follows. Several scores of classes: fits without a part of
    the rows, since what follows from one fit is far from the truth where columns tell all classes apart.
    """

    fits: list[SelectedSet]
    folds: NDArray[np.int64]  # of every row: the number of the fit without it
    weight: Floats  # of every row

    @classmethod
    def of(cls, selected: SelectedSet) -> LeftOut:
        folds = np.zeros(len(selected.h), np.int64)
        if len(selected.w) == 1 or selected.code == SQUARED:
            return cls([selected], folds, selected.row_weight)
        folds[np.argsort(selected.target.argmax(axis=0), kind="stable")] = np.arange(len(folds)) % _FOLDS
        fits = [selected.copy_fit() for _ in range(_FOLDS)]
        for number, part in enumerate(fits):
            part.row_weight[folds == number] = 0.0
        return cls(fits, folds, selected.row_weight)

    def loss(self, ridge: float) -> float:
        """Return the loss of all rows, each scored by weights that were fitted without it under a ridge penalty."""
        for part in self.fits:
            part.ridge = ridge
            fit(part, _COARSELY)
        if len(self.fits) == 1:
            return leave_one_out(self.fits[0])
        u = np.choose(self.folds, [part.u for part in self.fits])
        return float(row_losses(self.fits[0].code, u, self.fits[0].target) @ self.weight)


def folds_nbytes(n: int, slots: int, itemsize: int, n_scores: int) -> int:
    """Return the bytes of the fits of several scores that `fit_best` compares, without the columns they share."""
    rows, size = min(n, _ROWS_TO_CHOOSE), slots + 1
    return _FOLDS * (8 * size * (size + 8) + rows * (8 + itemsize + n_scores * (16 + itemsize)))


def take_rows(selected: SelectedSet, rows: NDArray[np.int64]) -> SelectedSet:
    """Return a copy of the set with some of the rows, which shares the matrix X if these are all rows."""
    if len(rows) == len(selected.h):
        return selected.copy_fit()
    copied: SelectedSet = copy_state(replace(selected, X=selected.X[:0]))
    arrays = {name: getattr(selected, name)[..., rows] for name in ("target", "row_weight", "u", "r", "h")}
    return replace(copied, X=np.asfortranarray(selected.X[rows, : selected.k]), **arrays)


def leave_one_out(selected: SelectedSet) -> float:
    """Return the loss of all rows, of which each is scored by weights that were fitted without it.

    A Newton step from the joint fit gives these scores. They are exact for the squared loss, which may have several
    scores; other losses must have one.
    """
    at = leverages(selected.X[:, : selected.k], selected.inverse[: selected.k, : selected.k])
    u = selected.u - at * selected.r / np.maximum(1 - at * selected.h, _LEAST_LEFT)
    return selected.write_residuals(u, np.empty_like(selected.r))


def _descend(selected: SelectedSet, tolerance: float) -> None:
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
        if promised < tolerance * before or float((pair[0] * pair[1]).sum()) <= 0:
            break
        pairs = [*pairs[1 - _PAIRS :], pair]
