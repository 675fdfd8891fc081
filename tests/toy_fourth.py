"""A fourth algorithm, in one file: what its own folder under daskfs/algorithms would hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.registry import Estimator, Registration
from daskfs.protocol import Algorithm, Axis, Block, ColumnBlock, Meta, Result, Words


@dataclass
class Scores:
    """The state: the covariance of every column with the target."""

    covariance: NDArray[np.float64]


@dataclass(frozen=True)
class Covariance(Algorithm):
    """Select the columns whose covariance with the target is largest.

    Parameters
    ----------
    n_select
        How many columns to select.
    passes
        Has to be 1.
    shrinkage
        How much smaller weights are than covariances, as a share of these.
    """

    axis: ClassVar[Axis] = "columns"

    n_select: int
    passes: int = 1
    shrinkage: float = 0.0

    def start(self, meta: Meta, seed: int) -> Scores:
        return Scores(np.zeros(meta.n_features))

    def update(self, state: Scores, block: Block) -> Scores:
        assert isinstance(block, ColumnBlock)
        state.covariance[block.ids] = (block.X - block.X.mean(axis=0)).T @ block.y / len(block.y)
        return state

    def end_pass(self, state: Scores) -> tuple[Scores, bool]:
        return state, False

    def result(self, state: Scores) -> Result:
        best = np.argsort(-np.abs(state.covariance))[: self.n_select]
        weights = (1 - self.shrinkage) * state.covariance[best]
        record = {"objective": float(np.abs(weights).sum()), "strongest": float(np.abs(weights).max())}
        return Result(best.astype(np.uint64), weights, np.zeros(1), None, [record])

    def nbytes(self, meta: Meta) -> int:
        return 8 * meta.n_features


REGISTRATION = Registration(
    name="covariance",
    algorithm=Covariance,
    words=Words(
        title="Largest Covariance",
        columns={"strongest": "the strongest covariance"},
        explain_history=lambda history: f"There were {len(history['strongest'])} passes of covariances.",
    ),
    estimators=(Estimator(role="selector", summary="Keep the columns of largest covariance"),),
    suits=lambda kind, n_samples, n_features, k: "for its covariances" if kind == "dense" else "",
    nanoseconds=1.5,
)
