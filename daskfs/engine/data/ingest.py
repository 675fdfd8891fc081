"""The function `ingest`, which writes a dataset from source files and resumes an interrupted ingest.

A *piece* is the unit of work and of resumption: a range of one large file, one compressed file, or several small files.
Pieces are staged in parallel (`store.ingest.staging`), then published in order.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from daskfs.engine.cluster.pool import Pool, in_order, pool
from daskfs.engine.data.reorder import shuffle_in_place, shuffled_request
from daskfs.engine.memory import IngestMemory
from daskfs.errors import (
    DaskfsError,
    Interrupted,
    OptionError,
    SourceError,
    StorageError,
    check_choice,
    check_whole,
)
from daskfs.store.dataset.codec import Compression
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.label_order import RowOrder
from daskfs.store.dataset.layout import ROOT, UNSHUFFLED, DenseShape, Layout
from daskfs.store.ingest import plan as planning
from daskfs.store.ingest.dense_staging import DensePiece, DensePieceWriter, DensePlan, publish_dense
from daskfs.store.ingest.formats import make_format
from daskfs.store.ingest.formats.base import Format
from daskfs.store.ingest.gaps import Fills
from daskfs.store.ingest.plan import WorkPiece
from daskfs.store.ingest.publish import SparsePlan, publish_sparse
from daskfs.store.ingest.rows import BadLines, DenseBuilder, RowBuilder, borrow_names, drop_collected_names
from daskfs.store.ingest.sources import find_sources
from daskfs.store.ingest.staging import (
    BlockShape,
    SparsePiece,
    SparsePieceWriter,
    load_piece,
    merge_labels,
    merge_orders,
)
from daskfs.store.places.location import Location

if TYPE_CHECKING:
    from distributed import Client

AnyPiece = SparsePiece | DensePiece
OnBadLine = Literal["error", "skip"]


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """The progress of an ingest: pieces, bytes, rows, entries and bad lines so far."""

    pieces_done: int
    pieces: int
    bytes_done: int
    bytes: int
    rows: int
    entries: int
    bad_lines: int

    def after(self, work: WorkPiece, piece: AnyPiece) -> IngestProgress:
        """Return the progress after one more piece is staged."""
        rows, entries, bad = self.rows + piece.rows, self.entries + piece.entries, self.bad_lines + piece.bad_lines
        done, nbytes = self.pieces_done + 1, self.bytes_done + work.nbytes
        return IngestProgress(done, self.pieces, nbytes, self.bytes, rows, entries, bad)


@dataclass(frozen=True)
class IngestJob:
    """The arguments that all tasks of an ingest share: location, format, block size, memory, policy for bad lines."""

    location: Location
    format: Format
    shape: BlockShape | DenseShape
    memory: IngestMemory
    skip_bad: bool
    most_bad: int
    fills: Fills | None = None  # of the dataset to be like
    attempt: str = ""  # pieces of the same attempt share the names they have staged


def ingest(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    url: str | os.PathLike[str],
    format: str,
    *,
    layout: Layout = "columns",
    memory: int | str | None = None,
    on_bad_line: OnBadLine = "error",
    max_bad_lines: int = 1000,
    compression: Compression | None = None,
    like: Dataset | str | os.PathLike[str] | None = None,
    order: RowOrder = "auto",
    shuffle: bool | int = False,
    overwrite: bool = False,
    client: Client | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    source_options: Mapping[str, Any] | None = None,
    progress: Callable[[IngestProgress], None] | None = None,
    **options: Any,
) -> Dataset:
    """Write source files as a dataset, in parallel and in bounded memory, or resume an interrupted ingest.

    Parameters
    ----------
    sources
        Paths, folders, globs or URLs (``s3://…``, or any URL that fsspec can open) of files, perhaps compressed as
        ``.gz``, ``.bz2``, ``.xz`` or ``.zst``.
    url
        The place of the dataset: a local path or a URL.
    format
        ``"svmlight"``, ``"vw"``, ``"csv"``, ``"tsv"``, ``"parquet"``, ``"fasta"`` or ``"text"``.
    layout
        The layout of a dense table (see `write_dataset`). Sparse data is always written in rows (see `transpose`).
    memory
        The additional memory that this process (on a cluster: each thread of a worker) may use, such as ``512 << 20``
        or ``"512MB"``.
    on_bad_line
        ``"error"`` to raise an error at the first line that cannot be parsed, or ``"skip"`` to leave out such lines.
    max_bad_lines
        The largest number of bad lines that ``on_bad_line="skip"`` leaves out before the ingest fails.
    compression
        The compression of chunks, as for `write_dataset`.
    like
        A dataset from a table of the same columns, such as the training data of these test data: columns are of the
        same kinds, the same columns are left out, and gaps are filled with the same numbers as in this dataset.
    order
        ``"auto"`` to store rows in random order (of seed 0) if their labels come in runs, as in sources with a file or
        folder for each class, and if the dataset is laid out in rows and not both ways. ``"as-is"`` to keep the order
        of the sources. What learns row by row reads sorted rows in random order in any case; see `select`.
    shuffle
        True (seed 0) or a seed to store the rows in random order in any case, as the function `shuffle` does.
    overwrite
        Replace an existing dataset, and do not resume an unfinished ingest.
    client
        The Dask client to use, by default the current client, or threads of this process if there is no client.
    workers
        The number of threads of this process to use instead of a cluster.
    storage_options, source_options
        Address and keys of the stores of the dataset and of the sources, as for `open_dataset`.
    progress
        A function that is called with an `IngestProgress` after every piece.
    **options
        Options of the format, as listed by ``daskfs ingest --help``.

    Returns
    -------
    Dataset
        The dataset, opened.

    Examples
    --------
    >>> _ = Path("two.svm").write_text("+1 7:0.5 9:1\\n-1 9:2\\n")
    >>> daskfs.ingest("two.svm", "two.zarr", format="svmlight")
    <daskfs.Dataset two.zarr: sparse, 2 samples x 10 features, classes -1, 1>
    """
    check_choice("layout", layout, Layout)
    check_choice("on_bad_line", on_bad_line, OnBadLine)
    check_choice("order", order, RowOrder)
    check_choice("compression", compression or "none", Compression)
    if isinstance(sources, str | os.PathLike):
        sources = [sources]
    kind = make_format(format, options)
    seed = _seed_of(shuffle)
    location = Location(url, storage_options)
    files = find_sources([os.fspath(source) for source in sources], source_options, (location.url,))
    where = pool(client, workers, [location.options, *(file.options for file in files)], [kind])
    budget = IngestMemory.of(memory, where.sharing)
    where = where.limited_to(budget.workers)
    files = [replace(file, limits=budget.limits) for file in files]
    model = open_dataset(like, storage_options) if isinstance(like, str | os.PathLike) else like
    kind = kind if model is None else kind.like(model)
    request = _request_of(planning.request_digest(kind, files, layout, compression, on_bad_line), model, order)
    shuffled = request if seed is None else shuffled_request(request, seed)
    content = planning.content_digest(files)
    with location.one_writer():
        if not overwrite and planning.is_done(location, shuffled, content):
            return open_dataset(url, storage_options)
        if overwrite or not planning.is_unshuffled(location, request, content):
            with _no_empty_folder(location):
                plan = planning.new_plan(kind, files, layout, compression, budget.chunk_bytes)
                if seed is not None:
                    _check_in_rows(location, plan.shape)
            work = list(planning.plan_pieces(plan.format, files, request))
            planning.begin(location, plan, work, request, overwrite)
            fills = None if model is None else Fills.from_record(model.attributes.get("missing")) or Fills("auto")
            job = IngestJob(location, plan.format, plan.shape, budget, on_bad_line == "skip", max_bad_lines, fills)
            pieces = _stage_or_abandon(job, work, where, progress)
            origin = {"by": "ingest", "request": request, "content": content}
            origin |= _summary(plan, pieces, len(files), order)
            will_shuffle = seed is not None or "autocorrelation" in origin
            planning.begin_publishing(location, work)
            _publish(job, pieces, origin, UNSHUFFLED if will_shuffle else ROOT, where)
        if location.exists(UNSHUFFLED):
            shuffle_in_place(
                location, seed or 0, memory, {"request": shuffled}, pool(client, workers, [location.options])
            )
    return open_dataset(url, storage_options)


def _seed_of(shuffle: bool | int) -> int | None:
    """Return the seed of the option `shuffle` (True for seed 0, or a seed), or None without a shuffle."""
    if isinstance(shuffle, bool):
        return 0 if shuffle else None
    check_whole("shuffle", shuffle, 0)
    return shuffle


def _request_of(digest: str, model: Dataset | None, order: RowOrder) -> str:
    """Return the digest of a request with the options `like` and `order`, which does not depend on the shuffle."""
    like = "" if model is None else f" like {model.digest[:16]}"
    return f"{digest}{like}{'' if order == 'auto' else ' as is'}"


@contextmanager
def _no_empty_folder(location: Location) -> Iterator[None]:
    """Remove the folder of the dataset, if it is empty, after an error in the `with` block."""
    try:
        yield
    except DaskfsError:
        location.remove_if_empty()
        raise


def _is_in_rows(shape: BlockShape | DenseShape) -> bool:
    return isinstance(shape, BlockShape) or shape.layout == "rows"


def _check_in_rows(location: Location, shape: BlockShape | DenseShape) -> None:
    """Raise OptionError if the rows must be shuffled, but the layout does not allow a shuffle."""
    if not _is_in_rows(shape):
        assert isinstance(shape, DenseShape)
        raise OptionError(
            f"{location.url}: a dense table in {shape.layout} cannot be shuffled row by row; use --layout rows"
        )


def _summary(plan: planning.Plan, pieces: list[AnyPiece], n_sources: int, order: RowOrder) -> dict[str, Any]:
    """Return the attributes of the dataset that describe the sources.

    The attribute "autocorrelation" is there only if rows must be shuffled because their labels come in runs.
    """
    summary: dict[str, Any] = {"format": plan.format.name, "sources": n_sources}
    summary |= {"bad_lines": sum(piece.bad_lines for piece in pieces)}
    summary |= {"dropped": sum(piece.dropped for piece in pieces)} if plan.format.is_table else {}
    row_order = merge_orders(pieces, merge_labels(pieces, plan.format.targets))
    if row_order.mixed is False and order == "auto" and _is_in_rows(plan.shape):
        summary["autocorrelation"] = round(row_order.autocorrelation, 3)
    return summary


def _stage_or_abandon(
    job: IngestJob, work: list[WorkPiece], where: Pool, progress: Callable[[IngestProgress], None] | None
) -> list[AnyPiece]:
    """Return the records of all staged pieces.

    After an error in the sources, such as a bad line, the plan is deleted unless a piece is staged already, so that an
    ingest with other options can begin.
    """
    try:
        return _stage_pieces(job, work, where, progress)
    except (StorageError, Interrupted):  # the store is unreachable, or another process has taken over
        raise
    except DaskfsError:
        planning.abandon(job.location)
        raise


def _stage_pieces(
    job: IngestJob, work: list[WorkPiece], where: Pool, progress: Callable[[IngestProgress], None] | None
) -> list[AnyPiece]:
    """Return the records of all staged pieces, after staging every piece that an earlier ingest has not staged."""
    kind: type[AnyPiece] = DensePiece if job.format.kind == "dense" else SparsePiece
    known = (load_piece(kind, job.location, task.number, task.key) for task in work)
    pieces = _pieces_with_all_names(piece for piece in known if piece is not None)
    now = _progress(work, pieces)
    _check_bad_lines(job, now, pieces)
    if progress is not None:
        progress(now)
    # A second round is needed only if Dask parsed a piece twice, after losing a worker, and others rely on the first.
    while todo := [task for task in work if task.number not in pieces]:
        now, job = _progress(work, pieces), replace(job, attempt=uuid.uuid4().hex)
        for piece in where.unordered("parse", stage_piece, [(job, task) for task in todo]):
            pieces[piece.number] = piece
            now = now.after(work[piece.number], piece)
            if progress is not None:
                progress(now)
            _check_bad_lines(job, now, pieces)
        pieces = _pieces_with_all_names(pieces.values())
    where.everywhere(drop_collected_names)
    if job.format.kind == "sparse" and now.rows and not now.entries:
        raise SourceError(f"{work[0].parts[0].source.url}: no row has a feature; is this {job.format.name}?")
    return [pieces[number] for number in sorted(pieces)]


def _progress(work: list[WorkPiece], pieces: dict[int, AnyPiece]) -> IngestProgress:
    """Return the progress of an ingest that has staged `pieces`."""
    now = IngestProgress(0, len(work), 0, sum(task.nbytes for task in work), 0, 0, 0)
    for piece in pieces.values():
        now = now.after(work[piece.number], piece)
    return now


def _pieces_with_all_names(pieces: Iterable[AnyPiece]) -> dict[int, AnyPiece]:
    """Return pieces by number, without pieces whose feature names were staged with a piece not in `pieces`."""
    result = {piece.number: piece for piece in pieces}
    while True:
        folders = {piece.folder for piece in result.values()}
        complete = {number: piece for number, piece in result.items() if piece.relies_on <= folders}
        if len(complete) == len(result):
            return result
        result = complete


def _check_bad_lines(job: IngestJob, now: IngestProgress, pieces: dict[int, AnyPiece]) -> None:
    if now.bad_lines > job.most_bad:
        example = next(piece.bad_examples[0] for piece in pieces.values() if piece.bad_examples)
        raise SourceError(f"more than {job.most_bad} bad lines, among them {example}")


def stage_piece(job: IngestJob, work: WorkPiece) -> AnyPiece:
    """Parse one piece of the sources, stage its rows, and return the record of the staged piece."""
    piece = _parse_piece(job, work)
    for source in {part.source.url: part.source for part in work.parts}.values():
        source.check_unchanged()
    return piece


def _parse_piece(job: IngestJob, work: WorkPiece) -> AnyPiece:
    bad_lines = BadLines(job.skip_bad, job.most_bad)
    if isinstance(job.shape, DenseShape):
        dense = DensePieceWriter(job.location, work.number, work.key, job.shape.layout, job.memory.rows_bytes)
        table = DenseBuilder(dense.take_rows, bad_lines=bad_lines)
        for part in work.parts:
            job.format.read_dense(part, table, job.memory.window_bytes)
        return dense.close(table, bad_lines)
    names_bytes = job.memory.names_bytes if job.format.names_from["from"] == "table" else 1024
    with borrow_names(job.attempt, names_bytes) as collected:
        known, targets = collected.begin_piece(), job.format.targets
        stage = SparsePieceWriter(job.location, work.number, work.key, job.shape, known, targets)
        sizes = {"block_rows": job.shape.rows, "block_entries": job.shape.entries}
        rows = RowBuilder(stage.take_rows, stage.take_names, collected=collected, bad_lines=bad_lines, **sizes)
        for part in work.parts:
            job.format.read(part, rows, job.memory.window_bytes)
        rows.finish()
        piece = stage.close(rows, bad_lines)
        collected.runs = piece.runs
    return piece


def _publish(job: IngestJob, pieces: list[Any], origin: dict[str, Any], root: str, where: Pool) -> None:
    run = in_order(where, "publish")
    options: dict[str, Any] = {"missing": job.format.missing, "given": job.fills}
    options |= {"decisions": job.format.decisions, "root": root, "targets": job.format.targets}
    if isinstance(job.shape, DenseShape):
        plan = DensePlan(job.shape, job.format.column_names(), origin, **options)
        publish_dense(job.location, pieces, plan, run, job.memory.rows_bytes)
    else:
        numbers = job.format.column_names() if job.format.is_table else ()
        sparse = SparsePlan(job.shape, job.format.names_from, origin, numbers=numbers, **options)
        publish_sparse(job.location, pieces, sparse, run)
