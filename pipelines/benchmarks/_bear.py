"""BEAR in plain numpy: online L-BFGS in a count-sketch (Aghazadeh, Gupta, DeWeese, Koyluoglu, Ramchandran, 2021).

For every batch: the weights of the batch's features among the k largest are read from the sketch; the gradient of the
loss is turned into a descent direction by the two-loop recursion over the last few pairs of steps and changes of the
gradient; the direction is added to the sketch; weights of the batch's features are read again, and the pair of this
batch is kept. Pairs are sparse: each knows only the features of its batch.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import expit

DEPTH = 3
PRIME = (1 << 61) - 1
Ids = NDArray[np.int64]
Values = NDArray[np.float64]


class CountSketch:
    """A count-sketch of `DEPTH` rows, read by the median."""

    def __init__(self, width: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.cells = np.zeros((DEPTH, width), np.float32)
        self._a, self._b = (rng.integers(1, 1 << 31, DEPTH, dtype=np.uint64) for _ in range(2))

    def _places(self, ids: Ids) -> tuple[Ids, Values]:
        mixed = (self._a[:, None] * ids.astype(np.uint64) + self._b[:, None]) % np.uint64(PRIME)
        return (mixed >> np.uint64(1)).astype(np.int64) % self.cells.shape[1], np.where(mixed & np.uint64(1), 1.0, -1.0)

    def add(self, ids: Ids, values: Values) -> None:
        """Add values to the weights of distinct features."""
        places, signs = self._places(ids)
        for row, place, sign in zip(self.cells, places, signs, strict=True):
            np.add.at(row, place, (sign * values).astype(np.float32))

    def read(self, ids: Ids) -> Values:
        """Return the weights of features."""
        places, signs = self._places(ids)
        return np.median(np.take_along_axis(self.cells, places, axis=1) * signs, axis=0)


class Bear:
    """A logistic regression of the `k` largest weights; rows are CSR with labels 0 and 1."""

    def __init__(self, k: int, width: int, rate: float, batch: int = 256, memory: int = 5, seed: int = 0) -> None:
        self.k, self.rate, self.batch = k, rate, batch
        self.sketch = CountSketch(width, seed)
        self.weights: dict[int, float] = {}
        self._pairs: deque[tuple[Ids, Values, Values]] = deque(maxlen=memory)

    def learn(self, X: scipy.sparse.csr_array, y: Values) -> Bear:
        """Learn all rows once."""
        for first in range(0, X.shape[0], self.batch):
            rows = X[first : first + self.batch]
            ids, columns = np.unique(rows.indices, return_inverse=True)
            A = scipy.sparse.csr_array((rows.data, columns, rows.indptr), shape=(rows.shape[0], len(ids)))
            self._step(ids.astype(np.int64), A, y[first : first + self.batch])
        return self

    def _step(self, ids: Ids, A: scipy.sparse.csr_array, y: Values) -> None:
        def gradient(w: Values) -> Values:
            return A.T @ (expit(A @ w) - y) / len(y)

        before = self._largest(ids)
        g = gradient(before)
        self.sketch.add(ids, -self.rate * self._direction(ids, g))
        read = self.sketch.read(ids)
        self._keep_largest(ids, read)
        after = self._largest(ids)
        step, change = after - before, gradient(after) - g
        if step @ change > 1e-12:
            self._pairs.append((ids, step, change))

    def _direction(self, ids: Ids, g: Values) -> Values:
        """Return the inverse Hessian of the pairs times a gradient, by the two loops of L-BFGS."""
        q, used = g.copy(), []
        for of_pair, step, change in reversed(self._pairs):
            s, r = _on(ids, of_pair, step), _on(ids, of_pair, change)
            if s @ r > 1e-12:
                share = (s @ q) / (s @ r)
                q -= share * r
                used.append((s, r, share))
        if used:
            s, r, _ = used[0]
            q *= min((s @ r) / (r @ r), 1e3)
        for s, r, share in reversed(used):
            q += s * (share - (r @ q) / (s @ r))
        return q if q @ g > 0 else g  # a direction that climbs is no direction

    def _largest(self, ids: Ids) -> Values:
        return np.array([self.weights.get(i, 0.0) for i in ids.tolist()])

    def _keep_largest(self, ids: Ids, read: Values) -> None:
        self.weights.update(zip(ids.tolist(), read.tolist(), strict=True))
        if len(self.weights) > self.k:
            every, values = np.array(list(self.weights)), np.array(list(self.weights.values()))
            kept = np.argpartition(-np.abs(values), self.k)[: self.k]
            self.weights = dict(zip(every[kept].tolist(), values[kept].tolist(), strict=True))


def _on(ids: Ids, others: Ids, values: Values) -> Values:
    """Return values of other features, both ascending, at the features `ids`; 0 where there is none."""
    places = np.minimum(np.searchsorted(others, ids), len(others) - 1)
    return np.where(others[places] == ids, values[places], 0.0)
