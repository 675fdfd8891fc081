"""Sparse rows with any ids, as a dataset cut into blocks of any size, and as scipy sees their columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import daskfs
from daskfs.engine.cluster.pool import Threads, in_order
from daskfs.protocol import SparseColumnBlock
from daskfs.store.dataset.codec import LZ4
from daskfs.store.ingest.publish import SparsePlan, publish_sparse
from daskfs.store.ingest.rows import BadLines, NameCollector, RowBuilder
from daskfs.store.ingest.staging import BlockShape, SparsePieceWriter
from daskfs.store.places.location import Location

POOLS = {
    "small": np.arange(30, dtype=np.uint64),
    "gaps": np.arange(0, 3000, 97, dtype=np.uint64),
    "hashes": np.random.default_rng(5).integers(0, 2**63, 50, dtype=np.uint64),
    "extremes": np.array([0, 1, 2**40, 2**63 - 2, 2**63 - 1], np.uint64),
}
"""Kinds of feature ids."""


@dataclass(frozen=True)
class Rows:
    """Rows of a sparse matrix, ids ascending in each."""

    indptr: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    y: np.ndarray

    @classmethod
    def random(cls, seed: int, n_rows: int, pool: np.ndarray, ones: bool = False) -> Rows:
        """Rows of uneven length, some of them empty, some columns far more frequent than others."""
        rng = np.random.default_rng(seed)
        chance = np.clip(rng.random(len(pool)) ** 3 * rng.choice([0.0, 0.5, 1.0], (n_rows, 1)), 0, 1)
        cells = rng.random((n_rows, len(pool))) < chance
        cells[rng.integers(n_rows), rng.integers(len(pool))] = True  # one entry at least
        pool = np.sort(pool)
        indptr = np.concatenate([[0], np.cumsum(cells.sum(axis=1))])
        values = np.ones(indptr[-1]) if ones else rng.normal(size=indptr[-1])
        return cls(indptr, pool[np.nonzero(cells)[1]], values.astype(np.float32), rng.integers(0, 3, n_rows) * 1.0)

    def columns(self) -> tuple[np.ndarray, sp.csc_array]:
        """The ids that occur, and their columns."""
        ids, number = np.unique(self.ids, return_inverse=True)
        matrix = sp.csr_array((self.values, number, self.indptr), shape=(len(self.y), len(ids))).tocsc()
        matrix.sort_indices()
        return ids, matrix

    def write(self, url: str | Path, block_rows: int = 10, block_entries: int = 64) -> daskfs.Dataset:
        """As a dataset in rows."""
        location = Location(url)
        stage = SparsePieceWriter(location, 0, "", BlockShape(block_rows, block_entries, LZ4))
        rows = RowBuilder(
            stage.take_rows,
            stage.take_names,
            block_rows=block_rows,
            block_entries=block_entries,
            collected=NameCollector(1024),
            bad_lines=BadLines(),
        )
        rows.append(self.indptr, self.ids, self.values, self.y)
        rows.finish()
        plan = SparsePlan(BlockShape(block_rows, block_entries, LZ4), {"from": "ids"}, {"by": "test"})
        publish_sparse(location, [stage.close(rows, rows.bad_lines)], plan, in_order(Threads(1), "publish"))
        return daskfs.open_dataset(url)


def assert_columns(blocks: list[SparseColumnBlock], ids: np.ndarray, matrix: sp.csc_array) -> None:
    """The blocks are these columns and no others, in this order."""
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(block.indptr) for block in blocks]))])
    for block in blocks:
        types = [array.dtype for array in (block.ids, block.indptr, block.rows, block.values, block.y)]
        assert types == [np.uint64, np.int64, np.uint32, np.float32, np.float64]
        assert block.indptr[0] == 0
        assert block.indptr[-1] == len(block.rows) == len(block.values)
    np.testing.assert_array_equal(np.concatenate([block.ids for block in blocks]), ids)
    np.testing.assert_array_equal(indptr, matrix.indptr)
    np.testing.assert_array_equal(np.concatenate([block.rows for block in blocks]), matrix.indices)
    np.testing.assert_array_equal(np.concatenate([block.values for block in blocks]), matrix.data)
