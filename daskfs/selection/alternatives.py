"""Columns that could stand in for a selected feature, because they are correlated with it: one pass over the data.

Dense columns are compared in at most `SAMPLE_ROWS` evenly spaced rows, sparse columns in all rows. Data laid out in
columns are compared block by block. Data laid out in rows need a sum for every feature and every column, and are left
out if these take too much memory. Weights of rows do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.protocol import ColumnBlock, RowBlock, SparseBlock, SparseColumnBlock
from daskfs.selection.column_slices import ColumnSlice, FeatureIds
from daskfs.selection.evaluation import CountProgress
from daskfs.selection.intervals import FloatArray
from daskfs.selection.row_sample import RowSample
from daskfs.store.dataset.dataset import Dataset

MOST = 3  # alternatives of a feature
LEAST_CORRELATION = 0.5
LEAST_ENTRIES = 10  # of a sparse column; with fewer, chance alone makes correlations
SAMPLE_ROWS = 1 << 11  # a correlation of 0.5 is known to 0.02
MOST_SUMS = 1 << 22  # 32 MB, for data laid out in rows
MOST_ENTRIES = 1 << 21  # of the selected features of data in sparse columns, which are held in memory
CONSTANT = 1e-6  # a standard deviation below this share of the mean is rounding of float32
MOST_BYTES = 1 << 36  # of a dataset, which this process reads alone


@dataclass(frozen=True, slots=True)
class Alternative:
    """A column that is correlated with a selected feature."""

    id: int
    name: str
    correlation: float


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Alternatives of features.

    Parameters
    ----------
    by_feature
        At most `MOST` alternatives of each feature by its id, the strongest correlation first; empty if there are
        none. A feature that was not compared is missing.
    reason
        A sentence that says why features are missing, or "".
    """

    by_feature: dict[int, list[Alternative]]
    reason: str = ""


def find_alternatives(dataset: Dataset, ids: FeatureIds, excluded: FeatureIds, progress: CountProgress) -> Alternatives:
    """Return the columns of a dataset that are most correlated with some of its columns.

    A correlation must be at least `LEAST_CORRELATION`, and larger than chance gives among that many columns and rows.

    Parameters
    ----------
    dataset
        The dataset.
    ids
        The columns that others may stand in for.
    excluded
        Columns that are no alternatives, because they are selected themselves.
    progress
        Called now and then with the number of blocks done and the total number.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 5))
    >>> X[:, 4] = X[:, 3] + 0.1 * X[:, 0]
    >>> _ = daskfs.write_dataset("small.zarr", X, X[:, 3])
    >>> dataset, ids = daskfs.open_dataset("small.zarr"), np.array([3], np.uint64)
    >>> find_alternatives(dataset, ids, ids, print).by_feature[3][0].name
    1 1
    'x4'
    """
    if not len(ids):
        return Alternatives({})
    if reason := _expense(dataset, len(ids)):
        return Alternatives({}, reason)
    if dataset.axis == "rows":
        pieces, compared = _in_rows(dataset, ids, progress), len(ids)
    elif dataset.kind == "dense":
        pieces, compared = _in_columns(dataset, ids, progress), len(ids)
    else:
        selected = _SparseColumns(dataset, ids)
        pieces, compared = selected.correlations(progress), selected.count
    strongest = _Strongest(compared, _floor(dataset, compared))
    for columns, correlations in pieces:
        strongest.add(columns, np.where(np.isin(columns, excluded), 0.0, correlations))
    columns_of = [strongest.of(at) for at in range(compared)]
    names = dataset.names(np.array([column for each in columns_of for _, column in each], np.uint64))
    named = iter(names)
    by_feature = {
        int(feature): [Alternative(column, next(named), correlation) for correlation, column in each]
        for feature, each in zip(ids[:compared].tolist(), columns_of, strict=True)
    }
    reason = "" if compared == len(ids) else f"Only the first {compared:,} features were compared with all others."
    return Alternatives(by_feature, reason)


