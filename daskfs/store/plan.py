"""What an ingest is going to do, decided by a look at the sources and written down before it starts.

The plan is the same for every worker and after a restart: the format with nothing left to guess, the sizes
of blocks, and the pieces of work. A second run with the same request goes on where the first one stopped;
one with another request is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from daskfs.errors import DatasetError
from daskfs.store.arrays import BLOCK_ENTRIES, block_shape
from daskfs.store.codec import Codec, Compression
from daskfs.store.dataset import open_dataset
from daskfs.store.formats import make_format
from daskfs.store.formats.base import Format
from daskfs.store.layout import ROOT, UNFINISHED, DenseShape, Layout
from daskfs.store.location import Location
from daskfs.store.rows import BadLines, RowBuilder
from daskfs.store.rows_kernels import ENTRIES, ROWS, RowArrays
from daskfs.store.sources import Part, Source
from daskfs.store.staging import BlockShape
from daskfs.store.writer import prepare

PART_BYTES = 64 << 20
PLAN = f"{UNFINISHED}/plan.json"


@dataclass(frozen=True)
class WorkPiece:
    """One unit of work: parts of sources, and a key that changes with them."""

    number: int
    parts: tuple[Part, ...]
    key: str

    @property
    def nbytes(self) -> int:
        return sum((part.stop or part.source.size) - part.start for part in self.parts)


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

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Plan:
        shape = dict(record["shape"])
        kind = DenseShape if shape.pop("dense") else BlockShape
        shape["compression"] = Codec(**shape["compression"])
        return cls(make_format(record["format"], record["options"]), kind(**shape))


def request_digest(
    kind: Format, sources: Sequence[Source], layout: Layout, compression: Compression | None, on_bad_line: str
) -> str:
    """A digest of what was asked for; a source's name counts, its content is each piece's own matter."""
    asked = [kind.name, asdict(kind), [source.url for source in sources], layout, compression, on_bad_line]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def is_done(location: Location, request: str) -> bool:
    """True if the very dataset that is asked for stands there complete."""
    if not location.exists(ROOT):
        return False
    made = open_dataset(location.url, location.options).attributes.get("made", {})
    return bool(made.get("request") == request)


def resumed_plan(location: Location, request: str, overwrite: bool) -> Plan | None:
    if overwrite or not location.exists(PLAN):
        prepare(location, overwrite)
        return None
    record = json.loads(location.read(PLAN))
    if record["request"] != request:
        raise DatasetError(
            f"{location.url}: holds an unfinished ingest of other sources or options; "
            "repeat that command to finish it, or use --overwrite to drop it"
        )
    return Plan.from_json(record)


def new_plan(
    location: Location,
    kind: Format,
    sources: Sequence[Source],
    layout: Layout,
    compression: Compression | None,
    chunk_bytes: int,
    request: str,
) -> Plan:
    resolved = kind.resolved(sources)
    if resolved.kind == "dense":
        shape: BlockShape | DenseShape = DenseShape(layout, chunk_bytes, Codec(compression or "none"))
    else:
        shape = _block_shape(resolved, sources, Codec(compression or "lz4"))
    plan = Plan(resolved, shape)
    location.write(PLAN, plan.to_json(request))
    return plan


def _block_shape(kind: Format, sources: Sequence[Source], compression: Codec) -> BlockShape:
    """Block sizes by a look at the first rows; if these are all there is, no larger than they need."""
    rows, entries = 0, 0

    def look(block: RowArrays) -> None:
        nonlocal rows, entries
        rows, entries = rows + int(block.progress[ROWS]), entries + int(block.progress[ENTRIES])
        if rows >= 2000:
            raise _SeenEnough

    builder = RowBuilder(
        look,
        lambda names: None,
        block_rows=2000,
        block_entries=BLOCK_ENTRIES,
        names_bytes=1 << 24,
        bad_lines=BadLines(skip=True, most=10**9),
    )
    parts = list(kind.parts(sources[0], 1 << 20))
    with suppress(_SeenEnough):
        kind.read(parts[0], builder, 1 << 20)
        builder.flush()
        if len(sources) == len(parts) == 1:
            return BlockShape(max(rows, 1), min(max(entries, 1), BLOCK_ENTRIES), compression)
    return block_shape(max(entries / rows, 1.0) if rows else 1.0, compression)


class _SeenEnough(Exception):
    """Ends the look at the first rows."""


def pieces_of(kind: Format, sources: Sequence[Source], request: str) -> Iterator[WorkPiece]:
    """Parts of sources, small ones gathered until they are worth a task."""
    number, gathered, size = 0, [], 0
    for source in sources:
        for part in kind.parts(source, PART_BYTES):
            gathered.append(part)
            size += (part.stop or source.size) - part.start
            if size >= PART_BYTES // 2 or source.compression or len(gathered) == 1000:
                yield _work_piece(number, gathered, request)
                number, gathered, size = number + 1, [], 0
    if gathered:
        yield _work_piece(number, gathered, request)


def _work_piece(number: int, parts: list[Part], request: str) -> WorkPiece:
    content = [request, [(part.source.url, part.source.fingerprint, part.start, part.stop) for part in parts]]
    return WorkPiece(number, tuple(parts), hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16])
