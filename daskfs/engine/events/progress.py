"""How far work is whose amount is known: what a progress bar shows."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[int, int], None]
"""Called with (done, to do)."""


class Moved:
    """Counts what has been moved, and tells who wants to know."""

    def __init__(self, total: int, progress: Report | None) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def add(self, count: int) -> None:
        self._done += count
        if self._progress is not None:
            self._progress(self._done, self._total)
