"""What watching a selection costs: the tab "daskfs" drawn by a browser or not, in turns, while one selection runs.

    python pipelines/benchmarks/watching.py [--work FOLDER] [--pairs 30] [--json]

Two workers, and the browser on the same cores as they. The selection goes on for minutes. A browser has opened the
page; it is stopped for a while (SIGSTOP: it takes no time, and what it is sent waits for it), and goes on for as
long. So nothing is started or closed between two windows, which takes a browser more time than a minute of drawing.
What the scheduler does for the page goes on in both: two thousandths of a second of every five. What workers read in
each is compared with its neighbour's, so that whatever else the machine does in the long run cancels out; windows come
in the order drawn, stopped, stopped, drawn, so that a drift does, too.

What counts is the pairs' pseudo-median (Hodges and Lehmann), with the interval of Wilcoxon's signed ranks: a neighbour
on the machine spoils single windows wholly, and a mean would follow them. Beside it stands what processor time the
browser took of all cores.
"""

from __future__ import annotations

import json
import logging
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
from _measure import IDLE, Control, show
from distributed import Client, LocalCluster
from scipy import stats

import daskfs
from daskfs.engine.passes import PassProgress
from daskfs.observe.dashboard import enable_for
from daskfs.observe.dashboard.page import SLOWEST
from daskfs.protocol import Algorithm

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


class Window(NamedTuple):
    """A while, by the monotonic clock."""

    begin: float
    end: float


class Running:
    """A selection that goes on until it is told to end, in a thread of its own; it knows how much has been read."""

    def __init__(self, dataset: daskfs.Dataset, algorithm: Algorithm, client: Client) -> None:
        self._told: list[tuple[float, int]] = [(time.monotonic(), 0)]
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(dataset, algorithm, client))

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def window(self, seconds: float) -> Window:
        """The next so many seconds."""
        begun = time.monotonic()
        time.sleep(seconds)
        if self._failure is not None:
            raise self._failure
        return Window(begun, time.monotonic())

    def await_begun(self) -> None:
        """Kernels are compiled, and the first passes change more than others."""
        while self._told[-1][1] == 0:
            self.window(SETTLED)

    def rate(self, window: Window) -> float:
        """Bytes a second in a window. What is told comes in lumps, a round or a pass; in between it was read evenly."""
        at, read = zip(*self._told, strict=True)
        first, last = np.interp(window, at, read)
        return float(last - first) / (window.end - window.begin)

    def _run(self, dataset: daskfs.Dataset, algorithm: Algorithm, client: Client) -> None:
        try:
            daskfs.select(dataset, algorithm, client=client, progress=self._note)
        except Enough:
            pass
        except BaseException as failure:
            self._failure = failure

    def _note(self, now: PassProgress) -> None:
        self._told.append((time.monotonic(), (now.number - 1) * now.bytes + now.bytes_done))
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
    """Two windows beside each other, with the page and without, and the processor time of the browser in the first."""

    drawn: Window
    stopped: Window
    browser: float


def pair(running: Running, browser: psutil.Process, seconds: float, is_drawn_first: bool) -> Pair:
    def while_drawn() -> tuple[Window, float]:
        before = processor_time(browser)
        return running.window(seconds), processor_time(browser) - before

    def while_stopped() -> Window:
        with stopped(browser):
            return running.window(seconds)

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


def cost_of(pairs: list[Pair], running: Running, seconds: float) -> Cost:
    still = [running.rate(of.stopped) for of in pairs]
    ratios = np.log([running.rate(of.drawn) for of in pairs]) - np.log(still)
    count = len(ratios)
    means = np.sort([(ratios[i] + ratios[j]) / 2 for i in range(count) for j in range(i, count)])
    spread = stats.norm.ppf(0.975) * math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    outside = max(0, math.floor(len(means) / 2 - spread))
    of_cores = np.mean([of.browser for of in pairs]) / (seconds * len(os.sched_getaffinity(0)))
    found = np.exp([np.median(means), means[outside], means[-1 - outside]])
    return Cost(*map(float, found), float(of_cores), float(np.median(still)))


def cost(dataset: daskfs.Dataset, algorithm: Algorithm, pairs: int, seconds: float) -> Cost:
    """What watching a selection costs on a cluster of its own."""
    here = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    quiet = logging.CRITICAL  # a selection that is broken off leaves workers that ask for its centre in vain
    with LocalCluster(n_workers=2, silence_logs=quiet, **here) as cluster, Client(cluster) as client:
        enable_for(cluster)
        with Running(dataset, algorithm, client) as running, watched(cluster) as browser:
            running.await_begun()
            found = [pair(running, browser, seconds, number % 2 == 0) for number in range(pairs)]
            running.window(seconds)  # what was read in the last one is told after it
    return cost_of(found, running, seconds)


@click.command(context_settings={"show_default": True})
@click.option("--work", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir()) / "daskfs-bench")
@click.option("--pairs", default=30, type=click.IntRange(2), help="Of windows, one with the browser and one without.")
@click.option("--seconds", default=SLOWEST, help="That a window lasts: as long as it is from one drawing to the next.")
@click.option("--json", "as_json", is_flag=True)
def watching(work: Path, pairs: int, seconds: float, as_json: bool) -> None:
    """What watching costs."""
    work.mkdir(parents=True, exist_ok=True)
    control, costs = Control().take_turns(), dict[str, Cost]()
    for name, (make, algorithm) in WORK.items():
        click.echo(f"{name}: {2 * pairs * seconds / 60:.0f} minutes", err=True)
        costs[name] = cost(make(work), algorithm, pairs, seconds)
        control.take_turns()
    if as_json:
        click.echo(json.dumps({"control": control.ratio, **{name: found._asdict() for name, found in costs.items()}}))
        return
    table = [
        [
            name,
            f"{found.rate / 1e6:,.0f}",
            f"{found.ratio:.3f}",
            f"{found.low:.3f} … {found.high:.3f}",
            f"{found.of_cores:.1%}",
        ]
        for name, found in costs.items()
    ]
    void = " (too busy to judge)" if control.ratio < IDLE else ""
    names = ["", "MB/s, stopped", "drawn / stopped", "95 %", "browser, of all cores"]
    show(f"{pairs} pairs of windows of {seconds:g} s, control {control.ratio:.2f}{void}", names, table)


if __name__ == "__main__":
    watching()
