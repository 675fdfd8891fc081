"""Dataset: an opened dataset, its shape and labels, and its blocks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskfs.errors import DatasetError, OptionError, check_choice
from daskfs.protocol import Axis, Block, Kind, Label, Meta
from daskfs.store.blocks import ColumnBlocks, RowBlocks, SparseBlocks
from daskfs.store.layout import ROOT, UNFINISHED, ArraySpec, Attributes, Layout, parse_root
from daskfs.store.location import Location
from daskfs.store.names import ColumnNames, KmerNames, Names, NumberedNames, TableNames
from daskfs.store.prefetch import Prefetcher
from daskfs.store.reader import ArrayReader, StrictStore

if TYPE_CHECKING:
    import xarray


def open_dataset(url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None) -> Dataset:
    """Open a complete dataset.

    Parameters
    ----------
    url
        A local path, or any URL fsspec knows (``s3://…``).
    storage_options
        Passed on to fsspec.

    Examples
    --------
    >>> X, y = np.eye(3, dtype="float32"), [0, 1, 1]
    >>> daskfs.write_dataset("eye.zarr", X, y, feature_names=["a", "b", "c"])
    >>> ds = daskfs.open_dataset("eye.zarr")
    >>> ds
    <daskfs.Dataset eye.zarr: dense, 3 samples x 3 features, classes 0, 1>
    >>> ds.names([2, 0])
    ['c', 'a']
    """
    location = Location(url, storage_options)
    try:
        raw = location.read(ROOT)
    except (FileNotFoundError, NotADirectoryError):
        if location.exists(UNFINISHED):
            raise DatasetError(f"{location.url}: incomplete; run the same ingest again to finish it") from None
        raise DatasetError(f"{location.url}: no dataset here") from None
    except OSError as error:
        raise DatasetError(f"{location.url}: cannot be read: {error}") from error
    return Dataset(location, *parse_root(location.url, raw))


class Dataset:
    """A complete dataset, read block by block. Made by `open_dataset`; small and picklable."""

    def __init__(self, location: Location, attributes: Attributes, arrays: Mapping[str, ArraySpec]) -> None:
        self.location, self.attributes, self.arrays = location, attributes, arrays
        self._cuts: dict[Axis, ColumnBlocks | RowBlocks | SparseBlocks] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.location, self.digest)

    def __repr__(self) -> str:
        target = "real target" if self.classes is None else _shortened(self.classes)
        size = f"{self.n_samples:,} samples x {self.n_features:,} features"
        return f"<daskfs.Dataset {self.url}: {self.kind}, {size}, {target}>"

    @property
    def url(self) -> str:
        return self.location.url

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
        """Columns; or the largest id + 1; or the number of distinct names, where ids are hashes."""
        return int(self.attributes["n_features"])

    @property
    def n_entries(self) -> int:
        """Numbers stored: all cells of a dense dataset, the non-zeros of a sparse one."""
        return int(self.attributes["n_entries"])

    @property
    def digest(self) -> str:
        """One number for the whole content, names and labels included."""
        return str(self.attributes["digest"])

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """The distinct labels, sorted; None where the target is a real number."""
        classes = self.attributes["labels"]["classes"]
        return None if classes is None else tuple(classes)

    @property
    def layout(self) -> Layout:
        """How the cells are cut: into whole columns, whole rows, or both ways."""
        layout: Layout = self.attributes["layout"]
        return layout

    @property
    def axis(self) -> Axis:
        """The axis along which blocks come unless another is asked for."""
        return "rows" if self.layout == "rows" else "columns"

    @property
    def meta(self) -> Meta:
        """What an algorithm may know before the first block."""
        return Meta(
            kind=self.kind,
            n_samples=self.n_samples,
            n_features=self.n_features,
            n_entries=self.n_entries,
            max_id=int(self.attributes["max_id"]),
            classes=self.classes,
            block_nbytes=max(self._cut(axis).nbytes for axis in self._axes()),
        )

    def n_blocks(self, axis: Axis | None = None) -> int:
        """How many blocks there are along an axis."""
        return self._cut(axis or self.axis).count

    def read(self, block: int, axis: Axis | None = None) -> Block:
        """One block, in memory of its own.

        Parameters
        ----------
        block
            Its number, from 0.
        axis
            ``"columns"`` or ``"rows"``; by default the way the dataset is laid out.
        """
        cut = self._cut(axis or self.axis)
        if not 0 <= block < cut.count:
            raise IndexError(f"block {block} of {cut.count}")
        return cut.read(block, cut.new_buffers())  # type: ignore[arg-type]  # buffers of the same class

    def blocks(self, numbers: Sequence[int] | None = None, axis: Axis | None = None, ahead: int = 2) -> Iterable[Block]:
        """Iterate over blocks, read ahead by a thread while the caller works on the one before.

        A block's memory is reused: it is valid until the next one is asked for.

        Parameters
        ----------
        numbers
            Which blocks, in which order; all of them by default.
        axis
            As for `read`.
        ahead
            How many blocks to hold ready; memory is ``ahead + 1`` blocks.
        """
        cut = self._cut(axis or self.axis)
        return Prefetcher[Block, Any](
            cut.read, range(cut.count) if numbers is None else numbers, cut.new_buffers, ahead
        )

    def targets(self) -> Iterator[NDArray[np.float64]]:
        """The labels of all rows in order, piece by piece, without the features."""
        y = self._reader("y")
        for number in range(y.spec.n_chunks):
            yield y.read(number) if self.kind == "dense" else y.read(number)[0, : int(self._sparse.rows[number])]

    def names(self, ids: ArrayLike) -> list[str]:
        """The names of features, by id; only the names asked for are read."""
        asked = np.asarray(ids).reshape(-1)
        if asked.dtype.kind == "i" and len(asked) and asked.min() < 0:
            raise IndexError(f"feature {asked.min()}: ids are not negative")
        wanted = asked.astype(np.uint64)
        if self.kind == "dense" and len(wanted) and int(wanted.max()) >= self.n_features:
            raise IndexError(f"feature {wanted.max()} of {self.n_features}")
        return self._names.of(wanted)

    def tags(self, block: int) -> list[str]:
        """The names of a block's rows, empty strings where the source gave none."""
        rows = int(self._sparse.rows[block])
        if "tag" not in self.arrays:
            return [""] * rows
        return [str(tag) for tag in self._reader("tag").read(block)[0, :rows]]

    def to_xarray(self) -> xarray.Dataset:
        """The dataset as xarray sees it: lazy, with labelled dimensions; a missing chunk is an error."""
        import xarray

        return xarray.open_zarr(StrictStore(self.location.zarr_store()), chunks={}, consolidated=True)  # type: ignore[no-any-return]

    @cached_property
    def _names(self) -> Names:
        source = self.attributes["names"]
        if source["from"] == "columns":
            return ColumnNames(self._reader("feature"))
        if source["from"] == "table":
            return TableNames(*(self._reader(f"names/{part}") for part in ("first", "id", "name")))
        if source["from"] == "kmers":
            return KmerNames(source["shift"])
        return NumberedNames(source.get("prefix", ""))

    @property
    def stored_bytes(self) -> int:
        """Bytes of all chunks as they are stored."""
        return sum(int(self._reader(name).manifest[:, 0].sum()) for name in self.content)

    @property
    def content(self) -> dict[str, ArraySpec]:
        """The arrays that hold data, without their manifests."""
        return {name: spec for name, spec in self.arrays.items() if not name.startswith("manifest/")}

    @property
    def _sparse(self) -> SparseBlocks:
        cut = self._cut("rows")
        if not isinstance(cut, SparseBlocks):
            raise OptionError(f"{self.url}: only sparse datasets have this")
        return cut

    def _reader(self, name: str) -> ArrayReader:
        return ArrayReader(self.location, self.arrays[name])

    def _axes(self) -> tuple[Axis, ...]:
        return ("columns", "rows") if self.layout == "both" else (self.axis,)

    def _cut(self, axis: Axis) -> ColumnBlocks | RowBlocks | SparseBlocks:
        check_choice("axis", axis, Axis)
        if axis not in self._axes():
            raise OptionError(
                f"{self.url}: laid out in {self.layout}, it cannot be read in {axis}; "
                + ("sparse datasets stream rows" if self.kind == "sparse" else "write it with layout='both'")
            )
        if axis not in self._cuts:
            self._cuts[axis] = self._new_cut(axis)
        return self._cuts[axis]

    def _new_cut(self, axis: Axis) -> ColumnBlocks | RowBlocks | SparseBlocks:
        if self.kind == "sparse":
            names = [name for name, spec in self.arrays.items() if not spec.is_text and "/" not in name]
            return SparseBlocks({name: self._reader(name) for name in names})
        if axis == "columns":
            return ColumnBlocks(self._reader("X"), self._reader("y"))
        return RowBlocks(self._reader("X_rows" if self.layout == "both" else "X"), self._reader("y"))


@lru_cache(maxsize=8)
def _reopened(location: Location, digest: str) -> Dataset:
    """The same dataset in another process, opened once there; DatasetError if it has been replaced since."""
    dataset = open_dataset(location.url, location.options)
    if dataset.digest != digest:
        raise DatasetError(f"{location.url}: was replaced by another dataset while it was in use")
    return dataset


def _shortened(classes: Sequence[Label]) -> str:
    shown = [f"{label:g}" if isinstance(label, float) else str(label) for label in classes[:5]]
    return f"classes {', '.join(shown)}" + (f" and {len(classes) - 5} more" if len(classes) > 5 else "")
