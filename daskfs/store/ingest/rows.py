"""Builders that collect parsed sparse rows into blocks and parsed dense rows into batches, and count bad lines.

Names of features are collected in a set of bounded size and staged as sorted runs of names. A name that a worker has
staged with one piece need not be staged with the next piece: a piece lists all sorted runs that hold names of the
piece, including sorted runs that the same worker staged with earlier pieces.

Names are identified by their 63-bit ids. If two names have the same id (with a million names, the probability is one
in twenty million), the name that is kept may depend on the order of parsing, but the rows do not.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import BadLineError, SourceError
from daskfs.store.dataset.name_runs import NameRun
from daskfs.store.dataset.names_kernels import (
    COUNT,
    KEYS,
    NameSet,
    clear,
    hand_over,
    name_list,
    new_name_set,
    number_of_label,
)
from daskfs.store.ingest import rows_kernels as kernels
from daskfs.store.ingest.rows_kernels import ENTRIES, FULL, NAMES_FULL, NEXT, ROWS, TAG_BYTES, RowArrays
from daskfs.store.ingest.sources import Source, SourcePart, Window, line_number, line_windows

MOST_LABELS = 10_000
MOST_RUNS = 32  # whose names a piece may share: each is listed in its record


class BadLines:
    """The policy for lines that cannot be parsed: raise an error at the first bad line, or skip and count bad lines."""

    def __init__(self, skip: bool = False, most: int = 1000) -> None:
        self.skip, self.most = skip, most
        self.count = 0
        self.examples: list[str] = []

    def report_at(self, source: Source, offset: int, reason: str) -> None:
        """Report the bad line at a byte offset: count a skipped line, or raise an error with the line number.

        A skipped line is reported by its byte, because the line number requires reading the file from the beginning.
        """
        if self.skip and self.count < self.most:
            self.report(source, offset, reason, unit="byte")
        else:
            self.report(source, line_number(source, offset), reason)

    def report(self, source: Source, line: int, reason: str, unit: str = "") -> None:
        """Raise BadLineError, or count the bad line as skipped and raise SourceError if too many lines are skipped."""
        error = BadLineError(source.url, line, reason, unit)
        if not self.skip:
            raise error
        self.count += 1
        if len(self.examples) < 5:
            self.examples.append(str(error))
        if self.count > self.most:
            raise SourceError(f"more than {self.most} bad lines; the latest: {error}")


class LabelCodes:
    """String labels, numbered in the order of their first appearance, whose numbers are stored in y, and gap counts."""

    def __init__(self) -> None:
        self.labels = new_name_set(MOST_LABELS, 64 * MOST_LABELS)
        self.gaps = Counter[str]()  # missing values, by column
        self.dropped = 0  # rows left out because of a missing value

    def count_gaps(self, gaps: Mapping[str, int], dropped: int) -> None:
        """Add the numbers of missing values of some rows, by column, and the number of rows left out for them."""
        self.gaps.update(gaps)
        self.dropped += dropped

    def label_strings(self) -> list[str]:
        """Return the string labels parsed so far, ordered by their numbers."""
        return [label.decode("utf-8", "backslashreplace") for label in name_list(self.labels)]

    def label_code(self, label: bytes) -> float:
        """Return the number of a string label, as a float, and add the label if it is new."""
        code = int(number_of_label(self.labels, np.frombuffer(label, np.uint8)))
        if code < 0:
            raise SourceError(f"more than {MOST_LABELS} different string labels; is this the label column?")
        return float(code)


class DenseBuilder(LabelCodes):
    """Receives batches of rows from parsers of dense tables, and calls `emit` with each batch."""

    def __init__(
        self, emit: Callable[[NDArray[np.floating[Any]], NDArray[np.float64]], None], *, bad_lines: BadLines
    ) -> None:
        super().__init__()
        self.append = emit
        self.bad_lines = bad_lines


class RowBuilder(LabelCodes):
    """Collects CSR rows into blocks, and calls `emit` with each full block and `emit_names` with each full name set.

    The arrays passed to `emit` are reused, so `emit` has to write or copy the arrays before returning.
    """

    def __init__(
        self,
        emit: Callable[[RowArrays], None],
        emit_names: Callable[[NameSet], None],
        *,
        block_rows: int,
        block_entries: int,
        collected: NameCollector,
        bad_lines: BadLines,
    ) -> None:
        super().__init__()
        self._emit, self._emit_names, self._collected = emit, emit_names, collected
        self._block_entries = block_entries
        self._targets: list[NDArray[np.float64]] = []  # several targets of the rows since the last flush
        self.bad_lines = bad_lines
        self.arrays = kernels.new_row_arrays(block_rows, block_entries)

    @property
    def names(self) -> NameSet:
        """The set to which parsers add the names of features."""
        return self._collected.names

    def parse_part(
        self, part: SourcePart, window_bytes: int, step: Callable[[NDArray[np.uint8]], int], reasons: dict[int, str]
    ) -> None:
        """Parse all lines of a part by calling the parser kernel `step` with the text of each window of lines."""
        for window in line_windows(part, window_bytes):
            self.parse(window, part.source, partial(step, window.text), reasons)

    def parse(self, window: Window, source: Source, step: Callable[[], int], reasons: dict[int, str]) -> None:
        """Call the parser kernel `step` until a window of lines is parsed, and make room whenever `step` returns FULL.

        `reasons` maps each error code to an error text. A bad line is reported to `bad_lines`, and skipped if allowed.
        """
        progress = self.arrays.progress
        progress[NEXT] = 0
        while (status := step()) != kernels.DONE:
            if status in (FULL, NAMES_FULL):
                self.make_room(status)
                progress = self.arrays.progress
                continue
            line, at = int(progress[kernels.LINE]), int(progress[kernels.AT])
            reason = f"{reasons[status]}: {_token(window.text, at)}"
            self.bad_lines.report_at(source, window.offset + line, reason)
            progress[NEXT] = _next_line(window.text, line)

    def make_room(self, status: int) -> None:
        """Flush the block (FULL) or the name set (NAMES_FULL), or enlarge the full arrays for one huge row."""
        if status == NAMES_FULL:
            self._collected.make_room(self._emit_names)
        elif self.arrays.progress[ROWS] > 0:
            self.flush()
        else:  # one row is larger than a block: it gets a block of its own
            self._resize(2 * len(self.arrays.ids))

    def append(
        self,
        indptr: NDArray[np.int64],
        ids: NDArray[np.uint64],
        values: NDArray[np.float32],
        y: NDArray[np.float64],
    ) -> None:
        """Add rows that are already in CSR form (indptr, ids, values), with labels y or several targets a row."""
        done = 0
        if y.ndim > 1:  # the kernel copies one number a row; several targets wait here until rows are flushed
            self._targets.append(y)
            y = y[:, 0].copy()
        while done < len(y):
            done, status = kernels.copy_rows(indptr, ids, values, y, done, self.arrays)
            if status == kernels.FIRST_ERROR:
                raise SourceError(f"row {done}: a repeated feature sums up to more than a float32 holds")
            if status != kernels.DONE:
                self.make_room(status)

    def flush(self) -> None:
        """Call `emit` with the rows collected so far as one block."""
        if self.arrays.progress[ROWS] == 0:
            return
        self._emit(self.arrays._replace(y=self._take_targets()) if self._targets else self.arrays)
        self.arrays.progress[[ROWS, ENTRIES, TAG_BYTES]] = 0
        if len(self.arrays.ids) > self._block_entries:  # enlarged for one huge row
            self._resize(self._block_entries)

    def _take_targets(self) -> NDArray[np.float64]:
        """Return the several targets of the rows that are flushed now, and keep those of later rows."""
        parts, missing = [], int(self.arrays.progress[ROWS])
        while missing:
            part = self._targets.pop(0)
            if len(part) > missing:
                self._targets.insert(0, part[missing:])
            parts.append(part[:missing])
            missing -= len(parts[-1])
        return np.concatenate(parts)

    def finish(self) -> None:
        """Call `emit` with all remaining rows, and `emit_names` with all remaining names."""
        self.flush()
        self._collected.flush(self._emit_names)

    def _resize(self, entries: int) -> None:
        following = self.arrays.progress[NEXT]
        self.arrays = kernels.new_row_arrays(len(self.arrays.y), entries)
        self.arrays.progress[NEXT] = following


def _next_line(text: NDArray[np.uint8], at: int) -> int:
    """Return the byte position where the next line after byte `at` begins."""
    while not (ends := np.flatnonzero(text[at : at + 4096] == 10)).size:
        at += 4096
    return at + int(ends[0]) + 1


def _token(text: NDArray[np.uint8], at: int) -> str:
    """Return the space-delimited token at byte `at`, quoted for an error message."""
    word = bytes(text[at : at + 60]).split(b"\n")[0].split(b" ")[0]
    return repr(word.decode("utf-8", "replace")) if word.strip() else "nothing there"


class NameCollector:
    """A set of feature names of bounded size, and the list of sorted runs to which names of the set were written.

    With a size of 0 bytes, parsers leave out names.
    """

    def __init__(self, names_bytes: int) -> None:
        self._room = (max(names_bytes // 128, 16), max(names_bytes // 4, 1024), names_bytes // 32)
        if names_bytes == 0:
            self._room = (0, 0, 0)
        self.names = new_name_set(*self._room, numbered=False)
        self.runs: list[NameRun] = []

    def flush(self, emit: Callable[[NameSet], None]) -> None:
        """Call `emit` with the names that are new since the last flush."""
        if self.names.used[COUNT]:
            emit(self.names)
            hand_over(self.names)
        if len(self.names.text) > self._room[1]:  # enlarged for one huge row
            self.names = new_name_set(*self._room, numbered=False)

    def make_room(self, emit: Callable[[NameSet], None]) -> None:
        """Emit new names, or forget names already emitted, or enlarge the set if a single row has filled the set."""
        if self.names.used[COUNT]:
            self.flush(emit)
        elif self.names.used[KEYS]:
            clear(self.names)
        else:
            self.names = new_name_set(2 * len(self.names.ids), 2 * len(self.names.text), numbered=False)

    def begin_piece(self) -> list[NameRun]:
        """Return the sorted runs whose names the next piece need not stage again."""
        if len(self.runs) > MOST_RUNS:
            clear(self.names)
            self.runs = []
        return list(self.runs)


_lock = threading.Lock()
_idle: dict[
    str, list[NameCollector]
] = {}  # of the latest ingest only, by its attempt: one for each thread between pieces


@contextmanager
def borrow_names(attempt: str, names_bytes: int) -> Iterator[NameCollector]:
    """Lend an idle `NameCollector` of this process, or a new NameCollector, to one piece of an ingest.

    If the piece fails, all idle collectors are dropped, because the names in the collectors may never be published.
    """
    with _lock:
        if attempt not in _idle:
            _idle.clear()
            _idle[attempt] = []
        collector = _idle[attempt].pop() if _idle[attempt] else None
    collector = collector or NameCollector(names_bytes)
    try:
        yield collector
    except BaseException:
        drop_collected_names()
        raise
    with _lock:
        if attempt in _idle:
            _idle[attempt].append(collector)


def drop_collected_names() -> None:
    """Free the memory of all idle `NameCollector` objects of this process."""
    with _lock:
        _idle.clear()
