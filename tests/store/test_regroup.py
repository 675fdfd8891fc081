"""Rows that come in pieces, taken in pieces of other lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.store.dataset.regroup import RowRegrouper


@given(cuts=st.lists(st.integers(0, 20)), takes=st.lists(st.integers(1, 9)), columns=st.sampled_from([(), (3,)]))
def test_rows_stay_in_order(cuts, takes, columns):
    rows = np.arange(20 * (columns or (1,))[0]).reshape(20, *columns)
    regrouped, start = RowRegrouper(np.split(rows, sorted(cuts))), 0
    for count in takes:
        if start + count > len(rows):
            with pytest.raises(ValueError, match=f"{start + count - len(rows)} rows are missing"):
                regrouped.take(count)
            return
        np.testing.assert_array_equal(regrouped.take(count), rows[start : start + count])
        start += count
