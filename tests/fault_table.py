"""The table of `make faults`: how often each fault was brought about, and what came of it.

A session that has a file in the variable FAULTS adds what it has seen to this file, in place of what earlier sessions
saw in the same files of tests, so that `make faults` can be run in parts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from fault_notes import notes

STATEFUL = {"test_centre.py::Test": 8}
"""Tests whose names do not say which fault they are about."""


@dataclass
class Row:
    """What the tests of one fault, in one file, have seen."""

    runs: int = 0
    survived: int = 0
    exact: int = 0
    worst: float | None = None
    """The longest time, in seconds, from a fault to what goes on after it."""


table: dict[tuple[int, str], Row] = {}


def fault_of(test: str) -> int | None:
    """Return the number of the fault that a test is about, by its name or else by that of its file.

    >>> fault_of("tests/faults/test_f01_killed_worker.py::test_f2_all_but_one[3]")
    2
    >>> fault_of("tests/engine/test_centre.py::TestCensus::runTest")
    8
    """
    found = re.search(r"::test_f(\d+)_", test) or re.search(r"/test_f(\d+)_", test)
    return int(found[1]) if found else next((fault for name, fault in STATEFUL.items() if name in test), None)


@pytest.fixture(autouse=True)
def _noted(record_property: Callable[[str, object], None]) -> Iterator[None]:
    """Let what a test notes travel with its report, also from a process of pytest-xdist."""
    notes.clear()
    yield
    if notes:
        record_property("notes", list(notes))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    number = fault_of(report.nodeid)
    if number is None or report.skipped:
        return
    row = table.setdefault((number, report.nodeid.partition("::")[0]), Row())
    if report.when == "teardown":
        seen: list[dict[str, Any]] = dict(report.user_properties).get("notes", [])
        runs = sum(note.get("runs", 0) for note in seen) or 1
        row.runs, row.survived = row.runs + runs, row.survived + runs
        row.exact += runs * any(note.get("exact") for note in seen)
        times = [note["recovery"] for note in seen if "recovery" in note]
        row.worst = max([*times, *([] if row.worst is None else [row.worst])], default=None)
    if report.failed:  # then at most the last of its runs
        row.survived -= 1


def merged(records: list[dict[str, Any]], seen: dict[tuple[int, str], Row]) -> list[dict[str, Any]]:
    """Return records with those of this session in place of earlier ones of the same fault and file.

    >>> old = [{"fault": 4, "file": "a", "runs": 2}, {"fault": 4, "file": "b", "runs": 3}]
    >>> [(each["file"], each["runs"]) for each in merged(old, {(4, "b"): Row(runs=5), (1, "c"): Row(runs=1)})]
    [('c', 1), ('a', 2), ('b', 5)]
    """
    rows = {(record["fault"], record["file"]): record for record in records}
    rows |= {(fault, file): {"fault": fault, "file": file, **asdict(row)} for (fault, file), row in seen.items()}
    return [rows[key] for key in sorted(rows)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table; a test may have compared several runs with an undisturbed one. Keep it if FAULTS is set."""
    if "FAULTS" not in os.environ or not table:
        return
    for row in table.values():
        row.worst = None if row.worst is None else round(row.worst, 1)
    file = Path(os.environ["FAULTS"])
    records = merged(json.loads(file.read_text()) if file.exists() else [], table)
    file.write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")
    terminalreporter.write_sep("=", "faults")
    lines = [("fault", "runs", "survived", "exact", "worst recovery")]
    for (number, _), row in sorted(table.items()):
        worst = "" if row.worst is None else f"{row.worst:.1f} s"
        lines.append((f"F{number}", str(row.runs), str(row.survived), str(row.exact or ""), worst))
    for line in lines:
        terminalreporter.write_line("  ".join(cell.rjust(14) for cell in line))
