"""Parsing of JSON that may come from strangers, and small functions that check the values in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

MOST_CONTAINERS = 1 << 21
"""The largest number of lists and objects in a JSON text. Each takes a few bytes of text and some hundred in memory."""

Check = Callable[[Any], bool]


def parse_json(raw: bytes) -> Any:
    """Return the value of a JSON text. Raise ValueError if it is not JSON, nested too deeply, or not valid Unicode.

    >>> from daskfs.store.dataset.json_checks import parse_json
    >>> parse_json(b"[" * 10_000)
    Traceback (most recent call last):
        ...
    ValueError: nested too deeply
    """
    if raw.count(b"[") + raw.count(b"{") > MOST_CONTAINERS:
        raise ValueError(f"more than {MOST_CONTAINERS:,} lists and objects")
    try:
        value = json.loads(raw.decode("utf-8-sig"))  # strictly: half a character is no text
        if b"\\u" in raw:
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is JSON, but no text
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value from JSON is a number that fits into a float64, which large integers do not."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def is_whole(value: Any) -> bool:
    """Return whether a value from JSON is a whole number that fits into a float64."""
    return type(value) is int and is_number(value)


def is_count(value: Any) -> bool:
    """Return whether a value from JSON is a whole number that fits into an unsigned 64-bit integer."""
    return type(value) is int and 0 <= value < 1 << 64


def is_kind(kind: type) -> Check:
    """Return a function that checks whether a value is of a type."""
    return lambda value: isinstance(value, kind)


def is_one_of(*values: Any) -> Check:
    """Return a function that checks whether a value is one of some values."""
    return lambda value: any(value is known or (type(value) is type(known) and value == known) for known in values)


def or_none(check: Check) -> Check:
    """Return a function that checks whether a value is null, or what `check` checks."""
    return lambda value: value is None or check(value)


def list_of(check: Check) -> Check:
    """Return a function that checks whether a value is a list of what `check` checks."""
    return lambda value: isinstance(value, list) and all(map(check, value))


def object_of(check: Check) -> Check:
    """Return a function that checks whether a value is an object with values that `check` checks."""
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def with_members(**members: Check) -> Check:
    """Return a function that checks whether a value is an object with at least these members."""
    return lambda value: isinstance(value, dict) and all(key in value and members[key](value[key]) for key in members)


def may_have(members: Mapping[str, Check]) -> Check:
    """Return a function that checks those of these members that an object has."""
    return lambda value: isinstance(value, dict) and all(members[key](value[key]) for key in members if key in value)


def is_label(value: Any) -> bool:
    """Return whether a value from JSON is a text or a number."""
    return isinstance(value, str) or is_number(value)


is_text, is_flag, is_object = is_kind(str), is_kind(bool), is_kind(dict)
are_fills = or_none(with_members(how=is_text, values=object_of(is_number), indicators=object_of(is_count)))
"""Returns whether a value from JSON says how gaps were filled, as a record of `gaps.Fills` does, or is null."""


def check_members(record: Any, must: Mapping[str, Check], may: Mapping[str, Check]) -> dict[str, Any]:
    """Return a record with all members of `must`, and perhaps those of `may`; raise ValueError for any other value."""
    if not isinstance(record, dict):
        raise ValueError("is no JSON object")
    for key, check in must.items():
        if key not in record or not check(record[key]):
            raise ValueError(f"{key!r} is missing, or not what it should be")
    for key, check in may.items():
        if key in record and not check(record[key]):
            raise ValueError(f"{key!r} is not what it should be")
    return record
