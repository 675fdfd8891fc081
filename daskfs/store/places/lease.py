"""A lease: an object in an object store, which has no locks, that makes one process the only writer of a folder.

The lease states its holder, an epoch number and the time of its last renewal. The lease changes only by conditional
writes, so that only one of two processes that try to take a lease succeeds. A process that finds the lease of another
process watches the lease for a while. If the holder renews the lease meanwhile, the watching process gives up. If the
holder does not renew the lease, the watching process takes the lease over with the next epoch number.

A holder that could not renew its lease for almost `LIFETIME` seconds checks before its next write that the lease is
still its own. A write raises `Interrupted` if another process has taken the lease over.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from daskfs.errors import Busy, DaskfsError, Interrupted
from daskfs.store.places.retries import limit_retries, stop_retries_on

if TYPE_CHECKING:
    from daskfs.store.places.object_folder import ObjectFolder, Tag

LIFETIME = 30.0
"""Seconds for which a lease is valid after a renewal."""
RENEWAL = 5.0
"""Seconds between two renewals of a lease."""
KEY = "_writer"
_MAX_BYTES = 4096  # of a lease that is read
_log = logging.getLogger("daskfs")
_held: list[Lease] = []


class NotConditional(Exception):
    """Raised for an object store that does not support conditional writes."""


class Lease:
    """A lease that this process holds and that a background thread renews until `release` is called."""

    def __init__(self, folder: ObjectFolder, tag: Tag, epoch: int, owner: str) -> None:
        self.url = folder.url
        self._folder, self._tag, self._epoch, self._owner = folder, tag, epoch, owner
        self._renewed, self._lost = time.monotonic(), False
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep_renewing, name="daskfs-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise Interrupted if another process has taken the lease over."""
        if not self._lost and time.monotonic() - self._renewed >= LIFETIME - RENEWAL:
            self._renew()
        if self._lost:
            raise Interrupted(f"{self.url}: another process has taken over here; this one writes nothing more")

    def release(self) -> None:
        """Stop renewing the lease, and delete the lease object if this process still holds the lease."""
        self._stop.set()
        self._thread.join()
        with suppress(DaskfsError), limit_retries(RENEWAL):  # if the store is down, the lease runs out by itself
            self._renew()  # so that it cannot run out, and be taken over, before it is deleted
            if not self._lost:
                self._folder.delete(KEY)

    def _keep_renewing(self) -> None:
        with stop_retries_on(self._stop):
            while not self._stop.wait(RENEWAL) and not self._lost:
                with suppress(DaskfsError):  # `check` finds out before the next write
                    self._renew()

    def _renew(self) -> None:
        with self._lock:
            began = time.monotonic()
            try:
                tag = self._folder.put_if(KEY, _content(self._epoch, self._owner), self._tag)
            except FileNotFoundError:
                tag = None
            if tag is None:
                self._lost = True
            else:
                self._tag, self._renewed = tag, began


@contextmanager
def hold_lease(folder: ObjectFolder) -> Iterator[None]:
    """Hold the lease of a folder, or raise Busy if another process holds the lease."""
    try:
        lease = _take(folder)
    except NotConditional:
        _log.warning("%s: the store knows no conditional writes; see to it that nobody else writes here", folder.url)
        yield
        return
    _held.append(lease)
    try:
        yield
    finally:
        _held.remove(lease)
        lease.release()


def check_writer(url: str) -> None:
    """Raise Interrupted if this process held the lease of a folder that contains `url` and has lost the lease."""
    for lease in tuple(_held):  # a copy, since other threads may take and release leases meanwhile
        if f"{url}/".startswith(f"{lease.url}/"):
            lease.check()


def _take(folder: ObjectFolder) -> Lease:
    owner = f"{socket.gethostname()}, process {os.getpid()}, {uuid.uuid4().hex}"
    while True:
        tag = folder.put_if(KEY, _content(1, owner), None)
        if tag is not None:
            return Lease(folder, tag, 1, owner)
        try:
            raw, other_tag = folder.tagged(KEY, _MAX_BYTES)
        except FileNotFoundError:  # released since
            continue
        other = _parse(raw)
        if not _is_abandoned(folder, other_tag, other):
            continue
        epoch = other["epoch"] + 1
        tag = folder.put_if(KEY, _content(epoch, owner), other_tag)
        if tag is not None:
            return Lease(folder, tag, epoch, owner)


def _is_abandoned(folder: ObjectFolder, tag: Tag, other: dict[str, Any]) -> bool:
    """Watch a lease: return True if the lease is not renewed, False if it is released; raise Busy if it is renewed."""
    is_old = time.time() - other["time"] > LIFETIME
    patience = 2 * RENEWAL if is_old else LIFETIME
    _log.warning("%s: %s was writing here; looking whether it still does", folder.url, other["owner"])
    began = time.monotonic()
    while time.monotonic() - began < patience:
        time.sleep(min(RENEWAL / 4, patience / 4))
        try:
            _, now = folder.tagged(KEY, _MAX_BYTES)
        except FileNotFoundError:
            return False
        if now != tag:
            raise Busy(f"{folder.url}: another process is writing here ({other['owner']}); wait for it to end")
    return True


def _content(epoch: int, owner: str) -> bytes:
    return json.dumps({"epoch": epoch, "owner": owner, "renewal": uuid.uuid4().hex, "time": time.time()}).encode()


def _parse(raw: bytes | None) -> dict[str, Any]:
    """Return epoch, owner and time of a lease; a lease that cannot be parsed gets the epoch 0 and the time 0."""
    try:
        content = json.loads(raw or b"")
        owner = "".join(c for c in str(content["owner"]).rsplit(",", 1)[0][:80] if c.isprintable())
        return {"epoch": int(content["epoch"]), "owner": owner, "time": float(content["time"])}
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {"epoch": 0, "owner": "somebody", "time": 0.0}
