"""Base classes of the estimators: column selectors, feature transformers, classifiers and regressors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from daskfs.errors import OptionError
from daskfs.protocol import Meta
from daskfs.selection.column_slices import as_dataset
from daskfs.selection.metrics import against_the_rest
from daskfs.selection.selection import Selection
from daskfs.sklearn.base import SelectingEstimator, in_memory, is_lazy, take_columns
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.layout import MOST_CLASSES


class ColumnSelector(SelectorMixin, SelectingEstimator):
    """An estimator whose `transform` returns the selected columns of X, in the order of X."""

    _default_share = 0.5

    def transform(self, X: Any) -> Any:
        """Return the selected columns of X in the order of X, as a lazy array if X is a dask array."""
        check_is_fitted(self)
        dataset = as_dataset(X)
        if dataset is not None:
            return self.selection_.transform(dataset)[:, np.argsort(self.selection_.features)]
        if is_lazy(X):
            return take_columns(self._readable(X), self.get_support(indices=True))
        if self.missing != "error":
            return self.selection_.transform(self._readable(X))[:, np.argsort(self.selection_.features)]
        return super().transform(in_memory(X))

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        mask = np.zeros(self.n_features_in_, np.bool_)
        mask[selected_columns(self.selection_, self.n_features_in_)] = True
        return mask


class FeatureTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SelectingEstimator):
    """An estimator whose `transform` computes new features that are not columns of X."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # features are float32
        return tags

    def transform(self, X: Any) -> Any:
        """Return the computed features of every row of X, most important feature first."""
        X = self._readable(X)
        return self.selection_.transform(X)

    @property
    def _n_features_out(self) -> int:
        return len(self.selection_.features)


def _has_probabilities(estimator: Any) -> bool:
    loss = getattr(estimator, "loss", "auto")
    if loss not in ("auto", "logistic", "softmax"):
        raise AttributeError(f"loss={loss!r} gives no probabilities: use 'logistic'")
    return True


class Classifier(ClassifierMixin, SelectingEstimator):
    """An estimator that predicts class labels, numbers or strings."""

    classes_: NDArray[Any]
    loss: str

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the scores (rows, classes), or for two classes one score per row, positive for the second class."""
        X = self._readable(X)
        scores = self.selection_.decision_function(X)
        return _one_for_two(scores.T)[0] if scores.shape[1:] == (2,) else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predicted class label of every row of X."""
        X, selection = self._readable(X), self.selection_
        labels: NDArray[Any] = self.classes_[selection.class_numbers(selection.decision_function(X))]
        return labels

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted probabilities (rows, classes), with classes in the order of `classes_`."""
        check_is_fitted(self)
        scores = self.decision_function(X)
        if scores.ndim == 1:
            second = expit(scores)
            return np.stack([1 - second, second], axis=1)
        return np.asarray(softmax(against_the_rest(scores) if self.loss == "logistic" else scores, axis=1))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of `predict_proba`."""
        return np.asarray(np.log(self.predict_proba(X)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of the predictions for X against y, or against the labels of a dataset X."""
        X, y = _labelled(self, X, y)
        return float(super().score(X, y, sample_weight))

    def _encode(self, y: NDArray[Any]) -> NDArray[Any]:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        self._check_classes()
        if y.dtype.kind in "biuf" and (len(self.classes_) > MOST_CLASSES or self._needs_text()):
            return np.char.zfill(codes.astype(str), 8)  # in this form, text sorts as the numbers do
        return y

    def _with_labels(self, selection: Selection) -> Selection:
        as_text = all(isinstance(name, str) for name in selection.classes or ())
        if self.classes_.dtype.kind not in "biuf" or not as_text:
            return selection
        return replace(selection, classes=tuple(self.classes_.tolist()))  # in the order of the text

    def _learn_labels(self, dataset: Dataset) -> None:
        if dataset.classes is None:
            raise OptionError(f"{dataset.url}: its target is a real number, not a class: use a regressor")
        self.classes_ = np.array(dataset.classes)
        self._check_classes()

    def _needs_text(self) -> bool:
        """Return True if the algorithm would treat numeric class labels as a real target unless stored as strings."""
        return len(self.classes_) > 2 and getattr(self, "loss", None) in self._registration.text_for_losses

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise OptionError(f"y has one class only, {self.classes_.tolist()}: there is nothing to tell apart")

    def _auto_loss(self, meta: Meta) -> str:
        return "logistic" if len(self.classes_) == 2 else "softmax"


class Regressor(RegressorMixin, SelectingEstimator):
    """An estimator that predicts a real target."""

    _numeric_target = True

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted target of every row of X, or the predicted targets (rows, targets)."""
        X = self._readable(X)
        return self.selection_.predict(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² (of several targets the mean) of the predictions for X against y, or the target of a dataset X."""
        X, y = _labelled(self, X, y)
        return float(super().score(X, y, sample_weight))

    def _with_target(self, dataset: Dataset) -> Dataset:
        return dataset.with_real_target()


class LinearModel:
    """A mixin with the coefficients of an estimator whose selected features are columns of X."""

    n_features_in_: int
    selection_: Selection

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The weights of all columns, 0 for columns not selected, with a row per score of a classifier or target."""
        check_is_fitted(self)
        try:
            columns = selected_columns(self.selection_.model, self.n_features_in_)
        except OptionError as error:
            raise AttributeError(f"coef_: {error}") from error
        weights = self.selection_.model.weights
        coef = np.zeros((*weights.shape[1:], self.n_features_in_))
        coef[..., columns] = weights.T
        return coef if isinstance(self, RegressorMixin) else _one_for_two(np.atleast_2d(coef))

    @property
    def intercept_(self) -> NDArray[np.float64] | float:
        """The score of a row whose columns are all 0."""
        check_is_fitted(self)
        intercept = self.selection_.intercept
        if not isinstance(self, RegressorMixin):
            return _one_for_two(intercept)
        return float(intercept[0]) if len(intercept) == 1 else intercept


def selected_columns(selection: Selection, width: int) -> NDArray[np.intp]:
    """Return the numbers of the selected columns, most important first, or raise OptionError for other features."""
    features = selection.features
    if selection.products is not None or (len(features) and int(features.max()) >= width):
        raise OptionError("features are hashes or products of two, and no columns: see selection_")
    return features.astype(np.intp)


def _one_for_two(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores or weights, where two along the first axis are replaced by the second minus the first."""
    return scores[1:] - scores[:1] if len(scores) == 2 else scores


def _labelled(estimator: SelectingEstimator, X: Any, y: Any) -> tuple[Any, Any]:
    """Return X and y, or a dataset X and its labels in the form that `estimator` predicts."""
    dataset = as_dataset(X)
    if (y is None) == (dataset is None):
        raise OptionError("score a dataset, which brings its labels, or an array together with y")
    if dataset is None:
        return X, y
    labelled = estimator._with_target(dataset)
    target = np.concatenate(list(labelled.targets()))
    classes = labelled.classes
    return dataset, target if classes is None else np.array(classes)[labelled.meta.class_codes(target)]
