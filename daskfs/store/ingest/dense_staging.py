"""Staging and publishing of dense rows: workers stage segments of rows in parallel, then cut segments into chunks.

A table is read row by row, but a dataset in the layout "columns" stores whole columns. For this layout, each segment of
rows is staged transposed. A range of columns is then one contiguous range of bytes in every staged segment, and a task
that writes a chunk of columns reads only the bytes of this chunk. For the layout "rows", segments are not transposed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
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
from daskfs.store.ingest.gaps import Fills, Missing, check_given, columns_to_fill, fill_values, indicator_name
from daskfs.store.ingest.publish import Decisions, RunTasks, no_decisions, table_facts
from daskfs.store.ingest.rows import BadLines, LabelCodes
from daskfs.store.ingest.staging import (
    PieceWriter,
    StagedPiece,
    check_rows,
    merge_gaps,
    merge_labels,
    merge_orders,
    new_folder,
)
from daskfs.store.places.location import Location


@dataclass
class DensePiece(StagedPiece):
    """The record of one staged piece of dense rows, stored as JSON."""

    segments: list[int] = field(default_factory=list)  # rows of each
    dtype: str = "float32"
    columns: int = 0
    first_row: int | None = None  # of a tile of a matrix; other pieces follow the piece before
    first_column: int = 0

    @property
    def rows(self) -> int:
        return sum(self.segments)

    @property
    def entries(self) -> int:
        return 0  # only sparse rows have entries to count


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows from ``first`` on and columns from ``first_column`` on of the dataset, staged in one file per array."""

    folder: str
    number: int
    first: int
    rows: int
    first_column: int
    columns: int
    strings: tuple[str, ...]

    def key(self, what: str) -> str:
        return f"{self.folder}/{what}.{self.number}"


@dataclass(frozen=True, slots=True)
class StagedTable:
    """All segments of a dataset, and what fills the gaps of its columns."""

    segments: list[Segment]
    columns: int  # as staged; the columns of indicators follow
    fills: dict[int, float]
    indicators: list[int]  # columns whose gaps have an indicator


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
    """The chunk shape, the column names and the origin of a dense dataset, and what becomes of gaps."""

    shape: DenseShape
    names: Sequence[str] | None
    origin: dict[str, Any]  # which command wrote it from what, for the record
    root: str = ROOT
    missing: Missing = "error"
    decisions: Decisions = no_decisions
    given: Fills | None = None  # of another dataset, whose fills are used here too
    targets: tuple[str, ...] | None = None  # names of several targets, whose values are in the segments

    def column_names(self, count: int) -> Sequence[str]:
        """Return the names of `count` columns, which are x0, x1, … if the plan has none."""
        return [f"x{column}" for column in range(count)] if self.names is None else self.names


