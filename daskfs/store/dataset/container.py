"""A file that holds one record of arrays and scalars, such as a checkpoint.

The parts of the file are::

    daskfs record 1 0000012f\n         magic, version, and the length of the header in hexadecimal
    {"about": {...}, "values": {...}}   JSON: a few facts, then the kind of every value in order
    the bytes of the arrays, one after the other
    crc32c of all bytes before the crc32c.

Reading a record executes no code, since values are numbers, strings and plain arrays, never pickles. A reader compares
every size with the length of the file before allocating memory, so that a forged header cannot exhaust memory.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import State
from daskfs.store.dataset.codec import CRC_BYTES
from daskfs.store.places.location import Location

_MAGIC = b"daskfs record 1 "
_START = len(_MAGIC) + 9  # the magic, eight digits and a newline
_MOST_HEADER = 1 << 20  # bytes; a parsed header takes some fifty times that, and a few kilobytes are usual
_PIECE = 8 << 20  # bytes read at a time, so that reading takes hardly more memory than the arrays
_PLAIN = re.compile(r"[<>|][biuf][1-9][0-9]?|[<>]U[1-9][0-9]{0,8}")  # the only dtypes that are stored


class DamagedContainer(ValueError):
    """Raised if the bytes of a file are not those of a valid record; the message describes the damage."""


@dataclass(frozen=True, slots=True)
class _Array:
    """The dtype, shape and memory order of an array, as the header of the file holds them."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    scalar: bool  # a numpy scalar, stored as an array of no dimensions

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write_container(location: Location, key: str, about: Mapping[str, Any], values: State) -> None:
    """Store a JSON object and arrays under one key in one atomic step, so that readers see the old file or the new.

    Parameters
    ----------
    location, key
        The location and name of the file.
    about
        A few facts that JSON can hold.
    values
        Arrays of plain numbers or strings, numpy scalars, int, float, bool and str, by name.
    """
    arrays: list[NDArray[Any]] = []
    described = {name: _describe(name, value, arrays) for name, value in values.items()}
    header = json.dumps({"about": about, "values": described}, separators=(",", ":")).encode()
    if len(header) > _MOST_HEADER:
        raise ValueError(f"a header of {len(header)} bytes: text that long belongs into arrays")
    start = _MAGIC + f"{len(header):08x}\n".encode() + header
    parts = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]  # no copy, if in row order
    crc = google_crc32c.value(start)
    for part in parts:
        crc = google_crc32c.extend(crc, part)
    location.write(key, start, *(part.data for part in parts), crc.to_bytes(CRC_BYTES, "little"))


def read_container(location: Location, key: str) -> tuple[dict[str, Any], State]:
    """Return the facts and the values stored under a key.

    Raise FileNotFoundError if the key does not exist. Raise DamagedContainer if the file is damaged.
    """
    size = location.size(key)
    start = location.read(key, 0, min(_START, size))
    length = _header_length(start, size)
    header = location.read(key, _START, _START + length)
    about, described = _parse_header(header)
    expected = _START + length + sum(array.nbytes for array in described.values() if isinstance(array, _Array))
    if expected + CRC_BYTES != size:
        raise DamagedContainer(f"{size} bytes where {expected + CRC_BYTES} belong")
    crc, position = google_crc32c.extend(google_crc32c.value(start), header), _START + length
    values: State = {}
    for name, value in described.items():
        if not isinstance(value, _Array):
            values[name] = value
            continue
        memory = np.empty(value.nbytes, np.uint8)
        for first in range(0, len(memory), _PIECE):
            target = memory[first : first + _PIECE]
            data = location.read(key, position + first, position + first + len(target))
            if len(data) != len(target):
                raise DamagedContainer("cut short while it was read")
            target[:] = np.frombuffer(data, np.uint8)
            crc = google_crc32c.extend(crc, data)
        position += value.nbytes
        stored = memory.view(value.dtype)
        array = stored.reshape(value.shape[::-1]).T if value.fortran else stored.reshape(value.shape)
        values[name] = array[()] if value.scalar else array
    if location.read(key, position, size) != crc.to_bytes(CRC_BYTES, "little"):
        raise DamagedContainer("the checksum does not match: the bytes were altered")
    return about, values


def _describe(name: str, value: Any, arrays: list[NDArray[Any]]) -> dict[str, Any]:
    """Return the header entry of a value; an array is appended to `arrays`, whose bytes follow the header."""
    if isinstance(value, np.ndarray | np.generic):
        if not _PLAIN.fullmatch(value.dtype.str):
            raise TypeError(f"{name!r} is an array of {value.dtype}: only plain numbers and text can be stored")
        array = np.asarray(value)
        fortran = array.flags.f_contiguous and not array.flags.c_contiguous
        arrays.append(array.T if fortran else array)
        kind = "scalar" if isinstance(value, np.generic) else "fortran" if fortran else "array"
        return {kind: array.dtype.str, "shape": list(array.shape)}
    if isinstance(value, float):
        return {"float": repr(value)}  # as text, since JSON has neither nan nor inf
    if isinstance(value, bool | int | str):
        return {type(value).__name__: value}
    raise TypeError(f"{name!r} is a {type(value).__name__}: only arrays, int, float, bool and str can be stored")


def _header_length(start: bytes, size: int) -> int:
    if not start.startswith(_MAGIC):
        raise DamagedContainer("not a file of this kind")
    if not re.fullmatch(rb"[0-9a-f]{8}\n", start[len(_MAGIC) :]):
        raise DamagedContainer("its first line is damaged")
    length = int(start[len(_MAGIC) :], 16)
    if length > min(_MOST_HEADER, size - _START):
        raise DamagedContainer(f"a header of {length} bytes in a file of {size}")
    return length


def _parse_header(header: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the facts and the values of a header, with an `_Array` in place of each array."""
    try:
        parsed = json.loads(header)
        about, values = parsed["about"], parsed["values"]
        if not isinstance(about, dict):
            raise TypeError("about")
        return about, {name: _value(**described) for name, described in values.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedContainer(f"its header cannot be read ({type(error).__name__})") from error


def _value(shape: list[int] | None = None, **kind: Any) -> Any:
    ((name, content),) = kind.items()
    if shape is None:
        known = {"float": (str, float), "int": (int, int), "bool": (bool, bool), "str": (str, str)}
        stored, convert = known[name]
        if type(content) is not stored:
            raise TypeError(name)
        return convert(content)
    if name not in ("array", "fortran", "scalar") or not _PLAIN.fullmatch(content):
        raise ValueError(content)
    if len(shape) > 32 or any(type(side) is not int or side < 0 for side in shape):
        raise ValueError(shape)
    if math.prod(max(side, 1) for side in shape) >= 1 << 48:  # refused even if another side is 0 and the array empty
        raise ValueError(shape)
    return _Array(np.dtype(content), tuple(shape), name == "fortran", name == "scalar")
