"""A job in a report reads as the file it came from."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from daskfs.observe.report.toml_text import toml_text

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
jobs = st.dictionaries(texts, scalars | st.lists(scalars, max_size=3) | st.dictionaries(texts, values, max_size=4))


@given(jobs)
def test_python_reads_what_is_written(job):
    assert tomllib.loads(toml_text(job)) == job
