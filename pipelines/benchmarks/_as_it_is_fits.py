"""Selections and refits of `as_it_is.py`, and what scikit-learn's usual ways select and predict."""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import numpy as np
from _as_it_is_tables import Table
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.linear_model import Lasso, LogisticRegression, LogisticRegressionCV, RidgeCV, lars_path
from sklearn.metrics import balanced_accuracy_score, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import daskfs


def select(table: Table, algorithm: Any, seed: int = 0) -> daskfs.Selection:
    """Return the selection from the rows as they are."""
    layout: Any = "rows" if sparse.issparse(table.train) else "both"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        daskfs.write_dataset(f"{folder}/d.zarr", table.train, table.y, layout=layout)
        return daskfs.select(f"{folder}/d.zarr", algorithm, seed=seed)


def quality(table: Table, predicted: np.ndarray) -> float:
    """Return R² of a number, or the balanced accuracy of classes."""
    metric = r2_score if table.is_real else balanced_accuracy_score
    return float(metric(table.y_unseen, predicted))


def refit(table: Table, columns: np.ndarray) -> float:
    """Return the score of a cross-validated linear model of some columns."""
    if table.is_real:
        model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 4, 30)))
    else:
        model = make_pipeline(
            StandardScaler(), LogisticRegressionCV(Cs=10, cv=5, max_iter=2000, scoring="balanced_accuracy")
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table.train[:, columns], table.y)
    return quality(table, model.predict(table.unseen[:, columns]))


def area(table: Table, scores: np.ndarray) -> float:
    """Return the area under the ROC curve of the second of two classes."""
    return float(roc_auc_score(table.y_unseen == np.unique(table.y)[1], scores))


def refit_sparse(table: Table, columns: np.ndarray) -> float:
    """Return the AUC of a cross-validated logistic regression of some columns of sparse rows."""
    model = make_pipeline(
        MaxAbsScaler(), LogisticRegressionCV(Cs=np.logspace(-2, 3, 8), cv=3, solver="liblinear", scoring="roc_auc")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table.train[:, columns], table.y)
    return area(table, model.decision_function(table.unseen[:, columns]))


def rivals(table: Table, k: int, seed: int) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return k columns by each of scikit-learn's usual ways, of standardised data, and scores of their own models.

    The model of the L1 path is that at the first penalty with k columns or more; the forest is grown anew on its k
    most important columns. `SelectKBest` has no model.
    """
    scaler = StandardScaler().fit(table.train)
    X, unseen = scaler.transform(table.train), scaler.transform(table.unseen)
    codes = table.y if table.is_real else np.unique(table.y, return_inverse=True)[1]
    forest = RandomForestRegressor if table.is_real else RandomForestClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = SelectKBest(f_regression if table.is_real else f_classif, k=k).fit(X, codes)
        strongest = np.argsort(-forest(200, random_state=seed).fit(X, codes).feature_importances_)[:k]
        grown = forest(200, random_state=seed).fit(X[:, strongest], table.y)
        l1, model = l1_columns(X, table.y, k, table.is_real)
        columns = {"SelectKBest": best.get_support(indices=True), "L1": l1, "random forest": strongest}
        own = {"L1": quality(table, model.predict(unseen))}
    return columns, own | {"random forest": quality(table, grown.predict(unseen[:, strongest]))}


def l1_columns(X: np.ndarray, y: np.ndarray, k: int, is_real: bool) -> tuple[np.ndarray, Any]:
    """Return the first k columns of an L1 path, and the model at the first penalty with k columns or more."""
    if is_real:
        penalties, _, path = lars_path(X, y - y.mean(), method="lasso", max_iter=4 * k)  # (columns, steps)
        entered = np.where((path != 0).any(axis=1), (path != 0).argmax(axis=1), path.shape[1])
        at = min(int((np.count_nonzero(path, axis=0) >= k).argmax()) or path.shape[1] - 1, path.shape[1] - 1)
        return np.argsort(entered, kind="stable")[:k], Lasso(max(float(penalties[at]), 1e-9)).fit(X, y)
    for C in np.logspace(-3, 2, 16):
        model = LogisticRegression(C=C, penalty="l1", solver="saga", max_iter=300).fit(X, y)
        strength = np.abs(model.coef_).max(axis=0)
        if np.count_nonzero(strength) >= k:
            break
    return np.argsort(-strength)[:k], model
