"""Kernels that convert decimal text to numbers, for the parsers of line formats.

Every function reads until the first byte that is not part of a number. Callers pass text that ends with a newline, so
that no function has to check for the end of the text.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, inlined
from daskfs.store.dataset.bits_kernels import lowest_bit
from daskfs.store.dataset.hashing_kernels import WORD, bytes_equal, first_marked, word_at

SPACE, TAB, CR, LF = 32, 9, 13, 10
COLON, HASH, PLUS, MINUS, DOT, BAR, QUOTE = 58, 35, 43, 45, 46, 124, 39

TEN_TO = 10.0 ** np.arange(23)  # exactly representable, so that a division rounds only once
_WHOLE_TEN_TO = np.uint64(10) ** np.arange(9, dtype=np.uint64)
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
def read_id_token(text, start, stop):
    """Return the whole number ``text[start:stop]`` like `read_id`, and False if this is no whole number below 2^63.

    No byte is looked at by itself, so that 8 bytes after `stop` must be in the text.
    """
    length = stop - start
    if 0 < length <= WORD:
        return _digits(word_at(text, start), length)
    if length <= 0 or length > 19:
        return np.uint64(0), False
    last, is_last = _digits(word_at(text, stop - WORD), WORD)
    if length <= 2 * WORD:
        first, is_first = _digits(word_at(text, start), length - WORD)
        return first * _WHOLE_TEN_TO[WORD] + last, is_first & is_last
    middle, is_middle = _digits(word_at(text, stop - 2 * WORD), WORD)
    first, is_first = _digits(word_at(text, start), length - 2 * WORD)
    value = (first * _WHOLE_TEN_TO[WORD] + middle) * _WHOLE_TEN_TO[WORD] + last
    return value, is_first & is_middle & is_last & (value < ID_LIMIT)


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
def read_token(text, start, stop):
    """Return the number ``text[start:stop]``, and False if this is no finite number.

    The value is the same as that of `read_number` bit for bit. Numbers of up to 17 digits are
    read as words of 8 bytes, so that the text must go on for 8 bytes after `stop`.
    """
    negative = text[start] == MINUS
    first = start + 1 if negative else start
    length = stop - first
    if 0 < length <= WORD:
        mantissa, decimals, fine = _short_mantissa(word_at(text, first), length)
        if fine:
            value = np.float64(np.int64(mantissa)) / TEN_TO[decimals]
            return -value if negative else value, True
    return read_long_token(text, start, stop)


@helper
def read_long_token(text, start, stop):
    """Return the same as `read_token`, for a token with more than eight bytes, an exponent or anything unusual."""
    negative = text[start] == MINUS
    first = start + 1 if negative else start
    power, end = _two_digit_exponent(text, first, stop)
    mantissa, decimals, fine = _long_mantissa(text, first, end)
    if fine:
        value = _scaled(mantissa, power - decimals)
        return -value if negative else value, True
    value, end, state = _read_any_number(text, start)
    return value, state == NUMBER and end == stop


@inlined
def _two_digit_exponent(text, first, stop):
    """Return the exponent of a number that ends like ``e-05``, and the end of its mantissa, or (0, stop) otherwise."""
    if stop - first <= 4 or text[stop - 4] | np.uint8(32) != 101:  # e or E
        return 0, stop
    sign, tens, ones = text[stop - 3], digit(text[stop - 2]), digit(text[stop - 1])
    if tens > 9 or ones > 9 or (sign != PLUS and sign != MINUS):
        return 0, stop
    power = 10 * np.int64(tens) + np.int64(ones)
    return -power if sign == MINUS else power, stop - 4


@inlined
def _long_mantissa(text, first, stop):
    """Return the digits ``text[first:stop]`` as one number, the number of decimals, and False if not understood.

    Up to seven digits may stand before the point, up to 16 after the point, and up to 17 in all.
    """
    length = stop - first
    if length <= 0:
        return np.uint64(0), 0, False
    word = word_at(text, first)
    if length <= WORD:
        return _short_mantissa(word, length)
    whole = lowest_bit(bytes_equal(word, DOT)) >> 3
    decimals = length - whole - 1
    if whole == WORD or decimals > 2 * WORD or whole + decimals > 17:
        return np.uint64(0), 0, False
    last = min(decimals, WORD)
    a, a_fine = _digits(word, whole)
    b, b_fine = _digits(word_at(text, first + whole + 1), decimals - last)
    c, c_fine = _digits(word_at(text, stop - last), last)
    return (a * _WHOLE_TEN_TO[decimals - last] + b) * _WHOLE_TEN_TO[last] + c, decimals, a_fine & b_fine & c_fine


@inlined
def _digits(word, count):
    """Return the number in the first `count` bytes (0 … 8) of a 64-bit word, and False if not all are digits."""
    if count == 0:
        return np.uint64(0), True
    zeros = np.uint64(64 - 8 * count)
    word = (word << zeros) - (_ONES * np.uint64(48) << zeros)
    return _number_of_digits(word), _all_digits(word)


@inlined
def _short_mantissa(word, length):
    """Return the digits in the first `length` bytes (1 … 8) of a 64-bit word as one number, like `_long_mantissa`.

    There is no branch for a point, because whether a number has a point is unpredictable in some texts.
    """
    zeros = np.uint64(64 - 8 * length)  # bits in front of the first digit
    word <<= zeros
    points = bytes_equal(word, DOT)
    has_point = points != 0
    up_to_point = points ^ (points - np.uint64(1)) if has_point else np.uint64(0)
    word = ((word & (up_to_point >> np.uint64(8))) << np.uint64(8)) | (word & ~up_to_point)
    zeros += np.uint64(8) if has_point else np.uint64(0)
    decimals = (63 - lowest_bit(points)) >> 3 if has_point else 0
    word -= _ONES * np.uint64(48) << (zeros & np.uint64(63))
    return _number_of_digits(word), decimals, (zeros < 64) & _all_digits(word)


@inlined
def _all_digits(word):
    """Return True if every byte of a 64-bit word is 0 … 9."""
    return ((word + _ONES * np.uint64(128 - 10)) | word) & _HIGH_BITS == 0


@inlined
def _number_of_digits(word):
    """Return the number whose eight digits 0 … 9 are the bytes of a 64-bit word, the first digit lowest."""
    # Neighbours are combined: digits to pairs, pairs to fours, fours to the number.
    word = (word * np.uint64(10)) + (word >> np.uint64(8))
    pairs = np.uint64(0x000000FF000000FF)
    fours = (word & pairs) * np.uint64(100 + (1000000 << 32))
    word = (fours + ((word >> np.uint64(16)) & pairs) * np.uint64(1 + (10000 << 32))) >> np.uint64(32)
    return word & np.uint64(0xFFFFFFFF)


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
    if not _all_digits(word):
        return 0.0, 0
    return np.float64(_number_of_digits(word)) / TEN_TO[decimals], length


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
