"""The table of error control, as its command prints it, with a few seeds and fewer columns."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

PAPERS = Path(__file__).parents[2] / "pipelines" / "papers"


@pytest.fixture
def script(monkeypatch):
    """The script, with its problems in 500 columns."""
    monkeypatch.syspath_prepend(str(PAPERS))
    script = importlib.import_module("error_control")
    smaller = {name: replace(problem, n_features=500) for name, problem in script.PROBLEMS.items()}
    monkeypatch.setattr(script, "PROBLEMS", smaller)
    return script


def means(script, problem, seeds):
    """The mean of every number over some seeds."""
    command = ["--only", problem, "--seeds", str(seeds), "--json"]
    result = CliRunner().invoke(script.main, command, catch_exceptions=False, standalone_mode=False)
    records = json.loads(result.output)["records"]
    assert len(records) == seeds
    return {name: np.mean([r[name] for r in records]) for name in records[0] if name not in ("method", "level")}


@pytest.mark.slow
def test_nothing_is_found_where_nothing_is(script):
    """With 24 seeds, the promise of 0.15 and of 2 is kept with a chance of one in a thousand to fail."""
    of = means(script, "nothing there", 24)
    assert of["anything"] <= 0.34
    assert 0.9 < of["false where 2 allowed"] < 3.4


@pytest.mark.slow_but_first
@pytest.mark.parametrize("problem", ["independent columns", "neighbours 0.7", "logistic", "4 rows a donor, by donor"])
def test_true_features_are_found_and_few_others(script, problem):
    of = means(script, problem, 6)
    assert of["false discovery rate"] <= 0.12
    assert of["found"] >= 0.8


def test_large_effects_deceive_no_more_than_small_ones(script):
    """Judged under the ridge of the search, neighbours of true features stood out: .3 of those reported were false."""
    of = means(script, "neighbours 0.7, noise 0.3", 3)
    assert of["false discovery rate"] <= 0.07
    assert of["found"] >= 0.98


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    ["neighbours 0.7, 4,000 rows, noise 0.9", "genotypes, 4,000 rows", "logistic, neighbours 0.7, 4,000 rows"],
)
def test_many_rows_deceive_no_more_than_few(script, problem):
    of = means(script, problem, 8)
    assert of["false discovery rate"] <= 0.1
    assert of["found"] >= 0.98


def test_the_table_of_the_docs_is_the_one_that_was_measured(script):
    """And keeps what is promised."""
    docs = PAPERS.parents[1] / "docs"
    measured = json.loads((docs / "error-control.json").read_text("utf-8"))
    assert list(measured) == list(script.PROBLEMS)
    assert script.table_of(measured) in (docs / "error-control.md").read_text("utf-8")
    assert max(of["apart from neighbours"] for name, of in measured.items() if "nothing" not in name) <= 0.1
    assert max(of["anything"] for name, of in measured.items() if "nothing" in name) <= 0.15


def test_the_costs_of_the_docs_are_those_that_were_measured(monkeypatch):
    """And keep what is promised: at most four times in memory, and three times from disk."""
    benchmarks, docs = PAPERS.parent / "benchmarks", PAPERS.parents[1] / "docs"
    monkeypatch.syspath_prepend(str(benchmarks))
    spec = importlib.util.spec_from_file_location("cost_of_error_control", benchmarks / "error_control.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    times = json.loads((docs / "error-control-cost.json").read_text("utf-8"))["times"]
    assert script.table_of(times) in (docs / "error-control.md").read_text("utf-8")
    assert len(times) == 8
    assert max(of for name, of in times.items() if "memory" in name) <= 4
    assert max(of for name, of in times.items() if "disk" in name) <= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "share"),
    [("neighbours 0.9", 0.4), ("factors", 0.8), ("genotypes", 0.85), ("heavy tails", 0.8), ("sparse columns", 0.75)],
)
def test_other_problems(script, problem, share):
    of = means(script, problem, 8)
    assert of["apart from neighbours"] <= 0.1
    assert of["found"] >= share
