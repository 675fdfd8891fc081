"""MISSION in plain numpy, as its paper lists it (Aghazadeh, Spring, LeJeune, Dasarathy, Shrivastava, Baraniuk, 2018).

For every row: the score comes from the weights of its features among the k largest; the gradient of the loss is added
to a count-sketch; the weights of the row's features are read back, and the k largest of all remain. It has no code in
common with daskfs: its sketch is that of `_bear`.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from _bear import CountSketch, Ids, Values
from scipy.special import expit


class PublishedMission:
    """A logistic regression of the `k` largest weights; rows are CSR with labels 0 and 1."""

    def __init__(self, k: int, width: int, rate: float, seed: int = 0) -> None:
        self.k, self.rate, self.weights = k, rate, dict[int, float]()
        self.sketch = CountSketch(width, seed)

    def learn(self, X: scipy.sparse.csr_array, y: Values) -> PublishedMission:
        """Learn all rows once, one after the other."""
        for r in range(X.shape[0]):
            cells = slice(X.indptr[r], X.indptr[r + 1])
            self._step(X.indices[cells].astype(np.int64), X.data[cells].astype(np.float64), float(y[r]))
        return self

    def _step(self, ids: Ids, values: Values, label: float) -> None:
        known = np.array([self.weights.get(i, 0.0) for i in ids.tolist()])
        gradient = (expit(known @ values) - label) * values
        self.sketch.add(ids, -self.rate * gradient)
        self.weights.update(zip(ids.tolist(), self.sketch.read(ids).tolist(), strict=True))
        if len(self.weights) > self.k:
            every, read = np.array(list(self.weights)), np.array(list(self.weights.values()))
            kept = np.argpartition(-np.abs(read), self.k)[: self.k]
            self.weights = dict(zip(every[kept].tolist(), read[kept].tolist(), strict=True))
