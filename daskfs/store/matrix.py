"""Finding a dense matrix that is not a dataset of daskfs, such as any Zarr array, with its target and its names.

A matrix may stay where it is. The module `in_place` reads a matrix in blocks of whole chunks, if no block is too large.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from daskfs.errors import DaskfsError, DatasetError, OptionError, nearest_or_some, public_url, some_names
from daskfs.protocol import Axis
from daskfs.store.chunk_files import ChunkFiles, is_zarr_array
from daskfs.store.dataset.dataset import is_dataset
from daskfs.store.dataset.layout import CHUNK_BYTES
from daskfs.store.ingest.arrays import stored_dtype
from daskfs.store.ingest.plan import content_digest
from daskfs.store.ingest.sources import find_sources
from daskfs.store.places.local import check_size, open_regular
from daskfs.store.places.location import Location

MOST_BLOCK_BYTES = 256 << 20
"""The largest block that is read in place. A matrix whose chunks do not make up smaller blocks has to be copied."""
MOST_CHUNKS = 10**7
"""The largest number of chunks of a matrix: with chunks of a megabyte, ten terabytes."""
_MOST_RATIO, _SMALL_BYTES = 1000, 64 << 20  # a larger target or list of names is not larger than its files by more
_MOST_LABEL_BYTES = 1024  # of a label in a text, on average
_ROOTS = ("zarr.json", ".zgroup", ".zarray")


def is_matrix(location: Location) -> bool:
    """Return True if there is a ``.npy`` file at a location, or a Zarr array or group that is no dataset of daskfs."""
    if location.url.endswith(".npy"):
        return True
    return any(location.exists(root) for root in _ROOTS) and not is_dataset(location)


def open_matrix(location: Location, array: str = "", label: str = "", target: Any = None) -> Matrix:
    """Open the matrix at a location for which `is_matrix` is true; see `find_matrix`."""
    if not location.url.endswith(".npy"):
        return find_matrix(location, array, label, target)
    if target is None and not label:
        raise OptionError(f"{public_url(location.url)}: where is the target? Pass --label with a file (.npy, .txt)")
    if location.path is None:
        raise OptionError(f"{public_url(location.url)}: .npy files are read from a local disk only")
    try:
        cells = _mapped(location.path)
    except (OSError, ValueError) as error:
        raise DatasetError(f"{public_url(location.url)}: cannot be read: {error}") from error
    _check_matrix(cells, public_url(location.url))
    return replace(matrix_of(cells, read_labels(label, cells) if target is None else target), location=location)


def _mapped(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array of a ``.npy`` file, not yet read. Raise OSError or ValueError if it is not a regular file."""
    with open_regular(path) as file:
        is_array = file.read(6) == b"\x93NUMPY"  # np.load would open pickles and archives, too
    if not is_array:
        raise ValueError("is no .npy file")
    try:
        cells: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except Exception as error:  # a header is parsed as Python, by tokenize, ast and the parser of dtypes
        raise ValueError(f"its header is damaged ({error})") from error
    return cells


@contextmanager
def zarr_errors(where: str) -> Iterator[None]:
    """Turn every error of Zarr into a DatasetError: metadata of others can have any form, and Zarr any error."""
    try:
        yield
    except DaskfsError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DatasetError(f"{where}: cannot be read as Zarr: {reason:.300}") from error


