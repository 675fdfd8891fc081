"""The clock of a task: it measures how much the task did and how long that took. No Dask here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from daskfs.engine.events.messages import Spent
from daskfs.protocol import Block, ColumnBlock, SparseColumnBlock

NOTIFY_SECONDS = 0.25
"""Seconds, at least, between two calls of a meter's `notify`."""


class Meter:
    """Measures a task while it runs.

    Parameters
    ----------
    notify
        Called now and then with what the task did since the last call; None if nothing listens.
    clock
        Returns seconds.

    Examples
    --------
    >>> from daskfs.engine.events.meter import Meter
    >>> daskfs.write_dataset("eye.zarr", np.eye(4), np.arange(4))
    >>> meter = Meter()
    >>> for block in meter.over(daskfs.open_dataset("eye.zarr").blocks()):
    ...     pass
    >>> meter.total.blocks, meter.total.items
    (1, 4)
    """

    def __init__(self, notify: Callable[[Spent], None] | None = None, clock: Callable[[], float] = perf_counter):
        self.total, self._unsent = Spent(), Spent()
        self._notify, self._clock, self._notified = notify, clock, clock()

    def over(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks, and measure how long each took to read and to process."""
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
        """Count the time inside as merging."""
        began = self._clock()
        yield
        self._add(Spent(merging=self._clock() - began))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside as waiting; it is then no part of `busy`, even between two blocks."""
        began = self._clock()
        yield
        self._add(Spent(waiting=self._clock() - began))

    def finish(self) -> Spent:
        """Send the last notification. Return everything the task did."""
        self._send()
        return self.total

    def _add(self, spent: Spent) -> None:
        self.total.add(spent)
        self._unsent.add(spent)
        if self._clock() - self._notified >= NOTIFY_SECONDS:
            self._send()

    def _send(self) -> None:
        if self._notify is not None:
            self._notify(self._unsent)
        self._unsent, self._notified = Spent(), self._clock()


def count_items(block: Block) -> int:
    """Return how many rows or columns a block has, whichever the dataset is streamed by."""
    return len(block.ids if isinstance(block, ColumnBlock | SparseColumnBlock) else block.y)
