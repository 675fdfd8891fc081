"""Labels: real numbers, numbers that are classes, or strings; decided over the whole dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CLASSES = 1000


@dataclass(frozen=True, slots=True)
class Labels:
    """How y is to be read.

    Numbers stay as they are, so that {0, 1}, {-1, 1} and real targets look in the dataset as they did in
    the source; up to 1,000 distinct whole numbers are also listed as classes. Strings become their
    position among the sorted distinct ones.
    """

    strings: bool
    classes: tuple[float, ...] | tuple[str, ...] | None

    def attributes(self) -> dict[str, Any]:
        return {"kind": "strings" if self.strings else "numbers", "classes": self.classes and list(self.classes)}


def distinct_numbers(y: NDArray[np.float64]) -> list[float] | None:
    """The distinct labels of some rows, or None if they cannot be classes."""
    distinct = np.unique(y)
    if len(distinct) > MOST_CLASSES or not np.array_equal(distinct, np.round(distinct)):
        return None
    return [float(value) for value in distinct]


def merge_number_labels(seen: Iterable[Sequence[float] | None]) -> Labels:
    """Numeric labels from the distinct ones of each part of the data."""
    union: set[float] = set()
    for part in seen:
        if part is None:
            return Labels(False, None)
        union.update(part)
    return Labels(False, tuple(sorted(union)) if len(union) <= MOST_CLASSES else None)


def merge_string_labels(seen: Iterable[Sequence[str]]) -> Labels:
    """String labels from the distinct ones of each part of the data."""
    return Labels(True, tuple(sorted(set().union(*seen))))


def recode_labels(y: NDArray[np.float64], local: Sequence[str], labels: Labels) -> NDArray[np.float64]:
    """Numbers of labels in one part's list, turned into their numbers in the whole dataset's."""
    assert labels.classes is not None
    position = {label: code for code, label in enumerate(labels.classes)}
    table = np.array([position[label] for label in local], np.float64)
    codes: NDArray[np.float64] = table[y.astype(np.int64)]
    return codes
