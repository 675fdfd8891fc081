"""Waiting for a Dask cluster without waiting for ever: every wait of daskfs is one of the functions of this module.

The scheduler tells a client through one stream which tasks have ended. If the stream is closed, half-open or stopped,
Dask's own functions wait for ever. Here a `Vigil` looks around every few seconds, its `Watchdog` decides, and a stream
that brings nothing is connected anew. Dask then cancels all futures of the client, so that the waits raise
CancelledError; whoever has submitted the tasks submits them again. If that does not help, if the scheduler does not
answer, or if there are no workers, the waits raise `Interrupted`. A worker that the scheduler does not hear from for so
long is frozen or cut off: it is dropped, and others do its part.

The key ``daskfs.patience`` in Dask's configuration is the time, by default 40 s, without an answer of the scheduler.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from itertools import count
from queue import Empty, SimpleQueue
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from daskfs.engine.cluster.watchdog import Answer, Patience, Verdict, Watchdog
from daskfs.errors import Interrupted

if TYPE_CHECKING:
    from distributed import Client, Future

Value = TypeVar("Value")
PATIENCE = "daskfs.patience"
"""The key in Dask's configuration of the time without an answer until a run gives up."""
NO_WORKERS = 60.0  # seconds without a single worker until a run gives up; a restart takes some
GONE = "the Dask scheduler or its workers are gone; when they are back, run the same again to go on"
_SILENT = "the Dask scheduler does not answer; when it does, run the same again to go on"
_DEAF = "the Dask scheduler answers, but its news do not arrive; run the same again to go on"
_NO_VALUE = "the cluster answers, but not with what it was asked for; run the same again to go on"
WORKERLESS = "the cluster has no workers any more; start some, and run the same again"
ATTEMPTS = 10  # at tasks that are lost
_PAUSE = 1.0  # seconds before another attempt, for the scheduler to notice which workers are gone
_ECHO = "daskfs-echo"  # the Dask topic of echoes
_RECONNECTS = 2  # in a row, without a single task that ends
_MISSED = 10  # heartbeats until a worker is watched
_RESTART = 10  # seconds for a nanny to kill a frozen worker, which is removed after that
_ENDED = ("memory", "erred")  # states of tasks in the scheduler
_PENDING = ("pending", "lost")  # states of futures; what is lost is computed again
_HOPELESS = {Verdict.SILENT: _SILENT, Verdict.NO_WORKERS: WORKERLESS, Verdict.NO_VALUE: _NO_VALUE}
_Running = concurrent.futures.Future[tuple[Any, Exception | None]]
_lock = threading.Lock()
logger = logging.getLogger("daskfs")


def patience() -> Patience:
    """Return the time limits of the waits of this process."""
    import dask  # here, since a run without a cluster does without Dask

    return Patience(dask.utils.parse_timedelta(dask.config.get(PATIENCE, 40)), NO_WORKERS)


def call(
    client: Client,
    function: Callable[..., Any],
    *arguments: Any,
    waits_for: Collection[Future[Any]] = (),
    within: float | None = None,
) -> Any:
    """Call a method of a client or future, and return its value; the wait for the value is watched.

    The method is called on the event loop of the client, where Dask's methods return awaitable objects. If the method
    waits for futures, pass them as `waits_for`. After these have ended, the value must arrive `within` a number of
    seconds, by default ten minutes (`Patience.value`), or Interrupted is raised. A call whose connection is lost is
    made once more if the scheduler answers; otherwise Interrupted is raised.
    """
    try:
        return _call(client, function, arguments, waits_for, within)
    except TimeoutError:  # of the method itself; Dask has another OSError for a connection
        raise
    except OSError:
        if waits_for:  # the error of a task, or one after which the caller submits its tasks again
            raise
    await_scheduler(client)  # if it answers, the connection was cut, or a worker has left
    return _call(client, function, arguments, waits_for, within)


