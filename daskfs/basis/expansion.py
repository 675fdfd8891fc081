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
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from daskfs.basis.expansion_kernels import CAUCHY, NORMAL, SPHERE, cosines, draw, signs

Kernel = Literal["gaussian", "laplacian", "perceptron"]
KERNELS: tuple[str, ...] = get_args(Kernel)
Array = TypeVar("Array", bound=NDArray[Any])

TILE_ROWS = 512
"""Rows that are expanded at a time: a thousand features of them still lie in the cache when the sweep follows."""


def directions(
    ids: NDArray[np.uint64], d: int, seed: int, kernel: Kernel, gamma: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The directions W (A, d) and phases b (A,) of features, a function of `seed` and of each id alone.

    Parameters
    ----------
    ids, d, seed
        Of the features; of columns; any 64 bits.
    kernel, gamma
        See the table above. For cosines W and b are in turns: ω / 2π, and within ± ½.

    Examples
    --------
    >>> W, b = directions(np.array([7, 8], np.uint64), d=3, seed=0, kernel="gaussian", gamma=0.5)
    >>> again, _ = directions(np.array([8], np.uint64), d=3, seed=0, kernel="gaussian", gamma=0.5)
    >>> np.array_equal(again[0], W[1])
    True
    """
    W, b = np.empty((len(ids), d), np.float32), np.empty(len(ids), np.float32)
    if kernel == "gaussian":
        law, scale, spread = NORMAL, math.sqrt(2 * gamma) / (2 * math.pi), 1.0
    elif kernel == "laplacian":
        law, scale, spread = CAUCHY, gamma / (2 * math.pi), 1.0
    else:
        law, scale, spread = SPHERE, 1.0, 2 / gamma
    draw(frozen(np.asarray(ids, np.uint64)), np.uint64(seed % 2**64), law, scale, spread, W, b)
    return W, b


def expand(
    X: NDArray[np.float32], W: NDArray[np.float32], b: NDArray[np.float32], kernel: Kernel, out: NDArray[np.float32]
) -> None:
    """The features of rows X (r, d) that are scaled already, into `out` (r, A), both in C order."""
    for start in range(0, len(X), TILE_ROWS):
        tile = out[start : start + TILE_ROWS]
        np.matmul(X[start : start + TILE_ROWS], W.T, out=tile)
        _activate(tile, b, kernel)


def _activate(Z: NDArray[np.float32], b: NDArray[np.float32], kernel: Kernel) -> None:
    """The features in place of the products ω·x."""
    if kernel == "perceptron":
        signs(Z, frozen(b))
    else:
        cosines(Z, frozen(b))


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Features whose directions are at hand."""

    kernel: Kernel
    W: NDArray[np.float32]  # (A, d)
    b: NDArray[np.float32]  # (A,)

    def expand(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """The features (r, A) of rows that are scaled already."""
        out = np.empty((len(X), len(self.W)), np.float32)
        expand(X, self.W, self.b, self.kernel, out)
        return out

    def changed(self, products: NDArray[np.float32], column: int, change: NDArray[np.float32]) -> NDArray[np.float32]:
        """The features (r, A) of rows whose products X Wᵀ are known, when one column of X is changed by so much."""
        out = products + np.multiply.outer(change, self.W[:, column])
        _activate(out, self.b, self.kernel)
        return out


@dataclass(frozen=True, slots=True)
class Basis:
    """All features there are of rows with d columns, of which some can be drawn by their ids.

    Examples
    --------
    >>> some = Basis("gaussian", gamma=0.5, seed=0, d=3).drawn(np.array([7, 2**63], np.uint64))
    >>> some.expand(np.zeros((5, 3), np.float32)).shape
    (5, 2)
    """

    kernel: Kernel
    gamma: float
    seed: int
    d: int

    def drawn(self, ids: NDArray[np.uint64]) -> Drawn:
        return Drawn(self.kernel, *directions(ids, self.d, self.seed, self.kernel, self.gamma))


def frozen(array: Array) -> Array:
    """A view that kernels may only read: one machine code serves blocks, whose memory is protected, and all others."""
    view = array.view()
    view.flags.writeable = False
    return view
