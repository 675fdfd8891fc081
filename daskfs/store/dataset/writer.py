"""Writing of a dataset: every chunk is written by exactly one writer, and the root metadata is written last."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
from daskfs.store.dataset.codec import encode_strings
from daskfs.store.dataset.layout import (
    MOST_METADATA,
    PLAN,
    ROOT,
    UNFINISHED,
    UNSHUFFLED,
    VERSION,
    ArraySpec,
    Attributes,
    group_metadata,
    is_ours,
    root_metadata,
)
from daskfs.store.dataset.reader import Manifest, digest, manifest_line, manifest_spec
from daskfs.store.places.location import Location

RETIRING = f"{UNFINISHED}/retiring"
STAGED = f"{UNFINISHED}/new"

ChunkRecords = list[tuple[int, int, int]]
"""The manifest record (number, size, crc32c) of each written chunk."""


def encode_chunk(spec: ArraySpec, part: NDArray[Any]) -> bytes:
    """Return the bytes of a chunk file with the cells `part`; a chunk at the array's edge is padded with zeros."""
    if part.shape != spec.chunks:
        whole = np.full(spec.chunks, "", object) if spec.is_text else np.zeros(spec.chunks, spec.dtype)
        whole[tuple(map(slice, part.shape))] = part
        part = whole
    return encode_strings(part.reshape(-1)) if spec.is_text else spec.codec.encode(np.asarray(part, spec.dtype))


def write_chunk(location: Location, spec: ArraySpec, number: int, part: NDArray[Any]) -> tuple[int, int, int]:
    """Write one chunk and return its manifest record (number, size, crc32c)."""
    return write_file(location, spec, number, encode_chunk(spec, part))


def write_file(location: Location, spec: ArraySpec, number: int, file: bytes) -> tuple[int, int, int]:
    """Write a chunk that is already encoded and return its manifest record (number, size, crc32c)."""
    location.write(spec.key(number), file)
    return number, *manifest_line(file)


def write_array(location: Location, spec: ArraySpec, cells: NDArray[Any]) -> ChunkRecords:
    """Write a small in-memory array, chunk by chunk along the first dimension, and return the manifest records."""
    step = spec.chunks[0]
    return [
        write_chunk(location, spec, number, cells[number * step : (number + 1) * step])
        for number in range(spec.n_chunks)
    ]


@dataclass
class DatasetWriter:
    """The arrays of a dataset that is being written, and the manifests of the arrays."""

    location: Location
    replaces: Location | None = None  # the dataset to overwrite once all chunks are written
    arrays: dict[str, ArraySpec] = field(default_factory=dict)
    manifests: dict[str, Manifest] = field(default_factory=dict)

    def add(self, spec: ArraySpec, records: Iterable[tuple[int, int, int]] = ()) -> None:
        """Add an array, or the manifest records of more written chunks of an array."""
        self.arrays[spec.name] = spec
        manifest = self.manifests.setdefault(spec.name, np.zeros((spec.n_chunks, 2), np.uint64))
        for number, size, crc in records:
            manifest[number] = size, crc

    def write(self, spec: ArraySpec, cells: NDArray[Any]) -> None:
        """Write a small array as a whole and add the array to the dataset."""
        self.add(spec, write_array(self.location, spec, cells))

    def close(self, attributes: Attributes, root: str = ROOT) -> None:
        """Write all metadata, the root zarr.json last, after which the dataset can be opened.

        With `root` `UNSHUFFLED`, the dataset can be opened only by the shuffle that will replace it.
        """
        for name, manifest in self.manifests.items():
            if missing := int(np.count_nonzero(manifest[:, 0] == 0)):
                raise DatasetError(f"{self.location.url}: {missing} chunks of {name} were never written")
        arrays = list(self.arrays.values())
        attributes = {"version": VERSION, **attributes}
        attributes["digest"] = digest(attributes, arrays, self.manifests)
        manifests = [manifest_spec(spec) for spec in arrays]
        metadata = root_metadata(attributes, arrays + manifests)
        if len(metadata) > MOST_METADATA:
            raise DatasetError(
                f"{self.location.url}: {len(metadata) >> 20} MB of column kinds and class names, at most "
                f"{MOST_METADATA >> 20}; leave columns out, or make a number of the label"
            )
        self.location.sweep()  # what a worker that was killed while it wrote a chunk has left
        if self.replaces is not None:
            self._move_to(self.replaces)
        for array, spec in zip(arrays, manifests, strict=True):
            if array.n_chunks:
                write_chunk(self.location, spec, 0, self.manifests[array.name])
        for group in sorted({spec.name.split("/")[0] for spec in arrays + manifests if "/" in spec.name}):
            self.location.write(f"{group}/{ROOT}", json.dumps(group_metadata()).encode())
        for spec in arrays + manifests:
            self.location.write(f"{spec.name}/{ROOT}", json.dumps(spec.metadata()).encode())
        self.location.write(root, metadata)
        if root == ROOT:
            drop_staged(self.location)

    def _move_to(self, location: Location) -> None:
        """Delete the old dataset in the target folder, and move the chunks of the new dataset there."""
        retire(location)
        for spec in self.arrays.values():
            for key in map(spec.key, range(spec.n_chunks)):
                location.move(f"{STAGED}/{key}", key)
        self.location = location


