"""The second half of a reorder: tasks that write chunks of the new dataset, and the step that completes the dataset."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.layout import ArraySpec, Layout, target_spec, weight_spec
from daskfs.store.dataset.reader import ArrayReader
from daskfs.store.dataset.regroup import RowRegrouper
from daskfs.store.dataset.writer import ChunkRecords, DatasetWriter, write_chunk, write_file
from daskfs.store.ingest.publish import index_spec, write_block_index
from daskfs.store.ingest.staging import BlockShape, StagedBlock
from daskfs.store.places.location import Location
from daskfs.store.reorder.runs import KeyRange

Chunk = tuple[str, int, NDArray[Any]]
"""The name of an array, the number of one of its chunks, and the cells of the chunk."""


@dataclass(frozen=True, slots=True)
class WriteTask:
    """A task that writes some chunks of the new dataset."""

    specs: dict[str, ArraySpec]
    moved: int
    """The number of rows, columns or entries to report as progress when the chunks are written."""
    chunks: Callable[[], Iterable[Chunk]]
    """Function that reads the chunks to write; picklable, if the task runs in another process."""

    def write(self, location: Location) -> dict[str, ChunkRecords]:
        """Write the chunks, and return the manifest records of the chunks by array name."""
        written = defaultdict[str, ChunkRecords](list)
        for name, number, cells in self.chunks():
            written[name].append(write_chunk(location, self.specs[name], number, cells))
        return written


class SparseLines(Protocol):
    """Interface of sparse rows or columns in memory."""

    def arrays(self, first: int, last: int, /) -> dict[str, NDArray[Any]]:
        """Return the arrays of a block with the lines `first` … `last` - 1, by the names that a dataset has."""


def sparse_chunks(
    read: Callable[[], SparseLines],
    specs: dict[str, ArraySpec],
    blocks: list[StagedBlock],
    first_block: int,
    first_chunk: int,
) -> Iterator[Chunk]:
    """Yield the chunks of consecutive blocks of the sparse rows or columns that ``read()`` returns."""
    lines, line, chunk = read(), 0, first_chunk
    for number, block in enumerate(blocks, first_block):
        for name, cells in lines.arrays(line, line + block.rows).items():
            if name not in specs:
                continue
            width = specs[name].chunks[1]
            first, count = (chunk, block.chunks) if specs[name].dims[0] == "chunk" else (number, 1)
            for i in range(count):
                yield name, first + i, cells[np.newaxis, i * width : (i + 1) * width]
        line, chunk = line + block.rows, chunk + block.chunks


@dataclass
class ReorderPlan:
    """All tasks that write a new dataset, and the facts needed to complete the dataset after the last task."""

    source: Dataset
    wanted: KeyRange
    layout: Layout
    tasks: Iterable[WriteTask]
    """The tasks, which may be generated while the first tasks run already."""
    specs: dict[str, ArraySpec]
    """The arrays that the tasks write, complete after the last task."""
    blocks: list[StagedBlock] = field(default_factory=list)
    """The blocks of a sparse dataset, a list that is complete after the last task."""
    first_ids: list[int] = field(default_factory=list)
    """The first feature id of each block of sparse columns."""

    def close(
        self,
        writer: DatasetWriter,
        written: dict[str, list[NDArray[np.uint64]]],
        origin: dict[str, Any],
        shuffled: bool = False,
    ) -> None:
        """Write block index, labels, weights, names and attributes of the new dataset, so that the dataset opens."""
        for name, spec in self.specs.items():
            writer.add(spec, np.concatenate(written[name]))
        if self.blocks:
            write_block_index(writer, "columns" if self.layout == "columns" else "rows", self.blocks)
        if self.first_ids:
            firsts = np.array(self.first_ids, np.uint64)
            writer.write(index_spec("block_first", firsts, "block"), firsts)
        if "y" not in writer.arrays:
            self._copy_targets(writer)
        for name, spec in self.source.content.items():
            if name == "feature" or name.startswith("names/"):
                array, numbers = ArrayReader(self.source.location, spec), range(spec.n_chunks)
                writer.add(spec, [write_file(writer.location, spec, n, array.file(n)) for n in numbers])
        rows = self.wanted.n_rows
        entries = sum(block.entries for block in self.blocks) if self.blocks else rows * self.source.n_features
        sizes = {"layout": self.layout, "n_samples": rows, "n_entries": entries}
        mixed = True if shuffled else self.source.attributes.get("mixed")
        writer.close({**self.source.attributes, **sizes, "mixed": mixed, "made": origin})

    def _copy_targets(self, writer: DatasetWriter) -> None:
        """Write the labels and weights of the wanted rows, for a dataset whose tasks write only features."""
        rows = self.wanted.n_rows
        y = target_spec(rows, self.source.target_names)
        targets: list[tuple[ArraySpec, Iterator[NDArray[Any]]]] = [(y, self.source.targets())]
        if "weight" in self.source.arrays:
            targets.append((weight_spec(rows), self.source.weights()))
        for spec, pieces in targets:
            cells, step = RowRegrouper(self._wanted_cells(pieces)), spec.chunks[0]
            for number in range(spec.n_chunks):
                chunk = cells.take(min(step, rows - number * step))
                writer.add(spec, [write_chunk(writer.location, spec, number, chunk)])

    def _wanted_cells(self, pieces: Iterator[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        first = 0
        for cells in pieces:
            yield cells[self.wanted.mask(first, len(cells))]
            first += len(cells)


def block_ends(lines: NDArray[np.int64], entries: NDArray[np.int64], shape: BlockShape) -> list[int]:
    """Return where blocks end that hold as many whole slots (small groups of rows or columns) as fit, at least one.

    `lines` and `entries` are the numbers of rows (or columns) and entries before each slot, with the totals at the end.

    >>> block_ends(np.array([0, 2, 4, 6]), np.array([0, 5, 9, 30]), BlockShape(rows=10, entries=10))
    [2, 3]
    """
    ends, first = [], 0
    while lines[first] < lines[-1]:
        first = int(np.searchsorted(lines, lines[first], side="right")) - 1  # past slots that are empty
        fitting = (
            int(np.searchsorted(edges, edges[first] + most, side="right")) - 1
            for edges, most in ((lines, shape.rows), (entries, shape.entries))
        )
        first = max(first + 1, min(fitting))
        ends.append(first)
    return ends
