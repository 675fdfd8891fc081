"""Random features of the columns of whatever holds them: made on the way, row by row, stored nowhere."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from daskfs.basis import KERNELS, Basis
from daskfs.errors import public_url
from daskfs.protocol import Expansion
from daskfs.selection.column_slices import Chosen, Piece, as_dataset, chosen_columns

TILE = 1 << 20  # cells of a piece, so that no more than a few megabytes of features are there at a time
_FAR = 1e18  # where a wave is noise, and a step the same as further out
COLUMNS = ("offset", "scale", "low", "high", "importance")


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The columns that random features look at, and how."""

    names: list[str]
    expansion: Expansion

    @property
    def basis(self) -> Basis:
        made = self.expansion
        return Basis(made.kernel, made.gamma, made.seed, len(self.names))

    def record(self) -> dict[str, Any]:
        """As JSON holds it: one object a column."""
        made = self.expansion
        columns = zip(self.names, *(getattr(made, name).tolist() for name in COLUMNS), strict=True)
        inputs = [dict(zip(("name", *COLUMNS), values, strict=True)) for values in columns]
        return {"kernel": made.kernel, "gamma": made.gamma, "seed": made.seed, "inputs": inputs}


def inputs_in(record: Any) -> Inputs:
    """What `Inputs.record` gave; ValueError for anything else."""
    if not isinstance(record, dict):
        raise ValueError("the random features are no object")
    kernel, gamma, seed, inputs = (record.get(name) for name in ("kernel", "gamma", "seed", "inputs"))
    if kernel not in KERNELS or not _is_number(gamma) or type(seed) is not int:
        raise ValueError("the random features are of no known kind")
    if not isinstance(inputs, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in inputs
    ):
        raise ValueError("the inputs of the random features are no list of columns with names")
    if not all(_is_number(one.get(name)) for one in inputs for name in COLUMNS):
        raise ValueError("an input of the random features lacks a finite number")
    if not gamma > 0:
        raise ValueError("the gamma of the random features is not above 0")
    columns = {name: np.array([one[name] for one in inputs], np.float64) for name in COLUMNS}
    return Inputs([one["name"] for one in inputs], Expansion(kernel, float(gamma), seed, **columns))


def _is_number(value: Any) -> TypeGuard[float]:
    """Whether JSON gave a number that a float64 can hold; there, whole numbers have no end."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def expanded(X: Any, features: NDArray[np.uint64], inputs: Inputs) -> Chosen:
    """Random features of the rows of X.

    When all rows are done, a warning says how many of them have a value outside the range that was learned from.
    """
    dataset = as_dataset(X)
    X = X if dataset is None else dataset
    ids = np.arange(len(inputs.names), dtype=np.uint64)
    base = chosen_columns(X, ids, inputs.names)
    if dataset is not None and dataset.axis == "columns":  # a feature needs all columns of a row at once
        pieces: Any = [Piece(slice(0, base.shape[0]), ids.astype(np.intp), base.together())]
    else:
        pieces = base.pieces
    made = _made(pieces, features, inputs, "X" if dataset is None else public_url(dataset.url))
    return Chosen((base.shape[0], len(features)), "dense", np.dtype(np.float32), made)


def _made(pieces: Any, features: NDArray[np.uint64], inputs: Inputs, where: str) -> Iterator[Piece]:
    made, drawn, columns = inputs.expansion, inputs.basis.features(features), np.arange(len(features))
    outside = np.zeros(len(inputs.names), np.int64)
    rows, rows_outside = 0, 0
    step = max(1, TILE // max(len(features), 1))
    for piece in pieces:
        for start in range(0, piece.cells.shape[0], step):
            some = piece.cells[start : start + step]
            X = np.empty(some.shape)
            X[:, piece.columns] = some.toarray() if sp.issparse(some) else some
            beyond = (made.low > X) | (made.high < X)
            outside += beyond.sum(axis=0)
            rows, rows_outside = rows + len(X), rows_outside + int(beyond.any(axis=1).sum())
            with np.errstate(over="ignore"):  # whatever is finite stays finite, also in float32 and times a direction
                scaled = np.clip((X - made.offset) * made.scale, -_FAR, _FAR).astype(np.float32)
            first = piece.rows.start + start
            yield Piece(slice(first, first + len(X)), columns, drawn.expand(scaled))
    if rows_outside:
        worst = int(np.argmax(outside))
        warnings.warn(
            f"{where}: {rows_outside:,} of {rows:,} rows have values outside the range that was learned from, "
            f"most of them in {inputs.names[worst]!r} ({outside[worst]:,}); what is predicted there is a guess",
            stacklevel=2,
        )