def new_writer(location: Location) -> DatasetWriter:
    """Return a writer for a folder checked by `prepare`; a dataset to overwrite stays until all chunks are written."""
    if location.exists(ROOT) or location.exists(UNSHUFFLED):
        return DatasetWriter(location.below(STAGED), replaces=location)
    return DatasetWriter(location)


def check_free(location: Location, overwrite: bool) -> None:
    """Raise DatasetError if the target folder holds data that must not be deleted."""
    if location.path is not None and location.path.is_file():
        raise DatasetError(f"{location.url}: is a file; a dataset is a folder, choose another name")
    if location.is_empty():
        return
    complete = location.exists(ROOT)
    if not location.exists(UNFINISHED) and not (complete and is_ours(location.read(ROOT, most=MOST_METADATA))):
        raise DatasetError(f"{location.url}: exists and is not a daskfs dataset; choose another place")
    if complete and not overwrite:
        raise DatasetError(f"{location.url}: already holds a complete dataset; --overwrite replaces it")
    if location.exists(PLAN) and not overwrite:
        raise DatasetError(f"{location.url}: holds an unfinished ingest; finish it, or use --overwrite to drop it")


def prepare(location: Location, overwrite: bool) -> None:
    """Delete the remains of an earlier attempt from a target folder that `check_free` accepts.

    A dataset that is to be overwritten stays until the new dataset is complete; see `retire`.
    """
    check_free(location, overwrite)
    if location.exists(ROOT):
        drop_staged(location)
    elif not location.is_empty():
        clear(location)


def retire(location: Location) -> None:
    """Delete the complete dataset in a folder, but not the staged new dataset; an interrupted call can be repeated."""
    if location.exists(ROOT) or location.exists(UNSHUFFLED):
        location.write(RETIRING, b"")
    if location.exists(RETIRING):
        location.delete(ROOT)  # first, so that a half-deleted dataset does not open
        if location.exists(UNSHUFFLED):
            location.delete(PLAN)  # its staged pieces have been moved and are deleted with it: they cannot be resumed
            location.delete(UNSHUFFLED)
        _delete_members(location)
        location.delete(RETIRING)


def clear(location: Location) -> None:
    """Delete everything in a folder, which daskfs still recognises as its own if the deletion is interrupted."""
    location.write(f"{UNFINISHED}/clearing", b"")
    location.delete(ROOT)
    location.delete(PLAN)
    _delete_members(location)
    drop_staged(location)


def drop_staged(location: Location) -> None:
    """Delete the unfinished parts of a dataset, the plan first, so that half-deleted pieces are not reused."""
    location.delete(PLAN)
    location.delete(UNFINISHED)


def _delete_members(location: Location) -> None:
    for member in location.members():
        if member != UNFINISHED:
            location.delete(member)
