"""From runs of columns to a complete sparse dataset laid out in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
from daskfs.store.dataset.codec import Codec
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.writer import ChunkRecords, DatasetWriter
from daskfs.store.ingest.arrays import block_shape
from daskfs.store.ingest.publish import index_spec, write_block, write_block_index
from daskfs.store.ingest.staging import BlockShape, StagedBlock
from daskfs.store.reorder.column_runs import Columns, Sample, count_columns
from daskfs.store.reorder.row_keys import Keys
from daskfs.store.reorder.same_features import close_like, copy_targets


def column_shape(samples: Iterable[Sample], n_entries: int, block_entries: int, compression: Codec) -> BlockShape:
    """Blocks of `block_entries` entries of columns as long as they are on average; no larger than all there is."""
    columns = count_columns(samples)
    shape = block_shape(n_entries / columns, compression, min(block_entries, n_entries))
    return BlockShape(min(shape.rows, columns), shape.entries, compression)


def in_blocks(ranges: Iterable[Columns], shape: BlockShape) -> Iterator[Columns]:
    """Columns cut into blocks, always the same ones whatever the ranges of ids they come in."""
    rest: Columns | None = None
    for found in ranges:
        columns = found if rest is None else _joined(rest, found)
        first = 0
        while (last := block_end(columns.indptr, first, shape)) < len(columns.ids):
            yield columns.between(first, last)
            first = last
        rest = Columns(*map(np.copy, columns.between(first, last)))  # lest it keep the whole range in memory
    if rest is not None:
        yield rest


def block_end(indptr: NDArray[np.int64], first: int, shape: BlockShape) -> int:
    """Where the block ends that begins with column `first`: it has one column at least, however long."""
    fitting = int(np.searchsorted(indptr, indptr[first] + shape.entries, side="right")) - 1
    return max(first + 1, min(fitting, first + shape.rows))


def _joined(a: Columns, b: Columns) -> Columns:
    indptr = np.concatenate([a.indptr, b.indptr[1:] + a.indptr[-1]])
    return Columns(np.concatenate([a.ids, b.ids]), indptr, np.concatenate([a.entries, b.entries]))


@dataclass
class ColumnWriter:
    """Writes blocks of columns one after the other, and then what else makes them a dataset."""

    writer: DatasetWriter
    shape: BlockShape
    with_values: bool  # else they are all 1
    blocks: list[StagedBlock] = field(default_factory=list)
    chunks: int = 0
    records: dict[str, ChunkRecords] = field(default_factory=dict)
    firsts: list[int] = field(default_factory=list)

    def write(self, block: Columns) -> None:
        """Write the next block."""
        number, entries = len(self.blocks), len(block.entries)
        chunks = max(1, -(-entries // self.shape.entries))
        cells = {"ids": block.ids, "indptr": block.indptr, "rows": block.entries["row"]}
        if self.with_values:
            cells["values"] = block.entries["value"]
        # How long the arrays will be is not known yet, but their chunks are.
        specs = self.shape.column_specs(number + 1, self.chunks + chunks)
        size = StagedBlock(len(block.ids), entries, chunks)
        for name, records in write_block(self.writer.location, specs, cells, size, number, self.chunks).items():
            self.records.setdefault(name, []).extend(records)
        self.blocks.append(size)
        self.chunks += chunks
        self.firsts.append(int(block.ids[0]))

    def close(self, source: Dataset, wanted: Keys, made: dict[str, Any]) -> None:
        """Write what a dataset has besides its columns, as `source` has it for these rows; from then on it opens."""
        written = sum(block.entries for block in self.blocks)
        if wanted.are_all and written != source.n_entries:
            raise DatasetError(f"{source.url}: {source.n_entries} entries were expected, {written} found; verify it")
        specs = self.shape.column_specs(len(self.blocks), self.chunks)
        for name, records in self.records.items():
            self.writer.add(specs[name], records)
        write_block_index(self.writer, "columns", self.blocks)
        firsts = np.array(self.firsts, np.uint64)
        self.writer.write(index_spec("block_first", firsts, "block"), firsts)
        copy_targets(source, wanted, self.writer)
        close_like(source, self.writer, layout="columns", n_samples=wanted.rows, n_entries=written, made=made)
