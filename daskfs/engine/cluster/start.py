"""The cluster a command runs on: one that is there, one that is started for it, or none."""

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

import psutil
from distributed import Client, LocalCluster, Scheduler, SpecCluster
from distributed.comm.addressing import get_address_host
from distributed.core import Status
from distributed.system import MEMORY_LIMIT

from daskfs.engine.cluster.connect import cluster_at
from daskfs.engine.cluster.pool import available_cores, prepare_workers
from daskfs.engine.cluster.worker_pool import await_worker
from daskfs.errors import OptionError

DASHBOARD_PORT = 8787  # where Dask's users look first
LOOPBACK = "127.0.0.1"
START_SECONDS = 120  # for worker processes on this machine to be there
WAIT_IN_QUEUE = 3600  # seconds for the first workers of a cluster that is started: batch systems let people wait
PLAIN_SCHEMES = ("tcp://", "ws://")  # whoever reaches these can run anything; TLS asks for a certificate
WAIT_FOR_OTHERS = 60  # seconds from the first to the last: a run shares its passes among those that see it begin


@contextmanager
def cluster_for(scheduler: str | None, serial: bool, processes: int | None) -> Iterator[Client | None]:
    """What the flags ``--scheduler``, ``--serial`` and ``--processes`` ask for: by default a cluster on this machine.

    None stands for this process.
    """
    if sum((scheduler is not None, serial, processes is not None)) > 1:
        raise OptionError("--scheduler, --serial, --processes: choose one of them")
    with cluster_at(scheduler) if scheduler is not None or serial else local_cluster(processes) as client:
        yield client


@contextmanager
def local_cluster(processes: int | None = None) -> Iterator[Client]:
    """A client of new worker processes on this machine, one for every core; nobody else can reach them."""
    count = processes or available_cores()
    with (
        _silent("asyncio", "distributed"),
        LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:{_free_port(DASHBOARD_PORT)}",
            silence_logs=logging.CRITICAL,
            memory_limit=MEMORY_LIMIT // count,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        with _deaf_to_interrupts():
            cluster.scale(count)
            _wait_for_processes(count)
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
    """A client of a cluster that a class such as ``dask_jobqueue.SLURMCluster`` starts, and stops afterwards.

    Parameters
    ----------
    path
        The class, with its module.
    arguments
        For the class, as it documents them.
    workers
        How many to ask it for, where its arguments do not say.
    adapt
        Its "minimum" and "maximum", where the number is to follow the work.
    """
    with _started(path, arguments, workers, adapt) as cluster, Client(cluster, set_as_default=False) as client:
        try:
            await_worker(client, WAIT_IN_QUEUE)
        except TimeoutError:
            raise OptionError(f"cluster: {path}: no worker has come within {WAIT_IN_QUEUE:,} seconds") from None
        asked_for = workers if adapt is None else adapt["minimum"]
        with suppress(TimeoutError):  # then with those who are there
            client.wait_for_workers(asked_for or _begun_by(cluster) or 1, timeout=WAIT_FOR_OTHERS)
        prepare_workers(client)
        yield client


@contextmanager
def _started(
    path: str, arguments: Mapping[str, Any], workers: int | None, adapt: Mapping[str, int] | None
) -> Iterator[Any]:
    """A cluster of a class, with workers on their way."""
    kind = _class_at(path)
    if kind is LocalCluster:
        arguments = {"dashboard_address": f"{LOOPBACK}:0", **arguments}  # its own default is open to the network
    with ExitStack() as started:
        try:
            with _silent("asyncio", "distributed", "tornado.application"):
                cluster = started.enter_context(kind(**arguments))
                _scale(cluster, workers, adapt)
        except Exception as error:  # whatever its package raises, it is about what it was given
            raise OptionError(f"cluster: {path}: {_in_a_line(error)}") from error
        yield cluster


def _scale(cluster: Any, workers: int | None, adapt: Mapping[str, int] | None) -> None:
    """Ask a cluster for workers; raise what keeps it from starting any."""
    if workers is None and adapt is None:
        return
    if not getattr(cluster, "_supports_scaling", True):
        raise OptionError("its workers are those of its arguments; leave out workers and adapt")
    cluster.scale(workers if adapt is None else max(adapt["minimum"], 1))
    if isinstance(cluster, SpecCluster):
        cluster.sync(_all_begun, cluster)
    if adapt is not None:
        cluster.adapt(**adapt)


async def _all_begun(cluster: SpecCluster) -> None:
    """Return when every worker was asked for, as in a queue; raise what one is refused for.

    Dask itself would only log it, and everybody wait for workers that never come.
    """
    with suppress(Exception):  # raised again below
        await cluster._correct_state()  # which `scale` has only scheduled
    workers = list(cluster.workers.values())
    begun = await asyncio.gather(*workers, return_exceptions=True)  # who was refused is tried once more, and says why
    refused = {worker: error for worker, error in zip(workers, begun, strict=True) if isinstance(error, Exception)}
    for worker in refused:
        worker.status = Status.failed  # Dask closes nobody who was not even begun
    for error in refused.values():
        raise error


def _begun_by(cluster: Any) -> int:
    """How many workers a cluster has begun by itself, as its arguments say, and as far as it can be asked."""
    if not isinstance(cluster, SpecCluster):
        return 0
    return sum(getattr(process, "n_workers", 1) for process in cluster.workers.values())  # by SSH a process has several


def _in_a_line(error: BaseException) -> str:
    """What was wrong in the first place, which packages wrap again and again, and on how many lines they like."""
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
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach: it is for the command, which then stops them in good order.

    They inherit deafness, and so for the moment that takes the command is deaf, too.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone may set it, and alone is interrupted
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _wait_for_processes(count: int) -> None:
    """Wait until so many worker processes are there, if not yet ready."""
    deadline = monotonic() + START_SECONDS
    while monotonic() < deadline:
        children = psutil.Process().children()
        if sum(any("spawn_main" in part for part in _command(child)) for child in children) >= count:
            return
        sleep(0.01)


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):  # it has just ended
        return process.cmdline()
    return []


