"""Text files of sparse rows, read in place as if they were a dataset: a block is a part of a file, parsed when read.

Nothing is written. The labels of all rows are read once in advance, which takes a small part of the time that parsing
takes. The names of features are not kept: the names of a few features are looked up in lines that have the features.
Rows, labels and names are the same as in the dataset that `ingest` writes, in the same order.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError, OptionError, public_url
from daskfs.jit import read_only
from daskfs.protocol import Axis, SparseBlock
from daskfs.store.dataset.blocks import SparseBlocks
from daskfs.store.dataset.dataset import AnyBlocks, Dataset
from daskfs.store.dataset.layout import ArraySpec, Attributes, Labels, recode_labels, target_spec, weight_spec
from daskfs.store.dataset.name_runs import name_text
from daskfs.store.dataset.names_kernels import COUNT, NameSet
from daskfs.store.dataset.slicing import take_sparse_rows
from daskfs.store.ingest.formats.base import LineFormat
from daskfs.store.ingest.plan import content_digest
from daskfs.store.ingest.rows_kernels import rows_with_new_ids
from daskfs.store.ingest.sources import SourcePart, line_windows
from daskfs.store.ingest.staging import merge_labels, merge_orders
from daskfs.store.ingest.text_parts import PARSER_BYTES, PartParser, TextPiece, copy_block
from daskfs.store.places.location import Location
from daskfs.store.places.read_ahead import Prefetcher
from daskfs.store.reorder.runs import HeldBack

HELD_BYTES = 256 << 20
"""The most memory for parsed blocks that stay in the process that opened the text, and need not be parsed again."""
_THREADS = 2  # that parse blocks, while the caller works on a block
_SPARE_BYTES = 12  # an entry, to sort rows
_FLAGS = 1 << 20
LARGEST_ID = (1 << 63) - 1  # of hashed names
_ENTRIES_AT_ONCE = 1 << 14
_WINDOW_BYTES = 1 << 18


@dataclass
class TextFiles:
    """The parts of text files with what is known about their rows, and some parsed blocks in memory."""

    kind: LineFormat
    parts: Sequence[SourcePart]
    n_rows: NDArray[np.int64]
    """The number of rows of every part."""
    n_entries: NDArray[np.int64]
    labels: Labels
    mixed: bool | None
    weighted: bool
    max_id: int
    n_features: int | None
    """The number of features, or None if it is not known."""
    held_bytes: int = HELD_BYTES
    held: dict[int, SparseBlock] = field(default_factory=dict)
    """Parsed blocks by number, of up to `held_bytes` bytes."""
    only: NDArray[np.uint64] | None = None
    """The ids of the features that blocks have, or None for all."""

    @classmethod
    def of(
        cls,
        kind: LineFormat,
        parts: Sequence[SourcePart],
        pieces: Sequence[TextPiece],
        blocks: Sequence[SparseBlock] = (),
        count: bool = False,
    ) -> TextFiles:
        """Return the text with these parts. There is a piece for every part, and a parsed block for every part or none.

        With `count`, the distinct features of the blocks are counted.
        """
        labels, max_id = merge_labels(pieces), max(piece.max_id for piece in pieces)
        n_rows, n_entries = (np.array([getattr(piece, name) for piece in pieces]) for name in ("rows", "entries"))
        weighted, mixed = any(piece.weighted for piece in pieces), merge_orders(pieces, labels).mixed
        text = cls(kind, parts, n_rows, n_entries, labels, mixed, weighted, max_id, None)
        if text.has_hashed_ids:
            text.max_id = LARGEST_ID
        else:
            text.n_features = max_id + 1
        if count and text.n_features is None:
            text.n_features = len(np.unique(np.concatenate([block.ids for block in blocks])))
        if blocks:
            text.held = {
                number: text._finished(block, piece.strings)
                for number, (piece, block) in enumerate(zip(pieces, blocks, strict=True))
            }
            text.held_bytes, text._free = sum(block.nbytes for block in blocks), 0
        return text

    def __post_init__(self) -> None:
        self._lock, self._free = threading.Lock(), self.held_bytes - sum(block.nbytes for block in self.held.values())

    def __reduce__(self) -> tuple[Any, ...]:
        facts = (self.n_rows, self.n_entries, self.labels, self.mixed, self.weighted, self.max_id, self.n_features)
        return TextFiles, (self.kind, self.parts, *facts, 0, {}, self.only)  # other processes hold no blocks

    @property
    def has_hashed_ids(self) -> bool:
        """Whether ids are hashes of names."""
        return bool(self.kind.names_from["from"] == "table")

    @cached_property
    def digest(self) -> str:
        """A hash of the fingerprints of all files and of the options of the format."""
        sources = list({part.source.url: part.source for part in self.parts}.values())
        facts = [self.kind.name, asdict(self.kind), content_digest(sources)]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()

    def new_parser(self) -> PartParser:
        """Return a parser with room for the largest part."""
        return PartParser(self.kind, int(self.n_rows.max()), int(self.n_entries.max()))

    def block(self, number: int, parser: PartParser) -> SparseBlock:
        """Return the rows of a part, in memory of the parser or of this text."""
        if number in self.held:
            return self.held[number]
        part = self.parts[number]
        block = self._finished(parser.parse(part), parser.label_strings)
        if self.only is not None:
            block = _with_features(block, self.only)
        part.source.check_unchanged()
        if len(block.y) != self.n_rows[number]:
            where = f"{public_url(part.source.url)}: bytes {part.start:,} to {part.stop or part.source.size:,}"
            raise DatasetError(f"{where}: have {len(block.y):,} rows, and had {self.n_rows[number]:,} when first read")
        with self._lock:
            is_held = block.nbytes <= self._free
            self._free -= block.nbytes if is_held else 0
        if is_held:
            block = self.held[number] = copy_block(block)
        return block

    def labelled_rows(self, number: int, parser: PartParser) -> SparseBlock:
        """Return the rows of a part with their labels; without their features, unless the block is in memory."""
        if number in self.held:
            return self.held[number]
        return self._finished(parser.parse_labels(self.parts[number])[0], parser.label_strings)

    def with_features(self, ids: NDArray[np.uint64]) -> TextFiles:
        """Return the same rows with only the features `ids`, so that more blocks fit into memory."""
        held = {number: _with_features(block, ids) for number, block in self.held.items()}
        return replace(self, only=ids, held=held, held_bytes=self.held_bytes)

    def _finished(self, block: SparseBlock, strings: Sequence[str]) -> SparseBlock:
        """Return a block with labels numbered as in the whole text, and without weights if the whole text has none."""
        y = recode_labels(block.y, strings, self.labels) if self.labels.strings else block.y
        return replace(block, y=y, weight=block.weight if self.weighted else None)


class InText(Dataset):
    """Text files of sparse rows that are read in place, with the members that a selection uses.

    Parameters
    ----------
    text
        The parts of the files.
    part
        The part of the rows to read, or None for all.
    """

    def __init__(self, text: TextFiles, part: HeldBack | None = None) -> None:
        source = text.parts[0].source
        super().__init__(Location(source.url, source.options))
        self.text, self._part, self._labels = text, part, text.labels

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared_in_text, (self.text.digest, self.text, self._part, self._is_number)

    def with_real_target(self) -> InText:
        if self.text.labels.strings:
            raise OptionError(f"{self.url}: its labels are text, and no numbers")
        same = self.of_text(self.text)
        same._is_number = True
        return same

    def held_back(self, share: float, seed: int) -> tuple[InText, InText]:
        """Return the rows to select from, and a share of the rows for a test: the same rows that `split` draws."""
        return InText(self.text, HeldBack(share, seed, False)), InText(self.text, HeldBack(share, seed, True))

    def of_text(self, text: TextFiles) -> InText:
        """Return the same part of the rows of another text."""
        same = InText(text, self._part)
        same._is_number = self._is_number
        return same

    @cached_property
    def _root(self) -> tuple[Attributes, dict[str, ArraySpec]]:
        n_rows, n_entries = int(self._rows.lines.sum()), int(self._rows.entries.sum())
        attributes = {
            "kind": "sparse",
            "layout": "rows",
            "n_samples": n_rows,
            "n_features": n_entries if self.text.n_features is None else self.text.n_features,
            "n_features_is_limit": self.text.n_features is None,
            "n_entries": n_entries,
            "max_id": self.text.max_id,
            "labels": self.text.labels.attributes(),
            "mixed": self.text.mixed,
            "names": self.text.kind.names_from,
        }
        weight = [weight_spec(n_rows)] if self.text.weighted else []
        return attributes, {spec.name: spec for spec in (target_spec(n_rows, None), *weight)}

    @cached_property
    def digest(self) -> str:
        """A hash of the fingerprints of all files, the options of the format, and the part of the rows."""
        return hashlib.sha256(json.dumps([self.text.digest, self._part]).encode()).hexdigest()

    @property
    def stored_bytes(self) -> int:
        """The size of all text files in bytes."""
        return sum(part.nbytes for part in self.text.parts)

    @property
    def ahead(self) -> int:
        """The memory that is needed besides the current block, as a number of blocks.

        It includes the blocks that are read ahead, a parser for every block, and the blocks that are held in memory.
        """
        ahead, nbytes = super().ahead, max(self._rows.nbytes, 1)
        parsing = (ahead + 1) * (PARSER_BYTES + _SPARE_BYTES * int(self.text.n_entries.max()))
        holding = min(self.text.held_bytes, int(self._rows.sizes.sum()))
        return ahead + -(-(parsing + holding) // nbytes)

    @property
    def _threads(self) -> int:
        return max(super()._threads, _THREADS)

    @property
    def _rows(self) -> _RowsInText:
        rows = self._blocks("rows")
        assert isinstance(rows, _RowsInText)
        return rows

    def block_entries(self) -> NDArray[np.int64]:
        return self._rows.entries

    def _axes(self) -> tuple[Axis, ...]:
        return ("rows",)

    def _new_blocks(self, axis: Axis) -> AnyBlocks:
        return _RowsInText(self.text, self._part)

    def _per_row(self, name: str) -> Iterator[NDArray[Any]]:
        parser = self.text.new_parser()
        for number in range(self.n_blocks()):
            yield getattr(self._rows.labels(number, parser), name).copy()  # the memory of a block is reused

    @cached_property
    def _names(self) -> Any:
        return NamesInText(self.text) if self.text.has_hashed_ids else super()._names


class _RowsInText(SparseBlocks):
    """Blocks of sparse rows from text files, without the rows that are not in the part `part` of the rows."""

    def __init__(self, text: TextFiles, part: HeldBack | None) -> None:
        self._text, edges = text, np.concatenate([[0], np.cumsum(text.n_rows)])
        self._masks: list[NDArray[np.bool_]] | None = None
        lines, self.entries = text.n_rows, text.n_entries
        if part is not None:
            drawn = part.drawn(int(edges[-1]))
            self._masks = [drawn.mask(int(first), int(n)) for first, n in zip(edges, text.n_rows, strict=False)]
            lines = np.array([int(mask.sum()) for mask in self._masks])
            self.entries = (text.n_entries * lines) // np.maximum(text.n_rows, 1)
        self._set_sizes(lines, self.entries, text.weighted)

    def new_buffers(self) -> Any:
        return self._text.new_parser()

    def labels(self, number: int, parser: PartParser) -> SparseBlock:
        """Return the rows of a block with their labels; without their features, unless the block is in memory."""
        return self._of_part(number, self._text.labelled_rows(number, parser))

    def _of_part(self, number: int, block: SparseBlock) -> SparseBlock:
        return block if self._masks is None else take_sparse_rows(block, self._masks[number])

    def read(self, number: int, parser: Any) -> SparseBlock:
        block = self._of_part(number, self._text.block(number, parser))
        weight = None if block.weight is None else read_only(block.weight)
        ids, values, y = read_only(block.ids), read_only(block.values), read_only(block.y)
        return SparseBlock(int(self._first[number]), read_only(block.indptr), ids, values, y, weight)


def _with_features(block: SparseBlock, ids: NDArray[np.uint64]) -> SparseBlock:
    """Return all rows of a block with only the features `ids`."""
    entries = _entries_of(block, ids)
    return replace(
        block, indptr=np.searchsorted(entries, block.indptr), ids=block.ids[entries], values=block.values[entries]
    )


def _entries_of(block: SparseBlock, ids: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the numbers of the entries of a block that are of the features `ids`."""
    flags, mask = np.zeros(_FLAGS, np.bool_), np.uint64(_FLAGS - 1)
    flags[ids & mask] = True
    entries = np.flatnonzero(flags[block.ids & mask])  # most of the others are left out by the low bits of their ids
    return entries[np.isin(block.ids[entries], ids)]


