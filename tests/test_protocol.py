"""protocol.py: blocks, and an algorithm small enough to read at a glance that fits the protocol."""

from __future__ import annotations

import numpy as np
import pytest
from toy_algorithms import LargestColumns

import daskfs
from daskfs.protocol import Algorithm, Meta


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
    assert state.norms.nbytes <= algorithm.nbytes(ds.meta)
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
