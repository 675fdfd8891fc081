"""The function `select`: schedules the passes of an algorithm on workers, and names the selected features."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daskfs.engine.checkpoint import Checkpoint, PassCost, Snapshot, checkpoint_at, describe_algorithm
from daskfs.engine.cluster.pool import current_client, prepare_workers
from daskfs.engine.cluster.waiting import call
from daskfs.engine.cluster.worker_pool import expected_workers, guard_memory, warn_of_lost_workers, workers_of
from daskfs.engine.data.mix import mixed_rows, order_of_shuffle
from daskfs.engine.events.messages import refused_event
from daskfs.engine.events.send import client_sender, events_enabled
from daskfs.engine.halves import FromHalves, StatesOfHalves, kind_to_restore, row_groups_of
from daskfs.engine.memory import MemoryPlan, available_memory
from daskfs.engine.passes import PassProgress, PassRunner, SelectionRun, SerialRunner
from daskfs.engine.shards import most_shards, one_blas_thread
from daskfs.errors import ColumnError, DatasetError, OptionError, RowError, check_whole, public_url
from daskfs.protocol import Algorithm, AsynchronousAlgorithm, Result, Schedule, State
from daskfs.selection.evaluation import class_shares
from daskfs.selection.inputs import Inputs
from daskfs.selection.metrics import constant_scores
from daskfs.selection.products import feature_names, named_products
from daskfs.selection.selection import Selection
from daskfs.store.dataset.dataset import Dataset, open_dataset
from daskfs.store.dataset.label_order import RowOrder
from daskfs.store.ingest.gaps import Fills

if TYPE_CHECKING:
    from distributed import Client

_GAPS = frozenset(("", "?", "-", "na", "n/a", "nan", "null"))  # texts of labels, in lower case


def select(
    dataset: Dataset | str | os.PathLike[str],
    algorithm: Algorithm,
    *,
    client: Client | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    seed: int = 0,
    synchronous: bool = False,
    progress: Callable[[PassProgress], None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    groups: Any = None,
    order: RowOrder = "auto",
) -> Selection:
    """Select features from a dataset, or from the dataset at a path or URL; see `daskfs.job.anything.select`.

    Here `groups` are a name or number for every row, and the dataset must have a layout that the algorithm reads.
    """
    if isinstance(dataset, str | os.PathLike):
        dataset = open_dataset(dataset, storage_options)
    elif not isinstance(dataset, Dataset):
        raise OptionError(f"select reads datasets, not a {type(dataset).__name__}: write it with daskfs.write_dataset")
    check_whole("seed", seed, 0)
    if isinstance(algorithm, type) or not isinstance(algorithm, Algorithm) or not is_dataclass(algorithm):
        raise OptionError(f"{algorithm!r:.80} is no algorithm: pass one such as daskfs.OnlineSubstitution(100)")
    if resume and checkpoint is None:
        raise OptionError("resume: there is nothing to go on from without a checkpoint; say where it is")
    client = (client or current_client()) if dataset.travels else None
    options = storage_options or dataset.location.options
    with mixed_rows(dataset, algorithm, "as-is" if groups is not None else order, client) as rows:
        [selection] = _select(
            rows, dataset, algorithm, client, checkpoint, resume, seed, synchronous, progress, options, groups
        )
    return selection


def select_from_halves(
    dataset: Dataset,
    algorithm: Algorithm,
    seeds: Sequence[int],
    *,
    client: Client | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    synchronous: bool = False,
    progress: Callable[[PassProgress], None] | None = None,
    order: RowOrder = "auto",
) -> list[Selection]:
    """Select features from halves of the rows, all in the passes of one selection, or resume from a checkpoint.

    Each two consecutive seeds give two halves: no row is in both, and every row is in one of them. If the algorithm
    names a column of groups, all rows of a group are in the same half.
    """
    client = (client or current_client()) if dataset.travels else None
    halves = FromHalves(algorithm, tuple(seeds), row_groups_of(dataset, algorithm))
    options = dataset.location.options
    with mixed_rows(dataset, algorithm, order, client) as rows:
        return _select(rows, dataset, halves, client, checkpoint, True, seeds[0], synchronous, progress, options, None)


def halves_at_once(
    dataset: Dataset, algorithm: Algorithm, seeds: Sequence[int], client: Client | None, synchronous: bool
) -> list[Sequence[int]]:
    """Return the seeds of halves in groups, as few as possible, each of which fits in memory."""
    n_pairs, groups = len(seeds) // 2, row_groups_of(dataset, algorithm)
    while n_pairs > 1:
        halves = FromHalves(algorithm, tuple(seeds[: 2 * n_pairs]), groups).resolve(dataset.meta)
        try:
            check_memory(dataset, halves, client, n_shards_for(dataset, halves, client, synchronous))
            break
        except OptionError:
            n_pairs = -(-n_pairs // 2)
    return [seeds[start : start + 2 * n_pairs] for start in range(0, len(seeds), 2 * n_pairs)]


def _select(
    dataset: Dataset,
    source: Dataset,
    algorithm: Algorithm,
    client: Client | None,
    checkpoint: str | os.PathLike[str] | None,
    resume: bool,
    seed: int,
    synchronous: bool,
    progress: Callable[[PassProgress], None] | None,
    options: Mapping[str, Any],
    groups: Any,
) -> list[Selection]:
    """Select features from a dataset, which holds the rows of the dataset `source` in an order that can be learned.

    There are several selections if the algorithm is one of `FromHalves`.
    """
    send = client_sender(client) if client is not None and events_enabled() else None
    meta = dataset.meta
    if groups is not None:
        numbers = _group_numbers(groups, dataset.n_samples, algorithm, checkpoint is not None)
        meta = replace(meta, row_groups=lambda: numbers)
    try:
        if client is not None:
            compiled = algorithm.algorithm if isinstance(algorithm, FromHalves) else algorithm
            prepare_workers(client, [dataset.location.options], [compiled])
        params, algorithm = algorithm, algorithm.resolve(meta)
        check_targets(algorithm, dataset)
        schedule = schedule_for(algorithm, client, synchronous)
        # Each of several shards of MISSION would permute the targets of groups that no column names in its own way.
        n_shards = 1 if groups is not None else n_shards_for(dataset, algorithm, client, synchronous)
        plan, checked = check_memory(dataset, algorithm, client, n_shards)
    except OptionError as refusal:
        if send is not None:
            send(refused_event(refusal))
        raise
    order = None if dataset is source else order_of_shuffle(source.n_samples)
    with _name_in_errors(source):
        algorithm.start(meta, seed)  # refuses what does not fit together, before there is a checkpoint
    with (
        checkpoint_at(checkpoint, options, dataset, params, seed) as saved,
        _name_in_errors(source, order),
        one_blas_thread(),
    ):
        snapshot = Snapshot(algorithm.start(replace(meta, n_shards=n_shards), seed), n_shards, schedule)
        if resume and saved is not None and (last := _last(saved, snapshot.state)) is not None:
            snapshot = last
        elif saved is not None:  # so that a place or state that cannot be written shows now, not after half a minute
            saved.write(snapshot)
        run = SelectionRun(dataset, algorithm, snapshot, saved, warn_of_lost_workers(client, progress), send)
        run.listener.begun(snapshot, 0 if client is None else len(call(client, client.nthreads)))
        try:
            with guard_memory(client, plan, checked), closing(_runner(client, run)) as runner:
                snapshot = run.finish(runner)
            selections = _selections(algorithm, snapshot, source, params, seed)
        except BaseException as error:
            run.listener.failed(error)
            raise
        run.listener.finished(selections[0].names, selections[0].weights)
    return selections


def _last(saved: Checkpoint, state: State) -> Snapshot | None:
    """Return the last snapshot in a checkpoint, whose state is of the type of `state`, or None if there is none."""
    if not isinstance(state, StatesOfHalves):
        return saved.read(type(state))
    last = saved.read(kind_to_restore(state))
    if last is not None:
        last.state = StatesOfHalves(last.state.members, last.state.is_done, last.state.to_revisit)
    return last


def _selections(
    algorithm: Algorithm, snapshot: Snapshot, source: Dataset, params: Algorithm, seed: int
) -> list[Selection]:
    """Return the selection of a finished run, or those of all halves of the rows."""
    if not isinstance(algorithm, FromHalves):
        result = _with_costs(algorithm.result(snapshot.state), snapshot.costs)
        return [as_selection(result, source, params, seed)]
    results = zip(algorithm.results(snapshot.state), algorithm.seeds, strict=True)
    return [as_selection(result, source, algorithm.algorithm, of_half) for result, of_half in results]


def _group_numbers(groups: Any, n_samples: int, algorithm: Algorithm, has_checkpoint: bool) -> NDArray[np.int64]:
    """Return the number of the group of every row, given a name or number for every row."""
    labels = np.asarray(groups)
    if algorithm.error_control is None:
        raise OptionError("groups: needs error control (error_control)")
    if labels.shape != (n_samples,):
        raise OptionError(f"groups: has shape {labels.shape}; give one for each of the {n_samples:,} rows")
    if has_checkpoint:  # it would have to tell these groups from others
        raise OptionError("groups: with a checkpoint, make them a column of the data and pass its name")
    missing = [label is None or label != label for label in labels.tolist()]
    if any(missing):
        raise OptionError(f"groups: row {missing.index(True)} has none; leave it out, or make it a group of its own")
    return np.unique(labels.astype(str) if labels.dtype.kind == "O" else labels, return_inverse=True)[1].astype(
        np.int64
    )


def as_selection(result: Result, dataset: Dataset, params: Algorithm, seed: int) -> Selection:
    """Return a `Selection` from a result, with feature names and the source; issue the result's remarks as warnings."""
    source = {name: getattr(dataset, name) for name in ("url", "digest", "n_samples", "n_features")}
    for remark in (*result.remarks, *_remarks(params, result, dataset)):
        warnings.warn(f"{public_url(dataset.url)}: {remark}", stacklevel=4)
    products = None if result.parents is None else named_products(dataset.names, result.parents)
    inputs = None
    if result.expansion is not None:
        columns = np.arange(len(result.expansion.offset), dtype=np.uint64)
        inputs = Inputs(dataset.names(columns), result.expansion)
        names = inputs.feature_names(result.features)
    else:
        names = feature_names(dataset.names, result.features, products)
    fills = Fills.from_record(dataset.attributes.get("missing"))
    columns_of_table = dataset.attributes.get("columns") or ()
    formats = {row["column"]: row["format"] for row in columns_of_table if "format" in row}
    selection = Selection.from_result(
        result, names, describe_algorithm(params), source, seed, products, inputs, fills, dataset.target_names, formats
    )
    if selection.classes is None or not params.balanced or not len(result.features):
        return selection  # a constant model has the same score for all rows
    scores = constant_scores(selection.loss or "logistic", class_shares(dataset), one_score=selection.weights.ndim == 1)
    return replace(selection, threshold=scores)


