"""The interface of a source format: a frozen dataclass of options with methods that read a part of a file.

To add a format, write a module in this folder with a dataclass that extends `Format`, and add the dataclass to
``FORMATS`` in ``formats/__init__.py``. CONTRIBUTING.md has a checklist for new formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.protocol import Kind
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.ingest.gaps import Fills, Missing
from daskfs.store.ingest.rows import DenseBuilder, RowBuilder
from daskfs.store.ingest.rows_kernels import BINARY, COUNTS, UNIT
from daskfs.store.ingest.sources import Source, SourcePart

LabelKind = Literal["auto", "numbers", "strings"]
Weighting = Literal["count", "binary", "unit"]
WEIGHTING_CODES = {"count": COUNTS, "binary": BINARY, "unit": UNIT}
RESOLVED = {"by": "resolve"}
"""The metadata of the fields of a format that are no options, and that only `Format.resolve` fills in."""
NamesFrom = dict[str, Any]
"""The origin of feature names: ``{"from": "ids" | "table" | "kmers" | "columns", ...}``."""


class Format(ABC):
    """A source format: a frozen dataclass whose fields are the options of the format and can be written as JSON."""

    name: ClassVar[str]
    is_table: ClassVar[bool] = False
    missing: Missing = "error"
    """What becomes of missing values, in formats of tables."""
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kind(self) -> Kind:
        """The kind of rows that the format gives, "dense" or "sparse", which is known after `resolve`."""
        return "sparse"

    @property
    def targets(self) -> tuple[str, ...] | None:
        """The names of several targets, which only tables have, and which are known after `resolve`; None for one."""
        return None

    @property
    @abstractmethod
    def names_from(self) -> NamesFrom:
        """The origin of the names of features (see `NamesFrom`)."""

    @abstractmethod
    def resolve(self, sources: Sequence[Source]) -> Self:
        """Return the format with every option "auto" replaced by a choice that fits the first lines of the sources."""

    def parts(self, source: Source, part_bytes: int) -> Iterator[SourcePart]:
        """Yield parts of a source that can be parsed independently of each other, by default ranges of lines.

        A compressed file is a single part, because decompression must start at the beginning.
        """
        if source.compression or source.size <= part_bytes:
            yield SourcePart(source)
            return
        count = -(-source.size // part_bytes)
        edges = [source.size * i // count for i in range(count + 1)]
        for start, stop in pairwise(edges):
            yield SourcePart(source, start, stop)

    @abstractmethod
    def read(self, part: SourcePart, rows: RowBuilder, window_bytes: int) -> None:
        """Parse one part of a source into sparse `rows`, with about `window_bytes` bytes of the source in memory."""

    def column_names(self) -> list[str]:
        """Return the names of the columns of a table that are numbers, in order."""
        raise NotImplementedError

    def like(self, dataset: Dataset) -> Self:
        """Return the format with the decisions that were made for a dataset, of tables of the same columns."""
        raise OptionError(f"like: is for tables, and {self.name} is none; its features do not depend on other rows")

    def decisions(self, gaps: Mapping[str, int], fills: Fills) -> list[dict[str, Any]]:
        """Return what was decided for every column of a table, and no rows for formats that are no tables."""
        return []

    def read_dense(self, part: SourcePart, rows: DenseBuilder, window_bytes: int) -> None:
        """Parse one part of a source into batches of dense rows, if the kind of the format is "dense"."""
        raise NotImplementedError


class LineFormat(Format):
    """A text format with one row of sparse features in every line, and the label at the beginning of the line."""

    reasons: ClassVar[dict[int, str]]
    """The text of each error code that the parser returns."""

    @abstractmethod
    def parser(self, rows: RowBuilder) -> Callable[[NDArray[np.uint8]], int]:
        """Return a function that parses a text into `rows` and returns a status, as `RowBuilder.parse` calls it."""

    @abstractmethod
    def copy_labels(self, text: NDArray[np.uint8], out: NDArray[np.uint8], facts: NDArray[np.int64]) -> int:
        """Copy the labels of lines to `out`, as lines without features, add facts, and return the number of bytes."""

    def read(self, part: SourcePart, rows: RowBuilder, window_bytes: int) -> None:
        rows.parse_part(part, window_bytes, self.parser(rows), self.reasons)


def guess_label_kind(tokens: Sequence[bytes]) -> Literal["numbers", "strings"]:
    """Return "strings" if no label of the first rows is a number, and otherwise "numbers".

    With "numbers", a label that is no number is reported as a bad line.
    """
    return "strings" if tokens and not any(map(_is_number, tokens)) else "numbers"


def _is_number(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def lengths(option: str, values: int | Iterable[int], longest: int) -> tuple[int, ...]:
    """Return lengths of n-grams as a sorted tuple without duplicates, or raise OptionError if not in 1 … `longest`.

    >>> lengths("k", 12, longest=31)
    (12,)
    >>> lengths("k", [4, 2, 4], longest=31)
    (2, 4)
    """
    several = {values} if isinstance(values, int) else set(values)
    if not all(isinstance(length, int) and 1 <= length <= longest for length in several):
        raise OptionError(f"{option}: lengths are whole numbers between 1 and {longest}, got {values!r}")
    return tuple(sorted(several))
