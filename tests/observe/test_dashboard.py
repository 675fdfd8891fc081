"""The page "daskfs" of a real scheduler in a real browser, the metrics beside it, and what happens without either."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from chromium import Chromium, Page, chromium
from dask_processes import Processes, dask_processes
from distributed import Client, LocalCluster
from distributed.http.scheduler.prometheus import core
from prometheus_client.parser import text_string_to_metric_families
from toy_runs import Stop, wait_for_events_of_workers, wait_until

import daskfs
from daskfs.engine import run
from daskfs.engine.cluster.pool import prepare_workers
from daskfs.errors import OptionError
from daskfs.job.execute import announce
from daskfs.observe import dashboard
from daskfs.observe.dashboard import NAME, attach, enable_for
from daskfs.protocol import Algorithm

__all__ = ["chromium"]
PRELOAD = "daskfs.observe.dashboard"
LOGGER = "distributed.daskfs"
AS_A_FILE = dashboard.__file__  # executed under another name, and so a second time
SECONDS = 90  # for what takes a few
HOSTILE = "<img src=x onerror=\"console.error('hacked')\">"
TEXTS = """(() => {
  const found = [];
  const look = (root) => root.querySelectorAll("*:not(style, script)").forEach((element) => {
    for (const node of element.childNodes) if (node.nodeType === Node.TEXT_NODE) found.push(node.textContent);
    if (element.shadowRoot) look(element.shadowRoot);
  });
  look(document);
  return found.join("\\n");
})()"""

OUTSIDE = """Bokeh.documents[0].roots()[0].children[1].children.filter(({tags, x_range, y_range}) => {
  if (!y_range) return false;  // the table
  const {data} = Bokeh.documents[0].get_model_by_name(tags[0]);
  const lies = (range, [names]) => !range.factors && names.some((name) =>
    Array.from(data[name]).some((value) => value < range.start || value > range.end));
  return lies(x_range, tags[1]) || lies(y_range, tags[2]);
}).map((plot) => plot.title.text)"""
"""The plots that have a value beyond the ends of an axis."""

CELLS = """(() => {
  const found = [];
  const look = (root) => root.querySelectorAll("*").forEach((element) => {
    if (element.matches("tr:has(td)")) found.push([...element.children].map((cell) => cell.textContent));
    if (element.shadowRoot) look(element.shadowRoot);
  });
  look(document);
  return found;
})()"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """A scheduler that was told of the page three times, and two workers."""
    preloads = ("--preload", PRELOAD, "--preload", PRELOAD, "--preload", AS_A_FILE)
    with dask_processes(tmp_path_factory.mktemp("cluster"), options=preloads) as processes:
        with Client(processes.address, set_as_default=False) as client:
            prepare_workers(client)  # kernels are compiled by now
        yield processes


@contextmanager
def running(dataset: daskfs.Dataset, algorithm: Algorithm, **options: Any) -> Iterator[None]:
    """A selection that goes on beside the block, and is stopped at its end."""
    enough = threading.Event()

    def progress(_: object) -> None:
        if enough.is_set():
            raise Stop("seen enough")

    def run() -> None:
        with suppress(Stop):
            daskfs.select(dataset, algorithm, progress=progress, **options)

    beside = threading.Thread(target=run)
    beside.start()
    try:
        yield
        assert beside.is_alive(), "it has ended too soon"
    finally:
        enough.set()
        beside.join(120)


def wide(folder: Path) -> daskfs.Dataset:
    """Some of its columns explain the target."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1000, 4000)).astype(np.float32)
    y = X[:, 100:2100:100] @ rng.choice([-2.0, 2.0], 20) + rng.normal(size=1000)
    daskfs.write_dataset(folder, X, y, [f"gene{number}" for number in range(4000)], chunk_bytes=200_000)
    return daskfs.open_dataset(folder)


def shown(page: Page, name: str) -> dict[str, list]:
    """The data of a plot as the browser has them."""
    script = f"""(() => {{
      const data = Bokeh.documents[0].get_model_by_name("{name}").data;
      const columns = data instanceof Map ? [...data] : Object.entries(data);
      return Object.fromEntries(columns.map(([key, values]) => [key, Array.from(values)]));
    }})()"""
    return page.evaluate(script)


