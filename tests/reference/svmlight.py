"""svmlight text in plain Python, one line at a time: slow, and short enough to be believed."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
ENTRY = re.compile(rb"(\d{1,19}):([^:]*)")
GROUP = re.compile(rb"qid:[^\x00-\x20]*")


class BadLine(ValueError):
    """The line is not svmlight."""


class Row(NamedTuple):
    """A label as it was written, and what the row holds."""

    label: bytes
    entries: dict[int, np.float32]


def parse_line(line: bytes, labels_are_numbers: bool = True) -> Row | None:
    """The row of one line (without its newline), None for a blank or a comment, BadLine for anything else."""
    line = line.removesuffix(b"\r").lstrip(b" \t\r")
    label = re.match(rb"[^ \t#]*" if labels_are_numbers else rb"(?:[^ \t#][^ \t]*)?", line)[0]
    if not label:
        return None
    if labels_are_numbers:
        number(label)
    elif re.search(rb"[\x00-\x1f]", label):
        raise BadLine("a control character")
    entries: dict[int, np.float32] = {}
    for word in filter(None, re.split(rb"[ \t]", line[len(label) :].partition(b"#")[0])):
        if not GROUP.fullmatch(word):
            entry = ENTRY.fullmatch(word)
            if entry is None or int(entry[1]) >= 2**63:
                raise BadLine(word)
            feature, value = int(entry[1]), float32(number(entry[2]))
            entries[feature] = float32(float(entries[feature]) + float(value)) if feature in entries else value
    return Row(label, dict(sorted(entries.items())))


def number(word: bytes) -> float:
    """A finite decimal number."""
    if not NUMBER.fullmatch(word) or np.isinf(float(word)):
        raise BadLine(word)
    return float(word)


def float32(x: float) -> np.float32:
    """The float32 nearest to a number, if there is one."""
    with np.errstate(over="ignore"):
        if np.isfinite(np.float32(x)):
            return np.float32(x)
    raise BadLine(x)
