"""The tests open nothing that other machines can reach: a server of a test process on another address is refused."""

from __future__ import annotations

import socket
import sys
from ipaddress import ip_address
from typing import Any


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; an empty one means all addresses."""
    try:
        return ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def refuse_other_addresses(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: Python calls it for every socket that is bound, in any thread and by any library."""
    if event != "socket.bind":
        return
    bound, address = arguments
    if bound.family not in (socket.AF_INET, socket.AF_INET6) or not bound.type & socket.SOCK_STREAM:
        return
    if not is_loopback(str(address[0])):
        raise PermissionError(f"tests open nothing but loopback, and this is {address}: give it the host 127.0.0.1")


def refuse() -> None:
    """Refuse other addresses from now on; an audit hook cannot be taken back."""
    sys.addaudithook(refuse_other_addresses)
