"""select: the one verb. It decides who reads what, hands the passes to them, and gives the result its names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
import psutil
from distributed import Client
from distributed.system import MEMORY_LIMIT

from daskfs.engine.asynchronous.driver import AsynchronousRunner
from daskfs.engine.checkpoint import Checkpoint, Cost, Snapshot, checkpoint_at, describe_algorithm
from daskfs.engine.cluster.pool import current_client, prepare_workers
from daskfs.engine.cluster.worker_pool import attended, expected_workers, taking_part
from daskfs.engine.events.listener import RunListener
from daskfs.engine.events.messages import Event, refused_event
from daskfs.engine.events.send import are_wanted, from_client
from daskfs.engine.memory import MemoryPlan, room_on
from daskfs.engine.passes import PassProgress, Runner, SelectionRun, SerialRunner
from daskfs.engine.shards import one_blas_thread
from daskfs.engine.synchronous import SynchronousRunner
from daskfs.errors import ColumnError, DatasetError, OptionError, RowError, check_whole, public_url
from daskfs.protocol import Algorithm, AsynchronousAlgorithm, Expansion, Result, Schedule
from daskfs.selection.inputs import Inputs
from daskfs.selection.products import Products, feature_names, named_products
from daskfs.selection.selection import Selection
from daskfs.store.dataset.dataset import Dataset, open_dataset

IN_ANY_ORDER = 0
"""Lanes of a run whose workers do not wait for each other."""


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
) -> Selection:
    """Choose features from a dataset of any size.

    Parameters
    ----------
    dataset
        A dataset, or the path or URL of one.
    algorithm
        What chooses them, such as ``daskfs.OnlineSubstitution(100)``.
    client
        The Dask cluster to use; by default the current one, if there is one, else this process. One worker gives
        the very result of this process, several share every pass.
    checkpoint
        A folder or URL where the run keeps its state, written every half minute and after every pass.
    resume
        Go on from the checkpoint, if there is one, to the result an uninterrupted run would have given. Without it
        a checkpoint that is there is replaced.
    seed
        What random choices begin with.
    synchronous
        Let workers wait for each other also where the algorithm could do without, so that the result can be repeated.
    progress
        Called with a `PassProgress` after every block, or every round of blocks.
    storage_options
        How the stores of dataset and checkpoint are reached; see `open_dataset`.

    Returns
    -------
    Selection
        The features, with names, weights and history.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 20))
    >>> daskfs.write_dataset("twenty.zarr", X, X[:, 3] - X[:, 7])
    >>> sorted(daskfs.select("twenty.zarr", daskfs.OnlineSubstitution(2)).names)
    ['x3', 'x7']
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
    with _refusals_told(client):
        if client is not None:
            prepare_workers(client, [dataset.location.options], [algorithm])
        params, algorithm = algorithm, algorithm.resolve(dataset.meta)
        lanes = n_shards_for(dataset, algorithm, client, synchronous)
        plan, checked = check_memory(dataset, algorithm, client, lanes)
    options = storage_options or dataset.location.options
    with _naming(dataset):
        algorithm.start(dataset.meta, seed)  # raises what is wrong with the two, before there is a checkpoint
    with (
        checkpoint_at(checkpoint, options, dataset, params, seed) as kept,
        _naming(dataset),
        one_blas_thread(),
    ):
        now = _begun(dataset, algorithm, lanes, seed, kept, resume)
        watch = RunListener(dataset, algorithm, _listener(client))
        run = SelectionRun(dataset, algorithm, now, kept, attended(client, progress), watch)
        with _told(watch, now, client):
            with taking_part(client, plan, checked), _runner(dataset, algorithm, client, now.lanes) as runner:
                done = run.finish(runner)
            result = _with_costs(algorithm.result(done.state), done.costs)
            selection = as_selection(result, dataset, params, seed)
            watch.finished(selection.names, result.weights)
    return selection


def as_selection(result: Result, dataset: Dataset, algorithm: Algorithm, seed: int) -> Selection:
    """A result with the names of its features and where it comes from; what should be known of it is said aloud."""
    source = {
        "url": dataset.url,
        "digest": dataset.digest,
        "n_samples": dataset.n_samples,
        "n_features": dataset.n_features,
    }
    for remark in (*result.remarks, *_if_few(algorithm, result, dataset.n_samples)):
        warnings.warn(f"{public_url(dataset.url)}: {remark}", stacklevel=3)
    names, products = _named(dataset, result)
    inputs = None if result.expansion is None else _inputs(dataset, result.expansion)
    return Selection.from_result(result, names, describe_algorithm(algorithm), source, seed, products, inputs)


def memory_plan(dataset: Dataset, algorithm: Algorithm) -> MemoryPlan:
    """What a selection in this process will take, before anything is read."""
    return MemoryPlan.of(algorithm.resolve(dataset.meta), dataset.meta, ahead=dataset.ahead)


