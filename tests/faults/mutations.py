"""Mutations of files, drawn by hypothesis: of bytes, of lines, and of the values in a JSON text."""

from __future__ import annotations

import copy
import json
from typing import Any

import google_crc32c
from hypothesis import strategies as st

SPECIAL_BYTES = [
    b"",
    b"\0",
    b"\xff",
    b"\n",
    b"\r",
    b'"',
    b"'",
    b",",
    b":",
    b"|",
    b"\t",
    b" ",
    b"{",
    b"[",
    b"]",
    b"-",
    b"=",
]
SPECIAL_BYTES += [
    b"nan",
    b"inf",
    b"1e400",
    b"-1",
    b"9" * 25,
    b"\xc3\xa9",
    b"\xed\xa0\x80",
    b">",
    b"#",
    b"0",
    b"\\ud800",
]
HOSTILE: list[Any] = [None, True, False, 0, -1, 1, 2, 1 << 31, 1 << 62, 1 << 63, 1 << 64, 10**30, 0.5, -0.0, 1e308]
HOSTILE += [float("nan"), float("inf"), "", "a", "\ud800", "x" * 1000, "../..", "object", "NaN", [], {}, [[]], [None]]
HOSTILE += [[-1], [1 << 62] * 3, {"from": "x"}, {"": 0}, [0] * 40]


@st.composite
def mutated_bytes(draw: st.DrawFn, raw: bytes) -> bytes:
    """The bytes with one to three places cut, doubled, replaced or filled, or with their end cut off."""
    for _ in range(draw(st.integers(1, 3))):
        kind, at = draw(st.integers(0, 5)), draw(st.integers(0, len(raw)))
        stop = min(len(raw), at + draw(st.integers(1, 8)))
        special = draw(st.sampled_from(SPECIAL_BYTES))
        if kind == 0:
            raw = raw[:at]
        elif kind == 1:
            raw = raw[:at] + raw[stop:]
        elif kind == 2:
            raw = raw[:at] + raw[at:stop] * 2 + raw[stop:]
        elif kind == 3 and at < len(raw):
            raw = raw[:at] + bytes([raw[at] ^ 1 << draw(st.integers(0, 7))]) + raw[at + 1 :]
        else:
            raw = raw[:at] + special + raw[at if kind == 4 else stop :]
    return raw


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within a JSON value, the first of a long list only."""
    found = [path]
    members = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, member in members:
        found += places(member, (*path, key))
    return found


@st.composite
def mutated_json(draw: st.DrawFn, value: Any) -> bytes:
    """A JSON text in which one to three values are replaced, removed, renamed, or moved to the place of another."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        paths = [path for path in places(value) if path]
        if not paths:
            break
        path = draw(st.sampled_from(paths))
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        kind = draw(st.integers(0, 7))
        if kind == 0:
            del holder[path[-1]]
        elif kind == 1 and isinstance(holder, dict):
            holder[draw(st.sampled_from(["", "daskfs", "../x", "X", "\ud800"]))] = holder.pop(path[-1])
        elif kind == 2:
            other = value
            for key in draw(st.sampled_from(paths)):
                other = other[key]
            holder[path[-1]] = copy.deepcopy(other)
        elif kind == 3 and type(holder[path[-1]]) in (int, float):
            holder[path[-1]] += draw(st.sampled_from([-1, 1, 1 << 40, 0.5]))
        else:
            holder[path[-1]] = copy.deepcopy(draw(st.sampled_from(HOSTILE)))
    return json.dumps(value).encode()


def mutated_file(raw: bytes) -> st.SearchStrategy[bytes]:
    """Mutations of a JSON file, more of them of its values than of its bytes."""
    return st.one_of(mutated_json(json.loads(raw)), mutated_json(json.loads(raw)), mutated_bytes(raw))


def with_crc(body: bytes) -> bytes:
    """Bytes with the checksum that belongs to them."""
    return body + int(google_crc32c.value(body)).to_bytes(4, "little")
