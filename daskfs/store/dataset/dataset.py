"""Datasets on disk or in an object store, opened to read their shape, labels, names and blocks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfs.errors import (
    ChunkError,
    DatasetError,
    OptionError,
    StorageError,
    check_choice,
    explain_os_error,
    public_url,
)
from daskfs.protocol import Axis, Block, ColumnBlock, Kind, Label, Meta, SparseColumnBlock
from daskfs.store.dataset.blocks import ColumnBlocks, RowBlocks, SparseBlocks, SparseColumnBlocks, check_column_ids
from daskfs.store.dataset.label_order import are_sorted
from daskfs.store.dataset.layout import (
    MOST_METADATA,
    ROOT,
    UNFINISHED,
    ArraySpec,
    Attributes,
    Layout,
    is_ours,
    parse_root,
)
from daskfs.store.dataset.names import ComputedNames, StoredNames, kmer_id, kmer_name
from daskfs.store.dataset.reader import ArrayReader
from daskfs.store.places.location import Location
from daskfs.store.places.read_ahead import Prefetcher

if TYPE_CHECKING:
    import xarray

_REPLACED = "was replaced by another dataset while it was in use"

AnyBlocks = ColumnBlocks | RowBlocks | SparseBlocks | SparseColumnBlocks


def open_dataset(url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Dataset:
    """Open a complete dataset.

    Parameters
    ----------
    url
        A local path, or a URL: ``s3://…``, ``gs://…``, ``az://…``, or any that fsspec knows.
    storage_options
        Address and keys of the store, under the names of fsspec or obstore; environment variables by default.

    Examples
    --------
    >>> X, y = np.eye(3, dtype="float32"), [0, 1, 1]
    >>> _ = daskfs.write_dataset("eye.zarr", X, y, feature_names=["a", "b", "c"])
    >>> ds = daskfs.open_dataset("eye.zarr")
    >>> ds
    <daskfs.Dataset eye.zarr: dense, 3 samples x 3 features, classes 0, 1>
    >>> ds.names([2, 0])
    ['c', 'a']
    """
    dataset = Dataset(Location(url, storage_options))
    dataset.attributes  # noqa: B018  # read now, so that a missing dataset is an error of this call
    return dataset


def is_dataset(location: Location) -> bool:
    """Return True if there is a dataset of daskfs at a location, finished or unfinished."""
    if location.exists(UNFINISHED):
        return True
    try:
        return is_ours(location.read(ROOT, most=MOST_METADATA))
    except OSError:
        return False


class Dataset:
    """A complete dataset, opened by `open_dataset` and read block by block; the object is small and picklable.

    A pickle of a dataset holds the address and the digest, and the metadata is read when first used. So unpickling a
    dataset never raises an error, which would cost the Dask worker its connection.
    """

    travels = True
    """Whether other processes can open the dataset."""

    def __init__(self, location: Location, digest: str | None = None, root: str = ROOT) -> None:
        self.location, self._expected, self._root_key = location, digest, root
        self._is_number = False  # True makes the target a real number, whatever its values
        self._block_readers: dict[Axis, AnyBlocks] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared_instance, (self.location, self._expected or self.digest, self._root_key)

    def __repr__(self) -> str:
        target = "real target" if self.classes is None else _shorten(self.classes)
        if self.target_names is not None:
            target = _shorten(self.target_names, "targets")
        up_to = "up to " if self.n_features_is_limit else ""
        size = f"{self.n_samples:,} samples x {up_to}{self.n_features:,} features"
        return f"<daskfs.Dataset {public_url(self.url)}: {self.kind}, {size}, {target}>"

    @property
    def url(self) -> str:
        return self.location.url

    @property
    def attributes(self) -> Attributes:
        """The attributes in the root metadata of the dataset; see `layout`."""
        return self._root[0]

    @property
    def arrays(self) -> Mapping[str, ArraySpec]:
        """The shape, chunks and codec of every array of the dataset, by name."""
        return self._root[1]

    @cached_property
    def _root(self) -> tuple[Attributes, Mapping[str, ArraySpec]]:
        try:
            raw = self.location.read(self._root_key, most=MOST_METADATA)
        except (FileNotFoundError, NotADirectoryError):
            if self.location.exists(UNFINISHED):
                raise DatasetError(f"{self.url}: incomplete; run the same command again to finish it") from None
            raise DatasetError(f"{self.url}: no dataset here") from None
        except OSError as error:
            raise DatasetError(f"{self.url}: cannot be read: {explain_os_error(error)}") from error
        attributes, arrays = parse_root(self.url, raw)
        if self._expected not in (None, attributes["digest"]):
            raise DatasetError(f"{self.url}: {_REPLACED}")
        return attributes, arrays

    @property
    def kind(self) -> Kind:
        """``"dense"`` or ``"sparse"``."""
        kind: Kind = self.attributes["kind"]
        return kind

    @property
    def n_samples(self) -> int:
        return int(self.attributes["n_samples"])

    @property
    def n_features(self) -> int:
        """The number of columns, the largest feature id + 1, or the number of distinct names where ids are hashes."""
        return int(self.attributes["n_features"])

    @property
    def n_entries(self) -> int:
        """The number of stored values: all cells of a dense dataset, or the non-zeros of a sparse dataset."""
        return int(self.attributes["n_entries"])

    @property
    def digest(self) -> str:
        """A hash of the whole content of the dataset, names and labels included."""
        return str(self.attributes["digest"])

    @property
    def n_features_is_limit(self) -> bool:
        """Whether `n_features` is only the most that there can be, as of k-mers, and not the number that occurs."""
        is_limit = self.attributes.get("n_features_is_limit", False)
        return bool(is_limit or self.attributes.get("names", {}).get("from") == "kmers")

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """The distinct labels in sorted order, or None if the target is a real number."""
        classes = self.attributes["labels"]["classes"]
        return None if classes is None or self._is_number else tuple(classes)

    @property
    def target_names(self) -> tuple[str, ...] | None:
        """The names of several targets, which are real numbers, or None if rows have one target."""
        names = self.attributes["labels"].get("targets")
        return None if names is None else tuple(names)

    def with_real_target(self) -> Dataset:
        """Return the same dataset with a real target, even if the few values of the target could be classes.

        Examples
        --------
        >>> _ = daskfs.write_dataset("eye.zarr", np.eye(3), [0, 1, 1])
        >>> daskfs.open_dataset("eye.zarr").with_real_target()
        <daskfs.Dataset eye.zarr: dense, 3 samples x 3 features, real target>
        """
        if self.attributes["labels"]["kind"] == "strings":
            raise OptionError(f"{self.url}: its labels are text, and no numbers")
        same = Dataset(self.location, self.digest, self._root_key)
        same._is_number = True
        return same

    @property
    def layout(self) -> Layout:
        """Whether chunks hold whole columns or whole rows, or whether the matrix is stored both ways."""
        layout: Layout = self.attributes["layout"]
        return layout

    @property
    def axis(self) -> Axis:
        """The default axis of blocks: rows for a dataset laid out in rows, columns for any other dataset."""
        return "rows" if self.layout == "rows" else "columns"

    @property
    def meta(self) -> Meta:
        """The facts about the dataset that an algorithm may use before reading the first block."""
        return Meta(
            kind=self.kind,
            n_samples=self.n_samples,
            n_features=self._n_candidates,
            n_entries=self.n_entries,
            max_id=int(self.attributes["max_id"]),
            classes=self.classes,
            block_nbytes=max(self._blocks(axis).nbytes for axis in self._axes()),
            itemsize=self.arrays["X"].dtype.itemsize if self.kind == "dense" else 4,
            weighted="weight" in self.arrays,
            members=self._names.members,
            mixed=self.attributes.get("mixed"),
            targets=self.target_names,
            axes=self._axes(),
        )

    @property
    def _n_candidates(self) -> int:
        """The number of columns; in a sparse dataset laid out in columns, the number of non-empty columns."""
        if self.kind == "sparse" and self.layout == "columns":
            return int(self._blocks("columns").lines.sum())  # type: ignore[union-attr]  # they are sparse
        return self.n_features

    def n_blocks(self, axis: Axis | None = None) -> int:
        """Return the number of blocks along an axis."""
        return self._blocks(axis or self.axis).count

    def block_sizes(self, axis: Axis | None = None) -> NDArray[np.int64]:
        """Return the size in bytes of every block along an axis, without reading a block."""
        return self._blocks(axis or self.axis).sizes

    def read(self, block: int, axis: Axis | None = None) -> Block:
        """Return one block, in newly allocated memory.

        Parameters
        ----------
        block
            The number of the block, from 0.
        axis
            ``"columns"`` or ``"rows"``; by default the layout of the dataset.
        """
        blocks = self._blocks(axis or self.axis)
        if not 0 <= block < blocks.count:
            raise IndexError(f"block {block} of {blocks.count}")
        return blocks.read(block, blocks.new_buffers())  # type: ignore[arg-type]  # buffers of the same class

    @property
    def ahead(self) -> int:
        """The number of blocks in memory besides the current block, larger for a remote store than for a local disk."""
        return self.location.folder.ahead

    @property
    def _threads(self) -> int:
        """The number of threads that read blocks at the same time."""
        return self.location.folder.threads

    def blocks(
        self, numbers: Sequence[int] | None = None, axis: Axis | None = None, ahead: int | None = None
    ) -> Iterable[Block]:
        """Iterate over blocks; threads read the next blocks while the caller works on a block.

        A block is valid only until the next block is requested, because the memory of a block is reused.

        Parameters
        ----------
        numbers
            The numbers of the blocks to read, in this order; all blocks by default.
        axis
            As for `read`.
        ahead
            The number of blocks to hold ready, in the memory of ``ahead + 1`` blocks; the default suits the store.
        """
        blocks, folder = self._blocks(axis or self.axis), self.location.folder
        if ahead is None:
            ahead = folder.ahead if self.location.path else folder.threads
        return Prefetcher[Block, Any](
            blocks.read, range(blocks.count) if numbers is None else numbers, blocks.new_buffers, ahead, self._threads
        )

    def block_entries(self) -> NDArray[np.int64]:
        """Return the number of entries in every block of a sparse dataset, without reading a block."""
        entries: NDArray[np.int64] = self._reader("block_entries").read_all()
        return entries

    def columns(
        self, ids: ArrayLike, columns_per_block: int | None = None
    ) -> Iterator[ColumnBlock | SparseColumnBlock]:
        """Yield some columns by feature id, in ascending order, in blocks with memory of their own.

        Every chunk is read only once, and a thread reads the next chunk while the caller works.

        Parameters
        ----------
        ids
            Feature ids, each once, in any order. In a sparse dataset, a feature without entries is an empty column.
        columns_per_block
            The largest number of columns in a block; a block never takes more memory than a block of the dataset.

        Examples
        --------
        >>> _ = daskfs.write_dataset("eye.zarr", np.eye(5), np.arange(5))
        >>> [block.ids.tolist() for block in daskfs.open_dataset("eye.zarr").columns([4, 0, 2], columns_per_block=2)]
        [[0, 2], [4]]
        """
        blocks = self._blocks("columns")
        assert isinstance(blocks, ColumnBlocks | SparseColumnBlocks)
        size = max(self.n_features, int(self.attributes["max_id"]) + 1)  # ids may be hashes
        return blocks.columns(check_column_ids(ids, size), columns_per_block)

    def targets(self) -> Iterator[NDArray[np.float64]]:
        """Yield the labels of all rows in order, piece by piece, without reading the features.

        Pieces have the shape ``(rows,)``, or ``(rows, targets)`` where rows have several targets.
        """
        return self._per_row("y")

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the rows are sorted by label (see `label_order`); labels are only read if they come in runs."""
        return self.attributes.get("mixed") is False and self.target_names is None and are_sorted(self.targets())

    def weights(self) -> Iterator[NDArray[np.float32]]:
        """Yield the weights of all rows in order, piece by piece; yield nothing if rows have no weights."""
        return self._per_row("weight") if "weight" in self.arrays else iter(())

    def _per_row(self, name: str) -> Iterator[NDArray[Any]]:
        array = self._reader(name)
        for number in range(array.spec.n_chunks):
            cells = array.read(number)
            in_blocks = array.spec.dims[0] == "block"
            yield cells[0, : int(self._sparse_rows.lines[number])] if in_blocks else cells

    def names(self, ids: ArrayLike) -> list[str]:
        """Return the names of features by id, reading only the chunks that hold the requested names."""
        array = np.asarray(ids).reshape(-1)
        if array.dtype.kind == "i" and len(array) and array.min() < 0:
            raise IndexError(f"feature {array.min()}: ids are not negative")
        if self.kind == "dense" and len(array) and int(array.max()) >= self.n_features:
            raise IndexError(f"feature {array.max()} of {self.n_features}")
        return self._names.of(array.astype(np.uint64))

    def tags(self, block: int) -> list[str]:
        """Return the tags (names) of the rows in a block, empty strings if the source has no tags."""
        rows = int(self._sparse_rows.lines[block])
        if "tag" not in self.arrays:
            return [""] * rows
        return [str(tag) for tag in self._reader("tag").read(block)[0, :rows]]

    def to_xarray(self) -> xarray.Dataset:
        """Return the dataset as a lazy xarray.Dataset with labelled dimensions, where a missing chunk is an error."""
        import xarray

        return xarray.open_zarr(self.location.zarr_store(), chunks={}, consolidated=True)  # type: ignore[no-any-return]

    @cached_property
    def _names(self) -> ComputedNames | StoredNames:
        source = self.attributes["names"]
        if source["from"] == "columns":
            return StoredNames(self._reader("feature"))
        if source["from"] == "table":
            return StoredNames(*(self._reader(f"names/{part}") for part in ("name", "id", "first")))
        if source["from"] == "kmers":
            shift = source["shift"]
            return ComputedNames(
                partial(kmer_name, shift=shift), partial(kmer_id, shift=shift), int(self.attributes["max_id"])
            )
        prefix = source.get("prefix", "")
        return ComputedNames(
            lambda feature: f"{prefix}{feature}",
            lambda name: int(name.removeprefix(prefix)),
            int(self.attributes["max_id"]),
        )

    @property
    def stored_bytes(self) -> int:
        """The total size in bytes of all chunks as stored."""
        return sum(int(self._reader(name).manifest[:, 0].sum()) for name in self.content)

    @property
    def content(self) -> dict[str, ArraySpec]:
        """The arrays that hold data, without the manifests (sizes and checksums of chunks)."""
        return {name: spec for name, spec in self.arrays.items() if not name.startswith("manifest/")}

    @property
    def _sparse_rows(self) -> SparseBlocks:
        blocks = self._blocks("rows")
        if not isinstance(blocks, SparseBlocks):
            raise OptionError(f"{self.url}: only sparse datasets have this")
        return blocks

    def _reader(self, name: str) -> ArrayReader:
        return ArrayReader(self.location, self.arrays[name], limits=self._limits(name), explain=self._explain)

    def _explain(self, error: ChunkError) -> DatasetError:
        """Return the error to raise for a damaged chunk: another one if the whole dataset is no longer there."""
        now = Dataset(self.location, root=self._root_key)
        try:
            is_same = now.digest == self.digest
        except StorageError:
            return error
        except DatasetError:  # there is none, or half of one, or a damaged one
            reason = "was removed, or is being replaced, while it was in use"
            return error if self.location.exists(self._root_key) else DatasetError(f"{self.url}: {reason}")
        return error if is_same else DatasetError(f"{self.url}: {_REPLACED}")

    def _limits(self, name: str) -> tuple[float, float] | None:
        """Return the smallest and the largest number that labels, row numbers or ids may be, padding included."""
        classes = self.attributes["labels"]["classes"]
        if name == "y" and classes is not None:
            numbers = [0, len(classes) - 1] if isinstance(classes[0], str) else classes
            return min(0, *numbers), max(0, *numbers)
        return {"rows": (0, self.n_samples - 1), "ids": (0, int(self.attributes["max_id"]))}.get(name)

    def _axes(self) -> tuple[Axis, ...]:
        return ("columns", "rows") if self.layout == "both" else (self.axis,)

    def _blocks(self, axis: Axis) -> AnyBlocks:
        check_choice("axis", axis, Axis)
        if axis not in self._axes():
            remedy = "daskfs transpose makes columns of it" if axis == "columns" else "read what it was transposed from"
            remedy = "write it with layout='both'" if self.kind == "dense" else remedy
            raise OptionError(f"{self.url}: laid out in {self.layout}, it cannot be read in {axis}; {remedy}")
        if axis not in self._block_readers:
            self._block_readers[axis] = self._new_blocks(axis)
        return self._block_readers[axis]

    def _new_blocks(self, axis: Axis) -> AnyBlocks:
        if self.kind == "sparse":
            names = [name for name, spec in self.arrays.items() if not spec.is_text and "/" not in name]
            arrays = {name: self._reader(name) for name in names}
            return SparseColumnBlocks(arrays) if axis == "columns" else SparseBlocks(arrays)
        target, weight = self._reader("y"), self._reader("weight") if "weight" in self.arrays else None
        if axis == "columns":
            return ColumnBlocks(self._reader("X"), target, weight)
        return RowBlocks(self._reader("X_rows" if self.layout == "both" else "X"), target, weight)


@lru_cache(maxsize=8)
def _shared_instance(location: Location, digest: str, root: str) -> Dataset:
    """Return the unpickled dataset, as one instance that all tasks in the process share."""
    return Dataset(location, digest, root)


def _shorten(labels: Sequence[Label], what: str = "classes") -> str:
    shown = [f"{label:g}" if isinstance(label, float) else str(label) for label in labels[:5]]
    return f"{what} {', '.join(shown)}" + (f" and {len(labels) - 5} more" if len(labels) > 5 else "")