def step_of(shape: tuple[int, int], chunks: tuple[int, int], itemsize: int, axis: Axis) -> int | None:
    """Return the number of rows or columns of a block: whole chunks, or None if such a block would be too large.

    >>> step_of((1000, 10**6), (1000, 50), 4, "columns"), step_of((10**7, 100), (10**5, 100), 4, "columns")
    (2000, None)
    """
    across, along = (1, 0) if axis == "columns" else (0, 1)
    line_bytes = shape[along] * itemsize
    step = chunks[across] * max(1, CHUNK_BYTES // (chunks[across] * line_bytes))
    if min(step, shape[across]) * line_bytes > MOST_BLOCK_BYTES and step > 1:
        return None
    return min(step, shape[across])


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix, the target of its rows, and the names of its columns.

    Parameters
    ----------
    cells
        The matrix in memory (numpy, scipy.sparse), or an object with `shape`, `dtype` and slices
        ``cells[rows, columns]``, such as a Zarr array.
    target
        The labels of the rows, or several targets ``(rows, targets)``.
    names
        The names of the columns, or None if the columns have no names.
    target_names
        The names of several targets, if they have any.
    chunks
        The rows and columns of a chunk, which is read as a whole; None for chunks of different sizes.
    location
        The place of a Zarr array, or of the group that holds the array; None if the matrix is no Zarr array.
    address
        The names of the matrix and of the target in the group, by which another process finds them, or None.
    """

    cells: Any
    target: NDArray[Any]
    names: Sequence[str] | None = None
    target_names: Sequence[Any] | None = None
    chunks: tuple[int, int] | None = None
    location: Location | None = None
    address: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if len(self.cells.shape) != 2:
            raise OptionError(f"the data have shape {tuple(self.cells.shape)}: give rows and columns")
        if not min(self.cells.shape):
            raise OptionError(f"the data have shape {tuple(self.cells.shape)}: there is nothing to select from")
        if self.cells.shape[0] != len(self.target):
            raise OptionError(f"{self.cells.shape[0]:,} rows, and {len(self.target):,} labels in y")

    @property
    def is_lazy(self) -> bool:
        """Whether the cells are not in memory."""
        in_memory = isinstance(self.cells, np.ndarray) and not isinstance(self.cells, np.memmap)
        return not in_memory and not scipy.sparse.issparse(self.cells)

    @cached_property
    def digest(self) -> str:
        """A hash of shape, names, target and first and last values, and of the sizes and times of the files, if any."""
        files = None
        if self.location is not None:
            files = content_digest(find_sources([self.location.url], self.location.options))
        facts = [list(self.cells.shape), str(self.cells.dtype), None if self.names is None else list(self.names), files]
        total = hashlib.sha256(json.dumps(facts).encode())
        is_text = self.target.dtype.kind not in "biuf"
        total.update("\0".join(map(str, self.target)).encode() if is_text else self.target.tobytes())
        ends = [(slice(0, min(8, size)), slice(max(0, size - 8), size)) for size in self.cells.shape]
        chunk_files = ChunkFiles.of(self.cells)
        for rows, columns in zip(*ends, strict=True):
            with zarr_errors("the matrix") if is_zarr_array(self.cells) else nullcontext():
                corner = self.cells[rows, columns] if chunk_files is None else chunk_files.read(rows, columns)
            total.update(np.ascontiguousarray(corner).tobytes())
        return total.hexdigest()

    def fits(self, axis: Axis) -> bool:
        """Return True if the matrix can be read in place by blocks along `axis`."""
        itemsize = stored_dtype(self.cells.dtype).itemsize
        return self.chunks is not None and step_of(self.cells.shape, self.chunks, itemsize, axis) is not None


def matrix_of(cells: Any, target: Any, names: Sequence[str] | None = None) -> Matrix:
    """Return a `Matrix` of an array of any library.

    >>> matrix_of([[1, 2], [3, 4]], [0, 1]).cells.shape
    (2, 2)
    """
    if target is None:
        raise OptionError("y: pass the target of the rows")
    if not (hasattr(cells, "shape") and hasattr(cells, "dtype")):
        cells = np.asarray(cells)
    if np.ma.isMaskedArray(cells):
        cells = np.ma.filled(cells.astype(np.result_type(cells.dtype, np.float32)), np.nan)
    stored_dtype(cells.dtype)
    target_names = list(target.columns) if hasattr(target, "columns") else None
    return Matrix(cells, np.asarray(target), names, target_names, _chunks_of(cells))


def _chunks_of(cells: Any) -> tuple[int, int] | None:
    """Return the shape of the chunks of a matrix, or None if its chunks have different sizes."""
    if len(cells.shape) != 2:
        return None
    if isinstance(cells, np.memmap):
        return (cells.shape[0], 1) if cells.flags.f_contiguous else (1, cells.shape[1])
    chunks = getattr(cells, "chunks", None)
    if chunks is None:
        return tuple(cells.shape)
    sides = []
    for sizes, length in zip(chunks, cells.shape, strict=True):
        if isinstance(sizes, tuple):  # of Dask
            if len(set(sizes[:-1])) > 1 or sizes[-1] > sizes[0]:
                return None
            sizes = sizes[0]
        sides.append(min(int(sizes), int(length)))
    return sides[0], sides[1]


def find_matrix(location: Location, array: str = "", label: str = "", target: Any = None) -> Matrix:
    """Find the matrix and the target in a Zarr group, as xarray writes it, or in a single Zarr array.

    Parameters
    ----------
    location
        The place of the group or array, of Zarr format 2 or 3.
    array
        The name of the matrix, by default the only two-dimensional array of numbers.
    label
        The name of the target, by default "y" or the only one-dimensional array along the rows that is no coordinate;
        or the path of a file of labels (see `read_labels`).
    target
        The labels themselves, if they are not in the group.
    """
    import zarr  # here, since it takes a fifth of a second, and files of text do without

    from daskfs.store.foreign_zarr import ForeignStore

    with zarr_errors(public_url(location.url)):
        node = zarr.open(ForeignStore(location), mode="r")
    if isinstance(node, zarr.Group):
        return find_in_group(node, array, label, target, location)
    _check_matrix(node, public_url(location.url))
    if target is None and not label:
        raise OptionError(
            f"{public_url(location.url)}: where is the target of this array? Pass --label with a file (.npy, .txt)"
        )
    labels = read_labels(label, node) if target is None else target
    address = ("", os.path.abspath(label)) if target is None else None
    return Matrix(node, labels, chunks=_chunks_of(node), location=location, address=address)


def find_in_group(
    group: Any, array: str = "", label: str = "", target: Any = None, location: Location | None = None
) -> Matrix:
    """Find the matrix and the target in an open Zarr group, as `find_matrix` does."""
    where = "the group" if location is None else public_url(location.url)
    with zarr_errors(where):
        members: dict[str, Any] = dict(group.arrays())
    matrices = [name for name, member in members.items() if member.ndim == 2 and member.dtype.kind in "biuf"]
    name = _only(array, matrices, f"{where}: which array is the matrix", "--array")
    cells, dims = members[name], _dimensions(members[name])
    _check_matrix(cells, f"{where}: {name}")
    names = None
    if dims is not None and dims[1] in members:
        names = [str(text) for text in _read_whole(members[dims[1]], location, f"{where}: {dims[1]}")]
    if target is None and label and label not in members and os.path.exists(label):
        label, target = os.path.abspath(label), read_labels(label, cells)
    elif target is not None:
        label = ""
    else:
        along = [
            other
            for other, member in members.items()
            if member.ndim == 1
            and member.shape == cells.shape[:1]
            and (dims is None or (other != dims[0] and _dimensions(member) == dims[:1]))
        ]
        label = _only(label or ("y" if "y" in along else ""), along, f"{where}: which array is the target", "--label")
        target = _read_whole(members[label], location, f"{where}: {label}")
    address = (name, label) if location is not None and label else None
    return Matrix(cells, np.asarray(target), names, None, _chunks_of(cells), location, address)


def _check_matrix(array: Any, where: str) -> None:
    """Raise DatasetError unless an array is a matrix of numbers, with no more chunks than anybody has written."""
    if array.ndim != 2 or min(array.shape) < 1 or array.dtype.kind not in "biuf":
        raise DatasetError(f"{where}: {array.dtype} of shape {tuple(array.shape)} is no matrix of numbers")
    chunks = getattr(array, "shards", None) or getattr(array, "chunks", array.shape)
    if min(chunks) < 1:
        raise DatasetError(f"{where}: chunks of shape {tuple(map(int, chunks))} hold nothing")
    count = math.prod(-(-length // side) for length, side in zip(array.shape, chunks, strict=True))
    if count > MOST_CHUNKS:
        raise DatasetError(f"{where}: {count:,} chunks, where at most {MOST_CHUNKS:,} are read")


def _read_whole(array: Any, location: Location | None, where: str) -> NDArray[Any]:
    """Return all of a Zarr array. Raise DatasetError if it is much larger than its files below `location`."""
    with zarr_errors(where):
        if location is not None and array.nbytes > max(_SMALL_BYTES, _MOST_RATIO * location.stored_bytes(array.path)):
            raise ValueError(f"{array.nbytes:,} bytes are declared, and its files are too small for so many")
        return _labels_of(np.asarray(array[:]))


def _labels_of(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels or names that were read from a file. Raise ValueError unless they are numbers or texts."""
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    if labels.dtype.kind == "U":
        codes = np.ascontiguousarray(labels).view(np.dtype("u4").newbyteorder(labels.dtype.byteorder))
        if np.any((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes < 0xE000))):
            raise ValueError("is text with characters that do not exist")
    if labels.dtype.kind not in "biufUT" and not all(isinstance(label, str) for label in labels.reshape(-1)):
        raise ValueError(f"{labels.dtype} is neither numbers nor text")
    return labels


