"""Reading and checking of chunks, directly from local files or through `Location` from any other store.

The *manifest* of an array holds the size and the crc32c of each chunk of the array. A local chunk file is read straight
into the caller's buffer and checked there, several times faster than with Zarr inside a Dask worker. Every chunk is
compared with the manifest when read. A missing chunk is an error, where Zarr alone would return fill values.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import ChunkError, DatasetError, explain_os_error
from daskfs.store.dataset.codec import (
    CRC_BYTES,
    DamagedChunk,
    decode_strings,
    decode_strings_at,
    stored_crc,
    strip_crc,
)
from daskfs.store.dataset.layout import ArraySpec, Attributes
from daskfs.store.places.local import TooLarge, open_regular
from daskfs.store.places.location import Location

_MOST_TEXT = 1 << 30  # bytes of a chunk of names
_MOST_INFLATED, _MOST_RATIO = 64 << 20, 300  # of a chunk that is compressed; lz4 cannot pack more into a byte
_BLOSC_BYTES = 16  # that blosc adds to what it cannot compress

Manifest = NDArray[np.uint64]
"""Size and crc32c of each chunk file of one array, as an array of shape (chunks, 2)."""


@dataclass(frozen=True, slots=True)
class Damage:
    """The key of a chunk that differs from the written chunk, and a description of the difference."""

    key: str
    reason: str


class ChunkBuffer:
    """Memory for the cells and the file of one chunk, reused for the next chunk."""

    def __init__(self, spec: ArraySpec) -> None:
        in_memory = spec.chunks[::-1] if spec.codec.columns_contiguous else spec.chunks
        size = math.prod(in_memory) * spec.dtype.itemsize
        # The checksum has its place right after the cells, so that an uncompressed file is read in one piece.
        self._raw = np.empty(size + CRC_BYTES, np.uint8)
        self.stored: NDArray[Any] = self._raw[:size].view(spec.dtype).reshape(in_memory)
        self.cells: NDArray[Any] = self.stored.T if spec.codec.columns_contiguous else self.stored
        self._transposed = spec.codec.columns_contiguous
        self._in_place = spec.codec.compression == "none"
        self._packed = np.empty(0, np.uint8)

    def cells_in(self, file: NDArray[np.uint8]) -> NDArray[Any] | None:
        """Return the cells of an uncompressed, aligned chunk file as a view of the file, or None for other files."""
        if not self._in_place or len(file) != len(self._raw) or file.ctypes.data % self.stored.itemsize:
            return None
        stored = file[:-CRC_BYTES].view(self.stored.dtype).reshape(self.stored.shape)
        return stored.T if self._transposed else stored

    def file(self, size: int) -> NDArray[np.uint8]:
        """Return memory for a chunk file of `size` bytes."""
        if self._in_place:
            return self._raw
        if len(self._packed) < size:
            self._packed = np.empty(size + size // 8, np.uint8)
        return self._packed[:size]


class ArrayReader:
    """A reader of the chunks of one array, into a buffer of the caller or into new memory.

    Chunks with a number outside of `limits` (smallest, largest) are damaged, since kernels do not check bounds. The
    function `explain` returns the error to raise in place of a `ChunkError`, perhaps one that knows more.
    """

    def __init__(
        self,
        location: Location,
        spec: ArraySpec,
        *,
        direct: bool = True,
        limits: tuple[float, float] | None = None,
        explain: Callable[[ChunkError], DatasetError] | None = None,
    ) -> None:
        self.location, self.spec, self._limits, self._explain = location, spec, limits, explain
        self._direct = direct and location.path is not None
        with self._errors(manifest_spec(spec).key(0)):
            self.manifest = read_manifest(location, spec)
            _check_sizes(self.manifest[:, 0], spec)

    def read(self, number: int, buffer: ChunkBuffer | None = None) -> NDArray[Any]:
        """Return the cells of chunk `number` without padding, in `buffer` or in the memory of the store's response."""
        with self._errors(self.spec.key(number)):
            if self.spec.is_text:
                strings = decode_strings(self._file(number), math.prod(self.spec.chunks))
                cells = strings.reshape(self.spec.chunks)
            else:
                buffer = buffer or ChunkBuffer(self.spec)
                cells = (self._read_local if self._direct else self._read_remote)(number, buffer)
                if self._limits is not None and not self._limits[0] <= cells.min() <= cells.max() <= self._limits[1]:
                    raise DamagedChunk("a label, row or feature id that the dataset does not have")
        sides = zip(np.unravel_index(number, self.spec.grid), self.spec.chunks, self.spec.shape, strict=True)
        return cells[tuple(slice(min(chunk, size - int(i) * chunk)) for i, chunk, size in sides)]

    def read_strings(self, number: int, positions: NDArray[np.int64]) -> list[str]:
        """Return the strings at some positions of a chunk of text."""
        with self._errors(self.spec.key(number)):
            return decode_strings_at(self._file(number), math.prod(self.spec.chunks), positions)

    def file(self, number: int) -> bytes:
        """Return the bytes of the file of chunk `number`, checked but not decoded."""
        with self._errors(self.spec.key(number)):
            file = self._file(number)
            strip_crc(file)
        return file

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        try:
            with chunk_errors(self.location, key):
                yield
        except ChunkError as error:
            raise (error if self._explain is None else self._explain(error)) from error.__cause__

    def read_all(self) -> NDArray[Any]:
        """Return all cells of an array that is cut into chunks only along the first dimension."""
        parts = [self.read(number).copy() for number in range(self.spec.n_chunks)]
        return np.concatenate(parts) if parts else np.empty(0, object if self.spec.is_text else self.spec.dtype)

    def _file(self, number: int) -> bytes:
        file = self.location.read(self.spec.key(number), most=int(self.manifest[number, 0]))
        _check_against(self.manifest, number, *manifest_line(file))
        return file

    def _read_remote(self, number: int, buffer: ChunkBuffer) -> NDArray[Any]:
        file = self.location.fetch(self.spec.key(number), most=int(self.manifest[number, 0]))
        _check_against(self.manifest, number, *manifest_line(file))
        if (cells := buffer.cells_in(file)) is not None:
            strip_crc(file)
            return cells
        self.spec.codec.decode(file, buffer.stored)
        return buffer.cells

    def _read_local(self, number: int, buffer: ChunkBuffer) -> NDArray[Any]:
        size = int(self.manifest[number, 0])
        with open_regular(f"{self.location.path}/{self.spec.key(number)}") as handle:
            on_disk = os.fstat(handle.fileno()).st_size
            if on_disk != size:
                raise DamagedChunk(f"{on_disk} bytes where {size} belong")
            file = buffer.file(size)
            read_into(file, handle)
        _check_against(self.manifest, number, on_disk, stored_crc(file))
        if self.spec.codec.compression == "none":
            strip_crc(file)
        else:
            self.spec.codec.decode(file, buffer.stored)
        return buffer.cells


