"""k-mers as feature ids, and back: the id is the k-mer, so no table of names is kept.

The id of a k-mer is ``1`` followed by two bits a base (A, C, G, T = 0 … 3), the first base on top.
The leading 1 tells the length, so that k-mers of several lengths never share an id. A k-mer at a
position of its row has the position above that: ``position << shift | id``.
"""

from __future__ import annotations

BASES = "ACGT"
LONGEST_KMER = 31  # 1 + 2 * 31 bits: ids stay below 2^63


def position_shift(longest: int) -> int:
    """How far positions are shifted to make room for k-mers of up to `longest` bases.

    >>> position_shift(12)
    25
    """
    return 2 * longest + 1


def kmer_name(feature_id: int, shift: int) -> str:
    """The k-mer of an id; with a `shift` other than 0, the k-mer and its position in the row.

    >>> kmer_name(0b1_00_01_10_11, shift=0)
    'ACGT'
    >>> kmer_name(17 << 9 | 0b1_00_01_10_11, shift=9)
    'ACGT@17'
    """
    position, code = divmod(feature_id, 1 << shift) if shift else (0, feature_id)
    length, odd = divmod(code.bit_length() - 1, 2)
    if not 0 <= feature_id < 1 << 63 or odd or not 1 <= length <= LONGEST_KMER:
        raise ValueError(f"{feature_id} is not the id of a k-mer")
    kmer = "".join(BASES[code >> 2 * i & 3] for i in reversed(range(length)))
    return f"{kmer}@{position}" if shift else kmer


def kmer_id(name: str, shift: int) -> int:
    """The id of a name that `kmer_name` gives.

    >>> kmer_id("ACGT", shift=0)
    283
    >>> kmer_id("ACGT@17", shift=9) == 17 << 9 | 283
    True
    """
    kmer, at, position = name.partition("@")
    code = 1
    for base in kmer:
        code = code << 2 | _code_of(base, name)
    fits = 1 <= len(kmer) <= LONGEST_KMER and (not shift or position_shift(len(kmer)) <= shift)
    if not fits or bool(at) != bool(shift) or (at and not _is_number(position)):
        raise ValueError(f"{name!r} is not the name of a k-mer{' at a position' if shift else ''}")
    feature_id = int(position) << shift | code if at else code
    if feature_id >= 1 << 63:
        raise ValueError(f"{name!r}: the position is too large")
    return feature_id


def _code_of(base: str, name: str) -> int:
    code = BASES.find(base)
    if code < 0:
        raise ValueError(f"{name!r} is not a k-mer: {base!r} is none of {BASES}")
    return code


def _is_number(text: str) -> bool:
    """Digits, and no leading zero: a k-mer at a position has one name."""
    return text.isascii() and text.isdigit() and (text == "0" or text[0] != "0")
