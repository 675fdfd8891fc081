"""Runs around a centre: data with features to be found, and a look at the process that holds the centre."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client, get_worker

import daskfs
from daskfs.algorithms.substitution.asynchronous import AsynchronousMethod
from daskfs.algorithms.substitution.block import BlockMethod
from daskfs.protocol import Algorithm, Block, Meta, State
from daskfs.selection.selection import Selection

TRUE = frozenset({3, 71, 140, 199, 260, 333, 404, 478})
K = len(TRUE)
BLOCKS = 24
MOST_LANES = 3  # of the clusters in these tests


def planted(folder: Path, bad_columns: Sequence[int] = ()) -> daskfs.Dataset:
    """480 columns in blocks of 20, of which eight explain the target; some may hold NaN, as of another writer."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 480)).astype(np.float32)
    y = X[:, sorted(TRUE)] @ rng.choice([-1.0, 1.0], K) + 0.1 * rng.normal(size=200)
    X[7, bad_columns] = np.nan
    names = [f"gene{number}" for number in range(480)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("daskfs.store.ingest.arrays.first_not_finite", lambda values: -1)
        daskfs.write_dataset(folder, X, y, names, chunk_bytes=200 * 20 * 4)
    dataset = daskfs.open_dataset(folder)
    assert dataset.n_blocks("columns") == BLOCKS
    return dataset


def found(selection: Selection) -> int:
    """How many of the features to be found were."""
    assert len(set(selection.features.tolist())) == len(selection.features)
    return len(TRUE & set(selection.features.tolist()))


@dataclass(frozen=True)
class Paced(daskfs.OnlineSubstitution):
    """Sleeps over every block, so that a test can strike in the middle; longer on one of the workers."""

    seconds: float = 0.0
    slow_worker: int | None = None
    slower_by: float = 1.0

    def resolve(self, meta: Meta) -> Algorithm:
        method = super().resolve(meta)
        paced = {BlockMethod: PacedBlock, AsynchronousMethod: PacedAsynchronous}[type(method)]
        return paced(method.params, method.asked)

    def sleep(self) -> None:
        is_slow = self.slow_worker is not None and get_worker().name == self.slow_worker
        time.sleep(self.seconds * (self.slower_by if is_slow else 1.0))


class PacedBlock(BlockMethod):
    def work(self, own: State | None, view: State, block: Block, worker: int) -> tuple[State, State | None]:
        self.params.sleep()
        return super().work(own, view, block, worker)


class PacedAsynchronous(AsynchronousMethod):
    def work(self, own: State | None, view: State, block: Block, worker: int) -> tuple[State, State | None]:
        self.params.sleep()
        return super().work(own, view, block, worker)


def paced(method: str, seconds: float = 0.0, **fields: Any) -> Paced:
    """A method as it comes, "block" or "async", or the paper's form of the latter, "faithful".

    That has room for all features in every lane, as budgets are fixed, so that it does not matter who meets which.
    """
    if method == "faithful":
        fields = {"n_select": MOST_LANES * K, "budget": "faithful"} | fields
    return Paced(**({"n_select": K} | fields), method="block" if method == "block" else "async", seconds=seconds)


def centres(client: Client) -> list[str]:
    """Addresses of the workers that hold an actor; of a cluster whose scheduler is in this process, at no cost."""
    return [worker.address for worker in list(client.cluster.scheduler.workers.values()) if worker.actors]


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_centre(client: Client) -> bool:
    """Kill the process that holds the centre, if there is one at the moment."""
    pids = {nanny.worker_address: nanny.pid for nanny in client.cluster.workers.values()}
    for address in centres(client):
        kill(pids[address])
        return True
    return False


class Once:
    """A progress callback that does something at one event of a pass, or at the next if it could not be done."""

    def __init__(self, action: Callable[[], object], number: int, blocks_done: int) -> None:
        self._action, self._number, self._blocks = action, number, blocks_done
        self.struck: float | None = None

    def __call__(self, event: Any) -> None:
        is_time = event.number == self._number and event.blocks_done >= self._blocks
        if self.struck is None and is_time and self._action() is not False:
            self.struck = time.monotonic()
