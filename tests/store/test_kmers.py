"""k-mers and their ids: one to one, and nothing else passes for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.store.dataset.names import BASES, kmer_name, position_shift


def kmer_id(name: str, shift: int) -> int:
    """The id of a k-mer's name, the other way round."""
    kmer, at, position = name.partition("@")
    code = 1
    for base in kmer:
        code = code << 2 | BASES.index(base)
    return int(position) << shift | code if at else code


kmers = st.text(alphabet="ACGT", min_size=1, max_size=31)


@pytest.mark.parametrize(
    ("name", "shift", "feature_id"),
    [
        ("A", 0, 0b1_00),
        ("T", 0, 0b1_11),
        ("AC", 0, 0b1_00_01),
        ("GATTACA", 0, 0b1_10_00_11_11_00_01_00),
        ("T" * 31, 0, 2**63 - 1),
        ("AC@0", 5, 0b1_00_01),
        ("AC@3", 5, 0b11_1_00_01),
        ("A@3", 5, 0b11_001_00),
        ("T" * 31 + "@0", 63, 2**63 - 1),
    ],
)
def test_an_id_is_a_one_and_two_bits_a_base(name: str, shift: int, feature_id: int) -> None:
    assert kmer_id(name, shift) == feature_id
    assert kmer_name(feature_id, shift) == name


@given(kmers)
def test_names_come_back(kmer: str) -> None:
    assert kmer_name(kmer_id(kmer, 0), 0) == kmer


@given(kmers, st.data())
def test_names_with_a_position_come_back(kmer: str, data: st.DataObject) -> None:
    shift = position_shift(data.draw(st.integers(len(kmer), 31)))
    position = data.draw(st.integers(0, 2 ** (63 - shift) - 1))
    name = f"{kmer}@{position}"
    assert kmer_name(kmer_id(name, shift), shift) == name


@given(st.integers(-(2**64), 2**64), st.sampled_from([0, 3, 25, 63]))
def test_an_id_has_no_name_or_the_one_that_leads_back_to_it(feature_id: int, shift: int) -> None:
    try:
        name = kmer_name(feature_id, shift)
    except ValueError:
        return
    assert kmer_id(name, shift) == feature_id


@pytest.mark.parametrize(("feature_id", "shift"), [(0, 0), (1, 0), (0b10, 0), (-4, 0), (2**63, 0), (2**65, 0)])
def test_numbers_that_are_no_kmer(feature_id: int, shift: int) -> None:
    with pytest.raises(ValueError, match="is not the id of a k-mer"):
        kmer_name(feature_id, shift)


@pytest.mark.parametrize("feature_id", [17 << 9, 17 << 9 | 1, 17 << 9 | 0b10, 2**63 | 0b100])
def test_numbers_that_are_no_kmer_at_a_position(feature_id: int) -> None:
    with pytest.raises(ValueError, match="is not the id of a k-mer"):
        kmer_name(feature_id, 9)
