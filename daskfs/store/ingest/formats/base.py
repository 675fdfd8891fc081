"""What a source format is: a frozen record of options that knows how to read a part of a file.

To add a format, write a file here with a dataclass that has these members, and name it in
``FORMATS`` (``formats/__init__.py``); CONTRIBUTING.md has the checklist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Literal, Protocol, Self

from daskfs.protocol import Kind
from daskfs.store.ingest.rows import DenseBuilder, RowBuilder
from daskfs.store.ingest.sources import Source, SourcePart

LabelKind = Literal["auto", "numbers", "strings"]
Weighting = Literal["count", "binary", "unit"]
NamesFrom = dict[str, Any]
"""Where a feature's name comes from: ``{"from": "ids" | "table" | "kmers" | "columns", ...}``."""


class Format(Protocol):
    """One source format: a frozen dataclass whose fields, the options, are JSON-serialisable."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def kind(self) -> Kind:
        """Whether it makes dense or sparse rows (known once `resolved`)."""

    @property
    def names_from(self) -> NamesFrom:
        """How a feature id becomes a name again."""

    def resolve(self, sources: Sequence[Source]) -> Self:
        """The same format with every "auto" decided by a look at the sources' first lines."""

    def parts(self, source: Source, part_bytes: int) -> Iterator[SourcePart]:
        """The source cut into parts that can be read independently of each other."""

    def read(self, part: SourcePart, rows: RowBuilder, window_bytes: int) -> None:
        """Parse one part into `rows`, holding about `window_bytes` of it at a time."""


class DenseFormat(Protocol):
    """What a format of dense tables has besides: it reads into a DenseBuilder when its kind is "dense"."""

    def column_names(self) -> list[str]:
        """The names of the feature columns, in order (known once `resolved`)."""

    def read_dense(self, part: SourcePart, rows: DenseBuilder, window_bytes: int) -> None:
        """Parse one part into batches of dense rows."""


def line_parts(source: Source, part_bytes: int) -> Iterator[SourcePart]:
    """Ranges of one plain file; a compressed file cannot be entered in the middle and is one part."""
    if source.compression or source.size <= part_bytes:
        yield SourcePart(source)
        return
    count = -(-source.size // part_bytes)
    edges = [source.size * i // count for i in range(count + 1)]
    for start, stop in pairwise(edges):
        yield SourcePart(source, start, stop)


def guess_label_kind(tokens: Sequence[bytes]) -> Literal["numbers", "strings"]:
    """What the labels of the first rows are: strings if none is a number.

    One that is no number among others that are is a mistake more often than a class: as numbers, it is reported.
    """
    return "strings" if tokens and not any(map(_is_number, tokens)) else "numbers"


def _is_number(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True
