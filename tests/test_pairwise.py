"""Covering arrays cover every pair, with few rows."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from pairwise import rows


@given(sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5))
def test_every_pair_is_covered_by_few_rows(sizes):
    cases = rows([range(size) for size in sizes])
    assert len(set(cases)) == len(cases)
    for a, b in combinations(range(len(sizes)), 2):
        assert {(case[a], case[b]) for case in cases} == {(x, y) for x in range(sizes[a]) for y in range(sizes[b])}
    largest = sorted(sizes)[-2:]
    assert len(cases) <= 2 * largest[0] * largest[-1] + 2
