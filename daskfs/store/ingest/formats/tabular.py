"""The options that table formats (CSV, TSV, Parquet) share, and the choice of default options from the first rows.

A column of numbers, dates, times or booleans is one feature with the column's name. In a sparse table, a categorical
column has a feature ``column=text`` with value 1 for each distinct text, and ``column=(missing)`` for a gap. Zeros are
not stored in a sparse table. A dense table has a number in every cell and is stored as a matrix.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from daskfs.errors import OptionError, SourceError, check_choice, nearest_or_some, some_names
from daskfs.protocol import Kind
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.ingest.formats.base import RESOLVED, Format, LabelKind, NamesFrom
from daskfs.store.ingest.formats.dates import (
    FIRST_DAY,
    NAMED_MONTHS,
    ORDERS,
    first_day_of,
    may_name_months,
    order_of,
    parse_dates,
    with_first_day,
)
from daskfs.store.ingest.formats.identifiers import is_number_of_rows, names_rows
from daskfs.store.ingest.gaps import Fills, Missing, gap_number
from daskfs.store.ingest.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_BYTES = 1 << 20  # of the first source, by which every "auto" is decided
NUMERIC, BOOLEAN, DATE, TIME, CATEGORICAL = "numeric", "boolean", "date", "time", "categorical"
LABEL, IDENTIFIER, IGNORED = "label", "identifier", "ignored"
DATE_PARTS = {
    "year": "year",
    "month": "month",
    "day": "day",
    "weekday": "day_of_week",  # 0 is Monday
    "hour": "hour",
    "minute": "minute",
}
"""Parts of a date that can be features of their own, with the function of pyarrow.compute that computes each part."""
_DAY = 86_400  # seconds
_NO_FEATURE = {LABEL: "the label", IDENTIFIER: "left out as an identifier", IGNORED: "left out"}
_EPOCH = datetime.fromtimestamp(0, UTC).date()
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_NUMERIC_SHARE, _MANY_NUMBERS = 0.9, 20  # of texts and of distinct texts, from which a column seems to hold numbers
_WITH_COMMA = r"^\s*[-+]?\d+(,\d+)?\s*$"
_THREE_DIGITS = r",\d{3}\s*$"
_AMOUNT = (  # 12 %, $1,234.50, 1.234,50 €
    r"^\s*[-+]?\s*[$€£¥]?\s*[-+]?(\d+([.,]\d+)?|\d{1,3}([,.'’\x{a0}\x{202f}]\d{3})+([.,]\d+)?)\s*[%‰$€£¥]?\s*$"
)


class NumberColumn(NamedTuple):
    """A feature that is a number in every row: a column of the source, or a part of a date."""

    name: str
    source: str
    kind: str
    date_format: str = ""
    part: str = ""


@dataclass(frozen=True, kw_only=True)
class TableOptions(Format):
    """Options of every table format (CSV, TSV, Parquet).

    Parameters
    ----------
    label
        The column that holds the target. A label column must be given. Several columns, as a list or between commas,
        are several targets, which must be numbers.
    categorical, numeric, dates
        Columns to be read as texts, as numbers, or as dates, whatever the first rows hold. The kinds of all other
        columns are chosen from the first rows.
    ignore
        Columns that are no features.
    include
        Columns that are features even if they look like identifiers. A column of texts that few rows share, or of
        distinct whole numbers that count the rows, in any order, or are called id or number, is an identifier and left
        out; see `identifiers`.
    missing
        What becomes of a missing number, date, time or boolean (see `daskfs.ingest`). A missing text is a text of its
        own, ``column=(missing)``, except with ``"zero"``.
    date_format
        The format of dates that are texts, such as ``"%d/%m/%Y"``, for the columns `dates` and all others whose first
        rows have it. By default ISO 8601 (2024-12-31 23:59:59), or the order of day, month and year in the first rows.
    date_parts
        Parts of dates that are features of their own, ``column:part``: year, month, day, weekday (Monday is 0), hour,
        minute.
    labels
        ``"numbers"``, ``"strings"`` (each distinct text is a class) or ``"auto"``, chosen from the first rows.
    table
        ``"dense"``, ``"sparse"`` or ``"auto"``, which is dense if the first rows have no categorical column.
    dtype
        The type of numbers in a dense table. ``"auto"`` is float32 for text files without times of day, and for Parquet
        if float32 holds every column exactly. A sparse table always holds float32.
    columns
        The names of all columns in order, the label among them, by default the column names of the first file.
    iso_dates, booleans, times, identifiers
        Columns of these kinds among those whose kind was not given, filled in by `resolve`.
    date_formats, unsure_dates
        The format of each column of dates in another form than ISO 8601, with the first day if float32 would not tell
        seconds since 2000 apart, and the columns whose first rows do not tell day and month apart, filled in by
        `resolve`.
    gap_numbers
        The columns with a number that seems to stand for gaps, such as -999, and the number, filled in by `resolve`.
    """

    label: str | tuple[str, ...] = ""
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    missing: Missing = "auto"
    date_format: str = ""
    date_parts: tuple[str, ...] = ()
    labels: LabelKind = "auto"
    table: Literal["auto", "dense", "sparse"] = "auto"
    dtype: Literal["auto", "float32", "float64"] = "auto"
    columns: tuple[str, ...] = ()
    iso_dates: tuple[str, ...] = field(default=(), metadata=RESOLVED)
    booleans: tuple[str, ...] = field(default=(), metadata=RESOLVED)
    times: tuple[str, ...] = field(default=(), metadata=RESOLVED)
    identifiers: tuple[str, ...] = field(default=(), metadata=RESOLVED)
    date_formats: tuple[tuple[str, str], ...] = field(default=(), metadata=RESOLVED)
    unsure_dates: tuple[str, ...] = field(default=(), metadata=RESOLVED)
    gap_numbers: tuple[tuple[str, float], ...] = field(default=(), metadata=RESOLVED)

    is_table: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_choice("missing", self.missing, Missing)
        for part in self.date_parts:
            if part not in DATE_PARTS:
                raise OptionError(f"--date-parts {part}: must be one of {', '.join(DATE_PARTS)}")

    @property
    def label_columns(self) -> tuple[str, ...]:
        """The names of the columns that hold a target, one or several."""
        return (self.label,) if isinstance(self.label, str) else self.label

    @property
    def targets(self) -> tuple[str, ...] | None:
        return None if isinstance(self.label, str) else self.label

    def with_label_columns(self, columns: Sequence[str]) -> Self:
        """Return the options with `label` split at its commas, unless a column has this name."""
        label = self.label
        if isinstance(label, str) and label not in columns and "," in label:
            label = tuple(name for name in label.split(",") if name)
        if not isinstance(label, str) and len(label) < 2:
            label = "".join(label)
        return replace(self, label=label)

    @property
    def kind(self) -> Kind:
        return "dense" if self.table == "dense" else "sparse"

    @property
    def names_from(self) -> NamesFrom:
        return {"from": "columns" if self.kind == "dense" else "table"}

    def column_names(self) -> list[str]:
        return [column.name for column in self.number_columns]

    @cached_property
    def number_columns(self) -> list[NumberColumn]:
        """The features that are numbers in order; the parts of a date follow the date."""
        features, formats = [], dict(self.date_formats)
        for name in self.numeric:
            date_format = formats.get(name, "")
            features.append(NumberColumn(name, name, self.kinds_of_columns[name], date_format))
            if features[-1].kind == DATE:
                features += [NumberColumn(f"{name}:{part}", name, DATE, date_format, part) for part in self.date_parts]
        return features

    @cached_property
    def kinds_of_columns(self) -> dict[str, str]:
        """The kind of every column by name, in the order of the source."""
        kinds = dict.fromkeys(self.columns, NUMERIC) | dict.fromkeys(self.label_columns, LABEL)
        for kind, names in (
            (CATEGORICAL, self.categorical),
            (BOOLEAN, self.booleans),
            (DATE, (*self.dates, *self.iso_dates)),
            (TIME, self.times),
            (IDENTIFIER, self.identifiers),
            (IGNORED, self.ignore),
        ):
            kinds |= dict.fromkeys(names, kind)
        return kinds

    def in_use(self) -> list[str]:
        """Return the names of the columns that are read, which are the labels and the features."""
        return [*self.label_columns, *self.numeric, *self.categorical]

    def left_out(self) -> set[str]:
        """Return the names of the columns that are not read."""
        return {*self.ignore, *self.identifiers}

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise OptionError if an option names a column that does not exist, or two options name the same column."""
        if twice := [name for name, count in Counter(columns).items() if count > 1]:
            raise OptionError(f"more than one column is called {some_names(twice)}: rename them")
        if not self.label:
            raise OptionError(f"which column is the label? Pass --label with one of {some_names(columns)}")
        if twice := [name for name, count in Counter(self.label_columns).items() if count > 1]:
            raise OptionError(f"--label {some_names(twice)}: is given twice; give every label once")
        known, purpose = set(columns), dict[str, str]()
        for option in ("label", "categorical", "numeric", "dates", "ignore", "include"):
            for name in self.label_columns if option == "label" else getattr(self, option):
                if name not in known:
                    raise OptionError(f"--{option} {name}: no such column{nearest_or_some(name, columns)}")
                if option == "include" and purpose.get(name) in ("categorical", "numeric", "dates"):
                    continue
                if purpose.setdefault(name, option) != option:
                    raise OptionError(f"column {name} cannot be --{purpose[name]} and --{option} at once")
        if known == {*self.label_columns, *self.ignore}:
            raise OptionError(f"no column is left to be a feature of {some_names(columns)}")

    def check_features(self, option: str, names: Iterable[str]) -> None:
        """Raise OptionError if an option names something that is no feature of the table, after `resolve`."""
        known = {*self.column_names(), *self.categorical}
        kinds = self.kinds_of_columns
        for name in names:
            if name in known or any(name.startswith(f"{column}=") for column in (*self.numeric, *self.categorical)):
                continue
            if name in kinds:
                remedy = f"; pass --include {name}" if kinds[name] == IDENTIFIER else ""
                raise OptionError(f"{option} {name}: is no feature but {_NO_FEATURE[kinds[name]]}{remedy}")
            raise OptionError(f"{option} {name}: no such column{nearest_or_some(name, known)}")

    def decide(
        self, columns: Sequence[str], sample: pa.Table | pa.RecordBatch, n_rows: float, is_text: bool = False
    ) -> Self:
        """Return the options with every "auto" replaced by a choice from the types and values in `sample`.

        The `sample` holds the first of about `n_rows` rows. Numbers in text files (`is_text`) have no type, and float32
        is precise enough for them.
        """
        kinds = self._declared_kinds(sample)
        features = [name for name in columns if name not in self.label_columns and name not in self.ignore]
        texts = {name for name in features if kinds[name] == CATEGORICAL and name not in self._declared}
        formats = dict(self.date_formats) | (dict.fromkeys(self.dates, self.date_format) if self.date_format else {})
        dates = self._find_dates(sample, texts.union(self.dates).difference(formats))
        formats |= {name: date_format for name, (date_format, _) in dates.items() if date_format}
        kinds |= dict.fromkeys(dates, DATE)
        for name in features:
            if name in texts and name not in dates:
                kinds[name] = _kind_of_undated_texts(sample[name], name, n_rows)
            _check_castable(sample[name], name, kinds[name])
            if name in self.dates:
                _check_dates(sample[name], name, formats.get(name, ""))
        for name in self.label_columns if self.labels == "auto" else ():
            _check_label(sample[name], name, kinds[name])
        identifiers = self._find_identifiers(sample, features, kinds, n_rows)
        features = [name for name in features if name not in identifiers]
        numeric = tuple(name for name in features if kinds[name] != CATEGORICAL)
        categorical = tuple(name for name in features if kinds[name] == CATEGORICAL)
        dense = self._is_dense(categorical)
        to_fit = [name for name in numeric if dense and not (is_text and kinds[name] == NUMERIC)]
        exact = all(_fits_float32(sample[name], kinds[name], formats.get(name, "")) for name in to_fit)
        dtype = _unless_auto(self.dtype, "float32" if exact else "float64")
        if dtype == "float32":
            known = {*self.iso_dates, *dict(self.date_formats)}  # of a dataset to be like
            dates_in_use = [name for name in numeric if kinds[name] == DATE and name not in known]
            formats |= _later_first_days(sample, {name: formats.get(name, "") for name in dates_in_use})
        return replace(
            self,
            columns=tuple(columns),
            numeric=numeric,
            categorical=categorical,
            dates=tuple(self.dates),
            iso_dates=tuple(name for name in numeric if kinds[name] == DATE and name not in self.dates),
            times=tuple(name for name in numeric if kinds[name] == TIME),
            booleans=tuple(name for name in numeric if kinds[name] == BOOLEAN),
            identifiers=tuple(identifiers),
            date_formats=tuple(formats.items()),
            unsure_dates=tuple(name for name, (_, is_unsure) in dates.items() if is_unsure),
            gap_numbers=tuple(_gap_numbers(sample, [name for name in numeric if kinds[name] == NUMERIC])),
            ignore=tuple(self.ignore),
            include=tuple(self.include),
            date_parts=tuple(self.date_parts),
            labels=self._label_kind(kinds),
            table="dense" if dense else "sparse",
            dtype=dtype,
        )

    @property
    def _declared(self) -> set[str]:
        """The columns of which the user gave the kind."""
        return {*self.numeric, *self.categorical, *self.dates}

    def _declared_kinds(self, sample: pa.Table | pa.RecordBatch) -> dict[str, str]:
        """Return the kind of every column that the options declare, or else the kind of the column's Arrow type."""
        kinds = {column.name: kind_of(column.type) for column in sample.schema}
        kinds |= dict.fromkeys(self.numeric, NUMERIC) | dict.fromkeys(self.categorical, CATEGORICAL)
        kinds |= dict.fromkeys((*self.dates, *self.iso_dates), DATE)
        return kinds | dict.fromkeys(self.booleans, BOOLEAN) | dict.fromkeys(self.times, TIME)

    def _find_identifiers(
        self, sample: pa.Table | pa.RecordBatch, features: Sequence[str], kinds: Mapping[str, str], n_rows: float
    ) -> list[str]:
        """Return the columns that only identify rows. Raise OptionError if no other column is left."""
        kept = {*self._declared, *self.include}
        identifiers = [
            name for name in features if name not in kept and _is_identifier(sample[name], name, kinds[name], n_rows)
        ]
        if len(identifiers) == len(features):
            raise OptionError(
                f"{some_names(identifiers)}: look like identifiers, and no other column is left to be a feature; "
                "pass --include with those to keep"
            )
        return identifiers

    def _is_dense(self, categorical: Sequence[str]) -> bool:
        """Return whether to store a dense table. Raise OptionError if other options contradict this."""
        dense = self.table == "dense" or (self.table == "auto" and not categorical)
        if dense and categorical:
            raise OptionError(f"no dense table with text ({some_names(categorical)}): pass --table sparse or --ignore")
        if not dense and self.dtype == "float64":
            raise OptionError("a sparse table holds float32: leave out --dtype float64, or pass --table dense")
        return dense

    def _find_dates(self, sample: pa.Table | pa.RecordBatch, names: Collection[str]) -> dict[str, tuple[str, bool]]:
        """Return the date format, and whether it is unsure, of each column in `names` whose texts are all dates."""
        formats = {
            name: _find_date_format(sample[name], self.date_format) for name in sample.schema.names if name in names
        }
        return {name: date_format for name, date_format in formats.items() if date_format is not None}

    def _label_kind(self, kinds: Mapping[str, str]) -> LabelKind:
        """Return the kind of the labels. Raise OptionError for several columns of labels, unless all hold numbers."""
        texts = [name for name in self.label_columns if kinds[name] not in (NUMERIC, BOOLEAN)]
        if self.targets is not None and (texts or self.labels == "strings"):
            why = f"{some_names(texts)} holds {kinds[texts[0]]} values" if texts else "--labels strings takes one label"
            raise OptionError(f"--label {some_names(self.targets)}: several labels must be numbers, and {why}")
        return "strings" if self.labels == "strings" or (self.labels == "auto" and texts) else "numbers"

    def like(self, dataset: Dataset) -> Self:
        columns = dataset.attributes.get("columns")
        if columns is None:
            raise OptionError(f"like: {dataset.url} was not ingested from a table")
        kinds = {row["column"]: row["kind"] for row in columns}

        def of(*wanted: str) -> tuple[str, ...]:
            return tuple(name for name, kind in kinds.items() if kind in wanted)

        dtype: Any = str(dataset.arrays["X"].dtype) if dataset.kind == "dense" else "auto"
        return replace(
            self,
            label=self.label or dataset.target_names or of(LABEL)[0],
            categorical=of(CATEGORICAL),
            numeric=of(NUMERIC, BOOLEAN, TIME),
            booleans=of(BOOLEAN),
            times=of(TIME),
            iso_dates=tuple(name for name in of(DATE) if name not in self.dates),
            date_formats=tuple((row["column"], row.get("format", "")) for row in columns if row["kind"] == DATE),
            ignore=of(IDENTIFIER, IGNORED),
            labels="strings" if dataset.attributes["labels"]["kind"] == "strings" else "numbers",
            missing=dataset.attributes.get("missing", {"how": "auto"})["how"],
            table=dataset.kind,
            dtype=dtype,
        )

    def decisions(self, gaps: Mapping[str, int], fills: Fills) -> list[dict[str, Any]]:
        """Return for every column its kind, its number of gaps, and the value that fills the gaps."""
        rows, formats, gap_numbers = [], dict(self.date_formats), dict(self.gap_numbers)
        for name, kind in self.kinds_of_columns.items():
            row: dict[str, Any] = {"column": name, "kind": kind}
            if formats.get(name):
                row["format"] = formats[name]
            if name in self.unsure_dates:
                row["unsure"] = True
            if name in gap_numbers:
                row["gap_number"] = gap_numbers[name]
            if gaps.get(name):
                row["gaps"] = gaps[name]
                if name in fills.values:
                    row["fill"] = fills.values[name]
            rows.append(row)
        return rows


