"""Clusters that a command finds or starts: what they are, and the line that comes of what they cannot be."""

from __future__ import annotations

import gc
import os

import pytest
from distributed import LocalCluster

from daskfs.engine.cluster.start import cluster_of_class
from daskfs.errors import OptionError

LOCAL = "distributed.LocalCluster"
SMALL = {"n_workers": 0, "threads_per_worker": 1, "silence_logs": 60}


@pytest.mark.slow
def test_a_class_is_started_with_so_many_workers_and_stopped():
    with cluster_of_class(LOCAL, SMALL, 2, None) as client:
        assert len(client.nthreads()) == 2
        assert all(client.run(lambda dask_worker: "daskfs" in dask_worker.plugins).values())
        assert client.dashboard_link.startswith("http://127.0.0.1:")
        assert client.scheduler.address.startswith("tcp://127.0.0.1:")
        pids = client.run(os.getpid).values()
    assert client.status == "closed"
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_arguments_are_the_class_s_own():
    with cluster_of_class(LOCAL, {**SMALL, "n_workers": 1, "threads_per_worker": 3}, None, None) as client:
        assert list(client.nthreads().values()) == [3]


def test_workers_that_come_when_they_are_needed():
    with cluster_of_class(LOCAL, SMALL, None, {"minimum": 0, "maximum": 2}) as client:
        assert client.submit(int, "7").result(60) == 7


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Dask's, of what it did not start
@pytest.mark.parametrize(
    ("path", "arguments", "reason"),
    [
        ("dask_nowhere.SLURMCluster", {}, "no such class (No module named 'dask_nowhere'); is its package installed?"),
        ("distributed.SlurmCluster", {}, "has no attribute 'SlurmCluster'"),
        ("LocalCluster", {}, "no such class"),
        ("os.system", {"command": "true"}, "names no cluster; one is distributed.LocalCluster"),
        (LOCAL, {"n_workers": "two"}, "cluster: distributed.LocalCluster: "),
        (LOCAL, {"n_workers": 1, "nthreads_per_worker": 1}, "unexpected keyword argument 'nthreads_per_worker'"),
        (LOCAL, {"n_workers": 1, "protocol": "pigeon"}, "cluster: distributed.LocalCluster: "),
    ],
)
def test_what_cannot_be_started_is_one_line(path, arguments, reason):
    with pytest.raises(OptionError) as caught, cluster_of_class(path, arguments, None, None):
        pass
    said = str(caught.value)
    del caught
    gc.collect()  # here, where the warning is expected
    assert reason in said
    assert "\n" not in said


def test_nobody_comes(monkeypatch):
    """As in a batch queue that is full."""
    monkeypatch.setattr("daskfs.engine.cluster.start.WAIT_IN_QUEUE", 0.5)
    with (
        pytest.raises(OptionError, match=r"no worker has come within 0\.5 seconds"),
        cluster_of_class(LOCAL, SMALL, None, None),
    ):
        pass


@pytest.mark.slow
def test_fewer_come_than_were_asked_for(monkeypatch):
    monkeypatch.setattr("daskfs.engine.cluster.start.WAIT_FOR_OTHERS", 0.5)
    scale = LocalCluster.scale
    monkeypatch.setattr(LocalCluster, "scale", lambda cluster, count: scale(cluster, min(count, 1)))
    with cluster_of_class(LOCAL, SMALL, 3, None) as client:
        assert len(client.nthreads()) == 1


def test_a_run_begins_with_all_that_a_class_has_begun():
    """By SSH, the scheduler knows a worker some time after its host was told to start it."""
    with cluster_of_class("toy_clusters.LateCluster", {}, None, None) as client:
        assert len(client.nthreads()) == 2


@pytest.mark.parametrize(("workers", "adapt"), [(2, None), (None, {"minimum": 0, "maximum": 2})])
def test_a_queue_that_refuses_is_not_waited_for(caplog, workers, adapt):
    with (
        pytest.raises(OptionError, match=r"RefusingCluster: Command failed\. stderr: no such queue$"),
        cluster_of_class("toy_clusters.RefusingCluster", {}, workers, adapt),
    ):
        pass
    gc.collect()  # asyncio would complain now of what nobody has asked about
    assert not caplog.records


def test_a_class_whose_workers_are_those_of_its_arguments():
    with (
        pytest.raises(OptionError, match="its workers are those of its arguments; leave out workers and adapt"),
        cluster_of_class("toy_clusters.LateCluster", {}, 3, None),
    ):
        pass
