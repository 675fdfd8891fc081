"""Write numpy arrays and scipy.sparse matrices as datasets, and check their types, shapes and values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.errors import DatasetError, OptionError
from daskfs.store.dataset.codec import Codec
from daskfs.store.dataset.label_order import LabelOrder
from daskfs.store.dataset.layout import (
    ArraySpec,
    Labels,
    Layout,
    check_targets,
    dense_specs,
    distinct_numbers,
    merge_string_labels,
    target_spec,
)
from daskfs.store.dataset.writer import DatasetWriter, retire, write_chunk
from daskfs.store.ingest.dense_staging import DensePiece, DensePieceWriter, DensePlan, close_dense
from daskfs.store.ingest.gaps import Fills, Missing, count_missing
from daskfs.store.ingest.publish import RunTasks, SparsePlan, no_decisions, publish_sparse, table_facts
from daskfs.store.ingest.rows import BadLines, LabelCodes, NameCollector, RowBuilder
from daskfs.store.ingest.rows_kernels import first_not_finite
from daskfs.store.ingest.staging import BlockShape, SparsePieceWriter
from daskfs.store.places.location import Location

BLOCK_ENTRIES = 1 << 19
_ROWS_AT_ONCE = 1 << 16
_LEAVE_OUT = " (on_bad_row='drop' of write_dataset leaves the row out)"


def stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the float dtype that holds every value of a numeric dtype exactly (64-bit integers up to 2^53)."""
    if dtype.kind not in "biuf":
        raise TypeError(f"X of dtype {dtype} is not numeric: convert it to numbers first")
    fits_float32 = dtype.kind == "b" or dtype.itemsize < 4 or (dtype.kind == "f" and dtype.itemsize == 4)
    return np.dtype(np.float32 if fits_float32 else np.float64)


def encode_target(target: NDArray[Any], names: Sequence[Any] | None = None) -> tuple[NDArray[np.float64], Labels]:
    """Return the labels y as float64 numbers (class numbers if y holds strings), and the `Labels` that decode them.

    Several targets (rows, targets) are numbers, with `names` that are y0, y1, … by default; one column is one target.
    """
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim == 2:
        return _encode_targets(target, names)
    if target.dtype.kind == "S":
        target = np.char.decode(target, "utf-8")
    if target.dtype.kind == "O":
        target = _of_one_type(target)
    if target.dtype.kind in "UT" or (target.dtype.kind == "O" and all(isinstance(label, str) for label in target)):
        labels = merge_string_labels([[str(label) for label in target]])
        codes = np.searchsorted(np.array(labels.classes, object), target.astype(object))
        return codes.astype(np.float64), labels
    if target.dtype.kind not in "biuf":
        raise TypeError(f"y of dtype {target.dtype}: labels are numbers or strings")
    numbers = target.astype(np.float64)
    if (bad := first_not_finite(numbers)) >= 0:
        raise DatasetError(f"y[{bad}] is {numbers[bad]}: labels must be finite{_LEAVE_OUT}")
    distinct = distinct_numbers(numbers)
    return numbers, Labels(False, None if distinct is None else tuple(distinct))


def _of_one_type(target: NDArray[Any]) -> NDArray[Any]:
    """Return an array of Python objects as numbers if all are numbers, else unchanged. Raise DatasetError for a gap."""
    if all(isinstance(label, str) for label in target):
        return target
    if len(missing := np.flatnonzero(~finite_labels(target))):
        raise DatasetError(f"y[{missing[0]}] is {target[missing[0]]}: every row needs a label{_LEAVE_OUT}")
    are_numbers = all(isinstance(label, int | float | np.number | np.bool_) for label in target)
    return target.astype(np.float64) if are_numbers else target


def _encode_targets(target: NDArray[Any], names: Sequence[Any] | None) -> tuple[NDArray[np.float64], Labels]:
    """Return several targets (rows, targets) as float64 numbers, and the `Labels` that name them."""
    count = target.shape[1]
    columns = check_targets(
        [f"y{column}" for column in range(count)] if names is None else [str(name) for name in names]
    )
    if target.dtype.kind not in "biuf":
        raise TypeError(f"y of dtype {target.dtype}: several targets are numbers; give one target if it is a class")
    numbers = np.ascontiguousarray(target, np.float64)
    if (bad := first_not_finite(numbers.reshape(-1))) >= 0:
        row, column = divmod(int(bad), count)
        where = f"y[{row}, {column}] ({columns[column]}) is {numbers[row, column]}"
        raise DatasetError(f"{where}: targets must be finite{_LEAVE_OUT}")
    return numbers, Labels(False, None, columns)


