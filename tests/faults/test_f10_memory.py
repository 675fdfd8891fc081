"""F10: the memory plan is said before the first block is read, and a plan beyond the memory there is ends the run."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from faults.samples import MAKERS

from daskfs.cli import main
from daskfs.store.dataset.blocks import ColumnBlocks


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
