"""What features are called: columns by their names, products by those of both parents, random ones by their kind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from daskfs.selection.products import Products, product_name

Ids = NDArray[np.uint64]
LookUp = Callable[[Ids], list[str]]


def named(look_up: LookUp, features: Ids, made: Products | None = None, called: str = "") -> list[str]:
    """The names of features.

    Parameters
    ----------
    look_up
        Gives the names of columns.
    features
        Their ids.
    made
        Which of them are products.
    called
        What features are that are no columns.

    Examples
    --------
    >>> from daskfs.selection.naming import named
    >>> named(None, np.array([7, 3], np.uint64), called="gaussian")
    ['gaussian 7', 'gaussian 3']
    """
    if called:
        return [f"{called} {feature}" for feature in features.tolist()]
    if made is None:
        return look_up(features)
    plain = iter(look_up(features[~made.are]))
    return [product_name(both) if is_pair else next(plain) for both, is_pair in zip(made.names, made.are, strict=True)]


def products_of(look_up: LookUp, parents: Ids) -> Products:
    """Which features are products of two others, and what these are called."""
    made = Products(parents, [("", "")] * len(parents))
    pairs = np.flatnonzero(made.are).tolist()
    left, right = (look_up(parents[pairs, side]) for side in (0, 1))
    for at, both in zip(pairs, zip(left, right, strict=True), strict=True):
        made.names[at] = both
    return made
