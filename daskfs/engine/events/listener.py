"""What the driver of a run tells those who watch it; whom, and how, is the business of `reporting`. No Dask here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.checkpoint import Cost, Snapshot
from daskfs.engine.events.messages import TOP, Event, features_told, number, short
from daskfs.errors import public_url, redact
from daskfs.protocol import Algorithm, Preview
from daskfs.selection.products import feature_names, named_products
from daskfs.store.dataset.dataset import Dataset

if TYPE_CHECKING:
    from daskfs.engine.passes import PassProgress

PROGRESS_EVERY = 0.25
PREVIEW_EVERY = 2.0
"""Seconds, at least, between two of them."""


class RunListener:
    """One run, as told to others. Nothing here raises: a run does not end because it cannot be watched.

    Parameters
    ----------
    dataset, algorithm
        What is run over what.
    send
        Takes an event; without it nobody is told anything.
    """

    def __init__(self, dataset: Dataset, algorithm: Algorithm, send: Callable[[Event], None] | None = None) -> None:
        self._dataset, self._algorithm, self._send = dataset, algorithm, send
        self.run = os.urandom(8).hex() if send is not None else ""
        """What events call the run; empty if there are none."""
        self._names: dict[int, str] = {}
        self._shown: list[Any] = []
        self._next_progress = self._next_preview = 0.0

    def begun(self, now: Snapshot, workers: int) -> None:
        """A run begins, or goes on."""
        self._tell(
            "begun",
            algorithm=self._algorithm.name,
            dataset=short(public_url(self._dataset.url)),
            blocks=int(self._dataset.n_blocks(self._algorithm.axis)),
            passes=self._algorithm.passes,
            workers=workers,
            done=now.passes,
        )
        self._next_preview = monotonic() + PREVIEW_EVERY

    def progress(self, now: PassProgress) -> None:
        """So many blocks are done; said if it has not been said just now, or if they are all."""
        if self.run and (monotonic() >= self._next_progress or now.blocks_done == now.blocks):
            self._next_progress = monotonic() + PROGRESS_EVERY
            self._tell("progress", number=now.number, blocks_done=now.blocks_done, blocks=now.blocks)

    def is_preview_due(self) -> bool:
        """Whether somebody would like to see how the state is."""
        return bool(self.run) and monotonic() >= self._next_preview

    def preview(self, seen: Preview | None) -> None:
        """Tell what was seen of a state."""
        self._next_preview = monotonic() + PREVIEW_EVERY
        if seen is None or not self.run:
            return
        with suppress(Exception):  # names are read from the store
            made = None if seen.parents is None else named_products(self._look_up, seen.parents[:TOP])
            names = feature_names(self._look_up, seen.features[:TOP], made, seen.kind)
            staleness = None if seen.staleness is None else _without_zeros_behind(seen.staleness.tolist())
            now = [features_told(names, seen.weights), number(seen.objective), number(seen.changes), staleness]
            if now != self._shown:
                self._shown = now
                self._tell("preview", features=now[0], objective=now[1], changes=now[2], staleness=staleness)

    def closed(self, cost: Cost, passes: int, changes: float, before: Preview | None, after: Preview | None) -> None:
        """A pass is over, with so many changes of the set."""
        self.preview(before)
        self._tell(
            "pass",
            number=passes,
            objective=None if after is None else number(after.objective),
            changes=number(changes),
            **{name: number(seconds) for name, seconds in cost.times().items()},
        )
        self.preview(after)

    def checkpoint(self, seconds: float) -> None:
        """A checkpoint was written."""
        self._tell("checkpoint", seconds=seconds)

    def finished(self, names: Sequence[str], weights: NDArray[np.float64]) -> None:
        """The run is over, and this is what was selected."""
        with suppress(Exception):
            self._tell("ended", features=features_told(names, weights), why=None)

    def failed(self, error: BaseException) -> None:
        """The run is over for now."""
        self._tell("ended", features=None, why=short(redact(f"{type(error).__name__}: {error}")))

    def _look_up(self, ids: NDArray[np.uint64]) -> list[str]:
        """Names of columns; those that were asked for before are not read again."""
        new = [feature for feature in ids.tolist() if feature not in self._names]
        if new:
            self._names.update(zip(new, map(short, self._dataset.names(np.array(new, np.uint64))), strict=True))
        return [self._names[feature] for feature in ids.tolist()]

    def _tell(self, what: str, **facts: Any) -> None:
        if self._send is not None:
            self._send({"run": self.run, "what": what, **facts})


def _without_zeros_behind(counts: list[int]) -> list[int]:
    while counts and not counts[-1]:
        counts.pop()
    return counts
