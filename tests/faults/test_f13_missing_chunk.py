"""F13: a chunk that is missing is an error that names it, on every kind of store; never zeros."""

from __future__ import annotations

from collections.abc import Callable

import fsspec
import pytest
from faults.reading import read_everything
from faults.samples import ARRAYS, MAKERS
from pairwise import in_turn

import daskfs
from daskfs.errors import ChunkError
from daskfs.store.dataset.reader import ArrayReader, manifest_spec

CASES = [
    pytest.param(kind, array, id=f"{kind}-{array}")
    for kind, arrays in ARRAYS.items()
    for name in arrays
    for array in (name, f"manifest/{name.replace('/', '.')}")
]
PLACES = {"local": (0, -1), "zarr": (0, -1), "memory": (0, -1), "s3": (-1,)}
"""A local folder (the direct path), the same read through Zarr, two stores behind fsspec; and which chunks to lose."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Each sample, once, in a local folder."""
    folder = tmp_path_factory.mktemp("made")
    for kind, make in MAKERS.items():
        make(folder / kind)
    return folder


@pytest.fixture(scope="module")
def placed(made, request) -> Callable[[str, str], tuple[str, dict]]:
    """Where a sample lies in a kind of store: a copy that is made once, and put right again by each test."""
    places: dict[tuple[str, str], tuple[str, dict]] = {}

    def place(store: str, kind: str) -> tuple[str, dict]:
        if store in ("local", "zarr"):
            return str(made / kind), {}
        if (store, kind) not in places:
            s3 = request.getfixturevalue("s3") if store == "s3" else None
            url, options = (s3.url(kind), s3.options) if s3 else (f"memory://f13/{kind}", {})
            fs, path = fsspec.core.url_to_fs(url, **options)
            fs.put(f"{made / kind}/", path, recursive=True)
            places[store, kind] = url, options
        return places[store, kind]

    return place


@pytest.fixture
def open_in(placed, monkeypatch) -> Callable[[str, str], daskfs.Dataset]:
    def open_in(store: str, kind: str) -> daskfs.Dataset:
        direct = store != "zarr"
        monkeypatch.setattr(
            daskfs.Dataset,
            "_reader",
            lambda self, name: ArrayReader(self.location, self.arrays[name], direct=direct),
        )
        return daskfs.open_dataset(*placed(store, kind))

    return open_in


@pytest.mark.parametrize("kind", ARRAYS)
def test_f13_the_samples_have_every_array_in_several_chunks(open_in, kind):
    ds = open_in("local", kind)
    assert set(ds.content) == set(ARRAYS[kind])
    assert set(ds.arrays) == {*ds.content, *(manifest_spec(spec).name for spec in ds.content.values())}
    whole = {name for name in ARRAYS[kind] if ds.arrays[name].n_chunks < 2}
    by_design = {name for name in whole if name.startswith("block_") or ds.arrays[name].dims == ("sample",)}
    assert whole <= {*by_design, "y", "names/first"}
    assert read_everything(ds) > 0


PLACED = [
    pytest.param(*case.values, id=case.id, marks=[pytest.mark.slow] if (number + stores) % 2 else [])
    for stores, names in enumerate((["local"], ["zarr", "memory", "s3"]))
    for number, case in enumerate(in_turn(1, CASES, store=names))
]
"""Every array in a local folder and in another store; one of the two is a slow test."""


@pytest.mark.parametrize(("kind", "array", "store"), PLACED)
def test_f13_missing_chunk_is_named(open_in, store, kind, array):
    ds = open_in(store, kind)
    spec = ds.arrays[array]
    keys = [spec.key(number) for number in range(spec.n_chunks)]
    for key in {keys[number] for number in PLACES[store]}:
        kept = ds.location.read(key)
        ds.location.delete(key)
        try:
            with pytest.raises(ChunkError, match="missing") as caught:
                read_everything(open_in(store, kind))
            assert caught.value.chunk == key
            assert ds.url in str(caught.value)
            found = daskfs.verify_dataset(ds.url, storage_options=ds.location.options)
            assert [(one.key, one.reason) for one in found] == [(key, "missing")]
        finally:
            ds.location.write(key, kept)


@pytest.mark.parametrize(
    ("kind", "array", "store"),
    in_turn(1, [case for case in CASES if "/" not in case.values[1]], store=["local", "memory", "s3"]),
)
def test_f13_missing_chunk_is_named_by_xarray(open_in, store, kind, array):
    ds = open_in(store, kind)
    key = ds.arrays[array].key(ds.arrays[array].n_chunks - 1)
    kept = ds.location.read(key)
    ds.location.delete(key)
    try:
        with pytest.raises(FileNotFoundError, match=key):
            ds.to_xarray()[array].load()
    finally:
        ds.location.write(key, kept)
    assert ds.to_xarray()[array].load().size > 0
