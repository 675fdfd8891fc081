"""Rows on their way into a random order: sorted by a random key run by run, and then merged.

The new order is that of the rows' keys (`row_keys`). A *run* is the rows of some consecutive blocks, as many as there
is memory for, sorted by key, in files of their own.

All keys are equally likely, and so the range of keys is cut into 2^bits *slots* of equal width before a row is read:
each gets about as many rows. Where a slot begins in the files of a run, and what its bytes hash to, is the run's index:
any slots can be read, and checked, without the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import ChunkError
from daskfs.protocol import RowBlock, SparseBlock
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.names_kernels import gather, gather_text
from daskfs.store.places.location import Location
from daskfs.store.reorder.row_keys import Keys, row_keys
from daskfs.store.reorder.row_runs_kernels import hash_parts

HEAD = np.dtype(
    [("key", np.uint64), ("y", np.float64), ("weight", np.float32), ("entries", np.uint32), ("tag_bytes", np.uint32)],
    align=True,
)
"""What every row has; what belongs to it besides is as long as it says here."""
LENGTHS = {"ids": "entries", "values": "entries", "X": "entries", "tag": "tag_bytes"}
"""What rows carry, end to end in arrays of their own, and which field of the head says how much of it."""


class Lines:
    """Rows in memory: a head for each, and what they carry end to end."""

    def __init__(self, heads: NDArray[Any], cargo: Mapping[str, NDArray[Any]]) -> None:
        self.heads, self.cargo = heads, cargo
        self._starts = {field: _edges(heads[field])[:-1] for field in {LENGTHS[name] for name in cargo}}

    def order(self) -> NDArray[np.int64]:
        """The rows by their keys."""
        return np.argsort(self.heads["key"], kind="stable")  # fast on runs, which ascend

    def carried(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """What some rows carry, in their order."""
        cells, field = self.cargo[name], LENGTHS[name]
        starts, lengths = self._starts[field][rows], self.heads[field][rows]
        out = np.empty(int(lengths.sum(dtype=np.int64)), cells.dtype)
        if cells.itemsize == 1:
            gather_text(cells, starts, lengths.astype(np.int64), out)
        else:
            bits = f"u{cells.itemsize}"
            gather(cells.view(bits), starts, lengths, out.view(bits))
        return out


def collected(source: Dataset, blocks: range, wanted: Keys) -> Lines:
    """The wanted rows of some blocks of a dataset."""
    heads: list[NDArray[Any]] = []
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in cargo_of(source)}
    for number, block in zip(blocks, source.blocks(blocks, "rows", ahead=1), strict=True):
        assert isinstance(block, SparseBlock | RowBlock)
        head = np.zeros(len(block.y), HEAD)
        head["key"], head["y"] = row_keys(wanted.seed, block.first, len(block.y)), block.y
        head["weight"] = 1 if block.weight is None else block.weight
        kept = slice(None) if wanted.are_all else wanted.among(head["key"])
        if isinstance(block, RowBlock):
            head["entries"] = block.X.shape[1]
            parts["X"].append(block.X[kept].flatten())
        else:
            head["entries"] = np.diff(block.indptr)
            entries = kept if isinstance(kept, slice) else np.repeat(kept, head["entries"])
            for name in ("ids", "values"):
                if name in parts:
                    parts[name].append(getattr(block, name)[entries].copy())
        if "tag" in parts:
            tags = [tag.encode() for tag in np.array(source.tags(number), object)[kept]]
            head["tag_bytes"][kept] = [len(tag) for tag in tags]
            parts["tag"].append(np.frombuffer(b"".join(tags), np.uint8))
        heads.append(head[kept])
    # One after the other, and the parts dropped: only one of the arrays is there twice at a time.
    return Lines(np.concatenate(heads), {name: np.concatenate(parts.pop(name)) for name in list(parts)})


def cargo_of(source: Dataset) -> dict[str, np.dtype[Any]]:
    """What the rows of a dataset carry."""
    if source.kind == "dense":
        return {"X": source.arrays["X"].dtype}
    types: dict[str, np.dtype[Any]] = {
        "ids": np.dtype(np.uint64),
        "values": np.dtype(np.float32),
        "tag": np.dtype(np.uint8),
    }
    return {name: dtype for name, dtype in types.items() if name in source.arrays}


class Section(NamedTuple):
    """Some consecutive rows of the new order: the slots that hold them, and how many rows these begin with in vain."""

    first_slot: int
    last_slot: int
    skipped: int
    rows: int


class Ordered(Protocol):
    """Rows in the order a new dataset has them in, of which any section can be read; small and picklable."""

    @property
    def cargo(self) -> Mapping[str, np.dtype[Any]]:
        """What the rows carry."""

    def read(self, section: Section, names: Iterable[str]) -> tuple[Lines, NDArray[np.int64]]:
        """Some rows with what they carry of these names, and which of them are the section's, in order."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Where the runs of a shuffle are, and what is in them; small and picklable."""

    location: Location
    folder: str
    count: int
    cargo: dict[str, np.dtype[Any]]
    slot_bits: int

    def write(self, number: int, lines: Lines) -> NDArray[np.int64]:
        """Write a run; how many rows and entries it has in every slot, as an array (2, slots)."""
        order = lines.order()
        heads = lines.heads[order]
        slots = heads["key"] >> np.uint64(64 - self.slot_bits)
        at = np.searchsorted(slots, np.arange((1 << self.slot_bits) + 1, dtype=np.uint64))
        index = np.empty((len(at), 1 + len(self.cargo), 2), np.uint64)
        for column, name in enumerate(["heads", *self.cargo]):
            cells = heads if name == "heads" else lines.carried(name, order)
            edges = at if name == "heads" else _edges(heads[LENGTHS[name]])[at]
            file = cells.view(np.uint8)
            self.location.write(self._key(number, name), file.data)
            index[:, column, 0] = edges * cells.itemsize
            index[:-1, column, 1] = _hashes(file, edges * cells.itemsize)
        index[-1, :, 1] = 0
        self.location.write(self._key(number, "index"), index.data)
        return np.stack([np.diff(at), np.diff(_edges(heads["entries"])[at])])

    def read(self, section: Section, names: Iterable[str]) -> tuple[Lines, NDArray[np.int64]]:
        """The rows of the slots of a section with what they carry, and which of them are the section's, in order."""
        indexes = [self._read_index(number, section) for number in range(self.count)]
        heads = self._read_file(indexes, "heads").view(HEAD)
        lines = Lines(heads, {name: self._read_file(indexes, name).view(self.cargo[name]) for name in names})
        return lines, lines.order()[section.skipped : section.skipped + section.rows]

    def _read_index(self, number: int, section: Section) -> NDArray[np.uint64]:
        files, count = 1 + len(self.cargo), section.last_slot - section.first_slot + 1
        start = 16 * files * section.first_slot
        raw = self.location.read(self._key(number, "index"), start, start + 16 * files * count)
        if len(raw) != 16 * files * count:
            raise self._altered(number, "index")
        index = np.frombuffer(raw, np.uint64).reshape(count, files, 2)
        if np.any(index[1:, :, 0] < index[:-1, :, 0]):  # or hashing would look beyond what is read
            raise self._altered(number, "index")
        return index

    def _read_file(self, indexes: list[NDArray[np.uint64]], name: str) -> NDArray[np.uint8]:
        """The bytes that all runs have of a section."""
        column = ["heads", *self.cargo].index(name)
        edges = [index[:, column, 0].astype(np.int64) for index in indexes]
        whole, at = np.empty(sum(int(edge[-1] - edge[0]) for edge in edges), np.uint8), 0
        for number, (edge, index) in enumerate(zip(edges, indexes, strict=True)):
            start, stop = int(edge[0]), int(edge[-1])
            if start == stop:
                continue
            file = self.location.read(self._key(number, name), start, stop)
            part = whole[at : at + stop - start]
            if len(file) == len(part):
                part[:] = np.frombuffer(file, np.uint8)
            if len(file) != len(part) or not np.array_equal(_hashes(part, edge - start), index[:-1, column, 1]):
                raise self._altered(number, name)
            at += len(part)
        return whole

    def _altered(self, number: int, what: str) -> ChunkError:
        reason = "altered or cut while it was in use; run it again"
        return ChunkError(self.location.url, self._key(number, what), reason)

    def _key(self, number: int, what: str) -> str:
        return f"{self.folder}/run.{number}.{what}"


def _hashes(file: NDArray[np.uint8], edges: NDArray[np.int64]) -> NDArray[np.uint64]:
    hashes = np.empty(len(edges) - 1, np.uint64)
    hash_parts(file, edges, hashes)
    return hashes


def _edges(lengths: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
