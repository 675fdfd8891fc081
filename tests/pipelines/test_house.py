"""Names in `daskfs` say what they name, and no two types share one: the counts of pipelines/house/figures.py are 0."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from pages import load_script

FIGURES = load_script("pipelines/house/figures")
PACKAGE = FIGURES.modules(Path(__file__).parents[2] / "daskfs")


def test_the_package():
    assert FIGURES.types_defined_twice(PACKAGE) == {}
    assert list(FIGURES.riddles(PACKAGE)) == []


@pytest.mark.parametrize("line", ["found = 1", "self._made = 1", "def f(told): ...", "for one in []: ..."])
def test_a_name_that_says_nothing_is_counted(line):
    assert len(list(FIGURES.riddles({Path("a.py"): ast.parse(line)}))) == 1


@pytest.mark.parametrize(
    "other", ["class _Sample: ...", "class Sample: ...", "Sample = float | str", "_Sample = list[int]"]
)
def test_two_types_of_one_name_are_counted(other):
    trees = {Path("a.py"): ast.parse("class Sample: ..."), Path("b.py"): ast.parse(other)}
    assert list(FIGURES.types_defined_twice(trees)) == ["Sample"]
