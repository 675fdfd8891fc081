"""What tests of faults have in common: they kill workers, and `make faults` prints a table of what they saw."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from fault_notes import notes


@pytest.fixture(autouse=True)
def _noted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Let what a test notes travel with its report, also from a process of pytest-xdist."""
    notes.clear()
    yield
    record_property("notes", list(notes))


@dataclass
class Row:
    """What the tests of one fault have seen."""

    runs: int = 0
    survived: int = 0
    exact: int = 0
    recoveries: list[float] = field(default_factory=list)


table: dict[int, Row] = {}


def fault_of(test: str) -> int | None:
    """Return the number of the fault that a test is about, by its name or else by that of its file.

    >>> fault_of("tests/faults/test_f01_killed_worker.py::test_f2_all_but_one[3]")
    2
    """
    found = re.search(r"::test_f(\d+)_", test) or re.search(r"/test_f(\d+)_", test)
    return int(found[1]) if found else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    number = fault_of(report.nodeid)
    if number is None or report.skipped:
        return
    row = table.setdefault(number, Row())
    if report.when == "teardown":
        seen: list[dict[str, Any]] = dict(report.user_properties).get("notes", [])
        runs = sum(note.get("runs", 0) for note in seen) or 1
        row.runs, row.survived = row.runs + runs, row.survived + runs
        row.exact += runs * any(note.get("exact") for note in seen)
        row.recoveries += [note["recovery"] for note in seen if "recovery" in note]
    if report.failed:  # then at most the last of its runs
        row.survived -= 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table; a test may have compared several runs with an undisturbed one."""
    if not table:
        return
    terminalreporter.write_sep("=", "faults")
    lines = [("fault", "runs", "survived", "exact", "worst recovery")]
    for number, row in sorted(table.items()):
        worst = f"{max(row.recoveries):.1f} s" if row.recoveries else ""
        lines.append((f"F{number}", str(row.runs), str(row.survived), str(row.exact or ""), worst))
    for line in lines:
        terminalreporter.write_line("  ".join(cell.rjust(14) for cell in line))