def publish_dense(
    location: Location,
    pieces: Sequence[DensePiece],
    plan: DensePlan,
    run: RunTasks,
    group_bytes: int,
    target: tuple[NDArray[np.float64], Labels] | None = None,
) -> None:
    """Cut the staged dense rows into chunks, fill gaps, write names and metadata, and mark the dataset complete.

    A task writes as many neighbouring chunks as fit in `group_bytes`, so that a task reads long ranges of the segments.
    Labels are taken from the segments, unless `target` gives them.
    """
    segments = _segments(pieces)
    check_rows(location, pieces, len(segments))
    n, p = (max(ends) for ends in zip(*((s.first + s.rows, s.first_column + s.columns) for s in segments), strict=True))
    dtype = np.dtype(next(piece.dtype for piece in pieces if piece.segments))
    writer, gaps, names = DatasetWriter(location), merge_gaps(pieces), plan.column_names(p)
    parts = [_SegmentCells(location, segment, dtype, plan.shape.layout != "rows") for segment in segments]
    fills, table = _fill_table(plan, names, gaps, parts, run)
    index = _write_index(location, table)
    if table.indicators:
        p, plan = p + len(table.indicators), replace(plan, names=[*names, *fills.indicators])
    for spec in dense_specs((n, p), dtype, plan.shape):
        assemble = _write_columns if spec.codec.columns_contiguous else _write_rows
        group = max(1, group_bytes // (math.prod(spec.chunks) * dtype.itemsize))
        tasks = [(location, spec, first, group, index) for first in range(0, spec.n_chunks, group)]
        for records in run(assemble, tasks):
            writer.add(spec, records)
    facts = table_facts(plan.decisions, gaps, fills)
    if target is None:
        labels = merge_labels(pieces, plan.targets)
        spec = target_spec(n, labels.targets)
        writer.add(spec, run(_write_target, [(location, spec, i, index, labels) for i in range(spec.n_chunks)]))
        close_dense(writer, (n, p), labels, merge_orders(pieces, labels), plan, facts)
    else:
        y, labels = target
        writer.write(target_spec(n, labels.targets), y)
        close_dense(writer, (n, p), labels, LabelOrder.of(y), plan, facts)


def _fill_table(
    plan: DensePlan, names: Sequence[str], gaps: Mapping[str, int], parts: Sequence[_SegmentCells], run: RunTasks
) -> tuple[Fills, StagedTable]:
    """Compute what fills the gaps of the columns, and return it by name and by column number."""
    if plan.given is None:
        wanted = columns_to_fill(plan.missing, names, gaps)
        values = dict(zip(wanted, fill_values(plan.missing, wanted, parts, run, parts[0].dtype), strict=True))
    else:
        check_given(plan.given, gaps, names)
        values = {column: plan.given.values[name] for column, name in enumerate(names) if name in plan.given.values}
    has_gaps = [column for column, name in enumerate(names) if gaps.get(name)]
    marked = has_gaps if plan.missing == "indicator" else []
    if plan.given is not None:
        marked = list(plan.given.indicators.values())
    fills = Fills(
        plan.missing,
        {names[column]: value for column, value in values.items()},
        {indicator_name(names[column]): column for column in marked},
    )
    if plan.missing == "zero":
        values = dict.fromkeys(has_gaps, 0.0)
    filled = {column: values[column] for column in has_gaps if column in values}
    return fills, StagedTable([part.segment for part in parts], len(names), filled, marked)


def close_dense(
    writer: DatasetWriter,
    shape: tuple[int, int],
    labels: Labels,
    order: LabelOrder,
    plan: DensePlan,
    facts: Mapping[str, Any],
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
        **facts,
        "made": plan.origin,
    }
    writer.close(attributes, plan.root)


def _segments(pieces: Sequence[DensePiece]) -> list[Segment]:
    segments, following = [], 0
    for piece in pieces:
        first = following if piece.first_row is None else piece.first_row
        for number, rows in enumerate(piece.segments):
            place = (first, rows, piece.first_column, piece.columns)
            segments.append(Segment(piece.folder, number, *place, tuple(piece.strings)))
            first += rows
        following = first
    return segments


def _write_index(location: Location, table: StagedTable) -> str:
    """Store the list of segments in a file that tasks read, and return the key of this file, a hash of its content."""
    content = json.dumps(asdict(table)).encode()
    key = _index_key(content)
    location.write(key, content)
    return key


def _index_key(content: bytes) -> str:
    return f"{UNFINISHED}/segments-{hashlib.sha256(content).hexdigest()[:16]}"


@lru_cache(maxsize=2)
def _read_index(location: Location, key: str) -> StagedTable:
    content = location.read(key)
    if _index_key(content) != key:
        raise DatasetError(f"{location.url}/{key}: was altered while it was in use; run the same command again")
    record = json.loads(content)
    segments = [Segment(**segment) for segment in record["segments"]]
    fills = {int(column): value for column, value in record["fills"].items()}
    return StagedTable(segments, record["columns"], fills, record["indicators"])


@dataclass(frozen=True, slots=True)
class _SegmentCells:
    """A segment whose columns are read one by one, to compute what fills their gaps; a `CellsPart`."""

    location: Location
    segment: Segment
    dtype: np.dtype[Any]
    by_column: bool

    def columns(self, ids: Sequence[int]) -> Iterator[tuple[NDArray[np.float64], int]]:
        segment, cells = self.segment, None
        for column in ids:
            at = column - segment.first_column
            if not 0 <= at < segment.columns:
                yield np.empty(0), 0
            elif self.by_column:
                yield self.column(column).astype(np.float64), 0
            else:
                if cells is None:
                    cells = _read_rows(self.location, segment, 0, segment.rows, self.dtype)
                yield cells[:, at].astype(np.float64), 0

    def column(self, column: int) -> NDArray[Any]:
        """Return one column of a segment that is staged column by column."""
        (cells,) = _read_columns(self.location, self.segment, column, column + 1, self.dtype)
        return np.asarray(cells)


def _read_columns(location: Location, segment: Segment, first: int, last: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the columns `first` … `last` - 1 of a segment that holds them, as an array (columns, rows)."""
    column_bytes = segment.rows * dtype.itemsize
    first, last = first - segment.first_column, last - segment.first_column
    raw = location.read(segment.key("columns"), first * column_bytes, last * column_bytes)
    return np.frombuffer(raw, dtype).reshape(-1, segment.rows)


def _read_rows(location: Location, segment: Segment, first: int, last: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the rows `first` … `last` - 1 of a segment, counted from its own first row."""
    row_bytes = segment.columns * dtype.itemsize
    raw = location.read(segment.key("rows"), first * row_bytes, last * row_bytes)
    return np.frombuffer(raw, dtype).reshape(-1, segment.columns)


def _write_columns(location: Location, spec: ArraySpec, number: int, group: int, index: str) -> ChunkRecords:
    """Write up to `group` chunks of columns, starting with chunk `number`."""
    n, width = spec.chunks
    first, table = number * width, _read_index(location, index)
    last = min(first + group * width, spec.shape[1])
    columns = np.empty((last - first, n), spec.dtype)
    for segment in table.segments:
        a, b = max(first, segment.first_column), min(last, segment.first_column + segment.columns)
        rows = slice(segment.first, segment.first + segment.rows)
        if a < b:
            columns[a - first : b - first, rows] = _read_columns(location, segment, a, b, spec.dtype)
        for column in range(max(first, table.columns), last):
            marked = table.indicators[column - table.columns]
            if segment.first_column <= marked < segment.first_column + segment.columns:
                cells = _read_columns(location, segment, marked, marked + 1, spec.dtype)[0]
                columns[column - first, rows] = np.isnan(cells)
    for column in range(first, min(last, table.columns)):
        if column in table.fills:
            _fill(columns[column - first], table.fills[column])
    return [
        write_chunk(location, spec, number + i, columns[i * width : (i + 1) * width].T)
        for i in range(-(-(last - first) // width))
    ]


def _fill(cells: NDArray[Any], value: float) -> None:
    cells[np.isnan(cells)] = value


def _write_rows(location: Location, spec: ArraySpec, number: int, group: int, index: str) -> ChunkRecords:
    """Write up to `group` chunks of rows, starting with chunk `number`."""
    records, table = [], _read_index(location, index)
    for chunk in range(number, min(number + group, spec.n_chunks)):
        start, stop = chunk * spec.chunks[0], min((chunk + 1) * spec.chunks[0], spec.shape[0])
        cells = np.empty((stop - start, spec.shape[1]), spec.dtype)
        for segment, a, b in _overlaps(table, start, stop):
            place = slice(segment.first + a - start, segment.first + b - start)
            columns = slice(segment.first_column, segment.first_column + segment.columns)
            cells[place, columns] = _read_rows(location, segment, a, b, spec.dtype)
        for number_of_indicator, column in enumerate(table.indicators, table.columns):
            cells[:, number_of_indicator] = np.isnan(cells[:, column])
        for column, value in table.fills.items():
            _fill(cells[:, column], value)
        records.append(write_chunk(location, spec, chunk, cells))
    return records


def _write_target(location: Location, spec: ArraySpec, number: int, index: str, labels: Labels) -> tuple[int, int, int]:
    targets, start, row_bytes = [], number * spec.chunks[0], 8 * math.prod(spec.shape[1:])
    for segment, a, b in _overlaps(_read_index(location, index), start, min(start + spec.chunks[0], spec.shape[0])):
        raw = location.read(segment.key("y"), a * row_bytes, b * row_bytes)
        y = np.frombuffer(raw, np.float64).reshape(-1, *spec.shape[1:])
        targets.append(recode_labels(y, segment.strings, labels) if labels.strings else y)
    return write_chunk(location, spec, number, np.concatenate(targets))


def _overlaps(table: StagedTable, start: int, stop: int) -> Iterator[tuple[Segment, int, int]]:
    """Yield the segments with some of the rows `start` … `stop` - 1, and the range of these rows in the segment."""
    for segment in table.segments:
        a, b = max(start - segment.first, 0), min(stop - segment.first, segment.rows)
        if a < b:
            yield segment, a, b
