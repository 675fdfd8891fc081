"""Requests to run a feature selection and to store the result in a folder, by `daskfs select` and by jobs.

During the selection run, the folder holds a checkpoint. After the selection run, the folder holds the selection, its
history and a record ``run.json``. The same request resumes an unfinished selection run, or loads a finished selection.
"""

from __future__ import annotations

import json
import platform
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from daskfs import __version__
from daskfs.algorithms.registry import classes_that
from daskfs.engine.checkpoint import KEY, describe_algorithm
from daskfs.engine.cluster.pool import available_cores, prepare_workers
from daskfs.engine.cluster.waiting import call
from daskfs.engine.cluster.worker_pool import expected_workers
from daskfs.engine.memory import Footprint, MemoryPlan
from daskfs.engine.passes import PassProgress
from daskfs.engine.run import check_targets, memory_plan, n_shards_for, select
from daskfs.errors import CheckpointError, OptionError
from daskfs.jit import warm_up
from daskfs.protocol import Algorithm
from daskfs.selection.records import METRICS, PROFILES, REPORT, RUN_RECORD, SIZES, STABILITY, without_nan, write_record
from daskfs.selection.run_folder import CHECKPOINT, RECORD
from daskfs.selection.selection import Selection, load_selection
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.label_order import RowOrder
from daskfs.store.dataset.layout import ROOT
from daskfs.store.places.location import Location

if TYPE_CHECKING:
    from distributed import Client

VERSION = 1
PACKAGES = ("dask", "distributed", "numba", "numpy", "scipy", "xarray", "zarr")


