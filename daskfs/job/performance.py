"""Dask's own report of a selection, kept with the run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from distributed import Client, performance_report

from daskfs.store.places.location import Location

PERFORMANCE = "performance.html"


@contextmanager
def performance_kept(client: Client, place: Location) -> Iterator[None]:
    """Keep the performance report of what is done meanwhile; where that fails, nothing is kept."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / PERFORMANCE
        with client.as_current(), performance_report(str(page)):
            yield
        place.write(PERFORMANCE, page.read_bytes())
