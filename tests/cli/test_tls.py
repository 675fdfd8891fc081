"""Schedulers with TLS: certificates that do not fit are one line, exit code 2, and nothing is created."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import pytest
import yaml
from click.testing import CliRunner, Result
from dask_processes import said, scheduler, worker
from hosts.certificates import REASONS, configured, made
from toy_runs import small_dataset

from daskfs.cli import main
from daskfs.engine.cluster.choose import cluster_at
from daskfs.errors import OptionError, Unreachable

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of two authorities, and Dask's configuration with each."""
    folder = tmp_path_factory.mktemp("tls")
    ours, theirs = made(folder / "ours"), made(folder / "theirs")
    configured(folder / "right", ours, ours)
    configured(folder / "tcp", ours, ours)
    configured(folder / "foreign", theirs, theirs)
    configured(folder / "foreign certificate", ours, theirs)
    configured(folder / "no file", folder, ours)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """A scheduler with TLS and a worker."""
    environment, log = {"DASK_CONFIG": str(folder / "right")}, folder / "worker.log"
    with (
        scheduler(folder, "--protocol", "tls", environment=environment) as address,
        worker(address, log, "--no-nanny", environment=environment),
    ):
        said(log, "Registered to")
        yield address


@contextmanager
def settings(folder: Path, configuration: str) -> Iterator[None]:
    """Dask with one of the configurations, or with none."""
    file = folder / configuration / "tls.yaml"
    found = yaml.safe_load(file.read_text()) if file.exists() else {}
    with dask.config.set(dask.config.merge(dask.config.config, found)):
        yield


def selected(folder: Path, address: str, configuration: str) -> Result:
    flags = ("-a", "substitution", "-k", "3", "--out", "run", "--scheduler", address)
    with settings(folder, configuration):
        return CliRunner().invoke(main, ("select", "d", *flags))


def test_with_the_right_ones_it_runs(folder, address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small_dataset(Path("d"))
    done = selected(folder, address, "right")
    assert done.exit_code == 0, done.output
    assert Path("run/selection.json").exists()


@pytest.mark.parametrize("wrong", REASONS)
def test_with_wrong_ones_it_says_so(folder, address, tmp_path, monkeypatch, wrong):
    monkeypatch.chdir(tmp_path)
    small_dataset(Path("d"))
    if wrong.startswith("tcp"):
        address = address.replace("tls://", "tcp://")
    done = selected(folder, address, wrong)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert REASONS[wrong] in done.stderr
    assert not Path("run").exists()


@pytest.mark.parametrize("wrong", ["foreign", "foreign certificate"])
def test_waiting_makes_no_certificate_better(folder, address, wrong):
    """Unreachable is what is tried again."""
    with settings(folder, wrong), pytest.raises(OptionError, match="certificates") as refused, cluster_at(address):
        pass
    assert not isinstance(refused.value, Unreachable)


def test_a_scheduler_without_tls(folder, tmp_path, monkeypatch, hasty):
    monkeypatch.chdir(tmp_path)
    small_dataset(Path("d"))
    with scheduler(tmp_path) as plain:
        done = selected(folder, plain.replace("tcp://", "tls://"), "right")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "does not speak TLS; if it is a scheduler without, write tcp://" in done.stderr
    assert not Path("run").exists()
