"""Reading and scaling of rows for Sparse Random Features, and the first pass over the rows.

The first pass learns ranges and moments of inputs and target, and draws a sample of rows. Ranges, moments and sample
are sums, minima, maxima, and the rows with the smallest hashes, which do not depend on which shard saw which row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.losses import Loss, check_target, encode_target, several_labels
from daskfs.algorithms.random_features.lasso import Float64Array
from daskfs.algorithms.random_features.state import IdArray, InputSummary, RandomFeaturesState, Rows, Sums
from daskfs.basis import LINEAR, Basis, Kernel, RandomFeatures
from daskfs.errors import OptionError, RowError
from daskfs.protocol import Meta, RowBlock, SparseBlock, copy_state

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

MAX_INPUTS = 1 << 14
"""The most columns that random features accept, as every feature reads all columns."""
LINEAR_DEVIATION: dict[Loss, float] = {"squared": 10.0, "squared_hinge": 1.0, "logistic": 1.0}
"""The standard deviation of a linear term while weights are penalised; that of a wave is 1. With the squared loss the
penalty hardly shrinks a straight line. Other losses need the penalty where a straight line separates all classes."""
WINDOW_CELLS = 1 << 19  # cells that are made dense and scaled at a time
_HELD_BACK = 10  # one row of ten is held back for choices
_SAMPLE_ROWS = 2048  # at most,
_SAMPLE_CELLS = 1 << 18  # fewer if rows are long,
_HEURISTIC_ROWS = 512  # of the sample, for the median distance
_MIN_SAMPLE_ROWS = 32  # but at least this many
_FLAT = 1e-12  # a variance below this share of the squared mean is rounding
_MIX = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def count_inputs(meta: Meta) -> int:
    """Return the number of columns; raise OptionError if there are too many."""
    d = meta.n_features if meta.kind == "dense" else meta.max_id + 1
    if meta.n_features <= MAX_INPUTS and d > 1 << 32:  # hashes of names, and not numbers of columns
        raise OptionError(
            f"{meta.n_features:,} features have ids up to {d - 1:,}, as categories and words have, and random features "
            f"take ids below {MAX_INPUTS:,}: leave columns of categories out, or write them as numbers, or choose "
            "daskfs.OnlineSubstitution or daskfs.Mission"
        )
    if d > MAX_INPUTS:
        raise OptionError(
            f"{d:,} columns: random features look at all of them, and take {MAX_INPUTS:,} at most; "
            "choose some with daskfs.OnlineSubstitution or daskfs.Mission first"
        )
    return d


def one_vs_rest_labels(loss: Loss, meta: Meta) -> Float64Array:
    """Return the values that stand for classes in blocks if each class has its own score, or else an empty array."""
    check_target(loss, meta, several=True)
    return several_labels(loss, meta)


def row_windows(block: RowBlock | SparseBlock, state: RandomFeaturesState) -> Iterator[tuple[NDArray[np.int64], Rows]]:
    """Yield windows of rows with their row numbers; raise RowError for the first value that is not finite."""
    d = len(state.inputs.offset)
    step = max(1, WINDOW_CELLS // (d + len(state.model.intercept)))  # there may be more scores than inputs
    for start in range(0, len(block.y), step):
        at = slice(start, min(start + step, len(block.y)))
        X = block.X[at].astype(np.float64) if isinstance(block, RowBlock) else _dense(block, at, d)
        first = block.first + start
        finite = np.isfinite(X)
        if not finite.all():
            row, column = divmod(int(np.argmin(finite)), d)
            raise RowError(first + row, column, f"the value {X[row, column]} is not finite; fill it, or drop the row")
        weight = np.ones(len(X)) if block.weight is None else block.weight[at].astype(np.float64)
        yield np.arange(first, first + len(X)), Rows(X, _targets(block.y[at], state), weight)


def _targets(y: Float64Array, state: RandomFeaturesState) -> Float64Array:
    """Return a column for every score: the scaled number, ±1 for two classes, or ±1 for each class against the rest."""
    if len(state.labels):
        return np.where(y[:, None] == state.labels, 1.0, -1.0)
    scaled = (encode_target(y, state.positive) - state.inputs.target_offset) * state.inputs.target_scale
    return np.asarray(scaled[:, None])


def _dense(block: SparseBlock, at: slice, d: int) -> Float64Array:
    indptr = block.indptr[at.start : at.stop + 1]
    entries = slice(indptr[0], indptr[-1])
    X = np.zeros((len(indptr) - 1, d))
    X[np.repeat(np.arange(len(X)), np.diff(indptr)), block.ids[entries].astype(np.intp)] = block.values[entries]
    return X


def hash_rows(numbers: NDArray[np.int64], seed: int) -> IdArray:
    """Return a random number for every row, which depends only on the row's number and the seed.

    >>> hash_rows(np.arange(3), seed=0) == hash_rows(np.arange(2, 5), seed=0)[0]
    array([False, False,  True])
    """
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) * _MIX[0] + np.uint64((seed + 1) % 2**64) * _MIX[2]
        x = (x ^ (x >> np.uint64(30))) * _MIX[1]
        x = (x ^ (x >> np.uint64(27))) * _MIX[2]
    return np.asarray(x ^ (x >> np.uint64(31)))


def held_back_mask(numbers: NDArray[np.int64], seed: int) -> NDArray[np.bool_]:
    """Return a mask of the rows that are held back for the choice of a model."""
    return np.asarray(hash_rows(numbers, seed) % np.uint64(_HELD_BACK) == 0)


def add_inputs(state: RandomFeaturesState, numbers: NDArray[np.int64], rows: Rows, learned: NDArray[np.bool_]) -> None:
    """Add rows to the sums and the summary of the first pass, without the targets of held-back rows."""
    if not len(rows.X):
        return
    inputs, sums = state.inputs, state.sums
    np.minimum(inputs.low, rows.X.min(axis=0), out=inputs.low)
    np.maximum(inputs.high, rows.X.max(axis=0), out=inputs.high)
    weight = np.where(learned, rows.weight, 0.0)
    inputs.target_low = min(inputs.target_low, float(rows.Y[weight > 0].min(initial=np.inf)))
    inputs.target_high = max(inputs.target_high, float(rows.Y[weight > 0].max(initial=-np.inf)))
    sums.all_weight += float(rows.weight.sum())
    sums.weight += float(weight.sum())
    with np.errstate(over="ignore", invalid="ignore"):  # such large targets are refused later
        sums.x += rows.weight @ rows.X
        sums.x_squared += rows.weight @ np.square(rows.X)
        sums.y += weight @ rows.Y
        sums.y_squared += weight @ np.square(rows.Y)
    target = rows.Y.argmax(axis=1) if len(state.labels) else rows.Y[:, 0]
    _extend_sample(inputs, hash_rows(numbers, state.seed), rows.X, target.astype(np.float64), rows.weight)


def _extend_sample(
    inputs: InputSummary, keys: IdArray, X: NDArray[np.floating[Any]], target: Float64Array, weight: Float64Array
) -> None:
    """Update the sample of rows, which has the rows with the smallest hash keys, each row once."""
    room = sample_rows(X.shape[1])
    if len(inputs.sample_keys) == room:
        better = keys < inputs.sample_keys[-1]
        keys, X, target, weight = keys[better], X[better], target[better], weight[better]
    all_keys, first = np.unique(np.concatenate([inputs.sample_keys, keys]), return_index=True)
    inputs.sample = np.concatenate([inputs.sample, X])[first[:room]]
    inputs.sample_target = np.concatenate([inputs.sample_target, target])[first[:room]]
    inputs.sample_weight = np.concatenate([inputs.sample_weight, weight])[first[:room]]
    inputs.sample_keys = all_keys[:room]


def sample_rows(d: int) -> int:
    """Return how many rows of d inputs are sampled."""
    return max(_MIN_SAMPLE_ROWS, min(_SAMPLE_ROWS, _SAMPLE_CELLS // max(d, 1)))


def rows_nbytes(d: int, n_scores: int) -> int:
    """Return the bytes that a window of rows takes while it is scaled, plus those of the sample of rows."""
    return 5 * 8 * max(WINDOW_CELLS, d + n_scores) + 4 * 8 * d * sample_rows(d)


def merge_inputs(summaries: Sequence[InputSummary]) -> InputSummary:
    """Return the summary of all rows from the summaries of several shards, which are not changed."""
    merged: InputSummary = copy_state(summaries[0])
    for other in summaries[1:]:
        merged.low, merged.high = np.minimum(merged.low, other.low), np.maximum(merged.high, other.high)
        merged.target_low = min(merged.target_low, other.target_low)
        merged.target_high = max(merged.target_high, other.target_high)
        _extend_sample(merged, other.sample_keys, other.sample, other.sample_target, other.sample_weight)
    return merged


def fix_scaling(params: SparseRandomFeatures, state: RandomFeaturesState, sums: Sums) -> None:
    """Set the scaling of inputs and target, and the bandwidth gamma that `scale.choose_scale` may multiply."""
    inputs = state.inputs
    mean, deviation = _moments(inputs, sums)
    if params.scaling == "unit":
        inputs.offset, inputs.scale = inputs.low, _inverse(inputs.high - inputs.low)
    elif params.scaling == "standard":
        inputs.offset, inputs.scale = mean, _inverse(deviation)
    inputs.centre = (mean - inputs.offset) * inputs.scale
    inputs.stretch = LINEAR_DEVIATION[state.fitted_loss] * _inverse(deviation * inputs.scale)
    if params.scaling != "none" and not state.classes and inputs.target_high > inputs.target_low:
        inputs.target_offset = inputs.target_low
        inputs.target_scale = 1 / (inputs.target_high - inputs.target_low)
    if params.gamma == "auto":
        rows = inputs.sample[:_HEURISTIC_ROWS]
        inputs.gamma = median_gamma(params.kernel, (rows - inputs.offset) * inputs.scale)
    else:
        inputs.gamma = float(params.gamma)


def _moments(inputs: InputSummary, sums: Sums) -> tuple[Float64Array, Float64Array]:
    """Return the mean and standard deviation of every input, from its range where sums have too few digits."""
    mean = sums.x / sums.all_weight
    variance = sums.x_squared / sums.all_weight - mean**2
    rounding = variance <= _FLAT * mean**2
    deviation = np.where(rounding, (inputs.high - inputs.low) / math.sqrt(12), np.sqrt(np.maximum(variance, 0.0)))
    return np.where(rounding, (inputs.low + inputs.high) / 2, mean), deviation


def features_with_ids(kernel: Kernel, state: RandomFeaturesState, ids: IdArray) -> RandomFeatures:
    """Return features as the rounds see them, with linear terms of mean 0 and the deviation `LINEAR_DEVIATION`."""
    inputs = state.inputs
    per_feature = tuple(state.inputs_per_feature.tolist())
    features = Basis(kernel, inputs.gamma, state.seed, len(inputs.offset), per_feature).features(ids)
    if features.linear is not None:
        columns = linear_columns(ids[features.linear])
        features.W[features.linear, columns] = inputs.stretch[columns]
        features.b[features.linear] = (inputs.centre * inputs.stretch)[columns]
    return features


def linear_columns(ids: IdArray) -> NDArray[np.int64]:
    """Return the columns of linear terms."""
    return (ids - np.uint64(LINEAR)).astype(np.int64)


def median_gamma(kernel: str, sample: Float64Array) -> float:
    """Return a bandwidth by the median heuristic: the kernel of two rows at the median distance is exp(−½).

    For the Laplacian kernel, exp(−1) at the median distance does worse on held-back rows and takes more features.
    """
    if len(sample) < 2:
        return 1.0
    if kernel == "perceptron":  # its thresholds lie within ± 1/γ, where the rows are
        return 1 / max(float(np.linalg.norm(sample, axis=1).max()), np.finfo(float).tiny)
    order = 1 if kernel == "laplacian" else 2
    half = len(sample) // 2
    apart = np.linalg.norm(sample[:half] - sample[half : 2 * half], ord=order, axis=1)
    median = float(np.median(apart[apart > 0])) if (apart > 0).any() else 1.0
    return 1 / (2 * median) if kernel == "laplacian" else 1 / (2 * median**2)


def _inverse(span: Float64Array) -> Float64Array:
    """Return 1 / span of every input, or 0 for a constant input, which so becomes 0 in every row."""
    return np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)
