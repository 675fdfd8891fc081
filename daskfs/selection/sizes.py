"""Score against size: how good the first feature of a selection is, the first two, three, five, …, from one run.

One pass over the training data fits all sizes (see `prefix_fits`), one over the test data scores them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray
from numpy.typing import NDArray

from daskfs.errors import OptionError, check_whole, public_url
from daskfs.selection.column_slices import as_dataset
from daskfs.selection.evaluation import CountProgress, Truth, in_silence, linear_scores
from daskfs.selection.intervals import Interval
from daskfs.selection.metrics import ClassTally, ValueTally, predicted_classes
from daskfs.selection.prefix_fits import CrossSums, PrefixFit, prefix_discriminants, prefix_fits
from daskfs.selection.records import without_nan
from daskfs.selection.selection import Selection
from daskfs.store.dataset.dataset import Dataset

MOST_FEATURES = 2048  # the square of it is 32 MB
ABOUT = 20  # sizes
LINEAR_DISCRIMINANTS = "linear discriminant analysis with equal weight for every class"


@dataclass(frozen=True, eq=False)
class SizePath:
    """How good the first features of a selection are, by their number.

    Parameters
    ----------
    metric
        "balanced_accuracy" for classes, "r2" for numbers, as in `Evaluation`.
    sizes
        Numbers of features, ascending.
    scores
        The metric on the test data, for each of them.
    intervals
        Its 95 % intervals, as in `Evaluation`: how sure a score is of the test rows, not of the order of features.
    ridges
        The λ that was chosen for each.
    as_selected
        The score of all features with the selection's own weights, and its interval.
    n_features
        How many features the selection has; more than the largest size where it has too many to fit them all.
    train, test
        Of the datasets: "dataset", the URL, and "digest".
    """

    metric: str
    sizes: list[int]
    scores: list[float]
    intervals: list[Interval]
    ridges: list[float]
    as_selected: tuple[float, Interval]
    n_features: int
    train: dict[str, str]
    test: dict[str, str]

    def record(self) -> dict[str, Any]:
        """All of it as JSON holds it: None for NaN, and in "how" a sentence for people."""
        score, interval = self.as_selected
        plain: dict[str, Any] = without_nan(
            {
                **self.test,
                "train": self.train,
                "metric": self.metric,
                "sizes": self.sizes,
                "scores": self.scores,
                "intervals": self.intervals,
                "ridges": self.ridges,
                "as_selected": {"size": self.n_features, "score": score, "interval": interval},
                "how": self._how(),
            }
        )
        return plain

    def to_xarray(self) -> xarray.Dataset:
        """Score, interval and ridge along "size"."""
        columns = {"score": ("size", self.scores), "ridge": ("size", self.ridges)}
        ends = np.array(self.intervals, np.float64).reshape(-1, 2)
        return xarray.Dataset(
            {**columns, "interval": (("size", "end"), ends)},
            coords={"size": self.sizes, "end": ["low", "high"]},
            attrs={"metric": self.metric, "how": self._how()},
        )

    def _how(self) -> str:
        few = f" (no more than {MOST_FEATURES:,} of its {self.n_features:,})" if self.n_features > MOST_FEATURES else ""
        by = "least squares" if self.metric == "r2" else LINEAR_DISCRIMINANTS
        return (
            f"The first features of the selection{few}, in its order, refitted on {self.train['dataset']} by {by}, "
            "with a ridge chosen by generalised cross-validation, and scored on "
            f"{self.test['dataset']}; the 95 % intervals are of the rows scored."
        )


def size_path(
    selection: Selection,
    train: Dataset | str | os.PathLike[str],
    test: Dataset | str | os.PathLike[str],
    sizes: Sequence[int] | None = None,
    *,
    progress: CountProgress | None = None,
) -> SizePath:
    """How good the first features of a selection are, by their number; one pass over each dataset.

    Numbers are refitted by least squares, classes by linear discriminant analysis with equal weight for every class,
    as balanced accuracy gives them, both with a ridge chosen by generalised cross-validation.
    The order is that of the selection, made with all its features in view; a run with a smaller k may choose others.
    Memory is a few times k², 8 bytes each, and a block; of datasets laid out in columns, as for `Selection.scores`, the
    scores of all rows, of the test data for every size; of training data laid out in columns, dense ones go through a
    temporary file (``TMPDIR``), of sparse ones the selected entries are held.

    Parameters
    ----------
    selection
        What was selected; of more than 2,048 features the first so many are looked at.
    train
        What to fit on: the dataset it was selected from, or where that is.
    test
        What to score on: other rows than those, or scores will be too high.
    sizes
        Numbers of features; about 20 by default, each a little larger than the one before, the last all of them.
    progress
        Called now and then with how many rows are done, and of how many.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(400, 9))
    >>> y = 2 * X[:, 3] - X[:, 5] + 0.1 * X[:, 0]
    >>> daskfs.write_dataset("train.zarr", X[:200], y[:200])
    >>> daskfs.write_dataset("test.zarr", X[200:], y[200:])
    >>> path = daskfs.size_path(daskfs.select("train.zarr", daskfs.OnlineSubstitution(3)), "train.zarr", "test.zarr")
    >>> path.metric, path.sizes, [round(score, 2) for score in path.scores]
    ('r2', [1, 2, 3], [0.78, 1.0, 1.0])
    """
    fitted_on, scored_on = _dataset("train", train), _dataset("test", test)
    shown = _sizes(sizes, len(selection.features))
    tell, total = progress or in_silence, fitted_on.n_samples + scored_on.n_samples
    sums = _summed(_first(selection, shown[-1]), fitted_on, lambda rows: tell(rows, total))
    fits = _fitted(selection, sums, shown)
    own, *found = _scored(selection, fits, scored_on, lambda rows: tell(fitted_on.n_samples + rows, total))
    return SizePath(
        metric="r2" if selection.classes is None else "balanced_accuracy",
        sizes=shown,
        scores=[score for score, _ in found],
        intervals=[interval for _, interval in found],
        ridges=[fit.ridge for fit in fits],
        as_selected=own,
        n_features=len(selection.features),
        train=_origin(fitted_on),
        test=_origin(scored_on),
    )


def _dataset(role: str, given: Any) -> Dataset:
    dataset = as_dataset(given)
    if dataset is None:
        raise OptionError(f"{role}: a dataset is needed, or where one is, not a {type(given).__name__}")
    return dataset


def _sizes(asked: Sequence[int] | None, n_features: int) -> list[int]:
    """The sizes asked for, ascending; or about 20, each a little larger than the one before."""
    most = min(n_features, MOST_FEATURES)
    if most == 0:
        raise OptionError("the selection has no features")
    if asked is None:
        return sorted({round(size) for size in np.geomspace(1, most, ABOUT).tolist()})
    for size in asked:
        check_whole("sizes", size, 1)
    if not asked or max(asked) > most:
        raise OptionError(f"sizes={list(asked)!r:.80}: give some, none above {most:,}")
    return sorted({int(size) for size in asked})


def _first(selection: Selection, count: int) -> Selection:
    """The first so many features of it, with the weights they have among all."""
    products = selection.products
    return replace(
        selection,
        features=selection.features[:count],
        names=selection.names[:count],
        weights=selection.weights[:count],
        products=None if products is None else products.first(count),
    )


def _origin(dataset: Dataset) -> dict[str, str]:
    return {"dataset": public_url(dataset.url), "digest": dataset.digest}


def _summed(selection: Selection, train: Dataset, tell: Callable[[int], None]) -> CrossSums:
    """The one pass over the training data."""
    chosen, sums = selection.column_slices(train), CrossSums()
    truth = Truth(train, selection.classes, chosen.shape[0])
    if selection.classes is not None and truth.n_labels > len(selection.classes):
        raise OptionError(f"{train.url}: has labels that the selection does not know; give what it was selected from")
    for window in chosen.row_windows():
        targets, weight = truth.take(window.shape[0])
        sums.add(window, _as_columns(targets, selection), weight)
        tell(sums.rows)
    return sums


def _as_columns(targets: NDArray[Any], selection: Selection) -> NDArray[np.float64]:
    """What is fitted: values; 0 or 1 for every class, of which there are two where one score tells them apart."""
    if selection.classes is None:
        return targets.astype(np.float64)[:, None]
    n_classes = 2 if selection.weights.ndim == 1 else len(selection.classes)
    one_hot: NDArray[np.float64] = (targets[:, None] == np.arange(n_classes)).astype(np.float64)
    return one_hot


def _fitted(selection: Selection, sums: CrossSums, sizes: Sequence[int]) -> list[PrefixFit]:
    """The fit of every size, with as many scores as the selection has: of two classes that share one, a difference."""
    if selection.classes is None:
        return prefix_fits(sums.correlated(), sizes)
    fits = prefix_discriminants(sums.correlated(), sizes)
    if selection.weights.ndim == 2:
        return fits
    return [PrefixFit(np.diff(fit.weights), np.diff(fit.intercept), fit.ridge) for fit in fits]


def _scored(
    selection: Selection, fits: Sequence[PrefixFit], test: Dataset, tell: Callable[[int], None]
) -> list[tuple[float, Interval]]:
    """The one pass over the test data: score and interval of the selection itself, and of every fit."""
    outputs = selection.weights.shape[1] if selection.weights.ndim == 2 else 1
    weights = np.zeros((len(selection.features), 1 + len(fits), outputs))
    weights[:, 0] = selection.weights.reshape(-1, outputs)
    for at, fit in enumerate(fits, 1):
        weights[: len(fit.weights), at] = fit.weights
    intercepts = np.concatenate([selection.intercept, *(fit.intercept for fit in fits)])
    chosen = selection.column_slices(test)
    truth = Truth(test, selection.classes, chosen.shape[0])
    tallies = [_Tally(selection, truth.n_labels) for _ in range(1 + len(fits))]
    done = 0
    for window, targets, weight in truth.beside(linear_scores(chosen, weights.reshape(len(weights), -1), intercepts)):
        scores = window.reshape(len(window), *weights.shape[1:])
        for at, tally in enumerate(tallies):
            tally.add(targets, scores[:, at].reshape(len(window), *selection.weights.shape[1:]), weight)
        done += len(window)
        tell(done)
    return [tally.judged() for tally in tallies]


class _Tally:
    """The metric that fits the target."""

    def __init__(self, selection: Selection, n_labels: int) -> None:
        self._values = ValueTally()
        self._classes = None if selection.classes is None else ClassTally(len(selection.classes), n_labels)

    def add(self, targets: NDArray[Any], scores: NDArray[np.float64], weight: NDArray[np.float32] | None) -> None:
        if self._classes is None:
            self._values.add(targets, scores, weight)
        else:
            self._classes.add(targets, predicted_classes(scores), weight)

    def judged(self) -> tuple[float, Interval]:
        if self._classes is None:
            return self._values.r_squared, self._values.r_squared_interval
        return self._classes.balanced_accuracy, self._classes.balanced_accuracy_interval
