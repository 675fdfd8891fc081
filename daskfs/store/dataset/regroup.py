"""Regrouping of arrays that come in pieces of any size into pieces of the sizes that a caller requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def consecutive_groups(sizes: NDArray[np.int64], most: int) -> list[range]:
    """Return ranges of consecutive items whose sizes sum up to at most `most`, or ranges of a single item.

    >>> consecutive_groups(np.array([3, 4, 5, 20, 1]), most=10)
    [range(0, 2), range(2, 3), range(3, 4), range(4, 5)]
    """
    edges, first = np.concatenate([[0], np.cumsum(sizes)]), 0
    result = []
    while first < len(sizes):
        last = max(first + 1, int(np.searchsorted(edges, edges[first] + most, side="right")) - 1)
        result.append(range(first, last))
        first = last
    return result
