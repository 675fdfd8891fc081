"""Dense rows on their way into a dataset: segments of rows staged in parallel, then cut into chunks.

A table comes row by row, a dataset wants whole columns. So each batch of rows is staged transposed: a range
of columns is then one contiguous range of bytes of every segment, and a chunk of columns is put together
by reading exactly its own bytes, once. For chunks of whole rows, segments are staged as they come.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import SourceError
from daskfs.store.labels import Labels, distinct_numbers, recoded, united_numbers, united_strings
from daskfs.store.layout import UNFINISHED, ArraySpec, DenseShape, Layout, dense_specs, target_spec
from daskfs.store.location import Location
from daskfs.store.names import checked_column_names, feature_spec
from daskfs.store.publish import Run
from daskfs.store.rows import BadLines, LabelCodes
from daskfs.store.staging import record_key
from daskfs.store.writer import DatasetWriter, Records, write_chunk


@dataclass
class DensePiece:
    """What is known of one staged piece."""

    number: int
    key: str
    segments: list[int] = field(default_factory=list)  # rows of each
    dtype: str = "float32"
    numbers: list[float] | None = field(default_factory=list)
    strings: list[str] = field(default_factory=list)
    bad_lines: int = 0
    bad_examples: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(self.segments)


@dataclass(frozen=True, slots=True)
class Segment:
    """Staged rows ``first … first + rows`` of the dataset."""

    folder: str
    number: int
    first: int
    rows: int
    strings: tuple[str, ...]

    def key(self, what: str) -> str:
        return f"{self.folder}/{what}.{self.number}"


class DenseStage:
    """Collects rows into segments of about `segment_bytes` and writes them; `close` writes the record."""

    def __init__(self, location: Location, number: int, key: str, layout: Layout, segment_bytes: int) -> None:
        self._location, self._layout, self._segment_bytes = location, layout, segment_bytes
        self._X: list[NDArray[Any]] = []
        self._y: list[NDArray[np.float64]] = []
        self.piece = DensePiece(number, key)

    def take_rows(self, X: NDArray[np.floating[Any]], y: NDArray[np.float64]) -> None:
        """Stage one batch of rows."""
        if len(y) == 0:
            return
        self._X.append(X)
        self._y.append(y)
        distinct = distinct_numbers(y)
        if self.piece.numbers is not None:
            self.piece.numbers = None if distinct is None else sorted({*self.piece.numbers, *distinct})
        if sum(part.nbytes for part in self._X) >= self._segment_bytes:
            self._write_segment()

    def _write_segment(self) -> None:
        if not self._X:
            return
        X, y = np.concatenate(self._X), np.concatenate(self._y)
        self._X, self._y = [], []
        segment = Segment(_folder(self.piece.number), len(self.piece.segments), 0, len(y), ())
        if self._layout != "rows":
            self._location.write(segment.key("columns"), np.ascontiguousarray(X.T).data.cast("B"))
        if self._layout != "columns":
            self._location.write(segment.key("rows"), X.data.cast("B"))
        self._location.write(segment.key("y"), y.tobytes())
        self.piece.segments.append(len(y))
        self.piece.dtype = X.dtype.name

    def close(self, labels: LabelCodes, bad_lines: BadLines) -> DensePiece:
        """Write the record: from now on the piece need not be parsed again."""
        self._write_segment()
        self.piece.strings = labels.label_strings()
        self.piece.bad_lines, self.piece.bad_examples = bad_lines.count, bad_lines.examples
        self._location.write(record_key(self.piece.number), json.dumps(asdict(self.piece)).encode())
        return self.piece


def read_dense_piece(location: Location, number: int, key: str) -> DensePiece | None:
    """The record of a piece, if it is complete and was made from the same source and options."""
    try:
        record = json.loads(location.read(record_key(number)))
    except (FileNotFoundError, ValueError):
        return None
    return DensePiece(**record) if record["key"] == key else None


def publish_dense(
    location: Location,
    pieces: Sequence[DensePiece],
    shape: DenseShape,
    names: list[str],
    made: dict[str, Any],
    run: Run,
    group_bytes: int,
) -> None:
    """Cut the staged rows into chunks, write names and metadata, and mark the dataset complete.

    A task makes as many neighbouring chunks as fit `group_bytes`, so that it reads long ranges of the segments.
    """
    segments = _segments(pieces)
    if not segments:
        raise SourceError(f"{location.url}: the sources hold no rows")
    n, p = segments[-1].first + segments[-1].rows, len(names)
    strings = any(piece.strings for piece in pieces)
    labels = united_strings(q.strings for q in pieces) if strings else united_numbers(q.numbers for q in pieces)
    dtype = np.dtype(next(piece.dtype for piece in pieces if piece.segments))
    writer = DatasetWriter(location)
    index = _write_index(location, segments)
    for spec in dense_specs((n, p), dtype, shape):
        assemble = _write_columns if spec.codec.columns_contiguous else _write_rows
        group = max(1, group_bytes // (math.prod(spec.chunks) * dtype.itemsize))
        tasks = [(location, spec, first, group, index) for first in range(0, spec.n_chunks, group)]
        for records in run(assemble, tasks):
            writer.add(spec, records)
    target = target_spec(n)
    writer.add(target, run(_write_target, [(location, target, i, index, labels) for i in range(target.n_chunks)]))
    writer.write(feature_spec(p), checked_column_names(names, p))
    writer.close(dense_attributes(n, p, shape.layout, labels, {"from": "columns"}) | {"made": made})


def dense_attributes(n: int, p: int, layout: Layout, labels: Labels, names: dict[str, Any]) -> dict[str, Any]:
    """The root attributes of a dense dataset."""
    return {
        "kind": "dense",
        "layout": layout,
        "n_samples": n,
        "n_features": p,
        "n_entries": n * p,
        "max_id": p - 1,
        "labels": labels.attributes(),
        "names": names,
    }


def _segments(pieces: Sequence[DensePiece]) -> list[Segment]:
    segments, first = [], 0
    for piece in pieces:
        for number, rows in enumerate(piece.segments):
            segments.append(Segment(_folder(piece.number), number, first, rows, tuple(piece.strings)))
            first += rows
    return segments


def _write_index(location: Location, segments: list[Segment]) -> str:
    """Store the list of segments, so that tasks need not carry it; its key changes with its content."""
    content = json.dumps([asdict(segment) for segment in segments]).encode()
    key = f"{UNFINISHED}/segments-{hashlib.sha256(content).hexdigest()[:16]}"
    location.write(key, content)
    return key


@lru_cache(maxsize=2)
def _read_index(location: Location, key: str) -> list[Segment]:
    return [Segment(**segment) for segment in json.loads(location.read(key))]


def _write_columns(location: Location, spec: ArraySpec, number: int, group: int, index: str) -> Records:
    """Write up to `group` chunks of columns from `number` on."""
    n, width = spec.chunks
    first = number * width
    count = min(group * width, spec.shape[1] - first)
    columns = np.empty((count, n), spec.dtype)
    for segment in _read_index(location, index):
        column_bytes = segment.rows * spec.dtype.itemsize
        raw = location.read(segment.key("columns"), first * column_bytes, (first + count) * column_bytes)
        columns[:, segment.first : segment.first + segment.rows] = np.frombuffer(raw, spec.dtype).reshape(count, -1)
    return [
        write_chunk(location, spec, number + i, columns[i * width : (i + 1) * width].T)
        for i in range(-(-count // width))
    ]


def _write_rows(location: Location, spec: ArraySpec, number: int, group: int, index: str) -> Records:
    """Write up to `group` chunks of rows from `number` on."""
    return [
        write_chunk(location, spec, one, _cells_of_rows(location, spec, one, index))
        for one in range(number, min(number + group, spec.n_chunks))
    ]


def _cells_of_rows(location: Location, spec: ArraySpec, number: int, index: str) -> NDArray[Any]:
    parts = _rows_between(location, "rows", spec, number, index, spec.shape[1] * spec.dtype.itemsize)
    return np.frombuffer(b"".join(raw for raw, _ in parts), spec.dtype).reshape(-1, spec.shape[1])


def _write_target(location: Location, spec: ArraySpec, number: int, index: str, labels: Labels) -> tuple[int, int, int]:
    targets = []
    for raw, segment in _rows_between(location, "y", spec, number, index, 8):
        y = np.frombuffer(raw, np.float64)
        targets.append(recoded(y, segment.strings, labels) if labels.strings else y)
    return write_chunk(location, spec, number, np.concatenate(targets))


def _rows_between(
    location: Location, what: str, spec: ArraySpec, number: int, index: str, row_bytes: int
) -> list[tuple[bytes, Segment]]:
    """The bytes of the rows that chunk `number` covers, segment by segment."""
    start, stop = number * spec.chunks[0], min((number + 1) * spec.chunks[0], spec.shape[0])
    parts = []
    for segment in _read_index(location, index):
        a, b = max(start - segment.first, 0), min(stop - segment.first, segment.rows)
        if a < b:
            parts.append((location.read(segment.key(what), a * row_bytes, b * row_bytes), segment))
    return parts


def _folder(number: int) -> str:
    return f"{UNFINISHED}/{number:06d}"
