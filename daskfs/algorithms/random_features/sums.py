"""What a pass of Sparse Random Features adds up over rows, a tile of rows at a time. No N x |A| array is ever made.

A pass has a *stage*, and a stage a layout of sums; in the state all of them are one vector, so that lanes merge by
adding. Rows are worked on in tiles that begin at the same rows however the data were cut into blocks.

======== ============================================================ =======================================
stage    sums                                                          what for
======== ============================================================ =======================================
inputs   ranges, moments, a sample of rows                             scaling and bandwidth
screen   loss; −Φ_candᵀL′(z)                                           which candidates are worth a column
gram     loss; panels of ΦᵀDΦ with the new columns, ΦᵀD(y−β), ΦᵀD1      the lasso on the working set (squared loss)
newton   loss; −ΦᵀL′, ΦᵀDΦ, ΦᵀD1 with D = L″(z)                         a step of Newton's method (other losses)
line     losses at fractions of a step                                 how far to go where the whole step is too far
choose   losses of several models, on rows held back                   which of them to keep
======== ============================================================ =======================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from daskfs.algorithms.loss_kernels import curvatures as curvatures_into
from daskfs.algorithms.loss_kernels import residuals as pulls_into
from daskfs.algorithms.losses import CODE
from daskfs.algorithms.random_features.gram import add_gram
from daskfs.algorithms.random_features.inputs import inputs_layout
from daskfs.basis import Basis, multiply
from daskfs.protocol import State

if TYPE_CHECKING:
    from daskfs.algorithms.random_features import SparseRandomFeatures

Stage = Literal["inputs", "screen", "gram", "newton", "line", "choose", "done"]
Sums = dict[str, NDArray[np.float64]]
Tile = tuple[NDArray[np.float32], NDArray[np.float64], NDArray[np.float64]]
"""Scaled inputs, targets, weights."""

TILE = 1024  # rows
PANEL_BYTES = 24 << 20  # of Gram matrices that one pass adds up: twice in a state, whose size is what tasks hand on
FRACTIONS = np.array([1.0, 0.5, 0.25, 0.125, 0.0625, 0.03, 0.0])
"""Of a step that is too long."""


def panels(start: int, size: int, n_grams: int, most: int | None = None) -> list[list[tuple[int, int, int]]]:
    """Which parts of the lower triangles of Gram matrices each pass adds up: (matrix, from row, to row).

    Parameters
    ----------
    start
        The rows before this one are known.
    size, n_grams
        Rows of a matrix, and how many matrices there are.
    most
        Bytes of a pass.

    Examples
    --------
    >>> panels(2, 6, 1)
    [[(0, 2, 6)]]
    >>> panels(0, 4, 2, most=150)
    [[(0, 0, 4), (1, 0, 1)], [(1, 1, 4)]]
    """
    passes: list[list[tuple[int, int, int]]] = [[]]
    most = PANEL_BYTES if most is None else most
    left = most
    for matrix in range(n_grams):
        low = start
        while low < size:
            high = min(size, low + max(1, _rows_within(low, left)))
            needed = 8 * (high - low) * high
            if needed > left and passes[-1]:
                passes.append([])
                left = most
                continue
            passes[-1].append((matrix, low, high))
            left, low = left - needed, high
    return passes


def _rows_within(low: int, nbytes: int) -> int:
    """The most rows r with 8 r (low + r) bytes."""
    return int((np.sqrt(low**2 + nbytes / 2) - low) / 2)


def layout(state: State) -> dict[str, tuple[int, ...]]:
    """What is added up in the stage of a state: names, and the shapes of arrays."""
    d, n_scores, n_active = len(state["offset"]), len(state["intercept"]), len(state["active"])
    stage: Stage = state["stage"]
    if stage == "inputs":
        return inputs_layout(d, n_scores)
    if stage == "screen":
        return {"loss": (), "pull": (len(state["candidates"]), n_scores)}
    if stage == "line":
        return {"losses": (len(FRACTIONS),)}
    if stage == "choose":
        return {"losses": (len(state["models"]),), "weight": ()}
    if stage == "done":
        return {}
    parts: dict[str, tuple[int, ...]]
    parts = {f"panel {matrix} {low} {high}": (high - low, high) for matrix, low, high in _panels_now(state)}
    if state["panels_done"]:
        return parts
    if stage == "gram":
        new = n_active - state["n_known"]
        return {"loss": (), "b": (new, n_scores), "s": (new, 1), **parts}
    return {
        "loss": (),
        "pull": (n_active, n_scores),
        "pull_0": (n_scores,),
        "s": (n_active, n_scores),
        "n": (n_scores,),
        **parts,
    }


def _panels_now(state: State) -> list[tuple[int, int, int]]:
    n_grams = 1 if state["stage"] == "gram" else len(state["intercept"])
    return panels(state["n_known"], len(state["active"]), n_grams)[state["panels_done"]]


def size_of(shapes: dict[str, tuple[int, ...]]) -> int:
    """Numbers of all arrays together."""
    return sum(int(np.prod(shape)) for shape in shapes.values())


def parts_of(vector: NDArray[np.float64], shapes: dict[str, tuple[int, ...]]) -> Sums:
    """The arrays that share a vector, to be read and added to."""
    parts, at = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        parts[name] = vector[at : at + size].reshape(shape)
        at += size
    return parts


def tiles(X: NDArray[np.float32], Y: NDArray[np.float64], weight: NDArray[np.float64]) -> Iterator[Tile]:
    for start in range(0, len(X), TILE):
        at = slice(start, start + TILE)
        yield X[at], Y[at], weight[at]


def add_tiles(params: SparseRandomFeatures, state: State, tiles: Iterator[Tile]) -> None:
    """Add what the stage needs of some tiles of rows."""
    stage: Stage = state["stage"]
    sums = parts_of(state["sums"], layout(state))
    basis = Basis(params.kernel, state["gamma"], state["seed"], len(state["offset"]))
    adds = {"screen": _screen, "gram": _gram, "newton": _newton, "line": _line, "choose": _choose}[stage]
    adds(basis, state, sums, tiles, CODE[params.loss])


def _screen(basis: Basis, state: State, sums: Sums, tiles: Iterator[Tile], code: int) -> None:
    active, candidates = basis.features(state["active"]), basis.features(state["candidates"])
    for X, Y, weight in tiles:
        loss, pulls, _ = _judged(active.expand(X), state, Y, weight, code)
        sums["loss"] += loss
        pulled = pulls.any(axis=1)
        sums["pull"] += candidates.expand(X[pulled]).T @ pulls[pulled].astype(np.float32)


def _gram(basis: Basis, state: State, sums: Sums, tiles: Iterator[Tile], code: int) -> None:
    del code
    drawn, known = basis.features(state["active"]), state["n_known"]
    now = _panels_now(state)
    for X, Y, weight in tiles:
        features = drawn.expand(X)
        if "b" in sums:
            new = features[:, known:]
            apart = Y - state["intercept"]  # in float32 nothing would be left of a target that is far from zero
            sums["loss"] += (weight @ np.square(apart)).sum() / 2
            sums["b"] += new.T @ (weight[:, None] * apart).astype(np.float32)
            sums["s"] += new.T @ weight[:, None].astype(np.float32)
        if (weight != 1).any():
            features *= np.sqrt(weight, dtype=np.float32)[:, None]
        _add_panels(sums, features, now)


def _newton(basis: Basis, state: State, sums: Sums, tiles: Iterator[Tile], code: int) -> None:
    drawn, now = basis.features(state["active"]), _panels_now(state)
    for X, Y, weight in tiles:
        features = drawn.expand(X)
        loss, pulls, curvatures = _judged(features, state, Y, weight, code)
        if "loss" in sums:
            sums["loss"] += loss
            sums["pull"] += features.T @ pulls.astype(np.float32)
            sums["pull_0"] += pulls.sum(axis=0)
            sums["s"] += features.T @ curvatures.astype(np.float32)
            sums["n"] += curvatures.sum(axis=0)
        for number in {number for number, _, _ in now}:
            bent = np.flatnonzero(curvatures[:, number])  # of the squared hinge only rows that violate the margin
            root = np.sqrt(curvatures[bent, number], dtype=np.float32)
            _add_panels(sums, features[bent] * root[:, None], [panel for panel in now if panel[0] == number])


def _line(basis: Basis, state: State, sums: Sums, tiles: Iterator[Tile], code: int) -> None:
    drawn = basis.features(state["active"])
    steps = [
        {name: (1 - t) * state[f"{name}_before"] + t * state[name] for name in ("weights", "intercept")}
        for t in FRACTIONS
    ]
    for X, Y, weight in tiles:
        features = drawn.expand(X)
        sums["losses"] += [_judged(features, step, Y, weight, code)[0] for step in steps]


def _choose(basis: Basis, state: State, sums: Sums, tiles: Iterator[Tile], code: int) -> None:
    drawn = basis.features(state["active"])
    models = [
        {"weights": weights, "intercept": intercept}
        for weights, intercept in zip(state["models"], state["model_intercepts"], strict=True)
    ]
    for X, Y, weight in tiles:
        features = drawn.expand(X)
        sums["losses"] += [_judged(features, model, Y, weight, code)[0] for model in models]
        sums["weight"] += weight.sum()


def _judged(
    features: NDArray[np.float32], model: State, Y: NDArray[np.float64], weight: NDArray[np.float64], code: int
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    """The loss of a model on a tile, where it wants the scores to go (−L′), and its curvature (L″)."""
    scores = multiply(features, model["weights"].astype(np.float32)).astype(np.float64) + model["intercept"]
    weights = np.repeat(weight, scores.shape[1])
    pulls, curvatures = np.empty_like(weights), np.empty_like(weights)
    loss = pulls_into(code, scores.ravel(), Y.ravel(), weights, pulls)
    curvatures_into(code, scores.ravel(), Y.ravel(), weights, 0.0, curvatures)
    return loss, pulls.reshape(scores.shape), curvatures.reshape(scores.shape)


def _add_panels(sums: Sums, features: NDArray[np.float32], now: list[tuple[int, int, int]]) -> None:
    for number, low, high in now:
        add_gram(features[:, :high], low, sums[f"panel {number} {low} {high}"])