class NamesInText:
    """Names of features, looked up in the lines of a text where the features occur first."""

    def __init__(self, text: TextFiles) -> None:
        self._text, self._known, self._wanted = text, dict[int, str](), set[int]()

    def of(self, ids: NDArray[np.uint64]) -> list[str]:
        """Return the name of each feature id, in the order of `ids`."""
        self._wanted = set(ids.tolist()).difference(self._known)
        numbers = range(len(self._text.parts) if self._wanted else 0)
        blocks = Prefetcher(self._text.block, numbers, self._text.new_parser, _THREADS, _THREADS)
        for number, block in zip(numbers, blocks, strict=True):
            wanted = np.array([*self._wanted], np.uint64)
            rows = rows_with_new_ids(read_only(block.indptr), read_only(block.ids), wanted)
            if len(rows):
                self._read_names(number, rows)
            if not self._wanted:
                break
        if self._wanted:
            url = public_url(self._text.parts[0].source.url)
            raise DatasetError(f"{url}: feature {min(self._wanted)} has no name here; another dataset's id?")
        return [self._known[feature] for feature in ids.tolist()]

    def members(self, space: str) -> NDArray[np.uint64]:
        """Raise OptionError, since names are not listed."""
        raise OptionError(f"{space!r:.80}: names of features are not known before the text is written as a dataset")

    def _read_names(self, number: int, rows: NDArray[np.int64]) -> None:
        """Read the names of wanted features from some rows of a part of the text."""
        part, lines, first = self._text.parts[number], list[bytes](), 0
        for window in line_windows(part, _WINDOW_BYTES):
            of_rows = [line for line in window.text.tobytes().split(b"\n") if line.strip(b" \t\r")]  # not blank
            own = rows[(rows >= first) & (rows < first + len(of_rows))] - first
            lines += [of_rows[row] for row in own.tolist()]
            first += len(of_rows)
            if first > rows[-1]:
                break
        parser = PartParser(self._text.kind, len(rows), _ENTRIES_AT_ONCE, self._take)
        parser.parse_lines(lines, part.source)

    def _take(self, names: NameSet) -> None:
        ids = names.ids[: names.used[COUNT]]
        for entry in np.flatnonzero(np.isin(ids, np.array([*self._wanted], np.uint64))).tolist():
            name = names.text[names.starts[entry] : names.starts[entry + 1]].tobytes()
            self._known[int(ids[entry])] = name_text(name)
            self._wanted.discard(int(ids[entry]))


_texts: dict[str, TextFiles] = {}


def _shared_in_text(digest: str, text: TextFiles, part: HeldBack | None, is_number: bool) -> InText:
    """Return the unpickled dataset, whose text all tasks of the process share."""
    if len(_texts) > 8:
        _texts.clear()
    dataset = InText(_texts.setdefault(digest, text), part)
    dataset._is_number = is_number
    return dataset
