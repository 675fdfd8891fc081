"""A dense matrix that is not a dataset of daskfs, such as any Zarr array, read in place as if it were one.

Blocks are whole chunks of the matrix, so that every byte is read once in a pass, and nothing is written. The target and
the names of columns are in memory. Values that are not finite are errors, which `Gap` tells apart.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cached_property, lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DaskfsError, DatasetError, OptionError, public_url
from daskfs.jit import read_only
from daskfs.protocol import Axis, ColumnBlock, RowBlock
from daskfs.store.chunk_files import ChunkFiles, Tile, is_zarr_array
from daskfs.store.dataset.blocks import ColumnBlocks, RowBlocks
from daskfs.store.dataset.codec import Codec
from daskfs.store.dataset.dataset import AnyBlocks, Dataset
from daskfs.store.dataset.label_order import LabelOrder
from daskfs.store.dataset.layout import ArraySpec, Attributes, Labels, target_spec
from daskfs.store.dataset.names import check_column_names, feature_spec
from daskfs.store.dataset.reader import ChunkBuffer
from daskfs.store.in_memory import HeldArray, tiles
from daskfs.store.ingest.arrays import encode_target, stored_dtype
from daskfs.store.ingest.rows_kernels import first_not_finite
from daskfs.store.matrix import Matrix, find_matrix, step_of, zarr_errors
from daskfs.store.places.location import Location
from daskfs.store.reorder.runs import HeldBack

_COPIES_OF_ZARR = 4  # of a chunk, while Zarr reads and unpacks the chunk
_NEGLIGIBLE_BYTES = 1 << 20


class Gap(DatasetError):
    """Raised if a matrix that is read in place has a missing value (NaN)."""


class InPlace(Dataset):
    """A matrix that is read in place by slices of whole rows or columns, with the members that a selection uses.

    Parameters
    ----------
    matrix
        The matrix, whose chunks must fit the axis (`Matrix.fits`).
    axis
        The axis along which blocks will be read.
    part
        The part of the rows to read, or None for all.
    """

    def __init__(self, matrix: Matrix, axis: Axis, part: HeldBack | None = None) -> None:
        super().__init__(matrix.location or Location("X"))
        cells, chunks = matrix.cells, matrix.chunks
        target, labels = encode_target(matrix.target, matrix.target_names)
        step = None if chunks is None else step_of(cells.shape, chunks, stored_dtype(cells.dtype).itemsize, axis)
        if chunks is None or step is None:
            raise OptionError(f"{public_url(self.url)}: chunks of {chunks} cannot be read in place by {axis}")
        self.matrix, self._part, self._layout, self._labels = matrix, part, axis, labels
        rows = None if part is None else part.rows(cells.shape[0])
        self._target = target if rows is None else target[rows]
        self._held = {"y": HeldArray(target_spec(len(self._target), labels.targets), self._target)}
        n_rows, n_columns = len(self._target), int(cells.shape[1])
        if matrix.names is not None:
            self._held["feature"] = HeldArray(feature_spec(n_columns), check_column_names(matrix.names, n_columns))
        shape = (n_rows, step) if axis == "columns" else (min(step, n_rows), n_columns)
        codec = Codec("none", columns_contiguous=axis == "columns")
        spec = ArraySpec("X", (n_rows, n_columns), shape, stored_dtype(cells.dtype), ("sample", "feature"), codec)
        self._cells = _CellsInPlace(cells, spec, step, chunks[0], rows, public_url(self.url), self.names)

    @property
    def travels(self) -> bool:  # type: ignore[override]  # depends on the matrix
        """Whether other processes can open the matrix."""
        return self.matrix.address is not None

    def __reduce__(self) -> tuple[Any, ...]:
        if self.matrix.address is None:
            raise TypeError("a matrix that only this process can read stays here: write it with daskfs.write_dataset")
        return _shared_in_place, (self.location, *self.matrix.address, self._layout, self._part, self.digest)

    def held_back(self, share: float, seed: int) -> tuple[InPlace, InPlace]:
        """Return the rows to select from, and a share of the rows for a test, the same rows as of `split`."""
        train, test = HeldBack(share, seed, is_test=False), HeldBack(share, seed, is_test=True)
        return InPlace(self.matrix, self._layout, train), InPlace(self.matrix, self._layout, test)

    @property
    def part_rows(self) -> NDArray[np.intp] | None:
        """The numbers of the rows of the part, or None for all rows of the matrix."""
        return self._cells.rows

    def with_real_target(self) -> InPlace:
        self._labels = Labels(False, None, self._labels.targets)
        return self

    @cached_property
    def _root(self) -> tuple[Attributes, dict[str, ArraySpec]]:
        n_samples, n_features = self._cells.spec.shape
        attributes = {
            "kind": "dense",
            "layout": self._layout,
            "n_samples": n_samples,
            "n_features": n_features,
            "n_entries": n_samples * n_features,
            "max_id": n_features - 1,
            "labels": self._labels.attributes(),
            "mixed": LabelOrder.of(self._target).mixed,
            "names": {"from": "columns"} if "feature" in self._held else {"from": "ids", "prefix": "x"},
        }
        return attributes, {"X": self._cells.spec, **{name: held.spec for name, held in self._held.items()}}

    @cached_property
    def digest(self) -> str:
        """A hash of the matrix (see `Matrix.digest`), the part of the rows, and the meaning of labels."""
        facts = json.dumps([self.matrix.digest, self._part, self.attributes], sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()

    @property
    def stored_bytes(self) -> int:
        """The size of all values in memory; how much is stored may be less."""
        n_rows, n_columns = self._cells.spec.shape
        return n_rows * n_columns * int(self._cells.spec.dtype.itemsize)

    @property
    def ahead(self) -> int:
        """The number of blocks whose memory is needed besides the current block, with the memory that reading takes."""
        more = self._threads * self._cells.working_nbytes - _NEGLIGIBLE_BYTES
        return super().ahead + -(-max(more, 0) // self._blocks(self._layout).nbytes)

    @property
    def _threads(self) -> int:
        return max(super()._threads, self._cells.threads)

    def _reader(self, name: str) -> Any:
        return self._cells if name == "X" else self._held[name]

    def _new_blocks(self, axis: Axis) -> AnyBlocks:
        if axis == "columns":
            return _ColumnsInPlace(self._reader("X"), self._reader("y"))
        return _RowsInPlace(self._reader("X"), self._reader("y"))


class _CellsInPlace:
    """Reads the numbers of a matrix where they are stored, with those methods of `ArrayReader` that blocks call."""

    def __init__(
        self,
        source: Any,
        spec: ArraySpec,
        step: int,
        chunk_rows: int,
        rows: NDArray[np.intp] | None,
        url: str,
        names: Callable[[Any], list[str]],
    ) -> None:
        self.source, self.spec, self.step, self.rows = source, spec, step, rows
        self._chunk_rows, self._url, self._names = chunk_rows, url, names
        self._files = ChunkFiles.of(source)
        self._is_read_by_zarr = self._files is None and is_zarr_array(source) and source.dtype == spec.dtype

    @property
    def threads(self) -> int:
        """The number of threads that should read blocks: two, since cells are unpacked or change their memory order."""
        return 1 if self._files is None else 2

    @property
    def working_nbytes(self) -> int:
        """The memory that reading takes in a thread, besides the block."""
        if self._files is not None:
            return self._files.working_nbytes
        if not is_zarr_array(self.source):
            return 0  # not known
        chunks = self.source.chunks if self.source.shards is None else self.source.shards
        nbytes: int = _COPIES_OF_ZARR * math.prod(chunks) * int(self.source.dtype.itemsize)
        return nbytes

    def columns(self, first: int, out: NDArray[Any]) -> None:
        """Read columns from `first` on into `out`, one chunk of rows after another."""
        columns, done = slice(first, first + out.shape[1]), 0
        for start in range(0, self.source.shape[0], self._chunk_rows):
            stop = min(start + self._chunk_rows, self.source.shape[0])
            done += self._read(slice(start, stop), columns, out[done:])
        self._check(out, 0, first)

    def _read(self, rows: slice, columns: slice, out: NDArray[Any]) -> int:
        """Read some rows and columns, without rows that are not of the part, into `out`, and return how many rows."""
        if self.rows is None and self._is_read_by_zarr:
            count: int = rows.stop - rows.start
            from zarr.core.buffer import default_buffer_prototype  # in a process that has imported zarr already

            buffer = default_buffer_prototype().nd_buffer.from_ndarray_like(out[:count])  # type: ignore[arg-type]
            with zarr_errors(self._url):
                self.source.get_basic_selection((rows, columns), out=buffer)  # spares a copy
            return count
        done = 0
        for tile_rows, tile_columns, cells in self._tiles(rows, columns):
            start, stop = tile_rows.start - rows.start, tile_rows.stop - rows.start
            if self.rows is not None:
                before, low, high = np.searchsorted(self.rows, [rows.start, tile_rows.start, tile_rows.stop])
                start, stop, cells = low - before, high - before, cells[self.rows[low:high] - tile_rows.start]
            out[start:stop, tile_columns.start - columns.start : tile_columns.stop - columns.start] = cells
            done = max(done, int(stop))
        return done

    def _tiles(self, rows: slice, columns: slice) -> Iterator[Tile]:
        """Yield some rows and columns in small tiles, since the block to fill may have another memory order."""
        if self._files is not None:
            yield from self._files.tiles(rows, columns)
            return
        with zarr_errors(self._url) if is_zarr_array(self.source) else nullcontext():
            cells = np.asarray(self.source[rows, columns])
        for part in tiles(cells.shape):
            tile = cells[part]
            top, left = rows.start + part[0].start, columns.start + part[1].start
            yield slice(top, top + tile.shape[0]), slice(left, left + tile.shape[1]), tile

    def block_rows(self, number: int) -> NDArray[np.intp] | slice:
        """Return the numbers of the source's rows that are in the row block with this number."""
        start, stop = number * self.step, min((number + 1) * self.step, self.source.shape[0])
        if self.rows is None:
            return slice(start, stop)
        low, high = np.searchsorted(self.rows, [start, stop])
        return self.rows[low:high]

    def rows_of(self, number: int, out: NDArray[Any]) -> None:
        """Read block `number` of rows into `out`."""
        start, stop = number * self.step, min((number + 1) * self.step, self.source.shape[0])
        self._read(slice(start, stop), slice(0, self.source.shape[1]), out)
        self._check(out, start, 0)

    def _check(self, cells: NDArray[Any], first_row: int, first_column: int) -> None:
        """Raise Gap or DatasetError if a cell is missing or infinite."""
        if np.isfinite(cells).all():
            return
        order = "F" if self.spec.codec.columns_contiguous else "C"
        bad = int(first_not_finite(cells.reshape(-1, order=order)))  # type: ignore[call-overload]
        row, column = np.unravel_index(bad, cells.shape, order=order)  # type: ignore[call-overload]
        name, value = self._names([first_column + column])[0], cells[row, column]
        where = f"{self._url}: column {name!r:.80}, row {first_row + row}"
        if np.isnan(value):
            raise Gap(f"{where}: is missing; missing='mean' fills gaps, in a copy")
        raise DatasetError(f"{where}: is {value}; values must be finite")


