"""Columns that are products of two others, such as the interactions of MISSION: made on the way, stored nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from daskfs.protocol import NO_PARENT
from daskfs.selection.column_slices import Chosen, Piece, as_dataset, chosen_columns

TIMES = " × "


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Which of some features are products, and of what."""

    parents: NDArray[np.uint64]
    """(k, 2) ids; twice `NO_PARENT` for a feature that is none."""
    names: list[tuple[str, str]]
    """Of the parents; empty ones for a feature that is none."""

    @property
    def are(self) -> NDArray[np.bool_]:
        """Which features are products."""
        made: NDArray[np.bool_] = self.parents[:, 0] != np.uint64(NO_PARENT)
        return made


def product_name(names: tuple[str, str]) -> str:
    """How people call the product of two features.

    >>> product_name(("user^uk", "ad^shoes"))
    'user^uk × ad^shoes'
    """
    return TIMES.join(names)


def chosen_or_made(X: Any, ids: NDArray[np.uint64], names: Sequence[str], products: Products | None) -> Chosen:
    """`chosen_columns`, where some may be products of columns of X."""
    if products is None:
        return chosen_columns(X, ids, names)
    dataset = as_dataset(X)
    X = X if dataset is None else dataset
    pairs, plain = np.flatnonzero(products.are), np.flatnonzero(~products.are)
    needed = np.concatenate([ids[plain], products.parents[pairs].T.ravel()])
    called = [names[at] for at in plain.tolist()]
    called += [products.names[at][side] for side in (0, 1) for at in pairs.tolist()]
    base_ids, first, at = np.unique(needed, return_index=True, return_inverse=True)
    base = chosen_columns(X, base_ids, [called[position] for position in first.tolist()])
    sides = np.split(at, [len(plain), len(plain) + len(pairs)])
    in_columns = dataset is not None and dataset.axis == "columns"
    whole = [Piece(slice(0, base.shape[0]), np.arange(len(base_ids)), base.together())] if in_columns else base.pieces
    pieces = _made(whole, sides, np.concatenate([plain, pairs]))
    return Chosen((base.shape[0], len(ids)), base.kind, base.dtype, pieces)


def as_members(products: Products) -> list[dict[str, Any]]:
    """What the record of every feature says of its parents."""
    rows = zip(products.parents.tolist(), products.names, products.are.tolist(), strict=True)
    return [{"parents": {"ids": ids, "names": list(names)}} if made else {} for ids, names, made in rows]


def products_in(features: Sequence[Mapping[str, Any]]) -> Products | None:
    """What `as_members` wrote."""
    if not any("parents" in feature for feature in features):
        return None
    none = {"ids": [NO_PARENT, NO_PARENT], "names": ["", ""]}
    parents = [feature.get("parents", none) for feature in features]
    ids = np.array([both["ids"] for both in parents], np.uint64)
    return Products(ids, [(both["names"][0], both["names"][1]) for both in parents])


def _made(pieces: Any, sides: list[NDArray[np.intp]], columns: NDArray[np.intp]) -> Iterator[Piece]:
    """Pieces of all base columns become pieces of the plain ones and the products."""
    for piece in pieces:
        where = np.empty(len(piece.columns), np.intp)
        where[piece.columns] = np.arange(len(piece.columns))
        plain, left, right = (piece.cells[:, where[side]] for side in sides)
        if sp.issparse(piece.cells):
            cells: Any = sp.hstack([plain, left.multiply(right)], format="csr")
        else:
            cells = np.hstack([plain, left * right])
        yield Piece(piece.rows, columns, cells)
