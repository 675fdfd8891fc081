"""Gram matrices of random features, a tile of rows at a time: sums in float32 within a tile, in float64 between them.

How rows are cut into tiles decides on the rounding of float32 sums, and nothing else: some 1e-6 of Σ|terms| for a few
hundred rows, below 2e-7 for many tiles, whose errors even out. ΦᵀΦ costs r A² flop, half of a plain product, as BLAS
forms a symmetric square from one of its triangles (numpy calls ssyrk for MᵀM). BLAS threads are set outside.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.random_features.kernels import add_lower, add_rows

_SLAB = 512  # columns of Φ that meet all those before them in one product


def add_gram(Phi: NDArray[np.float32], lo: int, G: NDArray[np.float64]) -> None:
    """Add the lower triangle of ΦᵀΦ, rows `lo` and below, to G (A − lo, A).

    Of so few rows Φ (r, A) that float32 can hold their sums. What lies right of the diagonal, at column > lo + row, is
    left as it is: see `whole`. Rows above `lo` are of features that were there before; no two of those are multiplied.
    """
    A = Phi.shape[1]
    if G.shape != (A - lo, A) or G.dtype != np.float64:  # kernels would write beyond its end
        raise ValueError(f"G is {G.dtype}{G.shape}; must be float64{(A - lo, A)}")
    room = np.empty(min(_SLAB, A - lo) * A, np.float32)
    for left in range(lo, A, _SLAB):
        slab = Phi[:, left : left + _SLAB]
        width = slab.shape[1]
        if left:
            before = room[: width * left].reshape(width, left)
            np.matmul(slab.T, Phi[:, :left], out=before)
            add_rows(before, left - lo, G)
        square = room[: width * width].reshape(width, width)
        np.matmul(slab.T, slab, out=square)  # one array twice: numpy turns to ssyrk
        add_lower(square, left - lo, left, G)


def whole(G: NDArray[np.float64]) -> NDArray[np.float64]:
    """A symmetric matrix from its lower triangle, in place."""
    for i in range(len(G)):  # indices of all cells would take more memory than G
        G[i, i + 1 :] = G[i + 1 :, i]
    return G
