"""A dataset made of another one that has the same features: their names are copied as they are."""

from __future__ import annotations

from daskfs.store.dataset import Dataset
from daskfs.store.reader import ArrayReader
from daskfs.store.writer import DatasetWriter, write_file


def copy_names(source: Dataset, writer: DatasetWriter) -> None:
    """Write what a dataset stores of the names of its features."""
    for name, spec in source.content.items():
        if name == "feature" or name.startswith("names/"):
            _copy(ArrayReader(source.location, spec), writer)


def _copy(array: ArrayReader, writer: DatasetWriter) -> None:
    """An array as it is, chunk file by chunk file."""
    numbers = range(array.spec.n_chunks)
    writer.add(array.spec, [write_file(writer.location, array.spec, n, array.file(n)) for n in numbers])
