"""Features that are products of two columns, such as MISSION's interactions, and the names of features of every kind.

Products are computed while columns are read; no dataset stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.basis import LINEAR, is_linear
from daskfs.protocol import NO_PARENT
from daskfs.selection.column_slices import ColumnSlice, ColumnSlices, FeatureIds, as_dataset, slice_columns
from daskfs.store.ingest.gaps import Fills

TIMES = " × "

LookUp = Callable[[FeatureIds], list[str]]
"""A function from the ids of columns to their names."""


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """The two parent columns of every selected feature that is a product of two columns.

    Parameters
    ----------
    parents
        The ids of both parents, ``(k, 2)``; `NO_PARENT` twice for a feature that is a column.
    names
        The names of both parents; empty strings for a feature that is a column.
    """

    parents: NDArray[np.uint64]
    names: list[tuple[str, str]]

    @property
    def is_product(self) -> NDArray[np.bool_]:
        """Flags, one a feature, that say whether the feature is a product of two columns."""
        flags: NDArray[np.bool_] = self.parents[:, 0] != np.uint64(NO_PARENT)
        return flags

    def first(self, count: int) -> Products:
        """Return the `Products` of the first `count` features."""
        return Products(self.parents[:count], self.names[:count])

    def after_columns(self, count: int) -> Products:
        """Return the `Products` of the same features after `count` features that are columns."""
        parents = np.full((count, 2), NO_PARENT, np.uint64)
        return Products(np.concatenate([parents, self.parents]), [("", "")] * count + self.names)


def product_name(names: tuple[str, str]) -> str:
    """Return the name of the product of two features.

    >>> product_name(("user^uk", "ad^shoes"))
    'user^uk × ad^shoes'
    """
    return TIMES.join(names)


def named_products(look_up: LookUp, parents: NDArray[np.uint64]) -> Products:
    """Return `Products` for the ids of parents, ``(k, 2)``, with the names that `look_up` gives the parents."""
    names = [("", "")] * len(parents)
    pairs = np.flatnonzero(Products(parents, names).is_product).tolist()
    left, right = (look_up(parents[pairs, side]) for side in (0, 1))
    for at, both in zip(pairs, zip(left, right, strict=True), strict=True):
        names[at] = both
    return Products(parents, names)


def feature_names(
    look_up: LookUp, features: FeatureIds, products: Products | None = None, prefix: str = ""
) -> list[str]:
    """Return the names of features: a column's own name, or for a product the names of both parents.

    Parameters
    ----------
    look_up
        Returns the names of columns.
    features
        The ids of the features.
    products
        Which features are products; None if none is.
    prefix
        A word for random features, whose names are this word and their id; linear terms have the column's own name.

    Examples
    --------
    >>> from daskfs.selection.products import feature_names
    >>> feature_names(None, np.array([7, 3], np.uint64), prefix="gaussian")
    ['gaussian 7', 'gaussian 3']
    """
    if prefix:
        linear = is_linear(features)
        columns = iter(look_up(features[linear] - np.uint64(LINEAR)) if linear.any() else ())
        pairs = zip(features.tolist(), linear, strict=True)
        return [next(columns) if is_column else f"{prefix} {feature}" for feature, is_column in pairs]
    if products is None:
        return look_up(features)
    are_products = products.is_product
    columns = iter(look_up(features[~are_products]))
    pairs = zip(products.names, are_products, strict=True)
    return [product_name(both) if is_product else next(columns) for both, is_product in pairs]


def slice_features(
    X: Any,
    ids: FeatureIds,
    names: Sequence[str],
    products: Products | None,
    fills: Fills | None = None,
    date_formats: Mapping[str, str] | None = None,
) -> ColumnSlices:
    """Return features of X as `slice_columns` does, where some features may be products of columns of X."""
    if products is None:
        return slice_columns(X, ids, names, fills, date_formats)
    dataset = as_dataset(X)
    pairs, plain = np.flatnonzero(products.is_product), np.flatnonzero(~products.is_product)
    base_ids = np.concatenate([ids[plain], products.parents[pairs].T.ravel()])
    base_names = [names[at] for at in plain.tolist()]
    base_names += [products.names[at][side] for side in (0, 1) for at in pairs.tolist()]
    distinct, first, at = np.unique(base_ids, return_index=True, return_inverse=True)
    source = X if dataset is None else dataset
    base = slice_columns(source, distinct, [base_names[position] for position in first], fills, date_formats)
    plain_at, left_at, right_at = np.split(at, [len(plain), len(plain) + len(pairs)])
    order = np.concatenate([plain, pairs])

    def multiplied() -> Iterator[ColumnSlice]:
        for piece in base.with_all_columns():
            left, right = piece.cells[:, left_at], piece.cells[:, right_at]
            if scipy.sparse.issparse(piece.cells):
                cells: Any = scipy.sparse.hstack([piece.cells[:, plain_at], left.multiply(right)], format="csr")
            else:
                cells = np.hstack([piece.cells[:, plain_at], left * right])
            yield ColumnSlice(piece.rows, order, cells)

    return ColumnSlices((base.shape[0], len(ids)), base.kind, base.dtype, multiplied())


def parent_records(products: Products) -> list[dict[str, Any]]:
    """Return the member "parents" of every feature's JSON record, or an empty dict for a feature that is a column."""
    rows = zip(products.parents.tolist(), products.names, products.is_product.tolist(), strict=True)
    return [{"parents": {"ids": ids, "names": list(names)}} if pair else {} for ids, names, pair in rows]


def products_from_records(features: Sequence[Mapping[str, Any]]) -> Products | None:
    """Return the products in the JSON records of features, as `parent_records` wrote them, or None without products."""
    if not any("parents" in feature for feature in features):
        return None
    none = {"ids": [NO_PARENT, NO_PARENT], "names": ["", ""]}
    parents = [feature.get("parents", none) for feature in features]
    ids = np.array([both["ids"] for both in parents], np.uint64)
    return Products(ids, [(both["names"][0], both["names"][1]) for both in parents])
