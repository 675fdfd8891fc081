"""What several blocks have in common, read once, though threads ask for it at the same time."""

from __future__ import annotations

import threading
from typing import Any

from numpy.typing import NDArray

from daskfs.store.dataset.reader import ArrayReader

_RECENT = 4  # chunks: blocks are read a few at a time, nearly in order


class WholeArray:
    """A one-dimensional array, such as the target of a dataset in columns."""

    def __init__(self, array: ArrayReader) -> None:
        self._array, self._lock = array, threading.Lock()
        self._cells: NDArray[Any] | None = None

    def cells(self) -> NDArray[Any]:
        with self._lock:
            if self._cells is None:
                self._cells = self._array.read_all().view()  # which may be somebody's own array
                self._cells.flags.writeable = False
            return self._cells


class RecentChunks:
    """Chunks of an array, such as the target of a dataset in rows; the last few are kept."""

    def __init__(self, array: ArrayReader) -> None:
        self.spec = array.spec
        self._array, self._lock = array, threading.Lock()
        self._chunks: dict[int, NDArray[Any]] = {}

    def read(self, number: int) -> NDArray[Any]:
        with self._lock:
            if number not in self._chunks:
                if len(self._chunks) == _RECENT:
                    del self._chunks[next(iter(self._chunks))]
                self._chunks[number] = self._array.read(number)
            return self._chunks[number]
