"""A tab in Dask's own dashboard that shows how a selection goes, and metrics for Prometheus.

    dask scheduler --host 127.0.0.1 --dashboard-address 127.0.0.1:8787 --preload daskfs.observe.dashboard

adds the tab "daskfs" to the pages of the scheduler. `enable_for` does the same for a cluster of this process:

>>> from daskfs.observe.dashboard import enable_for
>>> from distributed import LocalCluster
>>> with LocalCluster(processes=False, dashboard_address="127.0.0.1:0") as cluster:
...     enable_for(cluster)
True

Dask has no interface for pages of others, so that this leans on parts of `distributed` that may change: whatever of it
is not as expected is said in one line of the scheduler's log, and everything else goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from distributed import Client, Scheduler, SchedulerPlugin

from daskfs.engine.events.messages import TOPIC
from daskfs.observe.dashboard.watched import Watched

NAME = "daskfs-watched"
"""Of the plugin, by which a scheduler is known to have one."""
PAGE = "daskfs"
logger = logging.getLogger("distributed.daskfs")  # among Dask's own loggers, so that it is set up like them


class WatchedRuns(SchedulerPlugin):
    """Takes the events of runs on a scheduler."""

    name = NAME

    def __init__(self, workers: Mapping[str, Any]) -> None:
        self.watched, self.has_page = Watched(self._at_work), False
        self._states = workers  # as they are at any time
        self._workers = {address: str(worker.name) for address, worker in workers.items()}

    def log_event(self, topic: str, msg: Any) -> None:
        if topic == TOPIC:
            self.watched.take(msg, time.time())

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self._workers[worker] = str(scheduler.workers[worker].name)

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        self.watched.worker_left(self._workers.pop(worker, worker))

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        self.watched.client_left(client)

    def _at_work(self) -> list[str]:
        """Names of workers that have a task of daskfs, as far as this version of Dask says so."""
        with suppress(Exception):
            return [str(one.name) for one in self._states.values() if any(map(_is_ours, one.processing))]
        return []


def _is_ours(task: Any) -> bool:
    return str(task.key).startswith("daskfs-")


def dask_setup(server: Any) -> None:
    """What ``--preload`` calls; anything but a scheduler has no page."""
    if isinstance(server, Scheduler):
        attach(server)
    else:
        logger.warning("daskfs: --preload daskfs.observe.dashboard is for the scheduler, not for a %s", type(server))


def attach(scheduler: Scheduler) -> bool:
    """Give a scheduler the page and the metrics, once; True if it has the page. Call it in the scheduler's own loop."""
    if NAME in scheduler.plugins:
        known: Any = scheduler.plugins[NAME]
        return bool(known.has_page)
    plugin = WatchedRuns(scheduler.workers)
    scheduler.add_plugin(plugin, name=NAME)
    _tried("what was said before", lambda: _catch_up(scheduler, plugin.watched))
    plugin.has_page = _tried("the page", lambda: _add_page(scheduler, plugin.watched))
    _tried("metrics", _add_metrics)
    return plugin.has_page


def enable_for(cluster: Any) -> bool:
    """Give the scheduler of a cluster such as `LocalCluster` the page; True if it has it now."""

    async def attached() -> bool:
        return attach(cluster.scheduler)

    if not is_here(cluster):
        logger.warning("daskfs: the scheduler of this cluster is elsewhere; start it with --preload %s", __name__)
        return False
    return bool(cluster.sync(attached))


def is_here(cluster: Any) -> bool:
    """Whether the scheduler of a cluster is in this process, as those of job queues are."""
    return isinstance(getattr(cluster, "scheduler", None), Scheduler)


def is_enabled(client: Client) -> bool:
    """Whether the scheduler of a client has the page."""
    try:
        return bool(client.run_on_scheduler(_has_page))
    except Exception:  # a scheduler without daskfs: others say more of that
        return False


def _has_page(dask_scheduler: Scheduler) -> bool:
    return bool(getattr(dask_scheduler.plugins.get(NAME), "has_page", False))


def _tried(what: str, do: Callable[[], object]) -> bool:
    try:
        do()
    except Exception as error:
        logger.warning("daskfs: %s cannot be added to this version of distributed (%r)", what, error)
        return False
    return True


def _catch_up(scheduler: Scheduler, watched: Watched) -> None:
    """Learn of a run that began before."""
    for when, event in scheduler.get_events(TOPIC):
        watched.take(event, when)


def _add_page(scheduler: Scheduler, watched: Watched) -> None:
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables
    from tornado.ioloop import IOLoop

    from daskfs.observe.dashboard.page import page

    known = template_variables(scheduler)  # the same for every page: one list of tabs for them all
    pages: list[str] = known["pages"]
    application = scheduler.http_application
    prefix = next((app.prefix for app in application.applications if hasattr(app, "prefix")), None)
    if prefix is None:
        raise RuntimeError("it runs without a dashboard")
    show = {f"/{PAGE}": lambda _, extra, doc: page(watched, extra, doc)}
    mine = BokehApplication(show, scheduler, prefix=prefix, template_variables=known)
    application.add_application(mine)
    mine.initialize(IOLoop.current())
    mine.start()
    if PAGE not in pages:
        pages.insert(pages.index("info") if "info" in pages else len(pages), PAGE)


def _add_metrics() -> None:
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        logger.info("daskfs: no metrics without prometheus-client: pip install 'daskfs[cluster]'")
        return
    from daskfs.observe.dashboard.prometheus import register

    register(NAME)
