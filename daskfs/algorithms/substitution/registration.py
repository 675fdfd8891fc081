"""The `Registration` of Online Substitution for commands, reports and scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daskfs.algorithms.registry import MOST_BYTES, MOST_COLUMNS, Estimator, Registration
from daskfs.algorithms.substitution import OnlineSubstitution
from daskfs.protocol import Kind, Words


def _explain_history(history: Mapping[str, Sequence[float]]) -> str:
    if len(set(history.get("ridge", ()))) > 1:
        return "Objectives of different ridges do not compare: they may rise from one pass to the next."
    return ""


def _suits(kind: Kind, n_samples: int, n_features: int, k: int) -> str:
    if kind == "dense":
        return "for dense columns"
    fits = n_features <= MOST_COLUMNS and 8 * n_samples * min(k, n_features) <= MOST_BYTES
    return "for sparse features that can be read one by one" if fits else ""


REGISTRATION = Registration(
    name="substitution",
    algorithm=OnlineSubstitution,
    words=Words(
        title="Online Substitution",
        columns={"changes": "set changes", "held_back": "score on held-back rows"},
        curves=("held_back",),
        explain_history=_explain_history,
    ),
    estimators=(
        Estimator(
            role="selector",
            summary="Keep the columns that serve a linear model best, from wide data",
            loss="auto",
            omits=("groups", "balanced"),
            several_targets=True,
            example="""
>>> X = np.random.default_rng(0).normal(size=(100, 20))
>>> selector = OnlineSubstitutionSelector(2).set_output(transform="pandas").fit(X, X[:, 3] - 2 * X[:, 7])
>>> list(selector.transform(X).columns), selector.selection_.names
(['x3', 'x7'], ['x7', 'x3'])""",
        ),
        Estimator(
            role="classifier",
            summary="Tell classes apart by a few columns of wide data",
            loss="auto",
            omits=("groups",),
            example="""
>>> X = np.random.default_rng(0).normal(size=(100, 20))
>>> y = np.where(X[:, 3] > X[:, 7], "spam", "ham")
>>> spam = OnlineSubstitutionClassifier(2).fit(X, y)
>>> spam.score(X, y) > 0.95, np.flatnonzero(spam.coef_)
(True, array([3, 7]))""",
        ),
        Estimator(
            role="regressor",
            summary="Predict a number, or several, from a few columns of wide data",
            omits=("groups", "balanced"),
            several_targets=True,
            example="""
>>> X = np.random.default_rng(0).normal(size=(100, 20))
>>> OnlineSubstitutionRegressor(2).fit(X, X[:, 3] - 2 * X[:, 7]).coef_[[3, 7]].round(2)
array([ 1., -2.])""",
        ),
    ),
    text_for_losses=("squared",),
    suits=_suits,
    nanoseconds=4.4,
    bounds_false=True,
)
