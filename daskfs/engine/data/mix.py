"""Rows in random order for an algorithm that learns row by row, where the rows of a dataset are sorted by label."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.cluster.pool import available_cores
from daskfs.engine.cluster.worker_pool import require_worker, workers_of
from daskfs.engine.data.reorder import shuffle
from daskfs.engine.sizes import format_bytes
from daskfs.errors import OptionError, check_choice, public_url
from daskfs.protocol import Algorithm
from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.label_order import RowOrder
from daskfs.store.in_memory import InMemory
from daskfs.store.in_place import InPlace
from daskfs.store.places.location import Location
from daskfs.store.reorder.runs import row_keys

if TYPE_CHECKING:
    from distributed import Client

_COPIES = 3  # of the rows on disk: sorted runs, the new dataset, and a dataset made of a matrix in place


def must_mix(dataset: Dataset, algorithm: Algorithm, order: RowOrder) -> bool:
    """Return whether the rows are sorted by label, the algorithm learns row by row, and the order may be changed."""
    check_choice("order", order, RowOrder)
    return order == "auto" and algorithm.needs_mixed_rows(dataset.meta) and dataset.is_sorted


@contextmanager
def mixed_rows(dataset: Dataset, algorithm: Algorithm, order: RowOrder, client: Client | None) -> Iterator[Dataset]:
    """Yield a dataset whose rows an algorithm can learn, which is the same dataset unless its rows must be mixed.

    Rows in memory are read in random order. Of other rows a copy is written to the folder for temporary files, which
    is announced by a warning. Raise OptionError, with the command to run, if the copy would not fit there, or if other
    machines could not read it.
    """
    if not must_mix(dataset, algorithm, order):
        if order == "as-is" and algorithm.needs_mixed_rows(dataset.meta) and dataset.is_sorted:
            warnings.warn(f"{_fault(dataset, algorithm)}; they are learned in this order", stacklevel=4)
        yield dataset
    elif isinstance(dataset, InMemory):
        yield dataset.in_random_order()
    else:
        _check_room(dataset, algorithm, client)
        folder = tempfile.gettempdir()
        warnings.warn(
            f"{_fault(dataset, algorithm)}: a copy in random order is written to {folder} first; "
            "order='as-is' (--order as-is) does without",
            stacklevel=4,
        )
        with tempfile.TemporaryDirectory(prefix="daskfs-") as copies:
            yield _shuffled(dataset, Path(copies), client)


def _fault(dataset: Dataset, algorithm: Algorithm) -> str:
    return f"{public_url(dataset.url)}: its rows are sorted by label, and {algorithm.name} learns row by row"


def _shuffled(dataset: Dataset, folder: Path, client: Client | None) -> Dataset:
    """Return a copy of a dataset with its rows in random order."""
    source = dataset
    if isinstance(dataset, InPlace):
        from daskfs.engine.data.write import take_matrix_rows, write_matrix  # here, since these import pandas and dask

        matrix = take_matrix_rows(dataset.matrix, dataset.part_rows)
        source = write_matrix(Location(folder / "rows"), matrix, "rows", "error")
    workers = available_cores() if client is None else None
    mixed = shuffle(source, folder / "mixed", client=client, workers=workers)
    is_number = dataset.classes is None and mixed.classes is not None
    return mixed.with_real_target() if is_number else mixed


def order_of_shuffle(n_samples: int) -> NDArray[np.intp]:
    """Return for each row of a mixed dataset its row number in the sorted dataset."""
    return np.argsort(row_keys(0, 0, n_samples), kind="stable")


def _hosts(client: Client) -> set[str | None]:
    """Return the machines of the workers that are other processes, as soon as there is a worker."""
    require_worker(client)
    return {urlsplit(address).hostname for address in workers_of(client) if not address.startswith("inproc://")}


def _check_room(dataset: Dataset, algorithm: Algorithm, client: Client | None) -> None:
    """Raise OptionError if no copy can be written to the folder for temporary files, or workers could not read it."""
    needed, free = _COPIES * int(dataset.block_sizes("rows").sum()), shutil.disk_usage(tempfile.gettempdir()).free
    hosts = set() if client is None else _hosts(client)
    reason = ""
    if needed > free:
        reason = f"a copy takes up to {format_bytes(needed)}, and {tempfile.gettempdir()} has {format_bytes(free)}"
    elif not all(host is None or host == "localhost" or host.startswith("127.") or host == "::1" for host in hosts):
        reason = "workers on other machines could not read a copy that is made here"
    if reason:
        url = public_url(dataset.url)
        raise OptionError(
            f"{_fault(dataset, algorithm)}; {reason}: daskfs shuffle {url} MIXED.zarr writes them in random order, "
            "order='as-is' (--order as-is) learns them as they are"
        )
