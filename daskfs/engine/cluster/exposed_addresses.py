"""Where others than this machine can reach a cluster that a command has started, so that it can say so."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from distributed import Scheduler
from distributed.comm.addressing import get_address_host

_PLAIN = ("tcp://", "ws://")  # whoever reaches these can run anything; TLS asks for a certificate


def open_doors(cluster: Any) -> list[str]:
    """The addresses beyond loopback at which a scheduler in this process listens, or shows its dashboard."""
    scheduler = getattr(cluster, "scheduler", None)
    if not isinstance(scheduler, Scheduler):  # it is elsewhere, where others have started it
        return []
    found = [listener.listen_address for listener in scheduler.listeners]
    plain = [f"scheduler {address}" for address in found if address.startswith(_PLAIN) and is_open(address)]
    pages = scheduler.services.get("dashboard")
    if pages is not None and is_open(place := f"tcp://{_bracketed(pages.address)}:{pages.port}"):
        plain.append(f"dashboard {place.replace('tcp', 'http', 1)}")
    return plain


def is_open(address: str) -> bool:
    """True unless only this machine can reach what listens there.

    >>> from daskfs.engine.cluster.exposed_addresses import is_open
    >>> [is_open(f"tcp://{host}:8786") for host in ("127.0.0.1", "[::1]", "localhost", "0.0.0.0", "[::]", "10.0.0.5")]
    [False, False, False, True, True, True]
    """
    try:
        return not ip_address(get_address_host(address)).is_loopback
    except ValueError:  # a name, or nothing, which means everywhere
        return get_address_host(address) != "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
