"""Staging: tasks parse pieces of the sources in parallel and write the rows to temporary files in ``_unfinished/``.

The number of rows of a piece is known only after parsing. A task writes the complete files of a piece, with checksums,
into a new folder, and then a record that lists the files. When all pieces have a record, the dataset is published from
the staged files. A killed ingest loses only the pieces without a record. A task that Dask runs twice writes into two
different folders.

The blocks of sparse rows are staged as chunk files, and publishing renames these files (see `dense_staging` for dense
rows). The bytes of the published dataset do not depend on the assignment of pieces to workers.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import SourceError
from daskfs.store.dataset.codec import LZ4, Codec, DamagedChunk, append_crc, strip_crc
from daskfs.store.dataset.json_checks import check_members, is_count, is_one_of, is_text, list_of, object_of, parse_json
from daskfs.store.dataset.label_order import LabelOrder, join_orders, recoded_orders
from daskfs.store.dataset.layout import (
    MOST_METADATA,
    STRING,
    UNFINISHED,
    ArraySpec,
    Labels,
    merge_number_labels,
    merge_string_labels,
    with_targets,
)
from daskfs.store.dataset.name_runs import NameRun, sort_names
from daskfs.store.dataset.names_kernels import NameSet
from daskfs.store.dataset.reader import manifest_line
from daskfs.store.dataset.writer import encode_chunk
from daskfs.store.ingest.rows import BadLines, LabelCodes
from daskfs.store.ingest.rows_kernels import ENTRIES, ROWS, TAG_BYTES, RowArrays, all_ones
from daskfs.store.places.location import Location

ENTRY_ARRAYS = ("ids", "values")
_RECORD = {"folder": is_text, "files": object_of(list_of(is_count))}
_FOLDER = re.compile(rf"{UNFINISHED}/[0-9]{{6}}-[0-9a-f]{{8}}")
_FILE = re.compile(r"[a-z_]+(\.[0-9]+)+")


@dataclass
class StagedPiece:
    """The record of a staged piece of dense or sparse rows, stored as JSON."""

    number: int
    key: str  # a digest of the source and the options
    folder: str
    files: dict[str, tuple[int, int]] = field(default_factory=dict)  # size and crc32c, by name in the folder
    order: LabelOrder = field(default_factory=lambda: LabelOrder(counts={}))  # of the labels of its rows
    strings: list[str] = field(default_factory=list)  # string labels, by their number in y
    gaps: dict[str, int] = field(default_factory=dict)  # missing values, by column
    dropped: int = 0  # rows left out because of a missing value
    bad_lines: int = 0
    bad_examples: list[str] = field(default_factory=list)

    @property
    def relies_on(self) -> set[str]:
        """The folders of all pieces whose staged files are needed to publish this piece."""
        return {self.folder}

    @property
    def is_plausible(self) -> bool:
        """Whether all files of the piece lie where staged files do."""
        return all(map(_FOLDER.fullmatch, {self.folder, *self.relies_on})) and all(map(_FILE.fullmatch, self.files))

    def __post_init__(self) -> None:
        if isinstance(self.order, dict):  # read from JSON
            self.order = LabelOrder(**self.order)

    @property
    def numbers(self) -> list[float] | None:
        """The distinct values of y in ascending order, or None if they cannot be classes."""
        return None if self.order.counts is None else sorted(self.order.counts)

    def add_labels(self, y: NDArray[np.float64]) -> None:
        """Add the labels y of the next rows to the labels of the piece."""
        if len(y):
            self.order = self.order.followed_by(LabelOrder.of(y))

    def strings_used(self) -> list[str]:
        """Return the string labels of the staged rows, without labels of source records that gave no row."""
        return self.strings if self.numbers is None else [self.strings[int(code)] for code in self.numbers]


P = TypeVar("P", bound=StagedPiece)


class PieceWriter(Generic[P]):
    """Writes the staged files of one piece, and on `close` the record of the piece."""

    def __init__(self, location: Location, piece: P) -> None:
        self.location, self.piece = location, piece

    def write(self, name: str, file: bytes) -> None:
        """Write a staged file, whose last bytes are its crc32c checksum, and add the file to the record."""
        self.location.write(f"{self.piece.folder}/{name}", file)
        self.piece.files[name] = manifest_line(file)

    def close(self, labels: LabelCodes, bad_lines: BadLines) -> P:
        """Write the record of the piece, after which the piece need not be parsed again, and return the record."""
        self.piece.strings = labels.label_strings()
        self.piece.gaps, self.piece.dropped = dict(labels.gaps), labels.dropped
        self.piece.bad_lines, self.piece.bad_examples = bad_lines.count, bad_lines.examples
        self.location.write(_record_key(self.piece.number), append_crc(json.dumps(asdict(self.piece)).encode()))
        return self.piece


def merge_labels(pieces: Sequence[StagedPiece], targets: tuple[str, ...] | None = None) -> Labels:
    """Return the labels of a whole dataset, merged from its staged pieces; several `targets` are never classes."""
    if targets is not None:
        return Labels(False, None, targets)
    if any(piece.strings for piece in pieces):
        return merge_string_labels(piece.strings_used() for piece in pieces)
    return merge_number_labels(piece.numbers for piece in pieces)


def merge_gaps(pieces: Sequence[StagedPiece]) -> dict[str, int]:
    """Return the number of missing values of each column that has any, in all pieces together."""
    gaps = Counter[str]()
    for piece in pieces:
        gaps.update(piece.gaps)
    return dict(gaps)


def check_rows(location: Location, pieces: Sequence[StagedPiece], rows: int) -> None:
    """Raise SourceError if no row is left to be published."""
    if not rows:
        dropped = sum(piece.dropped for piece in pieces)
        why = f"all {dropped:,} rows have a gap; choose another --missing" if dropped else "the sources hold no rows"
        raise SourceError(f"{location.url}: {why}")


def merge_orders(pieces: Sequence[StagedPiece], labels: Labels) -> LabelOrder:
    """Return the sums over the labels of all pieces in order; string labels have the class numbers of `labels`."""
    if labels.strings:
        classes = [str(label) for label in labels.classes or ()]
        return join_orders(recoded_orders([(piece.order, piece.strings) for piece in pieces], classes))
    return join_orders(piece.order for piece in pieces)


def new_folder(number: int) -> str:
    """Return a new, unique folder name for the staged files of piece `number`."""
    return f"{UNFINISHED}/{number:06d}-{uuid.uuid4().hex[:8]}"


def load_piece(kind: type[P], location: Location, number: int, key: str) -> P | None:
    """Return the record of an earlier staged piece with the same key, or None if no intact piece exists."""
    try:
        raw = strip_crc(location.read(_record_key(number), most=MOST_METADATA)).tobytes()
        piece = kind(**check_members(parse_json(raw), {**_RECORD, "key": is_one_of(key)}, {}))
    except (OSError, ValueError, TypeError):  # the piece is staged once more
        return None
    return piece if piece.is_plausible and all(_is_intact(location, piece, name) for name in piece.files) else None


def _record_key(number: int) -> str:
    return f"{UNFINISHED}/{number:06d}.json"


def _is_intact(location: Location, piece: StagedPiece, name: str) -> bool:
    try:
        file = location.read(f"{piece.folder}/{name}", most=piece.files[name][0])
        strip_crc(file)
    except FileNotFoundError:
        return True  # moved to its place already; publishing looks for it there
    except (OSError, DamagedChunk):
        return False
    return manifest_line(file) == tuple(piece.files[name])


@dataclass(frozen=True, slots=True)
class BlockShape:
    """The largest numbers of entries and of rows (columns, in a dataset stored by columns) in one block."""

    rows: int
    entries: int
    compression: Codec = LZ4

    def block(self, rows: int, entries: int) -> StagedBlock:
        """Return the size of a block, which has one chunk of entries unless a single row is larger than a chunk."""
        return StagedBlock(rows, entries, max(1, -(-entries // self.entries)))

    def specs(self, blocks: int, chunks: int, targets: Sequence[str] | None = None) -> dict[str, ArraySpec]:
        """Return the specs of all arrays that a sparse dataset with `blocks` blocks and `chunks` chunks may have."""
        row = ("block", "row")
        y = self._spec("y", blocks, self.rows, np.dtype(np.float64), row)
        arrays = [
            *self._lines("ids", np.uint64, blocks, chunks),
            y if targets is None else with_targets(y, len(targets)),
            self._spec("weight", blocks, self.rows, np.dtype(np.float32), row),
            self._spec("tag", blocks, self.rows, STRING, row),
        ]
        return {array.name: array for array in arrays}

    def column_specs(self, blocks: int, chunks: int) -> dict[str, ArraySpec]:
        """Return the specs of the block arrays of a sparse dataset stored by columns."""
        ids = self._spec("ids", blocks, self.rows, np.dtype(np.uint64), ("block", "column"))
        arrays = [*self._lines("rows", np.uint32, blocks, chunks), ids]
        return {array.name: array for array in arrays}

    def _lines(self, index: str, dtype: type[np.unsignedinteger[Any]], blocks: int, chunks: int) -> list[ArraySpec]:
        """Return the specs of the CSR or CSC arrays: the indices named `index`, the values, and indptr."""
        entry = ("chunk", "entry")
        return [
            self._spec(index, chunks, self.entries, np.dtype(dtype), entry),
            self._spec("values", chunks, self.entries, np.dtype(np.float32), entry),
            self._spec("indptr", blocks, self.rows + 1, np.dtype(np.int64), ("block", "edge")),
        ]

    def _spec(self, name: str, count: int, width: int, dtype: Any, dims: tuple[str, str]) -> ArraySpec:
        return ArraySpec(name, (count, width), (1, width), dtype, dims, self.compression)


class StagedBlock(NamedTuple):
    """The numbers of rows, entries and chunks of one block of a staged piece."""

    rows: int
    entries: int
    chunks: int


@dataclass
class SparsePiece(StagedPiece):
    """The record of one staged piece of sparse rows, stored as JSON."""

    blocks: list[StagedBlock] = field(default_factory=list)
    runs: list[NameRun] = field(default_factory=list)  # that hold its names, some of them staged with other pieces
    max_id: int = 0

    def __post_init__(self) -> None:  # a record read from JSON has plain lists
        super().__post_init__()
        self.blocks = [StagedBlock(*block) for block in self.blocks]
        self.runs = [NameRun(*run) for run in self.runs]

    @property
    def relies_on(self) -> set[str]:
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
    """Stages the blocks and names of one piece, except names that the earlier sorted runs `runs` hold."""

    def __init__(
        self,
        location: Location,
        number: int,
        key: str,
        shape: BlockShape,
        runs: Sequence[NameRun] = (),
        targets: Sequence[str] | None = None,
    ) -> None:
        super().__init__(location, SparsePiece(number, key, new_folder(number), runs=list(runs)))
        self._shape, self._specs = shape, shape.specs(1, 1, targets)

    def take_rows(self, rows: RowArrays) -> None:
        """Write the arrays of one block of sparse rows as staged files."""
        count, entries = int(rows.progress[ROWS]), int(rows.progress[ENTRIES])
        block, number = self._shape.block(count, entries), len(self.piece.blocks)
        for name, cells in _needed_arrays(rows).items():
            spec = self._specs[name]
            for i in range(block.chunks if name in ENTRY_ARRAYS else 1):
                part = cells[i * spec.chunks[1] : (i + 1) * spec.chunks[1]]
                self.write(staged_name(name, number, i), encode_chunk(spec, part[np.newaxis]))
        self.piece.blocks.append(block)
        self.piece.max_id = max(self.piece.max_id, int(rows.ids[:entries].max(initial=0)))
        self.piece.add_labels(rows.y[:count])

    def take_names(self, names: NameSet) -> None:
        """Write a set of feature names as a staged file, a run of names sorted by id."""
        name = f"names.{len(self.piece.runs)}"
        count, file = sort_names(names)
        self.write(name, file)
        self.piece.runs.append(NameRun(f"{self.piece.folder}/{name}", count))


def _needed_arrays(rows: RowArrays) -> dict[str, NDArray[Any]]:
    """Return the arrays of a block without padding, and without arrays that hold only the default value."""
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


def staged_name(array: str, block: int, i: int) -> str:
    """Return the file name of chunk `i` of an array in a staged block."""
    return f"{array}.{block}.{i}"
