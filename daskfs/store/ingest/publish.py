"""From staged pieces to a complete sparse dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskfs.errors import SourceError
from daskfs.protocol import Axis
from daskfs.store.dataset.labels import Labels
from daskfs.store.dataset.layout import ArraySpec
from daskfs.store.dataset.name_runs import MergedNames, cut_into_chunks, encode_names, table_specs
from daskfs.store.dataset.names import check_column_names, feature_spec
from daskfs.store.dataset.writer import DatasetWriter, write_chunk, write_file
from daskfs.store.ingest.formats.base import NamesFrom
from daskfs.store.ingest.pieces import merge_labels
from daskfs.store.ingest.staging import OPTIONAL, BlockShape, SparsePiece, StagedBlock, publish_piece
from daskfs.store.places.location import Location

RunTasks = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterable[Any]]
"""Calls a function with each tuple of arguments, in order or in parallel; results in order."""


@dataclass(frozen=True)
class SparsePlan:
    """What a sparse dataset is to be, besides its rows."""

    shape: BlockShape
    names_from: NamesFrom
    made: dict[str, Any]  # how it came about, for the record
    n_features: int | None = None  # as the source says; otherwise the largest id, or the names, decide
    column_names: Sequence[Any] | None = None


def publish_sparse(location: Location, pieces: Sequence[SparsePiece], plan: SparsePlan, run: RunTasks) -> None:
    """Move every staged chunk to its place, write names and metadata, and mark the dataset complete."""
    if not any(piece.rows for piece in pieces):
        raise SourceError(f"{location.url}: the sources hold no rows")
    labels = merge_labels(pieces)
    specs = _arrays(pieces, plan.shape)
    writer = DatasetWriter(location)
    for spec in specs.values():
        writer.add(spec)
    first_block = accumulate((len(piece.blocks) for piece in pieces), initial=0)
    first_chunk = accumulate((piece.chunks for piece in pieces), initial=0)
    tasks = [
        (location, piece, specs, block, chunk, labels)
        for piece, block, chunk in zip(pieces, first_block, first_chunk, strict=False)
    ]
    for published in run(publish_piece, tasks):
        for name, records in published.items():
            writer.add(specs[name], records)
    write_block_index(writer, "rows", [block for piece in pieces for block in piece.blocks])
    attributes = _attributes(pieces, labels, plan)
    if plan.names_from["from"] == "table":
        attributes |= _write_names(writer, pieces)
    if plan.column_names is not None:
        count = attributes["n_features"]
        writer.write(feature_spec(count), check_column_names(plan.column_names, count))
    writer.close(attributes)


def _arrays(pieces: Sequence[SparsePiece], shape: BlockShape) -> dict[str, ArraySpec]:
    """The arrays this dataset needs: those that can be left out stay out if no block wrote them."""
    used = {file.split(".")[0] for piece in pieces for file in piece.files}
    specs = shape.specs(sum(len(piece.blocks) for piece in pieces), sum(piece.chunks for piece in pieces))
    return {name: spec for name, spec in specs.items() if name not in OPTIONAL or name in used}


def write_block_index(writer: DatasetWriter, along: Axis, blocks: Sequence[StagedBlock]) -> None:
    """How large each block is, and where its chunks begin."""
    lines, entries, chunks = (np.array(sizes, np.int64) for sizes in zip(*blocks, strict=True))
    writer.write(index_spec(f"block_{along}", lines, "block"), lines)
    writer.write(index_spec("block_entries", entries, "block"), entries)
    edges = np.concatenate([[0], np.cumsum(chunks)])
    writer.write(index_spec("block_chunk", edges, "block_edge"), edges)


def index_spec(name: str, numbers: NDArray[np.integer[Any]], dim: str) -> ArraySpec:
    """Where a short array of numbers is kept: in one chunk."""
    return ArraySpec(name, numbers.shape, numbers.shape, numbers.dtype, (dim,))


def _write_names(writer: DatasetWriter, pieces: Sequence[SparsePiece]) -> dict[str, Any]:
    """Merge all runs into the table of names; it alone knows how many features there are."""
    names = MergedNames(writer.location, list({run.key: run for piece in pieces for run in piece.runs}.values()))
    first, id_records, name_records, count, chunk = [], [], [], 0, 1
    for number, batch in enumerate(cut_into_chunks(names)):
        chunk = max(chunk, len(batch.ids))  # every batch but the last is as long as the first
        count += len(batch.ids)
        # How long the arrays will be is not known yet, but their chunks are.
        _, ids, text = table_specs(count, chunk)
        id_records.append(write_chunk(writer.location, ids, number, batch.ids))
        name_records.append(write_file(writer.location, text, number, encode_names(batch, chunk)))
        first.append(int(batch.ids[0]))
    firsts, ids, text = table_specs(count, chunk)
    writer.add(ids, id_records)
    writer.add(text, name_records)
    writer.write(firsts, np.array(first, np.uint64))
    return {"n_features": count, "name_collisions": names.collisions}


def _attributes(pieces: Sequence[SparsePiece], labels: Labels, plan: SparsePlan) -> dict[str, Any]:
    max_id = max(piece.max_id for piece in pieces)
    return {
        "kind": "sparse",
        "layout": "rows",
        "n_samples": sum(piece.rows for piece in pieces),
        "n_features": plan.n_features or max_id + 1,
        "n_entries": sum(piece.entries for piece in pieces),
        "max_id": max_id,
        "labels": labels.attributes(),
        "names": plan.names_from,
        "made": plan.made,
    }
