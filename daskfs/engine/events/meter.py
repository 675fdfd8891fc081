"""The clock of a task: what it did, and where its time went. No Dask here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from daskfs.engine.events.messages import Spent, items_of
from daskfs.protocol import Block

PAUSE = 0.25
"""Seconds, at least, between two times that a task says what it did."""


class Meter:
    """Measures a task while it runs.

    Parameters
    ----------
    tell
        Called now and then with what was done since the last call; with nothing, nobody listens.
    clock
        Seconds.

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

    def __init__(self, tell: Callable[[Spent], None] | None = None, clock: Callable[[], float] = perf_counter) -> None:
        self.total, self._untold = Spent(), Spent()
        self._tell, self._clock, self._told = tell, clock, clock()

    def over(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The blocks, while the time between them is taken."""
        begun, alone = self._clock(), True
        for block in blocks:
            read, nbytes, items, waited = self._clock(), block.nbytes, items_of(block), self.total.waiting
            yield block
            done = self._clock()
            some = Spent(1, items, nbytes, done - begun - (self.total.waiting - waited), read - begun)
            if alone:  # while the first is read there is none to work on
                some.alone_bytes, some.alone_seconds, alone = nbytes, read - begun, False
            self._note(some)
            begun = done

    @contextmanager
    def merging(self) -> Iterator[None]:
        begun = self._clock()
        yield
        self._note(Spent(merging=self._clock() - begun))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For someone else: this is no work, also between blocks."""
        begun = self._clock()
        yield
        self._note(Spent(waiting=self._clock() - begun))

    def done(self) -> Spent:
        """All of it, the last of it told."""
        self._say()
        return self.total

    def _note(self, some: Spent) -> None:
        self.total.add(some)
        self._untold.add(some)
        if self._tell is not None and self._clock() - self._told >= PAUSE:
            self._say()

    def _say(self) -> None:
        if self._tell is not None:
            self._tell(self._untold)
        self._untold, self._told = Spent(), self._clock()
