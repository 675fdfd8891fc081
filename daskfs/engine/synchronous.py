"""The synchronous schedule: rounds of pure Dask tasks, each of which merges the states of the previous round.

All tasks of a pass are submitted at once. A task merges the states of the previous round and folds its own blocks into
the merged state. States travel between workers and reach the driver only for a checkpoint and at the end of a pass. Up
to `FAN_IN` shards repeat the merge in every task; the states of more shards are merged by extra tasks, as a tree. With
one shard the tasks of a pass are a chain, in which any worker continues from the state of the previous task.

    shard 0   fold ─┬─ merge, fold ─┬─ merge, fold ─┬─ merge ─► end of the pass
    shard 1   fold ─┴─ merge, fold ─┴─ merge, fold ─┘

The states on a worker that dies are lost. Dask then repeats the tasks that produced the lost states, from the states
that are left or from the initial state of the pass. Tasks are pure, so the result is the same to the last bit. If even
the initial state of the pass is lost, the pass is submitted again from the newest state on the driver. A task that
raises is not retried, since a pure task would raise again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from distributed import Client, Future, KilledWorker
from numpy.typing import NDArray

from daskfs.engine.checkpoint import Snapshot
from daskfs.engine.cluster.waiting import Value, await_result, call, call_briefly, wait_for, with_retries
from daskfs.engine.cluster.worker_pool import expected_workers, require_worker
from daskfs.engine.events.messages import TOP, Spent
from daskfs.engine.events.send import TaskReports, measure_task
from daskfs.engine.memory import MemoryPlan
from daskfs.engine.passes import PassRunner, SelectionRun
from daskfs.engine.shards import FAN_IN, ShardBlocks, fold_blocks, merge_states, merge_tree, rounds_of
from daskfs.errors import WorkerError
from daskfs.protocol import Algorithm, State, copy_state, put_fields, take_fields
from daskfs.store.dataset.dataset import Dataset


@dataclass(frozen=True, slots=True)
class _TaskContext:
    """The algorithm, the dataset and the names of the selection run, which every task needs."""

    algorithm: Algorithm
    dataset: Dataset
    run: str
    """The name of the selection run in reports of tasks."""
    events: str
    """The name of the selection run in events; "" if events are turned off."""


def fold_task(context: _TaskContext, blocks: range, *states: State) -> State:
    """Fold one shard's blocks of a round into the merged states of the previous round, on a worker."""
    algorithm = context.algorithm
    with measure_task(context.run, context.events) as meter:
        with meter.merging():
            state = merge_states(algorithm, *states)
        return fold_blocks(algorithm, state, context.dataset.blocks(blocks, algorithm.axis), meter)


def merge_task(context: _TaskContext, *states: State) -> State:
    """Merge the states of several shards, on a worker."""
    with measure_task(context.run, context.events) as meter, meter.merging():
        return merge_states(context.algorithm, *states)


def columns_task(context: _TaskContext, ids: NDArray[np.uint64], state: State) -> State:
    """Fold the columns `ids` into a copy of a state, on a worker."""
    with measure_task(context.run, context.events) as meter:
        return fold_blocks(context.algorithm, copy_state(state), context.dataset.columns(ids), meter)


class _Round(NamedTuple):
    """The submitted tasks of a round."""

    stop: int
    """The first block number that is not yet in the states after the round."""
    heads: list[Future[Any]]
    """The states that the next round begins with."""
    tasks: list[str]
    """Keys of all tasks of the round, for their reports."""


