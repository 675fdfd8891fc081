"""The function `write_dataset`, which writes a matrix (numpy, scipy.sparse, Dask, …) and its labels as a dataset."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import pandas as pd
from dask import config
from dask.array import Array as DaskArray
from dask.array import from_array, isfinite, isnan
from dask.base import compute, is_dask_collection
from dask.callbacks import Callback
from dask.delayed import delayed
from distributed import Client
from numpy.typing import ArrayLike, NDArray

from daskfs.engine.cluster.pool import Threads, available_cores, current_client, in_order, pool
from daskfs.engine.cluster.waiting import as_they_end, call, with_retries
from daskfs.errors import check_choice
from daskfs.store.dataset.codec import Codec, Compression
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.label_order import LabelOrder
from daskfs.store.dataset.layout import CHUNK_BYTES, UNFINISHED, DenseShape, Labels, Layout, dense_specs, target_spec
from daskfs.store.dataset.names import check_column_names
from daskfs.store.dataset.writer import new_writer, prepare, retire
from daskfs.store.ingest import arrays
from daskfs.store.ingest.dense_staging import DensePlan, close_dense, publish_dense
from daskfs.store.ingest.gaps import Fills, Missing, complete_rows, fill_matrix
from daskfs.store.matrix import Matrix
from daskfs.store.places.location import Location

OnBadRow = Literal["error", "drop"]


def write_dataset(
    url: str | os.PathLike[str],
    X: Any,
    y: ArrayLike,
    feature_names: Sequence[Any] | None = None,
    layout: Layout = "columns",
    *,
    overwrite: bool = False,
    compression: Compression | None = None,
    chunk_bytes: int = CHUNK_BYTES,
    on_bad_row: OnBadRow = "error",
    missing: Missing = "error",
    storage_options: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Write a matrix and its labels as a dataset, and return the dataset.

    Parameters
    ----------
    url
        The location of the dataset, a local path or a URL, as for `open_dataset`.
    X
        The matrix ``(samples, features)`` of numbers, as numpy, scipy.sparse (written as a sparse dataset), dask.array,
        xarray.DataArray or DataFrame. Numbers are stored as float32, or as float64 if the dtype does not fit float32.
    y
        The labels of the rows, numbers or strings; or several targets ``(samples, targets)``, which are numbers. The
        columns of a DataFrame name the targets, which are otherwise called y0, y1, …
    feature_names
        The names of the columns, by default the names that an xarray.DataArray or a DataFrame has.
    layout
        The chunks of dense data: whole ``"columns"`` (for Online Substitution), whole ``"rows"`` (for Sparse Random
        Features), or ``"both"`` at twice the space. Sparse data is always written in rows (see `transpose`).
    overwrite
        Replace an existing dataset.
    compression
        ``"none"`` (default for dense data), ``"lz4"`` (default for sparse data) or ``"zstd"`` (for slow storage).
    chunk_bytes
        The size of a chunk of dense data, which holds at least one whole column or row.
    on_bad_row
        ``"error"`` to raise an error at the first NaN or infinity, or ``"drop"`` to leave out rows with such values.
    missing
        What becomes of NaN: ``"error"``, or as for `ingest` ``"mean"``, ``"median"``, ``"indicator"``, ``"drop"`` or
        ``"zero"``. What was filled in is stored, and selections fill new data in the same way.
    storage_options
        Address and keys of the store, with the option names of fsspec or obstore, by default environment variables.
    progress
        A function that is called with the number of chunks done and the number of all chunks, of a dask.array only.

    Returns
    -------
    Dataset
        The dataset, opened.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 20)).astype("float32")
    >>> ds = daskfs.write_dataset("small.zarr", X, X[:, 3] > 0, layout="both")
    >>> ds.to_xarray().X.dims
    ('sample', 'feature')
    """
    check_choice("layout", layout, Layout)
    check_choice("compression", compression or "none", Compression)
    check_choice("on_bad_row", on_bad_row, OnBadRow)
    check_choice("missing", missing, Missing)
    X, feature_names = _unwrap(X, feature_names)
    raw_labels, target_names = _unwrap_target(y)
    arrays.check_shapes(X.shape, raw_labels.shape)
    arrays.stored_dtype(X.dtype)
    if on_bad_row == "drop" or missing == "drop":
        X, raw_labels = _drop_rows(X, raw_labels, only_gaps=on_bad_row != "drop")
        arrays.check_shapes(X.shape, raw_labels.shape)
    target, labels = arrays.encode_target(raw_labels, target_names)
    fills = Fills(missing)
    if not isinstance(X, DaskArray):
        X, feature_names, fills = fill_matrix(X, missing, feature_names)
    if feature_names is not None:
        feature_names = check_column_names(feature_names, X.shape[1]).tolist()
    location = Location(url, storage_options)
    with location.one_writer():
        prepare(location, overwrite)
        location.write(f"{UNFINISHED}/write_dataset", b"")
        if hasattr(X, "tocsr"):
            run = in_order(Threads(), "publish")  # renames on this machine's disk: nothing for a cluster
            arrays.write_sparse(location, X, target, labels, feature_names, Codec(compression or "lz4"), run, fills)
            return open_dataset(url, storage_options)
        shape = DenseShape(layout, chunk_bytes, Codec(compression or "none"))
        plan = DensePlan(shape, feature_names, {"by": "write_dataset"}, missing=missing)
        if isinstance(X, DaskArray):
            pool(options=[location.options])  # so that workers can write
            _write_dask(location, X, target, labels, plan, progress)
        else:
            arrays.write_dense(new_writer(location), X, target, labels, plan, fills)
    return open_dataset(url, storage_options)


