"""Our chunk files are Zarr's chunk files: each side reads what the other wrote."""

from __future__ import annotations

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, TransposeCodec

from daskfs.store.dataset.codec import (
    Codec,
    DamagedChunk,
    append_crc,
    decode_strings,
    decode_strings_at,
    encode_strings,
)
from daskfs.store.dataset.layout import STRING, ArraySpec

CODECS = [Codec(compression, contiguous) for compression in ("none", "lz4", "zstd") for contiguous in (False, True)]
DTYPES = ["float32", "float64", "uint64", "int64"]


def zarr_array(path, spec: ArraySpec, codec: Codec) -> zarr.Array:
    blosc = [] if codec.compression == "none" else [BloscCodec(cname=codec.compression, clevel=1, shuffle="shuffle")]
    return zarr.create_array(
        path,
        shape=spec.shape,
        chunks=spec.chunks,
        dtype=spec.dtype,
        filters=[TransposeCodec(order=(1, 0))] if codec.columns_contiguous else [],
        compressors=[*blosc, Crc32cCodec()],
        fill_value=0,
    )


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_we_read_what_zarr_writes(tmp_path, codec, dtype):
    cells = np.random.default_rng(0).integers(0, 1000, (40, 30)).astype(dtype)
    spec = ArraySpec("x", cells.shape, cells.shape, np.dtype(dtype), ("a", "b"), codec)
    zarr_array(tmp_path / "x", spec, codec)[:] = cells
    out = np.empty(cells.shape[::-1] if codec.columns_contiguous else cells.shape, dtype)
    codec.decode((tmp_path / "x/c/0/0").read_bytes(), out)
    np.testing.assert_array_equal(out.T if codec.columns_contiguous else out, cells)


@pytest.mark.parametrize("codec", CODECS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_zarr_reads_what_we_write(tmp_path, codec, dtype):
    cells = np.random.default_rng(1).integers(0, 1000, (40, 30)).astype(dtype)
    spec = ArraySpec("x", cells.shape, cells.shape, np.dtype(dtype), ("a", "b"), codec)
    array = zarr_array(tmp_path / "x", spec, codec)
    (tmp_path / "x/c/0").mkdir(parents=True)
    (tmp_path / "x/c/0/0").write_bytes(codec.encode(cells))
    np.testing.assert_array_equal(array[:], cells)


def test_metadata_is_what_zarr_understands(tmp_path):
    for codec in CODECS:
        spec = ArraySpec("x", (4, 3), (2, 3), np.dtype("float32"), ("a", "b"), codec)
        assert ArraySpec.from_metadata("x", spec.metadata()) == spec


def test_strings_of_any_script_survive():
    names = np.array(["", "a", "ß", "特徴", "x" * 5000], object)
    assert decode_strings(encode_strings(names), 5).tolist() == names.tolist()
    assert ArraySpec("n", (5,), (5,), STRING, ("name",)).is_text


STRINGS = {"none": [], "one": ["a"], "empty": ["", "", ""], "any": ["", "ä€😀", "x" * 5000, "", "last"]}


@pytest.mark.kernels
@pytest.mark.parametrize("strings", STRINGS.values(), ids=STRINGS.keys())
def test_some_strings_are_those_of_all(strings):
    file = encode_strings(np.array(strings, object))
    positions = np.arange(len(strings))[::-1]
    assert decode_strings_at(file, len(strings), positions) == strings[::-1]
    assert decode_strings_at(file, len(strings), positions[:1]) == strings[-1:]


@pytest.mark.kernels
@pytest.mark.parametrize("count", [1, 3, 2**32 - 1])
@pytest.mark.parametrize("cut", [1, 4, 9])
def test_strings_that_do_not_fit_their_chunk_are_damage(count, cut):
    body = encode_strings(np.array(["ab", "cde"], object))[:-4]
    for wrong in (body[:-cut], np.uint32(count).tobytes() + body[4:], body[:4] + b"\xff" * 4 + body[8:]):
        with pytest.raises(DamagedChunk):
            decode_strings_at(append_crc(wrong), 2, np.zeros(1, np.int64))
        with pytest.raises(DamagedChunk):
            decode_strings(append_crc(wrong), 2)


@pytest.mark.parametrize("codec", [Codec("none"), Codec("lz4"), Codec("zstd")], ids=str)
def test_f14_every_flipped_bit_and_every_cut_is_noticed(codec):
    cells = np.arange(200, dtype=np.float32).reshape(10, 20)
    file, out = codec.encode(cells), np.empty_like(cells)
    for at in range(len(file)):
        flipped = bytearray(file)
        flipped[at] ^= 1 << at % 8
        with pytest.raises(DamagedChunk):
            codec.decode(bytes(flipped), out)
        with pytest.raises(DamagedChunk):
            codec.decode(file[:at], out)
