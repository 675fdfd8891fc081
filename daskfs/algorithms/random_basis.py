"""Random features: what an integer stands for, and what it says of a row.

A *random feature* is a function of a row x that is drawn, not learned (Rahimi and Recht 2007; Lin and Li 2008; the
basis of Yen et al., Sparse Random Features, NIPS 2014). The mean of φ(x) φ(y) over all draws is a kernel:

    gaussian     √2 cos(ω·x + b)     ω ~ N(0, 2γ I)                exp(−γ ‖x − y‖²)
    laplacian    √2 cos(ω·x + b)     ω ~ Cauchy(γ), coordinates    exp(−γ ‖x − y‖₁)
    perceptron   sign(ω·x − b)       ω on the unit sphere          1 − 2 ∠(x, y) / π where b = 0

with b uniform over a turn, or for a perceptron 0 or uniform within ± 1/γ, where the kernel is 1 − γ c_d ‖x − y‖ for
rows of which no ω·x is beyond ± 1/γ (c_d is the mean of |ω₁|).

**The same feature everywhere.** ω and b are a function of a seed and of the feature's 64-bit id: words of
Philox4x32-10 at a counter made of the id, turned into numbers in float64 and stored in float32. No worker is sent a
direction, and a model is ids and weights. The words are exact; log, cos, sin and tan come from the machine's C library,
whose last bits differ, so that a float32 may rarely come out as its neighbour elsewhere (1e-7 of its size). The first
coordinates do not depend on how many there are, but for the perceptron, whose length is brought to 1.

**Turns.** Directions and phases of cosines are in turns, W = ω / 2π and |b| ≤ ½. To take whole turns off a float32 is
exact, however large it is; cosines are right to 4e-7 for the float32 number u = W·x they are given. That number is a
sum of float32 products, itself right to about 1e-7 Σ|W_j x_j|: 1e-7 of a turn where directions suit the data, 1e-3 of
a turn at 10,000 turns, such as a Cauchy direction may well reach. No reduction can bring back what x in float32 does
not say. Likewise a perceptron's answer for a row next to its hyperplane is a matter of rounding.

Access: tiles of `TILE_ROWS` rows, one BLAS product and one sweep each, on one thread (BLAS threads are set outside).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.random_basis_kernels import (
    CAUCHY,
    NORMAL,
    SPHERE,
    cosines,
    draw,
    scaled_rows,
    scaled_sparse_rows,
    signs,
)
from daskfs.protocol import RowBlock, SparseBlock

Kind = Literal["gaussian", "laplacian", "perceptron"]
Threshold = Literal["none", "uniform"]
Array = TypeVar("Array", bound=NDArray[Any])

TILE_ROWS = 512
"""Rows that are expanded at a time: a thousand features of them still lie in the cache when the sweep follows."""


def directions(
    ids: NDArray[np.uint64], d: int, seed: int, kind: Kind, gamma: float, threshold: Threshold = "none"
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The directions W (A, d) and phases b (A,) of features, a function of `seed` and of each id alone.

    Parameters
    ----------
    ids, d, seed
        Of the features; of columns; any 64 bits.
    kind, gamma
        See the table above. For cosines W and b are in turns: ω / 2π, and within ± ½.
    threshold
        Of a perceptron: "none" for hyperplanes through the origin, "uniform" within ± 1/γ; γ has no other part in it.

    Examples
    --------
    >>> W, b = directions(np.array([7, 8], np.uint64), d=3, seed=0, kind="gaussian", gamma=0.5)
    >>> again, _ = directions(np.array([8], np.uint64), d=3, seed=0, kind="gaussian", gamma=0.5)
    >>> np.array_equal(again[0], W[1])
    True
    """
    W, b = np.empty((len(ids), d), np.float32), np.empty(len(ids), np.float32)
    if kind == "gaussian":
        law, scale, spread = NORMAL, math.sqrt(2 * gamma) / (2 * math.pi), 1.0
    elif kind == "laplacian":
        law, scale, spread = CAUCHY, gamma / (2 * math.pi), 1.0
    else:
        law, scale, spread = SPHERE, 1.0, 2 / gamma if threshold == "uniform" else 0.0
    draw(frozen(np.asarray(ids, np.uint64)), np.uint64(seed % 2**64), law, scale, spread, W, b)
    return W, b