def write_matrix(location: Location, matrix: Matrix, layout: Layout, missing: Missing) -> Dataset:
    """Write a matrix that could not be read in place as a dataset, chunk by chunk in bounded memory."""
    cells, names = matrix.cells, matrix.names
    if not isinstance(cells, DaskArray):
        cells = from_array(cells, chunks=matrix.chunks or "auto")
    target: Any = matrix.target
    if matrix.target_names is not None:
        target = pd.DataFrame(target, columns=list(matrix.target_names))
    return write_dataset(
        location.url, cells, target, names, layout, missing=missing, overwrite=True, storage_options=location.options
    )


def take_matrix_rows(matrix: Matrix, rows: NDArray[np.intp] | None) -> Matrix:
    """Return some rows of a matrix, whose cells are not read yet, or the matrix itself if `rows` is None."""
    if rows is None:
        return matrix
    cells = matrix.cells if isinstance(matrix.cells, DaskArray) else from_array(matrix.cells, chunks=matrix.chunks)
    return replace(matrix, cells=cells[rows], target=np.asarray(matrix.target)[rows], chunks=None)


def _unwrap(X: Any, names: Sequence[Any] | None, what: str = "X") -> tuple[Any, Sequence[Any] | None]:
    """Return the array inside an xarray.DataArray or a DataFrame, and its column names unless `names` are given."""
    if hasattr(X, "data_vars"):
        raise TypeError(f"{what} is an xarray.Dataset: pass one of its arrays, such as ds['{what}']")
    if hasattr(X, "dims") and hasattr(X, "coords"):
        columns = X.coords.get(X.dims[-1])
        if names is None and columns is not None and columns.dtype.kind in "OUST":
            names = [str(name) for name in columns.values]
        X = X.data
    elif hasattr(X, "columns") and hasattr(X, "to_numpy"):
        names = list(X.columns) if names is None else names
        X = cells_of_frame(X)
    if not hasattr(X, "dtype") or not hasattr(X, "shape"):
        X = np.asarray(X)
    if np.ma.isMaskedArray(X) and np.ma.is_masked(X):
        raise TypeError(f"{what} has masked values: fill them ({what}.filled(...)) or drop their rows first")
    return X, names


def _unwrap_target(y: Any) -> tuple[NDArray[Any], Sequence[Any] | None]:
    """Return the labels as an array, and the names of several targets if y is a DataFrame or an xarray.DataArray."""
    if is_dask_collection(y):
        (y,) = _compute([y], None)
    if len(getattr(y, "shape", ())) != 2:
        return np.asarray(y), None
    cells, names = _unwrap(y, None, "y")
    return np.asarray(cells), names


def cells_of_frame(frame: Any) -> Any:
    """Return the cells of a DataFrame as one array, of float64 if the columns have different numeric types."""
    texts = [str(name) for name, dtype in frame.dtypes.items() if getattr(dtype, "kind", "O") not in "biuf"]
    if texts:
        raise TypeError(f"columns {', '.join(texts[:5])} are not numeric: drop or encode them, or ingest the table")
    cells = frame.to_numpy()
    return frame.to_numpy(dtype=np.float64, na_value=np.nan) if cells.dtype.kind == "O" else cells