def read_into(memory: NDArray[np.uint8], file: FileIO) -> None:
    """Fill memory with the next bytes of a chunk file. Raise DamagedChunk if the file ends too early."""
    done = 0
    while done < len(memory):
        more = file.readinto(memory[done:].data)
        if not more:
            raise DamagedChunk(f"cut short to {done} bytes while it was read")
        done += more


@contextmanager
def chunk_errors(location: Location, key: str) -> Iterator[None]:
    """Turn every error of reading a chunk into a ChunkError that names the chunk."""
    try:
        yield
    except FileNotFoundError:
        raise ChunkError(location.url, key, "missing") from None
    except TooLarge as file:
        raise ChunkError(location.url, key, f"{file.size} bytes where {file.most} belong") from None
    except DamagedChunk as damage:
        raise ChunkError(location.url, key, str(damage)) from None
    except OSError as error:
        raise ChunkError(location.url, key, f"cannot be read: {explain_os_error(error)}") from error


def manifest_spec(array: ArraySpec) -> ArraySpec:
    """Return the spec of the Zarr array that stores the manifest of an array."""
    shape, chunks = (array.n_chunks, 2), (max(array.n_chunks, 1), 2)
    name = f"manifest/{array.name.replace('/', '.')}"
    return ArraySpec(name, shape, chunks, np.dtype(np.uint64), ("chunk", "size_crc"))


