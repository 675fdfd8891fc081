"""The plan of an ingest, chosen from the first rows of the sources and stored before any row is written.

The plan holds the format with every option decided, and the block size. The plan is the same for every worker and after
a restart. A second ingest with the same request continues an unfinished ingest, and starts over if the sources have
changed. An ingest with another request into the same location raises DatasetError.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from daskfs.errors import DatasetError
from daskfs.store.dataset.codec import Codec, Compression
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.json_checks import parse_json
from daskfs.store.dataset.layout import MOST_METADATA, PLAN, ROOT, UNFINISHED, UNSHUFFLED, DenseShape, Layout
from daskfs.store.dataset.writer import clear, drop_staged, prepare, retire
from daskfs.store.ingest.arrays import BLOCK_ENTRIES, block_shape
from daskfs.store.ingest.formats.base import Format
from daskfs.store.ingest.rows import BadLines, NameCollector, RowBuilder
from daskfs.store.ingest.rows_kernels import ENTRIES, ROWS, RowArrays
from daskfs.store.ingest.sources import Source, SourcePart
from daskfs.store.ingest.staging import BlockShape
from daskfs.store.places.location import Location

PART_BYTES, LEAST_PART_BYTES = 64 << 20, 8 << 20
SAMPLE_BYTES = 1 << 20
COMPRESSED_RATIO = 4  # a guess at how much larger a compressed file becomes
PUBLISHING = f"{UNFINISHED}/publishing"


@dataclass(frozen=True)
class WorkPiece:
    """One unit of work of an ingest: parts of sources, and a key that changes with the content of these parts."""

    number: int
    parts: tuple[SourcePart, ...]
    key: str

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


@dataclass(frozen=True)
class Plan:
    """The format of an ingest with every option decided, and the size of blocks (sparse) or chunks (dense)."""

    format: Format
    shape: BlockShape | DenseShape

    def to_json(self, request: str) -> bytes:
        """Return the plan as JSON, together with the digest of the request."""
        shape = {"dense": isinstance(self.shape, DenseShape), **asdict(self.shape)}
        return json.dumps(
            {"request": request, "format": self.format.name, "options": asdict(self.format), "shape": shape}
        ).encode()


def request_digest(
    kind: Format, sources: Sequence[Source], layout: Layout, compression: Compression | None, on_bad_line: str
) -> str:
    """Return a digest of the options of an ingest and the URLs of the sources, but not of the sources' content."""
    return _digest([kind.name, asdict(kind), [source.url for source in sources], layout, compression, on_bad_line])


def content_digest(sources: Sequence[Source]) -> str:
    """Return a digest of the URLs and fingerprints of all sources, which changes when a source file changes."""
    return _digest([(source.url, source.fingerprint) for source in sources])


def is_done(location: Location, request: str, content: str) -> bool:
    """Return True if the requested dataset is complete and was made from the current content of the sources."""
    if not location.exists(ROOT) or not _was_made_by(Dataset(location), request, content):
        return False
    drop_staged(location)  # a killed ingest may have left them
    return True


def is_unshuffled(location: Location, request: str, content: str) -> bool:
    """Return True if the requested rows are complete and only need to be put in random order."""
    return location.exists(UNSHUFFLED) and _was_made_by(Dataset(location, root=UNSHUFFLED), request, content)


def _was_made_by(dataset: Dataset, request: str, content: str) -> bool:
    origin = dataset.attributes.get("made", {})
    return (origin.get("request"), origin.get("content")) == (request, content)


def begin(location: Location, plan: Plan, work: Sequence[WorkPiece], request: str, overwrite: bool) -> None:
    """Keep files that an earlier ingest with the same plan has staged, or clear the location and store the plan."""
    if location.exists(PLAN) and (overwrite or not location.exists(ROOT)):
        record = _stored_plan(location, overwrite)
        if record == json.loads(plan.to_json(request)) and not _published_otherwise(location, work):
            location.delete(UNSHUFFLED)
            location.sweep()
            return
        if record.get("request") != request and not overwrite:
            raise DatasetError(
                f"{location.url}: holds an unfinished ingest of other sources or options; "
                "repeat that command to finish it, or use --overwrite to drop it"
            )
        if not location.exists(ROOT):
            clear(location)
    prepare(location, overwrite)
    location.write(PLAN, plan.to_json(request))


