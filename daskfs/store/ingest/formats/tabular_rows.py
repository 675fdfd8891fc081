"""Conversion of Arrow batches to rows, with checks of all cells and a search for bad rows.

Rows are converted and checked in batches, which is fast but does not identify a bad row. A batch with a bad row is
halved recursively until the bad row is alone and is reported. The good rows of a batch are added in the order of the
source.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from daskfs.jit import read_only
from daskfs.store.dataset.hashing_kernels import id_of_name
from daskfs.store.ingest.formats import tabular_kernels as kernels
from daskfs.store.ingest.formats.tabular import (
    BOOLEAN,
    DATE,
    LABEL,
    TIME,
    NumberColumn,
    TableOptions,
    arrow,
    as_booleans,
    as_numbers,
    as_seconds,
    as_texts,
)
from daskfs.store.ingest.gaps import GAP, MISSING, indicator_name
from daskfs.store.ingest.rows import BadLines, DenseBuilder, LabelCodes, RowBuilder
from daskfs.store.ingest.rows_kernels import NAMES_FULL
from daskfs.store.ingest.sources import SourcePart

if TYPE_CHECKING:
    import pyarrow as pa

C = TypeVar("C")

_NO_LABEL = (
    "the label is missing; ingest --on-bad-line skip, or select --set ingest.on_bad_line=skip, leaves the line out"
)


class BadTableRow(Exception):
    """Raised for a batch of table rows with a bad row, whose error text is reported once the bad row is alone."""


class TableRows(Protocol):
    """The protocol of a slice of table rows of a source before conversion."""

    @property
    def n_rows(self) -> int:
        """The number of table rows in the slice."""

    def batch(self) -> pa.RecordBatch:
        """Return the columns in use as an Arrow batch. Raise BadTableRow if a row cannot be parsed."""

    def halves(self) -> tuple[TableRows, TableRows]:
        """Return the two halves of the slice, which has at least two rows."""

    def report(self, bad_lines: BadLines, reason: str) -> None:
        """Report the only row of the slice as bad."""


class Receiver(Protocol[C]):
    """The protocol of an object that converts, checks and adds table rows."""

    def convert(self, batch: pa.RecordBatch) -> C:
        """Return the converted rows of a batch, to be passed to `add`. Raise BadTableRow if the batch has a bad row."""

    def add(self, cells: C) -> None:
        """Add converted table rows to the dataset being written."""

    def report(self, rows: TableRows, reason: str) -> None:
        """Report the only row of the slice `rows` as bad."""


def deliver(rows: TableRows, receiver: Receiver[C]) -> None:
    """Add the good rows of a slice to a receiver, and report the bad rows to this receiver."""
    if rows.n_rows == 0:
        return
    try:
        cells = receiver.convert(rows.batch())
    except BadTableRow as error:
        if rows.n_rows == 1:
            receiver.report(rows, str(error))
        else:
            for half in rows.halves():
                deliver(half, receiver)
    else:
        receiver.add(cells)


@dataclass(frozen=True, kw_only=True)
class TableFormat(TableOptions):
    """A table format that reads rows, with a method `slices` that each subclass implements for its file format."""

    def read(self, part: SourcePart, rows: RowBuilder, window_bytes: int) -> None:
        receiver = _SparseReceiver(self, rows)
        for some in self.slices(part, window_bytes):
            deliver(some, receiver)

    def read_dense(self, part: SourcePart, rows: DenseBuilder, window_bytes: int) -> None:
        receiver = _DenseReceiver(self, rows)
        for some in self.slices(part, window_bytes):
            deliver(some, receiver)

    @abstractmethod
    def slices(self, part: SourcePart, window_bytes: int) -> Iterator[TableRows]:
        """Yield the rows of a part of a source, in slices of about `window_bytes` bytes."""


class _Cells(NamedTuple):
    """The numbers, texts and labels of converted and checked table rows."""

    X: NDArray[Any]  # (rows, number columns); a gap is NaN
    texts: list[pa.StringArray]  # one per categorical column; a gap is ""
    labels: Any  # float64 numbers, (rows, targets) of several, or dictionary-encoded strings
    gaps: dict[str, int]  # by feature that is a number, and by categorical column
    dropped: int = 0  # rows left out because of a gap


class _DenseReceiver:
    """A receiver that adds table rows to a dense dataset."""

    def __init__(self, options: TableOptions, rows: DenseBuilder) -> None:
        self._options, self._rows = options, rows

    def convert(self, batch: pa.RecordBatch) -> _Cells:
        return _convert(batch, self._options)

    def add(self, cells: _Cells) -> None:
        self._rows.count_gaps(cells.gaps, cells.dropped)
        self._rows.append(cells.X, _targets(cells, self._options, self._rows))

    def report(self, rows: TableRows, reason: str) -> None:
        rows.report(self._rows.bad_lines, reason)


class _SparseReceiver:
    """A receiver that adds table rows to a sparse dataset, with a name for every feature."""

    def __init__(self, options: TableOptions, rows: RowBuilder) -> None:
        self._options, self._rows = options, rows
        names = options.column_names()
        if options.missing == "indicator":  # the second half marks gaps of the first
            names += [indicator_name(name) for name in names]
        self._ids = np.array([id_of_name(name) for name in names], np.uint64)
        self._names = [np.frombuffer(name.encode(), np.uint8) for name in names]
        self._prefixes = [np.frombuffer(f"{name}=".encode(), np.uint8) for name in options.categorical]
        self._gap = np.frombuffer(b"" if options.missing == "zero" else GAP.encode(), np.uint8)

    def convert(self, batch: pa.RecordBatch) -> _Cells:
        return _convert(batch, self._options)

    def add(self, cells: _Cells) -> None:
        self._rows.count_gaps(cells.gaps, cells.dropped)
        texts = [_text_buffers(column) for column in cells.texts]
        indptr = np.zeros(len(cells.X) + 1, np.int64)
        used = np.zeros(len(self._names), np.bool_)
        kernels.count_numbers(cells.X, indptr[1:], used)
        for text in texts:
            kernels.count_texts(text.offsets, len(self._gap) > 0, indptr[1:])
        np.cumsum(indptr, out=indptr)

        ids, values = np.empty(indptr[-1], np.uint64), np.empty(indptr[-1], np.float32)
        cursor = indptr[:-1].copy()
        self._name_columns(used)
        kernels.put_numbers(cells.X, self._ids, cursor, ids, values)
        for prefix, text in zip(self._prefixes, texts, strict=True):
            row, out = 0, (cursor, ids, values)
            while (row := kernels.put_texts(prefix, text, self._gap, row, *out, self._rows.names)) < len(cursor):
                self._rows.make_room(NAMES_FULL)
        self._rows.append(indptr, ids, values, _targets(cells, self._options, self._rows))

    def report(self, rows: TableRows, reason: str) -> None:
        rows.report(self._rows.bad_lines, reason)

    def _name_columns(self, used: NDArray[np.bool_]) -> None:
        """Add the names of the number columns that have an entry to the set of feature names."""
        for column in np.flatnonzero(used):
            while not kernels.add_name(self._names[column], self._rows.names):
                self._rows.make_room(NAMES_FULL)


def _convert(batch: pa.RecordBatch, options: TableOptions) -> _Cells:
    features, gaps = options.number_columns, dict[str, int]()
    X = np.empty((len(batch), len(features)), options.dtype)
    for i, column in enumerate(features):
        X[:, i], missing = _numbers(batch[column.source], column, X.dtype)
        if missing:
            gaps[column.name] = missing
    if gaps and options.missing == "error":
        name = next(iter(gaps))
        choices = ", ".join(choice for choice in MISSING if choice not in ("auto", "error"))
        raise BadTableRow(f"{name}: no value; choose one of --missing {choices}, or pass --ignore {name}")
    texts = [_texts(batch[name], name) for name in options.categorical]
    if gaps and options.missing == "zero":
        np.nan_to_num(X, copy=False, nan=0.0)
    labels = _labels(batch, options)
    complete = ~np.isnan(X).any(axis=1) if gaps and options.missing == "drop" else None
    gaps |= {name: batch[name].null_count for name in options.categorical if batch[name].null_count}
    if complete is None:
        return _Cells(X, texts, labels, gaps)
    kept = labels[complete] if isinstance(labels, np.ndarray) else labels.filter(complete)
    return _Cells(X[complete], [text.filter(complete) for text in texts], kept, gaps, int((~complete).sum()))


def _labels(batch: pa.RecordBatch, options: TableOptions) -> Any:
    if options.targets is not None:
        return np.stack([_label_numbers(batch, name, _TARGET) for name in options.targets], axis=1)
    (name,) = options.label_columns
    if options.labels != "strings":
        return _label_numbers(batch, name)
    labels = _texts(batch[name], name).dictionary_encode()
    if "" in labels.dictionary.to_pylist():
        raise BadTableRow(f"{name}: {_NO_LABEL}")
    return labels


def _label_numbers(batch: pa.RecordBatch, name: str, kind: str = LABEL) -> NDArray[np.float64]:
    labels, missing = _numbers(batch[name], NumberColumn(name, name, kind), np.dtype(np.float64))
    if missing:
        raise BadTableRow(f"{name}: {_NO_LABEL}")
    return labels


def _targets(cells: _Cells, options: TableOptions, rows: LabelCodes) -> NDArray[np.float64]:
    """Return the labels of a batch as float64 numbers, where a string label is replaced by its number."""
    if options.labels == "numbers":
        return np.array(cells.labels)  # a copy that can be written to, as every other y
    codes = np.array([rows.label_code(label.encode()) for label in cells.labels.dictionary.to_pylist()])
    y: NDArray[np.float64] = codes[cells.labels.indices.to_numpy()]
    return y


_TARGET = "target"  # one of several labels
_NOUNS = {BOOLEAN: "true or false", DATE: "a date", TIME: "a time"}
_REMEDIES = {LABEL: "pass --labels strings", _TARGET: "several labels must be numbers"}


def _numbers(column: pa.Array, feature: NumberColumn, dtype: np.dtype[Any]) -> tuple[NDArray[np.float64], int]:
    """Return a column as float64 with NaN for missing values, and how many are missing.

    Raise BadTableRow if a value is not of the kind of the column, or if a number is infinite in `dtype`.
    """
    name, kind = feature.source, feature.kind
    try:
        if kind in (DATE, TIME):
            numbers = as_seconds(column, kind, feature.date_format, feature.part)
        else:
            numbers = as_booleans(column) if kind == BOOLEAN else as_numbers(column)
    except arrow().ArrowInvalid as error:
        remedy = _REMEDIES.get(kind, f"pass --categorical {name}")
        noun = _NOUNS.get(kind, "a number")
        if feature.date_format:
            noun, remedy = f"a date as {feature.date_format}", f"{remedy}, or another --date-format"
        raise BadTableRow(f"{name}: {str(column[0])[:60]!r} is not {noun}; {remedy}") from error
    values: NDArray[np.float64] = numbers.fill_null(np.nan).to_numpy()
    at, missing = kernels.first_beyond(values, float(np.finfo(dtype).max))
    if at >= 0:
        raise BadTableRow(f"{name}: {values[at]} is infinite or too large for a {dtype}")
    return values, missing


def _texts(column: pa.Array, name: str) -> pa.StringArray:
    """Return a column as strings with "" for missing values."""
    try:
        return as_texts(column).fill_null("")
    except arrow().ArrowInvalid as error:
        raise BadTableRow(f"{name}: not UTF-8 text") from error


def _text_buffers(texts: pa.StringArray) -> kernels.Texts:
    _, offsets, data = texts.buffers()
    return kernels.Texts(
        read_only(np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]),
        read_only(np.frombuffer(data, np.uint8)),
    )