def length(name: str, key: str) -> str:
    """How many points a plot has in the browser."""
    return f'Bokeh.documents[0].get_model_by_name("{name}").data.{key}.length'


MOVING = {"objective": "x", "rates": "x", "times": "number", "checkpoints": "x"}


@pytest.mark.slow
def test_the_page_shows_a_selection_while_it_runs(cluster: Processes, chromium: Chromium, tmp_path: Path):
    dataset = wide(tmp_path / "wide.zarr")
    algorithm = daskfs.OnlineSubstitution(20, method="async", passes=100_000)
    with (
        Client(cluster.address, set_as_default=False) as client,
        chromium.page(f"{cluster.pages}/daskfs", 1500, 800) as page,
    ):
        page.wait_for(f"{TEXTS}.includes('No selection has run here yet')")
        with running(dataset, algorithm, client=client, checkpoint=tmp_path / "c"):
            page.wait_for_canvases(8)
            page.wait_for(f"{CELLS}.length === 20", SECONDS)
            page.wait_for(f"{length('rates', 'x')} > 0", SECONDS)
            first = {name: page.evaluate(length(name, key)) for name, key in MOVING.items()}
            page.screenshot(tmp_path / "first.png", whole=False)
            for name, key in MOVING.items():
                page.wait_for(f"{length(name, key)} > {first[name]}", SECONDS)
            page.screenshot(tmp_path / "second.png", whole=False)
            assert sum(shown(page, "staleness")["offers"]) > 0
            assert not page.evaluate(OUTSIDE)
            best = "[1, 2, 3].every((at) => " + CELLS + "[at - 1][1].match(/^gene[0-9]*00$/))"
            page.wait_for(best, SECONDS)  # not so at first
            assert len(shown(page, "workers")["worker"]) == 2
        assert (tmp_path / "first.png").read_bytes() != (tmp_path / "second.png").read_bytes()
        page.wait_for(f"{TEXTS}.includes('stopped: Stop: seen enough')")
        assert page.complaints == []


@pytest.mark.slow
def test_the_newest_run_is_shown_and_hostile_names_are_harmless(cluster, chromium, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8)).astype(np.float32)
    names = [HOSTILE, "$$\\frac{1}{2}$$", "a" * 100_000, "line\nfeed\x1b[2J", "=1+1", "\u202egnp", "&amp;", "plain"]
    daskfs.write_dataset(tmp_path / "rows.zarr", X, X @ np.arange(8, 0, -1.0) > 0, names, layout="rows")
    with Client(cluster.address, set_as_default=False) as client, chromium.page(f"{cluster.pages}/daskfs") as page:
        algorithm = daskfs.Mission(8, width=2**10, passes=3)
        given = daskfs.select(tmp_path / "rows.zarr", algorithm, client=client)
        passes = given.history.sizes["step"]  # three, and that of the refit
        page.wait_for(f"{TEXTS}.includes('finished after {passes} passes')")
        assert "Mission" in page.evaluate(TEXTS)
        _, told, weights = zip(*page.evaluate(CELLS), strict=True)
        assert told[0] == given.names[0] == HOSTILE
        assert [float(weight) for weight in weights] == pytest.approx(given.weights.tolist(), rel=1e-3)
        assert max(map(len, told)) <= 120
        assert all(name.isprintable() for name in told)
        assert page.complaints == []
        assert not [url for url in page.requests if not url.startswith(cluster.pages)]


def test_every_page_has_the_tab_once(cluster):
    for name in ("status", "workers", "daskfs"):
        assert cluster.page(name).count('<a href="daskfs">') == 1
    assert "cannot be added" not in cluster.log


