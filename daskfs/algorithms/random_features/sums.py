"""Sums over rows in the passes of Sparse Random Features, a tile of rows at a time, without arrays as long as the data.

The kinds of passes use residuals r = −L′(z) and curvatures D = L″(z) of the loss L at the scores z = Φw + β:

======== ================================================== ====================================================
kind     sums                                               purpose
======== ================================================== ====================================================
inputs   ranges, moments, a sample of rows                  scaling and bandwidth
screen   loss; Φᵀr of the candidates, Xᵀr                   which candidates to admit
gram     loss; ΦᵀΦ, Φᵀr and Φᵀ1 of the new columns          the lasso on the working set (squared loss)
newton   loss; ΦᵀDΦ, Φᵀr, ΦᵀD1                              a step of Newton's method (other losses)
line     losses at fractions of a step                      how far to go if a whole step goes too far
choose   losses of several models, on the held-back rows    which of them to keep
======== ================================================== ====================================================

A tile is a few hundred consecutive rows; tiles begin at the same rows, whichever way the data were cut into blocks. A
tile is summed in float32, and tiles are added in float64. The error of a sum is some 1e-6 of Σ|terms| for one tile, and
below 2e-7 for many tiles, whose errors cancel. The caller sets the number of BLAS threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms import loss_kernels
from daskfs.algorithms.losses import CODE
from daskfs.algorithms.random_features.inputs import add_inputs, features_with_ids, held_back_mask, row_windows
from daskfs.algorithms.random_features.kernels import add_product, add_square
from daskfs.algorithms.random_features.lasso import Float64Array
from daskfs.algorithms.random_features.state import RandomFeaturesState, Rows, ScoreModel, Sums
from daskfs.basis import Kernel, multiply
from daskfs.protocol import Block, RowBlock, SparseBlock, copy_state

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

TILE_ROWS = 1024
GRAM_BYTES_PER_PASS = 24 << 20  # of Gram matrices; a state holds them twice, and states travel between tasks
FRACTIONS = np.array([1.0, 0.5, 0.25, 0.125, 0.0625, 0.03, 0.0])
"""Fractions of a Newton step that the line search compares if the whole step raises the objective."""
_SLAB = 512  # columns of Φ that are multiplied with all columns before them in one product
Features = NDArray[np.float32]


class GramSlice(NamedTuple):
    """A range of rows of the lower triangle of a Gram matrix."""

    matrix: int
    low: int
    high: int


def gram_slices(start: int, size: int, n_grams: int, limit: int | None = None) -> list[list[GramSlice]]:
    """Return, for every pass, the row ranges of the lower triangles of Gram matrices that the pass adds up.

    Parameters
    ----------
    start
        The first row of a Gram matrix that is not known yet.
    size, n_grams
        The rows of a matrix, and the number of matrices.
    limit
        Bytes that a pass may add up; by default `GRAM_BYTES_PER_PASS`.

    Examples
    --------
    >>> [[tuple(part) for part in parts] for parts in gram_slices(2, 6, 1)]
    [[(0, 2, 6)]]
    >>> [[tuple(part) for part in parts] for parts in gram_slices(0, 4, 2, limit=150)]
    [[(0, 0, 4), (1, 0, 1)], [(1, 1, 4)]]
    """
    passes: list[list[GramSlice]] = [[]]
    limit = GRAM_BYTES_PER_PASS if limit is None else limit
    left = limit
    for matrix in range(n_grams):
        low = start
        while low < size:
            rows = int((np.sqrt(low**2 + left / 2) - low) / 2)  # the most with 8 · rows · (low + rows) bytes
            high = min(size, low + max(1, rows))
            needed = 8 * (high - low) * high
            if needed > left and passes[-1]:
                passes.append([])
                left = limit
                continue
            passes[-1].append(GramSlice(matrix, low, high))
            left, low = left - needed, high
    return passes


def current_slices(state: RandomFeaturesState) -> list[GramSlice]:
    """Return the row ranges of Gram matrices that the current pass adds up."""
    n_grams = 1 if state.pass_kind == "gram" else len(state.model.intercept)
    return gram_slices(state.n_known, len(state.active), n_grams)[state.slices_done]


def zero_sums(state: RandomFeaturesState) -> Sums:
    """Return sums that are zero, with the arrays that the kind of pass needs."""
    d, n_scores, n_active = len(state.inputs.offset), len(state.model.intercept), len(state.active)
    match state.pass_kind:
        case "inputs":
            return Sums(x=np.zeros(d), x_squared=np.zeros(d), y=np.zeros(n_scores), y_squared=np.zeros(n_scores))
        case "screen":
            return Sums(gradient=np.zeros((len(state.candidates), n_scores)), linear=np.zeros((d, n_scores)))
        case "line" | "choose":
            return Sums(losses=np.zeros(len(FRACTIONS) if state.pass_kind == "line" else len(state.models)))
        case "done":
            return Sums()
    sums = Sums(gram_slices=[np.zeros((part.high - part.low, part.high)) for part in current_slices(state)])
    if state.slices_done == 0 and state.pass_kind == "gram":
        new = n_active - state.n_known
        sums.gradient, sums.s = np.zeros((new, n_scores)), np.zeros((new, 1))
    elif state.slices_done == 0:
        sums.gradient, sums.s = np.zeros((n_active, n_scores)), np.zeros((n_active, n_scores))
        sums.residual, sums.n = np.zeros(n_scores), np.zeros(n_scores)
    return sums


def add_block(params: SparseRandomFeatures, state: RandomFeaturesState, block: Block) -> None:
    """Add the rows of a block to the sums of the pass; keep the last rows, which fill no tile, in `state.pending`."""
    assert isinstance(block, RowBlock | SparseBlock)
    for numbers, rows in row_windows(block, state):
        held = held_back_mask(numbers, state.seed) if state.holds_back else np.zeros(len(numbers), np.bool_)
        if state.pass_kind == "inputs":
            add_inputs(state, numbers, rows, ~held)
            continue
        rows = rows.part(held if state.pass_kind == "choose" else ~held)
        scaled = ((rows.X - state.inputs.offset) * state.inputs.scale).astype(np.float32)
        before = state.pending
        X, Y = np.concatenate([before.X, scaled]), np.concatenate([before.Y, rows.Y])
        rows = Rows(X, Y, np.concatenate([before.weight, rows.weight]))
        full = len(X) - len(X) % TILE_ROWS
        if full:  # each call draws the directions of all features, which takes long if rows are long
            _add_tiles(params, state, rows.part(slice(full)))
        state.pending = copy_state(rows.part(slice(full, None)))


def add_pending(params: SparseRandomFeatures, state: RandomFeaturesState) -> None:
    """Add the pending rows, which do not fill a tile, to the sums of the pass."""
    if len(state.pending.X):
        _add_tiles(params, state, state.pending)
        state.pending = state.pending.part(slice(0))


def _add_tiles(params: SparseRandomFeatures, state: RandomFeaturesState, rows: Rows) -> None:
    """Add rows to the sums of the pass, in tiles of `TILE_ROWS`."""
    add = {"screen": _screen, "gram": _gram, "newton": _newton, "line": _compare, "choose": _compare}[state.pass_kind]
    tiles = (rows.part(slice(at, at + TILE_ROWS)) for at in range(0, len(rows.X), TILE_ROWS))
    add(params.kernel, state, tiles, CODE[state.fitted_loss])


def _screen(kernel: Kernel, state: RandomFeaturesState, tiles: Iterator[Rows], code: int) -> None:
    active, sums = features_with_ids(kernel, state, state.active), state.sums
    candidates = features_with_ids(kernel, state, state.candidates)
    centre = state.inputs.centre.astype(np.float32)
    for tile in tiles:
        loss, residuals, _ = _evaluate(active.expand(tile.X), state.model, tile, code)
        sums.loss += loss
        used = residuals.any(axis=1)
        rows, residuals = tile.X[used], residuals[used].astype(np.float32)
        sums.gradient += candidates.expand(rows).T @ residuals
        sums.linear += (rows - centre).T @ residuals


def _gram(kernel: Kernel, state: RandomFeaturesState, tiles: Iterator[Rows], code: int) -> None:
    active, sums, parts = features_with_ids(kernel, state, state.active), state.sums, current_slices(state)
    for tile in tiles:
        features, weight = active.expand(tile.X), tile.weight
        if state.slices_done == 0:
            new = features[:, state.n_known :]
            apart = tile.Y - state.model.intercept  # float32 would have no digits left for a target far from zero
            sums.loss += float((weight @ np.square(apart)).sum() / 2)
            sums.gradient += new.T @ (weight[:, None] * apart).astype(np.float32)
            sums.s += new.T @ weight[:, None].astype(np.float32)
        if (weight != 1).any():
            features *= np.sqrt(weight, dtype=np.float32)[:, None]
        _add_slices(sums, features, parts, 0)


def _newton(kernel: Kernel, state: RandomFeaturesState, tiles: Iterator[Rows], code: int) -> None:
    active, sums, parts = features_with_ids(kernel, state, state.active), state.sums, current_slices(state)
    for tile in tiles:
        features = active.expand(tile.X)
        loss, residuals, curvatures = _evaluate(features, state.model, tile, code)
        if state.slices_done == 0:
            sums.loss += loss
            sums.gradient += features.T @ residuals.astype(np.float32)
            sums.residual += residuals.sum(axis=0)
            sums.s += features.T @ curvatures.astype(np.float32)
            sums.n += curvatures.sum(axis=0)
        for number in {part.matrix for part in parts}:
            curved = np.flatnonzero(curvatures[:, number])  # with the squared hinge only rows that violate the margin
            root = np.sqrt(curvatures[curved, number], dtype=np.float32)
            _add_slices(sums, features[curved] * root[:, None], parts, number)


def _compare(kernel: Kernel, state: RandomFeaturesState, tiles: Iterator[Rows], code: int) -> None:
    active, sums = features_with_ids(kernel, state, state.active), state.sums
    models = line_models(state) if state.pass_kind == "line" else state.models
    for tile in tiles:
        features = active.expand(tile.X)
        sums.losses += [_evaluate(features, model, tile, code)[0] for model in models]
        sums.weight += float(tile.weight.sum())


def line_models(state: RandomFeaturesState) -> list[ScoreModel]:
    """Return the models at `FRACTIONS` of the way from `model_before` to `model`."""
    old, new = state.model_before, state.model
    return [
        ScoreModel((1 - t) * old.weights + t * new.weights, (1 - t) * old.intercept + t * new.intercept)
        for t in FRACTIONS
    ]


def _evaluate(features: Features, model: ScoreModel, tile: Rows, code: int) -> tuple[float, Float64Array, Float64Array]:
    """Return the loss of a model on a tile, and residuals and curvatures of every row and score."""
    scores = multiply(features, model.weights.astype(np.float32)).astype(np.float64) + model.intercept
    u, y, weight = scores.ravel(), tile.Y.ravel(), np.repeat(tile.weight, scores.shape[1])
    residuals, curvatures = np.empty_like(weight), np.empty_like(weight)
    loss = loss_kernels.residuals(code, u, y, weight, residuals)
    loss_kernels.curvatures(code, u, y, weight, 0.0, curvatures)
    return loss, residuals.reshape(scores.shape), curvatures.reshape(scores.shape)


def _add_slices(sums: Sums, features: Features, parts: list[GramSlice], matrix: int) -> None:
    for part, total in zip(parts, sums.gram_slices, strict=True):
        if part.matrix == matrix:
            add_gram(features[:, : part.high], part.low, total)


def add_gram(Phi: Features, lo: int, G: Float64Array) -> None:
    """Add rows `lo` and below of the lower triangle of ΦᵀΦ to G (A − lo, A).

    The features Φ (r, A) must have so few rows that float32 can hold sums over them. Cells of G right of the diagonal,
    at column > lo + row, are not changed (see `symmetrise`). Products of two features before `lo` are not computed.
    BLAS computes only one triangle of a square MᵀM (numpy calls ssyrk), which halves the operations to r A².
    """
    A = Phi.shape[1]
    if G.shape != (A - lo, A) or G.dtype != np.float64:  # kernels would write beyond its end
        raise ValueError(f"G is {G.dtype}{G.shape}; must be float64{(A - lo, A)}")
    buffer = np.empty(min(_SLAB, A - lo) * A, np.float32)
    for left in range(lo, A, _SLAB):
        slab = Phi[:, left : left + _SLAB]
        width = slab.shape[1]
        if left:
            product = buffer[: width * left].reshape(width, left)
            np.matmul(slab.T, Phi[:, :left], out=product)
            add_product(product, left - lo, G)
        square = buffer[: width * width].reshape(width, width)
        np.matmul(slab.T, slab, out=square)  # the same array twice: numpy calls ssyrk
        add_square(square, left - lo, left, G)


def symmetrise(G: Float64Array) -> Float64Array:
    """Copy the lower triangle of a matrix to its upper triangle, in place, and return the matrix."""
    for i in range(len(G)):  # indices of all cells would take more memory than G
        G[i, i + 1 :] = G[i + 1 :, i]
    return G
