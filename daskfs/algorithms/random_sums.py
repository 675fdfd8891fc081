"""What a pass over rows keeps of random features: ΦᵀDΦ, ΦᵀT and Φw, and never a Φ of more rows than a tile.

Sums within a tile are float32, at most `GRAM_ROWS` rows long; tiles are added up in float64. How rows are cut
into blocks decides where tiles end, and with it the rounding of float32 sums, nothing else: some 1e-6 of Σ|terms| for
a few hundred rows, below 2e-7 for many tiles, whose errors even out.

Memory: `nbytes`, for one call at a time. ΦᵀDΦ costs r A² flop, half of a plain product, as BLAS forms a
symmetric square from one of its triangles (numpy calls ssyrk for MᵀM). One thread; BLAS threads are set outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.random_basis import TILE_ROWS, RandomFeatures, fits, frozen
from daskfs.algorithms.random_basis_kernels import add_lower, add_rows, weigh_rows
from daskfs.protocol import RowBlock, SparseBlock

GRAM_ROWS = 16_384
"""The longest float32 sum in a Gram matrix."""
_PHI_BYTES = 2**24
_SLAB = 512  # columns of Φ that meet all those before them in one product


def add_gram(Phi: NDArray[np.float32], lo: int, G: NDArray[np.float64]) -> None:
    """Add the lower triangle of ΦᵀΦ, rows `lo` and below, to G (A − lo, A).

    Of at most `GRAM_ROWS` rows Φ (r, A). What lies right of the diagonal, at column > lo + row, is left as it is: see
    `whole`. The rows above `lo` are of features that were there before; no product of two of those is formed.
    """
    A = Phi.shape[1]
    fits("G", G, (A - lo, A), np.float64)
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


def add_sums(
    features: RandomFeatures,
    block: RowBlock | SparseBlock,
    targets: NDArray[np.floating[Any]],
    weight: NDArray[np.float64] | None,
    lo: int,
    G: NDArray[np.float64],
    products: NDArray[np.float64],
) -> None:
    """Add a block's part of ΦᵀDΦ and ΦᵀT, for features `lo` and after, against all.

    Parameters
    ----------
    targets
        T (r, C): whatever is to meet the features, such as columns y and 1. Taken in float32: centre y first. Weights
        do not enter.
    weight
        The diagonal of D (r,), none below 0; None for 1 everywhere. A row of weight 0 costs as much as any other.
    G, products
        (A − lo, A), of which the lower triangle is added to, see `add_gram`; (A − lo, C).
    """
    r, A = len(block.y), len(features)
    fits("products", products, (A - lo, targets.shape[1]), np.float64)
    fits("targets", targets, (r, targets.shape[1]), targets.dtype)
    if weight is not None:
        fits("weight", weight, (r,), np.float64)
    held = _gram_rows(A)
    buffer = np.empty((min(r, held), A), np.float32)
    for start in range(0, r, held):
        Phi = buffer[: r - start]
        for rows, tile in features.tiles(block, range(start, start + len(Phi)), Phi):
            products += np.matmul(tile[:, lo:].T, targets[rows].astype(np.float32))
            if weight is not None:
                weigh_rows(tile, frozen(weight[rows]))
        add_gram(Phi, lo, G)


def add_products(
    features: RandomFeatures,
    block: RowBlock | SparseBlock,
    targets: NDArray[np.floating[Any]],
    products: NDArray[np.float64],
) -> None:
    """Add a block's part of ΦᵀT (A, C), such as the gradient of candidates, where T (r, C) is that of the scores."""
    r = len(block.y)
    fits("products", products, (len(features), targets.shape[1]), np.float64)
    fits("targets", targets, (r, targets.shape[1]), targets.dtype)
    for rows, Phi in features.tiles(block, range(r), _one_tile(features)):
        products += np.matmul(Phi.T, targets[rows].astype(np.float32))


def scores(
    features: RandomFeatures, block: RowBlock | SparseBlock, w: NDArray[np.floating[Any]]
) -> NDArray[np.float32]:
    """Φw (r, C) of a block, for weights w (A, C), which are taken in float32."""
    r, weights = len(block.y), w.astype(np.float32)
    z = np.empty((r, w.shape[1]), np.float32)
    for rows, Phi in features.tiles(block, range(r), _one_tile(features)):
        np.matmul(Phi, weights, out=z[rows])
    return z


def nbytes(A: int, d: int, C: int) -> int:
    """Bytes that any of the above takes for its own use, beside what it is given and returns; some 16 MB + 4 KB · A."""
    tile = TILE_ROWS * (d + 3 * C)
    return 4 * (_gram_rows(A) * A + _SLAB * A + tile + 3 * A * C)


def _one_tile(features: RandomFeatures) -> NDArray[np.float32]:
    return np.empty((TILE_ROWS, len(features)), np.float32)


def _gram_rows(A: int) -> int:
    """Rows of Φ that are held at a time: as many as sums may be long, but no more than memory is set aside for."""
    fitting = _PHI_BYTES // (4 * max(A, 1)) // TILE_ROWS * TILE_ROWS
    return min(max(fitting, TILE_ROWS), GRAM_ROWS)
