"""Checks of the root metadata of a dataset: the type of every attribute, and the arrays that go with one another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from daskfs.store.dataset.json_checks import (
    are_fills,
    check_members,
    is_count,
    is_flag,
    is_label,
    is_number,
    is_object,
    is_one_of,
    is_text,
    list_of,
    may_have,
    or_none,
    with_members,
)

if TYPE_CHECKING:
    from daskfs.store.dataset.layout import ArraySpec

_SPARSE = ("ids", "indptr", "y", "block_entries", "block_chunk")
_NEEDED: dict[tuple[Any, Any], tuple[str, ...]] = {
    ("dense", "columns"): ("X", "y"),
    ("dense", "rows"): ("X", "y"),
    ("dense", "both"): ("X", "X_rows", "y"),
    ("sparse", "rows"): (*_SPARSE, "block_rows"),
    ("sparse", "columns"): (*_SPARSE, "rows", "block_columns", "block_first"),
}
_NAMES = {"ids": (), "kmers": (), "columns": ("feature",), "table": ("names/name", "names/id", "names/first")}
"""The arrays that hold feature names, by the origin of the names."""
_CELLS = ("sample", "feature")
_DIMS: dict[str, tuple[str, ...]] = {
    "X": _CELLS,
    "X_rows": _CELLS,
    "feature": ("feature",),
    "values": ("chunk", "entry"),
    "rows": ("chunk", "entry"),
    "indptr": ("block", "edge"),
    "tag": ("block", "row"),
    "block_rows": ("block",),
    "block_columns": ("block",),
    "block_entries": ("block",),
    "block_first": ("block",),
    "block_chunk": ("block_edge",),
    "names/id": ("name",),
    "names/name": ("name",),
    "names/first": ("name_chunk",),
}
"""The dimensions of every array whose dimensions depend on nothing else."""
_DTYPES = {
    **dict.fromkeys(("X", "X_rows"), ("float32", "float64")),
    **dict.fromkeys(("ids", "block_first", "names/id", "names/first"), ("uint64",)),
    **dict.fromkeys(("indptr", "block_rows", "block_columns", "block_entries", "block_chunk"), ("int64",)),
    **dict.fromkeys(("values", "weight"), ("float32",)),
    "rows": ("uint32",),
    "y": ("float64",),
}
_TEXTS = ("feature", "tag", "names/name")
_COLUMN = with_members(column=is_text, kind=is_text)
_OF_COLUMN = may_have(
    {"format": is_text, "unsure": is_flag, "gaps": is_count, "fill": is_number, "gap_number": is_number}
)
_MUST = {
    "n_samples": is_count,
    "n_features": is_count,
    "n_entries": is_count,
    "max_id": is_count,
    "labels": with_members(kind=is_one_of("numbers", "strings"), classes=or_none(list_of(is_label))),
    "names": with_members(**{"from": is_one_of(*_NAMES)}),
    "digest": is_text,
}
_MAY = {
    "mixed": or_none(is_flag),
    "made": is_object,
    "missing": are_fills,
    "columns": or_none(list_of(lambda row: _COLUMN(row) and _OF_COLUMN(row))),
}


def check_root(attributes: Any, arrays: Mapping[str, ArraySpec]) -> None:
    """Raise ValueError if an array or attribute is missing or wrong that a dataset of this kind and layout must have.

    All arrays with a dimension of the same name must have the same size along that dimension.
    """
    kind, layout = (attributes.get(name) for name in ("kind", "layout"))
    if not isinstance(kind, str) or not isinstance(layout, str) or (kind, layout) not in _NEEDED:
        raise ValueError(f"there is no kind {kind!r:.40} of dataset laid out in {layout!r:.40}")
    check_members(attributes, _MUST, _MAY)
    _check_labels(attributes["labels"])
    _check_names(attributes["names"])
    if attributes["n_samples"] < 1 or attributes["n_samples"] >= 1 << 62 or attributes["max_id"] >= 1 << 63:
        raise ValueError("the number of samples or the largest feature id is out of range")
    for name in (*_NEEDED[kind, layout], *_NAMES[attributes["names"]["from"]]):
        if name not in arrays:
            raise ValueError(f"array {name} is missing from a {kind} dataset")
    _check_arrays(attributes, arrays)


def _check_labels(labels: Mapping[str, Any]) -> None:
    classes, targets = labels["classes"], labels.get("targets")
    if classes is not None and len({isinstance(label, str) for label in classes}) != 1:
        raise ValueError("classes are neither all strings nor all numbers")
    if classes is None and labels["kind"] == "strings":
        raise ValueError("labels are strings, and there are no classes")
    if classes is not None and isinstance(classes[0], str) != (labels["kind"] == "strings"):
        raise ValueError("classes are not of the kind of the labels")
    if targets is not None and not (list_of(is_text)(targets) and targets and classes is None):
        raise ValueError("targets are not a list of names")


def _check_names(names: Mapping[str, Any]) -> None:
    if names["from"] == "kmers" and not (is_count(names.get("shift")) and names["shift"] < 64):
        raise ValueError("names of k-mers without the bits of their positions")
    if not isinstance(names.get("prefix", ""), str):
        raise ValueError("the prefix of names is no text")


def _check_arrays(attributes: Mapping[str, Any], arrays: Mapping[str, ArraySpec]) -> None:
    """Raise ValueError if the dtype, the dimensions or the sizes of an array are not those of such a dataset."""
    sizes = _known_sizes(attributes, arrays)
    for name, spec in arrays.items():
        if name.startswith("manifest/"):
            continue
        expected = _dims(name, attributes)
        if expected is None:
            raise ValueError(f"no dataset of this kind has an array {name}")
        if spec.dims != expected or len(spec.shape) != len(expected) or len(spec.chunks) != len(expected):
            raise ValueError(f"array {name}: its dimensions are {', '.join(spec.dims):.80}")
        if spec.is_text != (name in _TEXTS) or (not spec.is_text and str(spec.dtype) not in _DTYPES[name]):
            raise ValueError(f"array {name}: {spec.dtype} is not its data type")
        for dim, size in zip(spec.dims, spec.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ValueError(f"array {name}: has size {size} along {dim!r}, where {sizes[dim]} is expected")
        _check_chunks(spec)


def _known_sizes(attributes: Mapping[str, Any], arrays: Mapping[str, ArraySpec]) -> dict[str, int]:
    """Return the sizes of dimensions that attributes or other sizes give."""
    sizes = {"sample": attributes["n_samples"]}
    if attributes["kind"] == "dense" or "feature" in arrays:
        sizes["feature"] = attributes["n_features"]
    if (targets := attributes["labels"].get("targets")) is not None:
        sizes["target"] = len(targets)
    if "block_chunk" in arrays and len(arrays["block_chunk"].shape) == 1:
        sizes["block"] = arrays["block_chunk"].shape[0] - 1
    if "indptr" in arrays and len(arrays["indptr"].shape) == 2:
        sizes["column" if attributes["layout"] == "columns" else "row"] = arrays["indptr"].shape[1] - 1
    if "names/name" in arrays:
        sizes["name"] = attributes["n_features"]
        sizes["name_chunk"] = arrays["names/name"].n_chunks
    return sizes


def _dims(name: str, attributes: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the dimensions of an array, or None for an array that no dataset has."""
    in_blocks = attributes["kind"] == "sparse" and attributes["layout"] == "rows"
    if name == "ids":
        return ("chunk", "entry") if in_blocks else ("block", "column")
    if name in ("y", "weight"):
        several = ("target",) if name == "y" and attributes["labels"].get("targets") is not None else ()
        return (*(("block", "row") if in_blocks else ("sample",)), *several)
    return _DIMS.get(name)


def _check_chunks(spec: ArraySpec) -> None:
    """Raise ValueError unless chunks are whole rows, or whole columns of X, and no larger than the array."""
    if any(chunk > max(size, 1) for chunk, size in zip(spec.chunks, spec.shape, strict=True)):
        raise ValueError(f"array {spec.name}: chunks of {spec.chunks} in an array of {spec.shape}")
    along = 1 if spec.codec.columns_contiguous else 0
    whole = [chunk == size for i, (chunk, size) in enumerate(zip(spec.chunks, spec.shape, strict=True)) if i != along]
    if not all(whole) or (spec.dims[0] in ("block", "chunk") and len(spec.shape) > 1 and spec.chunks[0] != 1):
        raise ValueError(f"array {spec.name}: chunks of {spec.chunks} are not how daskfs cuts an array of {spec.shape}")
