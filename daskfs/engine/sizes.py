"""Sizes in bytes as texts, written and read as by Dask, whose import takes as long as a small selection."""

from __future__ import annotations

import re

_BINARY = {"Pi": 50, "Ti": 40, "Gi": 30, "Mi": 20, "ki": 10}
_UNITS = {"": 1} | {letter: 1000**power for power, letter in enumerate("kmgtp", 1)}
_UNITS |= {f"{letter}i": 1024**power for power, letter in enumerate("kmgtp", 1)}


def format_bytes(n: float) -> str:
    """Return a number of bytes as a short text.

    >>> from daskfs.engine.sizes import format_bytes
    >>> format_bytes(13), format_bytes(48 << 20)
    ('13 B', '48.00 MiB')
    """
    for prefix, power in _BINARY.items():
        if n >= 0.9 * 2**power:
            return f"{n / 2**power:.2f} {prefix}B"
    return f"{n} B"


def parse_bytes(text: int | float | str) -> int:
    """Return the number of bytes of a text such as "512MB", "1.5 GiB" or "1e6". Raise ValueError for other texts.

    >>> from daskfs.engine.sizes import parse_bytes
    >>> parse_bytes("512MB"), parse_bytes("1.5 GiB")
    (512000000, 1610612736)
    """
    if isinstance(text, int | float):
        return int(text)
    parts = re.fullmatch(r"([0-9.]*(?:e[+-]?[0-9]+)?)([kmgtp]?i?)b?", text.replace(" ", "").lower())
    if parts is None or parts[2] not in _UNITS:
        raise ValueError(f"{text!r} is not a size in bytes")
    return int(float(parts[1] or 1) * _UNITS[parts[2]])
