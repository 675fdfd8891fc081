"""F12: an object store that fails for a while, in every way that networks know, costs time and no cell."""

from __future__ import annotations

import logging
import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import fsspec
import numpy as np
import pytest
import scipy.sparse as sp
from flaky_proxy import FlakyProxy, Request, flaky_proxy

import daskfs
from daskfs.errors import StorageError
from daskfs.store.places import connections, retries
from daskfs.store.places.location import Location

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 24)).astype(np.float32)
SPARSE = sp.random_array((300, 200), density=0.05, rng=RNG, dtype=np.float32).tocsr()
Y = (X[:, 3] > X[:, 8]).astype(int)
FAULTS = ["500", "503", "429", "reset", "stall", "cut", "stalled body"]


@pytest.fixture
def proxy(s3, monkeypatch) -> Iterator[FlakyProxy]:
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.01)
    with flaky_proxy(s3.endpoint) as running:
        slowest = max(seconds_of_a_request(running.endpoint) for _ in range(3))  # a busy machine takes its time
        monkeypatch.setattr(connections, "READ_TIMEOUT", max(0.5, 20 * slowest))
        running.requests.clear()
        yield running


def seconds_of_a_request(endpoint: str) -> float:
    began = time.monotonic()
    try:
        urllib.request.urlopen(endpoint, timeout=100).close()
    except urllib.error.HTTPError as answer:
        answer.close()
    return time.monotonic() - began


def through(proxy: FlakyProxy, s3) -> dict:
    return {**s3.options, "client_kwargs": {"endpoint_url": proxy.endpoint}}


def is_chunk(request: Request) -> bool:
    return request.method == "GET" and "/c/" in request.path and "manifest" not in request.path


@pytest.mark.slow_but_first
@pytest.mark.parametrize("kind", FAULTS)
def test_every_chunk_fails_twice_and_every_cell_arrives(s3, proxy, kind):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, Y, chunk_bytes=X.nbytes // 3, storage_options=s3.options)
    proxy.first_times(kind, 2, is_chunk)
    ds = daskfs.open_dataset(url, through(proxy, s3))
    for block in ds.blocks():
        np.testing.assert_array_equal(block.X, X[:, block.ids.astype(int)])
    assert proxy.faults == [kind] * 8  # three chunks of X and one of y


def test_a_run_among_random_faults_selects_what_a_quiet_one_does(s3, proxy):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, SPARSE, Y, storage_options=s3.options)
    quiet = daskfs.select(url, daskfs.Mission(5), storage_options=s3.options)
    draw = random.Random(1)
    proxy.fault = lambda request: draw.choice(FAULTS) if draw.random() < 0.3 else None
    noisy = daskfs.select(url, daskfs.Mission(5), checkpoint=s3.url("c"), storage_options=through(proxy, s3))
    assert noisy.features.tolist() == quiet.features.tolist()
    np.testing.assert_array_equal(noisy.weights, quiet.weights)
    assert len(proxy.faults) > 5


@pytest.mark.slow_but_first
@pytest.mark.parametrize("kind", [*FAULTS, "lost answer"])
def test_an_ingest_whose_every_request_fails_once_writes_the_same_dataset(s3, proxy, tmp_path, kind):
    text = b"".join(b"%d |n f%d:0.5 g%d\n" % (i % 2, i % 7, i % 5) for i in range(200))
    source, out = s3.url("source.vw"), s3.url("d.zarr")
    fsspec.filesystem("s3", **s3.options).pipe_file(source, text)
    (tmp_path / "source.vw").write_bytes(text)
    expected = daskfs.ingest(tmp_path / "source.vw", tmp_path / "d.zarr", "vw", workers=1).digest
    slow = kind in ("stall", "stalled body")  # half a second each
    proxy.first_times(kind, 1, lambda request: "/manifest/ids" in request.path or not slow)
    options = through(proxy, s3)
    ds = daskfs.ingest(source, out, "vw", workers=1, storage_options=options, source_options=options)
    assert ds.digest == expected
    assert daskfs.verify_dataset(out, storage_options=s3.options) == []
    assert len(proxy.faults) > (1 if slow else 5)
    assert not [key for key in fsspec.filesystem("s3", **s3.options).find(out) if "_writer" in key]


LONG_BURSTS = [pytest.param(seconds, marks=[pytest.mark.faults, pytest.mark.timeout(600)]) for seconds in (10, 60)]


