"""Labels: real numbers, numbers that are classes, or strings. Which it is depends on the whole dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CLASSES = 1000


@dataclass(frozen=True, slots=True)
class Labels:
    """The meaning of y.

    Numbers are stored as they are, so that {0, 1}, {-1, 1} and real targets look in the dataset as in the source. Up to
    1,000 distinct whole numbers are also listed as classes. A string is stored as its position among the sorted
    distinct strings.
    """

    strings: bool
    classes: tuple[float, ...] | tuple[str, ...] | None

    def attributes(self) -> dict[str, Any]:
        """Return the labels as the root metadata of a dataset holds them."""
        return {"kind": "strings" if self.strings else "numbers", "classes": self.classes and list(self.classes)}


def distinct_numbers(y: NDArray[np.float64]) -> list[float] | None:
    """Return the distinct labels of some rows, or None if they cannot be classes."""
    distinct = np.unique(y)
    if len(distinct) > MOST_CLASSES or not np.array_equal(distinct, np.round(distinct)):
        return None
    return [float(value) for value in distinct]


def merge_number_labels(seen: Iterable[Sequence[float] | None]) -> Labels:
    """Return numeric labels, given the distinct ones of each part of the data."""
    union: set[float] = set()
    for part in seen:
        if part is None:
            return Labels(False, None)
        union.update(part)
    return Labels(False, tuple(sorted(union)) if len(union) <= MOST_CLASSES else None)


def merge_string_labels(seen: Iterable[Sequence[str]]) -> Labels:
    """Return string labels, given the distinct ones of each part of the data."""
    return Labels(True, tuple(sorted(set().union(*seen))))


def recode_labels(y: NDArray[np.float64], local: Sequence[str], labels: Labels) -> NDArray[np.float64]:
    """Turn positions in the label list of one part of the data into positions in that of the whole dataset."""
    assert labels.classes is not None
    position = {label: code for code, label in enumerate(labels.classes)}
    table = np.array([position[label] for label in local], np.float64)
    codes: NDArray[np.float64] = table[y.astype(np.int64)]
    return codes
