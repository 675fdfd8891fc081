"""How near the asynchronous schedules of Online Substitution come to a serial run: objective and recall, run after run.

python pipelines/benchmarks/asynchronous.py [--runs 50] [--workers 3] [--kill] [--json FILE] [block] [async] [faithful]

The serial run is that of the same method in this process. The objective is the sum of squared residuals of the training
rows, and *refitted* that of the selected columns with weights by least squares. A run with ``--kill`` loses one of its
workers at a random moment of the first two passes. The sets: *easy* has 20 true columns of 2,000, *hard* 40 of 3,000,
with weights from .3 to 1; *faint* has weights from a normal distribution, some near 0. All have noise .1.

``--json docs/asynchronous.json`` keeps every run as it ends, and a session goes on from the runs that are kept, up to
``--runs``; ``--again`` begins anew. ``python pipelines/docs/asynchronous.py`` draws the table of docs/benchmarks.md.
"""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import dask
import numpy as np
from _measure import console
from distributed import Client, LocalCluster
from numpy.typing import NDArray

import daskfs

SETS = {"easy": (600, 2000, 20), "hard": (600, 3000, 40), "faint": (500, 3000, 40)}
METHODS: dict[str, dict[str, Any]] = {
    "block": {"method": "block"},
    "async": {"method": "async"},
    "faithful": {"method": "async", "budget": "faithful"},
}


class Planted:
    """A dataset with true columns, and the measures of a selection from it."""

    def __init__(self, folder: Path, name: str, seed: int) -> None:
        n, p, self.k = SETS[name]
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, p)).astype(np.float32)
        self.true = set(rng.choice(p, self.k, replace=False).tolist())
        weights = rng.choice([-1.0, 1.0], self.k) * rng.uniform(0.3, 1.0, self.k)
        if name == "faint":
            weights = rng.standard_normal(self.k)
        self.y = self.X[:, sorted(self.true)] @ weights + 0.1 * rng.normal(size=n)
        daskfs.write_dataset(folder, self.X, self.y, chunk_bytes=n * 4 * 25)
        self.dataset = daskfs.open_dataset(folder)

    def measure(self, selection: Any) -> NDArray[np.float64]:
        """Return the objective, the objective after a fit by least squares, and the share of true columns found."""
        ids = selection.features.astype(np.int64)
        A = np.column_stack([np.ones(len(self.y)), self.X[:, ids]]).astype(np.float64)
        w = np.linalg.lstsq(A, self.y, rcond=None)[0]
        loss = ((selection.predict(self.X) - self.y) ** 2).sum()
        return np.array([loss, ((A @ w - self.y) ** 2).sum(), len(self.true & set(ids.tolist())) / self.k])


class Strike:
    """A progress callback that kills a worker once."""

    def __init__(self, client: Client, seed: int) -> None:
        rng = random.Random(seed)
        pids = client.run(os.getpid)
        self._pid, self._at = rng.choice(sorted(pids.values())), (rng.randint(1, 2), rng.randrange(50))

    def __call__(self, now: Any) -> None:
        if self._pid and (now.number, now.blocks_done) >= self._at:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._pid = 0


def experiment(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells one experiment from another."""
    return tuple(record[name] for name in ("data", "method", "killed", "workers"))


def keep(file: Path | None, record: dict[str, Any]) -> None:
    """Write a record to a file of records, in place of an earlier one of the same experiment."""
    if file is None:
        return
    records = json.loads(file.read_text()) if file.exists() else []
    records = [old for old in records if experiment(old) != experiment(record)] + [record]
    lines = [json.dumps(each) for each in sorted(records, key=experiment)]
    file.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def kept(file: Path | None, record: dict[str, Any]) -> dict[str, Any]:
    """Return the record of the same experiment in a file, or the record itself if there is none."""
    records = json.loads(file.read_text()) if file is not None and file.exists() else []
    return next((old for old in records if experiment(old) == experiment(record)), record)


@click.command()
@click.argument("methods", nargs=-1, type=click.Choice(list(METHODS)))
@click.option("--runs", default=50)
@click.option("--workers", default=3)
@click.option("--sets", multiple=True, type=click.Choice(list(SETS)), default=list(SETS))
@click.option("--kill", is_flag=True, help="Kill a worker in every run.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Keep every run in this file.")
@click.option("--again", is_flag=True, help="Do not go on from the runs in the file.")
def main(
    methods: tuple[str, ...], runs: int, workers: int, sets: tuple[str, ...], kill: bool, file: Path | None, again: bool
) -> None:
    """Print ratios to the serial run."""
    settings = {"distributed.deploy.lost-worker-timeout": "1h", "distributed.comm.timeouts.connect": "2s"}
    with (
        dask.config.set(settings),
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        for name in sets:
            data = Planted(Path(folder) / name, name, seed=0)
            for method in methods or METHODS:
                algorithm = daskfs.OnlineSubstitution(data.k, **METHODS[method])
                serial = data.measure(daskfs.select(data.dataset, algorithm))
                record = {"data": name, "method": method, "killed": kill, "workers": workers}
                record |= {"serial recall": float(serial[2]), "objective": [], "refitted": [], "recall": []}
                record, began = record if again else kept(file, record), time.monotonic()
                first = len(record["objective"])
                for run in range(first, runs):
                    client.wait_for_workers(workers, timeout=120)
                    strike = Strike(client, run) if kill else None
                    given = data.measure(daskfs.select(data.dataset, algorithm, client=client, progress=strike))
                    of_run = (given[0] / serial[0], given[1] / serial[1], given[2])
                    for measure, value in zip(("objective", "refitted", "recall"), of_run, strict=True):
                        record[measure].append(round(float(value), 5))
                    keep(file, record)
                loss, recall = np.array(record["objective"]), np.array(record["recall"])
                within = int(((loss <= 1.01) & (recall >= serial[2] - 0.01)).sum())
                console.print(
                    f"{name:5} {method:9} objective {loss.min():.3f} to {loss.max():.3f}, refitted to "
                    f"{max(record['refitted']):.3f}, recall {recall.min():.3f} (serial {serial[2]:.3f}); {within} of "
                    f"{len(loss)} within 1 %; {(time.monotonic() - began) / max(runs - first, 1):.1f} s a run"
                )


if __name__ == "__main__":
    main()
