"""CSR rows as svmlight text, fast: tokens of fixed width from tables of four characters, then NULs are dropped."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

DECIMALS = 4
SCALE = 10**DECIMALS  # values are whole numbers of ten-thousandths …
LARGEST = 10 - 1 / SCALE  # … with one digit before the point


def _words(texts: Iterable[str]) -> NDArray[np.uint32]:
    """Texts of at most four characters, each as one number; shorter ones are filled with NUL."""
    return np.array([text.encode() for text in texts], "S4").view(np.uint32)


DIGITS = _words(f"{i:04d}" for i in range(10_000))
LEADING = _words(str(i) if i else "" for i in range(10_000))  # the first digits of a number
UNITS = _words(f":{i}." for i in range(10))
NEGATIVE, POSITIVE, SPACE, NEWLINE, ZERO = _words(["-1", "1", " ", "\n", "0"])


def svmlight_text(X: scipy.sparse.csr_array, y: NDArray[np.float64]) -> bytes:
    """Rows as svmlight text.

    Parameters
    ----------
    X
        Values between 0 and 9.9999, written with four decimals; ids below 10^12.
    y
        Labels, 1 or -1.

    Examples
    --------
    >>> svmlight_text(scipy.sparse.csr_array([[0, 0.5], [0.25, 1]]), np.array([1, -1]))
    b'1 1:0.5000\\n-1 0:0.2500 1:1.0000\\n'
    """
    rows = np.arange(X.shape[0])
    label_at = X.indptr[:-1] + rows
    tokens = np.zeros((X.nnz + len(rows), 6), np.uint32)  # id, id, id, ":0.", fraction, space or newline
    is_entry = np.ones(len(tokens), bool)
    is_entry[label_at] = False
    for column, words in enumerate([*_id_words(X.indices.astype(np.int64)), *_value_words(X.data)]):
        tokens[is_entry, column] = words
    tokens[label_at, 0] = np.where(y > 0, POSITIVE, NEGATIVE)
    tokens[:, -1] = SPACE
    tokens[X.indptr[1:] + rows, -1] = NEWLINE
    return tokens.tobytes().translate(None, b"\0")


def _id_words(ids: NDArray[np.int64]) -> tuple[NDArray[np.uint32], ...]:
    """The decimal digits of ids, four at a time, without leading zeros."""
    upper, low = np.divmod(ids, 10**4)
    high, middle = np.divmod(upper, 10**4)
    last = np.where(upper, DIGITS[low], LEADING[low])
    return LEADING[high], np.where(high, DIGITS[middle], LEADING[middle]), np.where(ids, last, ZERO)


def _value_words(values: NDArray[np.floating]) -> tuple[NDArray[np.uint32], ...]:
    """``:`` and a value: the digit before the point, and the four behind it."""
    units, fraction = np.divmod(np.rint(values * SCALE).astype(np.int64), SCALE)
    return UNITS[units], DIGITS[fraction]
