"""A tab in Dask's dashboard that shows a selection while it runs, and metrics for Prometheus.

    dask scheduler --host 127.0.0.1 --dashboard-address 127.0.0.1:8787 --preload daskfs.observe.dashboard

adds the tab "daskfs" to the pages of the scheduler. `enable_for` adds the tab for a cluster of this process:

>>> from daskfs.observe.dashboard import enable_for
>>> from distributed import LocalCluster
>>> port = "127.0.0.1:0"
>>> with LocalCluster(processes=False, dashboard_address=port, worker_dashboard_address=port) as cluster:
...     enable_for(cluster)
True

Dask has no public interface for further pages, so this module uses parts of `distributed` that may change. If one of
them is missing, a line in the scheduler's log says so, and everything else works.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from distributed import Client, Scheduler, SchedulerPlugin
from distributed.utils import format_dashboard_link

from daskfs.engine.cluster.waiting import call, call_briefly
from daskfs.engine.events.messages import TOPIC
from daskfs.observe.dashboard.live_runs import LiveRuns

NAME = "daskfs-watched"
"""The name of the scheduler plugin."""
PAGE = "daskfs"
logger = logging.getLogger("distributed.daskfs")  # a child of Dask's logger, and configured with it


class LiveRunsPlugin(SchedulerPlugin):
    """Scheduler plugin that passes the events of selection runs on to `LiveRuns`."""

    name = NAME

    def __init__(self, workers: Mapping[str, Any]) -> None:
        self.live_runs, self.has_page = LiveRuns(self._at_work), False
        self._states = workers  # changes as workers come and go
        self._workers = {address: str(worker.name) for address, worker in workers.items()}

    def log_event(self, topic: str, msg: Any) -> None:
        if topic == TOPIC:
            self.live_runs.take(msg, time.time())

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self._workers[worker] = str(scheduler.workers[worker].name)

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        self.live_runs.worker_left(self._workers.pop(worker, worker))

    def remove_client(self, scheduler: Scheduler, client: str) -> None:
        self.live_runs.client_left(client)

    def _at_work(self) -> list[str]:
        """Return the names of workers that have a task of daskfs, or no names if Dask keeps them elsewhere."""
        with suppress(Exception):
            tasks = {str(state.name): [str(task.key) for task in state.processing] for state in self._states.values()}
            return [name for name, keys in tasks.items() if any(key.startswith("daskfs-") for key in keys)]
        return []


def dask_setup(server: Any) -> None:
    """Attach the page to a scheduler, when Dask calls this function for ``--preload``; warn on other servers."""
    if isinstance(server, Scheduler):
        attach(server)
    else:
        logger.warning("daskfs: --preload daskfs.observe.dashboard is for the scheduler, not for a %s", type(server))


def attach(scheduler: Scheduler) -> bool:
    """Add page and metrics to a scheduler, once, in its event loop; return whether the scheduler has the page."""
    if NAME in scheduler.plugins:
        known: Any = scheduler.plugins[NAME]
        return bool(known.has_page)
    plugin = LiveRunsPlugin(scheduler.workers)
    scheduler.add_plugin(plugin, name=NAME)
    take = plugin.live_runs.take  # also the events of runs that began before
    _attempt("earlier events", lambda: [take(event, when) for when, event in scheduler.get_events(TOPIC)])
    plugin.has_page = _attempt("the page", lambda: _add_page(scheduler, plugin.live_runs))
    _attempt("metrics", _add_metrics)
    return plugin.has_page


def enable_for(cluster: Any) -> bool:
    """Add the page to the scheduler of a cluster such as `LocalCluster`; return whether the scheduler has the page."""

    async def attached() -> bool:
        return attach(cluster.scheduler)

    if not is_here(cluster):
        logger.warning("daskfs: the scheduler of this cluster is elsewhere; start it with --preload %s", __name__)
        return False
    return bool(cluster.sync(attached))


def is_here(cluster: Any) -> bool:
    """Return whether the scheduler of a cluster is in this process, as the scheduler is for job queues."""
    return isinstance(getattr(cluster, "scheduler", None), Scheduler)


def link_of(client: Client) -> str:
    """Return the link to the dashboard of a client's scheduler, or "" if the scheduler has no dashboard.

    The property of Dask's client asks the scheduler, and would wait for a frozen scheduler for ever.
    """
    if client.cluster is not None:
        return str(client.cluster.dashboard_link)
    scheduler: Any = client.scheduler
    port = call(client, scheduler.identity)["services"].get("dashboard")
    return str(format_dashboard_link(urlsplit(scheduler.address).hostname, port)) if port else ""


def is_enabled(client: Client) -> bool:
    """Return whether the scheduler of a client has the page "daskfs" in its dashboard."""
    try:
        return bool(call_briefly(client, client.run_on_scheduler, _has_page))
    except Exception:  # a scheduler without daskfs; the check of versions reports that
        return False


def _has_page(dask_scheduler: Scheduler) -> bool:
    return bool(getattr(dask_scheduler.plugins.get(NAME), "has_page", False))


def _attempt(what: str, do: Callable[[], object]) -> bool:
    try:
        do()
    except Exception as error:
        logger.warning("daskfs: %s cannot be added to this version of distributed (%r)", what, error)
        return False
    return True


def _add_page(scheduler: Scheduler, live_runs: LiveRuns) -> None:
    from distributed.dashboard.core import BokehApplication
    from distributed.dashboard.scheduler import template_variables
    from tornado.ioloop import IOLoop

    from daskfs.observe.dashboard.page import page

    variables = template_variables(scheduler)  # shared by all pages, with the one list of tabs
    pages: list[str] = variables["pages"]
    application = scheduler.http_application
    prefix = next((app.prefix for app in application.applications if hasattr(app, "prefix")), None)
    if prefix is None:
        raise RuntimeError("it runs without a dashboard")
    show = {f"/{PAGE}": lambda _, extra, doc: page(live_runs, extra, doc)}
    added = BokehApplication(show, scheduler, prefix=prefix, template_variables=variables)
    application.add_application(added)
    added.initialize(IOLoop.current())
    added.start()
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
