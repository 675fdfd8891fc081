"""Read all of a dataset, by the paths users have, and compare folders: what most fault tests do."""

from __future__ import annotations

from pathlib import Path

import daskfs
from daskfs.store.dataset.reader import ArrayReader


def read_everything(dataset: daskfs.Dataset) -> int:
    """Every block along every axis, every name and tag; how many numbers that were."""
    axes = ("columns", "rows") if dataset.layout == "both" else (dataset.layout,)
    seen = 0
    for axis in axes:
        for block in dataset.blocks(axis=axis):
            seen += block.values.size if dataset.kind == "sparse" else block.X.size
    if dataset.kind == "sparse" and dataset.layout == "rows":
        for number in range(dataset.n_blocks()):
            dataset.tags(number)
    dataset.names(_all_ids(dataset))
    return seen


def _all_ids(dataset: daskfs.Dataset) -> list[int]:
    if "names/id" in dataset.arrays:
        return [int(i) for i in ArrayReader(dataset.location, dataset.arrays["names/id"]).read_all()]
    return list(range(dataset.n_features))


def files_of(folder: str | Path) -> dict[str, bytes]:
    """Every file below a folder, by its relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}
