"""Dask clusters that are started for a command, and stopped after it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from ipaddress import ip_address
from time import monotonic, sleep
from typing import Any

from distributed import Client, LocalCluster, Scheduler, SpecCluster
from distributed.comm.addressing import get_address_host
from distributed.core import Status
from distributed.system import MEMORY_LIMIT

from daskfs.engine.cluster.pool import available_cores, prepare_workers
from daskfs.engine.cluster.worker_pool import await_worker
from daskfs.errors import OptionError

DASHBOARD_PORT = 8787  # where Dask's users look first
LOOPBACK = "127.0.0.1"
START_SECONDS = 120  # until worker processes on this machine have started
WAIT_IN_QUEUE = 3600  # seconds for the first worker of a cluster that is started: batch systems have queues
LOGGERS = ("asyncio", "distributed", "distributed.client")  # the last has a level of its own
_PLAIN = ("tcp://", "ws://")  # whoever reaches these can run anything; TLS asks for a certificate
WAIT_FOR_OTHERS = 60  # seconds from the first worker to the last: a run starts with those that are there


@contextmanager
def local_cluster(processes: int | None = None) -> Iterator[Client]:
    """Yield a client of a new local cluster, with one process per core, that other machines cannot reach."""
    count = processes or available_cores()
    dashboard = f"{LOOPBACK}:{_free_port(DASHBOARD_PORT)}"
    options = {"n_workers": 0, "threads_per_worker": 1, "processes": True, "memory_limit": MEMORY_LIMIT // count}
    with (
        silent(*LOGGERS),
        LocalCluster(host=LOOPBACK, dashboard_address=dashboard, silence_logs=logging.CRITICAL, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        with _ignore_interrupts():
            cluster.scale(count)
            deadline = monotonic() + START_SECONDS
            while monotonic() < deadline and sum(bool(nanny.pid) for nanny in list(cluster.workers.values())) < count:
                sleep(0.01)  # until all processes exist, whether or not they are ready
        try:
            client.wait_for_workers(count, timeout=START_SECONDS)
        except TimeoutError:
            raise OptionError(
                f"{count} processes did not start in {START_SECONDS} s; try --processes 1, or --serial"
            ) from None
        yield client


@contextmanager
def cluster_of_class(
    path: str, arguments: Mapping[str, Any], workers: int | None, adapt: Mapping[str, int] | None
) -> Iterator[Client]:
    """Yield a client of a cluster of a class such as ``dask_jobqueue.SLURMCluster``; stop the cluster afterwards.

    The cluster is scaled to a number of `workers`, or it adapts the number to the work, between the "minimum" and the
    "maximum" in `adapt`. Without either it has the workers that the `arguments` of the class say.
    """
    with _start(path, arguments, workers, adapt) as cluster, Client(cluster, set_as_default=False) as client:
        try:
            await_worker(client, WAIT_IN_QUEUE)
        except TimeoutError:
            raise OptionError(f"cluster: {path}: no worker has come within {WAIT_IN_QUEUE:,} seconds") from None
        wanted = workers if adapt is None else adapt["minimum"]
        with suppress(TimeoutError):  # then with those that are there
            client.wait_for_workers(wanted or _count_started(cluster) or 1, timeout=WAIT_FOR_OTHERS)
        prepare_workers(client)
        yield client


@contextmanager
def _start(
    path: str, arguments: Mapping[str, Any], workers: int | None, adapt: Mapping[str, int] | None
) -> Iterator[Any]:
    """Yield a new cluster whose workers have been requested, but may not have joined yet."""
    kind = _class_at(path)
    if kind is LocalCluster:
        arguments = {"dashboard_address": f"{LOOPBACK}:0", **arguments}  # its own default is open to the network
    with ExitStack() as stack:
        try:
            with silent("asyncio", "distributed", "tornado.application"):
                cluster = stack.enter_context(kind(**arguments))
                _scale(cluster, workers, adapt)
        except Exception as error:  # whatever its package raises, it is about its arguments
            raise OptionError(f"cluster: {path}: {_first_cause(error)}") from error
        yield cluster


def _scale(cluster: Any, workers: int | None, adapt: Mapping[str, int] | None) -> None:
    """Request workers from a cluster. Raise the error of a worker that cannot be started."""
    if workers is None and adapt is None:
        return
    if not getattr(cluster, "_supports_scaling", True):
        raise OptionError("its workers are those of its arguments; leave out workers and adapt")
    cluster.scale(workers if adapt is None else max(adapt["minimum"], 1))
    if isinstance(cluster, SpecCluster):
        cluster.sync(_start_all, cluster)
    if adapt is not None:
        cluster.adapt(**adapt)


async def _start_all(cluster: SpecCluster) -> None:
    """Return when every worker was started or queued. Raise the error of a worker, which Dask itself would only log."""
    with suppress(Exception):  # raised again below
        await cluster._correct_state()  # which `scale` has only scheduled
    workers = list(cluster.workers.values())
    results = await asyncio.gather(*workers, return_exceptions=True)  # starts those again that have failed
    failed = [(worker, error) for worker, error in zip(workers, results, strict=True) if isinstance(error, Exception)]
    for worker, _ in failed:
        worker.status = Status.failed  # Dask then does not try to close it
    if failed:
        raise failed[0][1]


def _count_started(cluster: Any) -> int:
    """Return how many workers a cluster has started because of its arguments; 0 if the number is not known."""
    if not isinstance(cluster, SpecCluster):
        return 0
    return sum(getattr(process, "n_workers", 1) for process in cluster.workers.values())  # a process may have several


def _first_cause(error: BaseException) -> str:
    """Return the message of the root error in a chain of causes (``__cause__``), as one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


