"""Feature id <-> name. Names stay on disk; a look-up reads only the chunks it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
from daskfs.store.dataset.codec import append_crc, encode_strings
from daskfs.store.dataset.kmers import kmer_name
from daskfs.store.dataset.layout import STRING, ArraySpec
from daskfs.store.dataset.name_runs import LONGEST, NameBatch
from daskfs.store.dataset.names_kernels import pack_strings
from daskfs.store.dataset.reader import ArrayReader

CHUNK = 1 << 14  # names a chunk
_ENDS_SPACE = "^=:"  # what stands between a name space, or a column, and the rest of a name


class Names(Protocol):
    """Gives features their names."""

    def of(self, ids: NDArray[np.uint64]) -> list[str]:
        """The name of each id, in order."""

    def members(self, space: str) -> NDArray[np.uint64]:
        """The ids of a name space, ascending; all names are looked at."""


class NumberedNames:
    """The id is the name, as in svmlight files; or a column number, with a prefix."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def of(self, ids: NDArray[np.uint64]) -> list[str]:
        return [f"{self._prefix}{feature}" for feature in ids.tolist()]

    def members(self, space: str) -> NDArray[np.uint64]:
        return np.empty(0, np.uint64)


class KmerNames:
    """The name is spelled out by the id's bits."""

    def __init__(self, shift: int) -> None:
        self._shift = shift

    def of(self, ids: NDArray[np.uint64]) -> list[str]:
        return [kmer_name(feature, self._shift) for feature in ids.tolist()]

    def members(self, space: str) -> NDArray[np.uint64]:
        return np.empty(0, np.uint64)


class ColumnNames:
    """The names of a dense dataset's columns."""

    def __init__(self, names: ArrayReader) -> None:
        self._names = names

    def of(self, ids: NDArray[np.uint64]) -> list[str]:
        step = self._names.spec.chunks[0]
        chunks = {number: self._names.read(number) for number in np.unique(ids // np.uint64(step)).tolist()}
        return [str(chunks[feature // step][feature % step]) for feature in ids.tolist()]

    def members(self, space: str) -> NDArray[np.uint64]:
        names = (self._names.read(number) for number in range(self._names.spec.n_chunks))
        here = np.concatenate([_is_member(some, space) for some in names])
        return np.flatnonzero(here).astype(np.uint64)


class TableNames:
    """A table on disk sorted by id, for ids that are hashes of strings."""

    def __init__(self, first: ArrayReader, ids: ArrayReader, names: ArrayReader) -> None:
        self._first, self._ids, self._names = first, ids, names

    def of(self, ids: NDArray[np.uint64]) -> list[str]:
        if len(ids) == 0:
            return []
        wanted = np.asarray(ids, np.uint64)
        chunk_of = np.searchsorted(self._first.read_all(), wanted, side="right") - 1
        found: list[str] = [""] * len(wanted)
        for chunk in np.unique(chunk_of).tolist():
            here = np.flatnonzero(chunk_of == chunk)
            for at, name in zip(here.tolist(), self._in_chunk(chunk, wanted[here]), strict=True):
                found[at] = name
        return found

    def members(self, space: str) -> NDArray[np.uint64]:
        found = [np.empty(0, np.uint64)]
        for chunk in range(len(self._first.read_all())):
            ids = self._ids.read(chunk)
            found.append(ids[_is_member(self._names.read(chunk)[: len(ids)], space)])
        return np.concatenate(found)

    def _in_chunk(self, chunk: int, wanted: NDArray[np.uint64]) -> list[str]:
        known = self._ids.read(chunk) if chunk >= 0 else np.empty(0, np.uint64)
        at = np.searchsorted(known, wanted)
        for feature, position in zip(wanted.tolist(), at.tolist(), strict=True):
            if position == len(known) or known[position] != feature:
                raise DatasetError(
                    f"{self._ids.location.url}: feature {feature} has no name here; another dataset's id?"
                )
        return self._names.read_strings(chunk, at)


def _is_member(names: NDArray[Any], space: str) -> NDArray[np.bool_]:
    """Which names are of a name space: it and more, as in space^name, space=token or space:name, or it alone."""
    begins = tuple(space + end for end in _ENDS_SPACE)
    return np.array([name == space or str(name).startswith(begins) for name in names.tolist()], bool)


def table_specs(count: int, chunk: int) -> list[ArraySpec]:
    """The arrays of a table of `count` names: first id of each chunk, ids, names."""
    chunks = -(-count // chunk)
    unsigned = np.dtype(np.uint64)
    return [
        ArraySpec("names/first", (chunks,), (max(chunks, 1),), unsigned, ("name_chunk",)),
        ArraySpec("names/id", (count,), (chunk,), unsigned, ("name",)),
        ArraySpec("names/name", (count,), (chunk,), STRING, ("name",)),
    ]


def feature_spec(n_features: int) -> ArraySpec:
    """Where the names of a dense dataset's columns are kept."""
    return ArraySpec("feature", (n_features,), (min(CHUNK, n_features),), STRING, ("feature",))


def in_chunks(batches: Iterable[NameBatch]) -> Iterator[NameBatch]:
    """A stream of names sorted by id, cut into chunks of the table."""
    rest: NameBatch | None = None
    for batch in batches:
        joined = batch if rest is None else _joined(rest, batch)
        whole = len(joined.ids) // CHUNK * CHUNK
        for first in range(0, whole, CHUNK):
            yield joined.picked(np.arange(first, first + CHUNK))
        rest = joined.picked(np.arange(whole, len(joined.ids)))
    if rest is not None and len(rest.ids):
        yield rest


def _joined(a: NameBatch, b: NameBatch) -> NameBatch:
    shifted = b._replace(starts=b.starts + len(a.text))
    parts: list[Any] = [np.concatenate([x, y]) for x, y in zip(a, shifted, strict=True)]
    return NameBatch(*parts)


def encoded_names(names: NameBatch, chunk: int) -> bytes:
    """The chunk file of names as strings; those that are not UTF-8, or were cut, are made presentable."""
    if int(names.lengths.max(initial=0)) < LONGEST and _is_utf8(names.text):
        packed = np.zeros(4 + len(names.text) + 4 * chunk, np.uint8)
        packed[:4] = np.frombuffer(np.uint32(chunk).tobytes(), np.uint8)
        if pack_strings(names.text, names.starts, names.lengths, packed[4:]):
            return append_crc(packed.tobytes())
    text, spans = names.text.tobytes(), zip(names.starts.tolist(), names.lengths.tolist(), strict=True)
    strings = [_as_text(text[start : start + length]) for start, length in spans]
    return encode_strings(np.array(strings + [""] * (chunk - len(strings)), object))


def _is_utf8(text: NDArray[np.uint8]) -> bool:
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return False
    return True


def _as_text(name: bytes) -> str:
    return name.decode("utf-8", "replace") + ("…" if len(name) == LONGEST else "")


def check_column_names(names: Sequence[Any], n_features: int) -> NDArray[Any]:
    """Names for the columns of a dense matrix: as many as columns, each once."""
    if len(names) != n_features:
        raise DatasetError(f"{len(names)} feature names for {n_features} features")
    text = np.array([str(name) for name in names], object)
    if len(set(text.tolist())) != n_features:
        seen: set[str] = set()
        twice = next(name for name in text if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DatasetError(f"feature name {twice!r} stands for two columns; names must differ")
    return text
