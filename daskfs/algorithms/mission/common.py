"""Common features: candidates of the refit that the table of largest weights leaves out.

The table holds the features with the largest weights. A feature that is in many rows may contribute more to the scores
with a smaller weight. Such features are seen often, so the first rows show them: those in at least one row in
`_ONE_IN`, with the largest correlation with the target. The refit compares the features with the largest weights with
those that contribute most among these and the common features, by the loss of rows left out of the fit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.mission.memory_kernels import SparseRows
from daskfs.algorithms.mission.rows import slice_rows
from daskfs.algorithms.mission.table_kernels import find_ids, insert_ids

_ONE_IN = 100
_LEAST, _MOST = 16, 1024  # candidates: half of the features to select, within these limits
_LOOK = 1 << 15  # entries in which common features are sought, in at least _LOOK_ROWS rows
_LOOK_ROWS = 256
_FEWEST = 3  # of these rows that have a common feature


def most_common(n_select: int) -> int:
    """Return how many common features are compared at most."""
    return min(_MOST, max(_LEAST, n_select // 2))


def common_features(rows: SparseRows, n_scores: int, n_select: int) -> NDArray[np.uint64]:
    """Return the common features in these rows with the largest correlation with the target, in ascending order."""
    stop = max(int(np.searchsorted(rows.indptr, _LOOK, side="right")) - 1, min(len(rows.y), _LOOK_ROWS))
    features, counts = np.unique(slice_rows(rows, 0, stop).ids, return_counts=True)
    features = features[counts >= max(_FEWEST, stop / _ONE_IN)]
    keys = np.zeros(1 << (2 * len(features)).bit_length(), np.uint64)
    insert_ids(features, keys)
    slots, of_row = find_ids(rows.ids, keys), np.repeat(np.arange(len(rows.y)), np.diff(rows.indptr))
    known = slots >= 0
    slots, of_row, values = slots[known], of_row[known], rows.values[known].astype(np.float64)
    n = len(rows.y)
    mean = np.bincount(slots, values, len(keys)) / n
    variance = np.bincount(slots, np.square(values), len(keys)) / n - mean**2
    targets = rows.y[:, None] if n_scores == 1 else rows.y[:, None] == np.arange(n_scores)
    residuals = (targets - targets.mean(axis=0)) / n
    covariance = np.array([np.bincount(slots, values * column[of_row], len(keys)) for column in residuals.T])
    spread = np.sqrt(np.where(variance > 0, variance, np.inf))
    strength = (np.abs(covariance) / spread).sum(axis=0)[find_ids(features, keys)]
    return np.sort(features[np.argsort(-strength, kind="stable")[: most_common(n_select)]])
