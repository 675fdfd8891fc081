"""Harm to what workers send to the centre of a run: offers that come late and out of turn, and lost answers."""

from __future__ import annotations

import random
import threading
from typing import Any

from distributed import Client, Worker

from daskfs.engine.asynchronous import worker

SHARE = 0.3  # of all offers
DELAY = 0.2  # seconds at most: several blocks


def harm_offers(client: Client, how: str, seed: int) -> None:
    """Let the workers of a cluster do harm to their offers until `heal_offers`: "late" or "unanswered"."""
    client.run(_harm, how, seed)


def heal_offers(client: Client) -> int:
    """Return how many offers came to harm since `harm_offers`, which come to no harm from now on."""
    return sum(client.run(_heal).values())


class _HarmedCalls(worker.ActorCalls):
    """Calls of the centre, some of which come late, or fail after the centre has done what they ask for."""

    how, harmed, rng = "", 0, random.Random()

    def later(self, method: str, *arguments: Any) -> Any:
        if method not in ("offer", "end_group") or self.rng.random() > SHARE:
            return super().later(method, *arguments)
        if self.how == "unanswered":
            if _HarmedCalls.harmed > 2:  # each costs the run a centre, of which it opens ten at most
                return super().later(method, *arguments)
            _HarmedCalls.harmed += 1
            self.answer(super().later(method, *arguments))
            raise worker.CentreLost("the answer was lost")
        _HarmedCalls.harmed += 1
        threading.Timer(self.rng.uniform(0, DELAY), self._send, (method, *arguments)).start()
        return _NoNews()

    def _send(self, method: str, *arguments: Any) -> None:
        super().later(method, *arguments)


class _NoNews:
    """The answer that there is no newer view."""

    def done(self) -> bool:
        return True

    def result(self, timeout: float) -> None:
        del timeout

    def __await__(self) -> Any:
        yield from ()


def _harm(how: str, seed: int, dask_worker: Worker) -> None:
    _HarmedCalls.how, _HarmedCalls.harmed = how, 0
    _HarmedCalls.rng = random.Random(f"{seed} {dask_worker.name}")
    worker.ActorCalls = _HarmedCalls  # type: ignore[misc]


def _heal() -> int:
    worker.ActorCalls = _HarmedCalls.__base__  # type: ignore[misc]
    return _HarmedCalls.harmed
