"""Regrouping of arrays that come in pieces of any size into pieces of the sizes that a caller requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class RowRegrouper:
    """A queue of rows that come in pieces of any size; the queue holds one piece at a time.

    A piece must not be overwritten later, since later calls of `take` return the remaining rows of the piece.

    >>> rows = RowRegrouper(iter([np.array([1, 2, 3]), np.array([4]), np.array([5, 6])]))
    >>> rows.take(2), rows.take(3), rows.take(1)
    (array([1, 2]), array([3, 4, 5]), array([6]))
    """

    def __init__(self, pieces: Iterable[NDArray[Any]]) -> None:
        self._pieces = iter(pieces)
        self._rest: NDArray[Any] | None = None

    def take(self, count: int) -> NDArray[Any]:
        """Return the next `count` rows, at least one. Raise ValueError if fewer than `count` rows are left.

        The result is a view if one piece holds all `count` rows.
        """
        parts, missing = [], count
        while missing:
            if self._rest is None or not len(self._rest):
                self._rest = next(self._pieces, None)
                if self._rest is None:
                    raise ValueError(f"{missing} rows are missing")
            parts.append(self._rest[:missing])
            self._rest = self._rest[missing:]
            missing -= len(parts[-1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def consecutive_groups(items: Iterable[T], size: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """Yield groups of consecutive items whose sizes sum up to at most `most`, or groups of a single item.

    >>> list(consecutive_groups([3, 4, 5, 20, 1], size=int, most=10))
    [[3, 4], [5], [20], [1]]
    """
    group: list[T] = []
    total = 0
    for item in items:
        if group and total + size(item) > most:
            yield group
            group, total = [], 0
        group.append(item)
        total += size(item)
    if group:
        yield group
