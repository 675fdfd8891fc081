"""Eight bytes at a time: the same as one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.jit import kernel
from daskfs.store.dataset import hashing_kernels as words
from daskfs.store.ingest.formats import numbers_kernels as numbers

pytestmark = pytest.mark.kernels


def array(text: bytes) -> np.ndarray:
    return np.frombuffer(bytearray(text), np.uint8)


@kernel
def first_below(text, limit):
    return words.first_marked(words.bytes_below(words.word_at(text, 0), limit))


@kernel
def first_equal(text, byte):
    return words.first_marked(words.bytes_equal(words.word_at(text, 0), byte))


@kernel
def copied(source, start, stop, target, to):
    words.copy_text(source, start, stop, target, to)


@kernel
def both_numbers(text):
    return numbers.read_number(text, 0), numbers._read_any_number(text, 0)


any_bytes = st.lists(st.sampled_from(b"\0 :|!AZ\x7f\x80\xff"), min_size=8, max_size=8).map(bytes)


@given(any_bytes, st.sampled_from([1, 33, 128]))
def test_the_first_byte_below(text, limit):
    assert first_below(array(text), limit) == next((i for i in range(8) if text[i] < limit), 8)


@given(any_bytes, st.sampled_from(b"\0:|\xff"))
def test_the_first_byte_that_equals(text, byte):
    assert first_equal(array(text), byte) == text.find(byte) % 9


@pytest.mark.parametrize("length", [0, 1, 7, 8, 15, 16, 17, 40])
@pytest.mark.parametrize(("source_rest", "target_rest"), [(0, 50), (50, 0), (15, 16), (50, 50)])
def test_copies_what_is_asked_for_and_leaves_what_stands_before(length, source_rest, target_rest):
    source, target = (
        np.arange(1, 6 + length + source_rest, dtype=np.uint8),
        np.zeros(3 + length + target_rest, np.uint8),
    )
    copied(source, 5, 5 + length, target, 3)
    assert target[: 3 + length].tolist() == [0, 0, 0, *source[5 : 5 + length]]
    assert not target[3 + length + words.SLACK :].any()


@given(st.lists(st.sampled_from(b"0123456789.-+eE/: \xb9"), max_size=9).map(bytes), st.binary(max_size=8))
def test_short_numbers_are_read_as_by_one_digit_after_the_other(number, rest):
    at_once, one_by_one = both_numbers(array(number + b"\n" + rest))
    assert at_once == one_by_one


@given(st.integers(0, 9_999_999), st.integers(0, 6))
def test_short_numbers_are_those_of_python(digits, decimals):
    text = f"{digits:0{decimals + 1}d}"
    text = f"{text[: len(text) - decimals]}.{text[len(text) - decimals :]}"
    at_once, _ = both_numbers(array(text.encode() + b" |        "))
    assert at_once == (float(text), len(text), numbers.NUMBER)
