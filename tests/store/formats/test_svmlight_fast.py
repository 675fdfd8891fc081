"""The fast path for svmlight text: the same as the parser without it, bit for bit, on lines of every kind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from store.formats import svmlight_lines
from store.formats.parsed_text import is_read_fast
from store.formats.svmlight_lines import BAD_IDS, IDS, parsed
from store.formats.vw_lines import BAD_NUMBERS, GOOD_NUMBERS

from daskfs.jit import kernel
from daskfs.store.ingest.formats import numbers_kernels, svmlight_kernels
from daskfs.store.ingest.formats.structure_kernels import FINE, NOT_UNDERSTOOD, find_structure, new_positions
from daskfs.store.ingest.formats.svmlight import Svmlight
from daskfs.store.ingest.rows_kernels import new_row_arrays

pytestmark = pytest.mark.kernels

PAD = b"1 7:1\n" * 30  # the last lines of a window are not read by the fast path


def assert_same(windows: list[bytes], positions: NDArray[np.uint32], **options) -> None:
    windows = [window + PAD for window in windows]
    fast, plain = parsed(windows, positions, **options), parsed(windows, **options)
    for field, one, other in zip(fast._fields, fast, plain, strict=True):
        assert one == other, field


@pytest.mark.parametrize(
    "line",
    [
        b"1 2:3 40:-.5\t9223372036854775807:1\n",
        b"1 qid:7 12345:0.123456789 1:1e-05  2:-1.25E+10\r\n",
        b"1 7:1 # a comment: 1:2\n",
    ],
)
def test_the_parser_uses_the_fast_path_for_usual_lines(line):
    assert is_read_fast(Svmlight(labels="numbers"), line)


PIECES = [
    b"1",
    b"-1 ",
    b" ",
    b" ",
    b"  ",
    b"\t",
    b"1 2:3",
    b" 4:5 ",
    b":",
    b":1",
    b" 12:",
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"#",
    b" # a:b ",
]
PIECES += [b"qid:3 ", b" qid:", b"qid", b"x", b"\xff", b"l" * 70]
PIECES += [b" 3:" + number for number in GOOD_NUMBERS + BAD_NUMBERS] + [b" " + word + b":1" for word in IDS + BAD_IDS]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=60), st.booleans(), st.sampled_from([200, 1 << 16]))
def test_pieces_of_lines_in_any_order(pieces: list[bytes], strings: bool, window_bytes: int) -> None:
    assert_same([b"".join(pieces) + b"\n"], new_positions(window_bytes), strings=strings)


@pytest.mark.parametrize("strings", [False, True])
@pytest.mark.parametrize("block_entries", [40, 1000])
def test_lines_of_every_kind(strings: bool, block_entries: int) -> None:
    text = b"".join(svmlight_lines.lines(np.random.default_rng(block_entries), 1500))
    assert_same([text], new_positions(), strings=strings, block_entries=block_entries)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_a_million_lines_of_every_kind(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    for part in range(10):
        text = b"".join(svmlight_lines.lines(rng, 5000))
        assert_same([text], new_positions([512, 5000, 1 << 16][part % 3]), strings=part % 5 == 4)


def test_cuts_between_windows_and_between_pieces_of_a_window_do_not_matter() -> None:
    made = list(svmlight_lines.lines(np.random.default_rng(0), 40))
    whole = parsed([b"".join(made)])
    for cut in range(len(made) + 1):
        assert parsed([part for part in (b"".join(made[:cut]), b"".join(made[cut:])) if part], new_positions()) == whole
    for window_bytes in range(81, 1000, 13):
        assert parsed([b"".join(made)], new_positions(window_bytes)) == whole


@kernel
def state_of(text, out, positions):
    find_structure(text, 0, positions, numbers_kernels.COLON, numbers_kernels.HASH)
    entries, _, state = svmlight_kernels.read_structured_features(text, 0, out, positions)
    return state, entries


def fast_state(line: bytes) -> tuple[int, int]:
    text = np.frombuffer(bytearray(line + b"\n" + PAD), np.uint8)
    return state_of(text, new_row_arrays(2, 100), new_positions())


USUAL = {
    b"1 1:2 3:-0.5 4:1e-05": 3,
    b"-1 qid:7 1:0.12345678 9223372036854775807:1 # doc = 1:2": 2,
    b"1\t5:1  6:1 \r": 2,
    b"1": 0,
    b"1#": 0,
}


@pytest.mark.parametrize("line", USUAL)
def test_usual_lines_are_read_by_the_fast_path(line: bytes) -> None:
    assert fast_state(line) == (FINE, USUAL[line])


@pytest.mark.parametrize(
    "line", [b"1 1", b"1 1:", b"1 :1", b"1 1:2:3", b"1 x:1", b"1 1:nan", b"1 1:1e39", b"1 1:1\r2:1"]
)
def test_wrong_lines_are_not(line: bytes) -> None:
    assert fast_state(line)[0] == NOT_UNDERSTOOD


@kernel
def both_ids(text, stop):
    value, end, fine = numbers_kernels.read_id(text, 0)
    return value, fine and end == stop, *numbers_kernels.read_id_token(text, 0, stop)


@settings(deadline=None, max_examples=500)
@given(
    st.from_regex(r"[0-9]{0,21}[x/:]?", fullmatch=True)
    | st.sampled_from([word.decode("latin1") for word in IDS + BAD_IDS])
)
def test_any_id_is_the_same(token: str) -> None:
    text = np.frombuffer(bytearray(token.encode("latin1") + b" " * 24 + b"\n"), np.uint8)
    expected, is_id, value, fine = both_ids(text, len(token))
    assert fine == is_id
    if fine:
        assert value == expected