def _stored_plan(location: Location, overwrite: bool) -> dict[str, Any]:
    """Return the stored plan, or an empty one if it is damaged and to be overwritten; raise DatasetError otherwise."""
    try:
        record = parse_json(location.read(PLAN, most=MOST_METADATA))
        if isinstance(record, dict):
            return record
        reason = "is no JSON object"
    except (ValueError, OSError) as error:
        reason = str(error)
    if overwrite:
        return {}
    raise DatasetError(f"{location.url}/{PLAN}: {reason:.200}; use --overwrite to drop the unfinished ingest")


def abandon(location: Location) -> None:
    """Delete the plan of a failed ingest, unless a piece is staged, so that the plan does not block another ingest."""
    finished = [
        name for name in location.members(UNFINISHED) if name.endswith(".json") and f"{UNFINISHED}/{name}" != PLAN
    ]
    if not finished:
        location.delete(UNFINISHED)
        location.remove_if_empty()


def begin_publishing(location: Location, work: Sequence[WorkPiece]) -> None:
    """Store a digest of the pieces that will be published, and delete the dataset that these pieces replace."""
    location.write(PUBLISHING, _digest([piece.key for piece in work]).encode())
    retire(location)


def _published_otherwise(location: Location, work: Sequence[WorkPiece]) -> bool:
    """Return True if chunks of other pieces than `work`, or of a complete dataset, were already published."""
    expected = _digest([piece.key for piece in work]).encode()
    try:
        return location.read(PUBLISHING, most=len(expected)) != expected or location.exists(ROOT)
    except FileNotFoundError:
        return False
    except OSError:  # not what daskfs has written
        return True


def new_plan(
    kind: Format, sources: Sequence[Source], layout: Layout, compression: Compression | None, chunk_bytes: int
) -> Plan:
    """Choose the format options and the block or chunk size from the first rows of the sources."""
    resolved = kind.resolve(sources)
    if resolved.kind == "dense":
        shape: BlockShape | DenseShape = DenseShape(layout, chunk_bytes, Codec(compression or "none"))
    else:
        shape = _block_shape(resolved, sources, Codec(compression or "lz4"))
    return Plan(resolved, shape)


def _block_shape(kind: Format, sources: Sequence[Source], compression: Codec) -> BlockShape:
    """Return a block size that suits the first part of the sources, or the size of the data if there is only one part.

    The last block of a part is usually not full. The block size is chosen such that parts similar to the first part
    fill a whole number of blocks.
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
    """Return the numbers of rows and entries read from a part, and whether these are all rows of the part."""
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
    """Raised to stop the parser when enough rows were read to choose the block size."""


def _part_bytes(sources: Sequence[Source]) -> int:
    """Return a part size in bytes that cuts the sources into about 64 parts, independent of the number of workers."""
    return min(PART_BYTES, max(LEAST_PART_BYTES, sum(source.size for source in sources) // 64))


def plan_pieces(kind: Format, sources: Sequence[Source], request: str) -> Iterator[WorkPiece]:
    """Yield pieces of work, each of one or more parts of sources: small parts share a piece."""
    part_bytes = _part_bytes(sources)
    number, parts, size = 0, [], 0
    for source in sources:
        for part in kind.parts(source, part_bytes):
            parts.append(part)
            size += part.nbytes * (COMPRESSED_RATIO if source.compression else 1)
            if size >= part_bytes // 2 or len(parts) == 1000:
                yield _work_piece(number, parts, request)
                number, parts, size = number + 1, [], 0
    if parts:
        yield _work_piece(number, parts, request)


def _work_piece(number: int, parts: list[SourcePart], request: str) -> WorkPiece:
    content = [request, [(part.source.url, part.source.fingerprint, part.start, part.stop) for part in parts]]
    return WorkPiece(number, tuple(parts), _digest(content))


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
