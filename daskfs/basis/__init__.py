"""Random features: functions of a row, each of which is given by an integer id.

A *random feature* φ is a function of a row x that is drawn at random instead of learned (Rahimi and Recht 2007, Lin and
Li 2008, Yen et al. 2014). The mean of φ(x) φ(y) over all draws of φ is a kernel of the rows x and y:

    gaussian     √2 cos(ω·x + b)     ω ~ N(0, 2γ I)                exp(−γ ‖x − y‖²)
    laplacian    √2 cos(ω·x + b)     ω ~ Cauchy(γ), coordinates    exp(−γ ‖x − y‖₁)
    perceptron   sign(ω·x − b)       ω on the unit sphere          1 − 2 ∠(x, y) / π where b = 0

The phase b of a cosine is uniform over one turn. The threshold b of a perceptron is uniform within ± 1/γ; its kernel is
1 − γ c_d ‖x − y‖ for rows with |ω·x| ≤ 1/γ, where c_d is the mean of |ω₁|.

A feature may be a function of few columns: its direction ω is zero but for q random columns out of d. Its γ is then d/q
times as large (√(d/q) for a perceptron), so that features of few and of all columns are equally fine where the columns
are alike. The number of columns depends on the feature's id alone (see `Basis.inputs_per_feature`).

The direction ω and phase b of a feature are functions of a seed and the feature's 64-bit id: random words of
Philox4x32-10, converted in float64 and stored in float32. No direction is ever sent to a worker, and a model consists
of feature ids and weights. The last bits of log, cos, sin and tan differ between machines' C libraries, so a float32 of
ω or b may rarely differ by 1e-7 of itself. The first coordinates of a cosine's direction ω do not depend on the number
of columns; those of a perceptron do, as its ω has length 1.

A *linear term* is a feature, too: the scaled column x_j itself, with the id `LINEAR` + j. All other ids are those of
random features, which algorithms draw in the order 0, 1, …

Directions and phases of cosines are measured in turns of 2π, as W = ω / 2π and |b| ≤ ½. Subtracting whole turns from a
float32 is exact, so that cosines are right to 4e-7 for the float32 product W·x. The product W·x has an error of about
1e-7 Σ|W_j x_j|: 1e-7 of a turn where directions suit the data, 1e-3 of a turn at 10,000 turns, which a Cauchy direction
may reach. A perceptron's sign for a row next to its hyperplane depends on rounding.

Rows are expanded in tiles of `TILE_ROWS`, each by a BLAS product and a cosine or sign, on one thread. The folder
`basis` lies below both `algorithms` and `selection`, so that a saved selection predicts without the algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from daskfs.basis.kernels import CAUCHY, NORMAL, SPHERE, choose_inputs, cosines, draw, signs
from daskfs.jit import read_only

Kernel = Literal["gaussian", "laplacian", "perceptron"]
KERNELS: tuple[str, ...] = get_args(Kernel)

LINEAR = 1 << 62
"""The id of the linear term of column 0. The ids of linear terms differ from it in their lower 32 bits, the column."""
_COLUMN_BITS = np.uint64(32)

TILE_ROWS = 512
"""Rows expanded at a time, so few that a thousand features of a tile stay in the cache."""


def is_linear(ids: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return which of these features are linear terms.

    >>> is_linear(np.array([7, LINEAR + 7], np.uint64))
    array([False,  True])
    """
    return np.asarray(ids >> _COLUMN_BITS == LINEAR >> 32)