def check_targets(algorithm: Algorithm, dataset: Dataset, others: str = "") -> None:
    """Raise OptionError if the rows have several targets and the algorithm takes only one.

    The message recommends the `others`, class names of algorithms that take several targets.
    """
    names = dataset.target_names
    if names is not None and not algorithm.several_targets:
        some = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise OptionError(
            f"{algorithm.name} takes one target, {public_url(dataset.url)} has {len(names)} ({some}): "
            f"{f'use {others}, or ' if others else ''}write the data with one of them"
        )


def memory_plan(dataset: Dataset, algorithm: Algorithm) -> MemoryPlan:
    """Return the memory that a selection in this process needs, computed before any block is read."""
    n_shards = n_shards_for(dataset, algorithm, None, synchronous=False)
    return MemoryPlan.of(algorithm, dataset.meta, n_shards, dataset.ahead)


def schedule_for(algorithm: Algorithm, client: Client | None, synchronous: bool) -> Schedule:
    """Return how the workers of a cluster share a pass, which is never asynchronous if `synchronous` is True."""
    if client is None or expected_workers(client) == 1:
        return Schedule.SERIAL
    schedule = algorithm.sharing.schedule
    return Schedule.SYNCHRONOUS if synchronous and schedule == Schedule.ASYNCHRONOUS else schedule


