"""The cluster that a job file asks for, by the command that reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from toy_runs import small_dataset

from daskfs.cli import main

JOB = 'out = "out"\n[data]\ntrain = "d"\n[select]\nalgorithm = "substitution"\nk = 3\nridge = 0.1\n[cluster]\n'


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ('start = "dask_nowhere.PBSCluster"', "cluster: dask_nowhere.PBSCluster: no such class"),
        ('start = "os.system"\narguments = {command = "true"}', "cluster: os.system: names no cluster"),
        ('start = "distributed.LocalCluster"\nadapt = {minimun = 1}', "adapt: must be {minimum = …, maximum = …}"),
        ('start = "distributed.LocalCluster"\nadapt = {minimum = 3, maximum = 2}', "adapt: must be {minimum"),
        ("workers = 2", "are for a class to start"),
        ('scheduler = "tls://127.0.0.1:1"', "no certificates to show there"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_made(tmp_path, monkeypatch, table, reason):
    monkeypatch.chdir(tmp_path)
    small_dataset(Path("d"))
    Path("job.toml").write_text(JOB + table)
    done = CliRunner().invoke(main, ("run", "job.toml"))
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert reason in done.stderr
    assert not Path("out").exists()


def test_a_class_with_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_dataset(Path("d"))
    arguments = '{n_workers = 0, threads_per_worker = 1, silence_logs = 60, host = "127.0.0.1"}'
    Path("job.toml").write_text(f'{JOB}start = "distributed.LocalCluster"\nworkers = 1\narguments = {arguments}\n')
    done = CliRunner().invoke(main, ("run", "job.toml"))
    assert done.exit_code == 0, done.output
    assert Path("out/published.json").exists()
