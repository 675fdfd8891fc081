"""F27: what a command opens can be reached from this machine only; a class that opens more is named in a line."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest
from dask_processes import said, started
from toy_runs import small_dataset, wait_until

from daskfs.engine.cluster.start import cluster_of_class
from daskfs.job.execute import announce

LOCAL = "distributed.LocalCluster"
SLOW = """
import time
from daskfs.cli import main
from daskfs.job.request import Request
Request.run = lambda *_: time.sleep(600)
main()
"""


def listening(process: subprocess.Popen[bytes]) -> list[str]:
    """The addresses at which a process and all it has started really listen."""
    family = [found := psutil.Process(process.pid), *found.children(recursive=True)]
    sockets = [socket for each in family for socket in each.net_connections("inet")]
    return [socket.laddr.ip for socket in sockets if socket.status == psutil.CONN_LISTEN]


@pytest.mark.slow
def test_f27_a_cluster_of_its_own_is_on_loopback(tmp_path):
    small_dataset(tmp_path / "d")
    log, flags = tmp_path / "log", ("-a", "substitution", "-k", "3", "--out", str(tmp_path / "run"))
    command = [sys.executable, "-c", SLOW, "select", str(tmp_path / "d"), "--processes", "2", *flags]
    with started(command, log) as process:
        said(log, "memory: ")
        wait_until(lambda: len(listening(process)) >= 4)  # scheduler, dashboard, two workers
        assert set(listening(process)) == {"127.0.0.1"}
    assert "other machines" not in log.read_text()


@pytest.mark.parametrize(
    ("host", "doors"),
    [("127.0.0.1", []), ("0.0.0.0", ["note: other machines can reach the dashboard http://0.0.0.0:"])],
)
def test_f27_a_class_that_opens_more_is_named(monkeypatch, host, doors):
    """Not opened in earnest, either: the tests open nothing but loopback (see `loopback`)."""
    told: list[str] = []
    few = {"n_workers": 1, "threads_per_worker": 1, "silence_logs": 60, "worker_dashboard_address": "127.0.0.1:0"}
    with cluster_of_class(LOCAL, few, None, None) as client:
        monkeypatch.setattr(client.cluster.scheduler.services["dashboard"], "address", host)
        announce(client, told.append)
    notes = [line for line in told if "other machines" in line]
    assert [line.rstrip("0123456789") for line in notes] == doors


def test_f27_the_scheduler_is_named_too(monkeypatch):
    """Not opened in earnest: whoever reaches it can run anything here."""
    told: list[str] = []
    with cluster_of_class(LOCAL, {"n_workers": 1, "silence_logs": 60}, None, None) as client:
        (listener,) = client.cluster.scheduler.listeners
        monkeypatch.setattr(type(listener), "listen_address", "tcp://10.0.0.5:8786")
        announce(client, told.append)
    assert told[0] == "note: other machines can reach the scheduler tcp://10.0.0.5:8786"
