"""The benchmark of data as they are: which sets it has, how it saves its figures, and the page that shows them."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    """A function that imports a script from a folder of the pipelines."""

    def imported(folder, name):
        monkeypatch.syspath_prepend(str(ROOT / "pipelines" / folder))
        monkeypatch.delitem(sys.modules, "as_it_is", raising=False)  # two folders have that name
        return importlib.import_module(name)

    return imported


def test_the_page_is_what_the_generator_writes(script):
    drawing = script("docs", "as_it_is")
    page, figures = (drawing.DOCS / "as-it-is.md").read_text(), json.loads((drawing.DOCS / "as-it-is.json").read_text())
    assert drawing.page_with(page, figures) == page


def test_shares_within_a_hundredth_count_the_best_of_the_others(script):
    drawing = script("docs", "as_it_is")
    records = [
        {
            "refitted": {"Online Substitution": 0.9, "MISSION": 0.85, "L1": 0.905, "SelectKBest": 0.7},
            "own": {"Online Substitution": 0.9, "MISSION": 0.7, "L1": 0.8},
        },
        {
            "refitted": {"Online Substitution": 0.5, "MISSION": 0.9, "L1": 0.6, "SelectKBest": 0.7},
            "own": {"Online Substitution": 0.5, "MISSION": 0.5, "L1": 0.52},
        },
    ]
    substitution, mission, better = drawing.within(records).splitlines()[2:]
    assert substitution == "| Online Substitution | 1 of 2 | 1 | -0.200 | 1 of 2 | 0 | -0.020 |"
    assert mission == "| MISSION | 1 of 2 | 1 | -0.055 | 0 of 2 | 1 | -0.100 |"
    assert better == "| the better of both | 2 of 2 | 0 | -0.005 | 1 of 2 | 0 | -0.020 |"


def test_a_figure_takes_the_place_of_an_older_one_of_the_same_set(script):
    put = script("benchmarks", "as_it_is").put
    records = [{"set": "iris", "k": 2, "own": 0.9}, {"set": "iris", "k": 3, "own": 0.8}]
    put(records, {"set": "iris", "k": 3, "own": 0.95})
    put(records, {"set": "wine", "k": 3, "own": 0.7})
    assert [(of["set"], of["k"], of["own"]) for of in records] == [
        ("iris", 2, 0.9),
        ("iris", 3, 0.95),
        ("wine", 3, 0.7),
    ]


def test_what_a_folder_lacks_is_left_out_with_a_line(script, tmp_path, capsys):
    tables = script("benchmarks", "_as_it_is_tables")
    assert tables.of_recipe(tmp_path, "a9a", ("a9a.py",)) is None
    assert "a9a is left out: Error: no a9a or a9a.bz2" in capsys.readouterr().err


def test_a_recipe_becomes_rows_without_features_that_no_row_has(script, tmp_path):
    tables = script("benchmarks", "_as_it_is_tables")
    (tmp_path / "a9a").write_text("+1 3:1 9:1\n-1 9:1\n-1 40:1\n")
    X, y = tables.of_recipe(tmp_path, "a9a", ("a9a.py",))
    assert X.toarray().tolist() == [[1, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert y.tolist() == [1, -1, -1]
