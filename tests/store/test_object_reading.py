"""Reading from object storage: each object once, in any order of arrival; sources in ranges; conditional writes."""

from __future__ import annotations

import io
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from flaky_proxy import FlakyProxy, flaky_proxy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import daskfs
from daskfs.engine.memory import MemoryPlan
from daskfs.engine.run import memory_plan
from daskfs.errors import SourceError
from daskfs.store.ingest import object_sources
from daskfs.store.ingest.object_sources import ObjectFile
from daskfs.store.ingest.sources import find_sources
from daskfs.store.places.location import Location
from daskfs.store.places.read_ahead import Prefetcher

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 30)).astype(np.float32)
SPARSE = sp.random_array((400, 60), density=0.2, rng=RNG, dtype=np.float32).tocsr()
Y = (X[:, 3] > X[:, 8]).astype(int)


@pytest.fixture
def proxy(s3):
    with flaky_proxy(s3.endpoint) as running:
        yield running


def chunks_read(proxy: FlakyProxy) -> Counter[str]:
    paths = (request.path for request in proxy.requests if request.method == "GET")
    return Counter(path.split(".zarr/")[1] for path in paths if "/c/" in path and ".zarr/" in path)


@pytest.mark.parametrize("axis", ["columns", "rows"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_pass_reads_every_object_once(s3, proxy, monkeypatch, kind, axis, compression):
    monkeypatch.setattr("daskfs.store.ingest.arrays.BLOCK_ENTRIES", 500)
    url, matrix = s3.url("d.zarr"), X if kind == "dense" else SPARSE
    options = {"chunk_bytes": 4000, "compression": compression, "storage_options": s3.options}
    daskfs.write_dataset(url, matrix, Y, layout=axis if kind == "dense" else "columns", **options)
    if (kind, axis) == ("sparse", "columns"):
        rows, url = url, s3.url("columns.zarr")
        daskfs.transpose(rows, url, block_entries=500, storage_options=s3.options)
    ds = daskfs.open_dataset(url, {**s3.options, "client_kwargs": {"endpoint_url": proxy.endpoint}})
    algorithm = daskfs.OnlineSubstitution(3) if axis == "columns" else daskfs.Mission(3)
    seen = [block.nbytes for block in ds.blocks(axis=algorithm.axis)]
    found = chunks_read(proxy)
    assert len(seen) > 5
    assert len(found) > 5
    assert set(found.values()) == {1}, found
    names = {name.split("/")[0] for name in found}
    assert names >= ({"X", "y"} if kind == "dense" else {"indptr", "values", "y"})


@pytest.mark.parametrize(
    "algorithm", [daskfs.OnlineSubstitution(3, passes=1, ridge=0.1), daskfs.Mission(3, passes=1, refit=0)]
)
def test_a_selection_of_one_pass_reads_the_data_once(s3, proxy, algorithm):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, Y, layout=algorithm.axis, chunk_bytes=4000, storage_options=s3.options)
    through = {**s3.options, "client_kwargs": {"endpoint_url": proxy.endpoint}}
    seen = []
    daskfs.select(url, algorithm, storage_options=through, progress=lambda now: seen.append(chunks_read(proxy)))
    in_the_pass = Counter({name: count for name, count in seen[-1].items() if name.startswith("X/")})
    assert len(in_the_pass) > 5
    assert set(in_the_pass.values()) == {1}


def test_the_memory_plan_counts_what_is_read_ahead(s3, tmp_path):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, Y, chunk_bytes=4000, storage_options=s3.options)
    daskfs.write_dataset(tmp_path / "d.zarr", X, Y, chunk_bytes=4000)
    far, near = daskfs.open_dataset(url, s3.options), daskfs.open_dataset(tmp_path / "d.zarr")
    algorithm = daskfs.OnlineSubstitution(3)
    block = far.meta.block_nbytes
    assert memory_plan(near, algorithm) == MemoryPlan.of(algorithm, near.meta)
    assert memory_plan(far, algorithm).blocks == (far.ahead + 1) * block > memory_plan(near, algorithm).blocks


def test_threads_read_at_the_same_time_and_items_come_in_order():
    together = threading.Barrier(4, timeout=100)

    def read(number: int, buffer: None) -> int:
        together.wait()  # nobody goes on until four are here
        return number

    assert list(Prefetcher(read, range(16), lambda: None, ahead=4, threads=4)) == list(range(16))


TEXT = RNG.bytes(5000)


@pytest.fixture(scope="module")
def five_thousand_bytes(s3) -> Location:
    place = Location(s3.url("folder"), s3.options)
    place.write("x", TEXT)
    return place.below("x")


