"""Parts of text files of sparse rows, parsed into blocks of rows, and what is known about a part beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import BadLineError
from daskfs.jit import read_only
from daskfs.protocol import SparseBlock
from daskfs.store.dataset.names_kernels import NameSet
from daskfs.store.ingest.formats.base import LineFormat
from daskfs.store.ingest.formats.label_kernels import ENTRIES as ENTRIES_SEEN
from daskfs.store.ingest.formats.label_kernels import MAX_ID
from daskfs.store.ingest.rows import BadLines, NameCollector, RowBuilder
from daskfs.store.ingest.rows_kernels import ENTRIES, ROWS, RowArrays, all_ones
from daskfs.store.ingest.sources import Source, SourcePart, Window, line_windows
from daskfs.store.ingest.staging import SparsePiece, StagedBlock

PART_BYTES, MOST_PARTS = 4 << 20, 1 << 12
PARSER_BYTES = 4 << 20
"""The memory of a parser besides its rows: a window of text, the structure of the text, labels."""
_WINDOW_BYTES = 1 << 20
_ROWS_AT_ONCE = 1 << 14
_NAMES_BYTES = 1 << 20
_ENTRY_BYTES = 8  # of text an entry, about; with less of it, blocks are joined from several pieces


class PartParser:
    """Parses parts of text files into blocks of rows, whose memory the next block reuses.

    Parameters
    ----------
    kind
        The format of the text.
    n_rows, n_entries
        The room for rows and entries. A part with more of them takes more time and memory.
    take_names
        Called with sets of names; without it, names are left out.
    """

    def __init__(
        self, kind: LineFormat, n_rows: int, n_entries: int, take_names: Callable[[NameSet], None] | None = None
    ) -> None:
        self._kind, self._is_complete, self._blocks = kind, False, list[SparseBlock]()
        self._rows = RowBuilder(
            self._take_rows,
            take_names or (lambda names: None),
            block_rows=max(n_rows, 1),
            block_entries=max(n_entries, 1),
            collected=NameCollector(_NAMES_BYTES if take_names else 0),
            bad_lines=BadLines(),
        )
        self._parse = kind.parser(self._rows)

    @property
    def label_strings(self) -> list[str]:
        """The string labels of all rows so far, by their number in y."""
        return self._rows.label_strings()

    def parse(self, part: SourcePart) -> SparseBlock:
        """Return the rows of a part; all rows have weights."""
        return self._parse_windows(line_windows(part, _WINDOW_BYTES), part.source)

    def parse_labels(self, part: SourcePart) -> tuple[SparseBlock, int, int]:
        """Return the rows of a part without features, the number of their entries, and their largest id."""
        facts = np.array([0, 0])
        try:
            return (
                self._parse_windows(self._labels(part, facts), part.source),
                int(facts[ENTRIES_SEEN]),
                int(facts[MAX_ID]),
            )
        except BadLineError:
            self.parse(part)  # raises the error with the right line
            raise

    def parse_lines(self, lines: Sequence[bytes], source: Source) -> SparseBlock:
        """Return the rows of some lines of a source."""
        text = np.frombuffer(bytearray().join(line + b"\n" for line in lines), np.uint8)  # writable, as windows are
        return self._parse_windows(iter([Window(text, 0)]), source)

    def _labels(self, part: SourcePart, facts: NDArray[np.int64]) -> Iterator[Window]:
        """Yield windows of the labels of a part, which are lines without features."""
        labels = np.empty(0, np.uint8)
        for window in line_windows(part, _WINDOW_BYTES):
            labels = labels if len(labels) >= len(window.text) else np.empty(len(window.text), np.uint8)
            yield Window(labels[: self._kind.copy_labels(window.text, labels, facts)], window.offset)

    def _parse_windows(self, windows: Iterator[Window], source: Source) -> SparseBlock:
        self._is_complete, self._blocks = False, []
        for window in windows:
            self._rows.parse(window, source, partial(self._parse, window.text), self._kind.reasons)
        self._is_complete = True
        self._rows.finish()
        return self._blocks[0] if len(self._blocks) == 1 else _joined(self._blocks)

    def _take_rows(self, rows: RowArrays) -> None:
        count, entries = int(rows.progress[ROWS]), int(rows.progress[ENTRIES])
        block = SparseBlock(
            0, rows.indptr[: count + 1], rows.ids[:entries], rows.values[:entries], rows.y[:count], rows.weight[:count]
        )
        self._blocks.append(block if self._is_complete else copy_block(block))


def copy_block(block: SparseBlock) -> SparseBlock:
    """Return a block with memory of its own."""
    arrays = (block.indptr, block.ids, block.values, block.y, block.weight)
    return SparseBlock(block.first, *(read_only(np.copy(array)) for array in arrays if array is not None))


def _joined(blocks: Sequence[SparseBlock]) -> SparseBlock:
    """Return the rows of several blocks as one block, or an empty block if there are none."""
    edges = np.cumsum([0, *(len(block.ids) for block in blocks)])
    starts = [block.indptr[:-1] + edge for block, edge in zip(blocks, edges, strict=False)]
    return SparseBlock(
        0,
        np.concatenate([*starts, edges[-1:]]).astype(np.int64),
        np.concatenate([np.empty(0, np.uint64), *(block.ids for block in blocks)]),
        np.concatenate([np.empty(0, np.float32), *(block.values for block in blocks)]),
        np.concatenate([np.empty(0, np.float64), *(block.y for block in blocks)]),
        np.concatenate([np.empty(0, np.float32), *(block.weight for block in blocks if block.weight is not None)]),
    )


@dataclass
class TextPiece(SparsePiece):
    """What is known about one part of a text: numbers of rows and entries, and labels."""

    weighted: bool = False
    """Whether rows have weights other than 1."""

    @classmethod
    def of(cls, number: int, labels: SparseBlock, strings: list[str], n_entries: int, max_id: int) -> TextPiece:
        """Return the record of a part from its rows, which need only labels."""
        blocks, weighted = [StagedBlock(len(labels.y), n_entries, 1)], not all_ones(labels.weight)
        piece = cls(number, "", "", strings=strings, blocks=blocks, max_id=max_id, weighted=weighted)
        piece.add_labels(labels.y)
        return piece


def text_parts(kind: LineFormat, sources: Sequence[Source]) -> list[SourcePart]:
    """Return the parts of text files that will be blocks."""
    part_bytes = max(PART_BYTES, sum(source.size for source in sources) // MOST_PARTS)
    return [part for source in sources for part in kind.parts(source, part_bytes)]


def scan_parts(kind: LineFormat, first: int, parts: Sequence[SourcePart]) -> list[TextPiece]:
    """Read the labels of parts, and return a record of each part; repeated features of a row count as entries.

    The number of the first part is `first`.
    """
    parser, pieces = PartParser(kind, _ROWS_AT_ONCE, 1), []
    for number, part in enumerate(parts, first):
        labels, n_entries, max_id = parser.parse_labels(part)
        pieces.append(TextPiece.of(number, labels, parser.label_strings, n_entries, max_id))
    return pieces


def parse_parts(kind: LineFormat, first: int, parts: Sequence[SourcePart]) -> list[tuple[TextPiece, SparseBlock]]:
    """Parse parts, and return a record of each part and its rows."""
    parser, pieces = PartParser(kind, _ROWS_AT_ONCE, max(part.nbytes for part in parts) // _ENTRY_BYTES), []
    for number, part in enumerate(parts, first):
        block = copy_block(parser.parse(part))
        max_id = int(block.ids.max(initial=0))
        pieces.append((TextPiece.of(number, block, parser.label_strings, len(block.ids), max_id), block))
    return pieces
