"""What an ingest is going to do, decided by a look at the sources and written down before it starts.

The plan is the same for every worker and after a restart: the format with nothing left to guess, the sizes
of blocks, and the pieces of work. A second run with the same request goes on where the first one stopped, and
starts over where changed sources call for another plan; a run with another request is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from daskfs.errors import DatasetError
from daskfs.store.dataset.codec import Codec, Compression
from daskfs.store.dataset.dataset import open_dataset
from daskfs.store.dataset.layout import PLAN, ROOT, UNFINISHED, DenseShape, Layout
from daskfs.store.dataset.writer import clear, drop_staged, prepare, retire
from daskfs.store.ingest.arrays import BLOCK_ENTRIES, block_shape
from daskfs.store.ingest.formats.base import Format
from daskfs.store.ingest.name_cache import NameCollector
from daskfs.store.ingest.rows import BadLines, RowBuilder
from daskfs.store.ingest.rows_kernels import ENTRIES, ROWS, RowArrays
from daskfs.store.ingest.sources import Source, SourcePart
from daskfs.store.ingest.staging import BlockShape
from daskfs.store.places.location import Location

PART_BYTES, LEAST_PART_BYTES = 64 << 20, 8 << 20
SAMPLE_BYTES = 1 << 20
COMPRESSED_RATIO = 4  # what a byte of a compressed file is worth, as a guess
PUBLISHING = f"{UNFINISHED}/publishing"


@dataclass(frozen=True)
class WorkPiece:
    """One unit of work: parts of sources, and a key that changes with them."""

    number: int
    parts: tuple[SourcePart, ...]
    key: str

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


@dataclass(frozen=True)
class Plan:
    """What was decided by a look at the sources: the same for every worker, and after a restart."""

    format: Format
    shape: BlockShape | DenseShape

    def to_json(self, request: str) -> bytes:
        shape = {"dense": isinstance(self.shape, DenseShape), **asdict(self.shape)}
        return json.dumps(
            {"request": request, "format": self.format.name, "options": asdict(self.format), "shape": shape}
        ).encode()


def request_digest(
    kind: Format, sources: Sequence[Source], layout: Layout, compression: Compression | None, on_bad_line: str
) -> str:
    """A digest of what was asked for; a source's name counts, its content is each piece's own matter."""
    return _digest([kind.name, asdict(kind), [source.url for source in sources], layout, compression, on_bad_line])


def content_digest(sources: Sequence[Source]) -> str:
    """A digest that changes when a source does."""
    return _digest([(source.url, source.fingerprint) for source in sources])


def is_done(location: Location, request: str, content: str) -> bool:
    """True if the very dataset that is asked for stands there complete, made from what the sources hold now."""
    if not location.exists(ROOT):
        return False
    made = open_dataset(location.url, location.options).attributes.get("made", {})
    if (made.get("request"), made.get("content")) != (request, content):
        return False
    drop_staged(location)  # a kill may have come between the last write and this
    return True


def begin(location: Location, plan: Plan, work: Sequence[WorkPiece], request: str, overwrite: bool) -> None:
    """Keep what an earlier run of the same request has staged, if the plan is still the same; else begin anew."""
    if location.exists(PLAN) and (overwrite or not location.exists(ROOT)):
        record = json.loads(location.read(PLAN))
        if record == json.loads(plan.to_json(request)) and not _published_otherwise(location, work):
            location.sweep()
            return
        if record["request"] != request and not overwrite:
            raise DatasetError(
                f"{location.url}: holds an unfinished ingest of other sources or options; "
                "repeat that command to finish it, or use --overwrite to drop it"
            )
        if not location.exists(ROOT):
            clear(location)
    prepare(location, overwrite)
    location.write(PLAN, plan.to_json(request))


def abandon(location: Location) -> None:
    """After an error: if no piece has been finished, leave nothing that would stand in the way of the next try."""
    finished = [
        name for name in location.members(UNFINISHED) if name.endswith(".json") and f"{UNFINISHED}/{name}" != PLAN
    ]
    if not finished:
        location.delete(UNFINISHED)
        location.remove_if_empty()


def begin_publishing(location: Location, work: Sequence[WorkPiece]) -> None:
    """Note which pieces are about to be moved to their places, and make these free."""
    location.write(PUBLISHING, _digest([piece.key for piece in work]).encode())
    retire(location)


def _published_otherwise(location: Location, work: Sequence[WorkPiece]) -> bool:
    """True if chunks have been moved already: to places that changed sources may have made wrong, or all of them."""
    try:
        return location.read(PUBLISHING).decode() != _digest([piece.key for piece in work]) or location.exists(ROOT)
    except FileNotFoundError:
        return False


def new_plan(
    kind: Format, sources: Sequence[Source], layout: Layout, compression: Compression | None, chunk_bytes: int
) -> Plan:
    """Look at the sources and decide what can be decided before they are read."""
    resolved = kind.resolve(sources)
    if resolved.kind == "dense":
        shape: BlockShape | DenseShape = DenseShape(layout, chunk_bytes, Codec(compression or "none"))
    else:
        shape = _block_shape(resolved, sources, Codec(compression or "lz4"))
    return Plan(resolved, shape)


def _block_shape(kind: Format, sources: Sequence[Source], compression: Codec) -> BlockShape:
    """Block sizes by a look at the first part; if that is all there is, no larger than it needs.

    A part of a source ends with a block that is not full. So blocks are made a little larger or smaller than
    usual, such that parts like the first fill a whole number of them.
    """
    parts = list(kind.parts(sources[0], SAMPLE_BYTES))
    rows, entries, whole = _look(kind, parts[0])
    if whole and len(sources) == len(parts) == 1:
        return BlockShape(max(rows, 1), min(max(entries, 1), BLOCK_ENTRIES), compression)
    mean = max(entries / rows, 1.0) if rows else 1.0
    expected = entries * _part_bytes(sources) // max(parts[0].nbytes, 1)
    blocks = round(expected / BLOCK_ENTRIES) if whole and not sources[0].compression else 0
    return block_shape(mean, compression, int(1.03 * expected / blocks) if blocks else BLOCK_ENTRIES)


def _look(kind: Format, part: SourcePart) -> tuple[int, int, bool]:
    """Rows and entries of a part, and whether that is all of it: a compressed file or a row group may be huge."""
    rows, entries = 0, 0

    def count(block: RowArrays) -> None:
        nonlocal rows, entries
        rows, entries = rows + int(block.progress[ROWS]), entries + int(block.progress[ENTRIES])
        if entries >= BLOCK_ENTRIES:
            raise _SeenEnough

    builder = RowBuilder(
        count,
        lambda names: None,
        block_rows=2000,
        block_entries=BLOCK_ENTRIES,
        collected=NameCollector(1 << 20),
        bad_lines=BadLines(skip=True, most=10**9),
    )
    try:
        kind.read(part, builder, SAMPLE_BYTES)
        builder.flush()
    except _SeenEnough:
        return rows, entries, False
    return rows, entries, True


class _SeenEnough(Exception):
    """Ends the look at the first rows."""


def _part_bytes(sources: Sequence[Source]) -> int:
    """About 64 parts, however few workers there are: a restart with more of them must find the same pieces."""
    return min(PART_BYTES, max(LEAST_PART_BYTES, sum(source.size for source in sources) // 64))


def pieces_of(kind: Format, sources: Sequence[Source], request: str) -> Iterator[WorkPiece]:
    """Parts of sources, small ones gathered until they are worth a task."""
    part_bytes = _part_bytes(sources)
    number, gathered, size = 0, [], 0
    for source in sources:
        for part in kind.parts(source, part_bytes):
            gathered.append(part)
            size += part.nbytes * (COMPRESSED_RATIO if source.compression else 1)
            if size >= part_bytes // 2 or len(gathered) == 1000:
                yield _work_piece(number, gathered, request)
                number, gathered, size = number + 1, [], 0
    if gathered:
        yield _work_piece(number, gathered, request)


def _work_piece(number: int, parts: list[SourcePart], request: str) -> WorkPiece:
    content = [request, [(part.source.url, part.source.fingerprint, part.start, part.stop) for part in parts]]
    return WorkPiece(number, tuple(parts), _digest(content))


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