class _ColumnsInPlace(ColumnBlocks):
    """Blocks of whole columns of a matrix in place."""

    def read(self, number: int, buffers: ChunkBuffer) -> ColumnBlock:
        first = number * self.width
        X = buffers.cells[:, : min(self.width, self._X.spec.shape[1] - first)]
        self._X.columns(first, X)  # type: ignore[attr-defined]  # a `_CellsInPlace`
        ids = np.arange(first, first + X.shape[1], dtype=np.uint64)
        return ColumnBlock(read_only(ids), read_only(X), self.target, self.weight)


class _RowsInPlace(RowBlocks):
    """Blocks of whole rows of a matrix in place, of which those that are not of the part are left out."""

    def __init__(self, X: Any, y: Any) -> None:
        super().__init__(X, y)
        n_rows = X.source.shape[0]
        blocks = [X.block_rows(number) for number in range(-(-n_rows // X.step))]
        lengths = [rows.stop - rows.start if isinstance(rows, slice) else len(rows) for rows in blocks]
        self._numbers = np.flatnonzero(lengths)
        self._edges = np.concatenate([[0], np.cumsum([lengths[number] for number in self._numbers])])
        row_bytes = self.sizes.sum() // max(len(y.array), 1)
        self.count, self.sizes = len(self._numbers), np.diff(self._edges) * row_bytes

    def new_buffers(self) -> ChunkBuffer:
        return ChunkBuffer(self._X.spec)

    def read(self, number: int, buffers: ChunkBuffer) -> RowBlock:
        first, stop = int(self._edges[number]), int(self._edges[number + 1])
        X = buffers.cells[: stop - first]
        self._X.rows_of(int(self._numbers[number]), X)  # type: ignore[attr-defined]  # a `_CellsInPlace`
        return RowBlock(first, read_only(X), self._labels(self._y, first, stop), None)


class _Unreadable:
    """A dataset that could not be opened in another process, and that raises the error when it is used.

    An error while a task is unpickled would cost the Dask worker its connection.
    """

    def __init__(self, error: DaskfsError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> NoReturn:
        raise self._error


@lru_cache(maxsize=8)
def _shared_in_place(
    location: Location, array: str, label: str, axis: Axis, part: HeldBack | None, digest: str
) -> InPlace:
    """Return the unpickled dataset, as one instance that all tasks in the process share."""
    try:
        dataset = InPlace(find_matrix(location, array, label), axis, part)
        if dataset.digest != digest:
            raise DatasetError(f"{public_url(location.url)}: was replaced by another array while it was in use")
    except DaskfsError as error:
        return _Unreadable(error)  # type: ignore[return-value]
    return dataset