def _drop_rows(X: Any, y: Any, only_gaps: bool) -> tuple[Any, Any]:
    """Return X and y without the rows that have a NaN in X, or that have any value or label that is not finite."""
    if isinstance(X, DaskArray):
        (keep,) = _compute([(~isnan(X) if only_gaps else isfinite(X)).all(axis=1)], None)
        if not only_gaps:
            keep &= arrays.finite_labels(y)
    else:
        keep = complete_rows(X) if only_gaps else arrays.finite_rows(X, y)
    return (X, y) if keep.all() else (X[np.flatnonzero(keep)], y[keep])


def _write_dask(
    location: Location,
    X: DaskArray,
    y: NDArray[np.float64],
    labels: Labels,
    plan: DensePlan,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Write a Dask array as a dense dataset, where the task that computes a chunk also writes the chunk."""
    across = X.numblocks[0 if plan.shape.layout == "columns" else 1]
    if across > 1 or plan.shape.layout == "both" or plan.missing not in ("error", "drop"):
        _write_dask_tiles(location, X, y, labels, plan, progress)
        return
    writer = new_writer(location)
    write = delayed(arrays.write_checked_chunk, pure=False)
    for spec in dense_specs(X.shape, arrays.stored_dtype(X.dtype), plan.shape):
        parts = X.rechunk(spec.chunks).to_delayed().reshape(-1)
        writer.add(
            spec, _compute([write(writer.location, spec, number, part) for number, part in enumerate(parts)], progress)
        )
    writer.write(target_spec(len(y), labels.targets), y)
    close_dense(writer, X.shape, labels, LabelOrder.of(y), plan, {})


def _compute(tasks: list[Any], progress: Callable[[int, int], None] | None) -> list[Any]:
    """Return the values of delayed tasks or arrays, computed on the current Dask cluster or on threads."""
    if (client := current_client()) is not None:
        return with_retries(client, partial(_compute_on, client, tasks, progress))
    shown = nullcontext() if progress is None else _TaskCount(progress, tasks)
    # Threads of our own: after an error, those of Dask would go on writing chunks.
    with ThreadPoolExecutor(available_cores()) as threads, config.set(pool=threads), shown:
        return list(compute(*tasks))


def _compute_on(client: Client, tasks: list[Any], progress: Callable[[int, int], None] | None) -> list[Any]:
    futures = client.compute(tasks)
    for done, _ in enumerate(as_they_end(client, futures), 1):
        if progress is not None:
            progress(done, len(tasks))
    return list(call(client, client.gather, futures))


class _TaskCount(Callback):
    """Reports how many of some delayed tasks the threads of this process have done."""

    def __init__(self, progress: Callable[[int, int], None], tasks: list[Any]) -> None:
        self._progress, self._keys, self._done = progress, {task.key for task in tasks}, 0
        super().__init__(posttask=self._count)  # type: ignore[no-untyped-call]

    def _count(self, key: Any, *others: Any) -> None:
        if key in self._keys:
            self._done += 1
            self._progress(self._done, len(self._keys))


def _write_dask_tiles(
    location: Location,
    X: DaskArray,
    y: NDArray[np.float64],
    labels: Labels,
    plan: DensePlan,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Write a Dask array by staging its chunks as they are, because `rechunk` would hold all of X in memory."""
    dtype, names = arrays.stored_dtype(X.dtype), plan.names
    stage = delayed(arrays.stage_tile, pure=False)
    rows, columns = ([0, *accumulate(sizes)] for sizes in X.chunks)
    tiles, tasks = X.to_delayed(), []
    for number, (i, j) in enumerate(np.ndindex(*X.numblocks)):
        of_tile = None if names is None else names[columns[j] : columns[j + 1]]
        place = (rows[i], columns[j])
        tasks.append(stage(location, number, tiles[i, j], place, dtype, plan.shape.layout, of_tile, plan.missing))
    pieces = _compute(tasks, progress)
    retire(location)
    run = in_order(pool(options=[location.options]), "publish")
    publish_dense(location, pieces, plan, run, group_bytes=64 << 20, target=(y, labels))