def _expense(dataset: Dataset, n_features: int) -> str:
    """Return why a pass over the dataset would be too expensive, or ""."""
    if int(dataset.block_sizes().sum()) > MOST_BYTES:
        return f"Correlated features were not looked for: the dataset has more than {MOST_BYTES >> 30} GiB."
    width = int(dataset.attributes["max_id"]) + 1
    if dataset.axis == "rows" and width * n_features > MOST_SUMS:
        return (
            "Correlated features were not looked for: the data are laid out in rows, and have feature ids up to "
            f"{width - 1:,}."
        )
    return ""


def _floor(dataset: Dataset, n_features: int) -> float:
    """Return the least correlation that is reported, above what chance gives the strongest of unrelated columns."""
    rows = dataset.n_samples if dataset.kind == "sparse" else min(dataset.n_samples, SAMPLE_ROWS)
    pairs = max(2, dataset.n_features * n_features)
    return max(LEAST_CORRELATION, math.sqrt(2 * math.log(pairs) / max(rows, 1)))


class _Strongest:
    """The strongest correlations of features, at most `MOST` of each."""

    def __init__(self, n_features: int, floor: float) -> None:
        self._floor = floor
        self._pairs: list[list[tuple[float, int]]] = [[] for _ in range(n_features)]

    def add(self, columns: FeatureIds, correlations: NDArray[np.floating]) -> None:
        """Add columns with their correlations ``(features, columns)``."""
        pairs = np.argwhere(np.abs(correlations) >= self._floor)
        for at, column in pairs.tolist():
            self._pairs[at].append((float(correlations[at, column]), int(columns[column])))
        for at in set(pairs[:, 0].tolist()):
            self._pairs[at] = self.of(at)

    def of(self, at: int) -> list[tuple[float, int]]:
        """Return correlation and id of the strongest, those of equal correlation in order of their ids."""
        return sorted(self._pairs[at], key=lambda pair: (-abs(pair[0]), pair[1]))[:MOST]


Correlated = Iterator[tuple[FeatureIds, NDArray[np.floating]]]
"""Ids of columns, and the correlations of all features with them, ``(features, columns)``."""


def _in_columns(dataset: Dataset, ids: FeatureIds, progress: CountProgress) -> Correlated:
    """Yield the correlations with every block of dense columns."""
    sample = RowSample(dataset.n_samples, len(ids), SAMPLE_ROWS)
    order = np.argsort(ids)
    done = 0
    for some in dataset.columns(ids):
        assert isinstance(some, ColumnBlock)
        sample.add(ColumnSlice(slice(0, dataset.n_samples), order[done : done + len(some.ids)], some.X))
        done += len(some.ids)
    selected = _unit_rows(sample.cells.T)
    for number, block in enumerate(dataset.blocks(axis="columns"), 1):
        assert isinstance(block, ColumnBlock)
        others = _unit_rows(block.X.T[:, :: sample.step])
        yield block.ids.copy(), selected.astype(others.dtype) @ others.T
        progress(number, dataset.n_blocks("columns"))


