"""The method `partial_fit`, which learns from batches of rows and keeps the state of the algorithm, but no rows.

With ``learning_rate="auto"``, MISSION buffers the first 6,144 rows to choose the learning rate. A selection that is
requested while MISSION still buffers rows is computed from the buffered rows.
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
    """One pass over batches of rows, with the same algorithm state as in `daskfs.select` after the same rows.

    The state is initialised from the first batch without learning; `classes` are the labels of all batches.
    """

    def __init__(self, algorithm: Algorithm, seed: int, first: InMemory, classes: NDArray[Any] | None) -> None:
        self.algorithm, self.seed, self.classes = algorithm.resolve(first.meta), seed, classes
        self.state = self.algorithm.start(replace(first.meta, mixed=None), seed)  # of rows to come nothing is known
        self.rows, self._digest = 0, ""

    def learn(self, batch: InMemory) -> None:
        """Update the state of the algorithm with the rows of a batch."""
        for block in batch.blocks(axis="rows"):
            assert isinstance(block, RowBlock | SparseBlock)
            self.state = self.algorithm.update(self.state, replace(block, first=self.rows + block.first))
        self.rows += batch.n_samples
        self._digest = hashlib.sha256((self._digest + batch.digest).encode()).hexdigest()

    def selection(self, width: int, names: Sequence[Any] | None) -> Selection:
        """Return the selection from the rows learned so far, without changing the state."""
        state, _ = self.algorithm.end_pass(copy_state(self.state))
        columns = InMemory(sp.csr_array((1, width)), np.zeros(1), Labels(False, None), "rows", names)
        selection = as_selection(self.algorithm.result(state), columns, self.algorithm, self.seed)
        return replace(selection, source={**selection.source, "n_samples": self.rows, "digest": self._digest})


def encode_labels(y: NDArray[Any], classes: NDArray[Any] | None) -> tuple[NDArray[np.float64], Labels]:
    """Return the labels y of a batch as float64 numbers, and the `Labels` for `classes` (None for a real target)."""
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
    """An estimator that also learns from batches of rows with `partial_fit`."""

    _batch_run: BatchRun | None = None
    _selection: Selection | None = None

    @property
    def selection_(self) -> Selection:
        """The `daskfs.Selection` of `fit`, or of all rows passed to `partial_fit` so far, computed on demand."""
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

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch of rows, and keep the state of the algorithm for the next batch.

        After any number of batches, the estimator is bit for bit the same as after `fit` with ``passes=1`` on all rows
        at once. With ``learning_rate="auto"``, the first 6,144 rows are buffered to choose the learning rate. The
        parameters of the first call are used until the next `fit`, after which `partial_fit` starts from scratch.

        Parameters
        ----------
        X, y, sample_weight
            X, y and sample weights as for `fit`, but only data in memory.
        classes
            The class labels of all batches, required in the first call; None for a selector with a real target.
        """
        if isinstance(self, Classifier):
            _check_partial_fit_first_call(self, classes)
            self._check_classes()
            classes = self.classes_
        X, y = self._validate(X, y, reset=self._batch_run is None)
        weight = np.ones(X.shape[0], np.float32) if sample_weight is None else check_weight(sample_weight, X)
        known = self._batch_run.classes if self._batch_run else None if classes is None else np.unique(classes)
        batch = InMemory(X, *encode_labels(y, known), "rows", getattr(self, "feature_names_in_", None), weight)
        if self._batch_run is None:
            refused = dict.fromkeys(self._registration.batches_refuse or (), (0, False, "auto", None))
            for name, allowed in {**refused, "missing": ("error",)}.items():
                if getattr(self, name, False) not in allowed:
                    raise OptionError(f"{name}: needs to know all rows beforehand, which partial_fit does not; use fit")
            self._batch_run = BatchRun(self._algorithm_for(batch.meta), self._seed(), batch, known)
        self._selection = None
        self._batch_run.learn(batch)
        return self


class BatchRegressor(BatchEstimator):
    """A regressor that also learns from batches of rows with `partial_fit`."""

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Learn from a batch of rows, as `MissionClassifier.partial_fit` does; a regressor has no classes."""
        return super().partial_fit(X, y, None, sample_weight)