def read_labels(path: str, cells: Any) -> NDArray[Any]:
    """Return the labels of the rows of `cells` in a file: an array (.npy), or a text with a label in every line."""
    most = _MOST_LABEL_BYTES * (cells.shape[0] + 64)
    try:
        if path.endswith(".npy"):
            mapped = _mapped(path)
            check_size(mapped.nbytes, most)
            return _labels_of(np.array(mapped))
        with open_regular(path) as file:
            check_size(os.fstat(file.fileno()).st_size, most)
            texts = file.read().decode("utf-8").replace("\r\n", "\n").split("\n")
    except (OSError, ValueError) as error:
        raise OptionError(f"--label {path}: cannot be read as labels: {error}") from error
    while texts and not texts[-1].strip():
        texts.pop()
    try:
        return np.array([float(text) for text in texts])
    except ValueError:
        return np.array([text.strip() for text in texts])


def _only(given: str, known: list[str], question: str, flag: str) -> str:
    if given:
        if given not in known:
            raise OptionError(f"{flag} {given}: no such array{nearest_or_some(given, known)}")
        return given
    if len(known) != 1:
        raise OptionError(f"{question}? Pass {flag} with one of {some_names(known) or '(none fits)'}")
    return known[0]


def _dimensions(array: Any) -> tuple[str, ...] | None:
    """Return the names of all dimensions of a Zarr array, of format 3 or as xarray writes them in format 2, if any."""
    names = getattr(array.metadata, "dimension_names", None) or array.attrs.get("_ARRAY_DIMENSIONS")
    is_complete = isinstance(names, list | tuple) and len(names) == array.ndim
    return tuple(str(name) for name in names) if is_complete else None
