"""Parameters of a test without the full product: every pair of values, or every case with the others in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, cycle, islice, product
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def pairwise(**axes: Mapping[str, Any] | Iterable[Any]) -> pytest.MarkDecorator:
    """Return a mark that parametrises a test by a covering array of strength two.

    Every axis is a parameter: a mapping of ids to values, or values that are their own ids. The rows are chosen
    greedily and are the same every time. Three axes of 10, 4 and 3 values take about 40 tests instead of 120.

    >>> from pairwise import rows
    >>> len(rows([range(10), range(4), range(3)]))
    40
    """
    values = [
        dict(axis) if isinstance(axis, Mapping) else {str(value): value for value in axis} for axis in axes.values()
    ]
    cases = rows([list(axis) for axis in values])
    params = [
        pytest.param(*(axis[name] for axis, name in zip(values, case, strict=True)), id="-".join(case))
        for case in cases
    ]
    return pytest.mark.parametrize(tuple(axes), params)


def in_turn(times: int, cases: Iterable[Any], **others: Iterable[Any]) -> list[Any]:
    """Return parameters with every case `times` times, each time with the next combination of the other values.

    For many cases that take the same way through the code, and a few circumstances that differ. All but the first of
    the times are slow tests.
    """
    combinations_in_turn = cycle(product(*others.values()))
    result = []
    for case in cases:
        values, name = (case.values, case.id) if isinstance(case, ParameterSet) else ((case,), str(case))
        turns = islice(combinations_in_turn, times)
        for turn, more in enumerate(turns):
            marks = [pytest.mark.slow] if turn else []
            result.append(pytest.param(*values, *more, id="-".join([str(name), *map(str, more)]), marks=marks))
    return result


def rows(axes: list[Any]) -> list[tuple[Any, ...]]:
    """Return rows with a value of every axis, so that every pair of values of two axes is in some row."""
    axes = [list(axis) for axis in axes]
    if len(axes) == 1:
        return [(value,) for value in axes[0]]
    missing = {(a, x, b, y) for a, b in combinations(range(len(axes)), 2) for x, y in product(axes[a], axes[b])}
    result = []
    while missing:
        start = min(
            missing, key=lambda pair: (pair[0], axes[pair[0]].index(pair[1]), pair[2], axes[pair[2]].index(pair[3]))
        )
        row: dict[int, Any] = {start[0]: start[1], start[2]: start[3]}
        for axis in (axis for axis in range(len(axes)) if axis not in row):
            row[axis] = max(
                axes[axis], key=lambda value, axis=axis: sum(_pair(axis, value, at, row[at]) in missing for at in row)
            )
        case = tuple(row[axis] for axis in range(len(axes)))
        missing -= {(a, case[a], b, case[b]) for a, b in combinations(range(len(axes)), 2)}
        result.append(case)
    return result


def covering(cases: Sequence[Mapping[str, Any]], strength: int) -> set[int]:
    """Return the numbers of cases in which every value (or pair of values, for strength 2) occurs, chosen greedily.

    Among equally good cases, those with the values that were used least are taken.

    >>> cases = [{"x": x, "y": y} for x in range(4) for y in range(3)]
    >>> len(covering(cases, 1)), len(covering(cases, 2))
    (4, 12)
    """
    values = [set(combinations(sorted(case.items()), min(strength, len(case)))) for case in cases]
    missing, used, result = set[Any]().union(*values), Counter[Any](), set[int]()
    while missing:
        news = [len(some & missing) for some in values]
        uses = [sum(used[item] for item in case.items()) for case in cases]
        best = max(range(len(cases)), key=lambda number: (news[number], -uses[number]))
        missing -= values[best]
        used.update(cases[best].items())
        result.add(best)
    return result


def _pair(a: int, x: Any, b: int, y: Any) -> tuple[int, Any, int, Any]:
    return (a, x, b, y) if a < b else (b, y, a, x)
