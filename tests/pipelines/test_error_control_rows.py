"""The table of MISSION's error control, as its command prints it, with one seed and fewer rows and words."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

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
        if name in ("nothing there", "two classes")
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
    of = means(script, "nothing there", 3, 100)
    assert of["anything"] == 0
    assert of["false where 2 allowed"] <= 8


@pytest.mark.slow
@pytest.mark.parametrize("k", [50, 200])
def test_true_words_are_found_and_few_others(script, k):
    of = means(script, "two classes", 2, k)
    assert of["false discovery rate"] <= 0.15
    assert of["found"] >= 0.5
