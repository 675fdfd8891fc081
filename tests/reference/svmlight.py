"""svmlight text in plain Python, one line at a time: slow, and short enough to be believed."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
ENTRY = re.compile(rb"(\d{1,19}):([^:]*)")
GROUP = re.compile(rb"qid:[^\x00-\x20]*")
LARGEST = float(np.finfo(np.float32).max)


class BadLine(ValueError):
    """The line is not svmlight."""


@dataclass(frozen=True)
class Row:
    """A label as it was written, and what the row holds."""

    label: bytes
    entries: dict[int, np.float32]


def parse_line(line: bytes, labels_are_numbers: bool = True) -> Row | None:
    """The row of one line (without its newline), None for a blank or a comment, BadLine for anything else."""
    words = [word for word in re.split(rb"[ \t]", line.removesuffix(b"\r").lstrip(b" \t\r")) if word]
    if not words or words[0].startswith(b"#"):
        return None
    label, entries = words[0], {}
    if labels_are_numbers:
        number(label, np.finfo(np.float64).max)
    elif re.search(rb"[\x00-\x1f]", label):
        raise BadLine("a control character")
    for word in words[1:]:
        if word.startswith(b"#"):
            break
        if GROUP.fullmatch(word):
            continue
        entry = ENTRY.fullmatch(word)
        if entry is None or int(entry[1]) >= 2**63:
            raise BadLine(word)
        feature, value = int(entry[1]), np.float32(number(entry[2], LARGEST))
        with np.errstate(over="ignore"):
            entries[feature] = entries[feature] + value if feature in entries else value
    if not all(np.isfinite(value) for value in entries.values()):
        raise BadLine("a sum that is not finite")
    return Row(label, dict(sorted(entries.items())))


def number(word: bytes, largest: float) -> float:
    """A finite decimal number no larger than `largest`."""
    if not NUMBER.fullmatch(word) or not abs(float(word)) <= largest:
        raise BadLine(word)
    return float(word)
