"""The formats CSV and TSV: one row per line, fields between delimiters, column names in the first line or none.

Files are cut at line ends, so that many workers can read one file. A quoted field may hold delimiters and doubled
quotes, but a line break in a quoted field makes a bad line. Empty fields and the usual spellings of a missing value
(NA, NaN, null, … as in pyarrow) are missing values. Empty lines are ignored.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, SourceError
from daskfs.store.ingest.formats import tabular_kernels as kernels
from daskfs.store.ingest.formats.numbers_kernels import LF
from daskfs.store.ingest.formats.tabular import NUMERIC, SAMPLE_BYTES, arrow, as_numbers, check_same_columns
from daskfs.store.ingest.formats.tabular_rows import BadTableRow, TableFormat, TableRows, deliver
from daskfs.store.ingest.rows import BadLines
from daskfs.store.ingest.sources import Source, SourcePart, line_windows, total_bytes

if TYPE_CHECKING:
    import pyarrow as pa

FAULTS = {
    kernels.STRAY_CR: "a carriage return inside the line; lines end with a newline",
    kernels.OPEN_QUOTE: "a quote is not closed on its line (line breaks inside quotes cannot be read)",
}


@dataclass(frozen=True, kw_only=True)
class Delimited(TableFormat):
    """Options of the CSV format, in addition to the options of every table format.

    Parameters
    ----------
    delimiter
        The character between fields.
    header
        Whether the first line of every file names the columns. If not, the columns are called c0, c1, … or `columns`.
    """

    delimiter: str = ","
    header: bool = True

    name: ClassVar[str] = "csv"

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n':
            raise OptionError(f"--delimiter {self.delimiter!r}: it must be one ASCII character, no quote or line end")

    def resolve(self, sources: Sequence[Source]) -> Self:
        source = sources[0]
        window = next(line_windows(SourcePart(source, 0, SAMPLE_BYTES), SAMPLE_BYTES), None)
        if window is None:
            raise SourceError(f"{source.url}: the file is empty; put a file with rows first")
        fields, end = self._first_line(window.text, source)
        if self.header and self.columns:
            check_same_columns(source, fields, self.columns)
        columns = fields if self.header else list(self.columns) or [f"c{i}" for i in range(len(fields))]
        options = self.with_label_columns(columns)
        options.check_columns(columns)
        strings = {name: arrow().string() for name in columns if name not in self.ignore}
        parser = _Parser(self.delimiter, columns, strings)
        sample = _SampleReceiver()
        start = end if self.header else 0
        deliver(_CsvLines(window.text[start:], window.offset + start, source, parser), sample)
        table = sample.table(strings)
        n_rows = len(table) * total_bytes(sources) / max(len(window.text), 1)
        return options.decide(columns, table, max(n_rows, len(table)), is_text=True)

    def slices(self, part: SourcePart, window_bytes: int) -> Iterator[TableRows]:
        parser = _Parser(self.delimiter, self.columns, self._types())
        header_ahead = self.header and part.start == 0
        for window in line_windows(part, window_bytes):
            start = 0
            if header_ahead:
                fields, start = self._first_line(window.text, part.source)
                check_same_columns(part.source, fields, self.columns)
                header_ahead = False
            yield _CsvLines(window.text[start:], window.offset + start, part.source, parser)

    def _types(self) -> dict[str, pa.DataType]:
        """Return the Arrow type with which pyarrow reads each column in use."""
        pa = arrow()
        label = dict.fromkeys(self.label_columns, pa.string() if self.labels == "strings" else pa.float64())
        numbers = [name for name in self.numeric if self.kinds_of_columns[name] == NUMERIC]
        strings = dict.fromkeys([*self.numeric, *self.categorical], pa.string())
        return {**label, **strings, **dict.fromkeys(numbers, pa.float64())}

    def _first_line(self, text: NDArray[np.uint8], source: Source) -> tuple[list[str], int]:
        """Return the fields of the first line, and the position where the second line starts."""
        end = int(np.argmax(text == LF)) + 1
        if (count := int(np.count_nonzero(text[:end] == ord(self.delimiter))) + 1) > source.limits.columns:
            raise SourceError(
                f"{source.url}:1: {count:,} columns, and {source.limits.columns:,} is the most that fits into memory; "
                "allow more with --memory, or write a table this wide as svmlight or Parquet"
            )
        try:
            line = text[:end].tobytes().decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise SourceError(f"{source.url}:1: not UTF-8 text ({error.reason}); convert the file first") from error
        try:
            fields = next(csv.reader([line], delimiter=self.delimiter), [])
        except csv.Error as error:
            raise SourceError(f"{source.url}:1: {error}; is this a table?") from error
        if not fields:
            raise SourceError(f"{source.url}:1: the first line is empty; it should show the columns")
        return fields, end


@dataclass(frozen=True, kw_only=True)
class TabSeparated(Delimited):
    """Options of the TSV format, which is CSV with tabs as delimiters."""

    delimiter: str = "\t"

    name: ClassVar[str] = "tsv"


class _Parser:
    """The single-threaded CSV reader of pyarrow, configured for the columns of one dataset."""

    def __init__(self, delimiter: str, columns: Sequence[str], types: Mapping[str, pa.DataType]) -> None:
        self.delimiter = ord(delimiter)
        self._csv, self._columns = arrow("pyarrow.csv"), list(columns)
        self._parse = self._csv.ParseOptions(delimiter=delimiter, newlines_in_values=False)
        self._typed = self._conversion(types)
        self._strings = self._conversion(dict.fromkeys(types, arrow().string()))

    def typed(self, text: NDArray[np.uint8]) -> pa.RecordBatch:
        """Return the rows of a text with typed columns. Raise ArrowInvalid if a field or a line cannot be parsed."""
        return self._batch(text, self._parse, self._typed)

    def strings(self, line: NDArray[np.uint8]) -> pa.RecordBatch:
        """Return one line with every column as a string. Raise BadTableRow if the line cannot be parsed."""
        wrong_counts = []

        def note(row: Any) -> str:
            wrong_counts.append(row.actual_columns)
            return "error"

        try:
            line.tobytes().decode()
            parse = self._csv.ParseOptions(delimiter=chr(self.delimiter), invalid_row_handler=note)
        except UnicodeDecodeError:  # pyarrow would print a traceback in place of calling the handler
            parse = self._parse
        try:
            return self._batch(line, parse, self._strings)
        except arrow().ArrowInvalid as error:
            if wrong_counts:
                raise BadTableRow(f"{wrong_counts[0]} fields, but there are {len(self._columns)} columns") from error
            raise BadTableRow(f"not UTF-8 text ({error})") from error

    def _batch(self, text: NDArray[np.uint8], parse: Any, convert: Any) -> pa.RecordBatch:
        pa = arrow()
        # One block, so that the result is one batch.
        read = self._csv.ReadOptions(column_names=self._columns, use_threads=False, block_size=len(text) + 1)
        stream = pa.BufferReader(pa.py_buffer(text))
        table = self._csv.read_csv(stream, read_options=read, parse_options=parse, convert_options=convert)
        (batch,) = table.to_batches()
        return batch

    def _conversion(self, types: Mapping[str, pa.DataType]) -> Any:
        return self._csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=True)


class _CsvLines:
    """Whole lines of a CSV file that implement the protocol `TableRows`."""

    def __init__(self, text: NDArray[np.uint8], offset: int, source: Source, parser: _Parser) -> None:
        self._text, self._offset, self._source, self._parser = text, offset, source, parser
        self.n_rows, self._fault = kernels.count_lines(text, parser.delimiter)

    def batch(self) -> pa.RecordBatch:
        if self._fault:
            raise BadTableRow(FAULTS[self._fault])
        try:
            return self._parser.typed(self._text)
        except arrow().ArrowInvalid as error:
            if self.n_rows > 1:
                raise BadTableRow(str(error)) from error
            return self._parser.strings(self._text)  # casting these shows which field is wrong

    def halves(self) -> tuple[_CsvLines, _CsvLines]:
        ends = np.flatnonzero(self._text == LF)
        cut = int(ends[len(ends) // 2 - 1]) + 1
        return (
            _CsvLines(self._text[:cut], self._offset, self._source, self._parser),
            _CsvLines(self._text[cut:], self._offset + cut, self._source, self._parser),
        )

    def report(self, bad_lines: BadLines, reason: str) -> None:
        text = self._text.tobytes()
        empty_lines = len(text) - len(text.lstrip(b"\r\n"))
        bad_lines.report_at(self._source, self._offset + empty_lines, reason)


class _SampleReceiver:
    """A receiver of the first rows of a CSV file, from which column types are inferred, that ignores bad rows."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def report(self, rows: TableRows, reason: str) -> None:
        pass

    def table(self, types: Mapping[str, pa.DataType]) -> pa.Table:
        """Return the first rows as a table, in which columns with only numbers and missing values are numeric."""
        pa = arrow()
        table = pa.Table.from_batches(self._batches, schema=pa.schema(list(types.items())))
        return pa.table({name: _as_numbers_if_possible(table[name]) for name in types})


def _as_numbers_if_possible(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return as_numbers(column)
    except arrow().ArrowInvalid:
        return column