@dataclass(frozen=True)
class Request:
    """A request for a feature selection: dataset, algorithm, seed, and output folder."""

    dataset: Dataset
    algorithm: Algorithm
    out: Location
    seed: int = 0
    synchronous: bool = False
    order: RowOrder = "auto"

    def check(self) -> None:
        """Raise OptionError, before anything is written, if the selection is impossible or the folder is in use."""
        dataset, algorithm = self.dataset, self.algorithm
        if must_transpose(dataset, algorithm):
            raise OptionError(
                f"{dataset.url}: is laid out in rows, and {type(algorithm).__name__} reads columns; "
                f"run daskfs transpose {dataset.url} COLUMNS.zarr, and select from that"
            )
        resolved = algorithm.resolve(dataset.meta)
        if dataset.target_names is not None:  # or all algorithms would be imported for the message
            check_targets(resolved, dataset, classes_that(lambda entry: entry.several_targets))
        dataset.n_blocks(resolved.axis)
        if self.out.exists(ROOT):
            raise OptionError(f"{self.out.url}: is a dataset; choose another place for the run")
        if not (self.out.exists(RECORD) or self.is_begun()) and self._holds_something():
            raise OptionError(f"{self.out.url}: holds something that is no run; choose another place for this one")

    def _holds_something(self) -> bool:
        """Return True if the folder holds anything except the empty checkpoint of a selection run that never began."""
        if self.out.is_empty():
            return False
        return set(self.out.members()) != {CHECKPOINT} or bool(self.out.members(CHECKPOINT))

    def plan(self, client: Client | None) -> MemoryPlan:
        """Wait for the first worker, and return the memory that the selection run takes in every process."""
        if client is None:
            return memory_plan(self.dataset, self.algorithm)
        prepare_workers(client)
        algorithm = self.algorithm.resolve(self.dataset.meta)
        n_shards = n_shards_for(self.dataset, algorithm, client, self.synchronous)
        return MemoryPlan.of(algorithm, self.dataset.meta, n_shards, self.dataset.ahead, expected_workers(client))

    def is_begun(self) -> bool:
        """Return True if the folder holds an unfinished selection run."""
        return self.out.exists(f"{CHECKPOINT}/{KEY}")

    def load_finished(self) -> Selection | None:
        """Return the finished selection in the folder, or None, or raise OptionError if it is of another request."""
        if not self.out.exists(RECORD):
            return None
        selection = load_selection(self.out.url, self.out.options)
        then = {**selection.algorithm, "seed": selection.seed, "dataset": selection.source["digest"][:12]}
        now = {**describe_algorithm(self.algorithm), "seed": self.seed, "dataset": self.dataset.digest[:12]}
        changes = [key for key in now if json.dumps(then.get(key)) != json.dumps(now[key])]
        if changes:
            what = ", ".join(f"{key} was {then.get(key)!r:.40}, now {now[key]!r:.40}" for key in changes)
            raise OptionError(
                f"{self.out.url}: holds another run ({what}); choose another --out, or replace it with --overwrite"
            )
        return selection

    def _rehearse(self) -> bool:
        return self.algorithm.resolve(self.dataset.meta).rehearse(self.dataset.meta)

    def run(
        self,
        client: Client | None,
        requested_by: Mapping[str, Any],
        overwrite: bool = False,
        progress: Callable[[PassProgress], None] | None = None,
    ) -> Selection:
        """Run the feature selection, and store the selection and the record of the selection run in the folder.

        Without a client, the selection runs in this process. The record contains `requested_by`, the "command" or the
        "job". With `overwrite`, an unfinished selection run of another request is replaced.
        """
        if client is None and not self._rehearse():  # before the clock starts
            warm_up(type(self.algorithm).__module__)
        plan, before, begun, clock = self.plan(client), Footprint.begin(client), datetime.now(UTC), monotonic()
        run = partial(
            select,
            self.dataset,
            self.algorithm,
            client=client,
            checkpoint=f"{self.out.url}/{CHECKPOINT}",
            seed=self.seed,
            synchronous=self.synchronous,
            order=self.order,
            progress=progress,
            storage_options=self.out.options or None,
        )
        try:
            selection = run(resume=True)  # also after an interrupted --overwrite
        except CheckpointError:
            if not overwrite:
                raise
            selection = run()
        for name in (METRICS, PROFILES, SIZES, STABILITY, REPORT):  # files of the run that this one replaces
            self.out.delete(name)
        used, workers = before.used(client), 0 if client is None else len(call(client, client.nthreads))
        memory = {"promised": plan.promised, "used": used, "process": before.peak(client), "text": str(plan)}
        if used is not None and used > plan.promised:
            memory["remark"] = plan.broken_promise(used)
            warnings.warn(str(memory["remark"]), stacklevel=2)
        cost = {"workers": workers, "memory": memory}
        record = {**requested_by, **cost, **_run_record(selection, begun, monotonic() - clock)}
        write_record(self.out, RUN_RECORD, without_nan(record))
        selection.save(self.out.url, self.out.options)  # last: with it the run is finished
        self.out.delete(CHECKPOINT)  # useless now, and as large as the memory of the run
        return selection


def must_transpose(dataset: Dataset, algorithm: Algorithm) -> bool:
    """Return True if the algorithm reads columns, but the dataset is sparse and laid out in rows."""
    return dataset.kind == "sparse" and (algorithm.axis, dataset.layout) == ("columns", "rows")


def _run_record(selection: Selection, begun: datetime, seconds: float) -> dict[str, Any]:
    """Return the part of a run's JSON record on versions, the machine, the selection and its history."""
    totals = {name: float(np.nansum(selection.steps.get(name, 0.0))) for name in ("bytes", "seconds")}
    return {
        "version": VERSION,
        "daskfs": __version__,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "machine": {"cores": available_cores(), "memory": psutil.virtual_memory().total},
        "algorithm": selection.algorithm,
        "seed": selection.seed,
        "source": selection.source,
        "started": begun.isoformat(timespec="seconds"),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": max(seconds, totals["seconds"]),  # passes before an interruption count
        "bytes_read": int(totals["bytes"]),
        "offers": _staleness(selection),
    }


def _staleness(selection: Selection) -> dict[str, float] | None:
    """Return the number of worker offers, and the mean and largest staleness of their state, or None if unknown."""
    steps = selection.steps
    if "staleness_max" not in steps or not np.isfinite(steps["staleness_max"]).any():
        return None
    values = {"count": np.nansum(steps["offers"]), "staleness": np.nanmean(steps["staleness"])}
    return {
        name: float(value) for name, value in {**values, "staleness_max": np.nanmax(steps["staleness_max"])}.items()
    }