def _unit_rows(cells: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return rows minus their means, divided by their lengths; zeros for a row that is constant but for rounding."""
    means = cells.mean(axis=1, keepdims=True)
    centred: NDArray[np.floating] = cells - means
    lengths = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
    varies = lengths > CONSTANT * math.sqrt(cells.shape[1]) * np.abs(means)
    centred *= np.divide(1, lengths, where=varies, out=np.zeros_like(lengths))
    return centred


class _SparseColumns:
    """The first of the selected features that have at most `MOST_ENTRIES` entries together, as one matrix."""

    def __init__(self, dataset: Dataset, ids: FeatureIds) -> None:
        self._dataset, self.count, total = dataset, 0, 0
        columns = []
        for feature in ids.tolist():
            blocks = [_matrix(block, dataset.n_samples) for block in dataset.columns([feature])]
            total += sum(block.nnz for block in blocks)
            if self.count and total > MOST_ENTRIES:
                break
            columns += blocks
            self.count += 1
        self._selected = scipy.sparse.hstack(columns, format="csr").astype(np.float64)

    def correlations(self, progress: CountProgress) -> Correlated:
        """Yield the correlations with every block of columns."""
        n_rows, blocks = self._dataset.n_samples, self._dataset.n_blocks("columns")
        own = _moments(self._selected)
        for number, block in enumerate(self._dataset.blocks(axis="columns"), 1):
            assert isinstance(block, SparseColumnBlock)
            others = _matrix(block, n_rows)
            products = (others.T @ self._selected).T.toarray()
            few = np.diff(block.indptr) < LEAST_ENTRIES
            yield block.ids.copy(), np.where(few, 0, _correlations(products, own, _moments(others), n_rows))
            progress(number, blocks)


def _matrix(block: ColumnBlock | SparseColumnBlock, n_rows: int) -> scipy.sparse.csc_array:
    assert isinstance(block, SparseColumnBlock)
    return scipy.sparse.csc_array((block.values, block.rows, block.indptr), shape=(n_rows, len(block.ids)))


def _moments(matrix: scipy.sparse.sparray) -> FloatArray:
    """Return the sums of all columns, and of their squares: ``(2, columns)``."""
    matrix = matrix.astype(np.float64)
    return np.stack([matrix.sum(axis=0), matrix.power(2).sum(axis=0)])


def _correlations(products: FloatArray, left: FloatArray, right: FloatArray, rows: int) -> FloatArray:
    """Return the correlations of columns from the sums of products and the moments; 0 for constant columns."""
    covariance = products / rows - np.outer(left[0] / rows, right[0] / rows)
    spreads = []
    for sums, squares in (left, right):
        variance = squares / rows - (sums / rows) ** 2
        varies = variance > 1e-12 * squares / rows  # the rest is rounding
        spreads.append(np.sqrt(np.divide(1, variance, where=varies, out=np.zeros_like(variance))))
    result: FloatArray = covariance * np.outer(*spreads)
    return result


def _in_rows(dataset: Dataset, ids: FeatureIds, progress: CountProgress) -> Correlated:
    """Yield the correlations with all columns once all rows are read."""
    width = int(dataset.attributes["max_id"]) + 1
    step = 1 if dataset.kind == "sparse" else RowSample(dataset.n_samples, 0, SAMPLE_ROWS).step
    products, moments, entries = np.zeros((len(ids), width)), np.zeros((2, width)), np.zeros(width, np.int64)
    columns, origin, rows = ids.astype(np.intp), None, 0
    for number, block in enumerate(dataset.blocks(axis="rows"), 1):
        if isinstance(block, SparseBlock):
            X = scipy.sparse.csr_array((block.values.astype(np.float64), block.ids.astype(np.int64), block.indptr))
            X.resize(len(block.y), width)
            sums = (X[:, columns].T @ X).tocoo()
            products[sums.coords] += sums.data  # every index occurs once
            moments += _moments(X)
            entries += np.bincount(X.indices, minlength=width)
            rows += len(block.y)
        else:
            assert isinstance(block, RowBlock)
            cells = block.X[-block.first % step :: step].astype(np.float64)
            if origin is None:
                origin = cells[0].copy()
            cells -= origin  # so that columns far from 0 lose few digits
            products += cells[:, columns].T @ cells
            moments += np.stack([cells.sum(axis=0), np.square(cells).sum(axis=0)])
            rows += len(cells)
        progress(number, dataset.n_blocks("rows"))
    result = _correlations(products, moments[:, columns], moments, rows)
    if dataset.kind == "sparse":
        result[:, entries < LEAST_ENTRIES] = 0
    yield np.arange(width, dtype=np.uint64), result
