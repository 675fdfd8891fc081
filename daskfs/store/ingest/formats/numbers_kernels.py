"""Kernels that convert decimal text to numbers, for the parsers of line formats.

Every function reads until the first byte that is not part of a number. Callers pass text that ends with a newline, so
that no function has to check for the end of the text.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, inlined
from daskfs.store.dataset.hashing_kernels import WORD, bytes_equal, first_marked, word_at

SPACE, TAB, CR, LF = 32, 9, 13, 10
COLON, HASH, PLUS, MINUS, DOT, BAR, QUOTE = 58, 35, 43, 45, 46, 124, 39

TEN_TO = 10.0 ** np.arange(23)  # exactly representable, so that a division rounds only once
MANTISSA_LIMIT = np.uint64(10**17)
ID_LIMIT = np.uint64(2**63)

NUMBER, NOT_A_NUMBER, NOT_FINITE = 0, 1, 2

_ONES = np.uint64(0x0101010101010101)
_LOW_BITS, _HIGH_BITS = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(0x8080808080808080)


@helper
def digit(byte):
    """Return the value 0 … 9 of a digit byte, or a number above 9 for any other byte."""
    return np.uint8(byte - np.uint8(48))


@helper
def read_id(text, at):
    """Read a whole number 0 … 2^63 - 1, and return the value, the position after the number, and False if invalid."""
    value, first = np.uint64(0), at
    d = digit(text[at])
    while d <= 9:
        value = value * np.uint64(10) + np.uint64(d)
        at += 1
        d = digit(text[at])
    # 19 digits cannot overflow 64 bits; leading zeros beyond that are not worth a slower loop.
    return value, at, first < at <= first + 19 and value < ID_LIMIT


@inlined
def read_number(text, at):
    """Read a decimal number at `at`, and return the value, the position after the number, and NUMBER or an error code.

    The value is the nearest float64 for up to 15 digits and powers of ten up to ±22. For longer numbers, the value is
    off by at most a few units in the last place.
    """
    if at + WORD <= len(text):
        value, length = _read_short_number(word_at(text, at))
        if length > 0:
            return value, at + length, NUMBER
    return _read_any_number(text, at)


@inlined
def _read_short_number(word):
    """Read a number of up to seven digits and points from a 64-bit word, and return value and length (0 if it fails).

    Most numbers have up to seven characters, and a loop over digits is slower because of branch mispredictions.
    """
    # Find the bytes from . to 9: adding the difference to 128 sets the high bit. The / among them is rejected
    # below, because it is no digit.
    low = word & _LOW_BITS
    others = ~((low + _ONES * np.uint64(128 - DOT)) & ~(low + _ONES * np.uint64(128 - 58))) | word
    length = first_marked(others & _HIGH_BITS)
    if length == WORD:
        return 0.0, 0
    bits = np.uint64(8 * length)
    follower = (word >> bits) & np.uint64(0xDF)
    word &= (np.uint64(1) << bits) - np.uint64(1)
    points = bytes_equal(word, DOT)
    digits, decimals = length, 0
    if points != 0:
        whole = first_marked(points)
        digits, decimals = length - 1, length - 1 - whole
        before = (np.uint64(1) << np.uint64(8 * whole)) - np.uint64(1)
        word = (word & before) | ((word >> np.uint64(8)) & ~before)
    if digits == 0 or follower == 69:  # e or E
        return 0.0, 0
    word <<= np.uint64(64 - 8 * digits)  # zeros in front
    word -= (_ONES * np.uint64(48)) << np.uint64(64 - 8 * digits)
    if ((word + _ONES * np.uint64(128 - 10)) | word) & _HIGH_BITS:
        return 0.0, 0
    # Neighbours are combined: digits to pairs, pairs to fours, fours to the number.
    word = (word * np.uint64(10)) + (word >> np.uint64(8))
    pairs = np.uint64(0x000000FF000000FF)
    fours = (word & pairs) * np.uint64(100 + (1000000 << 32))
    word = (fours + ((word >> np.uint64(16)) & pairs) * np.uint64(1 + (10000 << 32))) >> np.uint64(32)
    return np.float64(word & np.uint64(0xFFFFFFFF)) / TEN_TO[decimals], length


@helper
def _read_any_number(text, at):
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    mantissa, exponent, first = np.uint64(0), 0, at
    d = digit(text[at])
    while d <= 9:
        if mantissa < MANTISSA_LIMIT:
            mantissa = mantissa * np.uint64(10) + np.uint64(d)
        else:
            exponent += 1
        at += 1
        d = digit(text[at])
    digits = at - first
    if text[at] == DOT:
        at += 1
        first = at
        d = digit(text[at])
        while d <= 9:
            if mantissa < MANTISSA_LIMIT:
                mantissa = mantissa * np.uint64(10) + np.uint64(d)
                exponent -= 1
            at += 1
            d = digit(text[at])
        digits += at - first
    if digits == 0:
        return 0.0, at, NOT_FINITE if _is_word_for_not_finite(text, at) else NOT_A_NUMBER
    if text[at] | np.uint8(32) == 101:  # e or E
        power, at, fine = _read_exponent(text, at + 1)
        if not fine:
            return 0.0, at, NOT_A_NUMBER
        exponent += power
    value = _scaled(mantissa, exponent)
    if negative:
        value = -value
    return value, at, NUMBER if np.isfinite(value) else NOT_FINITE


@helper
def _read_exponent(text, at):
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    power, first = 0, at
    d = digit(text[at])
    while d <= 9:
        power = min(power * 10 + d, 100_000)
        at += 1
        d = digit(text[at])
    return -power if negative else power, at, at > first


@helper
def _scaled(mantissa, exponent):
    value = np.float64(mantissa)
    if exponent == 0 or mantissa == 0:
        return value
    if -22 <= exponent < 0:
        return value / TEN_TO[-exponent]
    if 0 < exponent <= 22:
        return value * TEN_TO[exponent]
    while exponent > 22 and np.isfinite(value):
        value *= TEN_TO[22]
        exponent -= 22
    while exponent < -22 and value != 0:
        value /= TEN_TO[22]
        exponent += 22
    if exponent >= 0:
        return value * TEN_TO[min(exponent, 22)]
    return value / TEN_TO[min(-exponent, 22)]


@helper
def _is_word_for_not_finite(text, at):
    a, b, c = text[at] | 32, text[at + 1] | 32 if text[at] != LF else 0, 0
    if text[at] != LF and text[at + 1] != LF:
        c = text[at + 2] | 32
    return (a == 110 and b == 97 and c == 110) or (a == 105 and b == 110 and c == 102)
