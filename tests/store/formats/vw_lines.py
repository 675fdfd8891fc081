"""Vowpal Wabbit lines of every kind, good and bad, and what a parser makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from store.formats import parsed_text
from store.formats.parsed_text import Parsed

from daskfs.store.ingest.formats import vw, vw_kernels
from daskfs.store.ingest.formats.vw_fast_kernels import Structure, new_structure
from daskfs.store.ingest.rows import RowBuilder

GOOD_NUMBERS = (
    b"0 1 2 -1 +1 +.5 .5 -.5 5. -0 00012 12345678 -1234567 1234567. 123456789 0.12345678 -0.1234567890123456".split()
)
GOOD_NUMBERS += (
    b"1e-3 -1e-3 1E+05 6.25e-02 -1.2345678e-05 1e22 1e-30 1e-50 1e38 0.00000000000000000000001 99999999.5".split()
)
GOOD_NUMBERS += (
    b"12345678901234567 123456789012345678901234567890 1234567.1234567890 1234567.12345678901 .1234567890123456".split()
)
GOOD_NUMBERS += b"9.1234567890123456 99.1234567890123456 999.9999999999999999 9999999.9999999999999999".split()
GOOD_NUMBERS += b".12345678901234567 3.4028234e+38 1.e-05 -.5e+01 1e00 1e-00".split()
BAD_NUMBERS = b"nan inf -inf NaN Infinity 1e39 3.4028236e+38 1e400 . - + -- --1 +-1 1.2.3 1e e5 1e-0x 0x10".split()
BAD_NUMBERS += b"1_000 1,5 1:2 :".split()
BAD_NUMBERS += (
    b"1/2 12345678x 0.1234.5678 0.12345678x e-05 -e-05 .e-05 1e+-5 \xb1 1\xb9 1234567\xff n in na i 1e1e-05".split()
)
NAMES = b"x y price country=uk a=b 12 2147483647 \xc3\xa9 pa\xc3\xads=uk \xff\x80 ^ a^b a^ ' 'x # -1 . 1e5 x_y".split()
NAMES += [
    b"n" * length for length in (1, 5, 6, 7, 8, 9, 15, 16, 17, 23, 24, 25, 29, 30, 31, 32, 33, 40, 63, 64, 65, 100)
]
SPACES = [*b"f user a \xc3\xa9".split(), b"", b"", b"s" * 6, b"s" * 7, b"s" * 8, b"s" * 30, b"s" * 31, b"s" * 32]
SPACES += [b"s" * 15, b"s" * 16, b"s" * 80]
TAGS = [b"'tag", b"'", b"'a:b", b"'\xc3\xa9", b"tag", b"a:b", b"'" + b"t" * 300]
BLANKS = [b" ", b" ", b" ", b" ", b"  ", b"\t", b" \t "]
ENDS = [b"\n", b"\n", b"\n", b"\n", b"\n", b"\r\n", b" \n", b" \r\n", b"|\n", b" |\n"]
ODD_BYTES = b": \t|^'\r\n\0\x0b\x1f\xff-+.e0"


def pick(rng: np.random.Generator, choices: Sequence[bytes]) -> bytes:
    return choices[int(rng.random() * len(choices))]


def number(rng: np.random.Generator, odd: float) -> bytes:
    """A number as programs write it; with the probability `odd` one that is unusual or wrong."""
    if rng.random() < odd:
        return pick(rng, BAD_NUMBERS if rng.random() < 0.3 else GOOD_NUMBERS)
    x = float(rng.normal())
    written = (b"%d", b"%.2f", b"%.4f", b"%.8f", b"%.6g", b"%.9g", b"%.17g", b"%e")
    return pick(rng, written) % (x * 10.0 ** int(rng.integers(-6, 7)))


def header(rng: np.random.Generator, odd: float) -> bytes:
    words = [number(rng, odd) if rng.random() < odd else pick(rng, [b"1", b"-1", b"0"])]
    if rng.random() < 0.2:
        words.append(b"%.2f" % abs(rng.normal()) if rng.random() > odd else number(rng, odd))
        if rng.random() < 0.2:
            words.append(number(rng, odd))
    tag = pick(rng, TAGS) if rng.random() < 0.2 else b""
    if rng.random() < odd / 4:
        words = [*words[1:], pick(rng, [b"", b"cat", b"x y z"])]
    return pick(rng, BLANKS).join([*words, tag])


def feature(rng: np.random.Generator, odd: float) -> bytes:
    name = pick(rng, NAMES) if rng.random() < 2 * odd else b"%d" % int(10 ** (9 * rng.random()))
    if rng.random() < odd / 8:
        name = pick(rng, [b"", b"l" * 4060, b"l" * 4100, b"l" * 70_000])
    return name if rng.random() < 0.3 else name + b":" + number(rng, odd / 2)


def namespace(rng: np.random.Generator, odd: float) -> bytes:
    name = pick(rng, SPACES)
    if rng.random() < odd / 8:
        name += b"^x"
    if rng.random() < 0.2:
        name += b":" + number(rng, odd)
    words = [feature(rng, odd) for _ in range(int(rng.integers(0, 12)))]
    return b"|" + name + b"".join(pick(rng, BLANKS) + word for word in words)


def line(rng: np.random.Generator) -> bytes:
    """A line of VW text with a newline: in half of the lines all is usual, in the others some things are odd or bad."""
    odd = pick(rng, [b"0", b"0", b".02", b".2"])
    p = float(odd)
    spaces = [namespace(rng, p) for _ in range(int(rng.integers(1, 5)))]
    text = header(rng, p) + (b" " if rng.random() < 0.7 else b"") + pick(rng, [b"", b" "]).join(spaces)
    if rng.random() < p:
        at = int(rng.integers(len(text) + 1))
        text = text[:at] + bytes([ODD_BYTES[int(rng.integers(len(ODD_BYTES)))]]) + text[at + int(rng.integers(2)) :]
    return text + pick(rng, ENDS)


def lines(rng: np.random.Generator, count: int) -> Iterator[bytes]:
    return (line(rng) for _ in range(count))


def parsed(
    windows: Sequence[bytes], structure: Structure | None = None, *, strings: bool = False, **options: int
) -> Parsed:
    """What the parser makes of windows of whole lines: without the fast path, or with a structure for it."""
    batch, used = vw_kernels.new_batch(), structure or new_structure(0)

    def step(text: NDArray[np.uint8], rows: RowBuilder) -> int:
        return int(vw_kernels.parse_vw(text, strings, rows.arrays, rows.labels, rows.names, batch, used))

    return parsed_text.parsed(windows, step, vw.REASONS, **options)