class SynchronousRunner(PassRunner):
    """Carries out passes on the workers of a cluster, in a fixed number of shards."""

    def __init__(self, client: Client, run: SelectionRun) -> None:
        super().__init__(run)
        self._client, self._reports, self._n_workers = client, TaskReports(client), expected_workers(client)
        self._context = _TaskContext(run.algorithm, run.dataset, self._reports.run, run.listener.run)
        self._preview: Future[Any] | None = None  # of a state, not yet received

    def close(self) -> None:
        self._reports.close()

    def run_pass(self, state: State, position: int) -> State:
        newest = Snapshot(state, position=position)  # the newest state of the pass that the driver has
        return self._with_retries(lambda: self._attempt_pass(newest))

    def fold_columns(self, state: State, ids: NDArray[np.uint64]) -> tuple[State, Spent]:
        return self._with_retries(lambda: self._attempt_columns(state, ids))

    def _attempt_pass(self, newest: Snapshot) -> State:
        run, sharing = self._run, self._algorithm.sharing
        rounds = rounds_of(self._sizes, self._n_shards, sharing.min_merges_per_pass, newest.position)
        if not rounds:
            return newest.state
        self._reports.clear()
        before, ended = run.cost.spent, list[str]()
        travelling, driver_only = take_fields(newest.state, sharing.driver_only)
        root = self._scatter(travelling)  # held to the end: every other state can be computed again from it
        pending = self._submit_pass(rounds, root)
        heads: list[Future[Any]] = []

        def fetch() -> State:
            """Return the state after the rounds that have ended, merged on a worker, and record what it cost."""
            last = merge_tree(heads, partial(self._submit, ended, "merge", merge_task, self._context))
            try:
                state = self._await_value(last)
            finally:
                if last not in heads:
                    last.release()
            self._note_work(ended, before)
            return put_fields(state, driver_only)

        try:
            while pending:
                _release(heads)  # states of the round before
                position, heads, tasks = pending.popleft()
                wait_for(self._client, heads)
                ended += tasks
                if run.advance(position):
                    newest.state, newest.position = fetch(), position
                    run.save(newest.state)
                self._request_preview(heads[0])
            return fetch()
        finally:
            self._drop_preview()
            _release((root, *heads, *(head for waiting in pending for head in waiting.heads)))

    def _note_work(self, ended: list[str], before: Spent) -> Spent:
        """Record the time and bytes of tasks in the run, added to those `before` the tasks, and return the sum."""
        spent = self._reports.total(ended)
        spent.add(before)
        self._run.note_work(min(self._n_shards, self._n_workers), spent)
        return spent

    def _submit_pass(self, rounds: Sequence[ShardBlocks], root: Future[Any]) -> deque[_Round]:
        """Submit all tasks of a pass, where every shard prefers a worker of its own."""
        pending: deque[_Round] = deque()
        heads, addresses = [root], sorted(call(self._client, self._client.nthreads)) or [None]
        for shards in rounds:
            tasks: list[str] = []
            heads = [
                self._submit(tasks, self._algorithm.verb, fold_task, self._context, blocks, *heads, address=address)
                for blocks, address in zip(shards, cycle(addresses))
            ]
            if len(heads) > FAN_IN:
                heads = [merge_tree(heads, partial(self._submit, tasks, "merge", merge_task, self._context))]
            pending.append(_Round(shards[-1].stop, heads, tasks))
        return pending

    def _attempt_columns(self, state: State, ids: NDArray[np.uint64]) -> tuple[State, Spent]:
        self._reports.clear()
        tasks: list[str] = []
        future = self._submit(tasks, "revisit", columns_task, self._context, ids, self._scatter(state))
        try:
            state = self._await_value(future)
        finally:
            future.release()
        return state, self._note_work(tasks, Spent())

    def _request_preview(self, head: Future[Any]) -> None:
        """Send previews of a shard's state at intervals, computed by small tasks on the worker that holds the state."""
        if self._preview is not None and self._preview.status == "finished":
            with suppress(Exception):
                self._run.listener.preview(call_briefly(self._client, self._preview.result))
        if self._preview is not None and self._preview.status != "pending":
            self._drop_preview()
        if self._preview is None and self._run.listener.is_preview_due():
            self._preview = self._submit([], "preview", self._algorithm.preview, head, TOP)

    def _drop_preview(self) -> None:
        if self._preview is not None:
            self._preview.release()
        self._preview = None

    def _await_value(self, future: Future[Any]) -> Any:
        """Wait for a task and return its result."""
        wait_for(self._client, [future])
        with _unreachable_as_lost():
            return await_result(self._client, future)

    def _scatter(self, state: State) -> Future[Any]:
        """Send a state to a worker, so that the state does not pass through the scheduler again with every task."""
        require_worker(self._client)
        with _unreachable_as_lost():
            # To one worker: Dask's own broadcast waits forever for a worker that is killed meanwhile.
            future: Future[Any] = call(self._client, partial(self._client.scatter, [state], hash=False))[0]
        return future

    def _submit(
        self, tasks: list[str], name: str, function: Callable[..., Any], *arguments: Any, address: str | None = None
    ) -> Future[Any]:
        """Submit a task, preferably to the worker at `address`, and add its key to `tasks`.

        Without an address all shards would run one after the other on the worker that holds the state. Any other worker
        may take the task if the worker at `address` dies.
        """
        tasks.append(key := task_key(name))
        elsewhere = address is not None
        return self._client.submit(
            function, *arguments, key=key, pure=False, workers=address, allow_other_workers=elsewhere
        )

    def _with_retries(self, attempt: Callable[[], Value]) -> Value:
        """Return the value of `attempt`, which is called again if a state is lost together with all its replicas."""
        try:
            return with_retries(self._client, attempt)
        except KilledWorker as killed:
            plan = MemoryPlan.of(
                self._algorithm, self._dataset.meta, self._n_shards, self._dataset.ahead, self._n_workers
            )
            raise WorkerError(
                f"{self._dataset.url}: {killed.allowed_failures + 1} workers died of the same task; "
                f"their logs say why, and if it was memory: each needs {plan}"
            ) from killed


def task_key(name: str) -> str:
    """Return a unique task key that Dask's dashboard shows as ``daskfs-name``.

    >>> from distributed.utils import key_split
    >>> from daskfs.engine.synchronous import task_key
    >>> key_split(task_key("merge"))
    'daskfs-merge'
    """
    return f"daskfs-{name}-0x{os.urandom(8).hex()}"  # a part with a digit in it is no part of the name


@contextmanager
def _unreachable_as_lost() -> Iterator[None]:
    """Raise CancelledError, as for a lost task, in place of the OSError of a worker or scheduler without an answer."""
    try:
        yield
    except OSError as error:
        raise CancelledError from error


def _release(futures: Iterable[Future[Any]]) -> None:
    """Tell the scheduler that the results of some futures are no longer needed.

    The release is explicit, since the traceback of an error would keep the futures alive. `Client.cancel` would also
    cancel dependent tasks that this client has released, at which the scheduler of Dask 2026.8 closes the connection.
    """
    for future in futures:
        future.release()
