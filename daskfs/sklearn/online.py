"""What `partial_fit` keeps between calls: the state of an algorithm that learns row by row, and no rows.

(With ``learning_rate="auto"`` MISSION keeps the first rows for a while, at most 8,192 of them, to find out how fast to
learn; what is asked of it before that is answered as if there were no more.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from daskfs.engine.run import as_selection
from daskfs.errors import OptionError
from daskfs.protocol import Algorithm, RowBlock, SparseBlock, copy_state
from daskfs.selection.selection import Selection
from daskfs.store.dataset.layout import Labels
from daskfs.store.in_memory import InMemory


class Online:
    """One pass over rows that come a batch at a time; the state is that of `daskfs.select` after the same rows.

    Parameters
    ----------
    algorithm, seed
        What learns, and what its random choices begin with.
    first
        The first batch, which is not learned yet.
    classes
        All labels there will be; None for a real target.
    """

    def __init__(self, algorithm: Algorithm, seed: int, first: InMemory, classes: NDArray[Any] | None) -> None:
        self.algorithm, self.seed, self.classes = algorithm, seed, classes
        self.state = algorithm.start(first.meta, seed)
        self.rows, self._digest = 0, ""

    def learn(self, batch: InMemory) -> None:
        """Fold the rows of a batch into the state."""
        for block in batch.blocks(axis="rows"):
            assert isinstance(block, RowBlock | SparseBlock)
            self.state = self.algorithm.update(self.state, replace(block, first=self.rows + block.first))
        self.rows += batch.n_samples
        self._digest = hashlib.sha256((self._digest + batch.digest).encode()).hexdigest()

    def selection(self, width: int, names: Sequence[Any] | None) -> Selection:
        """What the rows so far speak for; more may follow."""
        state, _ = self.algorithm.end_pass(copy_state(self.state))
        columns = InMemory(sp.csr_array((1, width)), np.zeros(1), Labels(False, None), "rows", names)
        found = as_selection(self.algorithm.result(state), columns, self.algorithm, self.seed)
        return replace(found, source={**found.source, "n_samples": self.rows, "digest": self._digest})


def as_target(y: NDArray[Any], classes: NDArray[Any] | None) -> tuple[NDArray[np.float64], Labels]:
    """Labels of a batch as blocks carry them, where `classes` are all there are, ascending; None for a real target."""
    if classes is None:
        if y.dtype.kind not in "biuf":
            raise OptionError("y is text: give all labels there will be as classes in the first call of partial_fit")
        return y.astype(np.float64), Labels(False, None)
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    if (classes[codes] != y).any():
        raise OptionError(f"y has the label {y[classes[codes] != y][0]!r}, which is none of the classes")
    if classes.dtype.kind in "biuf":
        return classes[codes].astype(np.float64), Labels(False, tuple(map(float, classes)))
    return codes.astype(np.float64), Labels(True, tuple(map(str, classes)))
