"""RowBuilder: where parsers put sparse rows, and how full blocks leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import BadLineError, SourceError
from daskfs.store.dataset.names_kernels import NameSet, name_list, new_name_set, number_of_label
from daskfs.store.ingest.name_cache import NameCollector
from daskfs.store.ingest.rows_kernels import (
    AT,
    DONE,
    ENTRIES,
    FIRST_ERROR,
    FULL,
    LINE,
    NAMES_FULL,
    NEXT,
    ROWS,
    TAG_BYTES,
    RowArrays,
    copy_rows,
    new_row_arrays,
)
from daskfs.store.ingest.sources import Source, Window, line_number

MOST_LABELS = 10_000


class BadLines:
    """What happens to a line that cannot be read: stop there, or leave it out and count it."""

    def __init__(self, skip: bool = False, most: int = 1000) -> None:
        self.skip, self.most = skip, most
        self.count = 0
        self.examples: list[str] = []

    def report_at(self, source: Source, offset: int, reason: str) -> None:
        """`report` a line known by a byte of it: its number is counted only for an error that ends the ingest.

        Counting takes a look at the file from its beginning, too long for every line that is left out.
        """
        if self.skip and self.count < self.most:
            self.report(source, offset, reason, unit="byte")
        else:
            self.report(source, line_number(source, offset), reason)

    def report(self, source: Source, line: int, reason: str, unit: str = "") -> None:
        """Raise BadLineError, or note the line as left out; too many end the ingest all the same."""
        error = BadLineError(source.url, line, reason, unit)
        if not self.skip:
            raise error
        self.count += 1
        if len(self.examples) < 5:
            self.examples.append(str(error))
        if self.count > self.most:
            raise SourceError(f"more than {self.most} bad lines; the latest: {error}")


class LabelCodes:
    """String labels numbered in the order they are first seen; a label's number is what y holds."""

    def __init__(self) -> None:
        self.labels = new_name_set(MOST_LABELS, 64 * MOST_LABELS)

    def label_strings(self) -> list[str]:
        """The string labels met so far; y holds their positions in this list."""
        return [label.decode("utf-8", "backslashreplace") for label in name_list(self.labels)]

    def label_code(self, label: bytes) -> float:
        """The number of one label."""
        text = np.frombuffer(label, np.uint8)
        code = int(number_of_label(self.labels, text))
        if code < 0:
            raise SourceError(f"more than {MOST_LABELS} different string labels; is this the label column?")
        return float(code)


class DenseBuilder(LabelCodes):
    """Where parsers of dense tables put their rows: `emit` gets each batch of them."""

    def __init__(
        self, emit: Callable[[NDArray[np.floating[Any]], NDArray[np.float64]], None], *, bad_lines: BadLines
    ) -> None:
        super().__init__()
        self.append = emit
        self.bad_lines = bad_lines


class RowBuilder(LabelCodes):
    """Collects CSR rows into blocks of bounded size; `emit` gets each full block, `emit_names` each full set of names.

    The arrays handed out are reused: a receiver writes or copies them before it returns.
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
        self.bad_lines = bad_lines
        self.arrays = new_row_arrays(block_rows, block_entries)

    @property
    def names(self) -> NameSet:
        """Where parsers put names."""
        return self._collected.names

    def parse(self, window: Window, source: Source, step: Callable[[], int], reasons: dict[int, str]) -> None:
        """Run the parser kernel call `step` over a window of lines, making room as it asks for it.

        `reasons` gives the words for each error code; a bad line is reported and, if the policy
        allows it, stepped over.
        """
        progress = self.arrays.progress
        progress[NEXT] = 0
        while (status := step()) != DONE:
            if status in (FULL, NAMES_FULL):
                self.make_room(status)
                progress = self.arrays.progress
                continue
            line, at = int(progress[LINE]), int(progress[AT])
            reason = f"{reasons[status]}: {_token(window.text, at)}"
            self.bad_lines.report_at(source, window.offset + line, reason)
            progress[NEXT] = _next_line(window.text, line)

    def make_room(self, status: int) -> None:
        """After a kernel returned FULL or NAMES_FULL: empty what is full, or grow it for one huge row."""
        if status == NAMES_FULL:
            self._collected.make_room(self._emit_names)
        elif self.arrays.progress[ROWS] > 0:
            self.flush()
        else:  # one row is larger than a block: it gets a block of its own
            following = self.arrays.progress[NEXT]
            self.arrays = new_row_arrays(len(self.arrays.y), 2 * len(self.arrays.ids))
            self.arrays.progress[NEXT] = following

    def append(
        self,
        indptr: NDArray[np.int64],
        ids: NDArray[np.uint64],
        values: NDArray[np.float32],
        y: NDArray[np.float64],
    ) -> None:
        """Add rows that are already in CSR form."""
        done = 0
        while done < len(y):
            done, status = copy_rows(indptr, ids, values, y, done, self.arrays)
            if status == FIRST_ERROR:
                raise SourceError(f"row {done}: a repeated feature sums up to more than a float32 holds")
            if status != DONE:
                self.make_room(status)

    def flush(self) -> None:
        """Hand out what has been collected as one block."""
        if self.arrays.progress[ROWS] == 0:
            return
        self._emit(self.arrays)
        self.arrays.progress[[ROWS, ENTRIES, TAG_BYTES]] = 0
        if len(self.arrays.ids) > self._block_entries:  # grown for one huge row
            following = self.arrays.progress[NEXT]
            self.arrays = new_row_arrays(len(self.arrays.y), self._block_entries)
            self.arrays.progress[NEXT] = following

    def finish(self) -> None:
        """Hand out everything that is left."""
        self.flush()
        self._collected.flush(self._emit_names)


def _next_line(text: NDArray[np.uint8], at: int) -> int:
    """Where the line after the one at a byte begins."""
    while not (ends := np.flatnonzero(text[at : at + 4096] == 10)).size:
        at += 4096
    return at + int(ends[0]) + 1


def _token(text: NDArray[np.uint8], at: int) -> str:
    """The word at a byte, as an error message shows it."""
    word = bytes(text[at : at + 60]).split(b"\n")[0].split(b" ")[0]
    return repr(word.decode("utf-8", "replace")) if word.strip() else "nothing there"
