"""Scheduler and workers that a dask-gateway starts, as the job file of docs/clusters.md asks for them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clusters.gateway import Gateway, gateway
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

import daskfs

pytestmark = pytest.mark.timeout(900)

START = "dask_gateway.GatewayCluster"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    pytest.importorskip("dask_gateway", reason="not installed: dask-gateway")
    if why := missing("dask-gateway-server"):
        pytest.skip(why)
    with gateway(tmp_path_factory.mktemp("gateway")) as found:
        yield found


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The job file, with data beside it."""
    X = np.random.default_rng(0).random((2000, 8), dtype=np.float32)
    daskfs.write_dataset(tmp_path / "sensors.zarr", X, np.sin(6 * X[:, 1]), layout="rows", chunk_bytes=16_000)
    (tmp_path / "job.toml").write_text(documented(START))
    return tmp_path / "job.toml"


def changes(server: Gateway, workers: int) -> dict[str, Any]:
    """What is different here: another gateway, smaller workers, and less to do."""
    return {
        "data.train": "sensors.zarr",
        "select.penalty": 2.0,
        "select.rounds": 3,
        "select.per_round": 30,
        "cluster.workers": workers,
        "cluster.arguments.address": server.address,
        "cluster.arguments.worker_memory": 2,
    }


def workers_left(server: Gateway) -> list[str]:
    """The command lines of whatever the gateway has started, the proxy aside."""
    lines = [" ".join(process.cmdline()) for process in marked(server.mark)]
    return [line for line in lines if "dask scheduler" in line or "dask worker" in line]


def test_one_worker_gives_the_bits_of_one_process(server, job):
    given = changes(server, workers=1)
    serial = run(job, {**given, "out": "serial"}, "--serial", environment=os.environ)
    assert serial.code == 0, serial.errors
    ran = run(job, {**given, "out": "gateway"}, environment=server.environment())
    assert ran.code == 0, ran.errors
    assert selection_of(job.parent / "gateway") == selection_of(job.parent / "serial")
    assert f"dashboard: {server.address}/clusters/" in ran.errors


def test_several_workers_and_none_is_left(server, job):
    before = submitted(server)
    ran = run(job, {**changes(server, workers=2), "out": "gateway"}, environment=server.environment())
    assert ran.code == 0, ran.errors
    assert workers_of(job.parent / "gateway") == 2
    assert submitted(server) - before == 2
    assert eventually(lambda: not workers_left(server)), workers_left(server)


def submitted(server: Gateway) -> int:
    """How many workers the gateway says it has started."""
    return len(re.findall(r"Worker \w+ submitted", server.log))


@pytest.mark.parametrize(
    ("key", "value", "password", "reason"),
    [
        ("address", "http://127.0.0.1:{free}", {}, "Connect call failed"),
        ("worker_memory", 64, {}, "worker_memory"),
        ("color", "blue", {}, "color"),
        ("image", "", {"password": "wrong"}, "401"),
    ],
)
def test_what_a_gateway_refuses_is_said_in_a_line(server, job, key, value, password, reason):
    value = value.format(free=free_port()) if isinstance(value, str) else value
    given = {**changes(server, 1), f"cluster.arguments.{key}": value, "out": "never"}
    check_refused(run(job, given, environment=server.environment(**password)), START, reason)
    assert not (job.parent / "never").exists()
    assert not workers_left(server)
