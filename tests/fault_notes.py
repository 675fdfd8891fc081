"""What a test of a fault has seen, for the table that `make faults` prints."""

from __future__ import annotations

from typing import Any

notes: list[dict[str, Any]] = []
"""Of the test that runs, in this process."""


def note(*, exact: bool | None = None, recovery: float | None = None, runs: int | None = None) -> None:
    """Note that a result was exact, the seconds from a fault to what goes on after it, or how many runs a test had."""
    given = {"exact": exact, "recovery": recovery, "runs": runs}
    notes.append({name: value for name, value in given.items() if value is not None})
