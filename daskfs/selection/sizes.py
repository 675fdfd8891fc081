"""Scores of the first feature of a selection, the first two, three, five, …, without another selection run.

One pass over the training data fits the models of all sizes (see `prefix_fits`), one over the test data scores them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, check_whole, public_url
from daskfs.selection.column_slices import as_dataset
from daskfs.selection.evaluation import CountProgress, Truth, ignore_progress, linear_scores
from daskfs.selection.intervals import Interval
from daskfs.selection.metrics import ScoreTally
from daskfs.selection.prefix_fits import CrossSums, PrefixFit, prefix_discriminants, prefix_fits
from daskfs.selection.records import without_nan
from daskfs.selection.selection import Selection
from daskfs.store.dataset.dataset import Dataset

if TYPE_CHECKING:
    import xarray

MOST_FEATURES = 2048  # the square of it is 32 MB
ABOUT = 20  # sizes
LINEAR_DISCRIMINANTS = "linear discriminant analysis with equal weight for every class"


@dataclass(frozen=True, eq=False)
class SizePath:
    """Scores of models on the first n features of a selection, for several n.

    Parameters
    ----------
    metric
        "balanced_accuracy" for classes, "r2" for numbers (the mean over several targets), as in `Evaluation`.
    sizes
        Numbers of features, ascending.
    scores
        The metric on the test data, for each of the sizes.
    intervals
        The 95 % intervals, as in `Evaluation`: they cover the choice of test rows, not the order of the features.
    ridges
        The ridge penalty λ of each fit.
    as_selected
        The score of all features with the selection's own weights, and its interval.
    n_features
        The number of features of the selection, which may be more than the largest size.
    train, test
        "dataset", the URL, and "digest" of both datasets.
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
        """Return all fields as values for JSON, with None for NaN and a sentence on the method in "how"."""
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
        """Return score, interval and ridge penalty along the dimension "size"."""
        import xarray

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
    """Return the scores of models on the first n features of a selection, for several n, in one pass over each dataset.

    Every number of features gets its own fit, with a ridge penalty chosen by generalised cross-validation. Real targets
    are fitted by least squares, classes by linear discriminant analysis with equal weight for every class. The order of
    features is the selection's; a selection run with a smaller k may select other features.

    Memory for k features is a few times k² numbers and a block. Test data laid out in columns need the scores of all
    rows for every size (see `Selection.scores`). Of training data laid out in columns, dense columns go through a
    temporary file (``TMPDIR``), and the selected entries of sparse columns are held in memory.

    Parameters
    ----------
    selection
        The selection; at most its first 2,048 features are refitted.
    train
        The dataset to fit on, or its URL: that of the selection.
    test
        The dataset to score on, or its URL: other rows than those of `train`, or scores are too high.
    sizes
        Numbers of features; by default about 20, evenly spaced on a logarithmic scale up to all features.
    progress
        Called now and then with the number of rows done and the total number.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(400, 9))
    >>> y = 2 * X[:, 3] - X[:, 5] + 0.1 * X[:, 0]
    >>> _ = daskfs.write_dataset("train.zarr", X[:200], y[:200])
    >>> _ = daskfs.write_dataset("test.zarr", X[200:], y[200:])
    >>> path = daskfs.size_path(daskfs.select("train.zarr", daskfs.OnlineSubstitution(3)), "train.zarr", "test.zarr")
    >>> path.metric, path.sizes, [round(score, 2) for score in path.scores]
    ('r2', [1, 2, 3], [0.78, 1.0, 1.0])
    """
    fitted_on, scored_on = _dataset("train", train), _dataset("test", test)
    prefix_sizes, n_kept = _sizes(sizes, len(selection.features)), 0
    if selection.kept is not None:
        n_kept, selection = len(selection.kept.features), selection.model
    report, total = progress or ignore_progress, fitted_on.n_samples + scored_on.n_samples
    sums = _cross_sums(_first(selection, n_kept + prefix_sizes[-1]), fitted_on, lambda rows: report(rows, total))
    fits = _fit(selection, sums, [n_kept + size for size in prefix_sizes])
    own, *prefixes = _score_fits(selection, fits, scored_on, lambda rows: report(fitted_on.n_samples + rows, total))
    return SizePath(
        metric="r2" if selection.classes is None else "balanced_accuracy",
        sizes=prefix_sizes,
        scores=[score for score, _ in prefixes],
        intervals=[interval for _, interval in prefixes],
        ridges=[fit.ridge for fit in fits],
        as_selected=own,
        n_features=len(selection.features) - n_kept,
        train=_origin(fitted_on),
        test=_origin(scored_on),
    )


