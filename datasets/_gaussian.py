"""Gaussian designs with a sparse linear truth, drawn in blocks of columns: p may be in the millions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import dask.array as da
import numpy as np
from numpy.typing import NDArray

BLOCK = 256  # columns drawn together: part of the design, for the numbers depend on it
DRAWS, SCALES, TRUTH, NOISE = range(4)  # streams of random numbers, independent of each other

Scales = Literal["none", "unit", "lognormal"]


class Truth(NamedTuple):
    """The features that make the target, ascending, and their weights."""

    ids: NDArray[np.int64]
    weights: NDArray[np.float64]


@dataclass(frozen=True)
class GaussianDesign:
    """An n x p matrix of standard normal float32 numbers, never in memory as a whole.

    Parameters
    ----------
    part
        0, 1, …: independent draws of rows under one seed, as for training and test.
    correlation
        ρ of neighbouring columns: x_j = ρ x_{j-1} + √(1-ρ²) e_j, in runs of 256 columns.
    scales
        What each column is multiplied with after that: nothing, ``"unit"``: 1 / its norm, or
        ``"lognormal"``: exp(N(0, 1)).
    """

    n_samples: int
    n_features: int
    seed: int
    part: int = 0
    correlation: float = 0.0
    scales: Scales = "none"

    @property
    def widths(self) -> list[int]:
        """Columns of each block."""
        return [min(BLOCK, self.n_features - first) for first in range(0, self.n_features, BLOCK)]

    def random(self, stream: int, number: int = 0) -> np.random.Generator:
        """The generator of one stream of random numbers."""
        return np.random.default_rng([self.seed, self.part, stream, number])

    def block(self, number: int) -> NDArray[np.float32]:
        """Columns 256·number and following, as they are stored."""
        X = self._drawn(number)
        return X * self._scales_of(number, X)

    def scaled_columns(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Some columns as they are stored, and what each was multiplied with."""
        columns = np.empty((self.n_samples, len(ids)), np.float32)
        scales = np.empty(len(ids), np.float32)
        for number in np.unique(ids // BLOCK):
            here = ids // BLOCK == number
            X = self._drawn(number)
            scale = self._scales_of(number, X)
            columns[:, here] = (X * scale)[:, ids[here] % BLOCK]
            scales[here] = scale[ids[here] % BLOCK]
        return columns, scales

    def to_dask(self) -> da.Array:
        """The whole matrix, drawn block by block when it is written."""

        def block(block_id: tuple[int, int]) -> NDArray[np.float32]:
            return self.block(block_id[1])

        chunks = ((self.n_samples,), tuple(self.widths))
        return da.map_blocks(block, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))

    def _drawn(self, number: int) -> NDArray[np.float32]:
        shape = self.widths[number], self.n_samples
        X = self.random(DRAWS, number).standard_normal(shape, np.float32)
        rho = np.float32(self.correlation)
        if rho:
            for j in range(1, len(X)):
                X[j] = rho * X[j - 1] + np.sqrt(1 - rho**2) * X[j]
        return X.T

    def _scales_of(self, number: int, X: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.scales == "unit":
            return 1 / np.linalg.norm(X, axis=0)
        if self.scales == "lognormal":
            return np.exp(self.random(SCALES, number).standard_normal(X.shape[1], np.float32))
        return np.ones(X.shape[1], np.float32)


def linear_truth(design: GaussianDesign, n_informative: int) -> tuple[Truth, NDArray[np.float64]]:
    """A random support with standard normal weights, and the signal X w it makes.

    The weights are drawn for the columns before they are scaled, and divided by the scales: how columns
    are scaled changes neither the signal nor how much each of them contributes to it.
    """
    rng = design.random(TRUTH)
    ids = np.sort(rng.choice(design.n_features, n_informative, replace=False))
    drawn = rng.standard_normal(n_informative)
    columns, scales = design.scaled_columns(ids)
    weights = drawn / scales
    return Truth(ids, weights), columns @ weights


def signal_of(design: GaussianDesign, truth: Truth) -> NDArray[np.float64]:
    """X w of another draw of rows under the same truth."""
    columns, _ = design.scaled_columns(truth.ids)
    return columns @ truth.weights


def noise_of(design: GaussianDesign, deviation: float) -> NDArray[np.float64]:
    """Gaussian noise for every row."""
    return deviation * design.random(NOISE).standard_normal(design.n_samples)


def paper_rows(p: int, s: int) -> int:
    """The OS paper's number of samples, n = 1.2 s log2 p.

    >>> paper_rows(2000, 100)
    1316
    """
    return round(1.2 * s * math.log2(p))
