"""MISSION as scikit-learn estimators, which also learn batch by batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import _check_partial_fit_first_call

from daskfs.algorithms.losses import RowLoss
from daskfs.algorithms.mission import Mission
from daskfs.errors import OptionError
from daskfs.protocol import Meta
from daskfs.selection.selection import Selection
from daskfs.sklearn.base import SelectingEstimator, checked_weight
from daskfs.sklearn.online import Online, as_target
from daskfs.sklearn.parameters import HALF, MissionParameters, documented
from daskfs.sklearn.roles import OverColumns, PredictsNumbers, Selects, TellsClassesApart
from daskfs.store.in_memory import InMemory


class _Sketches(MissionParameters, SelectingEstimator):
    _algorithm = Mission
    _axis = "rows"
    _online: Online | None = None
    _found: Selection | None = None

    @property
    def selection_(self) -> Selection:
        """The `daskfs.Selection`; while batches come, that of the rows so far, made when it is asked for."""
        if self._found is None:
            if self._online is None:
                raise AttributeError("selection_: nothing has been fitted yet")
            self._found = self._online.selection(self.n_features_in_, getattr(self, "feature_names_in_", None))
        return self._found

    @selection_.setter
    def selection_(self, found: Selection) -> None:
        self._found, self._online = found, None

    def __sklearn_is_fitted__(self) -> bool:
        return self._found is not None or self._online is not None

    def _learn_batch(self, X: Any, y: Any, classes: NDArray[Any] | None, sample_weight: Any) -> Self:
        X, y = self._validated(X, y, reset=self._online is None, least=1)
        weight = np.ones(X.shape[0], np.float32) if sample_weight is None else checked_weight(sample_weight, X)
        target, labels = as_target(y, classes if self._online is None else self._online.classes)
        batch = InMemory(X, target, labels, "rows", getattr(self, "feature_names_in_", None), weight)
        if self._online is None:
            self._online = Online(self._for_one_pass(batch.meta), self._seed(), batch, classes)
        self._found = None
        self._online.learn(batch)
        return self

    def _for_one_pass(self, meta: Meta) -> Mission:
        for name in ("refit", "idf", "fading"):
            if getattr(self, name):
                raise OptionError(f"{name}: needs to know all rows beforehand, which partial_fit does not; use fit")
        algorithm = self._algorithm_for(meta)
        assert isinstance(algorithm, Mission)
        return algorithm


_BY_CLASSES = '"auto": "logistic" for two classes, "softmax" for more; or one of the algorithm\'s.'
_BY_TARGET = (
    '"auto": "logistic" for two classes, "softmax" for more of text, else "squared". Numbers are classes only if there '
    'are two of them, or if it is said: loss="softmax".'
)


@documented(Mission, loss=_BY_TARGET, n_select=HALF)
@dataclass(eq=False, repr=False, kw_only=True)
class MissionSelector(Selects, _Sketches):
    """Keep the columns with the largest weights, from sparse rows of any width; see `daskfs.Mission`.

    Parameters
    ----------
    (those of `daskfs.Mission`, and `random_state`)

    Attributes
    ----------
    selection_
        The `daskfs.Selection`: features by importance, names, weights, history.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from daskfs.sklearn import MissionSelector
    >>> X = sp.random_array((2000, 300), density=0.1, format="csr", rng=0)
    >>> y = (X[:, [7]] - 2 * X[:, [200]]).toarray()[:, 0]
    >>> MissionSelector(2, width=2**10).fit(X, y).get_support(indices=True)
    array([  7, 200])
    """

    loss: RowLoss | Literal["auto"] = "auto"
    per_class: bool = False

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

    def _algorithm_for(self, meta: Meta) -> Any:
        if self.interactions is not None:
            raise OptionError("interactions: products of two features are no columns to keep; use MissionClassifier")
        return super()._algorithm_for(meta)

    def _loss_for(self, meta: Meta) -> str:
        if self.loss != "auto" or meta.classes is None:
            return "squared" if self.loss == "auto" else self.loss
        if len(meta.classes) == 2:
            return "logistic"
        return "softmax" if isinstance(meta.classes[0], str) else "squared"


@documented(Mission, loss=_BY_CLASSES)
@dataclass(eq=False, repr=False, kw_only=True)
class MissionClassifier(OverColumns, TellsClassesApart, _Sketches):
    """Tell classes apart by a few features of sparse rows of any width; see `daskfs.Mission`.

    Parameters
    ----------
    (those of `daskfs.Mission`, and `random_state`)

    Attributes
    ----------
    selection_
        The `daskfs.Selection`: features by importance, names, weights, history.
    classes_
        The labels.
    coef_, intercept_
        The linear model over all columns.

    Examples
    --------
    >>> from daskfs.sklearn import MissionClassifier
    >>> X = np.random.default_rng(0).normal(size=(2000, 50))
    >>> y = np.argmax(X[:, 10:13], axis=1)
    >>> model = MissionClassifier(3, width=2**10)
    >>> for rows in np.split(np.arange(2000), 4):
    ...     model = model.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
    >>> sorted(model.selection_.names), model.score(X, y) > 0.8
    (['x10', 'x11', 'x12'], True)
    """

    loss: RowLoss | Literal["auto"] = "auto"
    per_class: bool = False

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of rows and forget them; what is kept is the sketch.

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

    def _loss_for(self, meta: Meta) -> str:
        if self.loss != "auto":
            return self.loss
        return "logistic" if len(self.classes_) == 2 else "softmax"


@documented(Mission)
class MissionRegressor(OverColumns, PredictsNumbers, _Sketches):
    """Predict a number from a few features of sparse rows of any width; see `daskfs.Mission`.

    Parameters
    ----------
    (those of `daskfs.Mission`, and `random_state`)

    Attributes
    ----------
    selection_
        The `daskfs.Selection`: features by importance, names, weights, history.
    coef_, intercept_
        The linear model over all columns.

    Examples
    --------
    >>> from daskfs.sklearn import MissionRegressor
    >>> X = np.random.default_rng(0).normal(size=(2000, 50))
    >>> MissionRegressor(2, width=2**10, passes=3).fit(X, X[:, 3] - 2 * X[:, 7]).selection_.names
    ['x7', 'x3']
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn a batch of rows; see `MissionClassifier.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, but in memory.
        """
        return self._learn_batch(X, y, None, sample_weight)
