"""The events of a selection run, the record `Spent` of time and bytes in events, and the `Meter` that measures them.

The driver and the workers of a selection run log events under the topic "daskfs" of Dask's scheduler, with
`Worker.log_event` and `Client.log_event`. The dashboard's page and the metrics for Prometheus are built from events. An
event is a small dict of numbers and short texts, with the name of the run under "run" and its type under "what":

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

Events of the driver also carry the id of its Dask client, which tells a dead driver from a slow driver. No result
depends on an event, since events are lost when workers die or the scheduler discards old events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.protocol import Block, ColumnBlock, SparseColumnBlock

TOPIC = "daskfs"
TOP = 20
"""The largest number of features that an event lists."""
LONGEST_TEXT = 120
"""The largest number of characters of a text in an event, such as the name of a feature."""
Event = dict[str, Any]


@dataclass(slots=True)
class Spent:
    """Time and bytes that a task, a worker, a pass or a selection run has taken; records can be added up."""

    blocks: int = 0
    items: int = 0
    """How many rows were processed, or how many columns if the algorithm streams columns."""
    bytes: int = 0
    busy: float = 0.0
    """Seconds of reading and processing blocks."""
    reading: float = 0.0
    """The part of `busy` in which no block was ready to be processed."""
    merging: float = 0.0
    """Seconds of merging or copying states; in an asynchronous pass, the busy seconds of the actor with the state."""
    waiting: float = 0.0
    """Seconds of waiting for the dask actor that owns the state."""
    alone_bytes: int = 0
    alone_seconds: float = 0.0
    """Bytes and seconds of reading blocks while no other block was processed, a measure of the speed of storage."""
    scheduler: float = 0.0
    """Seconds between the end of a task's inputs and its start, for Dask's scheduler and the transfer of states."""

    @property
    def working(self) -> float:
        """Seconds of processing blocks, without the seconds of waiting for a block to be read."""
        return max(0.0, self.busy - self.reading)

    def add(self, other: Spent) -> None:
        """Add the numbers of another record to this record."""
        for part in fields(self):
            setattr(self, part.name, getattr(self, part.name) + getattr(other, part.name))


class Meter:
    """Measures the blocks, bytes and seconds of a task: `total` is their sum, and `notify` is called with every part.

    >>> from daskfs.engine.events.messages import Meter
    >>> _ = daskfs.write_dataset("eye.zarr", np.eye(4), np.arange(4))
    >>> meter = Meter()
    >>> for block in meter.over(daskfs.open_dataset("eye.zarr").blocks()):
    ...     pass
    >>> meter.total.blocks, meter.total.items
    (1, 4)
    """

    def __init__(self, notify: Callable[[Spent], None] | None = None, clock: Callable[[], float] = perf_counter):
        self.total, self._notify, self._clock = Spent(), notify, clock

    def over(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks, and measure how long the reading and the processing of every block take."""
        began, alone = self._clock(), True
        for block in blocks:
            read, nbytes, items, waited = self._clock(), block.nbytes, count_items(block), self.total.waiting
            yield block
            ended = self._clock()
            spent = Spent(1, items, nbytes, ended - began - (self.total.waiting - waited), read - began)
            if alone:  # while the first block is read there is none to work on
                spent.alone_bytes, spent.alone_seconds, alone = nbytes, read - began, False
            self._add(spent)
            began = ended

    @contextmanager
    def merging(self) -> Iterator[None]:
        """Count the time inside the context as merging."""
        began = self._clock()
        yield
        self._add(Spent(merging=self._clock() - began))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside the context as waiting, and not as a part of `busy`."""
        began = self._clock()
        yield
        self._add(Spent(waiting=self._clock() - began))

    def _add(self, spent: Spent) -> None:
        self.total.add(spent)
        if self._notify is not None:
            self._notify(spent)


def count_items(block: Block) -> int:
    """Return the number of columns of a block of columns, or the number of rows of a block of rows."""
    return len(block.ids if isinstance(block, ColumnBlock | SparseColumnBlock) else block.y)


def share_event(run: str, worker: str, spent: Spent) -> Event:
    """Return the event about a worker's time and bytes since its last event.

    The worker's name is stored under "name", since Dask's scheduler writes the worker's address under "worker".
    """
    return {"run": run, "what": "share", "name": short(worker), **asdict(spent)}


def refused_event(why: object, worker: object = "") -> Event:
    """Return the event about a refused worker, or about a selection run that was refused before it began."""
    return {"what": "refused", "worker": short(worker), "why": short(why)}


def short(text: object) -> str:
    """Return a text cut to `LONGEST_TEXT` characters, with "?" for control characters.

    >>> short("gene\\x1b7")
    'gene?7'
    """
    whole = str(text)
    cut = whole if len(whole) <= LONGEST_TEXT else whole[: LONGEST_TEXT - 1] + "…"
    return "".join(character if character.isprintable() else "?" for character in cut)


def number(value: float) -> float | None:
    """Return a finite number unchanged, and None for NaN and infinity."""
    return float(value) if math.isfinite(value) else None


def feature_list(names: Sequence[str], weights: NDArray[np.float64]) -> list[list[Any]]:
    """Return the first `TOP` feature names with their weights, as a list for an event."""
    return [[short(name), _largest(weight)] for name, weight in zip(names[:TOP], weights[:TOP], strict=True)]


def _largest(weights: NDArray[np.float64]) -> float | None:
    """Return the weight to show for a feature: with one weight per class, the weight largest in absolute value."""
    several = np.atleast_1d(weights)
    return number(float(several[np.abs(several).argmax()])) if len(several) else None
