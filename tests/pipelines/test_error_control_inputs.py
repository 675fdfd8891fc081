"""The table of inputs beside their copies, as its command prints it, and what the docs conclude from it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

PAPERS = Path(__file__).parents[2] / "pipelines" / "papers"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module("error_control_inputs")


def test_the_table_of_the_docs_is_the_one_that_was_measured(script):
    """And inputs that do not matter stand out more often than by chance, for which there is no error control."""
    docs = PAPERS.parents[1] / "docs"
    measured = json.loads((docs / "error-control-inputs.json").read_text("utf-8"))
    assert list(measured) == list(script.CORRELATIONS)
    assert script.table_of(measured) in (docs / "error-control.md").read_text("utf-8")
    by_chance = (script.INPUTS - script.TRUE) / (script.INPUTS + 1)
    assert measured["neighbours 0.7"]["false above all copies"] > 2 * by_chance
    assert measured["neighbours 0.7"]["copies above a false one"] < 0.45


def test_importances_are_compared_input_by_input(script, monkeypatch):
    monkeypatch.setattr(script, "ROWS", 400)
    result = CliRunner().invoke(script.main, ["--seeds", "1", "--json"], catch_exceptions=False, standalone_mode=False)
    [nothing, independent, _] = json.loads(result.output)["records"]
    assert nothing["true above all copies"] == 0
    assert independent["true above all copies"] >= 3
    assert 0 <= independent["copies above a false one"] <= 1
    X, y, true = script.draw("independent inputs", 0)
    assert X.shape == (400, 30)
    assert np.abs(np.corrcoef(X[:, true].T, y)[-1, :-1]).max() > 0.2
