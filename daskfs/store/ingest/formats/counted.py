"""What the formats that count features (k-mers, n-grams) have in common: lengths and weighting."""

from __future__ import annotations

from collections.abc import Iterable

from daskfs.errors import OptionError
from daskfs.store.ingest.rows_kernels import BINARY, COUNTS, UNIT

WEIGHTING_CODES = {"count": COUNTS, "binary": BINARY, "unit": UNIT}


def lengths(option: str, given: int | Iterable[int], longest: int) -> tuple[int, ...]:
    """One length or several as a sorted tuple without duplicates, each in 1 … `longest`.

    >>> lengths("k", 12, longest=31)
    (12,)
    >>> lengths("k", [4, 2, 4], longest=31)
    (2, 4)
    """
    several = {given} if isinstance(given, int) else set(given)
    if not all(isinstance(length, int) and 1 <= length <= longest for length in several):
        raise OptionError(f"{option}: lengths are whole numbers between 1 and {longest}, got {given!r}")
    return tuple(sorted(several))
