"""The base class of all estimators, which converts X and y to a dataset and runs the feature selection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, get_args, get_type_hints

import numpy as np
import pandas as pd
import scipy.sparse as sp
from dask.array import Array as DaskArray
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data

from daskfs.algorithms.losses import loss_for
from daskfs.algorithms.registry import Estimator, Registration, default_of, fields_of
from daskfs.engine.data.write import write_dataset
from daskfs.engine.run import select
from daskfs.errors import OptionError, check_choice, check_whole
from daskfs.protocol import Algorithm, Meta
from daskfs.selection.column_slices import as_dataset
from daskfs.selection.selection import Selection
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest.arrays import encode_target
from daskfs.store.ingest.gaps import Missing, complete_rows, fill_matrix

DEFAULT_SELECT = 100
"""The largest number of features that an estimator selects if the parameter `n_select` is not given."""


class SelectingEstimator(BaseEstimator):
    """An estimator whose `fit` runs a selection algorithm and stores the `daskfs.Selection` as `selection_`."""

    _registration: ClassVar[Registration]
    _estimator: ClassVar[Estimator]
    _numeric_target: ClassVar[bool] = False
    _default_share: ClassVar[float] = 1.0
    """The share of all features that an estimator selects if the parameter `n_select` is not given."""
    missing: Missing
    random_state: Any
    n_features_in_: int
    selection_: Selection

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Select features of X and fit a model of y.

        Parameters
        ----------
        X
            A matrix of samples and features, or a daskfs dataset or its path.
        y
            The target of every row, not given for a dataset, which contains a target. Estimators of Online
            Substitution other than classifiers also take several numbers a row, ``(rows, targets)``.
        sample_weight
            The weight of every row, not given for a dataset, which contains row weights.
        groups
            With error control: which rows belong together, as a name or number for every row.
        """
        if groups is not None and self.missing == "drop":
            raise OptionError("groups: missing='drop' leaves out rows, and these groups are of all rows")
        with self._open(X, y, sample_weight) as dataset:
            selection = select(dataset, self._algorithm_for(dataset.meta), seed=self._seed(), groups=groups)
        if is_lazy(X):  # the dataset was a temporary one
            selection = replace(selection, source={**selection.source, "url": "X"})
        self.selection_ = self._with_labels(selection)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = self._estimator.several_targets
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "selection_" in vars(self)

    def _encode(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return the target y as numbers or strings that a dataset can store."""
        type_of_target(y, input_name="y", raise_unknown=True)
        return y

    def _learn_labels(self, dataset: Dataset) -> None:
        """Store the class labels of a dataset in the estimator, if the estimator is a classifier."""

    def _with_labels(self, selection: Selection) -> Selection:
        """Return the selection with the original class labels that were passed to `fit`."""
        return selection

    def _with_target(self, dataset: Dataset) -> Dataset:
        """Return the dataset with a target of the kind that the estimator needs, such as a real target."""
        return dataset

    def _algorithm_for(self, meta: Meta) -> Algorithm:
        """Return the algorithm with the estimator's parameters, where "auto" and None are replaced to suit the data."""
        algorithm = self._registration.algorithm
        names = fields_of(algorithm)
        for name, reason in self._estimator.refuses.items():
            if getattr(self, name) != default_of(algorithm, name):
                raise OptionError(f"{name}: {reason}")
        values = {name: getattr(self, name) for name in names if hasattr(self, name)}
        if "loss" in names:
            values["loss"] = self._loss_for(meta)
        if default_of(algorithm, "n_select") is MISSING:
            values["n_select"] = self._n_select_for(meta)
        return algorithm(**values)

    def _loss_for(self, meta: Meta) -> str:
        loss: str = getattr(self, "loss", "squared")
        return self._auto_loss(meta) if loss == "auto" else loss

    def _auto_loss(self, meta: Meta) -> str:
        """Return the default loss for the target, or "auto" where the algorithm decides."""
        known = get_args(get_type_hints(self._registration.algorithm)["loss"])
        if "auto" in known:
            return "auto"
        return loss_for(meta, several="softmax" if "softmax" in known else "logistic")

    def _n_select_for(self, meta: Meta) -> int:
        n_select = getattr(self, "n_select", None)
        if n_select is None:
            return min(DEFAULT_SELECT, max(1, int(self._default_share * meta.n_features)))
        check_whole("n_select", n_select, 1)
        return int(n_select)

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    @contextmanager
    def _open(self, X: Any, y: Any, sample_weight: Any) -> Iterator[Dataset]:
        """Yield X, y and sample weights as one dataset, after scikit-learn's validation of data in memory."""
        dataset, axis = as_dataset(X), self._registration.algorithm.axis  # type: ignore[attr-defined]  # a class
        if dataset is not None:
            if y is not None or sample_weight is not None:
                raise OptionError("a dataset brings its labels and weights: fit it without y and sample_weight")
            set_columns(self, dataset.n_features, names_of(dataset))
            self._learn_labels(dataset)
            yield self._with_target(dataset)
        elif is_lazy(X):
            if sample_weight is not None:
                raise OptionError("sample_weight: rows of dask arrays have no weights; give them in memory")
            if y is None:
                raise OptionError("y: a dask array needs the target of its rows beside it")
            target = self._one_or_several(np.asarray(y))
            check_consistent_length(X, target)
            set_columns(self, X.shape[1], column_names(X))
            encoded: Any = self._encode(target)
            if target.ndim == 2 and _target_names(y) is not None:
                encoded = pd.DataFrame(encoded, columns=_target_names(y))
            with TemporaryDirectory(prefix="daskfs-") as folder:  # written a chunk at a time
                write_dataset(Path(folder) / "X", X, encoded, layout=axis, missing=self.missing)
                yield self._with_target(open_dataset(Path(folder) / "X"))
        else:
            check_choice("missing", self.missing, Missing)
            names_of_targets = _target_names(y)
            X, target = self._validate(X, y, ensure_min_samples=2)
            target = self._one_or_several(target)
            weight = None if sample_weight is None else check_weight(sample_weight, X)
            if self.missing == "drop" and not (complete := complete_rows(X)).all():
                X, target, weight = X[complete], target[complete], None if weight is None else weight[complete]
            X, names, fills = fill_matrix(X, self.missing, getattr(self, "feature_names_in_", None))
            labels = encode_target(self._encode(target), names_of_targets)
            yield self._with_target(InMemory(X, *labels, axis, names, weight, fills))

    def _validate(self, X: Any, y: Any, **options: Any) -> Any:
        """Return X and y, or X alone if y is "no_validation", after scikit-learn's validation of data in memory."""
        finite = True if self.missing == "error" else "allow-nan"
        rules: dict[str, Any] = {"accept_sparse": "csr", "dtype": "numeric", "ensure_all_finite": finite, **options}
        if not isinstance(y, str):
            rules["y_numeric"] = self._numeric_target
            rules["multi_output"] = self._estimator.several_targets
        return validate_data(self, in_memory(X), y, **rules)

    def _one_or_several(self, target: Any) -> NDArray[Any]:
        """Return a target of one column as a vector, and several targets, if the estimator takes them, unchanged."""
        if sp.issparse(target):
            raise OptionError("y is sparse: give several targets as a dense array, y.toarray()")
        array: NDArray[Any] = target[:, 0] if target.ndim == 2 and target.shape[1] == 1 else target
        if array.ndim == 2 and not self._estimator.several_targets:
            raise OptionError(f"y has shape {array.shape}, and {type(self).__name__} takes one target")
        return array

    def _readable(self, X: Any) -> Any:
        """Return X in a form that `Selection.predict` accepts, after scikit-learn's validation of data in memory."""
        check_is_fitted(self)
        if (dataset := as_dataset(X)) is not None:
            return dataset
        if not is_lazy(X):
            checked = self._validate(X, "no_validation", reset=False)
            return checked.astype(np.float32) if sp.issparse(checked) else checked  # fit reads sparse data as float32
        check_columns(self, X)
        return X


def set_columns(estimator: Any, count: int, names: NDArray[Any] | None) -> None:
    """Store the number of columns and, if there are any, their names as attributes of a fitted estimator."""
    estimator.n_features_in_ = count
    if names is not None:
        estimator.feature_names_in_ = names
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_columns(estimator: Any, X: Any) -> None:
    """Raise OptionError if a lazy X has other columns than the estimator was fitted with."""
    if X.shape[1] != estimator.n_features_in_:
        raise OptionError(f"X has {X.shape[1]} columns, the estimator was fitted with {estimator.n_features_in_}")
    _check_names(column_names(X), getattr(estimator, "feature_names_in_", None))


def is_lazy(X: Any) -> bool:
    """Return True if X is a dask array, or an xarray.DataArray that contains a dask array."""
    return isinstance(X, DaskArray) or (_is_xarray(X) and isinstance(X.data, DaskArray))


def in_memory(X: Any) -> Any:
    """Return X as a type that scikit-learn accepts, with xarray.DataArray converted to DataFrame or numpy array."""
    if not _is_xarray(X):
        return X
    names = column_names(X)
    return X.values if names is None else pd.DataFrame(X.values, columns=names, copy=False)


def column_names(X: Any) -> NDArray[Any] | None:
    """Return the column names of X if X is an xarray.DataArray with column names, otherwise None."""
    coordinate = X.coords.get(X.dims[-1]) if _is_xarray(X) else None
    return coordinate.values.astype(object) if coordinate is not None and coordinate.dtype.kind in "OUT" else None


def take_columns(X: Any, columns: NDArray[np.intp]) -> Any:
    """Return the given columns of a lazy array as a lazy array."""
    return X.isel({X.dims[-1]: columns}) if _is_xarray(X) else X[:, columns]


def check_weight(sample_weight: Any, X: Any) -> NDArray[np.float32]:
    """Return sample weights as float32, after scikit-learn's validation of the weights."""
    weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True, allow_all_zero_weights=False)
    return np.asarray(weight, np.float32)


def _is_xarray(X: Any) -> bool:
    return hasattr(X, "dims") and hasattr(X, "coords") and not hasattr(X, "data_vars")


def _check_names(names: NDArray[Any] | None, fitted: NDArray[Any] | None) -> None:
    """Raise OptionError if the column names of X differ from the column names in `fit`."""
    if names is not None and fitted is not None and not np.array_equal(names, fitted):
        at = int(np.flatnonzero(names != fitted)[0])
        raise OptionError(
            f"column {at} of X is {names[at]!r:.60}, the estimator was fitted with {fitted[at]!r:.60} there"
        )


def _target_names(y: Any) -> list[str] | None:
    """Return the names of several targets if y is a DataFrame, otherwise None."""
    columns = getattr(y, "columns", None)
    return None if columns is None or len(columns) < 2 else [str(name) for name in columns]


def names_of(dataset: Dataset) -> NDArray[Any] | None:
    """Return the column names of a dataset, or None if the dataset has no column names, as with hashed features."""
    if dataset.attributes["names"]["from"] != "columns":
        return None
    return np.array(dataset.names(np.arange(dataset.n_features)), object)
