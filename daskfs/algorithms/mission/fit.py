"""The last fit of MISSION: a ridge regression of the selected features, on rows that are kept in memory.

It minimises Σ loss(w·x + b, y) + ½ ridge · Σ σ_j w_j², where σ_j is the standard deviation of feature j. That is
halfway between a penalty on what a feature contributes, (σ_j w_j)², which lets rare features have very large weights,
and one on the weight itself. Rare features of few rows were selected because they fit these rows, and those left out of
the fit too.

The ridge is the one with the least loss of rows that were left out: by cross-validation, or if there are many rows, on
a quarter of a sample of them. Since the loss is a sum and not a mean, the best ridge does not grow with the number of
rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import residuals

_RIDGES = (1e3, 1e2, 1e1, 1.0, 0.1, 0.01)
_FOLDS = 4
_HALFWAY = 0.5  # the power of the standard deviation by which columns are divided
_MANY = 1 << 18  # entries times scores, from which on one fold of a sample has to do
_STEPS = 60
_TO_COMPARE, _TO_KEEP = 1e-6, 2e-9  # tolerances of models that tell ridges apart, and of the one that is the result
_CONSTANT = 1e-12  # a column whose variance is a smaller share of its mean square is constant up to rounding


@dataclass(frozen=True)
class RidgeRows:
    """Rows (n, k) and their targets, and the loss of linear models on these rows."""

    X: scipy.sparse.csr_array
    y: NDArray[np.float64]
    """(n,): the target as the losses take it, or the class number."""
    weight: NDArray[np.float64]  # (n,)
    n_scores: int
    code: int
    """The loss of `losses.CODE` if there is one score; with several scores the loss is softmax."""
    intercept: bool

    def take(self, which: NDArray[np.bool_]) -> RidgeRows:
        """Return some of the rows."""
        X, y, weight = self.X[np.flatnonzero(which)], self.y[which], self.weight[which]
        return RidgeRows(X, y, weight, self.n_scores, self.code, self.intercept)

    def deviations(self) -> NDArray[np.float64]:
        """Return the standard deviation of every column, or without an intercept its root mean square."""
        share = self.weight / max(self.weight.sum(), 1e-300)
        mean, square = self.X.T @ share * self.intercept, self.X.power(2).T @ share
        variance = square - mean**2
        return np.sqrt(np.where(variance > _CONSTANT * square, variance, 0.0))

    def loss(self, model: NDArray[np.float64], ridge: float = 0.0) -> tuple[float, NDArray[np.float64]]:
        """Return the loss of a model, and the gradient.

        A model is the weights (k, scores) and then the intercepts (1, scores), flat. Intercepts have no penalty.
        """
        W = model.reshape(-1, self.n_scores)
        Z, Y = self.X @ W[:-1] + self.intercept * W[-1], self.y
        if self.n_scores == 1:
            R = np.empty_like(Z)
            total = float(residuals(self.code, Z.ravel(), Y, self.weight, R.ravel()))  # views of contiguous memory
        else:
            right = np.arange(len(Y)), Y.astype(np.int64)
            Z -= Z.max(axis=1, keepdims=True)
            log_total = np.log(np.exp(Z).sum(axis=1))
            total = float(self.weight @ (log_total - Z[right]))
            R = -np.exp(Z - log_total[:, None])
            R[right] += 1
            R *= self.weight[:, None]
        gradient = np.vstack([ridge * W[:-1] - self.X.T @ R, -int(self.intercept) * R.sum(axis=0)])
        return total + 0.5 * ridge * float(np.square(W[:-1]).sum()), gradient.ravel()

    def minimise(self, ridge: float, start: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
        """Return the model with the least penalised loss; the last step lowers the loss by a share of `tolerance`."""
        options = {"maxiter": _STEPS, "ftol": tolerance}
        best = scipy.optimize.minimize(self.loss, start, args=(ridge,), jac=True, method="L-BFGS-B", options=options)
        return np.asarray(best.x)


def load_scipy() -> None:
    """Import what a fit needs of SciPy, which imports its parts when they are first used, in the midst of a run."""
    _ = scipy.optimize, scipy.sparse


@dataclass(frozen=True)
class RidgeFit:
    """The best ridge for some rows, before the fit of all rows."""

    rows: RidgeRows
    """The rows, with columns divided by `divisors`."""
    divisors: NDArray[np.float64]
    ridge: float
    start: NDArray[np.float64]
    """A model of some of the rows, to begin with."""
    loss: float
    """The mean loss of held-out rows in cross-validation; NaN without rows."""

    def model(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weights (k, scores) and intercepts (scores,) of a fit of all rows."""
        model = self.rows.minimise(self.ridge, self.start, _TO_KEEP).reshape(-1, self.rows.n_scores)
        return model[:-1] / self.divisors[:, None], model[-1] * self.rows.intercept


def choose_ridge(rows: RidgeRows) -> RidgeFit:
    """Return the ridge with the least loss of rows while they are left out."""
    scaled, divisors = _divided(rows, _HALFWAY)
    sample, many = _sample(scaled)
    folds, n_folds = np.random.default_rng(0).permutation(len(sample.y)) % _FOLDS, 1 if many else _FOLDS
    parts = [(sample.take(folds != fold), sample.take(folds == fold)) for fold in range(n_folds)]
    models, losses = [_nothing(rows)] * n_folds, np.full(len(_RIDGES), np.inf)
    for i, ridge in enumerate(_RIDGES):
        models = [part.minimise(ridge, model, _TO_COMPARE) for (part, _), model in zip(parts, models, strict=True)]
        losses[i] = sum(left_out.loss(model)[0] for (_, left_out), model in zip(parts, models, strict=True))
        if i > 1 and losses[i] > losses[i - 1] > losses[i - 2]:
            break
    total = sum(left_out.weight.sum() for _, left_out in parts)
    loss = float(losses.min() / total) if total else np.nan
    return RidgeFit(scaled, divisors, _RIDGES[int(losses.argmin())], models[0], loss)


def contributions(rows: RidgeRows, ridge: float) -> NDArray[np.float64]:
    """Return weight × standard deviation of every column, added up over scores, in a rough fit of a sample of rows."""
    model = _sample(_divided(rows, 1.0)[0])[0].minimise(ridge, _nothing(rows), _TO_COMPARE)
    return np.asarray(np.abs(model.reshape(-1, rows.n_scores)[:-1]).sum(axis=1))


def _nothing(rows: RidgeRows) -> NDArray[np.float64]:
    """Return a model with weights 0."""
    return np.zeros((rows.X.shape[1] + 1) * rows.n_scores)


def _divided(rows: RidgeRows, power: float) -> tuple[RidgeRows, NDArray[np.float64]]:
    """Return rows with columns divided by powers of their standard deviations, and these, infinite for constants."""
    spread = rows.deviations()
    divisors = np.where(spread > 0, spread**power, np.inf)  # the intercept has what a constant could add
    X = scipy.sparse.csr_array(rows.X @ scipy.sparse.diags_array(1 / divisors))
    y = np.array(rows.y)  # not read-only, as folds are not: or kernels would be compiled for both
    return RidgeRows(X, y, rows.weight, rows.n_scores, rows.code, rows.intercept), divisors


def _sample(rows: RidgeRows) -> tuple[RidgeRows, bool]:
    """Return all rows, or a random sample of them if they are many, and whether they are many."""
    many = rows.X.nnz * rows.n_scores / _MANY
    if many <= 1:
        return rows, False
    return rows.take(np.random.default_rng(0).random(len(rows.y)) < 1 / many), True
