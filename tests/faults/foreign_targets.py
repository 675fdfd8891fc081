"""Files of others, and those of an unfinished ingest, as targets of mutations: Zarr, .npy, Parquet, ``_unfinished``."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from faults.mutations import mutated_bytes, mutated_file
from faults.samples import small_blocks, vw_lines
from hypothesis import strategies as st
from store.formats.rows_of import rows_of

import daskfs
from daskfs.errors import Interrupted
from daskfs.store.in_place import InPlace
from daskfs.store.ingest.formats import make_format
from daskfs.store.matrix import open_matrix
from daskfs.store.places.location import Location

Target = tuple[Path, st.SearchStrategy[bytes], Callable[[], Any]]
Make = Callable[[Path], Target]
CELLS = np.random.default_rng(0).normal(size=(12, 6)).astype(np.float32)
LABELS = np.arange(12.0) % 2


def write_group(folder: Path, zarr_format: int, **options: Any) -> None:
    """A group as xarray writes it, with a matrix in several chunks, a target, and names of columns."""
    group = zarr.open_group(folder, mode="w", zarr_format=zarr_format)  # type: ignore[arg-type]
    names = np.array(list("abcdef"))
    arrays = {"X": (CELLS, ("row", "column")), "y": (LABELS, ("row",)), "column": (names, ("column",))}
    for name, (cells, dims) in arrays.items():
        named = {"dimension_names": dims} if zarr_format == 3 else {}
        chunks = (6, 2) if name == "X" else cells.shape
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the format of texts is not final
            array = group.create_array(name, shape=cells.shape, chunks=chunks, dtype=cells.dtype, **named, **options)
        array[...] = cells
        if zarr_format == 2:
            array.attrs["_ARRAY_DIMENSIONS"] = list(dims)


def read_matrix(url: Path, label: str = "") -> int:
    """Open a matrix of others, and read its first blocks along both axes, and all that is read once."""
    matrix = open_matrix(Location(url), "", label)
    seen = len(matrix.digest)
    for axis in ("rows", "columns"):
        if matrix.fits(axis):
            dataset = InPlace(matrix, axis)
            seen += sum(block.X.size for block in islice(dataset.blocks(axis=axis), 9))
            dataset.names([0])
    return seen


def foreign(zarr_format: int, key: str, **options: Any) -> Make:
    def make(folder: Path) -> Target:
        write_group(folder / "g", zarr_format, **options)
        file = folder / "g" / key
        is_json = "json" in key or key.rsplit("/", 1)[-1].startswith(".")
        cases = mutated_file(file.read_bytes()) if is_json else mutated_bytes(file.read_bytes())
        return file, cases, lambda: read_matrix(folder / "g")

    return make


def npy(name: str) -> Make:
    def make(folder: Path) -> Target:
        np.save(folder / "X.npy", CELLS)
        np.save(folder / "y.npy", LABELS)
        (folder / "y.txt").write_text("\n".join(map(str, LABELS)))
        file, label = folder / name, str(folder / ("y.txt" if name == "y.txt" else "y.npy"))
        return file, mutated_bytes(file.read_bytes()), lambda: read_matrix(folder / "X.npy", label)

    return make


def parquet(folder: Path) -> Target:
    file = folder / "t.parquet"
    frame = pd.DataFrame({"a": CELLS[:, 0], "b": list("xyzxyzxyzxyz"), "y": LABELS})
    frame.to_parquet(file, row_group_size=5)
    form = make_format("parquet", {"label": "y"})
    return file, mutated_bytes(file.read_bytes()), lambda: rows_of(form, [file])


def stop(*_: Any) -> None:
    raise Interrupted("stopped by a test")


TABLE = "a,b,y\n" + "".join(f"{i if i % 5 else ''},{'xyz'[i % 3]},{i % 2}\n" for i in range(40))
SOURCES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vw": (vw_lines(20, 0), "daskfs.engine.data.ingest._publish", {}),
    "csv": (TABLE, "daskfs.store.ingest.publish._publish_piece", {"label": "y", "order": "as-is"}),
}
"""Sources, and the function at which their ingest stops."""


def unfinished(format: str, key: str) -> Make:
    """A file of an ingest that was stopped; whatever is in it, the ingest ends with the same dataset, or refuses."""

    def make(folder: Path) -> Target:
        text, where, options = SOURCES[format]
        source, out, kept, file = (folder / name for name in (f"source.{format}", "out", "kept", "mutated"))
        source.write_text(text)

        def ingest() -> str:
            return daskfs.ingest(source, out, format, workers=1, **options).digest

        with small_blocks(part_bytes=10**6), pytest.MonkeyPatch.context() as patch:
            expected = ingest()
            shutil.rmtree(out)
            patch.setattr(where, stop)
            with pytest.raises(Interrupted):
                ingest()
            out.rename(kept)
        shutil.copy(kept / "_unfinished" / key, file)

        def read() -> None:
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(kept, out)
            shutil.copy(file, out / "_unfinished" / key)
            with small_blocks(part_bytes=10**6):
                assert ingest() == expected

        is_json = key == "plan.json"  # the others are a digest, and JSON with a checksum
        return file, (mutated_file if is_json else mutated_bytes)(file.read_bytes()), read

    return make


FOREIGN: dict[str, Make] = {
    "root of a Zarr group": foreign(3, "zarr.json"),
    "matrix of Zarr 3": foreign(3, "X/zarr.json"),
    "target of Zarr 3": foreign(3, "y/zarr.json"),
    "names of Zarr 3": foreign(3, "column/zarr.json"),
    "matrix of Zarr 2": foreign(2, "X/.zarray"),
    "attributes of Zarr 2": foreign(2, "X/.zattrs"),
    "names of Zarr 2": foreign(2, "column/.zarray"),
    "group of Zarr 2": foreign(2, ".zgroup"),
    "chunk of Zarr 3": foreign(3, "X/c/0/0"),
    "chunk of gzip": foreign(3, "X/c/0/0", compressors={"name": "gzip", "configuration": {"level": 1}}),
    "chunk of blosc": foreign(2, "X/0.0", compressors={"id": "blosc"}),
    "target in a chunk": foreign(3, "y/c/0"),
    "names in a chunk": foreign(3, "column/c/0"),
    "npy": npy("X.npy"),
    "target in npy": npy("y.npy"),
    "target in a text": npy("y.txt"),
    "parquet": parquet,
    "plan of an ingest": unfinished("vw", "plan.json"),
    "record of a piece": unfinished("vw", "000000.json"),
    "what is published": unfinished("csv", "publishing"),
    "fills of gaps": unfinished("csv", "fills.json"),
}
