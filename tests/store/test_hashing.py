"""The hash of names is xxHash64, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from daskfs.store.hashing_kernels import id_of_name, xxh64

pytestmark = pytest.mark.kernels


@given(st.binary(max_size=200))
def test_equals_the_reference_implementation(data):
    text = np.frombuffer(b"__" + data + b"__", np.uint8)
    assert int(xxh64(text, 2, 2 + len(data))) == xxhash.xxh64_intdigest(data)


@given(st.text(max_size=40))
def test_ids_of_names_fit_63_bits(name):
    assert id_of_name(name) == xxhash.xxh64_intdigest(name.encode()) & (2**63 - 1)
