"""Sparse rows on their way into a dataset: each piece of the source is staged, then all are published.

How many blocks a piece of a source gives is known only after it is parsed, and pieces are parsed in
parallel. So a piece writes its chunk files under ``_unfinished/``, complete and checksummed, and a record
of them last; once all records are there, every chunk is *renamed* to its place in the dataset. A killed
ingest loses at most the pieces it was working on; published bytes do not depend on who parsed what when.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.store import integrity
from daskfs.store.codec import LZ4, Codec
from daskfs.store.labels import Labels, distinct_numbers, recoded
from daskfs.store.layout import STRING, UNFINISHED, ArraySpec
from daskfs.store.location import Location
from daskfs.store.name_runs import Run, write_run
from daskfs.store.names_kernels import NameSet
from daskfs.store.rows import BadLines, LabelCodes
from daskfs.store.rows_kernels import ENTRIES, ROWS, TAG_BYTES, RowArrays, all_ones
from daskfs.store.writer import Records, encoded, write_chunk

ENTRY_ARRAYS, ROW_ARRAYS = ("ids", "values"), ("indptr", "y", "weight", "tag")
OPTIONAL = {"values": np.float32(1), "weight": np.float32(1), "tag": ""}
"""Arrays that exist only if some block needs them, and what they hold for a block that does not."""


@dataclass(frozen=True, slots=True)
class BlockShape:
    """The size of chunks: entries and rows that fit into one block."""

    rows: int
    entries: int
    compression: Codec = LZ4

    def specs(self, blocks: int, chunks: int) -> dict[str, ArraySpec]:
        """Every array a sparse dataset of that many blocks and chunks may have."""

        def spec(name: str, count: int, width: int, dtype: Any, dims: tuple[str, str]) -> ArraySpec:
            return ArraySpec(name, (count, width), (1, width), dtype, dims, self.compression)

        row, entry = ("block", "row"), ("chunk", "entry")
        arrays = [
            spec("ids", chunks, self.entries, np.dtype(np.uint64), entry),
            spec("values", chunks, self.entries, np.dtype(np.float32), entry),
            spec("indptr", blocks, self.rows + 1, np.dtype(np.int64), ("block", "edge")),
            spec("y", blocks, self.rows, np.dtype(np.float64), row),
            spec("weight", blocks, self.rows, np.dtype(np.float32), row),
            spec("tag", blocks, self.rows, STRING, row),
        ]
        return {array.name: array for array in arrays}


@dataclass(frozen=True, slots=True)
class StagedBlock:
    """One block of a piece: its size, and (size, crc32c) of its files, per array."""

    rows: int
    entries: int
    chunks: int
    files: dict[str, list[tuple[int, int]]]


@dataclass
class Piece:
    """What is known of one staged piece: the record that is written when it is complete."""

    number: int
    key: str  # of the source and the options it was made from
    blocks: list[StagedBlock] = field(default_factory=list)
    max_id: int = 0
    numbers: list[float] | None = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    bad_lines: int = 0
    bad_examples: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def entries(self) -> int:
        return sum(block.entries for block in self.blocks)

    @property
    def chunks(self) -> int:
        return sum(block.chunks for block in self.blocks)


class PieceStage:
    """Writes the blocks and names of one piece; `close` writes its record."""

    def __init__(self, location: Location, number: int, key: str, shape: BlockShape) -> None:
        self._location, self._specs = location, shape.specs(1, 1)
        self._shape = shape
        self.piece = Piece(number, key)
        location.delete(record_key(number))  # of an earlier state of the source, whose files are overwritten now

    def take_rows(self, rows: RowArrays) -> None:
        """Stage one block."""
        count, entries = int(rows.progress[ROWS]), int(rows.progress[ENTRIES])
        chunks = max(1, -(-entries // self._shape.entries))
        number = len(self.piece.blocks)
        files = {}
        for name, cells in _cells(rows).items():
            width = self._specs[name].chunks[1]
            parts = chunks if name in ENTRY_ARRAYS else 1
            files[name] = [self._write(name, number, i, cells[i * width : (i + 1) * width]) for i in range(parts)]
        self.piece.blocks.append(StagedBlock(count, entries, chunks, files))
        self._note(rows.ids[:entries], rows.y[:count])

    def _note(self, ids: NDArray[np.uint64], y: NDArray[np.float64]) -> None:
        self.piece.max_id = max(self.piece.max_id, int(ids.max(initial=0)))
        distinct = distinct_numbers(y)
        if self.piece.numbers is not None:
            self.piece.numbers = None if distinct is None else sorted({*self.piece.numbers, *distinct})

    def _write(self, name: str, block: int, i: int, cells: NDArray[Any]) -> tuple[int, int]:
        file = encoded(self._specs[name], cells[np.newaxis])
        self._location.write(_staged(self.piece.number, block, name, i), file)
        return integrity.record(file)

    def take_names(self, names: NameSet) -> None:
        """Stage a set of names, sorted."""
        self.piece.runs.append(
            write_run(self._location, f"{_folder(self.piece.number)}/names.{len(self.piece.runs)}", names)
        )

    def close(self, labels: LabelCodes, bad_lines: BadLines) -> Piece:
        """Write the record: from now on the piece need not be parsed again."""
        self.piece.strings = labels.label_strings()
        self.piece.bad_lines, self.piece.bad_examples = bad_lines.count, bad_lines.examples
        self._location.write(record_key(self.piece.number), json.dumps(asdict(self.piece)).encode())
        return self.piece


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


def read_piece(location: Location, number: int, key: str) -> Piece | None:
    """The record of a piece, if it is complete and was made from the same source and options."""
    try:
        record = json.loads(location.read(record_key(number)))
    except (FileNotFoundError, ValueError):
        return None
    if record["key"] != key:
        return None
    record["runs"] = [Run(**run) for run in record["runs"]]
    record["blocks"] = [StagedBlock(**block) for block in record["blocks"]]
    return Piece(**record)


def publish_piece(
    location: Location, piece: Piece, specs: dict[str, ArraySpec], first_block: int, first_chunk: int, labels: Labels
) -> dict[str, Records]:
    """Move a piece's chunks to their place; may be repeated after it was cut short."""
    published: dict[str, Records] = {name: [] for name in specs}
    chunk = first_chunk
    for number, block in enumerate(piece.blocks):
        for name, spec in specs.items():
            first, count = (chunk, block.chunks) if name in ENTRY_ARRAYS else (first_block + number, 1)
            for i in range(count):
                staged = _staged(piece.number, number, name, i)
                if name not in block.files:
                    cells = np.full((1, block.entries if name in ENTRY_ARRAYS else block.rows), OPTIONAL[name])
                    line = write_chunk(location, spec, first + i, cells[:, : spec.chunks[1]])
                elif name == "y" and labels.strings:
                    y = _read_staged(location, staged, spec)
                    y[: block.rows] = recoded(y[: block.rows], piece.strings, labels)
                    line = write_chunk(location, spec, first + i, y[np.newaxis])
                else:
                    _settle(location, staged, spec.key(first + i))
                    size, crc = block.files[name][i]
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


def record_key(number: int) -> str:
    """Where the record of a piece is kept."""
    return f"{_folder(number)}.json"


def _folder(number: int) -> str:
    return f"{UNFINISHED}/{number:06d}"


def _staged(piece: int, block: int, name: str, i: int) -> str:
    return f"{_folder(piece)}/{name}.{block}.{i}"