def _dataset(role: str, source: Any) -> Dataset:
    dataset = as_dataset(source)
    if dataset is None:
        raise OptionError(f"{role}: a dataset is needed, or where one is, not a {type(source).__name__}")
    return dataset


def _sizes(wanted: Sequence[int] | None, n_features: int) -> list[int]:
    """Return the wanted numbers of features in ascending order, by default about 20 on a logarithmic scale."""
    most = min(n_features, MOST_FEATURES)
    if most == 0:
        raise OptionError("the selection has no features")
    if wanted is None:
        return sorted({round(size) for size in np.geomspace(1, most, ABOUT).tolist()})
    for size in wanted:
        check_whole("sizes", size, 1)
    if not wanted or max(wanted) > most:
        raise OptionError(f"sizes={list(wanted)!r:.80}: give some, none above {most:,}")
    return sorted({int(size) for size in wanted})


def _first(selection: Selection, count: int) -> Selection:
    """Return a selection of the first `count` features with their weights, without a refit."""
    products = selection.products
    return replace(
        selection,
        features=selection.features[:count],
        names=selection.names[:count],
        weights=selection.weights[:count],
        importance=selection.importance[:count],
        statistics={name: numbers[:count] for name, numbers in selection.statistics.items()},
        error_control=None,
        products=None if products is None else products.first(count),
    )


def _origin(dataset: Dataset) -> dict[str, str]:
    return {"dataset": public_url(dataset.url), "digest": dataset.digest}


def _cross_sums(selection: Selection, train: Dataset, report: Callable[[int], None]) -> CrossSums:
    """Return the sums over rows for the fits of all sizes, from one pass over the training data."""
    columns, sums = selection.column_slices(train), CrossSums()
    truth = Truth(train, selection.classes, columns.shape[0], selection.targets)
    if selection.classes is not None and truth.n_labels > len(selection.classes):
        raise OptionError(f"{train.url}: has labels that the selection does not know; give what it was selected from")
    for window in columns.row_windows():
        targets, weight = truth.take(window.shape[0])
        sums.add(window, _as_columns(targets, selection), weight)
        report(sums.rows)
    return sums


def _as_columns(targets: NDArray[Any], selection: Selection) -> NDArray[np.float64]:
    """Return the targets as columns: one column of values for every target, or one of 0 and 1 for every class."""
    if selection.classes is None:
        return targets.astype(np.float64).reshape(len(targets), -1)
    n_classes = 2 if selection.weights.ndim == 1 else len(selection.classes)
    one_hot: NDArray[np.float64] = (targets[:, None] == np.arange(n_classes)).astype(np.float64)
    return one_hot


def _fit(selection: Selection, sums: CrossSums, sizes: Sequence[int]) -> list[PrefixFit]:
    """Return the fit of every size; two classes that share one score get the difference of their discriminants."""
    if selection.classes is None:
        return prefix_fits(sums.correlations(standardise=selection.targets is not None), sizes)
    fits = prefix_discriminants(sums.correlations(), sizes)
    if selection.weights.ndim == 2:
        return fits
    return [PrefixFit(np.diff(fit.weights), np.diff(fit.intercept), fit.ridge) for fit in fits]


def _score_fits(
    selection: Selection, fits: Sequence[PrefixFit], test: Dataset, report: Callable[[int], None]
) -> list[tuple[float, Interval]]:
    """Return score and interval of the selection itself and of every fit, from one pass over the test data."""
    outputs = selection.weights.shape[1] if selection.weights.ndim == 2 else 1
    weights = np.zeros((len(selection.features), 1 + len(fits), outputs))
    weights[:, 0] = selection.weights.reshape(-1, outputs)
    for at, fit in enumerate(fits, 1):
        weights[: len(fit.weights), at] = fit.weights
    intercepts = np.concatenate([selection.intercept, *(fit.intercept for fit in fits)])
    columns = selection.column_slices(test)
    truth = Truth(test, selection.classes, columns.shape[0], selection.targets)
    n_classes = None if selection.classes is None else len(selection.classes)
    n_targets = len(selection.targets or (0,))
    tallies = [ScoreTally(n_classes, truth.n_labels, n_targets) for _ in range(1 + len(fits))]
    done = 0
    for window, targets, weight in truth.beside(linear_scores(columns, weights.reshape(len(weights), -1), intercepts)):
        scores = window.reshape(len(window), *weights.shape[1:])
        for at, tally in enumerate(tallies):
            tally.add(targets, scores[:, at].reshape(len(window), *selection.weights.shape[1:]), weight)
        done += len(window)
        report(done)
    return [(tally.score, tally.interval) for tally in tallies]