def arrow(module: str = "pyarrow") -> Any:
    """Import and return pyarrow or a module of pyarrow. Raise OptionError if pyarrow is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise OptionError("reading tables needs pyarrow: pip install 'daskfs[tabular]'") from error


def kind_of(type: pa.DataType) -> str:
    """Return the kind of the columns of an Arrow type, or the name of a type that no feature can have."""
    types = arrow("pyarrow.types")
    if types.is_boolean(type):
        return BOOLEAN
    if types.is_integer(type) or types.is_floating(type) or types.is_decimal(type):
        return NUMERIC
    if types.is_null(type):  # only gaps so far; if text follows, the error says what to do
        return NUMERIC
    if types.is_date(type) or types.is_timestamp(type):
        return DATE
    if types.is_time(type) or types.is_duration(type):
        return TIME
    if _is_text(type) or types.is_dictionary(type):
        return CATEGORICAL
    return str(type)


def _is_text(type: pa.DataType) -> bool:
    types = arrow("pyarrow.types")
    return bool(types.is_string(type) or types.is_large_string(type) or types.is_string_view(type))


def as_numbers(column: pa.Array) -> pa.Array:
    """Return a column cast to float64. Raise ArrowInvalid if the column holds text that is no number."""
    column = _trimmed(column)
    return column.cast(arrow().float64(), safe=False)  # not safe: integers beyond 2^53 are rounded


def as_booleans(column: pa.Array) -> pa.Array:
    """Return a column of booleans, or of the texts true and false, as 0 and 1. Raise ArrowInvalid for other texts."""
    if kind_of(column.type) == CATEGORICAL:
        column = _trimmed(column).cast(arrow().bool_())
    return column.cast(arrow().float64())


def as_dates(column: pa.Array, date_format: str = "") -> pa.Array:
    """Return a column of dates, or of texts that are dates, as timestamps. Raise ArrowInvalid for other texts.

    A text with an offset from UTC becomes a time in UTC, a text without an offset stays as it is.
    """
    pa = arrow()
    if kind_of(column.type) == CATEGORICAL:
        column = _trimmed(column)
        if date_format in ORDERS:
            return parse_dates(column, date_format)
        if date_format:
            return arrow("pyarrow.compute").strptime(column, format=date_format, unit="us")
        try:
            return column.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:
            return column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    if arrow("pyarrow.types").is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit))
    return column.cast(pa.timestamp("us"), safe=False)


def as_seconds(column: pa.Array, kind: str, date_format: str = "", part: str = "") -> pa.Array:
    """Return dates as seconds since 2000-01-01 or as a part such as the weekday, times as seconds since midnight.

    A date format may end with another day than 2000-01-01 (see `dates`).
    """
    pa, compute, first_day = arrow(), arrow("pyarrow.compute"), FIRST_DAY
    if kind == TIME and kind_of(column.type) == CATEGORICAL:
        texts = _trimmed(column)
        if compute.all(compute.match_substring(texts, ":")).as_py() is False:  # None where all are gaps
            raise pa.ArrowInvalid("a time without a colon")
        dates = compute.binary_join_element_wise("2000-01-01", texts, " ").cast(pa.timestamp("us"))
    elif kind == TIME:
        unit = pa.duration("us") if arrow("pyarrow.types").is_duration(column.type) else pa.time64("us")
        dates, first_day = column.cast(unit, safe=False), _EPOCH
    else:
        date_format, first_day = first_day_of(date_format)
        dates = as_dates(column, date_format)
        if part:
            return getattr(compute, DATE_PARTS[part])(dates).cast(pa.float64())
    seconds = compute.divide(dates.cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)
    return compute.subtract(seconds, (first_day - _EPOCH).total_seconds())


def as_texts(column: pa.Array) -> pa.Array:
    """Return a column cast to strings. Raise ArrowInvalid if the column holds bytes that are not UTF-8."""
    return column.cast(arrow().string())


def _trimmed(column: pa.Array) -> pa.Array:
    if kind_of(column.type) == CATEGORICAL:
        return arrow("pyarrow.compute").utf8_trim_whitespace(column.cast(arrow().string()))
    return column


def _find_date_format(column: pa.Array, given: str) -> tuple[str, bool] | None:
    """Return the date format of a column and whether it is unsure, or None if not all texts are dates of one format.

    The format is `given`, "" for ISO 8601, one with named months, or an order of day, month and year. An order is
    unsure if day and month can be exchanged.
    """
    if kind_of(column.type) != CATEGORICAL or column.null_count == len(column):
        return None
    named = NAMED_MONTHS if may_name_months(_trimmed(column)) else ()
    for date_format in dict.fromkeys((given, "", *named)):
        try:
            as_dates(column, date_format)
        except arrow().ArrowInvalid:
            continue
        return date_format, False
    return order_of(_trimmed(column))


def _kind_of_undated_texts(column: pa.Array, name: str, n_rows: float) -> str:
    """Return the kind of a column of texts that are no dates, among the first of about `n_rows` rows.

    Raise OptionError for texts that look like numbers.
    """
    kind, otherwise = _kind_of_texts(column), f"--categorical or --ignore {name}"
    if kind == CATEGORICAL:
        is_code = _is_code(column, name, n_rows)
        _refuse_numbers(column, name, otherwise, "" if is_code else f"--numeric {name} to read them as numbers")
        _refuse_stray_texts(column, name)
    return kind


def _kind_of_texts(column: pa.Array) -> str:
    """Return BOOLEAN or TIME if all texts of a column are of this kind, and CATEGORICAL otherwise or without texts."""
    if column.null_count == len(column):
        return CATEGORICAL
    texts = arrow("pyarrow.compute").utf8_lower(column.drop_null().cast(arrow().string()))
    if set(texts.unique().to_pylist()[:3]) <= {"true", "false"}:
        return BOOLEAN
    try:
        as_seconds(column, TIME)
    except arrow().ArrowInvalid:
        return CATEGORICAL
    return TIME


def _refuse_numbers(column: pa.Array, name: str, otherwise: str, as_numbers: str = "") -> None:
    """Raise OptionError if all texts of a column are numbers, which would become categories.

    Numbers with decimal commas are always refused. Amounts, such as "12 %", "$5" or "1,234.50", and plain numbers, as
    Parquet may hold them, may be categories if few of them are distinct. Plain numbers are refused only if the option
    `as_numbers` reads them.
    """
    compute, texts = arrow("pyarrow.compute"), column.drop_null().cast(arrow().string())

    def are_all(values: pa.Array, pattern: str) -> bool:
        return bool(compute.all(compute.match_substring_regex(values, pattern)).as_py())  # None without values

    commas = texts.filter(compute.match_substring(texts, ","))
    are_many = len(texts.unique()) >= _MANY_NUMBERS
    if len(commas) and are_all(texts, _WITH_COMMA):
        what, example, remedy = "decimal commas", commas[0], "write them with points, or pass"
        if are_all(commas, _THREE_DIGITS):
            what, remedy = "commas", "write decimals with points, and thousands with nothing between them, or pass"
        what = f"numbers with {what}"
    elif are_many and are_all(texts, _NUMBER):
        what, example, remedy = "numbers as texts", texts[0], f"pass {as_numbers}, or"
        if not as_numbers:
            return
    elif are_many and are_all(texts, _AMOUNT):
        signed = texts.filter(compute.invert(compute.match_substring_regex(texts, _NUMBER)))
        what, example, remedy = "numbers with signs or separators", signed[0], "write plain numbers, or pass"
    else:
        return
    raise OptionError(f"column {name} holds {what}, such as {example.as_py()!r:.40}: {remedy} {otherwise}")


def _is_code(column: pa.Array, name: str, n_rows: float) -> bool:
    """Return whether all texts of a column are digits, and are identifiers or begin with zeros, as zip codes do."""
    compute, texts = arrow("pyarrow.compute"), column.drop_null().cast(arrow().string())
    if not compute.all(compute.match_substring_regex(texts, r"^\d+$")).as_py():  # None without texts
        return False
    has_zeros = compute.any(compute.match_substring_regex(texts, r"^0\d")).as_py()
    return has_zeros or _is_identifier(column, name, CATEGORICAL, n_rows)


def _refuse_stray_texts(column: pa.Array, name: str) -> None:
    """Raise OptionError if nearly all texts of a column are numbers, with too many distinct ones for categories."""
    compute, texts = arrow("pyarrow.compute"), column.drop_null().cast(arrow().string())
    are_numbers = compute.match_substring_regex(texts, _NUMBER)
    numbers, strays = texts.filter(are_numbers), texts.filter(compute.invert(are_numbers))
    if not len(strays) or len(numbers) < _NUMERIC_SHARE * len(texts) or len(numbers.unique()) < _MANY_NUMBERS:
        return
    raise OptionError(
        f"column {name} holds numbers but for {len(strays):,} of the first {len(texts):,} values, such "
        f"as {strays[0].as_py()!r:.40}: leave these cells empty, or pass --categorical or --ignore {name}"
    )


def _check_label(column: pa.Array, name: str, kind: str) -> None:
    """Raise OptionError if a column of labels holds dates, times, or numbers with decimal commas."""
    if kind == CATEGORICAL:
        _refuse_numbers(column, name, "--labels strings", "--labels numbers to read them as numbers")
    if kind in (DATE, TIME) or _find_date_format(column, "") is not None:
        numbers = "make them numbers, such as days"
        raise OptionError(f"--label {name}: holds dates or times: {numbers}, or pass --labels strings")


def _check_dates(column: pa.Array, name: str, date_format: str) -> None:
    """Raise OptionError if a column that the user says holds dates has a text that is not a date in the format."""
    try:
        as_seconds(column, DATE, date_format)
    except arrow().ArrowInvalid as error:
        example = next(text for text in column.drop_null().unique().to_pylist() if not _is_date(text, date_format))
        expected = f"written as {date_format}" if date_format else "a date whose form is known"
        raise OptionError(
            f"--dates {name}: {example!r:.40} is not {expected}: pass --date-format, such as '%d/%m/%y', or write all "
            f"dates as 2024-12-31, or leave out --dates {name}"
        ) from error


def _is_date(text: str, date_format: str) -> bool:
    try:
        as_seconds(arrow().array([text]), DATE, date_format)
    except arrow().ArrowInvalid:
        return False
    return True


def _is_identifier(column: pa.Array, name: str, kind: str, n_rows: float) -> bool:
    """Return whether a column only identifies rows, judging by the first of about `n_rows` rows."""
    values = column.drop_null()
    if kind == CATEGORICAL and len(values):
        texts = as_texts(values)
        texts = texts.combine_chunks() if hasattr(texts, "chunks") else texts
        codes = texts.dictionary_encode().indices.to_numpy()
        return names_rows(codes, name, n_rows * len(values) / len(column))
    return kind == NUMERIC and is_number_of_rows(as_numbers(values).to_numpy(), name)


def check_same_columns(source: Source, columns: Sequence[str], expected: Sequence[str]) -> None:
    """Raise SourceError if the columns of a file differ from the columns of the first file."""
    for number, (name, wanted) in enumerate(zip_longest(columns, expected), start=1):
        if name != wanted:
            here, first = ("missing" if column is None else repr(column) for column in (name, wanted))
            raise SourceError(f"{source.url}: column {number} is {here}, but {first} in the first file")


def _check_castable(column: pa.Array, name: str, kind: str) -> None:
    """Raise OptionError if the type of a column cannot be converted to its kind."""
    empty = column.slice(0, 0)
    try:
        if kind == CATEGORICAL:
            as_texts(empty)
        elif kind in (DATE, TIME):
            as_seconds(empty, kind)
        elif kind == BOOLEAN:
            as_booleans(empty)
        elif kind == NUMERIC:
            as_numbers(empty)
        else:
            raise OptionError(f"column {name} holds {kind}, no feature: pass --categorical or --ignore {name}")
    except arrow().ArrowNotImplementedError as error:
        raise OptionError(f"column {name} holds {column.type}, it cannot be {kind}: pass --ignore {name}") from error


def _fits_float32(column: pa.Array, kind: str, date_format: str) -> bool:
    """Return whether float32 holds a column exactly: every number of its type, or its dates if they are whole days."""
    types, type = arrow("pyarrow.types"), column.type
    if kind == BOOLEAN:
        return True
    if kind == TIME:
        return _is_text(type)
    if kind == DATE:
        return bool((as_seconds(column.drop_null(), kind, date_format).to_numpy() % _DAY == 0).all())
    if types.is_integer(type):
        return bool(type.bit_width <= 16)
    return bool(types.is_float16(type) or types.is_float32(type))


def _later_first_days(sample: pa.Table | pa.RecordBatch, formats: Mapping[str, str]) -> dict[str, str]:
    """Return formats that count seconds from the day of the earliest date, for columns of dates with times of day."""
    later = {}
    for name, date_format in formats.items():
        if not _fits_float32(sample[name], DATE, date_format):
            first = arrow("pyarrow.compute").min(as_seconds(sample[name], DATE, date_format)).as_py()
            later[name] = with_first_day(date_format, FIRST_DAY + timedelta(days=first // _DAY))
    return later


def _gap_numbers(sample: pa.Table | pa.RecordBatch, names: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Yield the columns of numbers in which a number of nines is in several rows and far from all others, and it."""
    for name in names:
        if kind_of(sample[name].type) == NUMERIC:
            numbers, counts = np.unique(as_numbers(sample[name].drop_null()).to_numpy(), return_counts=True)
            if (number := gap_number(numbers, counts)) is not None:
                yield name, number


def _unless_auto(option: Any, choice: str) -> Any:
    return choice if option == "auto" else option
