"""Sparse Random Features as scikit-learn estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from daskfs.algorithms.losses import Loss
from daskfs.algorithms.random_features import SparseRandomFeatures
from daskfs.protocol import Meta
from daskfs.sklearn.base import SelectingEstimator
from daskfs.sklearn.parameters import RandomFeaturesParameters, documented
from daskfs.sklearn.roles import PredictsNumbers, TellsClassesApart

_EXACTLY = "Exactly so many features, if so many are found; as many as the penalty leaves by default."


class _DrawsFeatures(RandomFeaturesParameters, SelectingEstimator):
    _algorithm = SparseRandomFeatures
    _axis = "rows"

    def _n_select_for(self, meta: Meta) -> int | None:
        return self.n_select


@documented(SparseRandomFeatures, n_select=_EXACTLY)
@dataclass(eq=False, repr=False, kw_only=True)
class SparseRandomFeaturesClassifier(TellsClassesApart, _DrawsFeatures):
    """Tell classes apart that no straight line does, by few columns; see `daskfs.SparseRandomFeatures`.

    Parameters
    ----------
    (those of `daskfs.SparseRandomFeatures`, and `random_state`)

    Attributes
    ----------
    selection_
        The `daskfs.Selection`; ``selection_.importance`` says how much every column matters.
    classes_
        The labels.

    Examples
    --------
    >>> from daskfs.sklearn import SparseRandomFeaturesClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(500, 2))
    >>> inside = SparseRandomFeaturesClassifier(rounds=3, per_round=50).fit(X, np.hypot(*X.T) < 0.8)
    >>> inside.score(X, np.hypot(*X.T) < 0.8) > 0.95
    True
    """

    loss: Loss = "logistic"

    def _loss_for(self, meta: Meta) -> str:
        return self.loss

    def _needs_text(self) -> bool:
        return self.loss == "squared" and len(self.classes_) > 2


@documented(SparseRandomFeatures, n_select=_EXACTLY)
class SparseRandomFeaturesRegressor(PredictsNumbers, _DrawsFeatures):
    """Predict a number that is no linear function of few columns; see `daskfs.SparseRandomFeatures`.

    Parameters
    ----------
    (those of `daskfs.SparseRandomFeatures`, and `random_state`)

    Attributes
    ----------
    selection_
        The `daskfs.Selection`; ``selection_.importance`` says how much every column matters.

    Examples
    --------
    >>> from daskfs.sklearn import SparseRandomFeaturesRegressor
    >>> X = np.random.default_rng(0).uniform(size=(500, 3))
    >>> waves = SparseRandomFeaturesRegressor(penalty=0.1, rounds=5).fit(X, np.sin(6 * X[:, 1]))
    >>> waves.score(X, np.sin(6 * X[:, 1])) > 0.99
    True
    """


@documented(SparseRandomFeatures, n_select=_EXACTLY)
@dataclass(eq=False, repr=False, kw_only=True)
class SparseRandomFeaturesTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _DrawsFeatures):
    """Random features that serve a target, for another model behind it: a supervised `RBFSampler` of fewer columns.

    Parameters
    ----------
    (those of `daskfs.SparseRandomFeatures`, and `random_state`)

    Attributes
    ----------
    selection_
        The `daskfs.Selection`; ``selection_.importance`` says how much every column matters.

    Examples
    --------
    >>> from daskfs.sklearn import SparseRandomFeaturesTransformer
    >>> X = np.random.default_rng(0).uniform(size=(500, 3))
    >>> SparseRandomFeaturesTransformer(n_select=20, rounds=2).fit_transform(X, np.sin(6 * X[:, 1])).shape
    (500, 20)
    """

    loss: Loss = "squared"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # features are float32
        return tags

    def transform(self, X: Any) -> Any:
        """The features of every row, most important first."""
        X = self._readable(X)
        return self.selection_.transform(X)

    @property
    def _n_features_out(self) -> int:
        return len(self.selection_.features)

    def _loss_for(self, meta: Meta) -> str:
        return self.loss
