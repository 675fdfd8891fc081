"""Clusters whose workers are no sooner there, or no more welcome, than those of a queue or of other hosts."""

from __future__ import annotations

import asyncio
from typing import Any

from distributed import Scheduler, SpecCluster, Worker
from distributed.deploy.spec import ProcessInterface

LATE = 1.0  # seconds


class Late(ProcessInterface):
    """Begun at once, there after a while, as workers by SSH."""

    n_workers = 2

    def __init__(self, scheduler: str, name: Any) -> None:
        super().__init__()
        self._scheduler = scheduler

    async def start(self) -> None:
        self._workers = [Worker(self._scheduler, nthreads=1, host="127.0.0.1") for _ in range(self.n_workers)]
        self._coming = [asyncio.ensure_future(self._comes(number)) for number in range(self.n_workers)]
        await super().start()

    async def _comes(self, number: int) -> None:
        await asyncio.sleep(number * LATE)
        await self._workers[number]

    async def close(self) -> None:
        await asyncio.gather(*self._coming)
        await asyncio.gather(*(worker.close() for worker in self._workers))
        await super().close()


class Refused(ProcessInterface):
    """Never begun, as in a queue that does not exist."""

    def __init__(self, scheduler: str, name: Any) -> None:
        super().__init__()

    async def start(self) -> None:
        raise RuntimeError("Command failed.\nstderr:\nno such queue\n")


def _scheduler() -> dict[str, Any]:
    return {"cls": Scheduler, "options": {"dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}}


class LateCluster(SpecCluster):
    """Two workers, of which one is late."""

    def __init__(self) -> None:
        super().__init__(workers={0: {"cls": Late, "options": {}}}, scheduler=_scheduler(), silence_logs="error")


class RefusingCluster(SpecCluster):
    """As many workers as one likes, of which none comes."""

    def __init__(self) -> None:
        super().__init__(worker={"cls": Refused, "options": {}}, scheduler=_scheduler(), silence_logs="error")
