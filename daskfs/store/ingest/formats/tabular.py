"""The options that table formats (CSV, TSV, Parquet) share, and the choice of default options from the first rows.

In a sparse table, a numeric column is one feature with the column's name, and a categorical column has a feature
``column=text`` with value 1 for each distinct text. Missing values and zeros are not stored in a sparse table. A dense
table has a number in every cell and is stored as a matrix.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, Self

from daskfs.errors import OptionError, SourceError
from daskfs.protocol import Kind
from daskfs.store.ingest.formats.base import Format, LabelKind, NamesFrom
from daskfs.store.ingest.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

SAMPLE_BYTES = 1 << 20  # of the first source, by which every "auto" is decided
NUMERIC, CATEGORICAL = "numeric", "categorical"


@dataclass(frozen=True, kw_only=True)
class TableOptions(Format):
    """Options of every table format (CSV, TSV, Parquet).

    Parameters
    ----------
    label
        The column that holds the target. A label column must be given.
    categorical, numeric
        Columns to be read as texts or as numbers, whatever the first rows hold. The kinds of all other columns are
        chosen from the first rows.
    ignore
        Columns that are no features.
    labels
        ``"numbers"``, ``"strings"`` (each distinct text is a class) or ``"auto"``, chosen from the first rows.
    table
        ``"dense"``, ``"sparse"`` or ``"auto"``, which is dense if the first rows have neither texts nor missing values.
    dtype
        The type of numbers in a dense table. ``"auto"`` is float32 for text files, and for Parquet if float32 holds
        every column exactly. A sparse table always holds float32.
    columns
        The names of all columns in order, the label among them, by default the column names of the first file.
    """

    label: str = ""
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    labels: LabelKind = "auto"
    table: Literal["auto", "dense", "sparse"] = "auto"
    dtype: Literal["auto", "float32", "float64"] = "auto"
    columns: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return "dense" if self.table == "dense" else "sparse"

    @property
    def names_from(self) -> NamesFrom:
        return {"from": "columns" if self.kind == "dense" else "table"}

    def column_names(self) -> list[str]:
        return list(self.numeric)

    def in_use(self) -> list[str]:
        """Return the names of the columns that are read, which are the label and the features."""
        return [self.label, *self.numeric, *self.categorical]

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise OptionError if an option names a column that does not exist, or two options name the same column."""
        if twice := [name for name, count in Counter(columns).items() if count > 1]:
            raise OptionError(f"more than one column is called {join_names(twice)}: rename them")
        if not self.label:
            raise OptionError(f"which column is the label? Pass --label with one of {join_names(columns)}")
        known, purpose = set(columns), dict[str, str]()
        for option in ("label", "categorical", "numeric", "ignore"):
            for name in [self.label] if option == "label" else getattr(self, option):
                if name not in known:
                    raise OptionError(f"--{option} {name}: no such column; there are {join_names(columns)}")
                if purpose.setdefault(name, option) != option:
                    raise OptionError(f"column {name} cannot be --{purpose[name]} and --{option} at once")
        if known == {self.label, *self.ignore}:
            raise OptionError(f"no column is left to be a feature of {join_names(columns)}")

    def decide(self, columns: Sequence[str], sample: pa.Table | pa.RecordBatch) -> Self:
        """Return the options with every "auto" replaced by a choice from the types and missing values in `sample`."""
        kinds = {field.name: kind_of(field.type) for field in sample.schema}
        kinds |= dict.fromkeys(self.numeric, NUMERIC) | dict.fromkeys(self.categorical, CATEGORICAL)
        features = [name for name in columns if name != self.label and name not in self.ignore]
        for name in features:
            _check_castable(sample[name], name, kinds[name])
        numeric = tuple(name for name in features if kinds[name] == NUMERIC)
        categorical = tuple(name for name in features if kinds[name] == CATEGORICAL)
        gaps = any(sample[name].null_count for name in features)
        dense = self.table == "dense" or (self.table == "auto" and not categorical and not gaps)
        if dense and categorical:
            raise OptionError(f"no dense table with text ({join_names(categorical)}): pass --table sparse or --ignore")
        if not dense and self.dtype == "float64":
            raise OptionError("a sparse table holds float32: leave out --dtype float64, or pass --table dense")
        exact = not dense or all(_fits_float32(sample[name].type) for name in numeric)
        return replace(
            self,
            columns=tuple(columns),
            numeric=numeric,
            categorical=categorical,
            ignore=tuple(self.ignore),
            labels=_unless_auto(self.labels, "numbers" if kinds[self.label] == NUMERIC else "strings"),
            table="dense" if dense else "sparse",
            dtype=_unless_auto(self.dtype, "float32" if exact else "float64"),
        )


def arrow(module: str = "pyarrow") -> Any:
    """Import and return pyarrow or a module of pyarrow. Raise OptionError if pyarrow is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise OptionError("reading tables needs pyarrow: pip install 'daskfs[tabular]'") from error


def kind_of(type: pa.DataType) -> str:
    """Return NUMERIC or CATEGORICAL for an Arrow type, or the name of a type that is neither."""
    types = arrow("pyarrow.types")
    if types.is_integer(type) or types.is_floating(type) or types.is_boolean(type) or types.is_decimal(type):
        return NUMERIC
    if types.is_null(type):  # only gaps so far; if text follows, the error says what to do
        return NUMERIC
    if types.is_string(type) or types.is_large_string(type) or types.is_string_view(type) or types.is_dictionary(type):
        return CATEGORICAL
    return str(type)


def as_numbers(column: pa.Array) -> pa.Array:
    """Return a column cast to float64. Raise ArrowInvalid if the column holds text that is no number."""
    pa = arrow()
    if kind_of(column.type) == CATEGORICAL:
        column = arrow("pyarrow.compute").utf8_trim_whitespace(column.cast(pa.string()))
    return column.cast(pa.float64(), safe=False)  # not safe: integers beyond 2^53 are rounded


def as_texts(column: pa.Array) -> pa.Array:
    """Return a column cast to strings. Raise ArrowInvalid if the column holds bytes that are not UTF-8."""
    return column.cast(arrow().string())


def check_same_columns(source: Source, columns: Sequence[str], expected: Sequence[str]) -> None:
    """Raise SourceError if the columns of a file differ from the columns of the first file."""
    for number, (name, wanted) in enumerate(zip_longest(columns, expected), start=1):
        if name != wanted:
            here, first = ("missing" if column is None else repr(column) for column in (name, wanted))
            raise SourceError(f"{source.url}: column {number} is {here}, but {first} in the first file")


def join_names(names: Iterable[str], most: int = 50) -> str:
    """Join up to `most` names into one string for an error message."""
    names = list(names)
    more = f", … ({len(names) - most} more)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _check_castable(column: pa.Array, name: str, kind: str) -> None:
    if kind not in (NUMERIC, CATEGORICAL):
        raise OptionError(f"column {name} holds {kind}, neither number nor text: pass --categorical or --ignore {name}")
    try:
        (as_numbers if kind == NUMERIC else as_texts)(column.slice(0, 0))
    except arrow().ArrowNotImplementedError as error:
        raise OptionError(f"column {name} holds {column.type}, it cannot be {kind}: pass --ignore {name}") from error


def _fits_float32(type: pa.DataType) -> bool:
    """Return True if float32 holds every number of an Arrow type exactly."""
    types = arrow("pyarrow.types")
    if types.is_integer(type):
        return bool(type.bit_width <= 16)
    return bool(types.is_boolean(type) or types.is_float16(type) or types.is_float32(type))


def _unless_auto(option: Any, choice: str) -> Any:
    return choice if option == "auto" else option
