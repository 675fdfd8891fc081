"""Vowpal Wabbit text in plain Python, one line at a time: slow, and short enough to be believed."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import xxhash
from reference.svmlight import BadLine, float32, number


class Row(NamedTuple):
    """A label as it was written, importance, tag, and what the row holds, by name."""

    label: bytes
    weight: np.float32
    tag: bytes
    entries: dict[bytes, np.float32]


def parse_line(line: bytes, labels_are_numbers: bool = True) -> Row | None:
    """The row of one line (without its newline), None for a blank one, BadLine for anything that is no VW."""
    line = line.removesuffix(b"\r")
    if not line.strip(b" \t"):
        return None
    if re.search(rb"[\x00-\x08\x0a-\x1f]", line):
        raise BadLine("a control character")
    header, bar, rest = line.partition(b"|")
    if not bar:
        raise BadLine("no bar")
    tag, words = b"", []
    for match in re.finditer(rb"[^ \t]+", header):
        if match[0].startswith(b"'"):
            tag = match[0][1:257]
        elif words and match.end() == len(header):
            tag = match[0][:256]
        else:
            words.append(match[0])
    if not 1 <= len(words) <= 3:
        raise BadLine("no label, or too many words before the bar")
    for word in words[0 if labels_are_numbers else 1 :]:
        number(word)
    weight = float32(float(words[1]) if len(words) > 1 else 1.0)
    if weight < 0:
        raise BadLine("a negative weight")
    entries: dict[bytes, np.float32] = {}
    for space in rest.split(b"|"):
        namespace, scale = re.match(rb"([^ \t:]*)(:[^ \t]*)?", space).group(1, 2)
        if b"^" in namespace:
            raise BadLine("the sign between namespace and name")
        if b"^" in namespace:
            raise BadLine(namespace)
        factor = 1.0 if scale is None else number(scale[1:])
        for word in re.split(rb"[ \t]", space[len(namespace) + len(scale or b"") :]):
            if not word:
                continue
            name, colon, value = word.partition(b":")
            x = float32((number(value) if colon else 1.0) * factor)
            full = namespace + b"^" + name if namespace else name
            entries[full] = float32(float(entries[full]) + float(x)) if full in entries else x
    return Row(words[0], weight, tag, entries)


def feature_id(name: bytes) -> int:
    """The id of a name, by somebody else's xxHash."""
    return int(xxhash.xxh64_intdigest(name)) & (2**63 - 1)
