"""`partial_fit`: learning row by row from batches, of which the state of the algorithm is kept and no rows.

(With ``learning_rate="auto"`` MISSION holds the first rows for a while, at most 8,192 of them, to find a rate. A
selection asked for before that is made as if no more rows were to come.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.multiclass import _check_partial_fit_first_call

from daskfs.engine.run import as_selection
from daskfs.errors import OptionError
from daskfs.protocol import Algorithm, RowBlock, SparseBlock, copy_state
from daskfs.selection.selection import Selection
from daskfs.sklearn.base import SelectingEstimator, check_weight
from daskfs.sklearn.roles import Classifier
from daskfs.store.dataset.layout import Labels
from daskfs.store.in_memory import InMemory


class BatchRun:
    """One pass over rows that come in batches; the state is that of `daskfs.select` after the same rows.

    Parameters
    ----------
    algorithm, seed
        The algorithm, and the seed of its random choices.
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
        """Return the selection from the rows so far; more may follow."""
        state, _ = self.algorithm.end_pass(copy_state(self.state))
        columns = InMemory(sp.csr_array((1, width)), np.zeros(1), Labels(False, None), "rows", names)
        selection = as_selection(self.algorithm.result(state), columns, self.algorithm, self.seed)
        return replace(selection, source={**selection.source, "n_samples": self.rows, "digest": self._digest})


def encode_labels(y: NDArray[Any], classes: NDArray[Any] | None) -> tuple[NDArray[np.float64], Labels]:
    """Return the labels of a batch as blocks carry them; `classes` are all labels, ascending, or None for numbers."""
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


class BatchEstimator(SelectingEstimator):
    """An estimator that also learns from batches."""

    _batch_run: BatchRun | None = None
    _selection: Selection | None = None

    @property
    def selection_(self) -> Selection:
        """The `daskfs.Selection`; while batches come, that of the rows so far, computed on demand."""
        if self._selection is None:
            if self._batch_run is None:
                raise AttributeError("selection_: nothing has been fitted yet")
            names = getattr(self, "feature_names_in_", None)
            self._selection = self._batch_run.selection(self.n_features_in_, names)
        return self._selection

    @selection_.setter
    def selection_(self, selection: Selection) -> None:
        self._selection, self._batch_run = selection, None

    def __sklearn_is_fitted__(self) -> bool:
        return self._selection is not None or self._batch_run is not None

    def _learn_batch(self, X: Any, y: Any, classes: NDArray[Any] | None, sample_weight: Any) -> Self:
        X, y = self._validate(X, y, reset=self._batch_run is None, min_samples=1)
        weight = np.ones(X.shape[0], np.float32) if sample_weight is None else check_weight(sample_weight, X)
        target, labels = encode_labels(y, classes if self._batch_run is None else self._batch_run.classes)
        batch = InMemory(X, target, labels, "rows", getattr(self, "feature_names_in_", None), weight)
        if self._batch_run is None:
            for name in self._registration.batches_refuse or ():
                if getattr(self, name):
                    raise OptionError(f"{name}: needs to know all rows beforehand, which partial_fit does not; use fit")
            self._batch_run = BatchRun(self._algorithm_for(batch.meta), self._seed(), batch, classes)
        self._selection = None
        self._batch_run.learn(batch)
        return self


class BatchSelector(BatchEstimator):
    """A selector that also learns from batches."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of rows; see `MissionClassifier.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, but in memory.
        classes
            All labels there will be, in the first call; None where the target is a number.
        """
        return self._learn_batch(X, y, None if classes is None else np.unique(classes), sample_weight)


class BatchClassifier(BatchEstimator, Classifier):
    """A classifier that also learns from batches."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of rows and forget them; the state of the algorithm is kept.

        After any batches, however they are cut, the estimator is the one that `fit` with ``passes=1`` gives for all
        their rows at once, bit for bit. (So is it with ``learning_rate="auto"``: the first 8,192 rows wait until they
        are all there.) Parameters count as they are at the first call; after a `fit` it begins anew.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, but in memory.
        classes
            All labels there will be, in the first call.
        """
        _check_partial_fit_first_call(self, classes)
        self._check_classes()
        return self._learn_batch(X, y, self.classes_, sample_weight)


class BatchRegressor(BatchEstimator):
    """A regressor that also learns from batches."""

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn a batch of rows; see `MissionClassifier.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, but in memory.
        """
        return self._learn_batch(X, y, None, sample_weight)
