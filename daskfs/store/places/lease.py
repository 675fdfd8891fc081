"""One writer at a time where there are no locks: a lease, which is an object that its holder renews.

It says who holds it, its epoch and when it was renewed, and it changes hands only by conditional writes, so that of two
who reach for it one gets it. Whoever finds one watches it: if it is renewed, its holder lives and the newcomer is
refused; if it is not for as long as it is good, it is taken over with the next epoch. So nobody relies on the clocks of
others.
A holder that cannot renew it for that long (it was stopped, or cut off) writes nothing more until it has made sure that
the lease is still its own; if not, its next write raises `Interrupted`.
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
from daskfs.store.places.object_errors import NotConditional
from daskfs.store.places.retries import limit_retries, stop_retries_on

if TYPE_CHECKING:
    from daskfs.store.places.object_folder import ObjectFolder, Tag

LIFETIME = 30.0
"""Seconds for which a lease is good after it was renewed."""
RENEWAL = 5.0
"""Seconds between two renewals."""
KEY = "_writer"
_MOST_BYTES = 4096  # of a lease that is worth a look
_log = logging.getLogger("daskfs")
_held: list[Lease] = []


class Lease:
    """A lease that this process has: renewed by a thread until it is released."""

    def __init__(self, folder: ObjectFolder, tag: Tag, epoch: int, owner: str) -> None:
        self.url = folder.url
        self._folder, self._tag, self._epoch, self._owner = folder, tag, epoch, owner
        self._renewed, self._lost = time.monotonic(), False
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep, name="daskfs-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Interrupted if the lease is somebody else's by now."""
        if not self._lost and time.monotonic() - self._renewed >= LIFETIME - RENEWAL:
            self._renew()
        if self._lost:
            raise Interrupted(f"{self.url}: another process has taken over here; this one writes nothing more")

    def release(self) -> None:
        self._stop.set()
        self._thread.join()
        with (
            suppress(DaskfsError),
            limit_retries(RENEWAL),
        ):  # a store that is down is not waited for: the lease runs out
            self._renew()  # only one that is ours for a while to come may be deleted
            if not self._lost:
                self._folder.delete(KEY)

    def _keep(self) -> None:
        with stop_retries_on(self._stop):
            while not self._stop.wait(RENEWAL) and not self._lost:
                with suppress(DaskfsError):  # whether it matters shows when something is written
                    self._renew()

    def _renew(self) -> None:
        with self._lock:
            began = time.monotonic()
            try:
                tag = self._folder.replace_tagged(KEY, _content(self._epoch, self._owner), self._tag)
            except FileNotFoundError:
                tag = None
            if tag is None:
                self._lost = True
            else:
                self._tag, self._renewed = tag, began


@contextmanager
def held(folder: ObjectFolder) -> Iterator[None]:
    """Hold the lease of a folder; DatasetError if another process does."""
    try:
        lease = _taken(folder)
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
    """Interrupted if this process had the lease of the folder that a URL lies in, and has lost it."""
    for lease in tuple(_held):  # others may come and go meanwhile
        if f"{url}/".startswith(f"{lease.url}/"):
            lease.check()


def _taken(folder: ObjectFolder) -> Lease:
    owner = f"{socket.gethostname()}, process {os.getpid()}, {uuid.uuid4().hex}"
    while True:
        tag = folder.create_tagged(KEY, _content(1, owner))
        if tag is not None:
            return Lease(folder, tag, 1, owner)
        try:
            raw, theirs = folder.tagged(KEY)
        except FileNotFoundError:  # released since
            continue
        before = _parsed(raw)
        if not _is_abandoned(folder, theirs, before):
            continue
        epoch = before["epoch"] + 1
        tag = folder.replace_tagged(KEY, _content(epoch, owner), theirs)
        if tag is not None:
            return Lease(folder, tag, epoch, owner)


def _is_abandoned(folder: ObjectFolder, tag: Tag, before: dict[str, Any]) -> bool:
    """Watch a lease: True if nobody renews it, False if it is released, DatasetError if its holder lives."""
    is_old = time.time() - before["time"] > LIFETIME
    patience = 2 * RENEWAL if is_old else LIFETIME
    _log.warning("%s: %s was writing here; looking whether it still does", folder.url, before["owner"])
    began = time.monotonic()
    while time.monotonic() - began < patience:
        time.sleep(min(RENEWAL / 4, patience / 4))
        try:
            _, now = folder.tagged(KEY)
        except FileNotFoundError:
            return False
        if now != tag:
            raise Busy(f"{folder.url}: another process is writing here ({before['owner']}); wait for it to end")
    return True


def _content(epoch: int, owner: str) -> bytes:
    return json.dumps({"epoch": epoch, "owner": owner, "renewal": uuid.uuid4().hex, "time": time.time()}).encode()


def _parsed(raw: bytes) -> dict[str, Any]:
    """What a lease says; one that says nothing sensible is as good as an old one."""
    try:
        said = json.loads(raw[:_MOST_BYTES])
        owner = "".join(c for c in str(said["owner"]).rsplit(",", 1)[0][:80] if c.isprintable())
        return {"epoch": int(said["epoch"]), "owner": owner, "time": float(said["time"])}
    except (ValueError, KeyError, TypeError):
        return {"epoch": 0, "owner": "somebody", "time": 0.0}
