"""Clusters of the tests, in processes of their own or in this one, listen on loopback only."""

from __future__ import annotations

import psutil
import pytest
from toy_runs import local_cluster


@pytest.mark.parametrize("processes", [False, True])
def test_nothing_listens_on_all_interfaces(processes):
    with local_cluster(1, processes):
        this = psutil.Process()
        family = [this, *this.children(recursive=True)]
        connections = [connection for process in family for connection in process.net_connections("inet")]
    listening = {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}
    assert listening
    assert listening <= {"127.0.0.1", "::1"}
