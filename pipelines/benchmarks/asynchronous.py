"""How near the asynchronous schedules of Online Substitution come to a serial run: objective and recall, run after run.

python pipelines/benchmarks/asynchronous.py [--runs 50] [--workers 3] [--kill] [--json FILE] [block] [async] [faithful]

The serial run is that of the same method in this process. The objective is the sum of squared residuals of the training
rows, and *refitted* that of the selected columns with weights by least squares. A run with ``--kill`` loses one of its
workers at a random moment of the first two passes. The sets: *easy* has 20 true columns of 2,000, *hard* 40 of 3,000,
with weights from .3 to 1; *faint* has weights from a normal distribution, some near 0. All have noise .1.

``--json docs/asynchronous.json`` keeps every run, in place of earlier runs of the same method on the same data.
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


def keep(file: Path, record: dict[str, Any]) -> None:
    """Write a record to a file of records, in place of an earlier one of the same experiment."""
    records = json.loads(file.read_text()) if file.exists() else []
    records = [old for old in records if experiment(old) != experiment(record)] + [record]
    lines = [json.dumps(each) for each in sorted(records, key=experiment)]
    file.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def experiment(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells one experiment from another."""
    return tuple(record[name] for name in ("data", "method", "killed", "workers"))


@click.command()
@click.argument("methods", nargs=-1, type=click.Choice(list(METHODS)))
@click.option("--runs", default=50)
@click.option("--workers", default=3)
@click.option("--sets", multiple=True, type=click.Choice(list(SETS)), default=list(SETS))
@click.option("--kill", is_flag=True, help="Kill a worker in every run.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Keep every run in this file.")
def main(
    methods: tuple[str, ...], runs: int, workers: int, sets: tuple[str, ...], kill: bool, file: Path | None
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
                ratios, began = [], time.monotonic()
                for run in range(runs):
                    client.wait_for_workers(workers, timeout=120)
                    strike = Strike(client, run) if kill else None
                    given = data.measure(daskfs.select(data.dataset, algorithm, client=client, progress=strike))
                    ratios.append([given[0] / serial[0], given[1] / serial[1], given[2] - serial[2]])
                loss, refitted, recall = np.array(ratios).T
                if file is not None:
                    of_all = {"data": name, "method": method, "killed": kill, "workers": workers}
                    of_each = {"objective": loss, "refitted": refitted, "recall": serial[2] + recall}
                    rounded = {what: np.round(values, 5).tolist() for what, values in of_each.items()}
                    keep(file, {**of_all, "serial recall": float(serial[2]), **rounded})
                within = int(((loss <= 1.01) & (recall >= -0.01)).sum())
                console.print(
                    f"{name:5} {method:9} objective {loss.min():.3f} to {loss.max():.3f}, refitted to "
                    f"{refitted.max():.3f}, recall {serial[2] + recall.min():.3f} (serial {serial[2]:.3f}); "
                    f"{within} of {runs} within 1 %; {(time.monotonic() - began) / runs:.1f} s a run"
                )


if __name__ == "__main__":
    main()
