"""The choice of gamma and of a penalty before the first round, by cross-validation on the sample of rows.

The finer the random features ("waves") are, the more noise they explain, and the larger the penalty must be: both are
chosen together. Every gamma is judged by four folds of the sampled rows. In each fold, a lasso on a few hundred waves
and the linear terms has smaller and smaller penalties until the squared error on the held-back rows rises. If there are
many linear terms, a fit has only those that correlate best with the target on the rows of the fit. If the sample has
all rows, linear terms without any waves are compared, too, and waves are drawn only if they do better. Sums over noise
grow with the square root of the number of rows, and so does the penalty from the sample to all rows. Features that the
user asked to keep have no penalty: their part of waves, columns and targets is subtracted before each fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Loss
from daskfs.algorithms.random_features import lasso
from daskfs.algorithms.random_features.inputs import features_with_ids, linear_columns, sample_rows
from daskfs.algorithms.random_features.lasso import Float64Array
from daskfs.algorithms.random_features.state import RandomFeaturesState, Rows
from daskfs.algorithms.random_features.unpenalised import KEPT_RIDGE, shortest_solution
from daskfs.protocol import Meta

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

MULTIPLES = {"gaussian": (1.0, 4.0, 16.0), "laplacian": (1.0, 2.0, 4.0), "perceptron": (1.0,)}
"""Multiples of the gamma of the median heuristic that are compared."""
_GRADIENT: dict[Loss, float] = {"squared": 1.0, "squared_hinge": 1.0, "logistic": 0.5}
"""The gradient of a loss at score 0, as a share of that of the squared loss, which stands for it here."""
_WAVES = 768
_MOST_LINEAR = 256  # linear terms in a fit; of more columns, those that correlate best with the target
_FIRST_WAVE = 1 << 61  # far from the ids of the rounds
_MOST_TARGETS = 3  # classes that are compared, the most frequent ones
_FOLDS = 4
_PENALTIES = 0.6 ** np.arange(15)  # as shares of the largest that admits a wave
_PATIENCE = 2  # penalties that raise the error, after which smaller ones are not tried
_FEWEST_PENALTIES = 6  # that are tried: the first features of a path, above all steps, may raise the error
_TOLERANCE = 1e-2
_CONSTANT = 1e-12  # a target that differs by less, as a share of itself, is constant
_TINY = float(np.finfo(np.float64).tiny)
_ROUNDING = 1e-5  # added to the diagonal of Gram matrices that are summed in float32


def scale_nbytes(d: int, n_kept: int) -> int:
    """Return the bytes that the choice takes."""
    A, rows = _WAVES + d, sample_rows(d)
    without_kept = 8 * n_kept * (3 * n_kept + 2 * A + 4 * rows) + 4 * rows * A * (_FOLDS + 3) if n_kept else 0
    return 8 * (_WAVES + min(d, _MOST_LINEAR)) ** 2 * (_FOLDS + 3) + 4 * 5 * rows * A + without_kept


def sees_all_rows(meta: Meta, d: int) -> bool:
    """Return whether the sample has all rows, so that the penalty need not be chosen on held-back rows."""
    return meta.n_samples <= sample_rows(d)


class Scale(NamedTuple):
    """How many waves a fit has beside the linear terms, and their gamma."""

    n_waves: int
    gamma: float


def choose_scale(params: SparseRandomFeatures, state: RandomFeaturesState) -> None:
    """Set gamma and the penalty of the rounds where they are "auto"."""
    inputs = state.inputs
    if params.penalty != "auto":
        state.penalty = float(params.penalty)
    if "auto" not in (params.penalty, params.gamma):
        return
    rows = _scaled_sample(state)
    to_sample = _GRADIENT[state.fitted_loss] * np.sqrt(state.total / max(float(rows.weight.sum()), 1.0))
    multiples = MULTIPLES[params.kernel] if params.gamma == "auto" else (1.0,)
    fixed = None if params.penalty == "auto" else state.penalty / to_sample
    may_be_linear = params.has_linear_terms and params.n_select is None and fixed is None and not state.holds_back
    if fixed is not None and len(multiples) == 1:
        return
    gamma, linear = state.inputs.gamma, _linear_terms(params, state, rows)
    choices = [Scale(0, gamma)] if may_be_linear else []
    choices += [Scale(_WAVES, gamma * multiple) for multiple in multiples]
    errors = [_least_error(params, state, rows, linear, scale, fixed) for scale in choices]
    best = min(range(len(errors)), key=lambda at: errors[at])
    state.draws_waves, inputs.gamma = choices[best].n_waves > 0, choices[best].gamma
    if fixed is None:
        state.penalty = errors[best][1] * to_sample


def _scaled_sample(state: RandomFeaturesState) -> Rows:
    """Return the sampled rows with their targets, or ±1 for each of the most frequent classes."""
    inputs = state.inputs
    used = inputs.sample_weight > 0
    X = ((inputs.sample[used] - inputs.offset) * inputs.scale).astype(np.float32)
    y = inputs.sample_target[used]
    if len(state.labels):
        codes, counts = np.unique(y, return_counts=True)
        Y = np.where(y[:, None] == codes[np.argsort(-counts, kind="stable")[:_MOST_TARGETS]], 1.0, -1.0)
    else:
        Y = ((y - inputs.target_offset) * inputs.target_scale)[:, None]
    return Rows(X, Y, inputs.sample_weight[used])


def _linear_terms(params: SparseRandomFeatures, state: RandomFeaturesState, rows: Rows) -> NDArray[np.float32]:
    """Return the linear terms of the rows, without those of kept features."""
    inputs = state.inputs
    if not params.has_linear_terms:
        return np.empty((len(rows.X), 0), np.float32)
    terms = (rows.X - inputs.centre) * inputs.stretch
    return np.delete(terms, linear_columns(state.kept), axis=1).astype(np.float32)


def _least_error(
    params: SparseRandomFeatures,
    state: RandomFeaturesState,
    rows: Rows,
    linear: NDArray[np.float32],
    scale: Scale,
    fixed: float | None,
) -> tuple[float, float]:
    """Return the least error of all penalties, or of a fixed one, and the penalty; 0 if nothing can be explained."""
    state.inputs.gamma = scale.gamma
    waves = np.arange(_FIRST_WAVE, _FIRST_WAVE + scale.n_waves, dtype=np.uint64)
    Phi = np.hstack([features_with_ids(params.kernel, state, waves).expand(rows.X), linear])
    kept = features_with_ids(params.kernel, state, state.kept).expand(rows.X).astype(np.float64)
    if len(Phi) < _FOLDS:
        return 0.0, 0.0
    before = float(np.abs(_residuals(rows)).sum())
    searched, rest = _without_kept(kept, Phi[:, : scale.n_waves or None], rows, np.ones(len(Phi), np.bool_))
    residuals = _residuals(rest)
    top = float(np.abs(searched.T @ residuals.astype(np.float32)).max(initial=0.0))
    spread, constant = float(np.abs(residuals).sum()), _CONSTANT * float(np.abs(rows.Y).sum())
    if top <= _ROUNDING * spread or spread <= max(constant, _ROUNDING * before if len(state.kept) else 0.0):
        return 0.0, 0.0
    penalties: Float64Array = np.array([fixed]) if fixed is not None else np.asarray(top * _PENALTIES, np.float64)
    fold = np.arange(len(Phi)) % _FOLDS
    paths = [_errors(kept, Phi, scale.n_waves, rows, fold == number, penalties) for number in range(_FOLDS)]
    errors: list[float] = []
    for each in zip(*paths, strict=True):
        errors.append(sum(each))
        if len(errors) >= _FEWEST_PENALTIES and len(errors) - 1 - int(np.argmin(errors)) >= _PATIENCE:
            break
    best = int(np.argmin(errors))
    return errors[best], float(penalties[best])


def _residuals(rows: Rows) -> Float64Array:
    return np.asarray((rows.Y - np.average(rows.Y, axis=0, weights=rows.weight)) * rows.weight[:, None])


def _without_kept(
    kept: Float64Array, Phi: NDArray[np.float32], rows: Rows, learned: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], Rows]:
    """Return features and targets without the part that kept features explain, by a fit to the rows `learned`."""
    if not kept.shape[1]:
        return Phi, rows
    centred = kept - np.average(kept[learned], axis=0, weights=rows.weight[learned])
    weighted = centred[learned] * rows.weight[learned, None]
    gram = weighted.T @ centred[learned]
    gram.flat[:: len(gram) + 1] += KEPT_RIDGE * max(float(gram.diagonal().max()), _TINY)
    weights = shortest_solution(gram, np.hstack([weighted.T @ Phi[learned], weighted.T @ rows.Y[learned]]))
    explained = centred @ weights
    n_features = Phi.shape[1]
    return (Phi - explained[:, :n_features]).astype(np.float32), rows._replace(Y=rows.Y - explained[:, n_features:])


def _errors(
    kept: Float64Array,
    Phi: NDArray[np.float32],
    n_waves: int,
    rows: Rows,
    test: NDArray[np.bool_],
    penalties: Float64Array,
) -> Iterator[float]:
    """Yield the weighted squared error on the test rows, for every penalty of a fit to the other rows."""
    Phi, rows = _without_kept(kept, Phi, rows, ~test)
    weight = rows.weight[~test]
    centre, mean = np.average(Phi[~test], axis=0, weights=weight), np.average(rows.Y[~test], axis=0, weights=weight)
    root = np.sqrt(weight)[:, None]
    P = ((Phi[~test] - centre) * root).astype(np.float32)
    b = (P.T @ ((rows.Y[~test] - mean) * root)).astype(np.float64)
    strongest = n_waves + np.argsort(-np.abs(b[n_waves:]).max(axis=1), kind="stable")[:_MOST_LINEAR]
    used = np.concatenate([np.arange(n_waves), strongest])
    P, tested = P[:, used], Phi[np.ix_(test, used)] - centre[used]
    gram = (P.T @ P).astype(np.float64)
    gram.flat[:: len(gram) + 1] *= 1 + _ROUNDING
    for solution in lasso.solve_path([(gram, b[used])], penalties * (1 - 1 / _FOLDS), _TOLERANCE):
        error = tested @ solution.weights + mean - rows.Y[test]
        yield float(rows.weight[test] @ np.square(error).sum(axis=1))