def _class_at(path: str) -> Any:
    module, _, name = path.rpartition(".")
    if not name.endswith("Cluster"):
        raise OptionError(f"cluster: {path}: names no cluster; one is distributed.LocalCluster")
    try:
        return getattr(import_module(module), name)
    except (ImportError, ValueError, AttributeError) as error:
        raise OptionError(f"cluster: {path}: no such class ({error}); is its package installed?") from error


@contextmanager
def _ignore_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C in worker processes, which inherit the setting at their start, so that the command stops them."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set it, and is interrupted
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def silent(*loggers: str) -> Iterator[None]:
    """Silence Dask's log messages while a cluster is started or stopped; errors are still raised."""
    levels = {logger: logging.getLogger(logger).level for logger in loggers}
    try:
        for logger in loggers:
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in levels.items():
            logging.getLogger(logger).setLevel(level)


def _free_port(wanted: int) -> int:
    """Return the wanted port if it is free, otherwise 0, which stands for any free port."""
    with socket.socket() as listener:
        try:
            listener.bind((LOOPBACK, wanted))
        except OSError:
            return 0
    return wanted


def exposed_addresses(cluster: Any) -> list[str]:
    """Return the addresses of a cluster's scheduler and dashboard that other machines can reach.

    The list is empty for a scheduler that does not run in this process.
    """
    scheduler = getattr(cluster, "scheduler", None)
    if not isinstance(scheduler, Scheduler):
        return []
    addresses = [listener.listen_address for listener in scheduler.listeners]
    places = [(f"scheduler {address}", address) for address in addresses if address.startswith(_PLAIN)]
    if (dashboard := scheduler.services.get("dashboard")) is not None:
        host = f"[{dashboard.address}]" if ":" in dashboard.address else dashboard.address
        places.append((f"dashboard http://{host}:{dashboard.port}", f"tcp://{host}:{dashboard.port}"))
    return [place for place, address in places if is_exposed(address)]


def is_exposed(address: str) -> bool:
    """Return whether other machines can reach an address.

    >>> from daskfs.engine.cluster.start import is_exposed
    >>> hosts = ("127.0.0.1", "[::1]", "localhost", "0.0.0.0", "[::]", "10.0.0.5")
    >>> [is_exposed(f"tcp://{host}:8786") for host in hosts]
    [False, False, False, True, True, True]
    """
    try:
        return not ip_address(get_address_host(address)).is_loopback
    except ValueError:  # a name, or nothing, which means everywhere
        return get_address_host(address) != "localhost"
