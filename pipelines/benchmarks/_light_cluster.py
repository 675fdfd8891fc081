"""A cluster of very many light workers on one machine: a real scheduler, real workers, and no process for each of them.

The scheduler has a process of its own, and all workers share a few other processes, each worker with a thread for its
task. What Dask does for its own sake several times a second in every worker (profiles, memory, ticks) is turned off,
since a machine with a worker for every core would spread it over the cores.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

import dask
import psutil
from distributed import Client, Scheduler, Worker

HOST = "127.0.0.1"
QUIET = {
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.tick.interval": "1m",
    "distributed.scheduler.dashboard.bokeh-application.check_unused_sessions_milliseconds": 10**7,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.memory.monitor-interval": "1h",
    "distributed.worker.profile.enabled": False,
    "distributed.comm.timeouts.connect": "60s",
    "distributed.comm.timeouts.tcp": "300s",
}
START_SECONDS = 600


@dataclass(frozen=True)
class Processes:
    """The processes of a light cluster, to ask for their CPU seconds."""

    scheduler: psutil.Process
    workers: list[psutil.Process]
    centre: psutil.Process | None
    """The process of the only worker with the resource ``centre``, or None."""
    start_worker: Callable[[], psutil.Process]
    """Starts one more process with one worker, and returns it when the worker runs."""

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds so far of the scheduler, of all workers together, and of the worker of the centre."""
        groups = {
            "scheduler": [self.scheduler],
            "workers": self.workers,
            "centre": [self.centre] if self.centre else [],
        }
        return {name: sum(map(_cpu_seconds, group)) for name, group in groups.items()}


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _serve(server: Any, ready: Any, module: str, count: int = 1, **options: Any) -> None:
    """Run `count` servers in this process until it is terminated, and send the address of the last one when all run.

    The module of the tasks is imported first, since workers of one process would import it side by side.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import_module(module)

    async def run() -> None:
        servers = [server(**options) for _ in range(count)]
        for start in range(0, count, 16):  # all at once would wait for each other longer than Dask allows
            await asyncio.gather(*servers[start : start + 16])
        ready.send(servers[-1].address)
        await asyncio.Event().wait()

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with dask.config.set(QUIET):
        asyncio.run(run())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


@contextmanager
def light_cluster(
    workers: int, module: str, hosts: int = 1, with_centre: bool = False
) -> Iterator[tuple[Client, Processes]]:
    """Yield a client of a new cluster of light workers in `hosts` processes, and its processes.

    Tasks are those of a `module`, which every process imports.

    With a centre there is one more worker, in a process of its own, with the resource that the centre asks for.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="daskfs-"))

        def start(server: Any, **options: Any) -> tuple[psutil.Process, Any]:
            ours, theirs = multiprocessing.get_context("spawn").Pipe()
            process = multiprocessing.get_context("spawn").Process(
                target=_serve, args=(server, theirs, module), kwargs={"host": HOST, **options}, daemon=True
            )
            process.start()
            stack.callback(process.join, 10)
            stack.callback(process.kill)
            return psutil.Process(process.pid), ours

        def address(ours: Any) -> str:
            if not ours.poll(START_SECONDS):
                raise TimeoutError(f"{workers} workers did not start in {START_SECONDS} s")
            return str(ours.recv())

        scheduler, ours = start(Scheduler, port=0, dashboard_address=f"{HOST}:0")
        options: dict[str, Any] = {"scheduler_ip": address(ours), "nthreads": 1, "memory_limit": 0}
        options["local_directory"] = folder
        started = [
            start(Worker, count=workers * (host + 1) // hosts - workers * host // hosts, **options)
            for host in range(hosts)
        ]
        centre = start(Worker, resources={"centre": 1}, **options) if with_centre else None
        for _, pipe in [*started, *([centre] if centre else [])]:
            address(pipe)
        stack.enter_context(dask.config.set(QUIET))
        client = stack.enter_context(Client(options["scheduler_ip"], set_as_default=False, timeout=60))
        client.wait_for_workers(workers + with_centre, timeout=START_SECONDS)

        def start_worker() -> psutil.Process:
            process, pipe = start(Worker, **options)
            address(pipe)
            return process

        yield client, Processes(scheduler, [process for process, _ in started], centre and centre[0], start_worker)
