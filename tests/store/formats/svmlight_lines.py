"""svmlight lines of every kind, good and bad, and what the parser makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from store.formats import parsed_text
from store.formats.parsed_text import Parsed
from store.formats.vw_lines import number as any_number
from store.formats.vw_lines import pick

from daskfs.store.ingest.formats import svmlight, svmlight_kernels
from daskfs.store.ingest.formats.structure_kernels import new_positions
from daskfs.store.ingest.rows import RowBuilder

IDS = b"0 7 12345678 123456789 1234567890123456 12345678901234567 9223372036854775807 0000000000000000001".split()
BAD_IDS = b"9223372036854775808 9999999999999999999 12345678901234567890 x -1 +1 1.5 1x qi qidx \xb1".split()
BAD_IDS += [b"12345678/1", b""]
BLANKS = [b" ", b" ", b" ", b" ", b"  ", b"\t", b" \t "]
ENDS = [b"\n", b"\n", b"\n", b"\n", b"\r\n", b" \n", b" # comment: 1:2\n", b"#\n", b" \r\n", b" # a\rb\0\n"]
ODD_BYTES = b": \t#\r\n\0\x0b\x1f\xff-+.e0"


def entry(rng: np.random.Generator, odd: float) -> bytes:
    feature = b"%d" % int(10 ** (18 * rng.random()))
    if rng.random() < odd:
        feature = pick(rng, IDS if rng.random() < 0.7 else BAD_IDS)
    if rng.random() < odd / 8:
        return pick(rng, [b"12", b"x", b"qid:3", b"qid:", b"qid:1:2", b"1:", b":1", b":", b"1::2"])
    return feature + b":" + any_number(rng, odd / 2)


def line(rng: np.random.Generator) -> bytes:
    """A line of svmlight text with a newline: in half of the lines all is usual, in the others some things are odd."""
    odd = float(pick(rng, [b"0", b"0", b".02", b".2"]))
    label = any_number(rng, odd) if rng.random() < odd else pick(rng, [b"1", b"-1", b"+1", b"0"])
    words = [label, *([b"qid:%d" % rng.integers(99)] if rng.random() < 0.1 else [])]
    words += [entry(rng, odd) for _ in range(int(rng.integers(0, 30)))]
    text = b"".join(word + pick(rng, BLANKS) for word in words[:-1]) + words[-1]
    if rng.random() < odd:
        at = int(rng.integers(len(text) + 1))
        text = text[:at] + bytes([ODD_BYTES[int(rng.integers(len(ODD_BYTES)))]]) + text[at + int(rng.integers(2)) :]
    return text + pick(rng, ENDS)


def lines(rng: np.random.Generator, count: int) -> Iterator[bytes]:
    return (line(rng) for _ in range(count))


def parsed(
    windows: Sequence[bytes], positions: NDArray[np.uint32] | None = None, *, strings: bool = False, **options: int
) -> Parsed:
    """What the parser makes of windows of whole lines: without the fast path, or with positions for it."""
    used = new_positions(0) if positions is None else positions

    def step(text: NDArray[np.uint8], rows: RowBuilder) -> int:
        return int(svmlight_kernels.parse_svmlight(text, strings, rows.arrays, rows.labels, used))

    return parsed_text.parsed(windows, step, svmlight.REASONS, **options)
