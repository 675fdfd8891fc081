"""A dataset made of another one that has the same features: their names, and the labels of the rows it takes over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from daskfs.store.dataset.dataset import Dataset
from daskfs.store.dataset.layout import ArraySpec, target_spec, weight_spec
from daskfs.store.dataset.reader import ArrayReader
from daskfs.store.dataset.regroup import RowRegrouper
from daskfs.store.dataset.writer import DatasetWriter, write_chunk, write_file
from daskfs.store.reorder.row_keys import Keys


def close_like(source: Dataset, writer: DatasetWriter, **changes: Any) -> None:
    """Write what a dataset stores of names and says of itself, but for the changes; from then on the new one opens."""
    for name, spec in source.content.items():
        if name == "feature" or name.startswith("names/"):
            _copy(ArrayReader(source.location, spec), writer)
    writer.close({**source.attributes, **changes})


def _copy(array: ArrayReader, writer: DatasetWriter) -> None:
    """An array as it is, chunk file by chunk file."""
    numbers = range(array.spec.n_chunks)
    writer.add(array.spec, [write_file(writer.location, array.spec, n, array.file(n)) for n in numbers])


def copy_targets(source: Dataset, wanted: Keys, writer: DatasetWriter) -> None:
    """Write labels and weights of the wanted rows, as a dataset has them whose features are not cut with them."""
    found: list[tuple[ArraySpec, Iterator[NDArray[Any]]]] = [(target_spec(wanted.rows), source.targets())]
    if "weight" in source.arrays:
        found.append((weight_spec(wanted.rows), source.weights()))
    for spec, pieces in found:
        cells, step = RowRegrouper(_kept(pieces, wanted)), spec.chunks[0]
        for number in range(spec.n_chunks):
            part = cells.take(min(step, wanted.rows - number * step))
            writer.add(spec, [write_chunk(writer.location, spec, number, part)])


def _kept(pieces: Iterator[NDArray[Any]], wanted: Keys) -> Iterator[NDArray[Any]]:
    first = 0
    for cells in pieces:
        yield cells[wanted.mask(first, len(cells))]
        first += len(cells)
