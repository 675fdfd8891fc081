"""The container of arrays and scalars: what goes in comes out, and nothing else does."""

from __future__ import annotations

import json
import tracemalloc

import google_crc32c
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, scalar_dtypes

from daskfs.store.dataset.container import DamagedContainer, read_container, write_container
from daskfs.store.places.location import Location

VALUES = {
    "floats": np.linspace(0, 1, 7),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "view": np.arange(20)[::3],
    "empty": np.empty((0, 5), np.float32),
    "nothing": np.array(2.5),
    "flags": np.array([True, False]),
    "big endian": np.arange(3, dtype=">i4"),
    "text": np.array(["a", "größer"]),
    "numpy scalar": np.float32(0.1),
    "int": 2**70,
    "float": 0.1,
    "nan": float("nan"),
    "minus infinity": float("-inf"),
    "bool": True,
    "str": "a ≠ b\n",
}


def round_trip(tmp_path, values, about=None):
    location = Location(tmp_path)
    write_container(location, "x", about or {}, values)
    return read_container(location, "x")


def check_equal(given, expected):
    assert type(given) is type(expected)
    if isinstance(expected, np.ndarray | np.generic):
        assert (given.dtype, given.shape) == (expected.dtype, expected.shape)
        assert given.tobytes() == expected.tobytes()
    else:
        assert repr(given) == repr(expected)


def test_values_keep_type_and_bits(tmp_path):
    about, values = round_trip(tmp_path, VALUES, {"seed": 3, "fields": ["a", None]})
    assert about == {"seed": 3, "fields": ["a", None]}
    assert list(values) == list(VALUES)
    for name, expected in VALUES.items():
        check_equal(values[name], expected)


def test_arrays_keep_their_order_in_memory_and_can_be_changed(tmp_path):
    """BLAS may round differently for the other order, and a run goes on with what it reads here."""
    _, values = round_trip(tmp_path, VALUES)
    assert values["fortran"].flags.f_contiguous
    assert not values["fortran"].flags.c_contiguous
    assert values["floats"].flags.c_contiguous
    values["fortran"][:] = 0


@given(st.dictionaries(st.text(max_size=5), arrays(scalar_dtypes(), array_shapes(min_side=0)), max_size=3))
def test_any_plain_array(tmp_path_factory, values):
    plain = {name: array for name, array in values.items() if array.dtype.kind in "biuf"}
    _, read = round_trip(tmp_path_factory.mktemp("container"), plain)
    assert list(read) == list(plain)
    for name, expected in plain.items():
        check_equal(read[name], expected)


@pytest.mark.parametrize(
    "value",
    [[1, 2], None, {"a": 1}, np.array([None]), np.array([1j]), np.zeros(2, "M8[s]"), np.zeros(1, "i4,f8"), b"x"],
    ids=repr,
)
def test_what_cannot_be_stored_is_named(tmp_path, value):
    with pytest.raises(TypeError, match="'odd' is a"):
        round_trip(tmp_path, {"odd": value})
    assert list(tmp_path.iterdir()) == []


def test_memory_is_that_of_the_arrays(tmp_path):
    values, location = {"a": np.ones(8 << 20), "b": np.ones((64, 1 << 12), order="F")}, Location(tmp_path)
    size = sum(array.nbytes for array in values.values())
    tracemalloc.start()
    write_container(location, "x", {}, values)
    written = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    read_container(location, "x")
    read = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert written < 1 << 20
    assert read < size + (24 << 20)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_container(Location(tmp_path), "x")


def small_file(tmp_path) -> bytes:
    write_container(Location(tmp_path), "x", {"seed": 1}, {"a": np.arange(3.0), "n": 5})
    return (tmp_path / "x").read_bytes()


def refused(tmp_path, data: bytes) -> str:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(DamagedContainer) as caught:
        read_container(Location(tmp_path), "x")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_cut_is_noticed(tmp_path):
    file = small_file(tmp_path)
    for length in range(len(file)):
        refused(tmp_path, file[:length])
    refused(tmp_path, file + b"\0")


def test_every_changed_byte_is_noticed(tmp_path):
    file = small_file(tmp_path)
    for position in range(len(file)):
        for bit in (0, 3, 7):
            refused(tmp_path, file[:position] + bytes([file[position] ^ 1 << bit]) + file[position + 1 :])


def forged(header: bytes, body: bytes = b"") -> bytes:
    """A file that is what its maker wants, with a checksum that is right."""
    data = b"daskfs record 1 " + f"{len(header):08x}\n".encode() + header + body
    return data + google_crc32c.value(data).to_bytes(4, "little")


def forged_array(**described) -> bytes:
    return forged(json.dumps({"about": {}, "values": {"a": described}}).encode(), bytes(8))


HOSTILE = {
    "huge shape": forged_array(array="<f8", shape=[1 << 40]),
    "huge product": forged_array(array="<f8", shape=[1 << 31, 1 << 31, 1 << 31]),
    "huge beside zero": forged_array(array="<f8", shape=[0, 1 << 62]),
    "negative shape": forged_array(array="<f8", shape=[-1, -1]),
    "shape of floats": forged_array(array="<f8", shape=[1.0]),
    "shape of true": forged_array(array="<f8", shape=[True]),
    "many sides": forged_array(array="<f8", shape=[1] * 1000),
    "objects": forged_array(array="|O", shape=[1]),
    "records": forged_array(array="f8,O", shape=[1]),
    "void": forged_array(array="|V8", shape=[1]),
    "strings without length": forged_array(array="<U0", shape=[1 << 40]),
    "long strings": forged_array(array="<U999999999", shape=[1]),
    "no such dtype": forged_array(array="<f7", shape=[1]),
    "dtype of a list": forged_array(array=["<f8"], shape=[1]),
    "two kinds": forged_array(array="<f8", scalar="<f8", shape=[1]),
    "pickle": forged_array(pickle="gASV", shape=[1]),
    "unknown scalar": forged_array(bytes="AA"),
    "int that is text": forged_array(int="5"),
    "float that is a list": forged_array(float=[1]),
    "no values": forged(b'{"about": {}}'),
    "values in a list": forged(b'{"about": {}, "values": [1]}'),
    "facts in a list": forged(b'{"about": [], "values": {}}'),
    "cut JSON": forged(b'{"about": {}, "values": {"a"'),
    "no JSON": forged(b"\x80\x04\x95"),
    "deep JSON": forged(b"[" * 200_000),
    "wide JSON": forged(b"[" + b"[]," * 300_000 + b"[]]"),
    "long JSON": forged(b'"' + b"x" * (2 << 20) + b'"'),
    "huge number": forged(b'{"about": {}, "values": {"a": {"int": 1' + b"0" * 9000 + b"}}}"),
    "header beyond the file": b"daskfs record 1 ffffffff\n{}",
    "another version": b"daskfs record 2 00000002\n{}",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_f25_a_forged_file_is_refused_before_it_takes_memory(tmp_path, data):
    tracemalloc.start()
    refused(tmp_path, data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


def test_a_header_that_could_not_be_read_again_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="belongs into arrays"):
        write_container(Location(tmp_path), "x", {}, {"text": "x" * (2 << 20)})
