"""What all estimators have in common: data of any kind goes in, a selection comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data

from daskfs.engine.run import select
from daskfs.errors import OptionError, check_whole
from daskfs.protocol import Algorithm, Axis, Meta
from daskfs.selection.column_slices import as_dataset
from daskfs.selection.selection import Selection
from daskfs.sklearn.inputs import column_names, in_memory, is_lazy, written
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest.arrays import encode_target

FEW = 100
"""Features that are chosen at most where nobody says how many: of millions neither all nor half would do."""


class SelectingEstimator(BaseEstimator):
    """Runs an algorithm over whatever it is given, and keeps the `daskfs.Selection`."""

    _algorithm: ClassVar[Callable[..., Algorithm]]
    _axis: ClassVar[Axis]
    _numeric_target: ClassVar[bool] = False
    _share: ClassVar[float] = 1.0  # of all features, where nobody says how many
    random_state: Any
    n_features_in_: int
    selection_: Selection

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose features.

        Parameters
        ----------
        X
            Rows and columns; or a dataset, or where one is.
        y
            The target of every row; a dataset brings its own.
        sample_weight
            The importance of every row; a dataset brings its own.
        """
        with self._opened(X, y, sample_weight) as dataset:
            selection = select(dataset, self._algorithm_for(dataset.meta), seed=self._seed())
        if is_lazy(X):  # from a place that is gone
            selection = replace(selection, source={**selection.source, "url": "X"})
        self.selection_ = self._labelled(selection)
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "selection_" in vars(self)

    def _encoded(self, y: NDArray[Any]) -> NDArray[Any]:
        """The target as the store takes it: numbers, or text."""
        type_of_target(y, input_name="y", raise_unknown=True)
        return y

    def _learn_labels(self, dataset: Dataset) -> None:
        """Note what labels a dataset has."""

    def _labelled(self, selection: Selection) -> Selection:
        """A selection with the labels that the estimator was given."""
        return selection

    def _taken(self, dataset: Dataset) -> Dataset:
        """A dataset with its target as this estimator takes it."""
        return dataset

    def _loss_for(self, meta: Meta) -> str:
        """The loss, now that the target is known."""
        raise NotImplementedError

    def _algorithm_for(self, meta: Meta) -> Algorithm:
        """The algorithm, now that the data are known."""
        given = {
            field.name: getattr(self, field.name)
            for field in fields(self._algorithm)  # type: ignore[arg-type]  # a dataclass
            if hasattr(self, field.name)
        }
        given |= {"loss": self._loss_for(meta), "n_select": self._n_select_for(meta)}
        return self._algorithm(**given)

    def _n_select_for(self, meta: Meta) -> int | None:
        """As many as asked for, and no more than there are; or a few."""
        asked = getattr(self, "n_select", None)
        if asked is None:
            return min(FEW, max(1, int(self._share * meta.n_features)))
        check_whole("n_select", asked, 1)
        return min(int(asked), meta.n_features)

    def _seed(self) -> int:
        if isinstance(self.random_state, int | np.integer):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    @contextmanager
    def _opened(self, X: Any, y: Any, sample_weight: Any) -> Iterator[Dataset]:
        """X, y and weights as one dataset, after scikit-learn's checks of what is in memory."""
        dataset = as_dataset(X)
        if dataset is not None:
            if y is not None or sample_weight is not None:
                raise OptionError("a dataset brings its labels and weights: fit it without y and sample_weight")
            self._note_columns(dataset.n_features, _names_of(dataset))
            self._learn_labels(dataset)
            yield self._taken(dataset)
        elif is_lazy(X):
            if sample_weight is not None:
                raise OptionError("sample_weight: rows of dask arrays have no weights; give them in memory")
            if y is None:
                raise OptionError("y: a dask array needs the target of its rows beside it")
            target = np.asarray(y)
            check_consistent_length(X, target)
            self._note_columns(X.shape[1], column_names(X))
            with written(X, self._encoded(target), self._axis) as temporary:
                yield self._taken(temporary)
        else:
            X, target = self._validated(X, y)
            yield self._in_memory(X, self._encoded(target), sample_weight)

    def _validated(self, X: Any, y: Any, reset: bool = True, least: int = 2) -> tuple[Any, NDArray[Any]]:
        checked: tuple[Any, NDArray[Any]] = validate_data(
            self,
            in_memory(X),
            y,
            reset=reset,
            accept_sparse="csr",
            dtype="numeric",
            ensure_min_samples=least,
            y_numeric=self._numeric_target,
        )
        return checked

    def _in_memory(self, X: Any, y: NDArray[Any], sample_weight: Any) -> Dataset:
        weight = None if sample_weight is None else checked_weight(sample_weight, X)
        names = getattr(self, "feature_names_in_", None)
        return self._taken(InMemory(X, *encode_target(y), self._axis, names, weight))

    def _note_columns(self, count: int, names: NDArray[Any] | None) -> None:
        self.n_features_in_ = count
        if names is not None:
            self.feature_names_in_ = names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _readable(self, X: Any) -> Any:
        """X as a selection takes it, after scikit-learn's checks of what is in memory."""
        check_is_fitted(self)
        if (dataset := as_dataset(X)) is not None:
            return dataset
        if not is_lazy(X):
            checked = validate_data(self, in_memory(X), reset=False, accept_sparse="csr", dtype="numeric")
            return checked.astype(np.float32) if sp.issparse(checked) else checked  # which sparse data are learned as
        if X.shape[1] != self.n_features_in_:
            raise OptionError(f"X has {X.shape[1]} columns, the estimator was fitted with {self.n_features_in_}")
        _check_names(column_names(X), getattr(self, "feature_names_in_", None))
        return X


def _check_names(names: NDArray[Any] | None, fitted: NDArray[Any] | None) -> None:
    """OptionError where columns that have names come in another order, or are others."""
    if names is not None and fitted is not None and not np.array_equal(names, fitted):
        at = int(np.flatnonzero(names != fitted)[0])
        raise OptionError(
            f"column {at} of X is {names[at]!r:.60}, the estimator was fitted with {fitted[at]!r:.60} there"
        )


def checked_weight(sample_weight: Any, X: Any) -> NDArray[np.float32]:
    """The weights of rows, after scikit-learn's checks of them."""
    weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True, allow_all_zero_weights=False)
    return np.asarray(weight, np.float32)


def labels_of(dataset: Dataset) -> NDArray[Any]:
    """The target of every row of a dataset, as a person knows it."""
    target = np.concatenate(list(dataset.targets()))
    return target if dataset.classes is None else np.array(dataset.classes)[dataset.meta.class_codes(target)]


def _names_of(dataset: Dataset) -> NDArray[Any] | None:
    """The names of columns that have any; those of hashed features are too many."""
    if dataset.attributes["names"]["from"] != "columns":
        return None
    return np.array(dataset.names(np.arange(dataset.n_features)), object)
