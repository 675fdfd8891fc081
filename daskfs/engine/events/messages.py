"""The words in which a run tells those who watch it how it goes: small dicts of numbers and short texts.

Whoever takes part in a run on a cluster logs events under the topic "daskfs" (`Worker.log_event`, `Client.log_event`);
the dashboard's page and the metrics for Prometheus are made of them, and of what the scheduler knows of its workers.
Every event says of which run it is and what it is:

=========== ==================== =================================================================================
what        told by              it holds
=========== ==================== =================================================================================
begun       the driver           algorithm, dataset, blocks, passes, workers, and passes that are done if it is resumed
progress    the driver           the pass, and blocks of it that are done
share       every worker         what it did since it last said so: blocks, rows or columns, bytes, seconds
preview      the driver           objective, changes, features with names and weights, staleness of offers
pass        the driver           a pass is over: objective, changes, seconds, and where those went
checkpoint  the driver           one was written, and how long that took
ended       the driver           the run is over, or why it is not
refused     worker or driver     of no run: a worker that may not take part, or a run that may not begin, and why
=========== ==================== =================================================================================

Those of the driver also say which client of Dask it is, so that one that is gone can be told from one that is slow. No
Dask here, and nobody must rely on an event to arrive: workers die, and schedulers forget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import Block, ColumnBlock, SparseColumnBlock

TOPIC = "daskfs"
TOP = 20
"""Features that are told of."""
LONGEST_TEXT = 120
"""Characters of a name, or of anything else that comes from data or people."""
Event = dict[str, Any]


@dataclass(slots=True)
class Spent:
    """What somebody did: it adds up."""

    blocks: int = 0
    items: int = 0
    """Rows, or columns where those are streamed."""
    bytes: int = 0
    busy: float = 0.0
    """Seconds with blocks: reading them, and at work on them."""
    reading: float = 0.0
    """Of these, seconds without a block to work on."""
    merging: float = 0.0
    """Seconds that states were merged or copied."""
    waiting: float = 0.0
    """Seconds of waiting for the centre."""
    alone_bytes: int = 0
    alone_seconds: float = 0.0
    """Blocks that were read while nobody worked on another, and how long that took: the speed of storage."""

    @property
    def working(self) -> float:
        """Seconds at work on blocks, and on reading the next one meanwhile."""
        return max(0.0, self.busy - self.reading)

    def add(self, other: Spent) -> None:
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))


def share_event(run: str, worker: str, share: Spent) -> Event:
    """What a worker of this name did since it last said so. (As `worker`, Dask's schedulers write its address.)"""
    return {"run": run, "what": "share", "name": short(worker), **asdict(share)}


def refused_event(why: object, worker: object = "") -> Event:
    """A worker is refused, or without one a run before it begins; in one line."""
    return {"what": "refused", "worker": short(worker), "why": short(why)}


def items_of(block: Block) -> int:
    """How many rows or columns a block has, whichever it is made of."""
    return len(block.ids if isinstance(block, ColumnBlock | SparseColumnBlock) else block.y)


def short(text: object) -> str:
    """A text that is not too long, and steers nothing.

    >>> short("gene\\x1b7")
    'gene?7'
    """
    whole = str(text)
    cut = whole if len(whole) <= LONGEST_TEXT else whole[: LONGEST_TEXT - 1] + "…"
    return "".join(character if character.isprintable() else "?" for character in cut)


def number(value: float) -> float | None:
    """A number as an event holds it: None where there is none."""
    return float(value) if math.isfinite(value) else None


def weight_of(weights: NDArray[np.float64]) -> float | None:
    """One weight to show: of several classes, the one that is largest either way."""
    several = np.atleast_1d(weights)
    return number(float(several[np.abs(several).argmax()])) if len(several) else None


def features_told(names: Sequence[str], weights: NDArray[np.float64]) -> list[list[Any]]:
    """The first few names with their weights, as an event holds them."""
    return [[short(name), weight_of(weight)] for name, weight in zip(names[:TOP], weights[:TOP], strict=True)]
