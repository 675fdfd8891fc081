"""run.json: how a selection came about, so that it can be trusted, repeated and paid for."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from time import monotonic
from typing import Any

import numpy as np
import psutil
from distributed import Client
from numpy.typing import NDArray

from daskfs import __version__
from daskfs.engine.cluster.pool import available_cores
from daskfs.engine.memory import Footprint, MemoryPlan
from daskfs.selection.records import without_nan
from daskfs.selection.selection import Selection

VERSION = 1
PACKAGES = ("dask", "distributed", "numba", "numpy", "scipy", "xarray", "zarr")


@dataclass(slots=True)
class Account:
    """What a run takes, noted while it runs."""

    client: Client | None
    plan: MemoryPlan
    before: Footprint
    begun: datetime = field(default_factory=lambda: datetime.now(UTC))
    clock: float = field(default_factory=monotonic)

    def record(self, selection: Selection, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The record of a run that ends now.

        Parameters
        ----------
        selection
            What it selected.
        asked
            Who asked for it: a "command", or a "job".
        """
        used = self.before.used(self.client)
        read, passes = (_of_passes(selection, name) for name in ("bytes", "seconds"))
        return without_nan(  # type: ignore[no-any-return]
            {
                **asked,
                "version": VERSION,
                "daskfs": __version__,
                "python": platform.python_version(),
                "packages": {name: version(name) for name in PACKAGES},
                "machine": {"cores": available_cores(), "memory": psutil.virtual_memory().total},
                "algorithm": selection.algorithm,
                "seed": selection.seed,
                "source": selection.source,
                "started": self.begun.isoformat(timespec="seconds"),
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                "seconds": max(monotonic() - self.clock, float(passes.sum())),  # some before it was interrupted
                "workers": 0 if self.client is None else len(self.client.nthreads()),
                "memory": {"promised": self.plan.total, "used": used, "text": str(self.plan)},
                "bytes_read": int(read.sum()),
                "offers": _staleness(selection),
            }
        )


def _of_passes(selection: Selection, name: str) -> NDArray[np.float64]:
    """What passes took of something, as far as it is known."""
    history = selection.history
    return np.nan_to_num(history[name].values) if name in history else np.zeros(0)


def _staleness(selection: Selection) -> dict[str, float] | None:
    """How old the views were that offers were made from, in versions; None where nobody worked with old views."""
    history = selection.history
    if "staleness_max" not in history or not np.isfinite(history.staleness_max.values).any():
        return None
    return {
        "count": float(np.nansum(history.offers.values)),
        "staleness": float(np.nanmean(history.staleness.values)),
        "staleness_max": float(np.nanmax(history.staleness_max.values)),
    }
