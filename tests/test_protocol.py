"""protocol.py: blocks, and an algorithm small enough to read at a glance that fits the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

import daskfs
from daskfs.protocol import Algorithm, Block, ColumnBlock, Meta, Result, State


@dataclass(frozen=True)
class LargestColumns:
    """Selects the columns of largest norm: the least an algorithm can be."""

    n_select: int
    axis = "columns"

    def start(self, meta: Meta, seed: int) -> State:
        return {"norms": np.zeros(meta.n_features)}

    def update(self, state: State, block: Block) -> State:
        assert isinstance(block, ColumnBlock)
        state["norms"][block.first : block.first + block.X.shape[1]] = np.linalg.norm(block.X, axis=0)
        return state

    def merge(self, states: Sequence[State]) -> State:
        return {"norms": np.maximum.reduce([state["norms"] for state in states])}

    def end_pass(self, state: State) -> tuple[State, bool]:
        return state, False

    def result(self, state: State) -> Result:
        best = np.argsort(-state["norms"])[: self.n_select]
        return Result(best.astype(np.uint64), state["norms"][best], np.zeros(1), [{"objective": 0.0}])

    def predict(self, result: Result, block: Block) -> NDArray[np.float64]:
        return np.zeros(len(block.y))

    def nbytes(self, meta: Meta) -> int:
        return 8 * meta.n_features


def test_an_algorithm_runs_on_the_blocks_of_a_dataset(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 20)) * np.arange(1, 21)
    daskfs.write_dataset(tmp_path / "d.zarr", X, np.arange(50) % 2, chunk_bytes=1200)
    ds = daskfs.open_dataset(tmp_path / "d.zarr")
    algorithm = LargestColumns(3)
    assert isinstance(algorithm, Algorithm)
    assert ds.n_blocks() > 5
    state = algorithm.start(ds.meta, seed=0)
    for block in ds.blocks():
        state = algorithm.update(state, block)
    assert state["norms"].nbytes <= algorithm.nbytes(ds.meta)
    expected = np.argsort(-np.linalg.norm(X, axis=0))[:3]
    assert algorithm.result(state).features.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("classes", "y", "codes"),
    [
        ((-1.0, 1.0), [1.0, -1.0, 1.0], [1, 0, 1]),
        ((0.0, 1.0), [0.0, 1.0], [0, 1]),
        ((2.0, 5.0, 9.0), [9.0, 2.0], [2, 0]),
        (("ham", "spam"), [1.0, 0.0], [1, 0]),
    ],
)
def test_class_codes(classes, y, codes):
    meta = Meta("dense", len(y), 1, len(y), 0, classes, 0)
    assert meta.class_codes(np.array(y)).tolist() == codes


def test_a_real_target_has_no_class_codes():
    meta = Meta("dense", 2, 1, 2, 0, None, 0)
    with pytest.raises(ValueError, match="real number"):
        meta.class_codes(np.zeros(2))