def expand(
    X: NDArray[np.float32], W: NDArray[np.float32], b: NDArray[np.float32], kind: Kind, out: NDArray[np.float32]
) -> None:
    """The features of rows X (r, d) that are scaled already, into `out` (r, A), both in C order."""
    for start in range(0, len(X), TILE_ROWS):
        tile = out[start : start + TILE_ROWS]
        np.matmul(X[start : start + TILE_ROWS], W.T, out=tile)
        if kind == "perceptron":
            signs(tile, frozen(b))
        else:
            cosines(tile, frozen(b))


@dataclass(frozen=True, slots=True, eq=False)
class RandomFeatures:
    """Features that are drawn, and how the columns of a dataset are scaled before they see them."""

    kind: Kind
    W: NDArray[np.float32]  # (A, d)
    b: NDArray[np.float32]  # (A,)
    offset: NDArray[np.float64]  # (d,)
    scale: NDArray[np.float64]
    """A column x is seen as (x − offset) · scale."""

    def __post_init__(self) -> None:
        A, d = self.W.shape
        fits("b", self.b, (A,), np.float32)
        fits("offset", self.offset, (d,), np.float64)
        fits("scale", self.scale, (d,), np.float64)

    def __len__(self) -> int:
        return len(self.W)

    def tiles(
        self, block: RowBlock | SparseBlock, rows: range, Phi: NDArray[np.float32]
    ) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Fill Phi with the features of some rows of a block, a tile at a time; when it is full, from its top again.

        Yields every tile as soon as it is there, while it lies in the cache: which rows of the block, and their
        part of Phi, which has room for all rows or for a number of whole tiles.
        """
        X = np.empty((min(TILE_ROWS, len(rows)), self.W.shape[1]), np.float32)
        for first in range(0, len(rows), TILE_ROWS):
            size, at = min(TILE_ROWS, len(rows) - first), first % len(Phi)
            tile = Phi[at : at + size]
            which = slice(rows.start + first, rows.start + first + size)
            self.scaled(block, which, X[:size])
            expand(X[:size], self.W, self.b, self.kind, tile)
            yield which, tile

    def scaled(self, block: RowBlock | SparseBlock, rows: slice, out: NDArray[np.float32]) -> None:
        """Some rows of a block, scaled and dense: there are few columns.

        Of sparse rows, an id beyond the columns there are directions for is passed over, as no feature looks at it.
        """
        offset, scale = frozen(self.offset), frozen(self.scale)
        if isinstance(block, RowBlock):
            fits("a row", block.X[:1], (min(len(block.X), 1), self.W.shape[1]), block.X.dtype)
            scaled_rows(frozen(block.X[rows]), offset, scale, out)
        else:
            indptr = block.indptr[rows.start : rows.stop + 1]
            scaled_sparse_rows(frozen(indptr), frozen(block.ids), frozen(block.values), offset, scale, out)


def expand_block(features: RandomFeatures, block: RowBlock | SparseBlock) -> NDArray[np.float32]:
    """All features of all rows of a block, dense or sparse: for a few rows, or to look at."""
    Phi = np.empty((len(block.y), len(features)), np.float32)
    for _ in features.tiles(block, range(len(Phi)), Phi):
        pass
    return Phi


def frozen(array: Array) -> Array:
    """A view that kernels may only read: one machine code serves blocks, whose memory is protected, and all others."""
    view = array.view()
    view.flags.writeable = False
    return view


def fits(name: str, array: NDArray[Any], shape: tuple[int, ...], dtype: Any) -> None:
    """ValueError for an array of another shape or type: kernels would read and write beyond its end."""
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name} is {array.dtype}{array.shape}; must be {np.dtype(dtype)}{shape}")