def n_shards_for(dataset: Dataset, algorithm: Algorithm, client: Client | None, synchronous: bool) -> int:
    """Return the number of shards of a pass: one for every worker under the synchronous schedule, otherwise 1.

    A small dataset gets fewer shards than workers, since merging the states would take longer than the blocks. An
    algorithm with fixed shards has the same number of them with and without a cluster.
    """
    algorithm = algorithm.resolve(dataset.meta)
    is_shared = client is not None and schedule_for(algorithm, client, synchronous) == Schedule.SYNCHRONOUS
    if not is_shared and not algorithm.sharing.has_fixed_shards:
        return 1
    sizes, workers = dataset.block_sizes(algorithm.axis), expected_workers(client) if client is not None else 1
    return most_shards(workers, len(sizes), int(sizes.sum()), algorithm.sharing)


def check_memory(
    dataset: Dataset, algorithm: Algorithm, client: Client | None, n_shards: int
) -> tuple[MemoryPlan, frozenset[str]]:
    """Return the memory plan of every process, and the addresses of the workers that were checked against the plan.

    Raise OptionError, with the plan in the message, if a process has less memory than the plan needs.
    """
    available = available_memory()
    if client is None:
        plan = MemoryPlan.of(algorithm, dataset.meta, n_shards, dataset.ahead)
        plan.check(available, "this machine")
        return plan, frozenset()
    MemoryPlan(algorithm.driver_nbytes(dataset.meta), blocks=0).check(available, "this machine")
    plan = MemoryPlan.of(algorithm, dataset.meta, n_shards, dataset.ahead, expected_workers(client))
    workers = workers_of(client)
    for address, worker in sorted(workers.items()):
        plan.check_worker(address, worker["memory_limit"], worker["metrics"]["memory"], worker["nthreads"])
    return plan, frozenset(workers)


