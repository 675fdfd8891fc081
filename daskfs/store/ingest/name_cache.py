"""Names on their way out of a parser: collected, staged in runs, and from then on known.

What a worker has staged with one piece it need not stage with the next: a piece says which runs hold its names, its
own and those of pieces the same worker parsed before. An ingest makes sure that all of them become part of it.

Names are told apart by their ids. Should two names have one id (63 bits: at a million names, one case in twenty
million), which of them is kept may depend on who parsed what; rows are the same in any case.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from daskfs.store.dataset.name_runs import NameRun
from daskfs.store.dataset.names_kernels import COUNT, KEYS, NameSet, clear, hand_over, new_name_set

MOST_RUNS = 32  # that a piece may rely on: each is named in its record


class NameCollector:
    """A set of names of bounded size, and the runs that hold those it has handed over."""

    def __init__(self, names_bytes: int) -> None:
        self._room = max(names_bytes // 128, 16), max(names_bytes // 4, 1024), names_bytes // 32
        self.names = new_name_set(*self._room)
        self.runs: list[NameRun] = []

    def flush(self, emit: Callable[[NameSet], None]) -> None:
        """Hand out the names that are new since the last time."""
        if self.names.used[COUNT]:
            emit(self.names)
            hand_over(self.names)
        if len(self.names.text) > self._room[1]:  # grown for one huge row
            self.names = new_name_set(*self._room)

    def make_room(self, emit: Callable[[NameSet], None]) -> None:
        """After a row did not fit: hand out names, or know fewer, or grow if there was nothing but this row."""
        if self.names.used[COUNT]:
            self.flush(emit)
        elif self.names.used[KEYS]:
            clear(self.names)
        else:
            entries, text = len(self.names.ids), len(self.names.text)
            self.names = new_name_set(2 * entries, 2 * text)

    def begin_piece(self) -> list[NameRun]:
        """The runs that the next piece relies on."""
        if len(self.runs) > MOST_RUNS:
            clear(self.names)
            self.runs = []
        return list(self.runs)


class _Shelf:
    """What the threads of this process have collected for one ingest, while they are between two pieces of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ingest, self._idle = "", list[NameCollector]()

    @contextmanager
    def borrowed(self, ingest: str, names_bytes: int) -> Iterator[NameCollector]:
        """Names for a piece to go on with. If it fails all are given up: its runs are no part of anything."""
        with self._lock:
            if ingest != self._ingest:
                self._ingest, self._idle = ingest, []
            collected = self._idle.pop() if self._idle else None
        collected = collected or NameCollector(names_bytes)
        try:
            yield collected
        except BaseException:
            self.clear()
            raise
        with self._lock:
            if ingest == self._ingest:
                self._idle.append(collected)

    def clear(self) -> None:
        """Give back the memory."""
        with self._lock:
            self._ingest, self._idle = "", []


_shelf = _Shelf()
borrow_names = _shelf.borrowed


def drop_collected_names() -> None:
    """Give back what this process holds for the next piece of an ingest, once there is none."""
    _shelf.clear()
