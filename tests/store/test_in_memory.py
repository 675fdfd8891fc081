"""A matrix in memory has the blocks of its written form, to the last bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import daskfs
from daskfs.errors import OptionError
from daskfs.store import in_memory
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest import arrays
from daskfs.store.ingest.arrays import encode_target

FORMS = {
    "float64": lambda X: X,
    "float32": lambda X: X.astype(np.float32),
    "columns contiguous": np.asfortranarray,
    "whole numbers": lambda X: (4 * X).astype(np.int64),
    "bytes": lambda X: (4 * X).astype(np.int8),
    "big-endian": lambda X: X.astype(">f4"),
    "every other row and column": lambda X: np.repeat(np.repeat(X, 2, 0), 2, 1)[::2, ::2],
    "sparse": lambda X: sp.csr_array(X * (X > 0.4)),
    "sparse, csc": lambda X: sp.csc_array(X * (X > 0.4)),
    "sparse, zeros stored": lambda X: sp.csr_array((np.maximum(X, 0).ravel(), np.indices(X.shape).reshape(2, -1))),
}


def small_blocks(patch, chunk_bytes=2_000):
    patch.setattr(in_memory, "CHUNK_BYTES", chunk_bytes)
    for module in (arrays, in_memory):
        patch.setattr(module, "BLOCK_ENTRIES", chunk_bytes // 8)


def written(folder, X, y, axis, chunk_bytes=2_000):
    daskfs.write_dataset(folder / "X.zarr", X, y, layout=axis, chunk_bytes=chunk_bytes)
    dataset = daskfs.open_dataset(folder / "X.zarr")
    if dataset.axis == axis:
        return dataset
    return daskfs.transpose(dataset, folder / "columns.zarr", block_entries=chunk_bytes // 8)


def same_block(one, other):
    assert type(one) is type(other)
    for name in type(one).__slots__:
        left, right = getattr(one, name), getattr(other, name)
        if not isinstance(left, np.ndarray):
            assert left == right
            continue
        assert left.dtype == right.dtype
        assert np.array_equal(left, right), name
        assert not right.flags.writeable
        if name == "X":
            assert left.flags.f_contiguous == right.flags.f_contiguous
            assert left.flags.c_contiguous == right.flags.c_contiguous


@pytest.mark.parametrize("axis", ["rows", "columns"])
@pytest.mark.parametrize("form", FORMS)
def test_the_blocks_of_the_written_form(form, axis, tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    X = FORMS[form](np.random.default_rng(0).normal(size=(60, 25)))
    y = np.array(["no", "yes"])[np.arange(60) % 2]
    there, here = written(tmp_path, X, y, axis), InMemory(X, *encode_target(y), axis)
    assert here.n_blocks() == there.n_blocks() > 1
    assert here.block_sizes().tolist() == there.block_sizes().tolist()
    for one, other in zip(there.blocks(), here.blocks(), strict=True):
        same_block(one, other)
    for name in ("kind", "n_samples", "n_features", "n_entries", "classes", "axis"):
        assert getattr(here, name) == getattr(there, name)
    ours, theirs = here.meta, there.meta
    assert (ours.n_features, ours.max_id, ours.itemsize) == (theirs.n_features, theirs.max_id, theirs.itemsize)
    assert here.names([4, 0]) == there.names([4, 0]) == ["x4", "x0"]
    if axis == "columns":
        for one, other in zip(there.columns([24, 3, 11]), here.columns([24, 3, 11]), strict=True):
            same_block(one, other)


@settings(max_examples=30)
@given(lengths=st.lists(st.sampled_from([0, 1, 5, 9, 40, 300]), min_size=1, max_size=40), seed=st.integers(0, 99))
def test_rows_of_any_length_are_cut_alike(lengths, seed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    indices = np.concatenate([np.sort(rng.choice(400, size, replace=False)) for size in lengths]).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    X = sp.csr_array((rng.normal(size=len(indices)), indices, indptr), shape=(len(lengths), 400))
    y = rng.normal(size=len(lengths))
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, chunk_bytes=400)
        there = written(tmp_path_factory.mktemp("cut"), X, y, "rows")
        here = InMemory(X, *encode_target(y), "rows")
        for one, other in zip(there.blocks(), here.blocks(), strict=True):
            same_block(one, other)


def test_a_view_where_nothing_need_be_converted():
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(10, 4)))
    y = encode_target(np.arange(10))
    assert np.shares_memory(InMemory(X, *y, "columns").read(0).X, X)
    assert not np.shares_memory(InMemory(X, *y, "rows").read(0).X, X)


def test_weights_ride_on_the_blocks(monkeypatch):
    small_blocks(monkeypatch)
    X, weight = np.random.default_rng(0).normal(size=(60, 25)), np.arange(60, dtype=np.float32)
    for axis in ("rows", "columns"):
        for matrix in (X, sp.csr_array(X)):
            here = InMemory(matrix, *encode_target(np.arange(60)), axis, weight=weight)
            assert here.meta.weighted
            found = [block.weight for block in here.blocks()]
            assert np.array_equal(np.concatenate(found) if axis == "rows" else found[0], weight)


def test_the_digest_is_one_of_the_content():
    X, y = np.random.default_rng(0).normal(size=(30, 5)), encode_target(np.arange(30) % 2)
    digest = InMemory(X, *y, "rows").digest
    assert InMemory(np.asfortranarray(X), *y, "rows").digest == digest
    changed = X.copy()
    changed[29, 4] += 1e-9
    others = [
        InMemory(changed, *y, "rows"),
        InMemory(X, *encode_target(np.arange(30) % 3), "rows"),
        InMemory(X, *y, "rows", names=list("abcde")),
        InMemory(X, *y, "rows", weight=np.ones(30, np.float32)),
    ]
    assert len({digest, *(other.digest for other in others)}) == 5


def test_it_stays_in_its_process():
    with pytest.raises(TypeError, match="stays in its process"):
        pickle.dumps(InMemory(np.eye(3), *encode_target(np.arange(3)), "rows"))


def test_nothing_to_choose_from():
    empty = InMemory(sp.csr_array((5, 3)), *encode_target(np.arange(5)), "columns")
    with pytest.raises(OptionError, match="no entries"):
        empty.n_blocks()
    with pytest.raises(OptionError, match="too large for float32"):
        InMemory(sp.csr_array([[1e300]]), *encode_target(np.arange(1)), "rows")
