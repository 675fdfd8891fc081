"""Workers that a SLURM queue starts, as the job file of docs/clusters.md asks for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from clusters.jobs import check_refused, documented, eventually, marked, missing, run, selection_of, workers_of
from clusters.slurm import Slurm, slurm

import daskfs

pytestmark = pytest.mark.timeout(900)

START = "dask_jobqueue.SLURMCluster"


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    pytest.importorskip("dask_jobqueue", reason="not installed: dask-jobqueue")
    if why := missing("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo"):
        pytest.skip(why)
    if os.geteuid() != 0:
        pytest.skip("needs root, as which slurmd starts jobs")
    with slurm(tmp_path_factory.mktemp("slurm")) as found:
        yield found


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """The job file, with data beside it."""
    rng = np.random.default_rng(0)
    X = sp.random_array((4000, 500), density=0.02, rng=rng, format="csr", dtype=np.float32)
    daskfs.write_dataset(tmp_path / "clicks.zarr", X, X[:, [10, 20, 30]] @ np.array([3.0, -3, 3]) > 0.01)
    (tmp_path / "job.toml").write_text(documented(START))
    return tmp_path / "job.toml"


def changes(workers: int, per_job: int) -> dict[str, Any]:
    """What is different here: a smaller machine, and nobody else may reach what runs on it."""
    return {
        "data.train": "clicks.zarr",
        "select.k": 3,
        "cluster.workers": workers,
        "cluster.arguments.cores": per_job,
        "cluster.arguments.processes": per_job,
        "cluster.arguments.memory": f"{2 * per_job}GB",
        "cluster.arguments.interface": "lo",
        "cluster.arguments.scheduler_options": {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"},
        "cluster.arguments.python": sys.executable,
        "cluster.arguments.log_directory": "logs",
    }


def test_one_worker_gives_the_bits_of_one_process(queue, job):
    given = changes(workers=1, per_job=1)
    serial = run(job, {**given, "out": "serial"}, "--serial", environment=queue.environment)
    assert serial.code == 0, serial.errors
    assert not queue.queued()
    assert not queue.ran()
    ran = run(job, {**given, "out": "slurm"}, environment=queue.environment)
    assert ran.code == 0, ran.errors
    assert selection_of(job.parent / "slurm") == selection_of(job.parent / "serial")
    assert "dashboard: http://127.0.0.1:" in ran.errors
    assert eventually(lambda: not queue.queued()), queue.queued()
    assert [one["Name"] for one in queue.ran()] == ["dask-worker"]


def test_several_workers_of_several_jobs_and_none_is_left(queue, job):
    before = len(queue.ran())
    given = {**changes(workers=4, per_job=2), "select.synchronous": True}
    ran = run(job, {**given, "out": "slurm"}, environment=queue.environment)
    assert ran.code == 0, ran.errors
    assert workers_of(job.parent / "slurm") == 4
    assert eventually(lambda: not queue.queued()), queue.queued()
    ended = queue.ran()[before:]
    assert [(one["Partition"], one["Account"], one["ProcCnt"]) for one in ended] == [("normal", "project", "2")] * 2
    assert eventually(lambda: not workers_left(queue)), workers_left(queue)


def workers_left(queue: Slurm) -> list[str]:
    return [" ".join(process.cmdline()) for process in marked(queue.mark) if "SLURM_JOB_ID" in process.environ()]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("cluster.arguments.queue", "nowhere", "invalid partition specified: nowhere"),
        ("cluster.arguments.memory", "64GB", "Requested node configuration is not available"),
    ],
)
def test_what_the_queue_refuses_is_said_in_a_line(queue, job, key, value, reason):
    before = queue.ran()
    given = {**changes(workers=1, per_job=1), key: value, "out": "never"}
    check_refused(run(job, given, environment=queue.environment), START, reason)
    assert not (job.parent / "never").exists()
    assert not queue.queued()
    assert queue.ran() == before
