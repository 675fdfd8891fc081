"""The memory an ingest may use is decided before it starts, and kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import daskfs
from daskfs.engine.memory import Footprint, IngestMemory, MemoryPlan
from daskfs.errors import OptionError
from daskfs.job.request import Request
from daskfs.selection.records import RUN_RECORD, read_record
from daskfs.store.places.location import Location

PEAK = """
import importlib, re, sys
import daskfs.cli
importlib.import_module("daskfs.cli." + daskfs.cli.COMMANDS[sys.argv[1]][0])  # which is else loaded when it is run
import scipy.linalg  # as numba does with the first kernel
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
before = peak()
try:
    daskfs.cli.main(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
print("above", peak() - before)
"""


def megabytes_above_imports(*arguments: object) -> float:
    command = [sys.executable, "-c", PEAK, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split("above")[-1])


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_a_million_different_names_stay_within_the_budget(tmp_path):
    rng = np.random.default_rng(0)
    with open(tmp_path / "x.vw", "w") as file:
        for _ in range(10_000):
            file.write("1 |w " + " ".join(f"name{number}" for number in rng.integers(0, 10**9, 120)) + "\n")
    (tmp_path / "tiny.vw").write_text("1 |w a\n")
    megabytes_above_imports("ingest", tmp_path / "tiny.vw", tmp_path / "tiny.zarr", "-f", "vw")  # compiles, once
    used = megabytes_above_imports("ingest", tmp_path / "x.vw", tmp_path / "x.zarr", "-f", "vw", "--memory", "120MiB")
    assert used <= 120


@pytest.mark.parametrize("workers", [1, 2, 8, 64])
@pytest.mark.parametrize("memory", ["112MiB", "512MB", "4GB", "1TB"])
def test_shares_never_exceed_the_whole(workers, memory):
    plan = IngestMemory.of(memory, workers)
    assert 1 <= plan.workers <= workers
    assert plan.window_bytes >= 1 << 20
    assert plan.names_bytes >= 2 << 20


def test_a_small_budget_means_fewer_workers_not_an_error():
    assert IngestMemory.of("200MB", 64).workers == 1


def test_too_little_is_said():
    with pytest.raises(OptionError, match="at least 112"):
        IngestMemory.of("100MB", 1)


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_broken_promise_is_said_and_recorded(tmp_path, monkeypatch, recwarn, is_broken):
    dataset = daskfs.write_dataset(tmp_path / "x.zarr", np.eye(30), np.arange(30))
    promised = MemoryPlan.of(daskfs.Univariate(2), dataset.meta).promised
    monkeypatch.setattr(Footprint, "used", lambda *_: promised + is_broken)
    Request(dataset, daskfs.Univariate(2), Location(tmp_path / "run")).run(None, {})
    memory = read_record(Location(tmp_path / "run"), RUN_RECORD)["memory"]
    assert (memory["promised"], memory["used"]) == (promised, promised + is_broken)
    said = [str(warning.message) for warning in recwarn]
    assert said == ([memory["remark"]] if is_broken else [])
    assert all("of memory, more than promised (state" in line for line in said)


def test_what_is_promised_must_fit_and_not_only_a_part_of_it():
    plan = MemoryPlan(state=1 << 20, blocks=1 << 20)
    plan.check(plan.promised, "this machine")
    with pytest.raises(OptionError, match=r"this machine has 49\.\d+ MiB of memory, the selection needs .* 50\.00 MiB"):
        plan.check(plan.promised - 1000_000, "this machine")


SQUARE = """
import re, sys
import dask.array as da, numpy as np, daskfs
def peak(): return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
tiny = da.ones((64, 64), chunks=(32, 32), dtype="f4")
daskfs.write_dataset(sys.argv[1] + "/tiny", tiny, np.arange(64), layout=sys.argv[2])
before = peak()
X = da.random.default_rng(0).random((40_000, 4_000), chunks=(2_000, 2_000), dtype="f4")
daskfs.write_dataset(sys.argv[1] + "/x", X, np.arange(40_000), layout=sys.argv[2])
print("above", peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
@pytest.mark.parametrize("layout", ["columns", "rows", "both"])
def test_square_chunks_are_written_without_holding_the_array(tmp_path, layout):
    """The array takes 610 MiB, a chunk 15."""
    command = [sys.executable, "-c", SQUARE, str(tmp_path), layout]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split("above")[-1]) < 250
