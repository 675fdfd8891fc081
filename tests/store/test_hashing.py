"""The hash of names is xxHash64, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from daskfs.store.dataset.hashing_kernels import id_of_name, xxh64

pytestmark = pytest.mark.kernels


@given(st.binary(max_size=200))
def test_equals_the_reference_implementation(data):
    text = np.frombuffer(b"__" + data + b"__", np.uint8)
    assert int(xxh64(text, 2, 2 + len(data))) == xxhash.xxh64_intdigest(data)


@pytest.mark.parametrize("offset", [0, 3])
def test_every_length(offset):
    data = np.random.default_rng(0).integers(0, 256, 110, dtype=np.uint8)
    for length in range(101):
        expected = xxhash.xxh64_intdigest(data[offset : offset + length].tobytes())
        assert int(xxh64(data, offset, offset + length)) == expected
        assert int(xxh64(data[offset : offset + length].copy(), 0, length)) == expected  # not a byte behind it


@given(st.text(max_size=40))
def test_ids_of_names_fit_63_bits(name):
    assert id_of_name(name) == xxhash.xxh64_intdigest(name.encode()) & (2**63 - 1)
