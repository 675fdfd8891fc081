"""Lookup of feature names by id, names of k-mers, and the check that a selection fits the features of a dataset.

Feature names stay on disk, and a lookup reads only the chunks that hold the requested names.

The id of a k-mer is the bit ``1`` followed by two bits per base (A, C, G, T = 0 … 3), the first base in the highest
bits. The 1 before the first base marks the length of the k-mer, so that k-mers of different lengths never share an
id. A k-mer at a fixed position in its row has the id ``position << shift | id``, with the id of the k-mer alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError, OptionError
from daskfs.store.dataset.hashing_kernels import id_of_name
from daskfs.store.dataset.layout import STRING, ArraySpec
from daskfs.store.dataset.reader import ArrayReader

if TYPE_CHECKING:
    from daskfs.store.dataset.dataset import Dataset

CHUNK = 1 << 14  # names a chunk
BASES = "ACGT"
LONGEST_KMER = 31  # 1 + 2 * 31 bits: ids stay below 2^63
_SEPARATORS = "^=:"  # between a name space, or a column, and the rest of a name


class ComputedNames:
    """Names that are computed from feature ids alone, such as numbers or k-mers; no two features share a name space."""

    def __init__(self, name_of: Callable[[int], str], id_of: Callable[[str], int], max_id: int) -> None:
        self._name_of, self._id_of, self._max_id = name_of, id_of, max_id

    def of(self, ids: NDArray[np.uint64]) -> list[str]:
        """Return the name of each feature id, in the order of `ids`."""
        return [self._name_of(feature) for feature in ids.tolist()]

    def members(self, space: str) -> NDArray[np.uint64]:
        """Return the id of the feature with this name, if there is one."""
        try:
            feature = self._id_of(space)
        except ValueError:  # no name of a feature
            return np.empty(0, np.uint64)
        return np.array([feature] if 0 <= feature <= self._max_id else [], np.uint64)


class StoredNames:
    """The names of columns on disk; or the names table, sorted by id, of a dataset whose ids are hashes of names.

    A names table has the arrays `ids` and `first`, the first id of each chunk. Without them, ids are column numbers.
    """

    def __init__(self, names: ArrayReader, ids: ArrayReader | None = None, first: ArrayReader | None = None) -> None:
        self._names, self._ids, self._first = names, ids, first

    def of(self, ids: NDArray[np.uint64]) -> list[str]:
        """Return the name of each feature id, in the order of `ids`."""
        if self._first is None:
            chunk_of = (ids // np.uint64(self._names.spec.chunks[0])).astype(np.int64)
        else:
            chunk_of = np.searchsorted(self._first.read_all(), ids, side="right") - 1
        result: list[str] = [""] * len(ids)
        for chunk in np.unique(chunk_of).tolist():
            here = np.flatnonzero(chunk_of == chunk)
            known = self._ids_in(chunk) if chunk >= 0 else np.empty(0, np.uint64)
            at = np.searchsorted(known, ids[here])
            for feature, position in zip(ids[here].tolist(), at.tolist(), strict=True):
                if position == len(known) or known[position] != feature:
                    url = self._names.location.url
                    raise DatasetError(f"{url}: feature {feature} has no name here; another dataset's id?")
            for i, name in zip(here.tolist(), self._names.read_strings(chunk, at), strict=True):
                result[i] = name
        return result

    def members(self, space: str) -> NDArray[np.uint64]:
        """Return the ids of all features in a name space in ascending order, by reading every name."""
        parts = [np.empty(0, np.uint64)]
        for chunk in range(self._names.spec.n_chunks):
            ids = self._ids_in(chunk)
            parts.append(ids[_are_members(self._names.read(chunk)[: len(ids)], space)])
        return np.concatenate(parts)

    def _ids_in(self, chunk: int) -> NDArray[np.uint64]:
        """Return the ids of the features whose names are in a chunk."""
        if self._ids is not None:
            return self._ids.read(chunk)
        (size,), (step,) = self._names.spec.shape, self._names.spec.chunks
        return np.arange(chunk * step, min((chunk + 1) * step, size), dtype=np.uint64)


def _are_members(names: NDArray[Any], space: str) -> NDArray[np.bool_]:
    """Return whether each name is in a name space, as space^name, space=token, space:name or the space alone."""
    begins = tuple(space + separator for separator in _SEPARATORS)
    return np.array([name == space or str(name).startswith(begins) for name in names.tolist()], bool)


def feature_spec(n_features: int) -> ArraySpec:
    """Return the spec of the array that stores the column names of a dense dataset."""
    return ArraySpec("feature", (n_features,), (min(CHUNK, n_features),), STRING, ("feature",))


def check_column_names(names: Sequence[Any], n_features: int) -> NDArray[Any]:
    """Return column names as strings. Raise DatasetError if the number of names is wrong or a name occurs twice."""
    if len(names) != n_features:
        raise DatasetError(f"{len(names)} feature names for {n_features} features")
    text = [str(name) for name in names]
    counts = Counter(text)
    if len(counts) != n_features:
        repeated = next(name for name in text if counts[name] > 1)
        raise DatasetError(f"feature name {repeated!r} stands for two columns; names must differ")
    return np.array(text, object)


def position_shift(longest: int) -> int:
    """Return by how many bits a position is shifted to make room for the id of a k-mer of up to `longest` bases.

    >>> position_shift(12)
    25
    """
    return 2 * longest + 1


def kmer_name(feature_id: int, shift: int) -> str:
    """Return the k-mer of a feature id, followed by its position in the row if `shift` is not 0.

    >>> kmer_name(0b1_00_01_10_11, shift=0)
    'ACGT'
    >>> kmer_name(17 << 9 | 0b1_00_01_10_11, shift=9)
    'ACGT@17'
    """
    position, code = divmod(feature_id, 1 << shift) if shift else (0, feature_id)
    length, odd = divmod(code.bit_length() - 1, 2)
    if not 0 <= feature_id < 1 << 63 or odd or not 1 <= length <= LONGEST_KMER:
        raise ValueError(f"{feature_id} is not the id of a k-mer")
    kmer = "".join(BASES[code >> 2 * i & 3] for i in reversed(range(length)))
    return f"{kmer}@{position}" if shift else kmer


def kmer_id(name: str, shift: int) -> int:
    """Return the feature id of a name of `kmer_name`, or raise ValueError for another name.

    >>> kmer_id("ACGT", shift=0) == 0b1_00_01_10_11, kmer_id("ACGT@17", shift=9) == 17 << 9 | 0b1_00_01_10_11
    (True, True)
    """
    kmer, _, position = name.partition("@")
    code = 1
    for base in kmer:
        code = code << 2 | BASES.index(base)
    feature = (int(position) << shift) | code if shift else code
    if kmer_name(feature, shift) != name:
        raise ValueError(f"{name!r:.80} is not the name of a k-mer")
    return feature


def check_vocabulary(dataset: Dataset, ids: NDArray[np.uint64], names: Sequence[str]) -> None:
    """Raise OptionError if selected features have other names in a dataset, or cannot occur in the dataset.

    A sparse dataset need not contain every selected feature, since an absent feature is zero.
    """
    source = dataset.attributes["names"]
    if source["from"] == "table":  # ids are hashes of names: no need to read the dataset
        for feature, name in zip(ids.tolist(), names, strict=True):
            is_original = not name.endswith("…") and "\ufffd" not in name  # neither cut nor repaired by `name_runs`
            if is_original and id_of_name(name) != feature:
                raise OptionError(
                    f"{dataset.url}: its features are hashed strings, and {feature} is not the hash of {name[:80]!r}; "
                    "the selection is of another kind of data"
                )
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
    except ValueError as error:  # an id that is no k-mer
        raise OptionError(f"{dataset.url}: {error}; the selection is of another kind of data") from None
    check_labels(dataset.url, labels, ids[here], [names[position] for position in here.tolist()])


def check_labels(where: str, labels: Sequence[str], ids: NDArray[np.uint64], names: Sequence[str]) -> None:
    """Raise OptionError for the first feature whose label differs from its name; "7" and "x7" count as equal."""
    for label, feature, name in zip(labels, ids.tolist(), names, strict=True):
        numbered = (str(feature), f"x{feature}")
        if label != name and not (label in numbered and name in numbered):
            raise OptionError(
                f"{where}: feature {feature} is {label[:80]!r} there and {name[:80]!r} in the selection; "
                "give data with the same features in the same order"
            )
