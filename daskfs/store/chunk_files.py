"""Direct reading of the chunk files of a Zarr array on a local disk, without Zarr.

The values are those that Zarr returns, bit for bit; a chunk without a file has the fill value. Uncompressed chunks are
read twice as fast as by Zarr, a few lines at a time, which are copied while the processor's cache holds them. Chunks of
both Zarr formats are read, in any byte order, uncompressed or compressed with zstd or blosc. All other arrays (shards,
filters, other codecs, other stores) are left to Zarr.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from os import fstat
from typing import TYPE_CHECKING, Any

import numpy as np
from numcodecs import get_codec
from numpy.typing import NDArray

from daskfs.store.dataset.codec import DamagedChunk
from daskfs.store.dataset.reader import chunk_errors, read_into
from daskfs.store.places.local import check_size, open_regular
from daskfs.store.places.location import Location

if TYPE_CHECKING:
    import zarr

_BAND_BYTES = 256 << 10  # of a chunk that are copied at a time: they fit the processor's cache
_BAND_LINES = 32  # or more, so that a copy into the other memory order writes whole cache lines
_LEAST_PACKED = 9  # bytes of the smallest frame of zstd; the header of blosc has more, and is checked by blosc
_CODECS = ("zstd", "blosc")  # have the same names in numcodecs, in Zarr 2 and in Zarr 3

Tile = tuple[slice, slice, NDArray[Any]]
"""Some rows, some columns, and the cells at these rows and columns."""


@dataclass(frozen=True, eq=False)
class ChunkFiles:
    """The chunk files of a Zarr array of two dimensions.

    A *line* of a chunk is a row, or a column if chunks are stored column by column.

    Parameters
    ----------
    array
        The Zarr array.
    location
        The local folder of the array.
    dtype
        The dtype of the stored values, with their byte order.
    by_columns
        Whether chunks are stored column by column.
    compression
        The name of the codec that has compressed the chunks, or None.
    """

    array: zarr.Array[Any]
    location: Location
    dtype: np.dtype[Any]
    by_columns: bool
    compression: str | None

    @classmethod
    def of(cls, array: Any) -> ChunkFiles | None:
        """Return the chunk files of an array, or None if only Zarr can read the array."""
        location = _local_folder(array)
        if location is None:
            return None
        facts: Any = array.metadata.to_dict()
        if facts["zarr_format"] == 2:
            compressor = facts["compressor"]
            compression = None if compressor is None else compressor["id"]
            if facts["filters"] or compression not in (None, *_CODECS):
                return None
            return cls(array, location, array.dtype, facts["order"] == "F", compression)
        first, *others = facts["codecs"]
        compression = others[0]["name"] if others else None
        is_plain = first["name"] == "bytes" and facts["chunk_grid"]["name"] == "regular"
        if not is_plain or len(others) > 1 or compression not in (None, *_CODECS):
            return None
        endian = first.get("configuration", {}).get("endian", "little")
        return cls(array, location, array.dtype.newbyteorder(endian), False, compression)

    @property
    def working_nbytes(self) -> int:
        """The memory that reading takes: a few lines, or a compressed file and its chunk."""
        n_lines, line_bytes = self._lines
        return line_bytes * (self._band_lines if self.compression is None else 2 * n_lines)

    @property
    def _lines(self) -> tuple[int, int]:
        """The number of lines of a chunk, and the bytes of a line."""
        n_lines, length = reversed(self.array.chunks) if self.by_columns else self.array.chunks
        return n_lines, length * self.dtype.itemsize

    @property
    def _band_lines(self) -> int:
        """The number of lines of a chunk that are copied at a time."""
        n_lines, line_bytes = self._lines
        return min(max(_BAND_BYTES // line_bytes, _BAND_LINES), n_lines)

    def read(self, rows: slice, columns: slice) -> NDArray[Any]:
        """Return the cells of some rows and columns, as Zarr does, but without reading whole uncompressed chunks."""
        out = np.empty((rows.stop - rows.start, columns.stop - columns.start), self.array.dtype)
        for some, others, cells in self.tiles(rows, columns):
            top, left = some.start - rows.start, others.start - columns.start
            out[top : top + cells.shape[0], left : left + cells.shape[1]] = cells
        return out

    def tiles(self, rows: slice, columns: slice) -> Iterator[Tile]:
        """Yield the cells of some rows and columns; the memory of a tile is used again for the next tile."""
        height, width = self.array.chunks
        for i in range(rows.start // height, -(-rows.stop // height)):
            for j in range(columns.start // width, -(-columns.stop // width)):
                part = (_overlap(rows, i, height), _overlap(columns, j, width))
                lines, cells = reversed(part) if self.by_columns else part
                first_line, first_cell = (j * width, i * height) if self.by_columns else (i * height, j * width)
                wanted = slice(cells.start - first_cell, cells.stop - first_cell)
                for line, band in self._bands((i, j), lines.start - first_line, lines.stop - first_line):
                    some = slice(first_line + line, first_line + line + len(band))
                    yield (cells, some, band[:, wanted].T) if self.by_columns else (some, cells, band[:, wanted])

    def _bands(self, number: tuple[int, int], start: int, stop: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the lines `start` … `stop` - 1 of a chunk, a few at a time, each time with the first line's number."""
        key = self.array.metadata.encode_chunk_key(number)
        (n_lines, line_bytes), step = self._lines, self._band_lines
        length = line_bytes // self.dtype.itemsize
        with chunk_errors(self.location, key):
            try:
                file = open_regular(f"{self.location.path}/{key}")
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):  # as Zarr does
                yield start, np.broadcast_to(self._fill_value, (stop - start, length))
                return
            with file:
                if self.compression is not None:
                    check_size(fstat(file.fileno()).st_size, _largest_packed(n_lines * line_bytes))
                    unpacked = self._unpack(file.read(), n_lines * line_bytes).view(self.dtype).reshape(n_lines, length)
                    yield from ((line, unpacked[line : min(line + step, stop)]) for line in range(start, stop, step))
                    return
                _check_size(fstat(file.fileno()).st_size, n_lines * line_bytes)
                file.seek(start * line_bytes)
                memory = np.empty((min(step, stop - start), length), self.dtype)
                for line in range(start, stop, step):
                    band = memory[: stop - line]
                    read_into(band.reshape(-1).view(np.uint8), file)
                    yield line, band

    def _unpack(self, packed: bytes, nbytes: int) -> NDArray[np.uint8]:
        """Return the bytes of a compressed chunk."""
        if len(packed) < _LEAST_PACKED:
            raise DamagedChunk(f"cannot be unpacked: has only {len(packed)} bytes")
        if self.compression == "blosc" and int.from_bytes(packed[12:16], "little") > len(packed):
            raise DamagedChunk(f"cut short to {len(packed)} bytes")  # blosc would read what is behind them in memory
        stated = int.from_bytes(packed[4:8], "little") if self.compression == "blosc" else _stated_by_zstd(packed)
        _check_size(nbytes if stated is None else stated, nbytes)
        unpacked = np.empty(nbytes, np.uint8)
        try:
            get_codec({"id": self.compression}).decode(packed, unpacked)
        except (RuntimeError, ValueError) as error:
            raise DamagedChunk(f"cannot be unpacked: {error}") from error
        return unpacked

    @property
    def _fill_value(self) -> NDArray[Any]:
        value = self.array.metadata.fill_value
        return np.asarray(0 if value is None else value, self.dtype)


