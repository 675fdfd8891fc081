"""The events that the driver of a selection run sends; the module `send` transports the events with Dask."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import isfinite
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.checkpoint import PassCost, Snapshot
from daskfs.engine.events.messages import TOP, Event, feature_list, number, short
from daskfs.errors import public_url, redact
from daskfs.protocol import Algorithm, Preview
from daskfs.selection.products import feature_names, named_products
from daskfs.store.dataset.dataset import Dataset

if TYPE_CHECKING:
    from daskfs.engine.passes import PassProgress

PROGRESS_EVERY = 0.25
"""Least number of seconds between two progress events."""
PREVIEW_EVERY = 2.0
"""Least number of seconds between two previews of the state."""


class RunListener:
    """Sends events about a selection run with the function `send`, or nothing if it is None.

    No method raises, since a selection run must not fail because of events.
    """

    def __init__(self, dataset: Dataset, algorithm: Algorithm, send: Callable[[Event], None] | None = None) -> None:
        self._dataset, self._algorithm, self._send = dataset, algorithm, send
        self.run = os.urandom(8).hex() if send is not None else ""
        """The name of the selection run in events; empty if events are turned off."""
        self._names: dict[int, str] = {}
        self._last_preview: Event = {}
        self._next_progress = self._next_preview = 0.0

    def begun(self, snapshot: Snapshot, workers: int) -> None:
        """Send an event that a selection run begins or resumes."""
        self._notify(
            "begun",
            algorithm=self._algorithm.name,
            dataset=short(public_url(self._dataset.url)),
            blocks=int(self._dataset.n_blocks(self._algorithm.axis)),
            passes=self._algorithm.max_reads,
            workers=workers,
            done=snapshot.passes,
        )
        self._next_preview = monotonic() + PREVIEW_EVERY

    def progress(self, now: PassProgress) -> None:
        """Send an event with the number of finished blocks, every `PROGRESS_EVERY` seconds and after the last block."""
        if self.run and (monotonic() >= self._next_progress or now.blocks_done == now.blocks):
            self._next_progress = monotonic() + PROGRESS_EVERY
            self._notify("progress", number=now.number, blocks_done=now.blocks_done, blocks=now.blocks)

    def is_preview_due(self) -> bool:
        """Return whether it is time to send another preview of the state."""
        return bool(self.run) and monotonic() >= self._next_preview

    def preview(self, preview: Preview | None) -> None:
        """Send a preview of the state, unless the preview equals the previous preview."""
        self._next_preview = monotonic() + PREVIEW_EVERY
        if preview is None or not self.run:
            return
        with suppress(Exception):  # names are read from the store
            products = None if preview.parents is None else named_products(self._look_up, preview.parents[:TOP])
            names = feature_names(self._look_up, preview.features[:TOP], products, preview.kind)
            staleness = None if preview.staleness is None else np.trim_zeros(preview.staleness, "b").tolist()
            content = {"features": feature_list(names, preview.weights), "staleness": staleness}
            content |= {"objective": number(preview.objective), "changes": number(preview.changes)}
            if content != self._last_preview:
                self._last_preview = content
                self._notify("preview", **content)

    def pass_ended(
        self, cost: PassCost, number_of_pass: int, changes: float, before: Preview | None, after: Preview | None
    ) -> None:
        """Send an event that a pass has ended, with the previews `before` and `after` the call of `end_pass`."""
        self.preview(before)
        objective = None if after is None else number(after.objective)
        times = {name: seconds for name, seconds in cost.times().items() if isfinite(seconds)}
        self._notify("pass", number=number_of_pass, objective=objective, changes=number(changes), **times)
        self.preview(after)

    def checkpoint(self, seconds: float) -> None:
        """Send an event that a checkpoint was written, with the seconds that the writing took."""
        self._notify("checkpoint", seconds=seconds)

    def finished(self, names: Sequence[str], weights: NDArray[np.float64]) -> None:
        """Send an event that the selection run has ended, with the selected features."""
        with suppress(Exception):
            self._notify("ended", features=feature_list(names, weights), why=None)

    def failed(self, error: BaseException) -> None:
        """Send an event that an error has ended the selection run."""
        self._notify("ended", features=None, why=short(redact(f"{type(error).__name__}: {error}")))

    def _look_up(self, ids: NDArray[np.uint64]) -> list[str]:
        """Return names of columns, read from the store once per column and then cached."""
        new = [feature for feature in ids.tolist() if feature not in self._names]
        if new:
            self._names.update(zip(new, map(short, self._dataset.names(np.array(new, np.uint64))), strict=True))
        return [self._names[feature] for feature in ids.tolist()]

    def _notify(self, what: str, **content: Any) -> None:
        if self._send is not None:
            self._send({"run": self.run, "what": what, **content})
