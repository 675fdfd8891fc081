"""The cluster that a command runs on: an existing cluster, a cluster started for the command, or none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from daskfs.errors import OptionError

if TYPE_CHECKING:
    from distributed import Client

SERIAL_BYTES = 256 << 20
"""Data of up to this size are processed in this process, since the processes of a cluster take seconds to start."""


@contextmanager
def cluster_for(scheduler: str | None, serial: bool, processes: int | None) -> Iterator[Client | None]:
    """Yield a client for the flags ``--scheduler``, ``--serial`` and ``--processes``, or None for ``--serial``.

    Without these flags a cluster is started on this machine.
    """
    if sum((scheduler is not None, serial, processes is not None)) > 1:
        raise OptionError("--scheduler, --serial, --processes: choose one of them")
    if serial:
        yield None
        return
    from daskfs.engine.cluster.start import LOGGERS, local_cluster, silent  # here, since it imports Dask

    with (
        silent(*LOGGERS),  # a run says in a line of its own what became of the scheduler
        local_cluster(processes) if scheduler is None else cluster_at(scheduler) as client,
    ):
        yield client


@contextmanager
def cluster_at(address: str | None) -> Iterator[Client | None]:
    """Yield a client of the scheduler at `address`; yield None if the address is None."""
    if address is None:
        yield None
        return
    from daskfs.engine.cluster.connect import connect  # here, since it imports Dask

    with connect(address) as client:
        yield client