def test_prometheus_is_told(cluster, tmp_path):
    dataset = wide(tmp_path / "wide.zarr")
    nbytes = 2 * int(dataset.block_sizes("columns").sum())
    with Client(cluster.address, set_as_default=False) as client:
        algorithm = daskfs.OnlineSubstitution(5, passes=2, method="paper")
        selection = daskfs.select(dataset, algorithm, client=client, checkpoint=tmp_path / "c")

    def metrics() -> dict[str, float]:
        samples = [one for family in text_string_to_metric_families(cluster.page("metrics")) for one in family.samples]
        mine = [one for one in samples if one.name.startswith("daskfs_")]
        assert all(set(one.labels) == {"run", "algorithm"} for one in mine)
        return {one.name: one.value for one in mine}  # the newest run comes last

    wait_until(lambda: metrics().get("daskfs_bytes_read_total") == nbytes, metrics)
    told = metrics()
    assert told["daskfs_pass"] == 2
    assert told["daskfs_blocks_done"] == told["daskfs_blocks"] == dataset.n_blocks("columns")
    assert told["daskfs_objective"] == pytest.approx(float(selection.history.objective.values[1]))
    assert told["daskfs_set_changes_total"] == selection.history.changes.values[:2].sum()
    assert told["daskfs_workers_busy_seconds_total"] == pytest.approx(float(selection.history.busy[:2].sum()), rel=0.01)
    assert told["daskfs_checkpoints_total"] == 3
    assert told["daskfs_finished"] == 1
    assert "dask_scheduler_tasks" in cluster.page("metrics")


MISSING = {
    "the page": ("distributed.dashboard.core.BokehApplication", "the page"),
    "tabs": ("distributed.dashboard.scheduler.template_variables", "the page"),
    "metrics": ("distributed.http.scheduler.prometheus.core.COLLECTORS", "metrics"),
    "events": ("distributed.scheduler.Scheduler.get_events", "earlier events"),
}


@pytest.mark.parametrize(("internal", "what"), MISSING.values(), ids=MISSING)
def test_an_unknown_distributed_is_a_message_and_no_more(monkeypatch, caplog, internal, what):
    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as local, Client(local) as client:
        monkeypatch.delattr(internal)
        with caplog.at_level(logging.WARNING, LOGGER):
            assert enable_for(local) == (what != "the page")
            enable_for(local)  # says it once
        monkeypatch.undo()
        assert [record.message.split(" cannot be added")[0] for record in caplog.records] == [f"daskfs: {what}"]
        assert client.scheduler_info()["workers"] == {}
        assert NAME in local.scheduler.plugins


def test_a_scheduler_that_cannot_have_the_page_lives(tmp_path):
    """As users start it: something that the page leans on is gone by the time that it is added."""
    (tmp_path / "missing.py").write_text(
        "def dask_setup(scheduler):\n    import distributed.dashboard.core as core; del core.BokehApplication\n"
    )
    options = ("--preload", str(tmp_path / "missing.py"), "--preload", PRELOAD)
    with dask_processes(tmp_path, workers=0, options=options) as broken:
        assert "Workers" in broken.page("status")
        assert len([line for line in broken.log.splitlines() if "cannot be added" in line]) == 1, broken.log
        assert "Traceback" not in broken.log


def test_a_worker_has_no_page(caplog):
    with caplog.at_level(logging.WARNING, LOGGER):
        dashboard.dask_setup(object())
    assert "is for the scheduler" in caplog.text


def test_a_local_cluster_gets_the_page_and_what_was_said_before(two_workers, tmp_path):
    scheduler = two_workers.cluster.scheduler
    dataset = wide(tmp_path / "wide.zarr")
    daskfs.select(dataset, daskfs.OnlineSubstitution(3, passes=1), client=two_workers)
    for _ in range(3):
        assert enable_for(two_workers.cluster)
    plugin = scheduler.plugins[NAME]
    wait_until(lambda: plugin.live_runs.latest is not None and plugin.live_runs.latest.ended)
    assert plugin.live_runs.latest.dataset.endswith("wide.zarr")
    known = {str(worker["name"]) for worker in two_workers.scheduler_info()["workers"].values()}
    wait_until(lambda: plugin.live_runs.latest.workers)
    assert plugin.live_runs.latest.workers.keys() <= known  # as those at a task are called, and those that have left
    assert sum(one.__name__ == "DaskfsCollector" for one in core.COLLECTORS) == 1


