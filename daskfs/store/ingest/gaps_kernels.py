"""Kernels for exact means and medians of columns, in sums and counts that can be added up in any order.

A sum of float64 numbers is kept as a fixed-point number of 67 limbs of 32 bits, wide enough for every float64, so that
no addition is ever rounded. A median is found digit by digit: the numbers are mapped to whole numbers in the same
order, and one reading counts one digit of 16 bits of those numbers whose higher digits are known.
"""

from __future__ import annotations

import numpy as np

from daskfs.jit import helper, kernel, warms

LIMBS = 67
LIMB_BITS = 32
EXPONENT_BIAS = 1075  # a float64 is its 53-bit mantissa · 2^(exponent - 1075)
DIGIT_BITS = 16
_LIMB = (1 << LIMB_BITS) - 1
_MANTISSA = (1 << 52) - 1


@kernel
def add_exactly(values, limbs):
    """Add all numbers that are not NaN to the fixed-point number `limbs`, and return how many were added."""
    bits, count = values.view(np.int64), 0
    for i in range(len(values)):
        if np.isnan(values[i]):
            continue
        count += 1
        exponent, mantissa = (bits[i] >> 52) & 0x7FF, bits[i] & _MANTISSA
        if exponent:
            mantissa |= 1 << 52
        else:
            exponent = 1  # subnormal numbers
        limb, shift = exponent >> 5, exponent & 31
        low, high = (mantissa & _LIMB) << shift, (mantissa >> LIMB_BITS) << shift
        sign = -1 if bits[i] < 0 else 1
        limbs[limb] += sign * (low & _LIMB)
        limbs[limb + 1] += sign * ((low >> LIMB_BITS) + (high & _LIMB))
        limbs[limb + 2] += sign * (high >> LIMB_BITS)
        if count & 0xFFFFFFF == 0:  # before a limb overflows
            _carry(limbs)
    _carry(limbs)
    return count


@helper
def _carry(limbs):
    for i in range(len(limbs) - 1):
        limbs[i + 1] += limbs[i] >> LIMB_BITS
        limbs[i] &= _LIMB


@kernel
def count_digit(values, shift, prefix, counts):
    """Count the digit that begins at bit `shift` of all numbers whose higher digits are `prefix`; NaN are left out."""
    bits = values.view(np.int64)
    for i in range(len(values)):
        if np.isnan(values[i]):
            continue
        number = np.uint64(~bits[i]) if bits[i] < 0 else np.uint64(bits[i]) | np.uint64(1 << 63)
        digits = number >> np.uint64(shift)
        if digits >> np.uint64(DIGIT_BITS) == np.uint64(prefix):
            counts[digits & np.uint64((1 << DIGIT_BITS) - 1)] += 1


@warms
def _warm() -> None:
    values = np.ones(1)
    add_exactly(values, np.zeros(LIMBS, np.int64))
    count_digit(values, 48, 0, np.zeros(1 << DIGIT_BITS, np.int64))
