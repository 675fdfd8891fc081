"""The registration of MISSION: its name, its texts for the report, and its estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daskfs.algorithms.mission import Mission
from daskfs.algorithms.registry import MOST_BYTES, MOST_COLUMNS, Estimator, Registration
from daskfs.protocol import Kind, Words


def _explain_history(history: Mapping[str, Sequence[float]]) -> str:
    if not history.get("held_back_loss"):
        return ""
    return "The last passes fit the chosen features alone, and their objective is that of these: it may rise."


def _suits(kind: Kind, n_samples: int, n_features: int, k: int) -> str:
    if kind == "sparse" and n_features > MOST_COLUMNS:
        return "for more sparse features than are read one by one"
    if kind == "sparse" and 8 * n_samples * min(k, n_features) > MOST_BYTES:
        return f"since {k:,} columns of so many rows would take more than {MOST_BYTES >> 30} GB"
    return ""


REGISTRATION = Registration(
    name="mission",
    algorithm=Mission,
    words=Words(
        title="MISSION",
        columns={"held_back_loss": "loss on held-back rows"},
        curves=("held_back_loss",),
        explain_history=_explain_history,
    ),
    estimators=(
        Estimator(
            role="selector",
            summary="Keep the columns with the largest weights, from sparse rows of any width",
            omits=("groups", "balanced"),
            loss="auto",
            refuses={"interactions": "products of two features are no columns to keep; use MissionClassifier"},
            example="""
>>> import scipy.sparse as sp
>>> X = sp.random_array((2000, 300), density=0.1, format="csr", rng=0)
>>> y = (X[:, [7]] - 2 * X[:, [200]]).toarray()[:, 0]
>>> MissionSelector(2, width=2**10).fit(X, y).get_support(indices=True)
array([  7, 200])""",
        ),
        Estimator(
            role="classifier",
            summary="Tell classes apart by a few features of sparse rows of any width",
            omits=("groups",),
            loss="auto",
            example="""
>>> X = np.random.default_rng(0).normal(size=(2000, 50))
>>> y = np.argmax(X[:, 10:13], axis=1)
>>> model = MissionClassifier(3, width=2**10)
>>> for rows in np.split(np.arange(2000), 4):
...     model = model.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
>>> sorted(model.selection_.names), model.score(X, y) > 0.8
(['x10', 'x11', 'x12'], True)""",
        ),
        Estimator(
            role="regressor",
            summary="Predict a number from a few features of sparse rows of any width",
            omits=("per_class", "groups", "balanced"),
            example="""
>>> X = np.random.default_rng(0).normal(size=(2000, 50))
>>> MissionRegressor(2, width=2**10, passes=3).fit(X, X[:, 3] - 2 * X[:, 7]).selection_.names
['x7', 'x3']""",
        ),
    ),
    batches_refuse=("refit", "idf", "fading", "error_control", "max_fdr", "max_false", "groups", "balanced"),
    suits=_suits,
    nanoseconds=61,
)