def manifest_line(file: bytes | NDArray[np.uint8]) -> tuple[int, int]:
    """Return the size and the crc32c of a chunk file, as stored in the manifest."""
    return len(file), stored_crc(file)


def read_manifest(location: Location, array: ArraySpec) -> Manifest:
    """Return the manifest of one array. Raise DamagedChunk or FileNotFoundError for a damaged or missing manifest."""
    spec = manifest_spec(array)
    if not spec.n_chunks:
        return np.empty(spec.shape, np.uint64)
    expected = math.prod(spec.shape) * spec.dtype.itemsize
    body = strip_crc(location.read(spec.key(0), most=expected + CRC_BYTES))
    if len(body) != expected:  # before memory is taken for as many chunks as the metadata declares
        raise DamagedChunk(f"{len(body)} bytes where {expected} belong")
    return body.view("<u8").reshape(spec.shape)


def _check_sizes(sizes: NDArray[np.uint64], spec: ArraySpec) -> None:
    """Raise DamagedChunk if the sizes in a manifest cannot be those of chunks of this shape, before memory is taken."""
    if not len(sizes):
        return
    least, most, cells = int(sizes.min()), int(sizes.max()), math.prod(spec.chunks)
    nbytes = cells * spec.dtype.itemsize
    if spec.is_text:
        wrong = least < 4 * cells or most > _MOST_TEXT  # every string has a length of four bytes
    elif spec.codec.compression == "none":
        wrong = not least == most == nbytes + CRC_BYTES
    else:
        wrong = nbytes > max(_MOST_INFLATED, _MOST_RATIO * least) or most > nbytes + _BLOSC_BYTES + CRC_BYTES
    if wrong:
        raise DamagedChunk(f"chunks of {spec.chunks} cannot be stored in {least} to {most} bytes")


def _check_against(manifest: Manifest, number: int, size: int, crc: int) -> None:
    """Raise DamagedChunk unless the size and crc32c of a chunk file equal the values in the manifest."""
    expected_size, expected_crc = (int(value) for value in manifest[number])
    if size != expected_size:
        raise DamagedChunk(f"{size} bytes where {expected_size} belong")
    if crc != expected_crc:
        raise DamagedChunk("replaced by other data since it was written")


def digest(attributes: Attributes, arrays: Sequence[ArraySpec], manifests: Mapping[str, Manifest]) -> str:
    """Return a hash of the whole content of a dataset, which changes when any cell, name or label changes."""
    total = hashlib.sha256()
    content = {key: attributes[key] for key in sorted(attributes) if key not in ("digest", "made")}
    total.update(json.dumps(content, sort_keys=True).encode())
    for spec in sorted(arrays, key=lambda spec: spec.name):
        total.update(json.dumps([spec.name, spec.metadata()], sort_keys=True).encode())
        total.update(manifests[spec.name].astype("<u8").tobytes())
    return total.hexdigest()


def check_chunks(location: Location, array: ArraySpec, first: int, lines: Manifest) -> list[Damage]:
    """Read chunk files, compare every byte with crc32c and manifest, and return the list of damaged chunks.

    `lines` is the part of the manifest that begins with chunk `first`.
    """
    damage = []
    for number in range(len(lines)):
        key = array.key(first + number)
        try:
            with chunk_errors(location, key):
                file = location.read(key, most=int(lines[number, 0]))
                _check_against(lines, number, *manifest_line(file))
                strip_crc(file)
        except ChunkError as error:
            damage.append(Damage(key, error.reason))
    return damage
