"""The page of faults has every row, and names tests that are there."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pages import load_script

ROOT = Path(__file__).parents[2]


def rows() -> dict[int, list[str]]:
    """The tests of every fault, by its number."""
    lines = (ROOT / "docs/faults.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| F")]
    faults = [row for row in cells if len(row) == 4]  # the table of runs has five
    return {int(number[1:]): re.findall(r"`([\w/]+\.py)`", tests) for number, _, _, tests in faults}


def test_every_fault_has_a_row():
    assert list(rows()) == list(range(1, 38))


def test_every_row_has_tests_that_are_there():
    assert {number for number, tests in rows().items() if not tests} == set()
    missing = [test for tests in rows().values() for test in tests if not (ROOT / "tests" / test).exists()]
    assert missing == []


def test_every_file_of_fault_tests_has_a_row():
    named = {test for tests in rows().values() for test in tests}
    assert {f"faults/{path.name}" for path in (ROOT / "tests/faults").glob("test_*.py")} <= named


def test_the_table_of_runs_is_that_of_the_file():
    drawing = load_script("pipelines/docs/faults_page")
    page, records = (drawing.DOCS / "faults.md").read_text(), json.loads((drawing.DOCS / "faults.json").read_text())
    assert drawing.page_with(page, records) == page
    assert len(drawing.rows(records)) >= 1


def test_every_run_that_is_kept_survived():
    for record in json.loads((ROOT / "docs/faults.json").read_text()):
        assert record["survived"] == record["runs"], record
        assert (ROOT / record["file"]).exists()
