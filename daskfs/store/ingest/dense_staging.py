"""Staging and publishing of dense rows: workers stage segments of rows in parallel, then cut segments into chunks.

A table is read row by row, but a dataset in the layout "columns" stores whole columns. For this layout, each segment of
rows is staged transposed. A range of columns is then one contiguous range of bytes in every staged segment, and a task
that writes a chunk of columns reads only the bytes of this chunk. For the layout "rows", segments are not transposed.
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
from daskfs.store.dataset.codec import append_crc
from daskfs.store.dataset.label_order import LabelOrder
from daskfs.store.dataset.layout import (
    ROOT,
    UNFINISHED,
    ArraySpec,
    DenseShape,
    Labels,
    Layout,
    dense_specs,
    recode_labels,
    target_spec,
)
from daskfs.store.dataset.names import check_column_names, feature_spec
from daskfs.store.dataset.writer import ChunkRecords, DatasetWriter, write_chunk
from daskfs.store.ingest.publish import RunTasks
from daskfs.store.ingest.rows import BadLines, LabelCodes
from daskfs.store.ingest.staging import PieceWriter, StagedPiece, merge_labels, merge_orders, new_folder
from daskfs.store.places.location import Location


@dataclass
class DensePiece(StagedPiece):
    """The record of one staged piece of dense rows, stored as JSON."""

    segments: list[int] = field(default_factory=list)  # rows of each
    dtype: str = "float32"
    columns: int = 0

    @property
    def rows(self) -> int:
        return sum(self.segments)

    @property
    def entries(self) -> int:
        return 0  # only sparse rows have entries to count


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows ``first`` to ``first + rows`` of the dataset, staged in one file per array."""

    folder: str
    number: int
    first: int
    rows: int
    strings: tuple[str, ...]

    def key(self, what: str) -> str:
        return f"{self.folder}/{what}.{self.number}"


class DensePieceWriter(PieceWriter[DensePiece]):
    """Collects dense rows into segments of about `segment_bytes` bytes, and writes the segments as staged files."""

    def __init__(self, location: Location, number: int, key: str, layout: Layout, segment_bytes: int) -> None:
        super().__init__(location, DensePiece(number, key, new_folder(number)))
        self._layout, self._segment_bytes = layout, segment_bytes
        self._X: list[NDArray[Any]] = []
        self._y: list[NDArray[np.float64]] = []

    def take_rows(self, X: NDArray[np.floating[Any]], y: NDArray[np.float64]) -> None:
        """Add one batch of rows X with labels y, and write the current segment if it is full."""
        if len(y) == 0:
            return
        self._X.append(X)
        self._y.append(y)
        self.piece.add_labels(y)
        if sum(part.nbytes for part in self._X) >= self._segment_bytes:
            self._write_segment()

    def close(self, labels: LabelCodes, bad_lines: BadLines) -> DensePiece:
        self._write_segment()
        return super().close(labels, bad_lines)

    def _write_segment(self) -> None:
        if not self._X:
            return
        X, y = np.concatenate(self._X), np.concatenate(self._y)
        self._X, self._y = [], []
        number = len(self.piece.segments)
        if self._layout != "rows":
            self.write(f"columns.{number}", append_crc(np.ascontiguousarray(X.T)))
        if self._layout != "columns":
            self.write(f"rows.{number}", append_crc(X))
        self.write(f"y.{number}", append_crc(y))
        self.piece.segments.append(len(y))
        self.piece.dtype, self.piece.columns = X.dtype.name, X.shape[1]


@dataclass(frozen=True)
class DensePlan:
    """The chunk shape, the column names and the origin of a dense dataset."""

    shape: DenseShape
    names: Sequence[str] | None
    origin: dict[str, Any]  # which command wrote it from what, for the record
    root: str = ROOT


