"""Publishing of sparse rows: move staged pieces to their final places as a complete dataset."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import DatasetError
from daskfs.protocol import Axis
from daskfs.store.dataset.codec import append_crc, strip_crc
from daskfs.store.dataset.hashing_kernels import id_of_name
from daskfs.store.dataset.json_checks import check_members, is_count, is_kind, is_one_of, object_of, parse_json
from daskfs.store.dataset.layout import MOST_METADATA, ROOT, UNFINISHED, ArraySpec, Labels, recode_labels
from daskfs.store.dataset.name_runs import MergedNames, cut_into_chunks, encode_names, table_specs
from daskfs.store.dataset.names import check_column_names, feature_spec
from daskfs.store.dataset.writer import ChunkRecords, DatasetWriter, write_chunk, write_file
from daskfs.store.ingest.formats.base import NamesFrom
from daskfs.store.ingest.gaps import Fills, Missing, check_given, columns_to_fill, fill_values
from daskfs.store.ingest.staging import (
    ENTRY_ARRAYS,
    BlockShape,
    SparsePiece,
    StagedBlock,
    check_rows,
    merge_gaps,
    merge_labels,
    merge_orders,
    staged_name,
)
from daskfs.store.places.location import Location

OPTIONAL = {"values": np.float32(1), "weight": np.float32(1), "tag": ""}
"""Names of optional arrays, with the value that fills an optional array in blocks that did not stage the array."""
_FILLS = f"{UNFINISHED}/fills.json"
_FILLS_MEMBERS = {
    "how": is_one_of(*get_args(Missing)),
    "values": object_of(is_kind(float)),
    "indicators": object_of(is_count),
}
RunTasks = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterable[Any]]
"""A function that calls a task with each tuple of arguments, perhaps in parallel, and yields the results in order."""


Decisions = Callable[[Mapping[str, int], Fills], list[dict[str, Any]]]
"""A function of gaps and fills that returns what was decided for every column; see `Format.decisions`."""


def no_decisions(gaps: Mapping[str, int], fills: Fills) -> list[dict[str, Any]]:
    """Return an empty list, as the `Decisions` of data that are not columns of a table."""
    return []


def table_facts(decisions: Decisions, gaps: Mapping[str, int], fills: Fills) -> dict[str, Any]:
    """Return the attributes of a dataset that say how gaps were filled and what was decided for every column."""
    facts: dict[str, Any] = {"missing": fills.record()} if fills.values or gaps else {}
    columns = decisions(gaps, fills)
    return facts | ({"columns": columns} if columns else {})


@dataclass(frozen=True)
class SparsePlan:
    """The block size, the feature names and the origin of a sparse dataset, and what becomes of gaps."""

    shape: BlockShape
    names_from: NamesFrom
    origin: dict[str, Any]  # which command wrote it from what, for the record
    n_features: int | None = None  # by default the largest id + 1, or the number of names
    column_names: Sequence[Any] | None = None
    root: str = ROOT
    missing: Missing = "error"
    numbers: Sequence[str] = ()  # names of the features that may have gaps
    decisions: Decisions = no_decisions
    fills: Fills | None = None  # of a matrix whose gaps were filled before
    given: Fills | None = None  # of another dataset, whose fills are used here too
    targets: tuple[str, ...] | None = None  # names of several targets


def publish_sparse(location: Location, pieces: Sequence[SparsePiece], plan: SparsePlan, run: RunTasks) -> None:
    """Move every staged chunk to its final key, write names and metadata, and mark the sparse dataset complete."""
    n_samples = sum(piece.rows for piece in pieces)
    check_rows(location, pieces, n_samples)
    labels = merge_labels(pieces, plan.targets)
    specs = _needed_specs(pieces, plan.shape, plan.targets)
    gaps = merge_gaps(pieces)
    fills = _fills(location, pieces, plan, gaps, specs, run)
    by_id = {id_of_name(name): value for name, value in fills.values.items()}
    writer = DatasetWriter(location)
    for spec in specs.values():
        writer.add(spec)
    first_block = accumulate((len(piece.blocks) for piece in pieces), initial=0)
    first_chunk = accumulate((piece.chunks for piece in pieces), initial=0)
    tasks = [
        (location, piece, specs, block, chunk, labels, by_id if fills.values.keys() & piece.gaps else {})
        for piece, block, chunk in zip(pieces, first_block, first_chunk, strict=False)
    ]
    for published in run(_publish_piece, tasks):
        for name, records in published.items():
            writer.add(specs[name], records)
    write_block_index(writer, "rows", [block for piece in pieces for block in piece.blocks])
    max_id = max(piece.max_id for piece in pieces)
    attributes: dict[str, Any] = {
        "kind": "sparse",
        "layout": "rows",
        "n_samples": n_samples,
        "n_features": plan.n_features or max_id + 1,
        "n_entries": sum(piece.entries for piece in pieces),
        "max_id": max_id,
        "labels": labels.attributes(),
        "mixed": merge_orders(pieces, labels).mixed,
        "names": plan.names_from,
        **table_facts(plan.decisions, gaps, plan.fills or fills),
        "made": plan.origin,
    }
    if plan.names_from["from"] == "table":
        attributes |= _write_names(writer, pieces)
    if plan.column_names is not None:
        count = attributes["n_features"]
        writer.write(feature_spec(count), check_column_names(plan.column_names, count))
    writer.close(attributes, plan.root)


def _needed_specs(
    pieces: Sequence[SparsePiece], shape: BlockShape, targets: Sequence[str] | None
) -> dict[str, ArraySpec]:
    """Return the specs of the arrays of a sparse dataset, without optional arrays that no block has staged."""
    used = {file.split(".")[0] for piece in pieces for file in piece.files}
    specs = shape.specs(sum(len(piece.blocks) for piece in pieces), sum(piece.chunks for piece in pieces), targets)
    return {name: spec for name, spec in specs.items() if name not in OPTIONAL or name in used}


def _publish_piece(
    location: Location,
    piece: SparsePiece,
    specs: dict[str, ArraySpec],
    first_block: int,
    first_chunk: int,
    labels: Labels,
    fills: Mapping[int, float],
) -> dict[str, ChunkRecords]:
    """Move the staged chunks of a piece to their final keys, skipping chunks that an interrupted call has moved.

    Chunks of values with gaps are written anew, with the number `fills` in place of the gaps of each feature id.
    """
    published: dict[str, ChunkRecords] = {name: [] for name in specs}
    chunk = first_chunk
    for number, block in enumerate(piece.blocks):
        for name, spec in specs.items():
            is_entries = name in ENTRY_ARRAYS
            first, count = (chunk, block.chunks) if is_entries else (first_block + number, 1)
            for i in range(count):
                staged = staged_name(name, number, i)
                if staged not in piece.files:
                    size = min(block.entries - i * spec.chunks[1], spec.chunks[1]) if is_entries else block.rows
                    record = write_chunk(location, spec, first + i, np.full((1, size), OPTIONAL[name]))
                elif name == "y" and labels.strings:
                    y = np.empty(spec.chunks[1], spec.dtype)
                    spec.codec.decode(location.read(f"{piece.folder}/{staged}"), y)
                    y[: block.rows] = recode_labels(y[: block.rows], piece.strings, labels)
                    record = write_chunk(location, spec, first + i, y[np.newaxis])
                elif fills and name in ENTRY_ARRAYS:  # not moved, as ids are needed for values, perhaps once more
                    ids, values = _staged_entries(location, piece, number, i, specs)
                    _fill_entries(ids, values, fills)
                    line = ids[np.newaxis] if name == "ids" else values[np.newaxis]
                    record = write_chunk(location, spec, first + i, line)
                else:
                    _move_once(location, f"{piece.folder}/{staged}", spec.key(first + i))
                    record = (first + i, *piece.files[staged])
                published[name].append(record)
        chunk += block.chunks
    return published


def _fills(
    location: Location,
    pieces: Sequence[SparsePiece],
    plan: SparsePlan,
    gaps: Mapping[str, int],
    specs: dict[str, ArraySpec],
    run: RunTasks,
) -> Fills:
    """Compute what fills the gaps of each feature that is a number, or read what an interrupted call has computed."""
    if plan.given is not None:
        check_given(plan.given, gaps, plan.numbers)
        return plan.given
    wanted = columns_to_fill(plan.missing, plan.numbers, gaps)
    if not wanted:
        return Fills(plan.missing)
    if location.exists(_FILLS):
        return _stored_fills(location)
    parts = [_PieceCells(location, piece, specs) for piece in pieces if piece.rows]
    ids = [id_of_name(plan.numbers[column]) for column in wanted]
    values = fill_values(plan.missing, ids, parts, run, np.dtype(np.float32))
    fills = Fills(plan.missing, dict(zip((plan.numbers[column] for column in wanted), values, strict=True)))
    location.write(_FILLS, append_crc(json.dumps(asdict(fills)).encode()))  # before staged entries are moved
    return fills


def _stored_fills(location: Location) -> Fills:
    """Return the numbers that fill gaps, as an interrupted call has stored them; raise DatasetError if damaged."""
    try:
        raw = strip_crc(location.read(_FILLS, most=MOST_METADATA)).tobytes()
        record = check_members(parse_json(raw), _FILLS_MEMBERS, {})
    except (ValueError, OSError) as error:
        raise DatasetError(f"{location.url}/{_FILLS}: {error}; use --overwrite to begin again") from error
    return Fills(**{name: record[name] for name in _FILLS_MEMBERS})


@dataclass(frozen=True, slots=True)
class _PieceCells:
    """A staged piece whose features are read as columns, to compute what fills their gaps; a `CellsPart`."""

    location: Location
    piece: SparsePiece
    specs: dict[str, ArraySpec]

    def columns(self, ids: Sequence[int]) -> Iterator[tuple[NDArray[np.float64], int]]:
        order = np.argsort(np.array(ids, np.uint64))
        ascending = np.array(ids, np.uint64)[order]
        cells: list[list[NDArray[np.float64]]] = [[] for _ in ids]
        for number, block in enumerate(self.piece.blocks):
            for i in range(block.chunks):
                features, values = _staged_entries(self.location, self.piece, number, i, self.specs)
                at = np.searchsorted(ascending, features)
                hit = np.flatnonzero(np.append(ascending, ascending[:1])[at] == features)
                for place in np.unique(at[hit]):
                    cells[order[place]].append(values[hit[at[hit] == place]].astype(np.float64))
        for column in cells:
            numbers = np.concatenate([np.empty(0), *column])
            yield numbers, self.piece.rows - len(numbers)


def _staged_entries(
    location: Location, piece: SparsePiece, block: int, i: int, specs: dict[str, ArraySpec]
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """Return the ids and values of chunk `i` of a staged block."""
    spec, size = specs["ids"], piece.blocks[block].entries
    count = min(size - i * spec.chunks[1], spec.chunks[1])
    ids, values = np.empty(spec.chunks[1], np.uint64), np.ones(spec.chunks[1], np.float32)
    for name, cells in (("ids", ids), ("values", values)):
        if (staged := staged_name(name, block, i)) in piece.files:
            specs[name].codec.decode(location.read(f"{piece.folder}/{staged}"), cells)
    return ids[:count], values[:count]


def _fill_entries(ids: NDArray[np.uint64], values: NDArray[np.float32], fills: Mapping[int, float]) -> None:
    for at in np.flatnonzero(np.isnan(values)):
        values[at] = fills[int(ids[at])]


def _move_once(location: Location, staged: str, target: str) -> None:
    try:
        location.move(staged, target)
    except FileNotFoundError:
        if not location.exists(target):  # otherwise an earlier attempt has moved it
            raise


def write_block_index(writer: DatasetWriter, along: Axis, blocks: Sequence[StagedBlock]) -> None:
    """Write arrays with the number of rows or columns, the number of entries and the first chunk of each block."""
    lines, entries, chunks = (np.array(sizes, np.int64) for sizes in zip(*blocks, strict=True))
    writer.write(index_spec(f"block_{along}", lines, "block"), lines)
    writer.write(index_spec("block_entries", entries, "block"), entries)
    edges = np.concatenate([[0], np.cumsum(chunks)])
    writer.write(index_spec("block_chunk", edges, "block_edge"), edges)


def index_spec(name: str, numbers: NDArray[np.integer[Any]], dim: str) -> ArraySpec:
    """Return the spec of a short one-dimensional array that is stored in one chunk."""
    return ArraySpec(name, numbers.shape, numbers.shape, numbers.dtype, (dim,))


def _write_names(writer: DatasetWriter, pieces: Sequence[SparsePiece]) -> dict[str, Any]:
    """Merge all sorted runs of names into the names table, and return the numbers of features and hash collisions."""
    names = MergedNames(writer.location, list({run.key: run for piece in pieces for run in piece.runs}.values()))
    first, id_records, name_records, count, chunk = [], [], [], 0, 1
    for number, batch in enumerate(cut_into_chunks(names)):
        chunk = max(chunk, len(batch.ids))  # every batch but the last is as long as the first
        count += len(batch.ids)
        # The final length of the arrays is not known yet, but their chunks are.
        _, ids, text = table_specs(count, chunk)
        id_records.append(write_chunk(writer.location, ids, number, batch.ids))
        name_records.append(write_file(writer.location, text, number, encode_names(batch, chunk)))
        first.append(int(batch.ids[0]))
    firsts, ids, text = table_specs(count, chunk)
    writer.add(ids, id_records)
    writer.add(text, name_records)
    writer.write(firsts, np.array(first, np.uint64))
    return {"n_features": count, "name_collisions": names.collisions}
