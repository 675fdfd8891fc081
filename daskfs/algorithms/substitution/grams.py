"""Gram matrices and their inverses, for sets of columns that are fitted jointly."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.algorithms.losses import Floats
from daskfs.errors import OptionError

TILE = 16_384  # rows multiplied in the data's precision before they are added up in float64
_ATTEMPTS = 8  # at an inverse, with more and more ridge


def cross_product(A: NDArray[Any], B: NDArray[Any]) -> Floats:
    """Return AᵀB, with sums over tiles of rows in the data's precision and the total in float64."""
    out = np.zeros((A.shape[1], B.shape[1]))
    for start in range(0, len(A), TILE):
        out += A[start : start + TILE].T @ B[start : start + TILE]
    return out


def weighted_gram(A: NDArray[Any], h: NDArray[Any]) -> Floats:
    """Return Aᵀ diag(h) A, with sums over tiles of rows in the data's precision and the total in float64."""
    out = np.zeros((A.shape[1], A.shape[1]))
    for start in range(0, len(A), TILE):
        rows = slice(start, start + TILE)
        out += A[rows].T @ (A[rows] * h[rows, None])
    return out


def products(A: NDArray[Any], r: NDArray[Any]) -> Floats:
    """Return the products rA of residuals r (scores, n), summed over tiles of rows in the data's precision."""
    out = np.zeros((len(r), A.shape[1]))
    for start in range(0, len(A), TILE):
        out += r[:, start : start + TILE] @ A[start : start + TILE]
    return out


def inverse_of(H: Floats) -> Floats:
    """Return the inverse of a matrix; a small diagonal is added if rounding has made the matrix indefinite."""
    extra = 0.0
    for _ in range(_ATTEMPTS):
        try:
            return np.asarray(
                scipy.linalg.cho_solve(scipy.linalg.cho_factor(H + extra * np.eye(len(H))), np.eye(len(H)))
            )
        except np.linalg.LinAlgError:
            extra = max(10 * extra, 1e-8 * float(np.trace(H)) / len(H))
    raise OptionError("the chosen columns cannot be fitted together: give a larger ridge")


def extend_inverse(inverse: Floats, C: Floats, B: Floats) -> Floats:
    """Return the inverse of the matrix [[H, C], [Cᵀ, B]], given the inverse of H."""
    Z = inverse @ C
    schur = inverse_of(B - C.T @ Z)
    schur = (schur + schur.T) / 2
    ZS = Z @ schur
    return np.block([[inverse + ZS @ Z.T, -ZS], [-ZS.T, schur]])


def leverages(X: NDArray[Any], inverse: Floats) -> Floats:
    """Return xᵀ H⁻¹ x of every row x of X, given the inverse of H."""
    out = np.empty(len(X))
    for start in range(0, len(X), TILE):
        rows = X[start : start + TILE].astype(np.float64)
        out[start : start + TILE] = ((rows @ inverse) * rows).sum(axis=1)
    return out