@given(st.lists(st.tuples(st.integers(0, 5100), st.integers(1, 2500)), max_size=6), st.integers(0, 6000))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_object_is_a_file(five_thousand_bytes, monkeypatch, reads, stop):
    monkeypatch.setattr(object_sources, "PIECE_BYTES", 700)
    with io.BufferedReader(ObjectFile(five_thousand_bytes, len(TEXT), stop), 64) as file:
        for start, length in reads:
            assert file.seek(start) == file.tell() == start
            assert file.read(length) == TEXT[start : start + length]
        file.seek(-10, io.SEEK_END)
        assert file.read() == TEXT[-10:]
        file.seek(0)
        assert file.read() == TEXT


def test_ranges_of_a_source_are_read_once(s3, proxy, monkeypatch, tmp_path):
    lines = b"".join(b"%d %d:1 %d:2\n" % (i % 2, i % 50, 60 + i % 40) for i in range(3000))
    monkeypatch.setattr("daskfs.store.ingest.plan.PART_BYTES", 10_000)
    monkeypatch.setattr(object_sources, "PIECE_BYTES", 3000)
    source = s3.url("x.svm")
    Location(source.removesuffix("/x.svm"), s3.options).write("x.svm", lines)
    (tmp_path / "x.svm").write_bytes(lines)
    through = {**s3.options, "client_kwargs": {"endpoint_url": proxy.endpoint}}
    far = daskfs.ingest(source, tmp_path / "far.zarr", "svmlight", source_options=through, workers=2)
    near = daskfs.ingest(tmp_path / "x.svm", tmp_path / "near.zarr", "svmlight", workers=2)
    assert far.digest == near.digest
    sent = [request for request in proxy.requests if request.method == "GET" and request.path.endswith("x.svm")]
    assert len(sent) > 5
    assert all("range" in request.headers for request in sent)


def test_parquet_from_s3(s3, tmp_path):
    table = pyarrow.table({"a": np.arange(5000.0), "b": RNG.normal(size=5000), "y": np.arange(5000) % 2})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet", row_group_size=700)
    source = s3.url("x.parquet")
    Location(source.removesuffix("/x.parquet"), s3.options).write("x.parquet", (tmp_path / "x.parquet").read_bytes())
    far = daskfs.ingest(source, tmp_path / "far.zarr", "parquet", label="y", source_options=s3.options)
    near = daskfs.ingest(tmp_path / "x.parquet", tmp_path / "near.zarr", "parquet", label="y")
    assert far.digest == near.digest


def test_which_objects_a_pattern_names(s3):
    base = Location(s3.url("in")[:-1], s3.options)
    names = ["a.svm", "b.svm", "deep/c.svm", "deep/.hidden/d.svm", "deep/e.txt", ".f.svm", "odd [1].svm"]
    for name in names:
        base.write(name, b"1 1:1\n")

    def found(pattern: str) -> list[str]:
        sources = find_sources([f"{base.url}/{pattern}"], s3.options)
        assert all(source.size == 6 for source in sources)
        return [source.url.removeprefix(f"{base.url}/") for source in sources]

    assert found("a.svm") == ["a.svm"]
    assert found("?.svm") == ["a.svm", "b.svm"]
    assert found("deep") == found("deep/") == ["deep/c.svm", "deep/e.txt"]
    assert found("d*") == ["deep/c.svm", "deep/e.txt"]
    assert found("deep/*.svm") == ["deep/c.svm"]
    assert found("odd [1].svm") == ["odd [1].svm"]
    assert found("") == ["a.svm", "b.svm", "deep/c.svm", "deep/e.txt", "odd [1].svm"]
    for nothing in ("z.svm", "z*", "deep/z"):
        with pytest.raises(SourceError, match=r"no such file|no file matches"):
            found(nothing)


@pytest.fixture(params=["local", "s3"])
def place(request, tmp_path: Path) -> Location:
    if request.param == "local":
        return Location(tmp_path / "d")
    s3 = request.getfixturevalue("s3")
    return Location(s3.url("d"), s3.options)


def test_parts_of_any_shape(place):
    numbers = np.arange(12, dtype=np.uint32).reshape(3, 4)
    place.write("one", numbers.data)
    place.write("two", b"x", numbers.data, np.empty(0).data)
    assert place.read("one") == numbers.tobytes()
    assert place.read("two") == b"x" + numbers.tobytes()


def test_conditional_writes(place):
    assert not place.replace_if("pointer", b"1", b"0")
    assert place.create("pointer", b"1")
    assert not place.create("pointer", b"2")
    assert not place.replace_if("pointer", b"2", b"0")
    with place.one_writer():
        assert place.replace_if("pointer", b"2", b"1")
    assert place.read("pointer") == b"2"
    assert place.members() == ["pointer"]


def test_of_many_who_change_a_pointer_each_counts(place):
    place.create("count", b"0")

    def increase() -> None:
        for _ in range(5):
            while not place.replace_if("count", str(int(now := place.read("count")) + 1).encode(), now):
                pass

    threads = [threading.Thread(target=increase) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert place.read("count") == b"20"
