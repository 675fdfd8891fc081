"""A random part of the rows of data that are read in place, by which rows are held back for a test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.store.reorder.runs import KeyRange, draw_rows


class HeldBack(NamedTuple):
    """A random part of the rows: the `share` that is held back for a test, or the rest; the same rows as of `split`."""

    share: float
    seed: int
    is_test: bool

    def drawn(self, n_rows: int) -> KeyRange:
        """Return the rows of this part of `n_rows` rows, as a range of random sort keys."""
        count = min(max(round(self.share * n_rows), 1), n_rows - 1)
        return draw_rows(self.seed, n_rows, count)[0 if self.is_test else 1]

    def rows(self, n_rows: int) -> NDArray[np.intp]:
        """Return the numbers of the rows of this part."""
        return np.flatnonzero(self.drawn(n_rows).mask(0, n_rows))