def check_finite(X: Any, names: Sequence[Any] | None) -> None:
    """Raise DatasetError, with row and column, if a numpy or scipy.sparse matrix has a value that is not finite."""
    values = X.data if scipy.sparse.issparse(X) else X
    for start in range(0, len(values), _ROWS_AT_ONCE):
        finite = np.isfinite(values[start : start + _ROWS_AT_ONCE])
        if finite.all():
            continue
        if scipy.sparse.issparse(X):
            entries = X.tocoo()
            row, column = (int(at[~np.isfinite(entries.data)][0]) for at in entries.coords)
        else:
            row, column = (int(at[0]) for at in np.nonzero(~finite))
            row += start
        name = f"x{column}" if names is None else names[column]
        value = float(X[row, column])
        remedy = "; missing='mean' fills gaps" if math.isnan(value) else ""
        raise DatasetError(f"row {row}: feature {str(name)!r:.80} is {value}: values must be finite{remedy}")


def check_cells(
    part: NDArray[Any], spec: ArraySpec, number: int, first_row: int = 0, first_column: int = 0, gaps: bool = False
) -> NDArray[Any]:
    """Return the cells of chunk `number` of X in the stored dtype, or raise DatasetError if a cell is not finite.

    NaN may stay if `gaps` are allowed.
    """
    with np.errstate(over="ignore"):
        cells = np.asarray(part, dtype=spec.dtype)
    order: Literal["C", "F"] = "F" if spec.codec.columns_contiguous else "C"
    line = cells.reshape(-1, order=order)
    bad = int(first_not_finite(line))
    if bad >= 0 and gaps:
        bad = int(next(iter(np.flatnonzero(np.isinf(line))), -1))
    if bad >= 0:
        row, column = np.unravel_index(bad, cells.shape, order=order)
        i, j = np.unravel_index(number, spec.grid)
        value, row, column = cells[row, column], row + i * spec.chunks[0] + first_row, column + j * spec.chunks[1]
        column += first_column
        raise DatasetError(
            f"X[{row}, {column}] is {value}: values must be finite (on_bad_row='drop' leaves the row out, "
            "missing='mean', 'median', 'indicator' or 'zero' fills gaps)"
        )
    return cells


def write_checked_chunk(location: Location, spec: ArraySpec, number: int, part: NDArray[Any]) -> tuple[int, int, int]:
    """Check that all cells of one chunk of X are finite, and write the chunk."""
    return write_chunk(location, spec, number, check_cells(np.asarray(part), spec, number))


