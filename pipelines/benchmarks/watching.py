"""What watching a selection costs: the tab "daskfs" drawn by a browser or not, in turns, while one selection runs.

    python pipelines/benchmarks/watching.py [--work FOLDER] [--pairs 30] [--json]

Two workers, and the browser on the same cores as they. The selection goes on for minutes. A browser has opened the
page; it is stopped for a while (SIGSTOP: it takes no time, and what it is sent waits for it), and goes on for as
long. So nothing is started or closed between two windows, which takes a browser more time than a minute of drawing,
and they can be short. What workers read in each is compared with its neighbour's, so that whatever else the machine
does in the long run cancels out; windows come in the order drawn, stopped, stopped, drawn, so that a drift does, too.
The interval is that of the mean of the pairs. Beside it stands what processor time the browser took of all cores.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import psutil
from _measure import IDLE, show, two_processes_against_one
from distributed import Client, LocalCluster
from scipy import stats

import daskfs
from daskfs.observe.dashboard import enable_for
from daskfs.protocol import Algorithm
from daskfs.stream.fold import PassProgress

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-address=127.0.0.1", "--remote-debugging-port=0",
)  # fmt: skip
SETTLED = 15.0  # seconds until a page is there and drawn, and workers have begun
FOR_EVER = 100_000  # passes


def columns(work: Path) -> daskfs.Dataset:
    """320 MB that are read as fast as may be, again and again."""
    out = work / "watching_columns.zarr"
    if not out.exists():
        X = np.random.default_rng(0).standard_normal((2000, 40_000), np.float32)
        y = X[:, ::4000].sum(axis=1)
        daskfs.write_dataset(out, X, y)
    return daskfs.open_dataset(out)


def rows(work: Path) -> daskfs.Dataset:
    """360 MB of rows that two workers learn from, and merge ten times a pass."""
    out = work / "watching_rows.zarr"
    if not out.exists():
        X = np.random.default_rng(0).standard_normal((450_000, 200), np.float32)
        daskfs.write_dataset(out, X, X[:, :20].sum(axis=1) > 0, layout="rows")
    return daskfs.open_dataset(out)


WORK: dict[str, tuple[Callable[[Path], daskfs.Dataset], Algorithm]] = {
    "columns, around a centre": (columns, daskfs.OnlineSubstitution(10, method="async", passes=FOR_EVER)),
    "rows, in rounds": (rows, daskfs.Mission(50, width=2**14, passes=FOR_EVER)),
}


class Enough(Exception):
    """Ends a selection that has been watched for long enough."""


class Running:
    """A selection that goes on until it is told to end, in a thread of its own; it knows how much has been read."""

    def __init__(self, dataset: daskfs.Dataset, algorithm: Algorithm, client: Client) -> None:
        self._bytes, self._over = 0, threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(dataset, algorithm, client))

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def bytes_in(self, seconds: float) -> float:
        """Bytes a second in the next so many seconds."""
        before, begun = self._bytes, time.monotonic()
        time.sleep(seconds)
        if self._failure is not None:
            raise self._failure
        return (self._bytes - before) / (time.monotonic() - begun)

    def _run(self, dataset: daskfs.Dataset, algorithm: Algorithm, client: Client) -> None:
        try:
            daskfs.select(dataset, algorithm, client=client, progress=self._note)
        except Enough:
            pass
        except BaseException as failure:
            self._failure = failure

    def _note(self, now: PassProgress) -> None:
        self._bytes = (now.number - 1) * now.bytes + now.bytes_done
        if self._over.is_set():
            raise Enough


@contextmanager
def watched(cluster: LocalCluster) -> Iterator[psutil.Process]:
    """A browser that has the page open."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise click.ClickException(f"no browser: none of {', '.join(BROWSERS)} is installed")
    page = cluster.dashboard_link.replace("/status", "/daskfs")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        command = [program, *FLAGS, f"--user-data-dir={home}", page]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        browser = subprocess.Popen(command, start_new_session=True, **silent)
        try:
            yield psutil.Process(browser.pid)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()


