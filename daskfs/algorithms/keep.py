"""The parameter `keep` of every algorithm: features that are in the model beside the selected ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.protocol import Meta


def names_to_keep(keep: Sequence[str]) -> tuple[str, ...]:
    """Return the parameter `keep` as a tuple. Raise OptionError if it is a single text and not a list."""
    is_list = isinstance(keep, Iterable) and not isinstance(keep, (str, Mapping))
    if not is_list or not all(isinstance(name, str) for name in keep):
        raise OptionError(f"keep={keep!r:.80}: give a list of names, such as ['age', 'batch']")
    return tuple(keep)


def kept_features(keep: Sequence[str], meta: Meta, parameter: str = "keep") -> NDArray[np.uint64]:
    """Return the ids of the features that `keep` names, in the order of the names.

    A name refers to a column, or to a name space, such as a column of categories, of which all features are kept.
    Raise OptionError, with the name of the `parameter`, for a name that the dataset does not have.
    """
    ids = [np.empty(0, np.uint64)]
    for name in keep:
        members = meta.members(name)
        if not len(members):
            raise OptionError(f"{parameter}: the dataset has no feature {name!r:.80}")
        ids.append(members)
    together = np.concatenate(ids)
    distinct, first = np.unique(together, return_index=True)
    return together if len(distinct) == len(together) else together[np.sort(first)]