def write_dense(
    writer: DatasetWriter,
    X: np.ndarray[tuple[int, int], Any],
    target: NDArray[np.float64],
    labels: Labels,
    plan: DensePlan,
    fills: Fills,
) -> None:
    """Write a numpy matrix X and its labels as a dense dataset; `fills` says how its gaps were filled."""
    for spec in dense_specs(X.shape, stored_dtype(X.dtype), plan.shape):
        rows, columns = spec.chunks
        for number in range(spec.n_chunks):
            i, j = np.unravel_index(number, spec.grid)
            part = X[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            writer.add(spec, [write_checked_chunk(writer.location, spec, number, part)])
    writer.write(target_spec(len(X), labels.targets), target)
    close_dense(writer, X.shape, labels, LabelOrder.of(target), plan, table_facts(no_decisions, {}, fills))


def stage_tile(
    location: Location,
    number: int,
    X: NDArray[Any],
    first: tuple[int, int],
    dtype: np.dtype[Any],
    layout: Layout,
    names: Sequence[str] | None,
    missing: Missing,
) -> DensePiece:
    """Check a tile of a dense matrix that begins at row and column `first`, and stage the tile as one piece."""
    whole = ArraySpec("X", X.shape, X.shape, dtype, ("sample", "feature"))
    cells = check_cells(np.asarray(X), whole, 0, *first, gaps=missing != "error")
    stage, counts = DensePieceWriter(location, number, "", layout, segment_bytes=0), LabelCodes()
    stage.piece.first_row, stage.piece.first_column = first
    for column in np.flatnonzero(count_missing(cells)) if missing != "error" else ():
        at = first[1] + int(column)
        counts.gaps[f"x{at}" if names is None else names[int(column)]] = int(np.isnan(cells[:, column]).sum())
    stage.take_rows(cells, np.zeros(len(cells)))
    return stage.close(counts, BadLines())


def write_sparse(
    location: Location,
    X: Any,
    target: NDArray[np.float64],
    labels: Labels,
    feature_names: Sequence[Any] | None,
    compression: Codec,
    run: RunTasks,
    fills: Fills,
) -> None:
    """Write a scipy.sparse matrix as a dataset, with sorted indices in every row and duplicate entries summed."""
    matrix = X.tocsr()
    with np.errstate(over="ignore"):
        values = matrix.data.astype(np.float32)
    if (bad := first_not_finite(values)) >= 0:
        row = int(np.searchsorted(matrix.indptr, bad, side="right")) - 1
        raise DatasetError(
            f"X[{row}, {matrix.indices[bad]}] is {matrix.data[bad]}: values must be finite float32 numbers"
        )
    shape = rows_shape(matrix.shape[0], matrix.nnz, compression)
    stage = SparsePieceWriter(location, 0, "", shape, targets=labels.targets)
    rows = RowBuilder(
        stage.take_rows,
        stage.take_names,
        block_rows=shape.rows,
        block_entries=shape.entries,
        collected=NameCollector(1024),
        bad_lines=BadLines(),
    )
    rows.append(matrix.indptr.astype(np.int64), matrix.indices.astype(np.uint64), values, target)
    rows.finish()
    piece = stage.close(rows, rows.bad_lines)
    retire(location)
    if labels.strings:
        piece.strings = [str(label) for label in labels.classes or ()]
    names = {"from": "ids", "prefix": "x"} if feature_names is None else {"from": "columns"}
    plan = SparsePlan(
        shape, names, {"by": "write_dataset"}, matrix.shape[1], feature_names, fills=fills, targets=labels.targets
    )
    publish_sparse(location, [piece], plan, run)


def rows_shape(n_rows: int, n_entries: int, compression: Codec) -> BlockShape:
    """Return a block size for a sparse matrix in memory, no larger than the matrix."""
    shape = block_shape(max(n_entries / n_rows, 1), compression, BLOCK_ENTRIES)
    return BlockShape(min(shape.rows, n_rows), min(shape.entries, max(n_entries, 1)), compression)


def block_shape(mean_entries: float, compression: Codec, entries: int) -> BlockShape:
    """Return a block size for `entries` entries in rows of `mean_entries` on average, with room for 10 % more rows.

    A block has room for at least one row per 64 entries, so that blocks stay large if short rows follow long rows.
    """
    return BlockShape(max(int(1.1 * entries / mean_entries) + 16, entries // 64), entries, compression)


def finite_rows(X: Any, target: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the rows of a numpy or scipy.sparse matrix that have a finite label and only finite values."""
    keep = finite_labels(target)
    if hasattr(X, "tocsr"):
        matrix = X.tocsr()
        bad = np.flatnonzero(~np.isfinite(matrix.data))
        keep[np.searchsorted(matrix.indptr, bad, side="right") - 1] = False
        return keep
    for start in range(0, len(X), 4096):
        keep[start : start + 4096] &= np.isfinite(X[start : start + 4096]).all(axis=1)
    return keep


def finite_labels(target: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask of the rows whose label, or all of whose targets, are finite."""
    if target.dtype.kind == "O":  # None, NaN, and pandas.NA and NaT, which differ from themselves or are not comparable
        are_known = [label is not None and type(label).__name__ != "NAType" and label == label for label in target.flat]
        finite = np.array(are_known, np.bool_)
    elif target.dtype.kind == "f":
        finite = np.isfinite(target)
    else:
        finite = np.ones(target.shape, np.bool_)
    return np.asarray(finite.reshape(len(target), -1).all(axis=1))


def check_shapes(shape: tuple[int, ...], y_shape: tuple[int, ...]) -> None:
    """Raise an error unless X is a matrix with a row and a column, and y has a label, or several targets, per row."""
    if len(shape) != 2:
        raise OptionError(f"X has {len(shape)} dimensions; it must be a matrix (samples, features)")
    if any(math.isnan(size) for size in shape):
        raise OptionError("X is a dask array of unknown shape: call X.compute_chunk_sizes() first")
    if 0 in shape:
        raise OptionError(f"X has shape {shape}: there is nothing to store")
    if y_shape[:1] != shape[:1] or len(y_shape) > 2 or (len(y_shape) == 2 and y_shape[1] < 2):
        remedy = "; give one target as y[:, 0]" if y_shape == (shape[0], 1) else ""
        raise DatasetError(f"y has shape {y_shape}, X has {shape[0]} rows{remedy}")
