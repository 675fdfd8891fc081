"""How the values of each feature differ between classes, or go with the target: small summaries for the report.

Of dense data, the values of at most `SAMPLE_ROWS` evenly spaced rows are summarised, of sparse data the entries of all
rows. Memory does not grow with the number of rows, except for one number a row of data laid out in columns. Weights of
rows do not count.

The columns behind random features, their *inputs*, are summarised in place of the features, together with their
effects: the mean prediction for all rows of the sample if one input has the same value in all of them (partial
dependence; Friedman, 2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.errors import public_url
from daskfs.selection.alternatives import (
    LEAST_CORRELATION,
    MOST,
    Alternative,
    Alternatives,
    find_alternatives,
)
from daskfs.selection.column_slices import ColumnSlices, slice_columns
from daskfs.selection.evaluation import CountProgress, Truth, ignore_progress
from daskfs.selection.intervals import FloatArray
from daskfs.selection.metrics import against_the_rest, log_odds
from daskfs.selection.products import slice_features
from daskfs.selection.records import Record, without_nan
from daskfs.selection.selection import LOG_ODDS, Selection
from daskfs.selection.summaries import TAIL, DenseSummary, SparseSummary, Summary
from daskfs.store.dataset.dataset import Dataset

MOST_FEATURES = 50  # the most important ones, which are summarised
EFFECT_POINTS, EFFECT_ROWS = 21, 200


def feature_profiles(selection: Selection, dataset: Dataset, progress: CountProgress | None = None) -> Record:
    """Return a record of the most important features, or of the most important inputs of random features, for JSON.

    Parameters
    ----------
    selection
        The selection.
    dataset
        A dataset with its features: the one it was selected from, or test data.
    progress
        Called now and then with the amount done and the total amount.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 5))
    >>> _ = daskfs.write_dataset("small.zarr", X, X[:, 3] > 0)
    >>> selection = daskfs.select("small.zarr", daskfs.OnlineSubstitution(1))
    >>> record = feature_profiles(selection, daskfs.open_dataset("small.zarr"))
    >>> record["features"][0]["name"], sum(map(sum, record["features"][0]["counts"]))
    ('x3', 50)
    """
    report = progress or ignore_progress
    profile = _inputs(selection, dataset) if selection.inputs is not None else _features(selection, dataset, report)
    return {
        "dataset": public_url(dataset.url),
        "digest": dataset.digest,
        "rows": dataset.n_samples,
        **without_nan(profile),
    }


def _features(selection: Selection, dataset: Dataset, progress: CountProgress) -> Record:
    products = None if selection.products is None else selection.products.first(MOST_FEATURES)
    ids, names = selection.features[:MOST_FEATURES], selection.names[:MOST_FEATURES]
    columns = slice_features(dataset, ids, names, products, selection.fills)
    summary = SparseSummary if columns.kind == "sparse" else DenseSummary
    result = _read(selection, columns, dataset, summary(columns, selection.classes))
    plain = ids if products is None else ids[~products.is_product]
    alternatives = find_alternatives(dataset, plain, columns_used(selection), progress)
    about = zip(ids.tolist(), names, selection.importance.tolist()[:MOST_FEATURES], result.pop("features"), strict=True)
    return {
        **result,
        "features": [
            {"id": feature, "name": name, "importance": share, **values, **_alternatives(alternatives, feature)}
            for feature, name, share, values in about
        ],
        "alternatives": alternatives.reason,
        "least_correlation": LEAST_CORRELATION,
    }


def _alternatives(alternatives: Alternatives, feature: int) -> Record:
    if feature not in alternatives.by_feature:
        return {}
    return {"alternatives": [asdict(other) for other in alternatives.by_feature[feature]]}


def columns_used(selection: Selection) -> NDArray[np.uint64]:
    """Return the ids of all columns that the model uses."""
    kept = np.empty(0, np.uint64) if selection.kept is None else selection.kept.features
    parents = np.empty(0, np.uint64) if selection.products is None else selection.products.parents.ravel()
    return np.concatenate([selection.features, kept, parents])


def _inputs(selection: Selection, dataset: Dataset) -> Record:
    """Return the record of random features: the inputs by their importance, with effects and correlated inputs."""
    assert selection.inputs is not None
    names = selection.inputs.names
    columns = slice_columns(dataset, np.arange(len(names), dtype=np.uint64), names, selection.fills)
    summary = DenseSummary(columns, selection.classes)
    result = _read(selection, columns, dataset, summary)
    shares = selection.inputs.expansion.importance
    order = np.argsort(-shares, kind="stable")[:MOST_FEATURES].tolist()
    cells, values = summary.sample.cells, result.pop("features")
    about = [
        {
            "id": at,
            "name": names[at],
            "importance": float(shares[at]),
            **values[at],
            "effect": _effect(selection, cells, at),
            "alternatives": [asdict(other) for other in _correlated(cells, at, names)],
        }
        for at in order
    ]
    has_odds = selection.classes is not None and selection.loss in LOG_ODDS
    effect = {"effect_of": "probability" if has_odds else "score" if selection.classes else "prediction"}
    return {**result, **effect, "features": about, "alternatives": "", "least_correlation": LEAST_CORRELATION}


def _correlated(cells: FloatArray, at: int, names: Sequence[str]) -> list[Alternative]:
    """Return the columns of the sample that are most correlated with column `at`."""
    centred = cells - cells.mean(axis=0)
    lengths = np.sqrt(np.square(centred).sum(axis=0))
    whole = lengths * lengths[at]
    correlations = np.divide(centred.T @ centred[:, at], whole, where=whole > 0, out=np.zeros_like(whole))
    correlations[at] = 0
    strongest = np.argsort(-np.abs(correlations), kind="stable")[:MOST].tolist()
    return [
        Alternative(other, names[other], float(correlations[other]))
        for other in strongest
        if abs(correlations[other]) >= LEAST_CORRELATION
    ]


def _effect(selection: Selection, cells: FloatArray, at: int) -> Record:
    """Return the mean prediction of some rows for values of input `at` between its low and high quantile."""
    assert selection.inputs is not None
    expansion = selection.inputs.expansion
    rows = cells[:: -(-len(cells) // EFFECT_ROWS)]
    rows = np.clip(rows, expansion.low, expansion.high)  # beyond the training data a prediction is a guess
    low, high = np.quantile(rows[:, at], [TAIL, 1 - TAIL])
    values = np.linspace(low, high, EFFECT_POINTS)
    means = []
    for value in values.tolist():
        rows[:, at] = value
        means.append(_predictions(selection, selection.decision_function(rows)).mean(axis=0))
    return {"values": values, "means": np.array(means).T}


def _predictions(selection: Selection, scores: FloatArray) -> FloatArray:
    """Return probabilities of classes, of two that of the second, where scores give any; else scores, as columns."""
    columns = scores.reshape(len(scores), -1)
    if selection.classes is None or selection.loss not in LOG_ODDS:
        return columns
    if scores.ndim == 1:
        return np.asarray(scipy.special.expit(columns))
    odds = log_odds(against_the_rest(scores) if selection.loss == "logistic" else scores)
    return np.asarray(scipy.special.expit(odds))


def _read(selection: Selection, columns: ColumnSlices, dataset: Dataset, summary: Summary) -> Record:
    """Return the summary of columns, from one pass over them."""
    truth = Truth(dataset, selection.classes, columns.shape[0], selection.targets)
    if not columns.whole_rows:
        targets, _ = truth.take(columns.shape[0])
        summary.add_rows(0, targets)
    for part in columns.slices:
        if columns.whole_rows:
            targets, _ = truth.take(part.rows.stop - part.rows.start)
            summary.add_rows(part.rows.start, targets)
        summary.add(part, targets)
    return summary.record()
