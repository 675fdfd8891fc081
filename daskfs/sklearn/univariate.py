"""`SelectKBest` and `VarianceThreshold`, with the parameters and attributes of scikit-learn's, for data of any size.

A dask or Zarr array is read once, chunk by chunk and in any chunking: a task turns a chunk into the moments of its
columns, and the moments are merged. Datasets are read by `daskfs.select`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from dask.array import Array as DaskArray
from dask.array import from_array
from dask.base import compute
from dask.delayed import delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin, chi2, f_classif, f_regression
from sklearn.utils import Tags, assert_all_finite, column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from daskfs.algorithms.losses import Floats
from daskfs.algorithms.univariate import UnivariateScores
from daskfs.algorithms.univariate.moments import (
    Groups,
    Moments,
    Score,
    best_columns,
    column_scores,
    dense_moments,
    moments_without_gaps,
    p_values,
    q_values,
    sparse_column_moments,
)
from daskfs.algorithms.univariate.scoring import NEGATIVE
from daskfs.engine.cluster.pool import current_client
from daskfs.engine.cluster.waiting import call, with_retries
from daskfs.engine.run import select
from daskfs.engine.shards import merge_tree
from daskfs.errors import OptionError, check_choice, check_whole
from daskfs.selection.column_slices import as_dataset, slice_columns
from daskfs.sklearn.base import check_columns, column_names, in_memory, is_lazy, names_of, set_columns, take_columns
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.ingest.arrays import stored_dtype

ScoreFunction = Literal["f_classif", "f_regression", "chi2"]
_FUNCTIONS: dict[Any, ScoreFunction] = {f_classif: "f_classif", f_regression: "f_regression", chi2: "chi2"}


class _TargetRows(NamedTuple):
    """The score to compute, and the target of all rows."""

    score: Score
    groups: Groups  # the class of every row
    n_groups: int
    y: Floats  # the target of every row, if it is a number


class StreamedSelector(SelectorMixin, BaseEstimator):
    """An estimator that scores every column in one pass over X, and keeps some columns."""

    n_features_in_: int

    def transform(self, X: Any) -> Any:
        """Return the selected columns of X in the order of X, as a lazy array if X is a dask or Zarr array."""
        check_is_fitted(self)
        X, columns = _lazy(X), self.get_support(indices=True)
        if (dataset := as_dataset(X)) is not None:
            return slice_columns(dataset, columns.astype(np.uint64), dataset.names(columns)).to_array()
        if is_lazy(X):
            check_columns(self, X)
            return take_columns(X, columns)
        return super().transform(in_memory(X))

    def _score_dataset(self, dataset: Dataset, score: Score) -> Floats:
        """Return the scores of all columns of a dataset; a sparse column without entries is a constant one."""
        set_columns(self, dataset.n_features, names_of(dataset))
        if int(dataset.attributes["max_id"]) >= dataset.n_features:
            raise OptionError(f"{dataset.url}: features are hashes, and no columns: use daskfs.Univariate")
        selection = select(dataset, UnivariateScores(dataset.meta.n_features, score))
        scores = np.full(dataset.n_features, 0.0 if score in ("f_regression", "variance") else np.nan)
        scores[selection.features] = selection.statistics["score"]
        return scores

    def _score_array(self, X: Any, rows: _TargetRows) -> Floats:
        """Return the scores of all columns of an array in memory or a lazy array."""
        if not is_lazy(X):
            return column_scores(rows.score, chunk_moments(X, rows, 0, 0))
        set_columns(self, X.shape[1], column_names(X))
        return np.concatenate(
            [column_scores(rows.score, part) for part in _lazy_moments(X if isinstance(X, DaskArray) else X.data, rows)]
        )


class SelectKBest(StreamedSelector):
    """Keep the k columns with the best scores, each by itself: scikit-learn's `SelectKBest` for data of any size.

    Scores and p-values equal those of scikit-learn, without warnings about constant columns. Columns are scored in
    float64, relative to a value of the column, so that columns far from 0 lose no digits.

    Parameters
    ----------
    score_func
        "f_classif", "f_regression" or "chi2", or scikit-learn's function of that name.
    k
        How many columns to keep, or "all".

    Attributes
    ----------
    scores_, pvalues_
        The score and p-value of every column.
    qvalues_
        The q-value of every column (Benjamini and Hochberg): the columns with q-values up to 0.05 have a false
        discovery rate of at most 5 %.

    Examples
    --------
    >>> import dask.array as da
    >>> from daskfs.sklearn import SelectKBest
    >>> X = np.random.default_rng(0).normal(size=(2000, 50))
    >>> best = SelectKBest(k=2).fit(da.from_array(X, chunks=(500, 20)), X[:, 7] > X[:, 30])
    >>> best.get_support(indices=True), best.qvalues_[[7, 30]] < 0.001
    (array([ 7, 30]), array([ True,  True]))
    """

    scores_: Floats
    pvalues_: Floats
    qvalues_: Floats

    def __init__(
        self, score_func: ScoreFunction | Callable[..., Any] = "f_classif", *, k: int | Literal["all"] = 10
    ) -> None:
        self.score_func, self.k = score_func, k

    def fit(self, X: Any, y: Any = None) -> Self:
        """Score the columns of X against y.

        Parameters
        ----------
        X
            A matrix of samples and features in memory, a dask or Zarr array, or a daskfs dataset or its path.
        y
            The target of every row, not given for a dataset, which contains a target.
        """
        score: ScoreFunction = _FUNCTIONS.get(self.score_func, self.score_func)  # type: ignore[arg-type]
        if callable(score):
            raise OptionError(f"score_func={self.score_func!r:.80}: give f_classif, f_regression or chi2")
        check_choice("score_func", score, ScoreFunction)
        if self.k != "all":
            check_whole("k", self.k, 0)
        X = _lazy(X)
        if (dataset := as_dataset(X)) is not None:
            if y is not None:
                raise OptionError("a dataset brings its labels: fit it without y")
            self.scores_ = self._score_dataset(dataset, score)
            target = np.concatenate(list(dataset.targets()))
        else:
            X, target = self._check(X, y, score)
            self.scores_ = self._score_array(X, _rows(score, target))
        n_classes = len(np.unique(target)) if score != "f_regression" else 0
        self.pvalues_ = p_values(score, self.scores_, len(target), n_classes)
        self.qvalues_ = q_values(self.pvalues_)
        if self.k != "all" and self.k > self.n_features_in_:
            warnings.warn(
                f"k={self.k} is greater than n_features={self.n_features_in_}. All the features will be returned.",
                stacklevel=2,
            )
        return self

    def _check(self, X: Any, y: Any, score: ScoreFunction) -> tuple[Any, NDArray[Any]]:
        """Return X and y after scikit-learn's validation of data in memory."""
        if not is_lazy(X):
            options = {"accept_sparse": ["csr", "csc"], "y_numeric": score == "f_regression"}
            X, target = validate_data(self, in_memory(X), y, **options)
            return X, target
        if y is None:
            raise OptionError("y: a lazy array needs the target of its rows beside it")
        target = column_or_1d(np.asarray(y))
        assert_all_finite(target, input_name="y")
        check_consistent_length(X, target)
        return X, target

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(len(self.scores_), np.bool_)
        mask[best_columns(self.scores_, len(mask) if self.k == "all" else self.k)] = True
        return mask


