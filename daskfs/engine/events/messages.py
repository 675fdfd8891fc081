"""The events of a run, and the record of time and bytes in them. No Dask here.

The driver and the workers of a run on a cluster log events under the topic "daskfs" of Dask's scheduler
(`Worker.log_event`, `Client.log_event`). The dashboard's page and the metrics for Prometheus are built from them. An
event is a small dict of numbers and short texts; "run" names the run and "what" the type of the event:

=========== ==================== =================================================================================
what        sent by              content
=========== ==================== =================================================================================
begun       the driver           algorithm, dataset, blocks, passes, workers, and finished passes of a resumed run
progress    the driver           number of the pass, and how many of its blocks are done
share       every worker         its `Spent` since its last event: blocks, rows or columns, bytes, seconds
preview     the driver           objective, changes, features with names and weights, staleness of offers
pass        the driver           a pass has ended: objective, changes, and seconds by purpose
checkpoint  the driver           a checkpoint was written, and the seconds that took
ended       the driver           the run has ended, or the error that ended it
refused     worker or driver     without a run: a worker or a run was refused, and the reason
=========== ==================== =================================================================================

Events of the driver also carry the id of its Dask client, by which a dead driver can be told from a slow one. No result
depends on an event: workers die, and schedulers forget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

TOPIC = "daskfs"
TOP = 20
"""How many features an event lists at most."""
LONGEST_TEXT = 120
"""Characters of a name, or of any other text that comes from data or people."""
Event = dict[str, Any]


@dataclass(slots=True)
class Spent:
    """Time and bytes that work has taken: of a task, a worker, a pass or a run. It adds up."""

    blocks: int = 0
    items: int = 0
    """Rows, or columns where those are streamed."""
    bytes: int = 0
    busy: float = 0.0
    """Seconds of reading blocks and of work on them."""
    reading: float = 0.0
    """The part of `busy` without a block to work on."""
    merging: float = 0.0
    """Seconds of merging or copying states; of an asynchronous run, seconds the centre was busy."""
    waiting: float = 0.0
    """Seconds of waiting for the centre."""
    alone_bytes: int = 0
    alone_seconds: float = 0.0
    """Blocks that were read while no other was worked on, and the seconds that took: the speed of storage."""
    scheduler: float = 0.0
    """Seconds between the moment a task could begin and its begin: Dask's scheduler, and states in transit."""

    @property
    def working(self) -> float:
        """Seconds of work on blocks; the next block is read meanwhile."""
        return max(0.0, self.busy - self.reading)

    def add(self, other: Spent) -> None:
        """Add another record to this one."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))


def share_event(run: str, worker: str, spent: Spent) -> Event:
    """Return the event of what a worker did since its last one.

    The worker's name is under "name": under "worker" Dask's schedulers write its address.
    """
    return {"run": run, "what": "share", "name": short(worker), **asdict(spent)}


def refused_event(why: object, worker: object = "") -> Event:
    """Return the event of a refused worker; without a worker, of a run that was refused before it began."""
    return {"what": "refused", "worker": short(worker), "why": short(why)}


def short(text: object) -> str:
    """Return a text of limited length without control characters.

    >>> short("gene\\x1b7")
    'gene?7'
    """
    whole = str(text)
    cut = whole if len(whole) <= LONGEST_TEXT else whole[: LONGEST_TEXT - 1] + "…"
    return "".join(character if character.isprintable() else "?" for character in cut)


def number(value: float) -> float | None:
    """Return a number as events hold it: None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def feature_list(names: Sequence[str], weights: NDArray[np.float64]) -> list[list[Any]]:
    """Return the first `TOP` names with their weights, as events hold them."""
    return [[short(name), _largest(weight)] for name, weight in zip(names[:TOP], weights[:TOP], strict=True)]


def _largest(weights: NDArray[np.float64]) -> float | None:
    """Return one weight to show; of one per class, the largest in absolute value."""
    several = np.atleast_1d(weights)
    return number(float(several[np.abs(several).argmax()])) if len(several) else None