def test_a_selection_that_gets_no_names_has_ended_too(two_workers, tmp_path, monkeypatch):
    def unreadable(*_: object) -> None:
        raise OSError("the names are gone")

    assert enable_for(two_workers.cluster)
    watched = two_workers.cluster.scheduler.plugins[NAME].live_runs
    monkeypatch.setattr(run, "as_selection", unreadable)
    with pytest.raises(OSError, match="the names are gone"):
        daskfs.select(wide(tmp_path / "nameless.zarr"), daskfs.OnlineSubstitution(3, passes=1), client=two_workers)
    wait_until(lambda: watched.latest.dataset.endswith("nameless.zarr") and watched.latest.ended)
    assert watched.latest.why == "OSError: the names are gone"


def test_a_selection_that_is_refused_is_told(two_workers, tmp_path, monkeypatch):
    assert enable_for(two_workers.cluster)
    watched = two_workers.cluster.scheduler.plugins[NAME].live_runs
    dataset, algorithm = wide(tmp_path / "wide.zarr"), daskfs.OnlineSubstitution(3, passes=1)
    monkeypatch.setattr("daskfs.algorithms.substitution.block.BlockMethod.nbytes", lambda *_: 1 << 60)
    with pytest.raises(OptionError, match="of memory"):
        daskfs.select(dataset, algorithm, client=two_workers)
    monkeypatch.undo()
    wait_until(lambda: watched.refused)
    assert watched.refused.startswith("a selection was refused: each thread of worker tcp://")
    daskfs.select(dataset, algorithm, client=two_workers)
    wait_until(lambda: watched.refused is None)


def nap_until(woken: Path) -> None:
    while not woken.exists():
        time.sleep(0.01)


def test_workers_at_a_task_are_known(two_workers, tmp_path):
    """One that is stuck sends nothing, but its scheduler knows."""
    assert enable_for(two_workers.cluster)
    watched, workers = two_workers.cluster.scheduler.plugins[NAME].live_runs, two_workers.scheduler_info()["workers"]
    address = min(workers)
    woken = tmp_path / "woken"
    nap = two_workers.submit(nap_until, woken, key="daskfs-nap-0x1", pure=False, workers=[address])
    other = two_workers.submit(nap_until, woken, key="nap-0x1", pure=False, workers=[max(workers)])
    wait_until(lambda: list(watched._at_work()) == [str(workers[address]["name"])])
    woken.touch()
    nap.result()
    other.result()
    wait_until(lambda: list(watched._at_work()) == [])


def test_where_there_can_be_no_tab_whoever_starts_a_run_is_told(monkeypatch):
    def other_version(*_: object) -> None:
        raise AttributeError("http_application")

    monkeypatch.setattr(dashboard, "_add_page", other_version)
    told: list[str] = []
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        announce(client, told.append)
    assert [line.split(":")[0] for line in told] == ["dashboard", "note"]
    assert told[0].endswith("/status")
    assert told[1] == "note: the tab 'daskfs' cannot be added to the dashboard of this version of Dask"


def test_a_cluster_elsewhere_is_told_how(caplog):
    with caplog.at_level(logging.WARNING, LOGGER):
        assert not enable_for(object())
    assert f"--preload {PRELOAD}" in caplog.text


def test_nothing_is_said_where_nobody_wants_to_hear(two_workers, tmp_path):
    dataset = wide(tmp_path / "wide.zarr")
    wait_for_events_of_workers(two_workers)  # of the run before
    count = len(two_workers.get_events("daskfs"))
    with dask.config.set({"daskfs.events": False}):
        selection = daskfs.select(dataset, daskfs.OnlineSubstitution(3, passes=1), client=two_workers)
    assert selection.history.busy.values[0] > 0  # what a run has cost is known all the same
    wait_for_events_of_workers(two_workers)
    assert len(two_workers.get_events("daskfs")) == count


def test_attach_says_whether_there_is_a_page(two_workers):
    assert attach(two_workers.cluster.scheduler) is True
