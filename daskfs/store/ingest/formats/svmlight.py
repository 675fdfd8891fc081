"""The svmlight / libsvm text format, ``label id:value id:value ... # comment``, with unchanged ids 0 … 2^63 - 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from daskfs.store.ingest.formats import svmlight_kernels as kernels
from daskfs.store.ingest.formats.base import LabelKind, LineFormat, NamesFrom, guess_label_kind
from daskfs.store.ingest.formats.label_kernels import copy_svmlight_labels
from daskfs.store.ingest.formats.structure_kernels import new_positions
from daskfs.store.ingest.rows import MOST_LABELS, RowBuilder
from daskfs.store.ingest.sources import Source, first_lines

REASONS = {
    kernels.LABEL_IS_NO_NUMBER: "the label is not a number (string labels: --labels strings)",
    kernels.LABEL_NOT_FINITE: "the label is NaN or infinite",
    kernels.TOO_MANY_LABELS: f"more than {MOST_LABELS} different string labels; is this the label column?",
    kernels.NO_COLON: "expected id:value",
    kernels.BAD_ID: "the feature id is not a whole number between 0 and 2^63-1",
    kernels.BAD_VALUE: "the value is not a number",
    kernels.VALUE_NOT_FINITE: "the value is NaN, infinite or too large for a float32",
    kernels.NUL_BYTE: "a NUL byte; is this a text file?",
    kernels.SUM_NOT_FINITE: "a repeated id sums up to more than a float32 holds; the row begins",
}


@dataclass(frozen=True, kw_only=True)
class Svmlight(LineFormat):
    """Options of the svmlight format.

    Parameters
    ----------
    labels
        ``"numbers"``, ``"strings"`` (each distinct word is a class) or ``"auto"``, chosen from the first lines.
    """

    labels: LabelKind = "auto"

    name: ClassVar[str] = "svmlight"
    names_from: ClassVar[NamesFrom] = {"from": "ids"}
    reasons: ClassVar[dict[int, str]] = REASONS

    def resolve(self, sources: Sequence[Source]) -> Self:
        if self.labels != "auto":
            return self
        words = [line.split(b"#")[0].split() for line in first_lines(sources[0])]
        return replace(self, labels=guess_label_kind([line[0] for line in words if line]))

    def parser(self, rows: RowBuilder) -> Callable[[NDArray[np.uint8]], int]:
        strings, positions = self.labels == "strings", new_positions()

        def parse(text: NDArray[np.uint8]) -> int:
            return int(kernels.parse_svmlight(text, strings, rows.arrays, rows.labels, positions))

        return parse

    def copy_labels(self, text: NDArray[np.uint8], out: NDArray[np.uint8], facts: NDArray[np.int64]) -> int:
        return int(copy_svmlight_labels(text, self.labels == "strings", out, facts))
