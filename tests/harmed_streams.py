"""Harm to the stream through which a scheduler tells a client which tasks have ended."""

from __future__ import annotations

from typing import Any

from distributed import Client

HARMS = ("stopped", "closed", "deleted", "forgotten")
SECONDS = 10.0  # of patience, in place of 40: less, and a busy machine would count as a silent one


def harm(client: Client, how: str, *keys: str) -> None:
    """Harm the stream to a client, in the scheduler, or what the scheduler knows of some tasks."""
    client.run_on_scheduler(_harm, client.id, how, keys)


def _harm(client: str, how: str, keys: tuple[str, ...], dask_scheduler: Any) -> None:
    stream = dask_scheduler.client_comms[client]
    if how == "stopped":  # half-open: the connection stands, nothing is sent
        stream.please_stop = True
        stream.waker.set()
    elif how == "closed":
        stream.comm.abort()
    elif how == "deleted":  # as Dask does if a client is back before its old connection is cleared away
        del dask_scheduler.client_comms[client]
    elif how == "released":  # the client waits for what the scheduler believes that nobody wants
        dask_scheduler.client_releases_keys(keys, client)
    else:
        dask_scheduler.remove_client(client)
