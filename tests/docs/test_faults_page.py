"""The page of faults has every row, and names tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def rows() -> dict[int, list[str]]:
    """The tests of every fault, by its number."""
    lines = (ROOT / "docs/faults.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| F")]
    return {int(number[1:]): re.findall(r"`([\w/]+\.py)`", tests) for number, _, _, tests in cells}


def test_every_fault_has_a_row():
    assert list(rows()) == list(range(1, 38))


def test_every_row_has_tests_that_are_there():
    assert {number for number, tests in rows().items() if not tests} == set()
    missing = [test for tests in rows().values() for test in tests if not (ROOT / "tests" / test).exists()]
    assert missing == []


def test_every_file_of_fault_tests_has_a_row():
    named = {test for tests in rows().values() for test in tests}
    assert {f"faults/{path.name}" for path in (ROOT / "tests/faults").glob("test_*.py")} <= named
