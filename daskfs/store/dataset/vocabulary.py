"""Whether a feature means in one dataset what it meant in another: ids are compared by the names they go by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.hashing_kernels import id_of_name


def check_vocabulary(dataset: Dataset, ids: NDArray[np.uint64], names: Sequence[str]) -> None:
    """OptionError where features of a selection go by other names in a dataset, or cannot be there.

    A sparse dataset need not have seen every feature: what is absent is zero.
    """
    source = dataset.attributes["names"]
    if source["from"] == "table":
        _check_hashes(dataset.url, ids, names)
        return
    known = ids < dataset.n_features if dataset.kind == "dense" or source["from"] == "columns" else ids == ids
    if dataset.kind == "dense" and not known.all():
        first = int(np.argmin(known))
        raise OptionError(
            f"{dataset.url}: has {dataset.n_features} columns, none of them feature {ids[first]} ({names[first]!r})"
        )
    here = np.flatnonzero(known)
    try:
        labels = dataset.names(ids[here])
    except ValueError as error:  # an id that spells no k-mer
        raise OptionError(f"{dataset.url}: {error}; the selection is of another kind of data") from None
    check_labels(dataset.url, labels, ids[here], [names[position] for position in here.tolist()])


def check_labels(where: str, labels: Sequence[str], ids: NDArray[np.uint64], names: Sequence[str]) -> None:
    """OptionError for the first label that is not the feature's name; a mere number is a name like "x" and it."""
    for label, feature, name in zip(labels, ids.tolist(), names, strict=True):
        if label != name and not (_is_number(label, feature) and _is_number(name, feature)):
            raise OptionError(
                f"{where}: feature {feature} is {label[:80]!r} there and {name[:80]!r} in the selection; "
                "give data with the same features in the same order"
            )


def _is_number(name: str, feature: int) -> bool:
    return name in (str(feature), f"x{feature}")


def _check_hashes(url: str, ids: NDArray[np.uint64], names: Sequence[str]) -> None:
    """Where ids are hashes, a name and its id prove each other without a look at the data."""
    for feature, name in zip(ids.tolist(), names, strict=True):
        as_read = not name.endswith("…") and "\ufffd" not in name  # neither cut nor repaired, see names.py
        if as_read and id_of_name(name) != feature:
            raise OptionError(
                f"{url}: its features are hashed strings, and {feature} is not the hash of {name[:80]!r}; "
                "the selection is of another kind of data"
            )
