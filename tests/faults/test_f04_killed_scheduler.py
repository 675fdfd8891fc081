"""F4: the scheduler killed in the middle of a run, which then ends at once and can be resumed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client
from fault_notes import note
from toy_algorithms import Census, Tangled
from toy_runs import always_due, check_same, small_dataset

import daskfs
from daskfs.errors import Interrupted

pytestmark = pytest.mark.slow

__all__ = ["always_due"]
TESTS = Path(__file__).parents[1]


@pytest.fixture
def scheduler(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler and some workers, each a process of its own."""
    file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    quiet = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": {**os.environ, "PYTHONPATH": str(TESTS)},
    }
    one = subprocess.Popen([*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", *common], **quiet)
    worker = [*dask, "worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", "--death-timeout", "5"]
    others = [subprocess.Popen([*worker, *common], **quiet) for _ in range(request.param)]
    try:
        yield one, str(file)
    finally:
        for process in (*others, one):
            process.kill()
            process.wait()


SYNCHRONOUS, ASYNCHRONOUS = (1, Tangled(seconds=0.01)), (2, Census(seconds=0.05))
SEEDED = [
    pytest.param(*(SYNCHRONOUS if seed % 2 else ASYNCHRONOUS), seed, marks=pytest.mark.faults) for seed in range(20)
]


@pytest.mark.usefixtures("always_due")
@pytest.mark.parametrize(
    ("scheduler", "algorithm", "seed"),
    [(*SYNCHRONOUS, None), (*ASYNCHRONOUS, None), *SEEDED],
    indirect=["scheduler"],
)
def test_f4_a_killed_scheduler_ends_the_run_which_can_be_resumed(tmp_path, scheduler, algorithm, seed, request):
    (process, file), rng = scheduler, random.Random(seed)
    at = (2, 0) if seed is None else (rng.randint(1, 2), rng.randrange(10))
    dataset = small_dataset(tmp_path / "d")
    while not Path(file).exists():
        time.sleep(0.05)
    with Client(scheduler_file=file, set_as_default=False, timeout=60) as client:
        client.wait_for_workers(request.node.callspec.params["scheduler"], timeout=200)
        struck: list[float] = []

        def strike(event: object) -> None:
            if (event.number, event.blocks_done) >= at and not struck:
                process.send_signal(signal.SIGKILL)
                struck.append(time.monotonic())

        with pytest.raises(Interrupted, match=r"scheduler (or its workers are gone|does not answer)"):
            daskfs.select(dataset, algorithm, client=client, progress=strike, checkpoint=tmp_path / "c")
        taken = time.monotonic() - struck[0]
        assert taken < 60
        note(recovery=taken)
    check_same(
        daskfs.select(dataset, algorithm, checkpoint=tmp_path / "c", resume=True), daskfs.select(dataset, algorithm)
    )


@pytest.mark.parametrize("scheduler", [1], indirect=True)
def test_f4_a_killed_scheduler_ends_an_ingest_which_can_be_resumed(tmp_path, scheduler):
    process, file = scheduler
    for number in range(8):
        (tmp_path / f"{number}.svm").write_text(f"{number % 2} {number + 1}:1\n" * 1000)
    while not Path(file).exists():
        time.sleep(0.05)
    sources = str(tmp_path / "*.svm")
    with Client(scheduler_file=file, set_as_default=False, timeout=60) as client:
        client.wait_for_workers(1, timeout=200)

        def strike(event: object) -> None:
            process.send_signal(signal.SIGKILL)
            process.wait()

        with pytest.raises(Interrupted, match=r"scheduler (or its workers are gone|does not answer)"):
            daskfs.ingest(sources, tmp_path / "d.zarr", format="svmlight", client=client, progress=strike)
    again = daskfs.ingest(sources, tmp_path / "d.zarr", format="svmlight")
    assert again.n_samples == 8000
