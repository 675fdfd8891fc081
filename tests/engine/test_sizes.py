"""Sizes in bytes as texts: the same as Dask writes and reads."""

from __future__ import annotations

import pytest
from dask.utils import format_bytes as dask_format
from dask.utils import parse_bytes as dask_parse
from hypothesis import given
from hypothesis import strategies as st

from daskfs.engine.sizes import format_bytes, parse_bytes

UNITS = ["", "B", "k", "kB", "KiB", "M", "MB", "MiB", "gb", "Gi", "GiB", "TB", "TiB", "P", "PiB"]


@given(st.integers(0, 1 << 60))
def test_sizes_are_written_as_by_dask(n):
    assert format_bytes(n) == dask_format(n)


@given(st.floats(0, 1e6).map(str) | st.integers(0, 10**9).map(str), st.sampled_from(["", " "]), st.sampled_from(UNITS))
def test_sizes_are_read_as_by_dask(number, space, unit):
    assert parse_bytes(number + space + unit) == dask_parse(number + space + unit)


@pytest.mark.parametrize("size", [123, 1.5e6, "MB", "1e6", "1e6 kB", "5.4 kB"])
def test_other_sizes_that_dask_reads(size):
    assert parse_bytes(size) == dask_parse(size)


@pytest.mark.parametrize("text", ["5 foos", "1..2", "-3MB", "much", "12 i", "."])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match=r"is not a size|could not convert"):
        parse_bytes(text)