def _call(
    client: Client,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    waits_for: Collection[Future[Any]],
    within: float | None,
) -> Any:
    vigil, running = Vigil(client, within), _start(client, function, *arguments)
    try:
        while not _has_ended(running, vigil.every):
            vigil.look(waits_for)
    finally:
        running.cancel()
    try:
        value = _value(running)
    except KeyError as error:
        if error.args == (client.id,):  # the scheduler has removed the client, which will connect anew
            raise CancelledError from error
        raise
    if waits_for:
        vigil.succeed()
    return value


def call_briefly(client: Client, function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
    """Call a method as `call` does, for a value that is not essential. Raise TimeoutError after a few seconds.

    After a wait has ended because the scheduler is silent, the calls that clean up do not wait for it once more.
    """
    if _Connection.of(client).is_silent:
        raise TimeoutError
    return _call_briefly(client, function, *arguments, seconds=seconds)


def _call_briefly(client: Client, function: Callable[..., Any], *arguments: Any, seconds: float | None = None) -> Any:
    running = _start(client, function, *arguments)
    try:
        if not _has_ended(running, patience().answer if seconds is None else seconds):
            raise TimeoutError
    finally:
        running.cancel()
    return _value(running)


def await_result(client: Client, future: Future[Any]) -> Any:
    """Return the result of a task, or raise its exception."""
    return call(client, future.result, waits_for=[future])


def wait_for(client: Client, futures: Sequence[Future[Any]]) -> None:
    """Wait for tasks without fetching their results. Raise the exception of a task that failed."""
    for future in futures:
        while future.status in _PENDING:
            call(client, future.exception, waits_for=futures)
        if future.status != "finished":
            await_result(client, future)


def as_they_end(client: Client, futures: Iterable[Future[Any]]) -> Iterator[Future[Any]]:
    """Yield futures as they end."""
    ended, left, vigil = SimpleQueue[Any](), set(futures), Vigil(client)
    for future in left:
        future.add_done_callback(ended.put)
    while left:
        try:
            future = ended.get(timeout=vigil.every)
        except Empty:
            vigil.look(left)
        else:
            vigil.succeed()
            left.discard(future)
            yield future


def with_retries(client: Client, attempt: Callable[[], Value]) -> Value:
    """Return the value of `attempt`, which is called again if tasks are lost together with what they need."""
    for _ in range(ATTEMPTS):
        try:
            return attempt()
        except CancelledError as error:
            lost = error
        await_connection(client)
        sleep(_PAUSE)
    raise Interrupted(GONE) from lost


def await_connection(client: Client) -> None:
    """Wait until a client that has lost its connection has made another. Raise Interrupted if there is none in time."""
    deadline = monotonic() + patience().silent
    while client.status == "connecting" and monotonic() < deadline:
        if client._handle_report_task is not None and client._handle_report_task.done():  # Dask has given up
            with suppress(Exception):
                call_briefly(client, _reconnect, client)
        sleep(0.05)
    if client.status != "running":
        raise Interrupted(GONE)
    with suppress(Exception):  # they only take memory
        call_briefly(client, client.run_on_scheduler, _release_forgotten, client.id)


def await_scheduler(client: Client) -> None:
    """Wait until the scheduler answers. Raise Interrupted if it does not in time, or if the client has given up.

    A client may count as running for a while after its scheduler has died.
    """
    deadline = monotonic() + patience().silent
    while client.status != "closed" and monotonic() < deadline:
        with suppress(Exception):
            call_briefly(client, client.nthreads)
            return await_connection(client)
        sleep(0.05)
    raise Interrupted(GONE)


def _release_forgotten(client: str, dask_scheduler: Any) -> None:
    """Release the tasks of earlier connections of a client. This function runs in the scheduler.

    If a client is back before the scheduler has cleared away its old connection, Dask 2026.8 forgets what was wanted
    through the old one, and would keep these tasks until the scheduler ends.
    """
    registered = dask_scheduler.clients.get(client)
    wanted = () if registered is None else registered.wants_what
    forgotten: dict[int, tuple[Any, list[Any]]] = {}
    for task in dask_scheduler.tasks.values():
        for state in task.who_wants or ():
            if state.client_key == client and state is not registered and task not in wanted:
                forgotten.setdefault(id(state), (state, []))[1].append(task.key)
    released: dict[Any, Any] = {}
    for state, keys in forgotten.values():
        dask_scheduler._client_releases_keys(keys=keys, cs=state, recommendations=released)
    dask_scheduler.transitions(released, f"daskfs-release-{time()}")


def _start(client: Client, function: Callable[..., Any], *arguments: Any) -> _Running:
    """Begin a call on the event loop of a client."""

    async def run() -> tuple[Any, Exception | None]:
        _forget_cancelled_gather(client)
        try:
            value = function(*arguments)
            return (await value if isawaitable(value) else value), None
        except Exception as error:  # asyncio would turn an error of cancelled futures into one of a cancelled task
            return None, error

    if client.loop is None or client.status == "closed":
        raise Interrupted(GONE)
    loop: Any = client.loop
    return asyncio.run_coroutine_threadsafe(run(), loop.asyncio_loop)


def _forget_cancelled_gather(client: Client) -> None:
    """Repair a client that cannot fetch values any more.

    Dask's client combines fetches that begin together. If a time limit cancels the first of them before it has begun,
    as on a busy machine, Dask 2026.8 lets every later fetch join the cancelled fetch.
    """
    gather: Any = getattr(client, "_gather_future", None)
    if gather is not None and gather.done():
        client._gather_future = None


def _has_ended(running: _Running, seconds: float) -> bool:
    return bool(concurrent.futures.wait([running], seconds).done)


def _value(running: _Running) -> Any:
    value, error = running.result()
    if error is not None:
        raise error
    return value


class Vigil:
    """The watch over one wait, which may be for tasks or for an answer; see `Watchdog`."""

    def __init__(self, client: Client, within: float | None = None) -> None:
        self._client, self._connection, self._patience = client, _Connection.of(client), patience()
        self._within = self._patience.value if within is None else within
        self._connection.is_silent = False  # perhaps it answers again
        self.every = self._patience.every
        """Seconds until the next look."""
        self._begin()

    def _begin(self) -> None:
        self._watchdog, self._generation = Watchdog(self._patience, self._within), self._connection.generation

    def look(self, waits_for: Collection[Future[Any]] = ()) -> None:
        """Ask the scheduler once. Reconnect the client if its stream is dead; raise Interrupted to end the wait."""
        connection = self._connection
        if self._client.status == "closed":  # its event loop, too
            raise Interrupted(GONE)
        if self._generation != connection.generation:  # another thread has connected the client anew
            self._begin()
        heard, pending = connection.heard, [str(future.key) for future in waits_for if future.status in _PENDING]
        answer = None
        with suppress(Exception):
            answer = _call_briefly(self._client, connection.ask, self._client, pending)
        verdict = self._watchdog.look(monotonic(), answer, heard, pending)
        connection.is_silent = verdict == Verdict.SILENT
        if verdict in _HOPELESS:
            raise Interrupted(_HOPELESS[verdict])
        if verdict == Verdict.RECONNECT:
            connection.renew(self._client, self._generation)
        if verdict == Verdict.DROP_WORKERS:
            _drop(self._client, self._watchdog.give_up())

    def succeed(self) -> None:
        """Record that the stream has reported the end of a task."""
        self._connection.in_vain = 0


class _Connection:
    """What daskfs knows of the connection of a client to its scheduler."""

    def __init__(self) -> None:
        self._numbers, self._listens, self._renewing = count(1), False, threading.Lock()
        self.heard = 0  # the number of the newest echo
        self.generation = 0  # how often the client was connected anew
        self.in_vain = 0  # how often since the last task that ended
        self.is_silent = False  # whether a wait has ended because the scheduler did not answer

    @classmethod
    def of(cls, client: Client) -> _Connection:
        with _lock:
            return _connections.setdefault(client, cls())

    async def ask(self, client: Client, keys: Sequence[str]) -> Answer:
        """Return the scheduler's answer about some tasks."""
        if not self._listens:
            client.subscribe_topic(_ECHO, self._hear)
            self._listens = True
        number = next(self._numbers)
        workers, ended, unheard = await client.run_on_scheduler(_answer, client.id, number, keys)
        return Answer(number, workers, frozenset(ended), frozenset(unheard))

    def _hear(self, event: tuple[float, int]) -> None:
        self.heard = max(self.heard, event[1])

    def renew(self, client: Client, number: int) -> None:
        """Connect the client anew, unless another thread has done so since generation `number` of the connection."""
        with self._renewing:
            if self.generation != number:
                return
            if self.in_vain >= _RECONNECTS:
                self.in_vain = 0  # for the next run
                raise Interrupted(_DEAF)
            self.generation, self.in_vain = number + 1, self.in_vain + 1
            logger.warning("note: the scheduler's news have not arrived for a while; connecting anew")
            with suppress(Exception):  # the next looks tell whether it has helped
                call_briefly(client, _reconnect, client)


_connections: WeakKeyDictionary[Client, _Connection] = WeakKeyDictionary()


def _answer(client: str, echo: int, keys: Sequence[str], dask_scheduler: Any) -> tuple[int, list[str], list[str]]:
    """Send an echo; return the number of workers, the tasks that have ended, and the workers that miss heartbeats.

    This function runs in the scheduler.
    """
    from distributed.scheduler import heartbeat_interval

    dask_scheduler.client_send(client, {"op": "event", "topic": _ECHO, "event": (0.0, echo)})
    states = {key: getattr(dask_scheduler.tasks.get(key), "state", None) for key in keys}
    is_behind = bool(getattr(dask_scheduler, "_active_graph_updates", 0))  # tasks may be on their way
    ended = [key for key, state in states.items() if state in _ENDED or (state is None and not is_behind)]
    workers = dask_scheduler.workers
    overdue = time() - _MISSED * heartbeat_interval(len(workers))
    return len(workers), ended, [address for address, worker in workers.items() if worker.last_seen < overdue]


def _drop(client: Client, workers: Sequence[str]) -> None:
    """Give up workers that are frozen or cut off, so that the tasks and calls that wait for them end or fail."""
    for address in workers:
        logger.warning("note: worker %s has not been heard from for a while; others do its part", address)
    with suppress(Exception):  # the next looks tell whether it has helped
        call_briefly(client, client.run_on_scheduler, _restart, list(workers))
    with suppress(Exception):
        call_briefly(client, partial(client.run, _hang_up, list(workers), on_error="ignore"))


async def _restart(workers: list[str], dask_scheduler: Any) -> None:
    """Let nannies kill and restart workers, and remove workers without a nanny, as Dask does after five minutes."""
    name = f"daskfs-silent-{time()}"
    await dask_scheduler.restart_workers(
        workers, timeout=_RESTART, wait_for_workers=False, on_error="return", stimulus_id=name
    )


def _hang_up(others: list[str], dask_worker: Any) -> None:
    """Close connections to other workers; otherwise a worker would go on waiting for data of a frozen one."""
    for address in others:
        dask_worker.rpc.remove(address)


async def _reconnect(client: Client) -> None:
    """Drop the stream of a client, upon which Dask cancels the futures of the client and connects the client anew.

    Dask's own attempt can fail for good: it gives up if the scheduler sends more than a greeting at first.
    """
    stream, listener = client.scheduler_comm, client._handle_report_task
    if stream is not None:
        stream.abort()
    if listener is not None and listener.done():  # Dask has stopped listening, and would not notice
        if stream is not None:
            await client._reconnect()
        else:
            await client._ensure_connected(timeout=patience().answer)
        client._handle_report_task = asyncio.create_task(client._handle_report())
