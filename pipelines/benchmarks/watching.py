"""What watching a selection costs: the tab "daskfs" open in a browser and events on, against neither.

    python pipelines/benchmarks/watching.py [--work FOLDER] [--json]

Both in one run and in turns, best of several; two workers, and the browser on the same cores as they. Jobs take long
enough for the page to be drawn several times. Seconds are those of the passes. Beside them stands what processor time
went where, which other work on the machine changes less: what the browser took of the cores is what it can have cost.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

import click
import dask
import numpy as np
import psutil
from _measure import IDLE, show, two_processes_against_one
from distributed import Client, LocalCluster

import daskfs
from daskfs.observe.dashboard import enable_for

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-address=127.0.0.1", "--remote-debugging-port=0",
)  # fmt: skip
SETTLED = 5.0  # seconds until a page is there and drawn


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


WORK = {
    "columns, around a centre": (columns, daskfs.OnlineSubstitution(10, method="async", passes=30)),
    "rows, in rounds": (rows, daskfs.Mission(50, width=2**14, passes=8)),
}


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
            time.sleep(SETTLED)
            yield psutil.Process(browser.pid)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(browser.pid, signal.SIGKILL)
            browser.wait()


def processor_time(process: psutil.Process) -> float:
    """Seconds of a process and all that it has started."""
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total


def run(cluster: LocalCluster, client: Client, dataset: daskfs.Dataset, algorithm: Any, on: bool) -> dict[str, float]:
    """Seconds of the passes of one selection, and processor time of the cluster and of the browser."""
    here = psutil.Process()
    with dask.config.set({"daskfs.events": on}), watched(cluster) if on else nullcontext() as browser:
        before = processor_time(here), processor_time(browser) if browser else 0.0
        history = daskfs.select(dataset, algorithm, client=client).history
        in_browser = processor_time(browser) - before[1] if browser else 0.0
        # The browser is a child of this process too.
        return {
            "seconds": float(np.nansum(history.seconds.values)),
            "cluster": processor_time(here) - before[0] - in_browser,
            "browser": in_browser,
        }


@click.command()
@click.option("--work", type=click.Path(path_type=Path), default=Path(tempfile.gettempdir()) / "daskfs-bench")
@click.option("--rounds", default=5, help="Of which the best counts.")
@click.option("--json", "as_json", is_flag=True)
def watching(work: Path, rounds: int, as_json: bool) -> None:
    """What watching costs."""
    work.mkdir(parents=True, exist_ok=True)
    control, figures = two_processes_against_one(), {}
    here = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 40}
    with LocalCluster(n_workers=2, **here) as cluster, Client(cluster) as client:
        enable_for(cluster)
        for name, (make, algorithm) in WORK.items():
            dataset = make(work)
            daskfs.select(dataset, algorithm, client=client)  # files are in memory, and kernels too
            found: dict[bool, list[dict[str, float]]] = {True: [], False: []}
            for number in range(rounds):
                for on in (True, False) if number % 2 else (False, True):
                    found[on].append(run(cluster, client, dataset, algorithm, on))
                    click.echo(f"{name}, {'watched' if on else 'off'}: {found[on][-1]}", err=True)
            best = {on: min(found[on], key=itemgetter("seconds")) for on in found}
            ratio = best[True]["seconds"] / best[False]["seconds"]
            figures[name] = {"on": best[True], "off": best[False], "ratio": ratio}
    control = min(control, two_processes_against_one())
    if as_json:
        click.echo(json.dumps({"control": control, **figures}))
        return
    table = []
    for name, of in figures.items():
        on, off = of["on"], of["off"]
        seconds = [f"{off['seconds']:.2f}", f"{on['seconds']:.2f}", f"{of['ratio']:.3f}"]
        of_cores = on["browser"] / (on["seconds"] * len(os.sched_getaffinity(0)))
        cpu = [f"{off['cluster']:.2f}", f"{on['cluster']:.2f}", f"{on['browser']:.2f}", f"{of_cores:.1%}"]
        table.append([name, *seconds, *cpu])
    void = " (too busy to judge)" if control < IDLE else ""
    names = [
        "",
        "off, s",
        "watched, s",
        "ratio",
        "CPU off, s",
        "CPU watched, s",
        "CPU of the browser, s",
        "of all cores",
    ]
    show(f"best of {rounds}, control {control:.2f}{void}", names, table)


if __name__ == "__main__":
    watching()