@contextmanager
def _silent(*loggers: str) -> Iterator[None]:
    """What Dask says of its own parts while they are stopped is no news to whoever stopped them; errors are raised."""
    levels = {logger: logging.getLogger(logger).level for logger in loggers}
    try:
        for logger in loggers:
            logging.getLogger(logger).setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in levels.items():
            logging.getLogger(logger).setLevel(level)


def _free_port(wanted: int) -> int:
    """The port if nobody listens there, else 0: any."""
    with socket.socket() as listener:
        try:
            listener.bind((LOOPBACK, wanted))
        except OSError:
            return 0
    return wanted


def exposed_addresses(cluster: Any) -> list[str]:
    """The addresses beyond loopback at which a scheduler in this process listens, or shows its dashboard."""
    scheduler = getattr(cluster, "scheduler", None)
    if not isinstance(scheduler, Scheduler):  # it is elsewhere, where others have started it
        return []
    found = [listener.listen_address for listener in scheduler.listeners]
    plain = [f"scheduler {address}" for address in found if address.startswith(PLAIN_SCHEMES) and is_open(address)]
    pages = scheduler.services.get("dashboard")
    if pages is not None and is_open(place := f"tcp://{_bracketed(pages.address)}:{pages.port}"):
        plain.append(f"dashboard {place.replace('tcp', 'http', 1)}")
    return plain


def is_open(address: str) -> bool:
    """True unless only this machine can reach what listens there.

    >>> from daskfs.engine.cluster.start import is_open
    >>> [is_open(f"tcp://{host}:8786") for host in ("127.0.0.1", "[::1]", "localhost", "0.0.0.0", "[::]", "10.0.0.5")]
    [False, False, False, True, True, True]
    """
    try:
        return not ip_address(get_address_host(address)).is_loopback
    except ValueError:  # a name, or nothing, which means everywhere
        return get_address_host(address) != "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