@dataclass(frozen=True, slots=True, eq=False)
class RandomFeatures:
    """Random features with their directions W and phases b, ready to be evaluated on rows."""

    kernel: Kernel
    W: NDArray[np.float32]  # directions (A, d), for cosines in turns: ω / 2π
    b: NDArray[np.float32]  # phases (A,), for cosines in turns: within ± ½
    linear: NDArray[np.intp] | None = None  # positions of linear terms, whose value is W·x − b

    def expand(self, X: NDArray[np.float32], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the features (r, A) of scaled rows X (r, d) in C order, written into `out` if `out` is given."""
        out = np.empty((len(X), len(self.W)), np.float32) if out is None else out
        for start in range(0, len(X), TILE_ROWS):
            tile = out[start : start + TILE_ROWS]
            multiply(X[start : start + TILE_ROWS], self.W.T, tile)
            self._activate(tile)
        return out

    def expand_changed(
        self, products: NDArray[np.float32], column: int, change: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """Return the features (r, A) of rows with given products X Wᵀ, after `change` is added to one column of X."""
        out = products + np.multiply.outer(change, self.W[:, column])
        self._activate(out)
        return out

    def _activate(self, Z: NDArray[np.float32]) -> None:
        """Replace products W·x by the values of the features, in place."""
        values = None if self.linear is None else Z[:, self.linear] - self.b[self.linear]
        if self.kernel == "perceptron":
            signs(Z, read_only(self.b))
        else:
            cosines(Z, read_only(self.b))
        if values is not None:
            Z[:, self.linear] = values


@dataclass(frozen=True, slots=True)
class Basis:
    """Family of all random features of rows with d columns, from which `features` draws those with given ids.

    A feature depends only on its id and on the seed (any integer, of which the lowest 64 bits count). The feature with
    the id h is a function of ``inputs_per_feature[h % len(inputs_per_feature)]`` columns, where 0 and numbers above d
    stand for all columns. If `inputs_per_feature` is empty, all features are functions of all columns.

    Examples
    --------
    >>> basis = Basis("gaussian", gamma=0.5, seed=0, d=3)
    >>> features = basis.features(np.array([7, 2**63], np.uint64))
    >>> features.expand(np.zeros((5, 3), np.float32)).shape
    (5, 2)
    >>> np.array_equal(basis.features(np.array([2**63], np.uint64)).W[0], features.W[1])
    True
    >>> Basis("gaussian", 0.5, seed=0, d=9, inputs_per_feature=(2, 0)).inputs_of(np.array([4, 5], np.uint64))
    [array([1, 4]), None]
    """

    kernel: Kernel
    gamma: float
    seed: int
    d: int
    inputs_per_feature: tuple[int, ...] = ()

    def features(self, ids: NDArray[np.uint64]) -> RandomFeatures:
        """Return the random features with these ids. Ids of linear terms must be of columns 0 … d - 1."""
        ids = np.asarray(ids, np.uint64)
        W, b = np.empty((len(ids), self.d), np.float32), np.empty(len(ids), np.float32)
        self._draw(ids, W, b)
        for q, at in self._few_inputs(ids):
            directions, phases = np.empty((len(at), q), np.float32), np.empty(len(at), np.float32)
            self._draw(ids[at], directions, phases)
            W[at], b[at] = 0.0, phases
            W[at[:, None], self._choose(ids[at], q)] = directions
        linear = np.flatnonzero(is_linear(ids))
        if not len(linear):
            return RandomFeatures(self.kernel, W, b)
        W[linear], b[linear] = 0.0, 0.0
        W[linear, ids[linear] - np.uint64(LINEAR)] = 1.0
        return RandomFeatures(self.kernel, W, b, linear)

    def inputs_of(self, ids: NDArray[np.uint64]) -> list[NDArray[np.int64] | None]:
        """Return the columns behind every random feature, ascending, or None if these are all columns."""
        inputs: list[NDArray[np.int64] | None] = [None] * len(ids)
        for q, at in self._few_inputs(ids):
            for position, columns in zip(at.tolist(), np.sort(self._choose(ids[at], q)), strict=True):
                inputs[position] = columns
        return inputs

    def _few_inputs(self, ids: NDArray[np.uint64]) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Yield numbers of columns below d, each with the positions of the features that have as many."""
        counts = np.array([min(q, self.d) for q in self.inputs_per_feature], np.int64)
        of_feature = counts[(ids % np.uint64(len(counts))).astype(np.intp)] if len(counts) else counts
        for q in np.unique(of_feature).tolist():
            if 0 < q < self.d:
                yield q, np.flatnonzero(of_feature == q)

    def _draw(self, ids: NDArray[np.uint64], W: NDArray[np.float32], b: NDArray[np.float32]) -> None:
        """Write directions in as many columns as W has, and phases."""
        wider = self.d / W.shape[1] if self.d else 1.0
        if self.kernel == "gaussian":
            law, scale, spread = NORMAL, math.sqrt(2 * self.gamma * wider) / (2 * math.pi), 1.0
        elif self.kernel == "laplacian":
            law, scale, spread = CAUCHY, self.gamma * wider / (2 * math.pi), 1.0
        else:
            law, scale, spread = SPHERE, 1.0, 2 / (self.gamma * math.sqrt(wider))
        draw(read_only(ids), np.uint64(self.seed % 2**64), law, scale, spread, W, b)

    def _choose(self, ids: NDArray[np.uint64], q: int) -> NDArray[np.int64]:
        """Return q distinct columns for every feature."""
        columns = np.empty((len(ids), q), np.int64)
        choose_inputs(read_only(ids), np.uint64(self.seed % 2**64), self.d, columns)
        return columns


def multiply(
    A: NDArray[np.float32], B: NDArray[np.float32], out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return A @ B of finite float32 matrices, without numpy's check for invalid operations.

    Numpy's check for invalid operations can fail although the product is right. OpenBLAS multiplies five columns with a
    vector (sgemv, AVX-512) by adding up eight lanes of a buffer, of which it has written only five. If the three
    unwritten lanes of the buffer hold a signalling NaN, the processor's flag for an invalid operation is set, and numpy
    reports it. Products that overflow still raise numpy's warning.
    """
    with np.errstate(invalid="ignore"):
        return np.matmul(A, B, out=out)
