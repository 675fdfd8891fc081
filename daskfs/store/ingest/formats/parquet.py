"""The Parquet format: a table with typed columns and row groups that can be read independently of each other.

A part of a Parquet file is a range of row groups, with ``SourcePart.start`` and ``SourcePart.stop`` in row groups.
Columns of strings and dictionaries are categorical unless all texts of the first rows are dates, times or booleans;
columns of other types are numbers. Nulls and NaN are missing values. Folders called ``name=value``, as other programs
write partitions of a table, make a column ``name``, of numbers if all of the values are numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self
from urllib.parse import unquote

from daskfs.errors import DaskfsError, SourceError
from daskfs.store.ingest.formats.base import RESOLVED
from daskfs.store.ingest.formats.tabular import CATEGORICAL, NUMERIC, SAMPLE_BYTES, arrow, check_same_columns, kind_of
from daskfs.store.ingest.formats.tabular_rows import TableFormat, TableRows
from daskfs.store.ingest.rows import BadLines
from daskfs.store.ingest.sources import Source, SourcePart, total_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

DECODED_CELL = 8  # bytes of a number in memory
_MOST_RATIO = 1000  # of the unpacked to the packed size of a large column


@dataclass(frozen=True, kw_only=True)
class Parquet(TableFormat):
    """Options of the Parquet format, in addition to the options of every table format.

    Parameters
    ----------
    kinds
        The kind of the type of each of `columns`, filled in by `resolve` and the same in every file.
    partitions
        Names of columns that folders called ``name=value`` make, and whether they are "numeric" or "categorical",
        filled in by `resolve`.
    """

    kinds: tuple[str, ...] = field(default=(), metadata=RESOLVED)
    partitions: tuple[tuple[str, str], ...] = field(default=(), metadata=RESOLVED)

    name: ClassVar[str] = "parquet"

    def resolve(self, sources: Sequence[Source]) -> Self:
        options = replace(self, partitions=self._find_partitions(sources))
        with open_parquet(sources[0]) as file:
            schema = options._with_partitions(file.schema_arrow)
            if self.columns:
                check_same_columns(sources[0], schema.names, self.columns)
            options = options.with_label_columns(schema.names)
            options.check_columns(schema.names)
            used = [name for name in schema.names if name not in self.ignore]
            read = partial(options._batches, file, sources[0], columns=used, window_bytes=SAMPLE_BYTES)
            batches = (batch for group in range(file.num_row_groups) for batch in read(group))
            sample = _first_rows(batches, schema.empty_table().select(used))
            n_rows = file.metadata.num_rows * total_bytes(sources) / max(sources[0].size, 1)
        return replace(options.decide(schema.names, sample, n_rows), kinds=_kinds(schema))

    def _find_partitions(self, sources: Sequence[Source]) -> tuple[tuple[str, str], ...]:
        """Return the columns in the names of folders, such as ``day=3``, as pairs of name and kind.

        A column with the same value in all sources is left out, unless it is one of `columns`.
        """
        values = [_partition_values(source) for source in sources]
        distinct = {name: {each.get(name, "") for each in values} for name in values[0]}
        wanted = {name: texts for name, texts in distinct.items() if len(texts) > 1 or name in self.columns}
        is_number = {name: all(map(_is_number, texts)) for name, texts in wanted.items()}
        return tuple((name, NUMERIC if is_number[name] else CATEGORICAL) for name in wanted)

    def _with_partitions(self, schema: pa.Schema) -> pa.Schema:
        for name, kind in self.partitions:
            schema = schema.append(arrow().field(name, arrow().float64() if kind == NUMERIC else arrow().string()))
        return schema

    def _batches(
        self, file: pq.ParquetFile, source: Source, group: int, columns: Sequence[str], window_bytes: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows of a row group in batches of about `window_bytes` bytes."""
        partitions, values = dict(self.partitions), _partition_values(source)
        about = file.metadata.row_group(group)
        row_bytes = max(about.total_byte_size // max(about.num_rows, 1), DECODED_CELL * len(columns))
        rows = max(window_bytes // row_bytes, 1)
        stored = [name for name in columns if name not in partitions]
        for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=stored, use_threads=False):
            for name in partitions:
                if name in columns:
                    value = float(values[name]) if partitions[name] == NUMERIC else values.get(name, "")
                    batch = batch.append_column(name, arrow().array([value] * len(batch)))
            yield batch.select(list(columns))

    def parts(self, source: Source, part_bytes: int) -> Iterator[SourcePart]:
        """Yield ranges of row groups of up to `part_bytes` bytes, with at least one row group in each range."""
        with open_parquet(source) as file:
            self._check_schema(source, self._with_partitions(file.schema_arrow))
            sizes = [file.metadata.row_group(group).total_byte_size for group in range(file.num_row_groups)]
        start, size = 0, 0
        for group, more in enumerate(sizes):
            if size and size + more > part_bytes:
                yield SourcePart(source, start, group, size)
                start, size = group, 0
            size += more
        if start < len(sizes):
            yield SourcePart(source, start, len(sizes), size)

    def slices(self, part: SourcePart, window_bytes: int) -> Iterator[TableRows]:
        with open_parquet(part.source) as file:
            counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            groups = range(part.start, len(counts) if part.stop is None else part.stop)
            row = 1 + sum(counts[: part.start])
            for group in groups:
                for batch in self._batches(file, part.source, group, self.in_use(), window_bytes):
                    yield _RowGroupSlice(batch, row, part.source)
                    row += len(batch)

    def _check_schema(self, source: Source, schema: pa.Schema) -> None:
        check_same_columns(source, schema.names, self.columns)
        for name, kind, wanted in zip(schema.names, _kinds(schema), self.kinds, strict=True):
            if kind != wanted and name not in self.left_out():
                raise SourceError(f"{source.url}: column {name} is {kind}, but {wanted} in the first file")


@dataclass(frozen=True, slots=True, eq=False)
class _RowGroupSlice:
    """Rows of a Parquet row group that implement the protocol `TableRows`."""

    rows: pa.RecordBatch
    first: int  # number of the first row in its file, from 1
    source: Source

    @property
    def n_rows(self) -> int:
        return len(self.rows)

    def batch(self) -> pa.RecordBatch:
        return self.rows

    def halves(self) -> tuple[_RowGroupSlice, _RowGroupSlice]:
        cut = self.n_rows // 2
        return (
            _RowGroupSlice(self.rows.slice(0, cut), self.first, self.source),
            _RowGroupSlice(self.rows.slice(cut), self.first + cut, self.source),
        )

    def report(self, bad_lines: BadLines, reason: str) -> None:
        bad_lines.report(self.source, self.first, reason, unit="row")


@contextmanager
def open_parquet(source: Source) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file without prefetching, and turn the errors of reading it into SourceError."""
    with source.open() as raw:
        try:
            file = arrow("pyarrow.parquet").ParquetFile(raw, pre_buffer=False)
            _check_ratio(source, file.metadata)
            yield file
        except DaskfsError:
            raise
        except (arrow().ArrowException, OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise SourceError(f"{source.url}: damaged, or no Parquet file ({reason:.300})") from error


def _check_ratio(source: Source, about: pq.FileMetaData) -> None:
    """Raise SourceError if a column of a row group may unpack to a page that is beyond the limit for a line."""
    for group in map(about.row_group, range(about.num_row_groups)):
        if group.total_byte_size <= source.limits.line_bytes:
            continue
        for column in map(group.column, range(group.num_columns)):
            unpacked, packed = column.total_uncompressed_size, column.total_compressed_size
            if unpacked > max(source.limits.line_bytes, _MOST_RATIO * packed):
                raise SourceError(
                    f"{source.url}: column {column.path_in_schema:.80} unpacks from {packed:,} to {unpacked:,} bytes, "
                    f"beyond {source.limits.line_bytes >> 20} MB; more --memory allows more"
                )


def _partition_values(source: Source) -> dict[str, str]:
    """Return the values of the folders called ``name=value`` in which a file lies, by name."""
    pairs = (unquote(folder).split("=", 1) for folder in source.url.split("/")[:-1] if "=" in folder)
    return {name: value for name, value in pairs if name}


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _first_rows(batches: Iterator[pa.RecordBatch], empty: pa.Table) -> pa.Table:
    """Return batches of about `SAMPLE_BYTES` bytes together as one table, however small the row groups are."""
    sample: list[pa.RecordBatch] = []
    while sum(batch.nbytes for batch in sample) < SAMPLE_BYTES and (batch := next(batches, None)) is not None:
        sample.append(batch)
    return arrow().Table.from_batches(sample) if sample else empty


def _kinds(schema: pa.Schema) -> tuple[str, ...]:
    return tuple(kind_of(column.type) for column in schema)
