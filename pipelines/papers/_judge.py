"""How a choice of columns is judged: each method's ids, fitted again in the same way."""

from __future__ import annotations

import numpy as np
from _problems import Problem
from numpy.typing import NDArray
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Ids = NDArray[np.int64]


def recall(problem: Problem, ids: Ids) -> float:
    """The share of the true columns that were chosen."""
    return len(problem.truth.keys() & set(ids.tolist())) / len(problem.truth)


def recovery_error(problem: Problem, ids: Ids) -> float:
    """‖w - w*‖ / ‖w*‖ after least squares on the chosen columns."""
    w, true = np.zeros((2, problem.X.shape[1]))
    true[list(problem.truth)] = list(problem.truth.values())
    w[ids] = LinearRegression().fit(problem.X[:, ids].astype(np.float64), problem.y).coef_
    return float(np.linalg.norm(w - true) / np.linalg.norm(true))


def balanced_accuracy(problem: Problem, ids: Ids) -> float:
    """On the rows held out, after logistic regression (C = 1) on the chosen columns, standardised."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model.fit(problem.X[:, ids].astype(np.float64), problem.y)
    return float(balanced_accuracy_score(problem.y_test, model.predict(problem.X_test[:, ids].astype(np.float64))))


def error_rate(problem: Problem, ids: Ids) -> float:
    """One minus `balanced_accuracy`; the paper's classes are of equal size."""
    return 1 - balanced_accuracy(problem, ids)
