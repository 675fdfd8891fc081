"""F30: a scheduler or a worker with other versions than the client's is refused at the start, or when it joins."""

from __future__ import annotations

import logging
import re
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner
from dask_processes import said, scheduler, worker
from distributed import Client
from toy_algorithms import Census, Tangled
from toy_runs import check_same, small_dataset, wait_until

import daskfs
from daskfs.cli import main
from daskfs.engine import run
from daskfs.engine.cluster.plugin import check_same as check_same_versions
from daskfs.engine.cluster.plugin import versions_here
from daskfs.engine.cluster.pool import prepare_workers
from daskfs.engine.events.messages import TOPIC
from daskfs.errors import OptionError

NO_NANNY = "--no-nanny"
NOTHING_NEW = "ignore:Mismatched versions found:distributed.versions.VersionMismatchWarning"


def pretending(folder: Path, **versions: str) -> dict[str, str]:
    """An environment in which packages say that they have another version."""
    for name, number in versions.items():
        about = folder / "packages" / f"{name}-{number}.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    return {"PYTHONPATH": str(folder / "packages")}


def test_f30_only_what_matters():
    here = versions_here()
    assert here["daskfs"] == version("daskfs")
    assert here["numpy"] == ".".join(version("numpy").split(".")[:2])
    check_same_versions("worker a", dict(here), here)
    with pytest.raises(OptionError) as caught:
        check_same_versions("worker a", {**here, "zarr": "2.18", "numba": None}, here)
    assert str(caught.value) == (
        f"worker a has no numba (here {here['numba']}), zarr 2.18 (here {here['zarr']}); install the same everywhere"
    )


@pytest.mark.filterwarnings(NOTHING_NEW)  # Dask warns too, in a table of many lines
def test_f30_a_scheduler_with_another_daskfs_is_refused(tmp_path):
    dataset = small_dataset(tmp_path / "d")
    with (
        scheduler(tmp_path, environment=pretending(tmp_path, daskfs="0.0.9")) as address,
        worker(address, tmp_path / "worker.log", NO_NANNY),
    ):
        out = tmp_path / "run"
        flags = ("select", dataset.url, "-a", "substitution", "-k", "3", "--out", str(out), "--scheduler", address)
        done = CliRunner().invoke(main, flags)
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        f"error: the Dask scheduler has daskfs 0.0.9 (here {version('daskfs')}); install the same everywhere"
    )
    assert not out.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings(NOTHING_NEW)
def test_f30_a_worker_with_another_numpy_is_refused_also_when_it_joins_later(tmp_path):
    dataset, other = small_dataset(tmp_path / "d"), pretending(tmp_path, numpy="1.26.4")
    log, late = tmp_path / "worker.log", tmp_path / "late.log"
    with scheduler(tmp_path) as address, Client(address, set_as_default=False) as client:
        with worker(address, tmp_path / "other.log", NO_NANNY, environment=other):
            client.wait_for_workers(1, timeout=200)
            with pytest.raises(OptionError, match=r"^worker tcp://127\S+ has numpy 1\.26 \(here 2\.\d+\)"):
                daskfs.select(dataset, Tangled(), client=client)
            wait_until(lambda: [is_worker for is_worker, _ in refusals(client)] == [False])
        with worker(address, log, NO_NANNY):
            said(log, "Registered to")
            prepare_workers(client)  # what the one before left behind stands in nobody's way
            with worker(address, late, environment=other):
                said(late, r"OptionError: worker tcp://127\S+ has numpy 1\.26 \(here 2\.\d+\)")
                wait_until(lambda: len(client.nthreads()) == 1)
                wait_until(lambda: [is_worker for is_worker, _ in refusals(client)] == [False, True])
            assert all(re.match(r"worker tcp://127\S+ has numpy 1\.26", why) for _, why in refusals(client))
            check_same(daskfs.select(dataset, Census(), client=client), daskfs.select(dataset, Census()))


def refusals(client: Client) -> list[tuple[bool, str]]:
    """Those that were told to whoever watches: whether it was a worker, and why."""
    told = [event for _, event in client.get_events(TOPIC)]
    return [(bool(event["worker"]), event["why"]) for event in told if event["what"] == "refused"]


class Large(Census):
    """Takes more than a small worker has, and less than a large one."""

    def nbytes(self, meta):
        return 100 << 20


@pytest.mark.slow
def test_f10_a_worker_that_is_too_small_for_a_run_is_kept_out_while_it_lasts(tmp_path):
    dataset, late = small_dataset(tmp_path / "d"), tmp_path / "late.log"
    small = "--memory-limit", "400MB"
    with ExitStack() as running:
        address = running.enter_context(scheduler(tmp_path))
        client = running.enter_context(Client(address, set_as_default=False))
        running.enter_context(worker(address, tmp_path / "large.log", NO_NANNY, "--memory-limit", "4GB"))
        joining = []

        def progress(_: object) -> None:
            if not joining:
                joining.append(running.enter_context(worker(address, late, *small)))
                said(late, r"OptionError: each thread of worker tcp://127\S+ has \S+ MiB of memory")
                wait_until(lambda: len(client.nthreads()) == 1)
                wait_until(lambda: refusals(client))

        given = daskfs.select(dataset, Large(), client=client, progress=progress)
        assert joining
        ((is_worker, why),) = refusals(client)
        assert is_worker
        assert re.match(r"each thread of worker tcp://127\S+ has \S+ MiB of memory", why)
        check_same(given, daskfs.select(dataset, Large()))
        running.enter_context(worker(address, tmp_path / "later.log", NO_NANNY, *small))  # when the run is over it may
        client.wait_for_workers(2, timeout=200)
        with pytest.raises(OptionError, match=r"each thread of worker tcp://127\S+ has"):
            daskfs.select(dataset, Large(), client=client)


@pytest.mark.slow
def test_f10_a_worker_that_joins_after_the_others_were_looked_at_is_looked_at_too(tmp_path, monkeypatch, caplog):
    dataset, late = small_dataset(tmp_path / "d"), tmp_path / "late.log"
    reference = daskfs.select(dataset, Large())
    with ExitStack() as running:
        address = running.enter_context(scheduler(tmp_path))
        client = running.enter_context(Client(address, set_as_default=False))
        running.enter_context(worker(address, tmp_path / "large.log", NO_NANNY, "--memory-limit", "4GB"))
        check_memory = run.check_memory

        def and_one_joins(*given: object) -> object:
            found = check_memory(*given)
            running.enter_context(worker(address, late, NO_NANNY, "--memory-limit", "400MB"))
            said(late, "Registered to")
            return found

        monkeypatch.setattr(run, "check_memory", and_one_joins)
        with caplog.at_level(logging.WARNING, "daskfs"):
            given = daskfs.select(dataset, Large(), client=client)
        wait_until(lambda: len(client.nthreads()) == 1)
    check_same(given, reference)
    assert "note: each thread of worker tcp://127" in caplog.text
