"""The table of MISSION's error control, as its command prints it, with one seed and fewer rows and words."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

NOTHING, CLASSES = "nothing there, 60,000 rows", "two classes, 100,000 rows"
PAPERS = Path(__file__).parents[2] / "pipelines" / "papers"


@pytest.fixture
def script(monkeypatch):
    """The script, with a fifth of the words and of the rows."""
    monkeypatch.syspath_prepend(str(PAPERS))
    script = importlib.import_module("error_control_rows")
    smaller = {"rows": 20_000, "words": 4_000, "frequent": 1_000, "width": 2**12}
    problems = {
        name: replace(problem, true=problem.true // 4, **smaller)
        for name, problem in script.PROBLEMS.items()
        if name in (NOTHING, CLASSES)
    }
    monkeypatch.setattr(script, "PROBLEMS", problems)
    return script


def means(script, problem, seeds, k):
    """The mean of every number over some seeds."""
    command = ["--only", problem, "--seeds", str(seeds), "-k", str(k), "--json"]
    result = CliRunner().invoke(script.main, command, catch_exceptions=False, standalone_mode=False)
    records = json.loads(result.output)["records"]
    assert len(records) == seeds
    return {name: np.mean([r[name] for r in records]) for name in records[0] if name != "method"}


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is(script):
    of = means(script, NOTHING, 3, 100)
    assert of["anything"] == 0
    assert of["false where 2 allowed"] <= 8


@pytest.mark.slow
@pytest.mark.parametrize("k", [50, 200])
def test_true_words_are_found_and_few_others(script, k):
    of = means(script, CLASSES, 2, k)
    assert of["false discovery rate"] <= 0.15
    assert of["found"] >= 0.5


def test_the_table_of_the_docs_is_the_one_that_was_measured(monkeypatch):
    """And keeps what is promised."""
    monkeypatch.syspath_prepend(str(PAPERS))
    script, docs = importlib.import_module("error_control_rows"), PAPERS.parents[1] / "docs"
    measured = json.loads((docs / "error-control-rows.json").read_text("utf-8"))
    assert list(measured) == list(script.PROBLEMS)
    assert script.table_of(measured) in (docs / "error-control.md").read_text("utf-8")
    runs = [of for by_k in measured.values() for of in by_k.values()]
    assert max(of["false discovery rate"] for of in runs) <= 0.1
    assert min(of["found"] for of in measured[CLASSES].values()) >= 0.65
    assert list(measured[CLASSES]) == ["200", "400", "800"]