def n_shards_for(dataset: Dataset, algorithm: Algorithm, client: Client | None, synchronous: bool) -> int:
    """How many lanes share a pass: as many as there are workers, if the algorithm can use them.

    Little data is sooner done by one than by several who meet again and again.
    """
    algorithm = algorithm.resolve(dataset.meta)
    sharing, workers = algorithm.sharing, 1 if client is None else expected_workers(client)
    if workers == 1 or sharing.schedule == Schedule.SERIAL:
        return 1
    if sharing.schedule == Schedule.ASYNCHRONOUS and not synchronous:
        return IN_ANY_ORDER
    sizes = dataset.block_sizes(algorithm.axis)
    least = sharing.min_merges_per_pass * sharing.min_bytes_per_merge
    return max(1, min(workers, len(sizes), int(sizes.sum()) // least if least else workers))


def check_memory(
    dataset: Dataset, algorithm: Algorithm, client: Client | None, lanes: int
) -> tuple[MemoryPlan, frozenset[str]]:
    """What every process that takes part needs, and which workers were seen to have it.

    OptionError, with that plan, if some process has less memory.
    """
    available = min(psutil.virtual_memory().available, MEMORY_LIMIT)
    if client is None:
        plan = memory_plan(dataset, algorithm)
        plan.check(available, "this machine")
        return plan, frozenset()
    MemoryPlan(algorithm.driver_nbytes(dataset.meta), blocks=0).check(available, "this machine")
    plan = MemoryPlan.of(algorithm, dataset.meta, lanes, dataset.ahead)
    workers = client.scheduler_info(n_workers=-1)["workers"]
    for address, worker in sorted(workers.items()):
        room = room_on(worker["memory_limit"], worker["metrics"]["memory"], worker["nthreads"])
        plan.check_worker(address, room)
    return plan, frozenset(workers)


def _begun(
    dataset: Dataset, algorithm: Algorithm, lanes: int, seed: int, checkpoint: Checkpoint | None, resume: bool
) -> Snapshot:
    """Where the run begins: at its checkpoint, or at the start, which is then kept at once."""
    start = algorithm.start(replace(dataset.meta, n_shards=max(lanes, 1)), seed)
    if resume and checkpoint is not None and (found := checkpoint.read(type(start))) is not None:
        return found
    now = Snapshot(start, lanes)
    if checkpoint is None:
        return now
    checkpoint.write(now)  # a place that cannot be written to shows now, not after half a minute of work
    return now


@contextmanager
def _runner(dataset: Dataset, algorithm: Algorithm, client: Client | None, lanes: int) -> Iterator[Runner]:
    if client is None:
        yield SerialRunner(dataset, algorithm, max(lanes, 1))
    elif lanes == IN_ANY_ORDER and expected_workers(client) > 1 and isinstance(algorithm, AsynchronousAlgorithm):
        with closing(AsynchronousRunner(client, dataset, algorithm)) as around:
            yield around
    else:
        yield SynchronousRunner(client, dataset, algorithm, max(lanes, 1))


def _listener(client: Client | None) -> Callable[[Event], None] | None:
    """Who is told how a run goes, if anybody is."""
    return from_client(client) if client is not None and are_wanted() else None


@contextmanager
def _refusals_told(client: Client | None) -> Iterator[None]:
    """Tell those who watch why a run does not even begin on a cluster."""
    try:
        yield
    except OptionError as refusal:
        if (tell := _listener(client)) is not None:
            tell(refused_event(refusal))
        raise


@contextmanager
def _told(watch: RunListener, now: Snapshot, client: Client | None) -> Iterator[None]:
    """Tell those who watch that a run begins, and why it ends if that is not what was meant."""
    watch.begun(now, 0 if client is None else len(client.nthreads()))
    try:
        yield
    except BaseException as error:
        watch.failed(error)
        raise


def _with_costs(result: Result, costs: list[Cost]) -> Result:
    """A result whose history says what each pass took; one record more is that of the columns seen once more."""
    took = [{**cost.times(), "bytes": float(cost.bytes)} for cost in costs]
    took += [{}] * (len(result.history) - len(took))  # records of something else than passes
    return replace(result, history=[record | of for record, of in zip(result.history, took, strict=False)])


def _if_few(algorithm: Algorithm, result: Result, n_samples: int) -> list[str]:
    """A remark where fewer features were found than asked for."""
    count, asked = len(result.features), algorithm.n_select or 0
    why = "the data have no more"
    if result.expansion is not None:  # of these there is no end, but some rows are held back for the choice
        why = "so few rows carry no more" if asked > 0.8 * n_samples else "with more rounds there will be more"
    return [f"{count:,} features of the {asked:,} asked for: {why}"] if count < asked else []


def _inputs(dataset: Dataset, expansion: Expansion) -> Inputs:
    """The columns that random features are made of, by name."""
    return Inputs(dataset.names(np.arange(len(expansion.offset), dtype=np.uint64)), expansion)


def _named(dataset: Dataset, result: Result) -> tuple[list[str], Products | None]:
    """The names of a result's features, and what those are made of that are products of two."""
    called = "" if result.expansion is None else result.expansion.kernel
    made = None if result.parents is None else named_products(dataset.names, result.parents)
    return feature_names(dataset.names, result.features, made, called), made


@contextmanager
def _naming(dataset: Dataset) -> Iterator[None]:
    """Turn what an algorithm says of a column or a row into an error that a person can act on."""
    try:
        yield
    except ColumnError as error:
        name = dataset.names(np.array([error.feature], np.uint64))[0]
        raise DatasetError(f"{dataset.url}: column {name!r} (number {error.feature}): {error.reason}") from error
    except RowError as error:
        name = dataset.names(np.array([error.feature], np.uint64))[0]
        raise DatasetError(f"{dataset.url}: row {error.row}: feature {name!r}: {error.reason}") from error
