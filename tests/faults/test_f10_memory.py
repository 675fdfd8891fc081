"""F10: the memory plan is said before the first block is read, and a plan beyond the memory there is ends the run."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from faults.samples import MAKERS
from toy_runs import local_cluster

import daskfs
from daskfs.cli import main
from daskfs.job.request import Request
from daskfs.selection.records import RUN_RECORD, read_record
from daskfs.store.dataset.blocks import ColumnBlocks
from daskfs.store.places.location import Location


@pytest.fixture
def said(tmp_path, monkeypatch):
    """A function that runs a selection, and returns its exit code and output with a line for every block."""
    MAKERS["columns"](tmp_path / "d")
    read = ColumnBlocks.read

    def say_and_read(self, number, buffers):
        click.echo("a block is read", err=True)
        return read(self, number, buffers)

    monkeypatch.setattr(ColumnBlocks, "read", say_and_read)

    def run() -> tuple[int, str]:
        options = ["--algorithm", "substitution", "-k", "2", "--serial", "--out", str(tmp_path / "run")]
        done = CliRunner().invoke(main, ["select", str(tmp_path / "d"), *options])
        return done.exit_code, done.output

    return run


def test_f10_the_memory_plan_is_said_before_the_first_read(said):
    code, output = said()
    assert code == 0, output
    assert output.index("memory: state") < output.index("a block is read")


def test_f10_a_plan_beyond_the_memory_ends_the_run_before_the_first_read(said, monkeypatch):
    monkeypatch.setattr("daskfs.engine.run.available_memory", lambda: 1000)
    code, output = said()
    assert code == 2
    assert "state" in output
    assert "a block is read" not in output


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:used .* of memory, more than promised")  # by up to a quarter
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
@pytest.mark.parametrize(
    "algorithm", [daskfs.OnlineSubstitution(10), daskfs.OnlineSubstitution(10, method="async"), daskfs.Univariate(10)],
    ids=["block", "async", "univariate"],
)  # fmt: skip
def test_f10_workers_take_no_more_than_a_quarter_beyond_the_plan(tmp_path, algorithm):
    """Real processes, by the peak that the system records, over 128 MB of data."""
    X = np.random.default_rng(0).normal(size=(2000, 16_000)).astype(np.float32)
    dataset = daskfs.write_dataset(tmp_path / "d", X, X[:, :10].sum(1))
    with local_cluster(2) as client:
        Request(dataset, algorithm, Location(tmp_path / "run")).run(client, {})
    memory = read_record(Location(tmp_path / "run"), RUN_RECORD)["memory"]
    assert 0 < memory["used"] <= 1.25 * memory["promised"]
