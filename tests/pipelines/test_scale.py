"""Datasets larger than the disk, many light workers, and the page about both."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from pages import load_script

import daskfs
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
    given = script("_repeated").repeat_columns([pool], tmp_path / "given.zarr", order)
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
    given = script("_repeated").repeat_rows([pool], tmp_path / "given.zarr", order)
    for number, source in enumerate(order.tolist()):
        block, of_pool = given.read(number), pool.read(source)
        for name in ("indptr", "ids", "values", "y"):
            np.testing.assert_array_equal(getattr(block, name), getattr(of_pool, name))
    assert given.n_entries == sum(len(given.read(number).ids) for number in range(7))
    assert given.n_samples == sum(len(given.read(number).y) for number in range(7))
    assert not verify_dataset(given.url)


def same_blocks(given, expected, arrays=("X", "ids", "y")):
    """The blocks, the labels and all that an algorithm may know beforehand are the same, and no chunk is damaged."""
    assert not verify_dataset(given.url)
    assert given.n_blocks() == expected.n_blocks()
    for number in range(expected.n_blocks()):
        block, other = given.read(number), expected.read(number)
        for name in arrays:
            np.testing.assert_array_equal(getattr(block, name), getattr(other, name))
    for name in ("n_samples", "n_features", "n_entries", "max_id", "classes"):
        assert getattr(given.meta, name) == getattr(expected.meta, name)


def test_every_chunk_comes_once_in_a_sweep(script):
    order = script("_repeated").permuted_sweeps(5, 12, np.random.default_rng(0))
    assert sorted(order[:5]) == sorted(order[5:10]) == list(range(5))
    assert len(order) == 12
    assert order[:5].tolist() != order[5:10].tolist()


def test_dense_rows_of_a_pool_in_parts_are_repeated_as_if_they_had_been_written(script, tmp_path):
    rng = np.random.default_rng(0)
    X, y, repeated = rng.random((24, 5), dtype=np.float32), rng.normal(size=24), script("_repeated")
    options = {"layout": "rows", "chunk_bytes": 4 * 5 * 4}
    pool = [
        daskfs.write_dataset(tmp_path / name, X[part], y[part], **options)
        for name, part in (("a", slice(0, 16)), ("b", slice(16, 24)))
    ]
    order = np.array([5, 0, 2, 2, 4, 1, 3])
    taken = (4 * order[:, None] + np.arange(4)).ravel()
    expected = daskfs.write_dataset(tmp_path / "expected.zarr", X[taken], y[taken], **options)
    same_blocks(repeated.repeat_dense_rows(pool, tmp_path / "given.zarr", order), expected, arrays=("X", "y"))
    longer = daskfs.write_dataset(tmp_path / "c", X[:20], y[:20], layout="rows", chunk_bytes=5 * 5 * 4)
    with pytest.raises(ValueError, match="chunks of other sizes"):
        repeated.repeat_dense_rows([pool[0], longer], tmp_path / "wrong.zarr", order)


@pytest.fixture
def terabyte(script, monkeypatch):
    """The benchmark with tiny chunks, and a pool of several parts."""
    module = script("terabyte")
    for name, value in (("SAMPLES", 500), ("CHUNK_BYTES", 40_000), ("PART_BYTES", 200_000), ("LEFT_ON_DISK", 0)):
        monkeypatch.setattr(module, name, value)
    return module


def test_a_stream_finds_the_planted_columns(terabyte, tmp_path):
    measured = terabyte.run("substitution", tmp_path, 400_000, 4e6)
    assert measured.found == 1
    assert measured.blocks == 100
    assert [one["what"] for one in measured.passes] == [f"pass {n + 1}" for n in range(len(measured.passes))]
    assert measured.gigabytes == pytest.approx(len(measured.passes) * 4e-3, rel=0.2)  # as stored: packed
    assert list(tmp_path.iterdir()) == []


def test_a_stream_of_rows_has_a_slope_for_learning_and_for_the_refit(terabyte, tmp_path, monkeypatch):
    monkeypatch.setattr("daskfs.store.ingest.arrays.BLOCK_ENTRIES", 64 * 4000)
    monkeypatch.setattr(terabyte, "BLOCK_ENTRIES", 64 * 4000)
    measured = terabyte.run("mission", tmp_path, 40e6, 90e6)
    assert measured.found >= 0.9
    assert [one["what"] for one in measured.passes][:2] == ["learning", "refit"]
    assert all(one["ratio"] > 0 and one["cpu_ratio"] > 0 for one in measured.passes)


def test_a_step_between_two_passes_is_no_slope(terabyte):
    assert terabyte.slope([(gigabyte * 1e9, 5_000_000) for gigabyte in range(9)]) == pytest.approx(0, abs=1e-9)
    track = terabyte.Track(stored_bytes=10**9)
    for number in (1, 2):
        for done in range(1, 11):
            track(SimpleNamespace(number=number, bytes_done=done, bytes=10, blocks_done=done, blocks=10))
    assert len(track.passes) == 2


def test_a_stream_of_dense_rows_shows_the_planted_function(terabyte, tmp_path):
    measured = terabyte.run("random-features", tmp_path, 400_000, 1e6)
    assert 0.5 < measured.found < 1
    assert measured.blocks == 25


@pytest.mark.slow
def test_a_stream_through_an_s3_server_finds_the_planted_columns(terabyte, tmp_path, s3):
    """The fixture skips where there is no server to start; the benchmark has one of its own."""
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
    plan = many_workers.Plan(0.2, 0.05, block_bytes=40_000_000, state_bytes=1000, offer_bytes=1000, hosts=2, merges=2)
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
        source = drawing.registration_file(of["algorithm"]).read_text()
        assert drawing.with_constant(source, of["nanoseconds"]) == source
        assert drawing.with_constant(source, 2 * of["nanoseconds"]) != source