def publish_dense(
    location: Location, pieces: Sequence[DensePiece], plan: DensePlan, run: RunTasks, group_bytes: int
) -> None:
    """Cut the staged dense rows into chunks, write names and metadata, and mark the dataset complete.

    A task writes as many neighbouring chunks as fit in `group_bytes`, so that a task reads long ranges of the segments.
    """
    segments = _segments(pieces)
    if not segments:
        raise SourceError(f"{location.url}: the sources hold no rows")
    n, p = segments[-1].first + segments[-1].rows, next(piece.columns for piece in pieces if piece.segments)
    labels = merge_labels(pieces)
    dtype = np.dtype(next(piece.dtype for piece in pieces if piece.segments))
    writer = DatasetWriter(location)
    index = _write_index(location, segments)
    for spec in dense_specs((n, p), dtype, plan.shape):
        assemble = _write_columns if spec.codec.columns_contiguous else _write_rows
        group = max(1, group_bytes // (math.prod(spec.chunks) * dtype.itemsize))
        tasks = [(location, spec, first, group, index) for first in range(0, spec.n_chunks, group)]
        for records in run(assemble, tasks):
            writer.add(spec, records)
    target = target_spec(n)
    writer.add(target, run(_write_target, [(location, target, i, index, labels) for i in range(target.n_chunks)]))
    close_dense(writer, (n, p), labels, merge_orders(pieces, labels), plan)


def close_dense(
    writer: DatasetWriter, shape: tuple[int, int], labels: Labels, order: LabelOrder, plan: DensePlan
) -> None:
    """Write the column names, if the plan has column names, and mark a dense dataset complete."""
    n, p = shape
    if plan.names is not None:
        writer.write(feature_spec(p), check_column_names(plan.names, p))
    attributes = {
        "kind": "dense",
        "layout": plan.shape.layout,
        "n_samples": n,
        "n_features": p,
        "n_entries": n * p,
        "max_id": p - 1,
        "labels": labels.attributes(),
        "mixed": order.mixed,
        "names": {"from": "ids", "prefix": "x"} if plan.names is None else {"from": "columns"},
        "made": plan.origin,
    }
    writer.close(attributes, plan.root)


def _segments(pieces: Sequence[DensePiece]) -> list[Segment]:
    segments, first = [], 0
    for piece in pieces:
        for number, rows in enumerate(piece.segments):
            segments.append(Segment(piece.folder, number, first, rows, tuple(piece.strings)))
            first += rows
    return segments


def _write_index(location: Location, segments: list[Segment]) -> str:
    """Store the list of segments in a file that tasks read, and return the key of this file, a hash of the list."""
    content = json.dumps([asdict(segment) for segment in segments]).encode()
    key = f"{UNFINISHED}/segments-{hashlib.sha256(content).hexdigest()[:16]}"
    location.write(key, content)
    return key


@lru_cache(maxsize=2)
def _read_index(location: Location, key: str) -> list[Segment]:
    return [Segment(**segment) for segment in json.loads(location.read(key))]


def _write_columns(location: Location, spec: ArraySpec, number: int, group: int, index: str) -> ChunkRecords:
    """Write up to `group` chunks of columns, starting with chunk `number`."""
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


def _write_rows(location: Location, spec: ArraySpec, number: int, group: int, index: str) -> ChunkRecords:
    """Write up to `group` chunks of rows, starting with chunk `number`."""
    records = []
    for chunk in range(number, min(number + group, spec.n_chunks)):
        parts = _rows_between(location, "rows", spec, chunk, index, spec.shape[1] * spec.dtype.itemsize)
        cells = np.frombuffer(b"".join(raw for raw, _ in parts), spec.dtype).reshape(-1, spec.shape[1])
        records.append(write_chunk(location, spec, chunk, cells))
    return records


def _write_target(location: Location, spec: ArraySpec, number: int, index: str, labels: Labels) -> tuple[int, int, int]:
    targets = []
    for raw, segment in _rows_between(location, "y", spec, number, index, 8):
        y = np.frombuffer(raw, np.float64)
        targets.append(recode_labels(y, segment.strings, labels) if labels.strings else y)
    return write_chunk(location, spec, number, np.concatenate(targets))


def _rows_between(
    location: Location, what: str, spec: ArraySpec, number: int, index: str, row_bytes: int
) -> list[tuple[bytes, Segment]]:
    """Return the bytes of the rows in chunk `number`, with the segment that holds these bytes, for each segment."""
    start, stop = number * spec.chunks[0], min((number + 1) * spec.chunks[0], spec.shape[0])
    parts = []
    for segment in _read_index(location, index):
        a, b = max(start - segment.first, 0), min(stop - segment.first, segment.rows)
        if a < b:
            parts.append((location.read(segment.key(what), a * row_bytes, b * row_bytes), segment))
    return parts
