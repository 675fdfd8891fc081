"""Encoding of chunks: the codec chains of a dataset as Zarr metadata, and functions that encode and decode chunks.

Every codec chain ends with crc32c, because neither zstd, blosc nor raw bytes notice a flipped bit. The functions write
the same bytes as Zarr, and decode a chunk faster than Zarr, straight into a given buffer.

The default compression is "none" for dense float32 columns, which hardly shrink and are read at memory speed, and "lz4"
for sparse rows, which are half zeros (the upper bytes of ids). The compression "zstd" saves a little more space than
"lz4" and is read at half the speed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import google_crc32c
import numpy as np
from numcodecs import blosc
from numcodecs.vlen import VLenUTF8
from numpy.typing import NDArray

from daskfs.store.dataset.names_kernels import find_strings

Compression = Literal["none", "lz4", "zstd"]
CRC_BYTES = 4
_LEVEL = {"lz4": 5, "zstd": 3}


class DamagedChunk(ValueError):
    """Raised if the bytes of a chunk differ from the written bytes; the message describes the difference."""


@dataclass(frozen=True, slots=True)
class Codec:
    """The codec chain from an array to the bytes of a chunk file: ([transpose], bytes [, blosc], crc32c)."""

    compression: Compression = "none"
    columns_contiguous: bool = False  # store the chunk of a matrix column by column

    def metadata(self, dtype: np.dtype[Any]) -> list[dict[str, Any]]:
        """Return the codec chain in the form that zarr.json holds."""
        chain: list[dict[str, Any]] = []
        if self.columns_contiguous:
            chain.append({"name": "transpose", "configuration": {"order": [1, 0]}})
        chain.append(
            {"name": "bytes", "configuration": {"endian": "little"}} if dtype.itemsize > 1 else {"name": "bytes"}
        )
        if self.compression != "none":
            settings = {
                "typesize": dtype.itemsize,
                "cname": self.compression,
                "clevel": _LEVEL[self.compression],
                "shuffle": "shuffle",
                "blocksize": 0,
            }
            chain.append({"name": "blosc", "configuration": settings})
        return [*chain, {"name": "crc32c"}]

    def encode(self, chunk: NDArray[Any]) -> bytes:
        """Return the bytes of the chunk file for the array `chunk`."""
        flat = np.ascontiguousarray(chunk.T if self.columns_contiguous else chunk)
        flat = flat.astype(flat.dtype.newbyteorder("<"), copy=False)
        if self.compression == "none":
            return append_crc(flat)
        body = blosc.compress(flat, self.compression.encode(), _LEVEL[self.compression], blosc.SHUFFLE, 0)
        return append_crc(body)

    def decode(self, file: bytes | bytearray | memoryview | NDArray[np.uint8], out: NDArray[Any]) -> None:
        """Check the crc32c of a chunk file and unpack the chunk into `out`, an array in the stored memory order."""
        body = strip_crc(file)
        target = out.reshape(-1).view(np.uint8)
        if self.compression == "none":
            if len(body) != len(target):
                raise DamagedChunk(f"{len(body)} bytes where {len(target)} belong")
            target[:] = np.frombuffer(body, np.uint8)
            return
        size = int.from_bytes(bytes(body[4:8]), "little")  # blosc's header states the unpacked size
        if size != len(target):
            raise DamagedChunk(f"{size} bytes where {len(target)} belong")
        if int.from_bytes(bytes(body[12:16]), "little") != len(body):  # blosc would read what is behind them in memory
            raise DamagedChunk(f"cut to {len(body)} bytes before it was written")
        try:
            blosc.decompress(body, target)
        except (RuntimeError, ValueError) as error:
            raise DamagedChunk(f"cannot be unpacked: {error}") from error


PLAIN = Codec()
LZ4 = Codec("lz4")


def encode_strings(chunk: NDArray[Any]) -> bytes:
    """Return the bytes of a chunk file of strings, with the codec chain (vlen-utf8, crc32c)."""
    return append_crc(VLenUTF8().encode(np.asarray(chunk, dtype=object)))


def decode_strings(file: bytes, count: int) -> NDArray[Any]:
    """Return the strings of one chunk file, as an object array of length `count`."""
    body = strip_crc(file)
    _check_count(body, count)
    try:
        strings: NDArray[Any] = VLenUTF8().decode(body)
    except ValueError as error:  # lengths beyond the end, or no UTF-8
        raise DamagedChunk(f"strings that cannot be read: {error}") from error
    return strings


def _check_count(body: NDArray[np.uint8], count: int) -> None:
    stated = int.from_bytes(bytes(body[:4]), "little")
    if stated != count or 4 * count > len(body):
        raise DamagedChunk(f"{stated} strings in {len(body)} bytes, where {count} belong")


def decode_strings_at(file: bytes, count: int, positions: NDArray[np.int64]) -> list[str]:
    """Return some of the `count` strings of a chunk file by position, eight times as fast as decoding all strings."""
    body = np.frombuffer(strip_crc(file), np.uint8)
    _check_count(body, count)
    starts = np.empty(count + 1, np.int64)
    if not find_strings(body[4:], starts):
        raise DamagedChunk("strings that are cut short")
    text, stops = body[4:].tobytes(), starts[1:] - 4
    try:
        return [text[starts[i] : stops[i]].decode() for i in positions.tolist()]
    except UnicodeDecodeError as error:
        raise DamagedChunk(f"strings that cannot be read: {error}") from error


STRINGS_METADATA = [{"name": "vlen-utf8", "configuration": {}}, {"name": "crc32c"}]


def append_crc(body: bytes | bytearray | NDArray[Any]) -> bytes:
    """Return bytes followed by their crc32c."""
    raw = np.frombuffer(body, np.uint8) if isinstance(body, bytes | bytearray) else body.reshape(-1).view(np.uint8)
    return b"".join([raw.data, int(google_crc32c.value(raw)).to_bytes(CRC_BYTES, "little")])


def strip_crc(file: bytes | bytearray | memoryview | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bytes before the crc32c at the end of a file. Raise DamagedChunk if the crc32c does not match."""
    raw = np.frombuffer(file, np.uint8) if not isinstance(file, np.ndarray) else file
    if len(raw) < CRC_BYTES:
        raise DamagedChunk(f"cut short to {len(raw)} bytes")
    body = raw[:-CRC_BYTES]
    if google_crc32c.value(body) != stored_crc(raw):
        raise DamagedChunk("the checksum does not match: the bytes were altered or cut")
    return body


def stored_crc(file: bytes | NDArray[np.uint8]) -> int:
    """Return the crc32c at the end of a chunk file."""
    return int.from_bytes(bytes(file[-CRC_BYTES:]), "little")
