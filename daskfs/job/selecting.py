"""A selection made once and kept in a folder: what `daskfs select` and the job runner do.

The folder holds a checkpoint while the run lasts, then the selection with its history and `run.json`. Run again, an
unfinished run goes on, and a finished one is found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import Client

from daskfs.engine.checkpoint import KEY, describe_algorithm
from daskfs.engine.cluster.pool import prepare_workers
from daskfs.engine.memory import Footprint, MemoryPlan
from daskfs.engine.passes import PassProgress
from daskfs.engine.run import memory_plan, n_shards_for, select
from daskfs.errors import CheckpointError, OptionError
from daskfs.jit import warm_up
from daskfs.job.record import Account
from daskfs.protocol import Algorithm
from daskfs.selection.records import METRICS, REPORT, RUN_RECORD, SIZES, STABILITY, write_record
from daskfs.selection.run_folder import CHECKPOINT, RECORD
from daskfs.selection.selection import Selection, load_selection
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.layout import ROOT
from daskfs.store.places.location import Location


@dataclass(frozen=True)
class Request:
    """A selection that somebody asks for, and where it is to be kept."""

    dataset: Dataset
    algorithm: Algorithm
    out: Location
    seed: int = 0
    synchronous: bool = False

    def check(self) -> None:
        """OptionError, before anything is written, if it cannot be made, or not there."""
        dataset, algorithm = self.dataset, self.algorithm
        if must_transpose(dataset, algorithm):
            raise OptionError(
                f"{dataset.url}: is laid out in rows, and {type(algorithm).__name__} reads columns; "
                f"run daskfs transpose {dataset.url} COLUMNS.zarr, and select from that"
            )
        dataset.n_blocks(algorithm.axis)
        if self.out.exists(ROOT):
            raise OptionError(f"{self.out.url}: is a dataset; choose another place for the run")
        if not (self.out.exists(RECORD) or self.is_begun()) and self._holds_something():
            raise OptionError(f"{self.out.url}: holds something that is no run; choose another place for this one")

    def _holds_something(self) -> bool:
        """True if there is anything but the empty folder of a run that never began."""
        if self.out.is_empty():
            return False
        return set(self.out.members()) != {CHECKPOINT} or bool(self.out.members(CHECKPOINT))

    def plan(self, client: Client | None) -> MemoryPlan:
        """What it will take in every process that takes part; waits for the first of them."""
        if client is None:
            return memory_plan(self.dataset, self.algorithm)
        prepare_workers(client)
        n_shards = n_shards_for(self.dataset, self.algorithm, client, self.synchronous)
        return MemoryPlan.of(self.algorithm, self.dataset.meta, n_shards, self.dataset.ahead)

    def is_begun(self) -> bool:
        """True if an unfinished run is there."""
        return self.out.exists(f"{CHECKPOINT}/{KEY}")

    def found(self) -> Selection | None:
        """The finished selection that is there; OptionError if it is another one."""
        if not self.out.exists(RECORD):
            return None
        kept = load_selection(self.out.url, self.out.options)
        then = {**kept.algorithm, "seed": kept.seed, "dataset": kept.source["digest"][:12]}
        now = {**describe_algorithm(self.algorithm), "seed": self.seed, "dataset": self.dataset.digest[:12]}
        changes = [key for key in now if json.dumps(then.get(key)) != json.dumps(now[key])]
        if changes:
            what = ", ".join(f"{key} was {then.get(key)!r:.40}, now {now[key]!r:.40}" for key in changes)
            raise OptionError(
                f"{self.out.url}: holds another run ({what}); choose another --out, or replace it with --overwrite"
            )
        return kept

    def made(
        self,
        client: Client | None,
        asked: Mapping[str, Any],
        overwrite: bool = False,
        progress: Callable[[PassProgress], None] | None = None,
    ) -> Selection:
        """Make the selection and keep it with its record.

        Parameters
        ----------
        client
            The cluster to use; None for this process.
        asked
            Who asks for it, for the record: a "command", or a "job".
        overwrite
            Do not mind an unfinished run of something else.
        progress
            As for `select`.
        """
        if client is None:
            warm_up(type(self.algorithm).__module__)  # what kernels take is not the run's
        account = Account(client, self.plan(client), Footprint.begin(client))
        run = partial(
            select,
            self.dataset,
            self.algorithm,
            client=client,
            checkpoint=f"{self.out.url}/{CHECKPOINT}",
            seed=self.seed,
            synchronous=self.synchronous,
            progress=progress,
            storage_options=self.out.options or None,
        )
        try:
            selection = run(resume=True)  # also one that was to replace another, and was interrupted
        except CheckpointError:
            if not overwrite:
                raise
            selection = run()
        for name in (METRICS, SIZES, STABILITY, REPORT):  # of a run that is replaced
            self.out.delete(name)
        write_record(self.out, RUN_RECORD, account.record(selection, asked))
        selection.save(self.out.url, self.out.options)  # last: with it the run is finished
        self.out.delete(CHECKPOINT)  # as large as the memory of the run, and of no more use
        return selection


def must_transpose(dataset: Dataset, algorithm: Algorithm) -> bool:
    """True if the algorithm reads columns and the dataset, sparse, has none."""
    return dataset.kind == "sparse" and (algorithm.axis, dataset.layout) == ("columns", "rows")