def all_of(process: psutil.Process) -> list[psutil.Process]:
    """A process and all that it has started."""
    return [process, *process.children(recursive=True)]


def processor_time(process: psutil.Process) -> float:
    """Seconds of a process and all that it has started."""
    total = 0.0
    for one in all_of(process):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total


@contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    """A process, and all that it has started, does nothing for a while."""
    still = all_of(process)
    for one in still:
        one.suspend()
    try:
        yield
    finally:
        for one in still:
            one.resume()


class Pair(NamedTuple):
    """Two windows beside each other: bytes a second with the page and without, processor time of the browser."""

    drawn: float
    stopped: float
    browser: float


def pair(running: Running, browser: psutil.Process, seconds: float, is_drawn_first: bool) -> Pair:
    def while_drawn() -> tuple[float, float]:
        before = processor_time(browser)
        return running.bytes_in(seconds), processor_time(browser) - before

    def while_stopped() -> float:
        with stopped(browser):
            return running.bytes_in(seconds)

    if is_drawn_first:
        drawn, still = while_drawn(), while_stopped()
    else:
        still, drawn = while_stopped(), while_drawn()
    return Pair(drawn[0], still, drawn[1])


class Cost(NamedTuple):
    """What watching leaves of the throughput, with the 95 % interval of that, and the browser's share of all cores."""

    ratio: float
    low: float
    high: float
    of_cores: float
    rate: float


def cost_of(pairs: list[Pair], seconds: float) -> Cost:
    ratios = np.log([of.drawn / of.stopped for of in pairs])
    spread = stats.t.ppf(0.975, len(pairs) - 1) * ratios.std(ddof=1) / math.sqrt(len(pairs))
    of_cores = np.mean([of.browser for of in pairs]) / (seconds * len(os.sched_getaffinity(0)))
    around = (math.exp(ratios.mean() + step) for step in (0.0, -spread, spread))
    return Cost(*around, float(of_cores), float(np.mean([of.stopped for of in pairs])))


@click.command(context_settings={"show_default": True})
@click.option("--work", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir()) / "daskfs-bench")
@click.option("--pairs", default=30, type=click.IntRange(2), help="Of windows, one with the browser and one without.")
@click.option("--seconds", default=5.0, help="That a window lasts: as long as it is from one drawing to the next.")
@click.option("--json", "as_json", is_flag=True)
def watching(work: Path, pairs: int, seconds: float, as_json: bool) -> None:
    """What watching costs."""
    work.mkdir(parents=True, exist_ok=True)
    control, costs = two_processes_against_one(), {}
    here = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 40}
    with LocalCluster(n_workers=2, **here) as cluster, Client(cluster) as client:
        enable_for(cluster)
        for name, (make, algorithm) in WORK.items():
            found = []
            with Running(make(work), algorithm, client) as running, watched(cluster) as browser:
                while not running.bytes_in(SETTLED):
                    pass  # kernels are compiled, and the first passes change more than others
                for number in range(pairs):
                    found.append(pair(running, browser, seconds, number % 2 == 0))
                    click.echo(f"{name}: {found[-1].drawn / found[-1].stopped:.3f}", err=True)
            costs[name] = cost_of(found, seconds)
    control = min(control, two_processes_against_one())
    if as_json:
        click.echo(json.dumps({"control": control, **{name: cost._asdict() for name, cost in costs.items()}}))
        return
    table = [
        [
            name,
            f"{cost.rate / 1e6:,.0f}",
            f"{cost.ratio:.3f}",
            f"{cost.low:.3f} … {cost.high:.3f}",
            f"{cost.of_cores:.1%}",
        ]
        for name, cost in costs.items()
    ]
    void = " (too busy to judge)" if control < IDLE else ""
    names = ["", "MB/s, stopped", "drawn / stopped", "95 %", "browser, of all cores"]
    show(f"{pairs} pairs of windows of {seconds:g} s, control {control:.2f}{void}", names, table)


if __name__ == "__main__":
    watching()
