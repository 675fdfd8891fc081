"""Scheduler and workers that an OpenSSH server starts, as the job file of docs/clusters.md asks for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters.jobs import (
    check_refused,
    documented,
    eventually,
    free_port,
    marked,
    missing,
    run,
    selection_of,
    workers_of,
)
from clusters.sshd import Sshd, sshd

import daskfs

pytestmark = pytest.mark.timeout(900)

START = "distributed.SSHCluster"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    pytest.importorskip("asyncssh", reason="not installed: asyncssh")
    if why := missing("sshd", "ssh-keygen"):
        pytest.skip(why)
    with sshd(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The job file, with data beside it."""
    X = np.random.default_rng(0).standard_normal((400, 300), dtype=np.float32)
    daskfs.write_dataset(tmp_path / "genes.zarr", X, X[:, :4] @ [6.0, -5, 4, -3], chunk_bytes=40_000)
    (tmp_path / "job.toml").write_text(documented(START))
    return tmp_path / "job.toml"


def changes(server: Sshd, hosts: int, per_host: int) -> dict[str, Any]:
    """What is different here: all hosts are this one, and nobody else may reach what they run."""
    here = {"host": "127.0.0.1"}
    return {
        "data.train": "genes.zarr",
        "select.k": 4,
        "select.ridge": 0.1,
        "cluster.arguments.hosts": ["127.0.0.1"] * (1 + hosts),
        "cluster.arguments.worker_options": {"nthreads": 1, "n_workers": per_host, **here},
        "cluster.arguments.scheduler_options": {"dashboard_address": "127.0.0.1:0", **here},
        "cluster.arguments.connect_options": server.connect_options(),
        "cluster.arguments.remote_python": sys.executable,
    }


def test_one_worker_gives_the_bits_of_one_process(server, job):
    given = {**changes(server, hosts=1, per_host=1), "select.synchronous": False}
    serial = run(job, {**given, "out": "serial"}, "--serial", environment=os.environ)
    assert serial.code == 0, serial.errors
    ran = run(job, {**given, "out": "ssh"}, environment=os.environ)
    assert ran.code == 0, ran.errors
    assert selection_of(job.parent / "ssh") == selection_of(job.parent / "serial")
    assert "dashboard: http://127.0.0.1:" in ran.errors


def test_a_run_waits_for_the_workers_of_all_hosts_and_leaves_none(server, job):
    came_before = server.log.count("Accepted publickey")
    outs = [job.parent / "first", job.parent / "second"]
    for out in outs:
        ran = run(job, {**changes(server, hosts=2, per_host=2), "out": str(out)}, environment=os.environ)
        assert ran.code == 0, ran.errors
        assert workers_of(out) == 4
    assert selection_of(outs[0]) == selection_of(outs[1])  # the same number of workers, from the first pass on
    assert server.log.count("Accepted publickey") - came_before == 2 * 3  # scheduler and two hosts of workers, twice
    assert eventually(lambda: not marked(server.mark)), marked(server.mark)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("port", None, "Connect call failed"),
        ("username", "nobody-of-that-name", "Permission denied"),
        ("known_hosts", "/dev/null", "Host key is not trusted"),
    ],
)
def test_who_is_not_let_in_is_told_so_in_a_line(server, job, key, value, reason):
    given = changes(server, hosts=1, per_host=1)
    given["cluster.arguments.connect_options"][key] = value or free_port()
    check_refused(run(job, {**given, "out": "never"}, environment=os.environ), START, reason)
    assert not (job.parent / "never").exists()


def test_a_python_that_is_not_there(server, job):
    given = {**changes(server, hosts=1, per_host=1), "cluster.arguments.remote_python": "/nowhere/python"}
    check_refused(run(job, {**given, "out": "never"}, environment=os.environ), START)
    assert not (job.parent / "never").exists()