def _stated_by_zstd(packed: bytes) -> int | None:
    """Return the unpacked size in the header of a zstd frame (RFC 8878), or None if the header states none."""
    about = packed[4]
    is_single_segment, size_flag = about >> 5 & 1, about >> 6
    if not size_flag and not is_single_segment:
        return None
    at = 5 + (not is_single_segment) + (0, 1, 2, 4)[about & 3]
    return int.from_bytes(packed[at : at + (1 << size_flag)], "little") + (256 if size_flag == 1 else 0)


def is_zarr_array(array: Any) -> bool:
    """Return whether an object is a Zarr array, without an import of zarr: before the first import there are none."""
    return "zarr" in sys.modules and isinstance(array, sys.modules["zarr"].Array)


def _local_folder(array: Any) -> Location | None:
    """Return the folder of a Zarr array on a local disk, or None for any other array."""
    if not is_zarr_array(array):
        return None
    from zarr.storage import LocalStore

    from daskfs.store.foreign_zarr import ForeignStore

    store = array.store
    if type(store) is LocalStore:  # a class derived from it may read in another way
        return Location(store.root / array.path)
    if isinstance(store, ForeignStore) and store.location.path is not None:
        return store.location.below(array.path) if array.path else store.location
    return None


def _overlap(wanted: slice, number: int, size: int) -> slice:
    """Return the wanted rows or columns of chunk `number`."""
    return slice(max(wanted.start, number * size), min(wanted.stop, (number + 1) * size))


def _largest_packed(nbytes: int) -> int:
    """Return how many bytes a compressed chunk can have: more than the chunk if it cannot be compressed."""
    return nbytes + nbytes // 64 + 1024


def _check_size(size: int, expected: int) -> None:
    if size != expected:
        raise DamagedChunk(f"{size} bytes where {expected} belong")
