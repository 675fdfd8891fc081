"""Online Substitution as scikit-learn estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sklearn.utils import Tags

from daskfs.algorithms.losses import Loss
from daskfs.algorithms.substitution import OnlineSubstitution
from daskfs.errors import OptionError
from daskfs.protocol import Meta
from daskfs.sklearn.base import SelectingEstimator
from daskfs.sklearn.parameters import HALF, SubstitutionParameters, documented
from daskfs.sklearn.roles import OverColumns, PredictsNumbers, Selects, TellsClassesApart

_BY_TARGET = '"auto": "logistic" for two classes, else "squared"; or one of the algorithm\'s.'
_TWO = '"logistic", "squared_hinge" or "squared"; all of them for two classes.'


class _Substitutes(SubstitutionParameters, SelectingEstimator):
    _algorithm = OnlineSubstitution
    _axis = "columns"


@documented(OnlineSubstitution, loss=_BY_TARGET, n_select=HALF)
@dataclass(eq=False, repr=False, kw_only=True)
class OnlineSubstitutionSelector(Selects, _Substitutes):
    """Keep the columns that serve a linear model best, from wide data; see `daskfs.OnlineSubstitution`.

    Parameters
    ----------
    (those of `daskfs.OnlineSubstitution`, and `random_state`)

    Attributes
    ----------
    selection_
        The `daskfs.Selection`: features by importance, names, weights, history.

    Examples
    --------
    >>> from daskfs.sklearn import OnlineSubstitutionSelector
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> selector = OnlineSubstitutionSelector(2).set_output(transform="pandas").fit(X, X[:, 3] - 2 * X[:, 7])
    >>> list(selector.transform(X).columns), selector.selection_.names
    (['x3', 'x7'], ['x7', 'x3'])
    """

    loss: Loss | Literal["auto"] = "auto"

    def _loss_for(self, meta: Meta) -> str:
        if self.loss != "auto":
            return self.loss
        return "logistic" if meta.classes is not None and len(meta.classes) == 2 else "squared"


@documented(OnlineSubstitution, loss=_TWO)
@dataclass(eq=False, repr=False, kw_only=True)
class OnlineSubstitutionClassifier(OverColumns, TellsClassesApart, _Substitutes):
    """Tell two classes apart by a few columns of wide data; see `daskfs.OnlineSubstitution`.

    Parameters
    ----------
    (those of `daskfs.OnlineSubstitution`, and `random_state`)

    Attributes
    ----------
    selection_
        The `daskfs.Selection`: features by importance, names, weights, history.
    classes_
        The two labels.
    coef_, intercept_
        The linear model over all columns.

    Examples
    --------
    >>> from daskfs.sklearn import OnlineSubstitutionClassifier
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> y = np.where(X[:, 3] > X[:, 7], "spam", "ham")
    >>> spam = OnlineSubstitutionClassifier(2).fit(X, y)
    >>> spam.score(X, y) > 0.95, np.flatnonzero(spam.coef_)
    (True, array([3, 7]))
    """

    loss: Loss = "logistic"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _loss_for(self, meta: Meta) -> str:
        return self.loss

    def _check_classes(self) -> None:
        super()._check_classes()
        if len(self.classes_) > 2:
            raise OptionError(
                "Only binary classification is supported. The type of the target is multiclass. "
                "Use MissionClassifier, or a OneVsRestClassifier around this one"
            )


@documented(OnlineSubstitution)
class OnlineSubstitutionRegressor(OverColumns, PredictsNumbers, _Substitutes):
    """Predict a number from a few columns of wide data; see `daskfs.OnlineSubstitution`.

    Parameters
    ----------
    (those of `daskfs.OnlineSubstitution`, and `random_state`)

    Attributes
    ----------
    selection_
        The `daskfs.Selection`: features by importance, names, weights, history.
    coef_, intercept_
        The linear model over all columns.

    Examples
    --------
    >>> from daskfs.sklearn import OnlineSubstitutionRegressor
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> OnlineSubstitutionRegressor(2).fit(X, X[:, 3] - 2 * X[:, 7]).coef_[[3, 7]].round(2)
    array([ 1., -2.])
    """
