"""The interface of a source format: a frozen record of options that knows how to read a part of a file.

To add a format, write a file here with a dataclass that extends `Format`, and name it in ``FORMATS``
(``formats/__init__.py``); CONTRIBUTING.md has the checklist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

from daskfs.errors import OptionError
from daskfs.protocol import Kind
from daskfs.store.ingest.rows import DenseBuilder, RowBuilder
from daskfs.store.ingest.rows_kernels import BINARY, COUNTS, UNIT
from daskfs.store.ingest.sources import Source, SourcePart

LabelKind = Literal["auto", "numbers", "strings"]
Weighting = Literal["count", "binary", "unit"]
WEIGHTING_CODES = {"count": COUNTS, "binary": BINARY, "unit": UNIT}
NamesFrom = dict[str, Any]
"""The origin of feature names: ``{"from": "ids" | "table" | "kmers" | "columns", ...}``."""


class Format(ABC):
    """One source format: a frozen dataclass whose fields, the options, can be written as JSON."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kind(self) -> Kind:
        """Whether the format gives dense or sparse rows; known after `resolve`."""
        return "sparse"

    @property
    @abstractmethod
    def names_from(self) -> NamesFrom:
        """The way from a feature id to its name."""

    @abstractmethod
    def resolve(self, sources: Sequence[Source]) -> Self:
        """Return the same format with every "auto" decided by the first lines of the sources."""

    def parts(self, source: Source, part_bytes: int) -> Iterator[SourcePart]:
        """Yield parts of a source that can be read independently of each other: by default, ranges of lines.

        A compressed file cannot be entered in the middle and is one part.
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
        """Parse one part into `rows`, holding about `window_bytes` of it at a time."""

    def column_names(self) -> list[str]:
        """Return the names of the feature columns, in order, of a format whose kind is "dense"."""
        raise NotImplementedError

    def read_dense(self, part: SourcePart, rows: DenseBuilder, window_bytes: int) -> None:
        """Parse one part into batches of dense rows, if the kind is "dense"."""
        raise NotImplementedError


def guess_label_kind(tokens: Sequence[bytes]) -> Literal["numbers", "strings"]:
    """Return what the labels of the first rows are: strings if none of them is a number.

    A word among numbers is more often a mistake than a class: with numeric labels it is reported.
    """
    return "strings" if tokens and not any(map(_is_number, tokens)) else "numbers"


def _is_number(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def lengths(option: str, values: int | Iterable[int], longest: int) -> tuple[int, ...]:
    """Return one length or several as a sorted tuple without duplicates, each in 1 … `longest`.

    >>> lengths("k", 12, longest=31)
    (12,)
    >>> lengths("k", [4, 2, 4], longest=31)
    (2, 4)
    """
    several = {values} if isinstance(values, int) else set(values)
    if not all(isinstance(length, int) and 1 <= length <= longest for length in several):
        raise OptionError(f"{option}: lengths are whole numbers between 1 and {longest}, got {values!r}")
    return tuple(sorted(several))
