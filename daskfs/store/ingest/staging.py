"""Sparse rows on their way into a dataset: blocks are staged as finished chunk files, then renamed to their place.

Published bytes do not depend on who parsed what when; see `pieces` for what staging is about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.codec import LZ4, Codec
from daskfs.store.dataset.labels import Labels, recode_labels
from daskfs.store.dataset.layout import STRING, ArraySpec
from daskfs.store.dataset.name_runs import NameRun, sort_names
from daskfs.store.dataset.names_kernels import NameSet
from daskfs.store.dataset.writer import ChunkRecords, encode_chunk, write_chunk
from daskfs.store.ingest.pieces import PieceWriter, StagedPiece, new_folder
from daskfs.store.ingest.rows_kernels import ENTRIES, ROWS, TAG_BYTES, RowArrays, all_ones
from daskfs.store.places.location import Location

ENTRY_ARRAYS, ROW_ARRAYS = ("ids", "values"), ("indptr", "y", "weight", "tag")
OPTIONAL = {"values": np.float32(1), "weight": np.float32(1), "tag": ""}
"""Arrays that exist only if some block needs them, and what they hold for a block that does not."""


@dataclass(frozen=True, slots=True)
class BlockShape:
    """The size of chunks: entries and rows (of a dataset in columns: columns) that fit into one block."""

    rows: int
    entries: int
    compression: Codec = LZ4

    def specs(self, blocks: int, chunks: int) -> dict[str, ArraySpec]:
        """Every array a sparse dataset of that many blocks and chunks may have."""
        row = ("block", "row")
        arrays = [
            *self._lines("ids", np.uint64, blocks, chunks),
            self._spec("y", blocks, self.rows, np.dtype(np.float64), row),
            self._spec("weight", blocks, self.rows, np.dtype(np.float32), row),
            self._spec("tag", blocks, self.rows, STRING, row),
        ]
        return {array.name: array for array in arrays}

    def column_specs(self, blocks: int, chunks: int) -> dict[str, ArraySpec]:
        """The arrays that are cut into blocks, of a sparse dataset in columns."""
        ids = self._spec("ids", blocks, self.rows, np.dtype(np.uint64), ("block", "column"))
        arrays = [*self._lines("rows", np.uint32, blocks, chunks), ids]
        return {array.name: array for array in arrays}

    def _lines(self, index: str, dtype: type[np.unsignedinteger[Any]], blocks: int, chunks: int) -> list[ArraySpec]:
        """Rows or columns: where each starts, and the place and the value of each of their entries."""
        entry = ("chunk", "entry")
        return [
            self._spec(index, chunks, self.entries, np.dtype(dtype), entry),
            self._spec("values", chunks, self.entries, np.dtype(np.float32), entry),
            self._spec("indptr", blocks, self.rows + 1, np.dtype(np.int64), ("block", "edge")),
        ]

    def _spec(self, name: str, count: int, width: int, dtype: Any, dims: tuple[str, str]) -> ArraySpec:
        return ArraySpec(name, (count, width), (1, width), dtype, dims, self.compression)


class StagedBlock(NamedTuple):
    """The size of one block of a piece; its files are named array.block.chunk."""

    rows: int
    entries: int
    chunks: int


@dataclass
class SparsePiece(StagedPiece):
    """What is known of one staged piece of sparse rows."""

    blocks: list[StagedBlock] = field(default_factory=list)
    runs: list[NameRun] = field(default_factory=list)  # that hold its names, some of them staged with other pieces
    max_id: int = 0

    def __post_init__(self) -> None:  # a record read back has plain lists
        self.blocks = [StagedBlock(*block) for block in self.blocks]
        self.runs = [NameRun(*run) for run in self.runs]

    @property
    def relies_on(self) -> set[str]:
        """The folders of pieces, itself among them, that have staged its names."""
        return {run.folder for run in self.runs}

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def entries(self) -> int:
        return sum(block.entries for block in self.blocks)

    @property
    def chunks(self) -> int:
        return sum(block.chunks for block in self.blocks)


class SparsePieceWriter(PieceWriter[SparsePiece]):
    """Takes the blocks and names of one piece; `runs` hold names that it need not stage again."""

    def __init__(
        self, location: Location, number: int, key: str, shape: BlockShape, runs: Sequence[NameRun] = ()
    ) -> None:
        super().__init__(location, SparsePiece(number, key, new_folder(number), runs=list(runs)))
        self._shape, self._specs = shape, shape.specs(1, 1)

    def take_rows(self, rows: RowArrays) -> None:
        """PieceWriter one block."""
        count, entries = int(rows.progress[ROWS]), int(rows.progress[ENTRIES])
        chunks = max(1, -(-entries // self._shape.entries))
        number = len(self.piece.blocks)
        for name, cells in _cells(rows).items():
            spec = self._specs[name]
            for i in range(chunks if name in ENTRY_ARRAYS else 1):
                part = cells[i * spec.chunks[1] : (i + 1) * spec.chunks[1]]
                self.write(_staged(name, number, i), encode_chunk(spec, part[np.newaxis]))
        self.piece.blocks.append(StagedBlock(count, entries, chunks))
        self.piece.max_id = max(self.piece.max_id, int(rows.ids[:entries].max(initial=0)))
        self.piece.note_labels(rows.y[:count])

    def take_names(self, names: NameSet) -> None:
        """PieceWriter a set of names, sorted."""
        name = f"names.{len(self.piece.runs)}"
        count, file = sort_names(names)
        self.write(name, file)
        self.piece.runs.append(NameRun(f"{self.piece.folder}/{name}", count))


def _cells(rows: RowArrays) -> dict[str, NDArray[Any]]:
    """The arrays of a block that have anything to say, without what they do not fill."""
    count, entries = int(rows.progress[ROWS]), int(rows.progress[ENTRIES])
    cells: dict[str, NDArray[Any]] = {
        "ids": rows.ids[:entries],
        "indptr": rows.indptr[: count + 1],
        "y": rows.y[:count],
    }
    if not all_ones(rows.values[:entries]):
        cells["values"] = rows.values[:entries]
    if not all_ones(rows.weight[:count]):
        cells["weight"] = rows.weight[:count]
    if rows.progress[TAG_BYTES]:
        text, ends = rows.tags[: rows.progress[TAG_BYTES]].tobytes(), [0, *rows.tag_ends[:count].tolist()]
        tags = [text[start:end].decode("utf-8", "replace") for start, end in pairwise(ends)]
        cells["tag"] = np.array(tags, object)
    return cells


def write_block(
    location: Location,
    specs: dict[str, ArraySpec],
    cells: dict[str, NDArray[Any]],
    size: StagedBlock,
    number: int,
    first_chunk: int,
) -> dict[str, ChunkRecords]:
    """Write the arrays of a block straight to their place; for a dataset whose blocks are known one after the other."""
    written = {}
    for name, line in cells.items():
        width = specs[name].chunks[1]
        first, count = (first_chunk, size.chunks) if specs[name].dims[0] == "chunk" else (number, 1)
        written[name] = [
            write_chunk(location, specs[name], first + i, line[np.newaxis, i * width : (i + 1) * width])
            for i in range(count)
        ]
    return written


def publish_piece(
    location: Location,
    piece: SparsePiece,
    specs: dict[str, ArraySpec],
    first_block: int,
    first_chunk: int,
    labels: Labels,
) -> dict[str, ChunkRecords]:
    """Move a piece's chunks to their place; may be repeated after it was cut short."""
    published: dict[str, ChunkRecords] = {name: [] for name in specs}
    chunk = first_chunk
    for number, block in enumerate(piece.blocks):
        for name, spec in specs.items():
            first, count = (chunk, block.chunks) if name in ENTRY_ARRAYS else (first_block + number, 1)
            for i in range(count):
                staged = _staged(name, number, i)
                if staged not in piece.files:
                    filled = (
                        block.rows if name in ROW_ARRAYS else min(block.entries - i * spec.chunks[1], spec.chunks[1])
                    )
                    line = write_chunk(location, spec, first + i, np.full((1, filled), OPTIONAL[name]))
                elif name == "y" and labels.strings:
                    y = _read_staged(location, f"{piece.folder}/{staged}", spec)
                    y[: block.rows] = recode_labels(y[: block.rows], piece.strings, labels)
                    line = write_chunk(location, spec, first + i, y[np.newaxis])
                else:
                    _settle(location, f"{piece.folder}/{staged}", spec.key(first + i))
                    size, crc = piece.files[staged]
                    line = (first + i, size, crc)
                published[name].append(line)
        chunk += block.chunks
    return published


def _settle(location: Location, staged: str, target: str) -> None:
    try:
        location.move(staged, target)
    except FileNotFoundError:
        if not location.exists(target):  # else an earlier attempt has moved it already
            raise


def _read_staged(location: Location, key: str, spec: ArraySpec) -> NDArray[Any]:
    cells = np.empty(spec.chunks[1], spec.dtype)
    spec.codec.decode(location.read(key), cells)
    return cells


def _staged(name: str, block: int, i: int) -> str:
    return f"{name}.{block}.{i}"