class VarianceThreshold(StreamedSelector):
    """Keep the columns whose variance is above a threshold: scikit-learn's `VarianceThreshold` for data of any size.

    The variance of a constant column is exactly 0. Missing values (NaN) are left out. With ``threshold=0``,
    scikit-learn's `variances_` has the range of a column where the range is less than the variance; here it always has
    the variance.

    Parameters
    ----------
    threshold
        Columns with a variance up to the threshold are dropped; by default those that are constant.

    Attributes
    ----------
    variances_
        The variance of every column.

    Examples
    --------
    >>> import dask.array as da
    >>> from daskfs.sklearn import VarianceThreshold
    >>> X = da.from_array(np.array([[0, 2, 0, 3], [0, 1, 4, 3], [0, 1, 1, 3]]), chunks=(2, 2))
    >>> VarianceThreshold().fit(X).get_support(indices=True)
    array([1, 2])
    """

    variances_: Floats

    def __init__(self, threshold: float = 0.0) -> None:
        self.threshold = threshold

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the variance of every column of X.

        Parameters
        ----------
        X
            A matrix of samples and features in memory, a dask or Zarr array, or a daskfs dataset or its path.
        y
            Not used.
        """
        X = _lazy(X)
        if (dataset := as_dataset(X)) is not None:
            self.variances_ = self._score_dataset(dataset, "variance")
        else:
            if not is_lazy(X):
                options = {"accept_sparse": ["csr", "csc"], "ensure_all_finite": "allow-nan"}
                X = validate_data(self, in_memory(X), **options)
            self.variances_ = self._score_array(X, _rows("variance", np.zeros(X.shape[0])))
        if not (self.variances_ > self.threshold).any():
            alone = " (X contains only one sample)" if X.shape[0] == 1 else ""
            raise OptionError(f"No feature in X meets the variance threshold {self.threshold:.5f}{alone}")
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self.variances_ > self.threshold


def chunk_moments(chunk: Any, rows: _TargetRows, start: int, first: int) -> Moments:
    """Return the moments of a chunk of X, numpy or scipy.sparse, that begins at row `start` and at column `first`."""
    of_chunk = slice(start, start + chunk.shape[0])
    groups, y = rows.groups[of_chunk], rows.y[of_chunk]
    chunk = _canonical(chunk) if sp.issparse(chunk) else np.asarray(chunk)
    chunk = chunk.astype(stored_dtype(chunk.dtype), copy=False)
    values = chunk.data if sp.issparse(chunk) else chunk
    if rows.score == "variance" and np.isnan(values).any():
        return moments_without_gaps(chunk)
    if rows.score == "chi2" and values.size and values.min() < 0:
        at = int(np.argmax(np.asarray((chunk < 0).sum(axis=0)).ravel() > 0))
        raise OptionError(f"column {first + at} of X: {NEGATIVE.format(float(chunk[:, [at]].min()))}")
    if sp.issparse(chunk):
        indptr, indices = chunk.indptr.astype(np.int64), chunk.indices.astype(np.uint32)
        moments = sparse_column_moments(indptr, indices, values, groups, rows.n_groups, y)
    else:
        moments = dense_moments(values, groups, rows.n_groups, y)
    if not np.isfinite(moments.within).all():
        column = first + int(np.argmin(np.isfinite(moments.within)))
        raise OptionError(f"column {column} of X has NaN, or a value that is infinite or too large")
    return moments


def _canonical(matrix: Any) -> Any:
    """Return a sparse matrix in CSC form without duplicates; the argument is not changed."""
    columns = matrix.tocsc()
    if not columns.has_canonical_format:
        columns = columns.copy()
        columns.sum_duplicates()
    return columns


def merge_moments(*parts: Moments) -> Moments:
    """Return the moments of the rows of all parts."""
    return reduce(Moments.merge, parts)


def _lazy_moments(X: DaskArray, rows: _TargetRows) -> list[Moments]:
    """Return the moments of every chunk of columns, computed in one pass over X."""
    client = current_client()
    if client is None:
        return list(compute(*_moment_tasks(X, delayed(rows, traverse=False))))

    def attempt() -> list[Moments]:
        (target,) = call(client, partial(client.scatter, [rows], hash=False))
        futures = client.compute(_moment_tasks(X, target))
        return list(call(client, client.gather, futures, waits_for=futures))

    return with_retries(client, attempt)


def _moment_tasks(X: DaskArray, target: Any) -> list[Any]:
    """Return a delayed task for the moments of every chunk of columns."""
    tops, lefts = (np.cumsum([0, *sizes[:-1]]).tolist() for sizes in X.chunks)
    return [
        merge_tree(
            [delayed(chunk_moments)(chunk, target, top, left) for top, chunk in zip(tops, chunks, strict=True)],
            delayed(merge_moments),
        )
        for left, chunks in zip(lefts, X.to_delayed().T, strict=True)
    ]


def _rows(score: Score, target: NDArray[Any]) -> _TargetRows:
    """Return the target as classes, or as numbers for the score "f_regression"; there is none for "variance"."""
    none = np.empty(0)
    if score == "f_regression":
        return _TargetRows(score, np.zeros(len(target), np.int32), 1, target.astype(np.float64))
    if score == "variance":
        return _TargetRows(score, np.zeros(len(target), np.int32), 1, none)
    classes, groups = np.unique(target, return_inverse=True)
    return _TargetRows(score, groups.astype(np.int32), len(classes), none)


def _lazy(X: Any) -> Any:
    """Return a Zarr array as a dask array, whose chunks are whole chunks of the store, and any other X as it is."""
    if is_lazy(X) and np.isnan(X.shape).any():
        raise OptionError("X has chunks of unknown size: call X.compute_chunk_sizes() first")
    return from_array(X) if type(X).__module__.split(".")[0] == "zarr" else X
