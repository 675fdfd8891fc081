"""Columns that only identify rows, such as the number of a row, a customer or a session, and are not used as features.

A column of texts is judged by how many other rows have the same text as a row, on average. If texts are shared by
hardly any rows, their features would fit the training rows and predict nothing for others, and their number would grow
with the number of rows. Cities, words and advertisements are not identifiers, since frequent ones have many rows.

================================= ======================== ============================
other rows with the text of a row distinct texts           name of the column
================================= ======================== ============================
fewer than 20                     at least 90 % of rows    any
fewer than 2                      at least 1,000           any
fewer than 20                     at least 100             names a customer, a session …
================================= ======================== ============================

Only the first rows are read. Texts that are in the first half of these and again in the second half show how often a
text occurs again, and so how many of *all* rows share it. Consecutive rows with the same text are counted as they are.
Distinct texts are those of the first rows.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

_LEAST_ROWS = 20  # with fewer rows, distinct values are no sign of an identifier
_DISTINCT_SHARE = 0.9
_FEW, _HARDLY_ANY = 20, 2  # other rows with the same text
_MANY, _MANY_OF_NAMED = 1000, 100  # distinct texts
_NAMED_AS_IDENTIFIER = re.compile(r"(?i:(.*[\W_])?(id|uuid|guid|index|key|row|nr|no|number)\.?)|.*[a-z](Id|ID)")
_NAMES = re.compile(
    r"(?i:account|booking|client|contract|cookie|customer|email|guest|hash|household|invoice|ip|kunde|login|member|order|"
    r"passenger|patient|person|phone|player|policy|receipt|session|subject|subscriber|ticket|token|transaction|user|"
    r"username|visit|visitor)"
)
"""Words that name what is numbered or called by identifiers."""
_INDEX = re.compile(r"|Unnamed: 0(\.\d+)?|__index_level_\d+__|level_0")
"""The names that pandas gives to the index of a DataFrame when it writes CSV and Parquet files, and reads them back."""
_INDEX_DISTINCT = 0.5  # of the rows: an index of rows that were drawn with replacement has 63 % distinct numbers
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def names_rows(codes: NDArray[np.integer], name: str, n_rows: float) -> bool:
    """Return whether texts are identifiers, given the codes of the texts in the first of `n_rows` rows."""
    distinct = int(codes.max(initial=-1)) + 1
    if len(codes) < _LEAST_ROWS:
        return False
    shared_by = mean_companions(codes, n_rows)
    if distinct >= _DISTINCT_SHARE * len(codes):
        return shared_by < _FEW
    if distinct >= _MANY and shared_by < _HARDLY_ANY:
        return True
    return distinct >= _MANY_OF_NAMED and shared_by < _FEW and is_named_as_identifier(name)


def mean_companions(codes: NDArray[np.integer], n_rows: float) -> float:
    """Estimate how many of `n_rows` rows have the same text as a row on average, given the codes of the first rows.

    >>> codes = np.random.default_rng(0).integers(0, 2000, 10_000)  # five rows each
    >>> mean_companions(codes, 10_000).__round__(), mean_companions(np.sort(codes), 1e6).__round__()
    (5, 5)
    >>> mean_companions(codes, 1e6).__round__(-1)
    500.0
    """
    half, distinct = len(codes) // 2, int(codes.max()) + 1
    first, second = np.bincount(codes[:half], minlength=distinct), np.bincount(codes[half:], minlength=distinct)
    here = first + second
    return max(float(here @ (here - 1)) / len(codes), n_rows * float(first @ second) / (half * (len(codes) - half)))


def is_named_as_identifier(name: str) -> bool:
    """Return whether the name of a column is that of an identifier, such as a customer or a session.

    >>> [is_named_as_identifier(name) for name in ("customer", "userName", "visit_id", "city", "trust", "item no.")]
    [True, True, True, False, False, True]
    """
    return bool(any(map(_NAMES.fullmatch, _WORDS.findall(name))) or _NAMED_AS_IDENTIFIER.fullmatch(name))


def is_number_of_rows(numbers: NDArray[np.float64], name: str) -> bool:
    """Return whether numbers are whole and distinct, and are consecutive in some order or called id or number.

    The index of a DataFrame is left out also if some numbers are there twice: rows drawn from a table keep the numbers
    that they had there, which tell the class of a row if the table was sorted by class.

    >>> rng = np.random.default_rng(0)
    >>> numbers = rng.integers(0, 9000, 1000)
    >>> [is_number_of_rows(numbers, name) for name in ("__index_level_0__", "Unnamed: 0", "", "age")]
    [True, True, True, False]
    """
    if len(numbers) < _LEAST_ROWS or (numbers != numbers.round()).any():
        return False
    distinct = len(np.unique(numbers))
    if _INDEX.fullmatch(name) and distinct >= _INDEX_DISTINCT * len(numbers):
        return True
    if distinct < len(numbers):
        return False
    counts_rows = numbers.max() - numbers.min() == len(numbers) - 1  # in any order, as they are distinct
    return bool(counts_rows or _NAMED_AS_IDENTIFIER.fullmatch(name))
