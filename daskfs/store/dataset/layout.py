"""The on-disk format: the arrays of a dataset, its root metadata, and the meaning of its labels.

A dataset is a Zarr format 3 group that plain zarr and xarray can open. A dense dataset has the arrays::

    X        (sample, feature)  chunks of whole columns, stored column by column; or of whole rows
    X_rows   (sample, feature)  the same in chunks of whole rows, with layout="both"
    y        (sample)           the number itself, or the class number where labels are strings
    feature  (feature)          names, where there are any.

Where rows have several targets, y has one more dimension, "target", in every kind of dataset.

In a sparse dataset laid out in rows, block b holds `block_rows[b]` rows with `block_entries[b]` entries, which fill the
chunks `block_chunk[b]` … `block_chunk[b + 1]` - 1 of `ids` and `values`. A block has one chunk, unless a row is larger
than a chunk, and chunks are padded with zeros. A sparse dataset laid out in rows has the arrays::

    ids      (chunk, entry)     feature ids, ascending within a row; one chunk file a row of this array
    values   (chunk, entry)     float32; absent where every value is 1
    indptr   (block, edge)      where each row of the block starts, from 0
    y        (block, row)       weight (block, row): only where the source gave row weights
    tag      (block, row)       only where the source names its rows
    block_rows, block_entries (block), block_chunk (block_edge)
    names/id, names/name (name)   sorted by id, where ids are hashes of names;   names/first (name_chunk).

A sparse dataset laid out in columns stores the non-empty columns in blocks in the same way, in the arrays::

    rows     (chunk, entry)     row numbers, ascending within a column;   values as above
    indptr   (block, edge)      where each column of the block starts;   ids (block, column): ascending throughout
    y        (sample)           weight (sample): only where the source gave row weights
    block_columns, block_entries, block_first (block): the first id;   block_chunk (block_edge);   names as above.

The array ``manifest/ARRAY`` holds size and crc32c of every chunk of ARRAY. The root ``zarr.json`` holds all other facts
in the attribute ``daskfs``. The root ``zarr.json`` is written last, so that an incomplete dataset does not open.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError, OptionError, check_choice
from daskfs.store.dataset.codec import PLAIN, STRINGS_METADATA, Codec, Compression
from daskfs.store.dataset.json_checks import is_count, parse_json
from daskfs.store.dataset.root_checks import check_root

VERSION = 1
ROOT = "zarr.json"
ATTRIBUTE = "daskfs"
UNFINISHED = "_unfinished"
PLAN = f"{UNFINISHED}/plan.json"
UNSHUFFLED = f"{UNFINISHED}/unshuffled.json"
"""The root metadata of an ingested dataset whose rows will be replaced by the same rows in random order."""
STRING = np.dtypes.StringDType()
CHUNK_BYTES = 8_000_000
"""Default size in bytes of a chunk of dense data."""
MOST_CLASSES = 1000
MOST_METADATA = 1 << 26
"""The largest size in bytes of a root zarr.json; that of a table has some hundred bytes a column."""

Layout = Literal["columns", "rows", "both"]
Attributes = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """The spec of one array of a dataset: name, shape, chunks, dtype, names of the dimensions, codec."""

    name: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: Any  # numpy dtype, or STRING
    dims: tuple[str, ...]
    codec: Codec = PLAIN

    @property
    def grid(self) -> tuple[int, ...]:
        """The number of chunks along each dimension."""
        return tuple(math.ceil(size / chunk) for size, chunk in zip(self.shape, self.chunks, strict=True))

    @property
    def n_chunks(self) -> int:
        return math.prod(self.grid)

    @property
    def is_text(self) -> bool:
        return isinstance(self.dtype, np.dtypes.StringDType)

    def key(self, number: int) -> str:
        """Return the storage key of chunk `number`, where chunks are numbered in row-major order."""
        return "/".join([self.name, "c", *map(str, np.unravel_index(number, self.grid))])

    def metadata(self) -> dict[str, Any]:
        """Return the content of the array's zarr.json."""
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": "string" if self.is_text else np.dtype(self.dtype).name,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunks)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            # With plain zarr a missing chunk reads as NaN and so is noticed; integers have no such value.
            "fill_value": "" if self.is_text else "NaN" if np.dtype(self.dtype).kind == "f" else 0,
            "codecs": STRINGS_METADATA if self.is_text else self.codec.metadata(np.dtype(self.dtype)),
            "attributes": {},
            "dimension_names": list(self.dims),
            "storage_transformers": [],
        }

    @classmethod
    def from_metadata(cls, name: str, metadata: Mapping[str, Any]) -> ArraySpec:
        """Return the array that a zarr.json describes. Raise DatasetError unless daskfs writes such files."""
        try:
            chain = [codec["name"] for codec in metadata["codecs"]]
            blosc = next((c["configuration"] for c in metadata["codecs"] if c["name"] == "blosc"), None)
            compression: Any = blosc["cname"] if blosc else "none"
            check_choice("compression", compression, Compression)
            spec = cls(
                name=name,
                shape=_sizes(metadata["shape"]),
                chunks=_sizes(metadata["chunk_grid"]["configuration"]["chunk_shape"]),
                dtype=STRING if metadata["data_type"] == "string" else _plain_dtype(metadata["data_type"]),
                dims=tuple(map(str, metadata["dimension_names"])),
                codec=Codec(compression, "transpose" in chain),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise DatasetError(f"array {name:.80}: zarr.json is not what daskfs writes ({error!r:.200})") from error
        if (
            not re.fullmatch(r"[A-Za-z_]+(/[A-Za-z_.]*[A-Za-z_])?", name)
            or min(spec.chunks, default=0) < 1
            or len(spec.chunks) != len(spec.shape)
        ):
            raise DatasetError(f"array {name:.80}: no array of a daskfs dataset has that name or shape")
        if spec.metadata()["codecs"] != list(metadata["codecs"]):
            raise DatasetError(f"array {name}: codecs {chain!s:.80} are not what daskfs writes")
        return spec


def _sizes(sizes: Any) -> tuple[int, ...]:
    """Return the shape of an array or chunk as in a zarr.json. Raise ValueError if it is malformed or far too large."""
    if not isinstance(sizes, list) or not 1 <= len(sizes) <= 4 or not all(map(is_count, sizes)):
        raise ValueError(f"{sizes!r:.80} is no shape")
    if math.prod(max(size, 1) for size in sizes) >= 1 << 60:
        raise ValueError(f"the shape {sizes!r:.80} is too large")
    return tuple(sizes)


def _plain_dtype(name: Any) -> np.dtype[Any]:
    """Return the numpy dtype of this name. Raise ValueError if it is not one of plain numbers or booleans."""
    if not isinstance(name, str) or not re.fullmatch(r"bool|u?int(8|16|32|64)|float(16|32|64)", name):
        raise ValueError(f"{name!r:.80} is no data type of daskfs")
    return np.dtype(name)


@dataclass(frozen=True, slots=True)
class DenseShape:
    """The layout, chunk size and compression of a dense dataset."""

    layout: Layout
    chunk_bytes: int
    compression: Codec = PLAIN


def dense_specs(shape: tuple[int, int], dtype: np.dtype[Any], cut: DenseShape) -> list[ArraySpec]:
    """Return the specs of X (and X_rows) of a dense dataset, with chunks of about `cut.chunk_bytes` bytes."""
    n_samples, n_features = shape
    width = min(n_features, max(1, cut.chunk_bytes // (n_samples * dtype.itemsize)))
    height = min(n_samples, max(1, cut.chunk_bytes // (n_features * dtype.itemsize)))
    dims = ("sample", "feature")
    columns = Codec(cut.compression.compression, columns_contiguous=True)
    by_column = ArraySpec("X", shape, (n_samples, width), dtype, dims, columns)
    by_row = ArraySpec("X", shape, (height, n_features), dtype, dims, cut.compression)
    return {"columns": [by_column], "rows": [by_row], "both": [by_column, replace(by_row, name="X_rows")]}[cut.layout]


def target_spec(n_samples: int, targets: Sequence[str] | None = None) -> ArraySpec:
    """Return the spec of the array y, perhaps of several targets, if the dataset is not cut into blocks of rows."""
    spec = ArraySpec("y", (n_samples,), (min(n_samples, 1 << 17),), np.dtype(np.float64), ("sample",))
    return spec if targets is None else with_targets(spec, len(targets))


def with_targets(y: ArraySpec, count: int) -> ArraySpec:
    """Return the spec of the array y with a last dimension for several targets."""
    return replace(y, shape=(*y.shape, count), chunks=(*y.chunks, count), dims=(*y.dims, "target"))


def weight_spec(n_samples: int) -> ArraySpec:
    """Return the spec of the array of row weights in a dataset that is not cut into blocks of rows."""
    return replace(target_spec(n_samples), name="weight", dtype=np.dtype(np.float32))


def root_metadata(attributes: Attributes, specs: Sequence[ArraySpec]) -> bytes:
    """Return the root zarr.json, which includes the metadata of all arrays so that a dataset opens with one read."""
    groups = sorted({spec.name.split("/")[0] for spec in specs if "/" in spec.name})
    members: dict[str, Any] = {name: group_metadata() for name in groups}
    members.update({spec.name: spec.metadata() for spec in specs})
    root = group_metadata() | {
        "attributes": {ATTRIBUTE: attributes},
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": members},
    }
    return json.dumps(root, indent=1).encode()


def group_metadata() -> dict[str, Any]:
    """Return the zarr.json of a group without attributes."""
    return {"zarr_format": 3, "node_type": "group", "attributes": {}}


def is_ours(raw: bytes, kind: str | None = None) -> bool:
    """Return True if daskfs of any version wrote a root zarr.json, of the given kind or of any kind."""
    try:
        attributes = parse_json(raw)["attributes"]
        return ATTRIBUTE in attributes and kind in (None, attributes[ATTRIBUTE]["kind"])
    except (ValueError, KeyError, TypeError):
        return False


def parse_root(url: str, raw: bytes) -> tuple[Attributes, dict[str, ArraySpec]]:
    """Return attributes and arrays from a root zarr.json. Raise DatasetError if daskfs cannot read the zarr.json."""
    try:
        root = parse_json(raw)
        attributes = root["attributes"][ATTRIBUTE]
        members = root["consolidated_metadata"]["metadata"]
        version = attributes["version"]
    except (ValueError, KeyError, TypeError) as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else f"cannot be read: {error}"
        raise DatasetError(f"{url}: not a daskfs dataset (its zarr.json {reason}); see daskfs ingest") from error
    if version != VERSION:
        raise DatasetError(
            f"{url}: written in layout version {version!r:.40}, this daskfs reads {VERSION}; update one of them"
        )
    try:
        arrays = {
            name: ArraySpec.from_metadata(name, metadata)
            for name, metadata in members.items()
            if metadata.get("node_type") == "array"
        }
        check_root(attributes, arrays)
    except (DatasetError, ValueError, AttributeError) as error:
        raise DatasetError(f"{url}: its zarr.json is damaged: {error}; ingest the data again") from error
    return attributes, arrays


@dataclass(frozen=True, slots=True)
class Labels:
    """The meaning of the numbers in y, the array of labels.

    Numeric labels are stored unchanged, so that {0, 1}, {-1, 1} and real targets look in the dataset as in the source.
    Up to 1,000 distinct whole numbers are also listed as classes, and so is a number that all rows have. A string label
    is stored as its position among the sorted distinct strings.
    """

    strings: bool
    classes: tuple[float, ...] | tuple[str, ...] | None
    targets: tuple[str, ...] | None = None  # names of several targets, which are never classes

    def attributes(self) -> dict[str, Any]:
        """Return the labels in the form that the root metadata of a dataset holds."""
        targets = {} if self.targets is None else {"targets": list(self.targets)}
        kind = "strings" if self.strings else "numbers"
        return {"kind": kind, "classes": self.classes and list(self.classes), **targets}


def check_targets(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of several targets, or raise OptionError if two of the names are the same."""
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise OptionError(f"two targets are called {twice[0]!r:.80}: give each a name of its own")
    return tuple(names)


def can_be_classes(distinct: Sequence[float] | NDArray[np.float64]) -> bool:
    """Return whether distinct numeric labels can be classes: whole numbers, or one number that all rows have."""
    return len(distinct) <= 1 or (len(distinct) <= MOST_CLASSES and np.array_equal(distinct, np.round(distinct)))


def distinct_numbers(y: NDArray[np.float64]) -> list[float] | None:
    """Return the distinct labels of some rows, or None if the labels cannot be classes."""
    distinct = np.unique(y)
    return [float(value) for value in distinct] if can_be_classes(distinct) else None


def merge_number_labels(seen: Iterable[Sequence[float] | None]) -> Labels:
    """Return the numeric labels of a dataset, given the distinct labels of each part of the data."""
    union: set[float] = set()
    for part in seen:
        if part is None:
            return Labels(False, None)
        union.update(part)
    return Labels(False, tuple(sorted(union)) if can_be_classes(sorted(union)) else None)


def merge_string_labels(seen: Iterable[Sequence[str]]) -> Labels:
    """Return the string labels of a dataset, given the distinct labels of each part of the data."""
    return Labels(True, tuple(sorted(set().union(*seen))))


def recode_labels(y: NDArray[np.float64], local: Sequence[str], labels: Labels) -> NDArray[np.float64]:
    """Convert positions in the label list of one part of the data to positions in the label list of the dataset."""
    assert labels.classes is not None
    position = {label: code for code, label in enumerate(labels.classes)}
    table = np.array([position[label] for label in local], np.float64)
    codes: NDArray[np.float64] = table[y.astype(np.int64)]
    return codes
