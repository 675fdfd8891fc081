"""Chunk files that are read without Zarr hold what Zarr reads, bit for bit; what cannot be read so is left to Zarr."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import Delta
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec
from zarr.storage import FsspecStore, LocalStore, MemoryStore, WrapperStore

from daskfs.errors import ChunkError
from daskfs.store import chunk_files
from daskfs.store.chunk_files import ChunkFiles
from daskfs.store.foreign_zarr import ForeignStore
from daskfs.store.places.location import Location

DTYPES = ["bool", "int8", "uint16", "int64", "float16", "float32", "float64"]


def create(store, cells, chunks, *, zarr_format=3, order="C", byte_order="<", compression=None, fill_value=0):
    """A Zarr array with some cells; chunks in which all cells have the fill value are not written."""
    options = {"shape": cells.shape, "chunks": chunks, "fill_value": fill_value, "zarr_format": zarr_format}
    if zarr_format == 2:
        codecs = {
            "zstd": {"id": "zstd", "level": 1},
            "blosc": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1},
        }
        dtype = cells.dtype.newbyteorder(byte_order)
        array = zarr.create_array(
            store, dtype=dtype, order=order, compressors=codecs.get(compression), filters=None, **options
        )
    else:
        codecs = {"zstd": ZstdCodec(level=1), "blosc": BloscCodec(cname="lz4")}
        big = None if cells.dtype.itemsize == 1 else "big" if byte_order == ">" else "little"
        array = zarr.create_array(
            store, dtype=cells.dtype, serializer=BytesCodec(endian=big), compressors=codecs.get(compression), **options
        )
    array[:] = cells
    return array


def read(files: ChunkFiles, rows: slice, columns: slice) -> np.ndarray:
    """Read rows and columns by tiles, of which every cell is in exactly one."""
    times = np.zeros(files.array.shape, int)
    for some, others, cells in files.tiles(rows, columns):
        assert times[some, others].shape == cells.shape
        times[some, others] += 1
    assert (times[rows, columns] == 1).all()
    assert times.sum() == times[rows, columns].size
    return files.read(rows, columns)


def pieces(size: int):
    return st.tuples(st.integers(0, size - 1), st.integers(1, size)).map(lambda pair: slice(min(pair), max(pair)))


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_the_same_bits_as_zarr(data):
    draw = data.draw
    shape = draw(st.tuples(st.integers(1, 20), st.integers(1, 20)), "shape")
    chunks = draw(st.tuples(st.integers(1, 22), st.integers(1, 22)), "chunks")
    dtype = np.dtype(draw(st.sampled_from(DTYPES), "dtype"))
    rng = np.random.default_rng(draw(st.integers(0, 99), "seed"))
    cells = rng.integers(0, 2 if dtype.kind == "b" else 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[:, :, 0]
    fill_value = draw(st.sampled_from([0, 1] if dtype.kind != "f" else [0, 1.5, np.nan, np.inf]), "fill value")
    zarr_format = draw(st.sampled_from([2, 3]), "format")
    if zarr_format == 2 and draw(st.booleans(), "no fill value"):
        fill_value = None
    bands = draw(st.sampled_from([(1, 1), (64, 3), (1 << 18, 32)]), "bytes and lines of a band")
    rows, columns = (draw(pieces(size)) for size in shape)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_files, "_BAND_BYTES", bands[0])
        patch.setattr(chunk_files, "_BAND_LINES", bands[1])
        array = create(
            Path(folder) / "a.zarr",
            cells,
            chunks,
            zarr_format=zarr_format,
            order=draw(st.sampled_from("CF"), "order"),
            byte_order=draw(st.sampled_from("<>"), "byte order"),
            compression=draw(st.sampled_from([None, "zstd", "blosc"]), "compression"),
            fill_value=fill_value,
        )
        written = [path for path in Path(folder).rglob("*") if path.is_file() and path.name[0] in "0123456789"]
        for path in draw(st.lists(st.sampled_from(written), unique=True), "missing") if written else []:
            path.unlink()
        files = ChunkFiles.of(array)
        assert files is not None
        with np.errstate(all="ignore"):
            expected = array[rows, columns]
        found = read(files, rows, columns)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


def cells(dtype="float32") -> np.ndarray:
    return np.arange(1, 121).reshape(10, 12).astype(dtype)


def plain(store, **options):
    array = zarr.create_array(store, shape=(10, 12), chunks=(5, 4), dtype="float32", **options)
    array[:] = cells()
    return array


class Mirrored(LocalStore):
    """A store that is derived from a local store, and reads in another way."""


@pytest.mark.parametrize(
    "make",
    [
        lambda path: plain(path, shards=(10, 12)),
        lambda path: plain(path, compressors=GzipCodec()),
        lambda path: plain(path, compressors=[ZstdCodec(), Crc32cCodec()]),
        lambda path: plain(path, compressors=None, filters=TransposeCodec(order=(1, 0))),
        lambda path: plain(path, zarr_format=2, filters=[Delta(dtype="<f4")], compressors=None),
        lambda path: plain(path, zarr_format=2, compressors={"id": "zlib", "level": 1}),
        lambda path: plain(Mirrored(path)),
        lambda path: plain(WrapperStore(LocalStore(path))),
        lambda path: plain(MemoryStore()),
        lambda path: plain(FsspecStore.from_url("memory://chunk-files")),
        lambda path: zarr.open_array(Location(plain(path).store.root).zarr_store(), mode="r"),
        lambda path: cells(),
    ],
    ids=[
        "shards",
        "gzip",
        "crc",
        "transposed",
        "delta",
        "zlib",
        "derived",
        "wrapped",
        "memory",
        "fsspec",
        "strict",
        "numpy",
    ],
)
def test_all_else_is_left_to_zarr(make, tmp_path):
    assert ChunkFiles.of(make(tmp_path / "a.zarr")) is None


def test_stores_of_a_location(tmp_path):
    plain(tmp_path / "g.zarr" / "X")
    near = Location(tmp_path / "g.zarr" / "X")
    files = ChunkFiles.of(zarr.open_array(ForeignStore(near), mode="r"))
    assert files is not None
    np.testing.assert_array_equal(read(files, slice(0, 10), slice(0, 12)), cells())
    shutil.copytree(tmp_path / "g.zarr", tmp_path / "h.zarr")
    zarr.open_group(tmp_path / "h.zarr", mode="a")
    group = zarr.open_group(ForeignStore(Location(tmp_path / "h.zarr")), mode="r")
    files = ChunkFiles.of(group["X"])
    assert files is not None
    np.testing.assert_array_equal(read(files, slice(2, 9), slice(3, 12)), cells()[2:9, 3:12])


CHUNK = Path("c", "1", "2")


@pytest.mark.parametrize("size", [0, 7, 79, 81])
def test_a_chunk_file_of_a_wrong_size(size, tmp_path):
    files = ChunkFiles.of(create(tmp_path / "a.zarr", cells(), (5, 4)))
    (tmp_path / "a.zarr" / CHUNK).write_bytes(bytes(size))
    check_error(files, f"{size} bytes where 80 belong")


@pytest.mark.parametrize("compression", ["zstd", "blosc"])
def test_a_compressed_chunk_of_a_wrong_size(compression, tmp_path):
    files = ChunkFiles.of(create(tmp_path / "a.zarr", cells(), (5, 4), compression=compression))
    create(tmp_path / "b.zarr", cells()[:, :9], (5, 3), compression=compression)
    shutil.copy(tmp_path / "b.zarr" / CHUNK, tmp_path / "a.zarr" / CHUNK)
    check_error(files, "60 bytes where 80 belong")


@pytest.mark.parametrize(
    ("compression", "size", "reason"),
    [(name, size, "cannot be unpacked: ") for name in ("zstd", "blosc") for size in (0, 7)]
    + [("zstd", 20, "cannot be unpacked: "), ("zstd", -1, "cannot be unpacked: ")]
    + [("blosc", 20, "cut short to 20 bytes"), ("blosc", -1, "cut short to ")],
)
def test_a_compressed_chunk_file_that_was_cut(compression, size, reason, tmp_path):
    files = ChunkFiles.of(create(tmp_path / "a.zarr", cells(), (5, 4), compression=compression))
    chunk = tmp_path / "a.zarr" / CHUNK
    chunk.write_bytes(chunk.read_bytes()[:size])
    check_error(files, reason)


def check_error(files: ChunkFiles, reason: str) -> None:
    with pytest.raises(ChunkError) as error:
        read(files, slice(0, 10), slice(0, 12))
    assert str(error.value).startswith(f"{files.location.path}: chunk c/1/2: {reason}")
    np.testing.assert_array_equal(read(files, slice(0, 5), slice(0, 12)), cells()[:5])  # the others are sound


def test_a_file_that_is_cut_while_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(chunk_files, "_BAND_BYTES", 1)
    monkeypatch.setattr(chunk_files, "_BAND_LINES", 2)
    files = ChunkFiles.of(create(tmp_path / "a.zarr", cells(), (10, 12)))
    tiles = files.tiles(slice(0, 10), slice(0, 12))
    next(tiles)
    with open(tmp_path / "a.zarr" / "c" / "0" / "0", "r+b") as file:
        file.truncate(200)
    with pytest.raises(ChunkError, match=r"chunk c/0/0: cut short"):
        list(tiles)


def test_a_file_that_cannot_be_read(tmp_path):
    files = ChunkFiles.of(create(tmp_path / "a.zarr", cells(), (10, 12)))
    chunk = tmp_path / "a.zarr" / "c" / "0" / "0"
    chunk.unlink()
    chunk.symlink_to(chunk)
    with pytest.raises(ChunkError, match=r"chunk c/0/0: cannot be read: .*symbolic links"):
        read(files, slice(0, 10), slice(0, 12))


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_memory_beside_the_block(compression, tmp_path):
    files = ChunkFiles.of(
        create(tmp_path / "a.zarr", np.zeros((4000, 500), "f4"), (4000, 500), compression=compression)
    )
    assert files.working_nbytes == (131 * 2000 if compression is None else 2 * 8_000_000)