def _runner(client: Client | None, run: SelectionRun) -> PassRunner:
    """Return the runner that carries out the passes, with the schedule and the number of shards of the snapshot."""
    if client is None:
        return SerialRunner(run)
    from daskfs.engine.asynchronous.driver import AsynchronousRunner  # here, since they import Dask
    from daskfs.engine.synchronous import SynchronousRunner

    is_asynchronous = run.snapshot.schedule == Schedule.ASYNCHRONOUS and expected_workers(client) > 1
    if is_asynchronous and isinstance(run.algorithm, AsynchronousAlgorithm):
        return AsynchronousRunner(client, run)
    return SynchronousRunner(client, run)


def _with_costs(result: Result, costs: list[PassCost]) -> Result:
    """Return the result with the seconds and bytes of every pass, and of reading columns again, in its history."""
    records = [{**cost.times(), "bytes": float(cost.bytes)} for cost in costs]
    records += [{}] * (len(result.history) - len(records))  # history may have records of something else than passes
    return replace(result, history=[old | new for old, new in zip(result.history, records, strict=False)])


def _remarks(params: Algorithm, result: Result, dataset: Dataset) -> Iterator[str]:
    """Yield remarks on fewer features than requested, features without weight, and whole numbers taken as numbers."""
    count, wanted = len(result.features) - result.n_kept, params.n_select or 0
    why = "the data have no more"
    if result.expansion is not None:  # there is no end of random features, but some rows are held back for the choice
        is_most = wanted > 0.8 * dataset.n_samples
        why = "so few rows carry no more" if is_most else "with more rounds there will be more"
    if count < wanted and (result.error_control is None or count == result.error_control.n_searched):
        yield f"{count:,} features of the {wanted:,} asked for: {why}"
    if len(result.features) and not result.weights.any() and params.fits_model:
        yield "no feature has a weight, so that any others would do as well: columns or target may be constant"
    if result.classes is None and params.balanced:
        yield "balanced has no effect: the target is a number"
    yield from _odd_classes([label for label in dataset.classes or () if isinstance(label, str)])
    n_values = len(dataset.classes or ())
    is_guess = result.classes is None and params.loss == "auto"
    if is_guess and 0 < 10 * n_values <= dataset.n_samples:
        yield f"the target has {n_values} whole numbers and is taken as a number; give the loss if they are classes"


def _odd_classes(classes: Sequence[str]) -> Iterator[str]:
    """Yield remarks on classes that look like gaps, and on classes that differ in blanks or case alone."""
    alike: dict[str, list[str]] = {}
    for label in classes:
        alike.setdefault(label.strip().casefold(), []).append(label)
    for text, labels in alike.items():
        if text in _GAPS:
            yield f"the class {labels[0]!r} looks like a gap: leave its rows out, if it is one"
        if len(labels) > 1:
            yield f"the classes {labels[0]!r:.40} and {labels[1]!r:.40} differ in blanks or case alone: make them one"


@contextmanager
def _name_in_errors(dataset: Dataset, order: NDArray[np.intp] | None = None) -> Iterator[None]:
    """Convert an algorithm's error about a column or row number into an error with the column or row name.

    The `order` has the number of every row in the dataset if the algorithm has read the rows in another order.
    """
    try:
        yield
    except (ColumnError, RowError) as error:
        name = dataset.names(np.array([error.feature], np.uint64))[0]
        where = f"column {name!r} (number {error.feature})"
        if isinstance(error, RowError):
            row = error.row if order is None else int(order[error.row])
            where = f"row {row}: feature {name!r}"
        raise DatasetError(f"{dataset.url}: {where}: {error.reason}") from error
