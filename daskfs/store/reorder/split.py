"""A share of a dataset's rows as a dataset of its own, cut as the other one is, rows in the order they have there.

Rows are written as those of a shuffle are (`store.shuffle`), only that they come from the source itself: a *slot* is
then a piece of one of its blocks. Columns lose the cells of other rows, and sparse ones keep no column that is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import ColumnBlock, SparseColumnBlock
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.layout import ArraySpec
from daskfs.store.dataset.reader import ArrayReader
from daskfs.store.dataset.writer import ChunkRecords, write_chunk
from daskfs.store.ingest.arrays import block_shape
from daskfs.store.ingest.staging import BlockShape
from daskfs.store.places.location import Location
from daskfs.store.places.read_ahead import Prefetcher
from daskfs.store.reorder.column_runs import ENTRY, Columns
from daskfs.store.reorder.row_keys import Keys
from daskfs.store.reorder.row_runs import Lines, Section, cargo_of, collected
from daskfs.store.reorder.shuffle import SLOTS_PER_BLOCK, Part, RowBytes, Slots, block_rows, dense_parts, row_chunks


@dataclass(frozen=True, slots=True)
class Share:
    """The wanted rows of a dataset, in its order; see `Ordered`."""

    source: Dataset
    wanted: Keys

    @property
    def cargo(self) -> dict[str, np.dtype[Any]]:
        return cargo_of(self.source)

    def read(self, section: Section, names: Iterable[str]) -> tuple[Lines, NDArray[np.int64]]:
        """The wanted rows of the blocks of a section, with all that they carry; and which of them are the section's."""
        blocks = range(section.first_slot // SLOTS_PER_BLOCK, -(-section.last_slot // SLOTS_PER_BLOCK))
        lines = collected(self.source, blocks, self.wanted)
        return lines, np.arange(section.skipped, section.skipped + section.rows)


class ShareSlots(Slots):
    """How many wanted rows and entries come before every piece of a block; what is read are whole blocks."""

    def section(self, first: int, last: int) -> Section:
        exact = super().section(first, last)
        start = exact.first_slot - exact.first_slot % SLOTS_PER_BLOCK
        return Section(start, exact.last_slot, first - int(self.rows[start]), exact.rows)


def counted(share: Share, blocks: range) -> NDArray[np.int64]:
    """How many wanted rows, and entries of theirs, the slots of some blocks have, as an array (2, slots): a task.

    Of sparse rows it reads where each begins, of dense ones nothing.
    """
    source = share.source
    rows = block_rows(source)
    first, found = int(rows[: blocks.start].sum()), []
    indptr = ArrayReader(source.location, source.arrays["indptr"]) if source.kind == "sparse" else None
    for number in blocks:
        count = int(rows[number])
        kept = share.wanted.mask(first, count)
        lengths = source.n_features if indptr is None else np.diff(indptr.read(number)[0, : count + 1])
        at = np.arange(SLOTS_PER_BLOCK + 1) * count // SLOTS_PER_BLOCK
        found.append([np.diff(np.concatenate([[0], np.cumsum(each)])[at]) for each in (kept, kept * lengths)])
        first += count
    return np.concatenate(found, axis=1)


def dense_share(share: Share, slots: Slots | None, most: int) -> tuple[list[ArraySpec], list[Part]]:
    """The features of dense rows: their arrays, and these in parts that take at most so many bytes, or one chunk.

    `slots` are those of the rows, where there are chunks of rows.
    """
    source, specs = share.source, []
    parts: list[Part] = []
    if source.layout != "rows":
        X = _columns_of(source.arrays["X"], share.wanted.rows)
        step = max(1, most // (X.chunks[0] * X.chunks[1] * int(X.dtype.itemsize)))
        numbers = range(X.n_chunks)
        specs.append(X)
        parts += [ColumnsPart(share, X, numbers[first : first + step]) for first in numbers[::step]]
    if slots is not None:
        specs.append(row_chunks(source, share.wanted.rows))
        parts += dense_parts(specs[-1], share, slots, RowBytes.of_source(source), most)
    return specs, parts


def _columns_of(array: ArraySpec, rows: int) -> ArraySpec:
    """An array of whole columns as it is for so many rows: more columns in a chunk, which is as large as before."""
    (n, width), p = array.chunks, array.shape[1]
    return replace(array, shape=(rows, p), chunks=(rows, min(p, max(1, n * width // rows))))


@dataclass(frozen=True, slots=True)
class ColumnsPart(Part):
    """Consecutive chunks of dense columns."""

    share: Share
    spec: ArraySpec
    chunks: range

    @property
    def moved(self) -> int:
        width = self.spec.chunks[1]
        return min(self.chunks.stop * width, self.spec.shape[1]) - self.chunks.start * width

    def write(self, location: Location) -> dict[str, ChunkRecords]:
        rows, width = _row_numbers(self.share.wanted, self.share.source.n_samples), self.spec.chunks[1]
        columns, at = np.empty((self.moved, len(rows)), self.spec.dtype), 0
        first = self.chunks.start * width
        for block in self.share.source.columns(np.arange(first, first + self.moved)):
            assert isinstance(block, ColumnBlock)
            here = columns[at : at + len(block.ids)]
            np.take(block.X.T, rows, axis=1, out=here, mode="clip")  # else it would make another copy first
            at += len(here)
        records = [
            write_chunk(location, self.spec, number, columns[i * width : (i + 1) * width].T)
            for i, number in enumerate(self.chunks)
        ]
        return {self.spec.name: records}


@lru_cache(maxsize=1)
def _row_numbers(wanted: Keys, rows: int) -> NDArray[np.int64]:
    """The numbers of the wanted ones of so many rows; kept, since every part needs them."""
    return np.flatnonzero(wanted.mask(0, rows))


def share_shape(share: Share) -> BlockShape:
    """Blocks of sparse columns with as many entries as the source has in one, and more columns: these are shorter."""
    source, width = share.source, share.source.arrays["rows"].chunks[1]
    columns = source.meta.n_features
    mean = source.n_entries / columns * share.wanted.rows / source.n_samples
    shape = block_shape(max(mean, 1), source.arrays["rows"].codec, width)
    return BlockShape(min(shape.rows, columns), width, shape.compression)


def share_columns(share: Share) -> Iterable[Columns]:
    """The columns of every block of sparse ones, without those that lose all entries; read ahead of the caller."""
    kept = share.wanted.mask(0, share.source.n_samples)
    numbers = np.cumsum(kept, dtype=np.uint32)
    numbers -= 1  # of the rows that are kept

    def read(number: int, _: None) -> Columns:
        block = share.source.read(number)
        assert isinstance(block, SparseColumnBlock)
        return _kept_entries(block, kept, numbers)

    return Prefetcher[Columns, None](read, range(share.source.n_blocks()), lambda: None, ahead=1)


def _kept_entries(block: SparseColumnBlock, kept: NDArray[np.bool_], numbers: NDArray[np.uint32]) -> Columns:
    among = kept[block.rows]
    edges = np.concatenate([[0], np.cumsum(among)])[block.indptr]
    entries = np.empty(int(edges[-1]), ENTRY)
    entries["row"], entries["value"] = numbers[block.rows[among]], block.values[among]
    filled = np.flatnonzero(np.diff(edges))
    return Columns(block.ids[filled], np.append(edges[filled], edges[-1]), entries)
