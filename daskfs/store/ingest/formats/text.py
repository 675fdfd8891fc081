"""The text format: each line, or each file, is a document and becomes a row of n-gram counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, SourceError, check_choice
from daskfs.store.ingest.formats import text_kernels as kernels
from daskfs.store.ingest.formats.base import (
    WEIGHTING_CODES,
    Format,
    LabelKind,
    NamesFrom,
    Weighting,
    guess_label_kind,
    lengths,
)
from daskfs.store.ingest.rows import MOST_LABELS, RowBuilder
from daskfs.store.ingest.sources import BOM, Source, SourcePart, Window, first_lines, line_windows

REASONS = {
    kernels.NO_COLUMN: "expected tab-separated columns, one of them the label (--label column:0 is the first)",
    kernels.NO_LABEL: "the label is empty",
    kernels.LABEL_IS_NO_NUMBER: "the label is not a number (string labels: --labels strings)",
    kernels.LABEL_NOT_FINITE: "the label is NaN or infinite",
    kernels.TOO_MANY_LABELS: f"more than {MOST_LABELS} different string labels; is this the label column?",
}

DocumentUnit = Literal["lines", "files"]
LONGEST_NGRAM = 64


@dataclass(frozen=True, kw_only=True)
class Text(Format):
    """Options of the text format.

    A word is a sequence of letters, digits and underscores, where every character outside ASCII counts as a
    letter. A feature is named ``w:the quick`` for an n-gram of words, joined by one space, and ``c:abc`` for an n-gram
    of characters. Before characters are counted, white space at both ends of a document is removed, and white space
    elsewhere is reduced to one space.

    Parameters
    ----------
    documents
        ``"lines"``: each line that is not blank is a document, in tab-separated columns. ``"files"``: each file is one.
    label
        ``"column:N"``, counted from 0, for lines: the other columns are the text. ``"folder"`` for files:
        the name of the folder a file lies in. ``"auto"``: the first column, or the folder.
    labels
        ``"numbers"``, ``"strings"`` or ``"auto"``, chosen from the first lines.
    words, chars
        Lengths of the n-grams of words and of characters, 1 … 64, one or several or none of one kind.
    lowercase
        Whether to convert the text to lower case (Unicode).
    weighting
        ``"count"``, ``"binary"`` (1 for an n-gram that occurs) or ``"unit"`` (rows scaled to Euclidean length 1).
    """

    documents: DocumentUnit = "lines"
    label: str = "auto"
    labels: LabelKind = "auto"
    words: tuple[int, ...] = (1,)
    chars: tuple[int, ...] = ()
    lowercase: bool = True
    weighting: Weighting = "count"

    name: ClassVar[str] = "text"
    names_from: ClassVar[NamesFrom] = {"from": "table"}

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", lengths("words", self.words, LONGEST_NGRAM))
        object.__setattr__(self, "chars", lengths("chars", self.chars, LONGEST_NGRAM))
        check_choice("documents", self.documents, DocumentUnit)
        check_choice("labels", self.labels, LabelKind)
        check_choice("weighting", self.weighting, Weighting)
        if not self.words and not self.chars:
            raise OptionError("words, chars: at least one length of n-gram is needed")
        self._check_label()

    def _check_label(self) -> None:
        if self.documents == "lines" and self.label != "auto" and self._column() is None:
            raise OptionError(f'label: lines have theirs in a column, as in "column:0", not {self.label!r}')
        if self.documents == "files" and self.label not in ("auto", "folder"):
            raise OptionError(f'label: files have the name of their "folder" as label, not {self.label!r}')
        if self.documents == "files" and self.labels == "numbers":
            raise OptionError("labels: names of folders are strings, not numbers")

    def _column(self) -> int | None:
        """Return the number of the label column, or None if the label is not in a column."""
        column = self.label.removeprefix("column:")
        return int(column) if column != self.label and column.isdecimal() else None

    def resolve(self, sources: Sequence[Source]) -> Self:
        if self.documents == "files":
            return replace(self, label="folder", labels="strings")
        decided = replace(self, label="column:0") if self.label == "auto" else self
        if self.labels != "auto":
            return decided
        column = decided._column() or 0
        rows = [line.split(b"\t") for line in first_lines(sources[0])]
        return replace(decided, labels=guess_label_kind([row[column] for row in rows if len(row) > max(column, 1)]))

    def parts(self, source: Source, part_bytes: int) -> Iterator[SourcePart]:
        return super().parts(source, part_bytes) if self.documents == "lines" else iter([SourcePart(source)])

    def read(self, part: SourcePart, rows: RowBuilder, window_bytes: int) -> None:
        if self.documents == "files":
            self._read_file(part.source, rows)
            return
        for window in line_windows(part, window_bytes):
            text = self._in_one_case(window.text.tobytes())
            step = partial(self._lines_step, window.text, text, self._ngrams(text), rows)
            rows.parse(window, part.source, step, REASONS)

    def _lines_step(
        self, lines: NDArray[np.uint8], text: NDArray[np.uint8], ngrams: kernels.Ngrams, rows: RowBuilder
    ) -> int:
        options = self._column(), self.labels == "strings", ngrams
        return int(kernels.parse_lines(lines, text, *options, rows.arrays, rows.labels, rows.names))

    def _read_file(self, source: Source, rows: RowBuilder) -> None:
        text = self._in_one_case(_whole_file(source))
        label = rows.label_code(source.folder.encode())
        step = partial(self._file_step, text, label, self._ngrams(text), rows)
        rows.parse(Window(text, 0), source, step, {})

    def _file_step(self, text: NDArray[np.uint8], label: float, ngrams: kernels.Ngrams, rows: RowBuilder) -> int:
        return int(kernels.add_document(text, label, ngrams, rows.arrays, rows.names))

    def _in_one_case(self, text: bytes) -> NDArray[np.uint8]:
        """Return the text as valid UTF-8, in lower case if requested, with the same number of lines and tabs."""
        if text.isascii():
            text = text.lower() if self.lowercase else text
        else:
            characters = text.decode("utf-8", "replace")
            text = (characters.lower() if self.lowercase else characters).encode()
        return np.frombuffer(text, np.uint8)

    def _ngrams(self, text: NDArray[np.uint8]) -> kernels.Ngrams:
        return kernels.new_ngrams(self.words, self.chars, WEIGHTING_CODES[self.weighting], len(text))


def _whole_file(source: Source) -> bytes:
    largest = source.limits.line_bytes
    with source.open() as file:
        text = file.read(largest + 1)
    if len(text) > largest:
        raise SourceError(
            f"{source.url}: a document of more than {largest >> 20} MB; has it one document a line? "
            "More --memory allows larger documents"
        )
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError(f"{source.url}: UTF-16 text; convert it to UTF-8 first")
    return text.removeprefix(BOM)
