"""The fast path for Vowpal Wabbit text: the same as the parser without it, bit for bit, on lines of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store.formats import vw_lines
from store.formats.parsed_text import is_read_fast
from store.formats.vw_lines import BAD_NUMBERS, GOOD_NUMBERS, parsed

from daskfs.jit import kernel
from daskfs.store.dataset.names_kernels import new_name_set
from daskfs.store.ingest.formats import numbers_kernels, vw_fast_kernels
from daskfs.store.ingest.formats.vw import VowpalWabbit
from daskfs.store.ingest.formats.vw_fast_kernels import FINE, NOT_UNDERSTOOD, new_structure
from daskfs.store.ingest.rows_kernels import new_row_arrays

pytestmark = pytest.mark.kernels

PAD = b"1 |pad x\n" * 20  # the last lines of a window are not read by the fast path


def assert_same(windows: list[bytes], structure: vw_fast_kernels.Structure | None = None, **options) -> None:
    windows = [window + PAD for window in windows]
    fast = parsed(windows, structure or new_structure(), **options)
    plain = parsed(windows, **options)
    for field, one, other in zip(fast._fields, fast, plain, strict=True):
        assert one == other, field


@pytest.mark.parametrize(
    "line",
    [
        b"1 |f a b:2 c:-.5\n",
        b"1 |f 12345:0.123456789 67:1e-05 89:-1.25E+10 x\r\n",
        b"-1 2.5 'row7|f:2 a |g b\tc  d:3 | e \n",
        b"1|" + b"f" * 31 + b" " + b"a" * 200 + b":1 b\n",
    ],
)
def test_the_parser_uses_the_fast_path_for_usual_lines(line):
    assert is_read_fast(VowpalWabbit(labels="numbers"), line)


def test_the_parser_uses_the_slow_path_for_unusual_lines():
    assert not is_read_fast(VowpalWabbit(labels="numbers"), b"1 |" + b"f" * 32 + b" a\n")


PIECES = [
    b"1",
    b"-1 ",
    b" ",
    b" ",
    b"  ",
    b"\t",
    b"|",
    b" |",
    b"|f ",
    b"1 |f ",
    b"|n:2 ",
    b"|:3",
    b":",
    b":1",
    b":-0.5 ",
    b"\n",
    b"\r\n",
]
PIECES += [
    b"\r",
    b"\0",
    b"'",
    b"'tag|",
    b"^",
    b"x",
    b"x ",
    b"w12:0.25 ",
    b"\xc3\xa9",
    b"\xff",
    b"n" * 31,
    b"l" * 70,
    b"2 ",
]
PIECES += [b":" + number + b" " for number in GOOD_NUMBERS + BAD_NUMBERS]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=60), st.booleans(), st.sampled_from([200, 1 << 16]))
def test_pieces_of_lines_in_any_order(pieces: list[bytes], strings: bool, window_bytes: int) -> None:
    assert_same([b"".join(pieces) + b"\n"], new_structure(window_bytes), strings=strings)


@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize("block_entries", [40, 1000])
@pytest.mark.parametrize("names_bytes", [1024, 1 << 20])
def test_lines_of_every_kind(strings: bool, block_entries: int, names_bytes: int) -> None:
    rng = np.random.default_rng(block_entries + names_bytes)
    text = b"".join(vw_lines.lines(rng, 1500))
    assert_same([text], strings=strings, block_entries=block_entries, names_bytes=names_bytes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_million_lines_of_every_kind(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    for part in range(10):
        text = b"".join(vw_lines.lines(rng, 5000))
        assert_same([text], new_structure([512, 5000, 1 << 16][part % 3]), strings=part % 5 == 4, names_bytes=1 << 24)


def test_cuts_between_windows_and_between_pieces_of_a_window_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    made = list(vw_lines.lines(rng, 40))
    whole = parsed([b"".join(made)])
    for cut in range(len(made) + 1):
        assert parsed([part for part in (b"".join(made[:cut]), b"".join(made[cut:])) if part], new_structure()) == whole
    for window_bytes in range(81, 1000, 13):
        assert parsed([b"".join(made)], new_structure(window_bytes)) == whole


def test_the_last_line_of_a_text_of_any_length() -> None:
    """Nothing is read beyond the end: with bounds checks, this would be an error."""
    for length in range(300):
        text = b"1 |f a:1\n1 |f " + b"b" * length + b":0.5 c\n"
        assert parsed([text], new_structure()) == parsed([text])


@kernel
def state_of(text, out, names, structure):
    vw_fast_kernels.find_vw_structure(text, 0, structure)
    at = 0
    while text[structure.positions[at]] != numbers_kernels.BAR:
        at += 1
    entries, _, state = vw_fast_kernels.read_structured_namespaces(text, at, out, names, structure)
    return state, entries


def fast_state(line: bytes) -> tuple[int, int]:
    text = np.frombuffer(bytearray(line + b"\n" + PAD), np.uint8)
    return state_of(text, new_row_arrays(2, 100), new_name_set(100, 1 << 16), new_structure())


USUAL = {
    b"1 |f 12:0.5 13:-1e-05 14": 3,
    b"-1 2.5 'tag|user id=77 |ad:0.5 x:3 y": 3,
    b"1 | a  b\tc ": 3,
    b"1 |a x|b y\r": 2,
    b"0 0.5 1 third|a-long-namespace-with-30-bytes x:+.5": 1,
    b"1 |f " + b"n" * 500 + b":0.12345678901234567890": 1,
    b"1 |f :2": 1,
    b"1 |": 0,
}
UNUSUAL = [
    b"1 |f a:",
    b"1 |f a:1:2",
    b"1 |f a:nan",
    b"1 |f a:1e39",
    b"1 |f a\0",
    b"1 |f a\rb",
    b"1 |a^b c",
    b"1 |a:x c",
]
UNUSUAL += [b"1 |f " + b"n" * 5000, b"1 |" + b"n" * 32 + b" a", b"1 |a:1:2 c"]


@pytest.mark.parametrize("line", USUAL)
def test_usual_lines_are_read_by_the_fast_path(line: bytes) -> None:
    assert fast_state(line) == (FINE, USUAL[line])


@pytest.mark.parametrize("line", UNUSUAL)
def test_wrong_and_unusual_lines_are_not(line: bytes) -> None:
    assert fast_state(line)[0] == NOT_UNDERSTOOD


@kernel
def both_numbers(text, stop):
    value, end, state = numbers_kernels.read_number(text, 0)
    return value, state == numbers_kernels.NUMBER and end == stop, *numbers_kernels.read_token(text, 0, stop)


def assert_same_number(token: bytes) -> None:
    text = np.frombuffer(bytearray(token + b" " * 24 + b"\n"), np.uint8)
    expected, is_number, value, fine = both_numbers(text, len(token))
    assert fine == is_number
    if fine:
        assert np.float64(value).tobytes() == np.float64(expected).tobytes()


@pytest.mark.parametrize("token", GOOD_NUMBERS + BAD_NUMBERS)
def test_numbers_are_the_same_bit_for_bit(token: bytes) -> None:
    assert_same_number(token)


@settings(deadline=None, max_examples=1000)
@given(st.from_regex(r"[-+]?[0-9]{0,9}(\.[0-9]{0,20})?([eE][-+]?[0-9]{0,3})?", fullmatch=True) | st.floats().map(repr))
def test_any_number_is_the_same_bit_for_bit(token: str) -> None:
    assert_same_number(token.encode())


@settings(deadline=None, max_examples=500)
@given(st.binary(max_size=20).filter(lambda token: min(token, default=0) > 32))
def test_any_bytes_are_a_number_or_not(token: bytes) -> None:
    assert_same_number(token)
