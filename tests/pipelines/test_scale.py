"""Datasets larger than the disk, many light workers, and the page about both."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from pages import load_script

import daskfs
from daskfs.algorithms.registry import registration
from daskfs.engine.data.verify import verify_dataset
from daskfs.errors import Interrupted

BENCHMARKS = Path(__file__).parents[2] / "pipelines" / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """A function that imports a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_columns_are_repeated_as_if_they_had_been_written(script, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 12)).astype(np.float32), rng.normal(size=50)
    pool = daskfs.write_dataset(tmp_path / "pool.zarr", X, y, chunk_bytes=50 * 4 * 3)
    order = np.array([2, 0, 3, 3, 1, 0, 0])
    given = script("_repeated").repeat_columns(pool, tmp_path / "given.zarr", order)
    written = np.concatenate([X[:, 3 * number : 3 * number + 3] for number in order], axis=1)
    expected = daskfs.write_dataset(tmp_path / "expected.zarr", written, y, chunk_bytes=50 * 4 * 3)
    same_blocks(given, expected)


def test_rows_are_repeated_as_if_they_had_been_written(script, tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.store.ingest.arrays.BLOCK_ENTRIES", 64)
    cells = np.random.default_rng(0).random((60, 30), dtype=np.float32)
    y = (np.arange(60) % 2).astype(float)
    pool = daskfs.write_dataset(tmp_path / "pool.zarr", scipy.sparse.csr_array(np.where(cells > 0.8, cells, 0)), y)
    assert pool.n_blocks() > 3
    order = np.array([2, 0, 3, 3, 1, 0, 0])
    given = script("_repeated").repeat_rows(pool, tmp_path / "given.zarr", order)
    for number, source in enumerate(order.tolist()):
        block, of_pool = given.read(number), pool.read(source)
        for name in ("indptr", "ids", "values", "y"):
            np.testing.assert_array_equal(getattr(block, name), getattr(of_pool, name))
    assert given.n_entries == sum(len(given.read(number).ids) for number in range(7))
    assert given.n_samples == sum(len(given.read(number).y) for number in range(7))
    assert not verify_dataset(given.url)


def same_blocks(given, expected):
    """The blocks, the labels and all that an algorithm may know beforehand are the same, and no chunk is damaged."""
    assert not verify_dataset(given.url)
    assert given.n_blocks() == expected.n_blocks()
    for number in range(expected.n_blocks()):
        block, other = given.read(number), expected.read(number)
        np.testing.assert_array_equal(block.X, other.X)
        np.testing.assert_array_equal(block.ids, other.ids)
        np.testing.assert_array_equal(block.y, other.y)
    for name in ("n_samples", "n_features", "n_entries", "max_id", "classes"):
        assert getattr(given.meta, name) == getattr(expected.meta, name)


def test_every_chunk_comes_once_in_a_sweep(script):
    order = script("_repeated").permuted_sweeps(5, 12, np.random.default_rng(0))
    assert sorted(order[:5]) == sorted(order[5:10]) == list(range(5))
    assert len(order) == 12
    assert order[:5].tolist() != order[5:10].tolist()


def test_a_stream_finds_the_planted_columns(script, tmp_path, monkeypatch):
    terabyte = script("terabyte")
    monkeypatch.setattr(terabyte, "SAMPLES", 500)
    monkeypatch.setattr(terabyte, "CHUNK_BYTES", 40_000)
    monkeypatch.setattr(terabyte, "LEFT_ON_DISK", 0)
    measured = terabyte.run("substitution", tmp_path, 400_000, 4e6)
    assert measured.found == 1
    assert measured.blocks == 100
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_stream_through_an_s3_server_finds_the_planted_columns(script, tmp_path, monkeypatch, s3):
    """The fixture skips where there is no server to start; the benchmark has one of its own."""
    terabyte = script("terabyte")
    monkeypatch.setattr(terabyte, "SAMPLES", 500)
    monkeypatch.setattr(terabyte, "CHUNK_BYTES", 40_000)
    monkeypatch.setattr(terabyte, "LEFT_ON_DISK", 0)
    measured = terabyte.run("substitution", tmp_path, 200_000, 1e6, on_s3=True)
    assert (measured.algorithm, measured.found, measured.blocks) == ("substitution, S3", 1, 25)
    assert list(tmp_path.iterdir()) == []


def test_figures_take_the_place_of_those_of_the_same_run(script, tmp_path):
    save_records, file = script("_measure").save_records, tmp_path / "figures.json"
    file.write_text('{"fits": [1], "streams": [{"of": "a", "x": 1}, {"of": "b", "x": 2}]}')
    save_records(file, "streams", [{"of": "b", "x": 3}, {"of": "c", "x": 4}], ("of",))
    expected = [{"of": "a", "x": 1}, {"of": "b", "x": 3}, {"of": "c", "x": 4}]
    assert json.loads(file.read_text()) == {"fits": [1], "streams": expected}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rounds", "centre"])
def test_light_workers_count_every_block(script, name):
    many_workers = script("many_workers")
    plan = many_workers.Plan(0.2, 0.05, state_bytes=1000, offer_bytes=1000, hosts=2, merges=2)
    measured = many_workers.measure(name, 6, plan)  # raises if a block is lost
    assert measured.workers == 6
    assert measured.tasks >= 6
    assert 0 < measured.efficiency <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rounds", "centre"])
def test_killed_workers_lose_no_block(script, name):
    """A worker lives for a third of the run on average. Without kills, no block is read twice."""
    spot = script("spot")
    assert spot.measure(name, 2, 1.0, 0.1, life=0.0).lost == 0
    try:
        killed = spot.measure(name, 2, 8.0, 0.1, life=6.0)  # raises if a block is lost or counted twice
    except Interrupted:
        pytest.skip("the machine is so busy that no worker lives as long as a round takes")
    assert killed.kills > 0
    assert killed.lost >= 0
    assert 0 < killed.away < 1


def test_the_exponent_is_that_of_the_growth(script, tmp_path):
    linear = script("linear")
    assert linear.slope([1, 2, 4], [3, 6, 12]) == pytest.approx(1)
    assert linear.slope([1, 2, 4], [1, 4, 16]) == pytest.approx(2)
    growth = linear.grown("Online Substitution, columns", tmp_path, scale=0.02, turns=1)
    assert growth.sizes == [1, 2, 4, 8]
    assert all(seconds > 0 for seconds in growth.seconds)


def test_the_page_has_the_figures_and_the_model():
    drawing = load_script("pipelines/docs/scaling")
    page, figures = (drawing.DOCS / "scaling.md").read_text(), json.loads((drawing.DOCS / "scaling.json").read_text())
    assert drawing.page_with(page, figures) == page
    for of in figures["fits"]:
        assert registration(of["algorithm"]).nanoseconds == pytest.approx(of["nanoseconds"], rel=0.05)
