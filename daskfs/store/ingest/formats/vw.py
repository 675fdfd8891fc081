"""The Vowpal Wabbit (VW) text format, with namespaces, string features, importance weights and tags.

A feature is named ``namespace^name`` (``name`` in the nameless namespace) and hashed to 63 bits. Unlike in VW, a name
of digits such as ``12`` is hashed like any other name, so that a number never collides with a hash.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from daskfs.store.ingest.formats import vw_kernels as kernels
from daskfs.store.ingest.formats.base import LabelKind, LineFormat, NamesFrom, guess_label_kind
from daskfs.store.ingest.formats.label_kernels import copy_vw_labels
from daskfs.store.ingest.formats.vw_fast_kernels import new_structure
from daskfs.store.ingest.rows import MOST_LABELS, RowBuilder
from daskfs.store.ingest.sources import Source, first_lines

REASONS = {
    kernels.NO_LABEL: "no label before the first |",
    kernels.LABEL_IS_NO_NUMBER: "the label is not a number (string labels: --labels strings)",
    kernels.LABEL_NOT_FINITE: "the label is NaN or infinite",
    kernels.TOO_MANY_LABELS: f"more than {MOST_LABELS} different string labels; is this the label column?",
    kernels.BAD_WEIGHT: "the importance weight is not a number of 0 or more",
    kernels.NO_BAR: "no | before the features",
    kernels.BAD_SCALE: "the namespace's scale is not a number",
    kernels.BAD_VALUE: "the feature's value is not a number",
    kernels.VALUE_NOT_FINITE: "the feature's value is NaN, infinite or too large for a float32",
    kernels.NUL_BYTE: "a control character; is this a text file?",
    kernels.SUM_NOT_FINITE: "a repeated feature sums up to more than a float32 holds; the row begins",
    kernels.CARET_IN_NAMESPACE: "a namespace with a ^, which separates it from a feature's name here",
    kernels.NAME_TOO_LONG: f"a name longer than {kernels.LONGEST_NAME} bytes",
}


@dataclass(frozen=True, kw_only=True)
class VowpalWabbit(LineFormat):
    """Options of the VW text format.

    Parameters
    ----------
    labels
        ``"numbers"``, ``"strings"`` (each distinct word is a class) or ``"auto"``, chosen from the first lines.
    """

    labels: LabelKind = "auto"

    name: ClassVar[str] = "vw"
    names_from: ClassVar[NamesFrom] = {"from": "table"}
    reasons: ClassVar[dict[int, str]] = REASONS

    def resolve(self, sources: Sequence[Source]) -> Self:
        if self.labels != "auto":
            return self
        headers = [line.split(b"|")[0].split() for line in first_lines(sources[0])]
        return replace(self, labels=guess_label_kind([header[0] for header in headers if header]))

    def parser(self, rows: RowBuilder) -> Callable[[NDArray[np.uint8]], int]:
        strings, batch, structure = self.labels == "strings", kernels.new_batch(), new_structure()

        def parse(text: NDArray[np.uint8]) -> int:
            return int(kernels.parse_vw(text, strings, rows.arrays, rows.labels, rows.names, batch, structure))

        return parse

    def copy_labels(self, text: NDArray[np.uint8], out: NDArray[np.uint8], facts: NDArray[np.int64]) -> int:
        return int(copy_vw_labels(text, out, facts))
