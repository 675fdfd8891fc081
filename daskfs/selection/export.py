"""Export of a selection as a scikit-learn model, which does not need daskfs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC

from daskfs.basis import LINEAR, is_linear
from daskfs.errors import OptionError
from daskfs.selection.inputs import Inputs

if TYPE_CHECKING:
    from daskfs.selection.selection import Selection


def to_sklearn(selection: Selection) -> BaseEstimator:
    """Return a fitted scikit-learn model; see `Selection.to_sklearn`."""
    selection = selection.model
    if selection.threshold is not None:
        selection = replace(selection, intercept=selection.intercept - selection.threshold, threshold=None)
    if selection.products is not None:
        raise OptionError("features that are products of two others: no plain scikit-learn model makes them")
    if selection.inputs is not None:
        return _pipeline(selection, selection.inputs)
    numbered = [f"x{feature}" for feature in selection.features.tolist()]
    names = None if selection.names == numbered else selection.names
    return _with_weights(_linear(selection), selection.weights, selection.intercept, selection.classes, names)


def _linear(selection: Selection) -> BaseEstimator:
    """Return an unfitted scikit-learn model that matches the loss of the selection's algorithm."""
    loss = selection.loss or "squared"
    if selection.classes is None:
        return LinearRegression()
    if loss == "softmax" or (loss == "logistic" and len(selection.classes) == 2):
        return LogisticRegression()
    if loss == "squared_hinge":
        return LinearSVC()
    return SGDClassifier(loss="log_loss" if loss == "logistic" else "squared_error")


def _with_weights(
    model: Any,
    weights: NDArray[np.float64],
    intercept: NDArray[np.float64],
    classes: Sequence[Any] | None,
    names: Sequence[str] | None,
) -> BaseEstimator:
    """Return the scikit-learn model with these weights, ``(k,)`` or ``(k, scores)``, as its fitted attributes."""
    if classes is None and weights.ndim == 2:  # several targets
        model.coef_, model.intercept_ = weights.T.copy(), intercept.copy()
    elif classes is None:
        model.coef_, model.intercept_ = weights.copy(), float(intercept[0])
    else:
        model.classes_ = np.array(classes)
        model.coef_, model.intercept_ = np.atleast_2d(weights.T).copy(), intercept.copy()
        if len(model.coef_) == 2:  # scikit-learn has one score for two classes
            model.coef_, model.intercept_ = np.diff(model.coef_, axis=0), np.diff(model.intercept_)
    model.n_features_in_ = len(weights)
    if names is not None:
        model.feature_names_in_ = np.array(names, object)
    return model


def _pipeline(selection: Selection, inputs: Inputs) -> Pipeline:
    """Return a pipeline of scaled inputs x, of x and waves √2 cos(ω·x + b), and of a linear model of these."""
    linear = is_linear(selection.features)
    expansion, count, waves = inputs.expansion, int(np.count_nonzero(~linear)), selection.features[~linear]
    if expansion.kernel == "perceptron" and count:
        raise OptionError("kernel='perceptron': scikit-learn has no steps to make features of; use waves, or daskfs")
    drawn, moves = inputs.basis.features(waves), expansion.scale != 0  # a constant column has no effect
    scaler = StandardScaler()
    scaler.mean_, scaler.scale_ = expansion.offset.copy(), np.where(moves, 1 / np.where(moves, expansion.scale, 1), 1)
    scaler.var_, scaler.n_samples_seen_ = scaler.scale_**2, int(selection.source["n_samples"])
    sampler = RBFSampler(gamma=expansion.gamma, n_components=count)
    sampler.random_weights_ = 2 * math.pi * drawn.W.T.astype(np.float64) * moves[:, None]
    sampler.random_offset_ = 2 * math.pi * drawn.b.astype(np.float64)
    sampler.n_features_in_ = scaler.n_features_in_ = len(inputs.names)
    numbered = [f"x{column}" for column in range(len(inputs.names))]
    if inputs.names != numbered:
        scaler.feature_names_in_ = np.array(inputs.names, object)
    columns = (selection.features[linear] - np.uint64(LINEAR)).astype(np.intp)
    picker = FunctionTransformer(np.take, kw_args={"indices": columns, "axis": 1})
    both = FeatureUnion([("columns", picker), ("waves", sampler if count else "drop")])
    waves_weights = selection.weights[~linear] * math.sqrt(count)  # the sampler divides its features by that
    weights = np.concatenate([selection.weights[linear], waves_weights])
    model = _with_weights(_linear(selection), weights, selection.intercept, selection.classes, None)
    return Pipeline([("scale", scaler), ("features", both), ("model", model)])