@pytest.mark.slow_but_first
@pytest.mark.parametrize("seconds", [1, *LONG_BURSTS])
@pytest.mark.parametrize("kind", ["500", "503", "429"])
def test_f12_a_burst_of_errors_costs_its_time_and_no_cell(s3, proxy, kind, seconds):
    """Every request fails until the burst is over, however often it is tried again."""
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, Y, chunk_bytes=X.nbytes // 3, storage_options=s3.options)
    dataset = daskfs.open_dataset(url, through(proxy, s3))
    first = next(iter(dataset.blocks())).X.copy()  # so that the store has answered
    ends = time.monotonic() + seconds
    proxy.fault = lambda request: kind if time.monotonic() < ends else None
    again = daskfs.open_dataset(url, through(proxy, s3))
    cells = np.hstack([block.X.copy() for block in again.blocks()])
    assert time.monotonic() >= ends
    np.testing.assert_array_equal(cells, X)
    np.testing.assert_array_equal(first, X[:, : first.shape[1]])
    assert set(proxy.faults) == {kind}


def test_large_objects_are_sent_in_parts_that_may_fail(s3, proxy, monkeypatch):
    monkeypatch.setattr("daskfs.store.places.object_folder.PART_BYTES", 5 << 20)
    place, data = Location(s3.url("big"), through(proxy, s3)), RNG.bytes(12 << 20)
    proxy.first_times("503", 1)
    place.write("x", memoryview(data)[:1000], data[1000:])
    assert place.size("x") == len(data)
    assert place.read("x") == data
    assert place.read("x", 5, 17) == data[5:17]


def test_when_the_budget_is_spent_the_chunk_is_named_and_the_wait_was_told(s3, proxy, monkeypatch, caplog):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, Y, chunk_bytes=X.nbytes // 3, storage_options=s3.options)
    budget = retries.BUDGET
    monkeypatch.setattr(retries, "BUDGET", 2.0)
    monkeypatch.setattr(retries, "SAYS_SO_AFTER", 0.5)
    monkeypatch.setattr(retries, "_last_warning", -retries._QUIET)
    proxy.fault = lambda request: "503" if request.path.endswith("/X/c/0/1") else None
    began = time.monotonic()
    with (
        caplog.at_level(logging.WARNING, "daskfs"),
        pytest.raises(
            StorageError, match=rf"{url}/X/c/0/1: the store answers 503 Service Unavailable, \d+ times in \d+ seconds"
        ),
    ):
        list(daskfs.open_dataset(url, through(proxy, s3)).blocks())
    assert 1 < time.monotonic() - began < budget
    assert "X/c/0/1: the store answers 503" in caplog.text
    assert "trying again" in caplog.text


def test_what_will_not_pass_is_not_tried_again(s3, proxy):
    refused = {**through(proxy, s3), "secret": "canary-secret"}
    with pytest.raises(StorageError, match="check the credentials") as caught:
        daskfs.open_dataset(s3.url("d.zarr"), refused)
    assert "canary-secret" not in str(caught.value)
    assert len(proxy.requests) == 1
    with pytest.raises(StorageError, match=r"s3://nowhere/d\.zarr.*there is no bucket 'nowhere'; create it, or"):
        daskfs.open_dataset("s3://nowhere/d.zarr", through(proxy, s3))
    assert len(proxy.requests) == 2


def test_an_endpoint_where_nobody_listens(s3, monkeypatch):
    monkeypatch.setattr(retries, "BUDGET", 0.5)
    with pytest.raises(StorageError, match=r"d\.zarr/zarr\.json: no answer from http://127\.0\.0\.1:9 .*its address"):
        daskfs.open_dataset(s3.url("d.zarr"), {**s3.options, "client_kwargs": {"endpoint_url": "http://127.0.0.1:9"}})


def test_whoever_leaves_a_loop_does_not_wait_for_a_store_that_is_down(s3, proxy):
    url = s3.url("d.zarr")
    daskfs.write_dataset(url, X, Y, chunk_bytes=X.nbytes // 12, storage_options=s3.options)
    blocks = iter(daskfs.open_dataset(url, through(proxy, s3)).blocks())
    proxy.fault = lambda request: "503" if request.path.endswith("/X/c/0/9") else None
    while not proxy.faults:  # which comes while blocks before it are still to be taken
        next(blocks)
    began = time.monotonic()
    blocks.close()
    assert time.monotonic() - began < retries.BUDGET - 5


@pytest.mark.parametrize("kind", ["lost answer", "503", "reset"])
def test_a_conditional_write_whose_answer_is_lost_is_ours_all_the_same(s3, proxy, kind):
    place = Location(s3.url("d"), through(proxy, s3))
    proxy.first_times(kind, 1, lambda request: request.method == "PUT")
    assert place.create("pointer", b"one")
    assert not Location(place.url, s3.options).create("pointer", b"two")
    proxy.first_times(kind, 1, lambda request: request.method == "PUT")
    assert place.replace_if("pointer", b"three", b"one")
    assert not place.replace_if("pointer", b"four", b"one")
    assert place.read("pointer") == b"three"
