"""A scheduler that is there: its address, its certificates, and the line that says why it cannot be joined."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from distributed import Client
from distributed.comm.core import CommClosedError
from distributed.core import rpc
from distributed.security import Security

from daskfs.errors import OptionError, Unreachable

_SCHEMES = ("tcp", "tls", "ws", "wss")
ANSWER_SECONDS = 10  # for a scheduler to say that it is one


@contextmanager
def cluster_at(address: str | None) -> Iterator[Client | None]:
    """A client of the scheduler at `address`, closed afterwards; None without an address."""
    if address is None:
        yield None
        return
    address = _checked_address(address)
    _check_security(address)
    with _client_of(address) as client:
        yield client


def _client_of(address: str) -> Client:
    """A client of the scheduler there; OptionError says in a line why there is none."""
    try:
        there = asyncio.run(_identity(address))
        if "workers" in there:  # those of a scheduler; workers and nannies say who they are, too
            return Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _refusal(address, error) from error
    raise OptionError(f"--scheduler {address}: this is a {str(there.get('type')).lower()}, not a scheduler")


def _checked_address(address: str) -> str:
    """The address of a scheduler, tcp:// by default; OptionError for what is none, at which Dask would stumble."""
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        if parts.scheme in _SCHEMES and parts.hostname and parts.port:
            return parts.geturl()
    except ValueError:  # a port that is no number, a bracket that is not closed
        pass
    raise OptionError(f"--scheduler {address}: must be an address such as tcp://127.0.0.1:8786")


async def _identity(address: str) -> dict[str, Any]:
    """Who is there; OSError unless it is one of Dask's. A client would wait for ever for what is something else."""
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            rpc(address, connection_args=Security().get_connection_args("client")) as there,
        ):
            found: dict[str, Any] = await there.identity()
            return found
    except TimeoutError:
        raise TimeoutError(f"no answer in {ANSWER_SECONDS} s") from None


def _check_security(address: str) -> None:
    """OptionError for what Dask would stumble over later, and less clearly."""
    try:
        arguments = Security().get_connection_args("client")
    except (OSError, ValueError) as error:
        raise OptionError(f"distributed.comm.tls: a certificate or key cannot be read ({error})") from error
    if address.startswith("tls://") and arguments.get("ssl_context") is None:
        raise OptionError(
            f"--scheduler {address}: no certificates to show there; set ca-file, client.cert and client.key "
            "of distributed.comm.tls in Dask's configuration"
        )
    if address.startswith("tcp://") and arguments.get("require_encryption"):
        raise OptionError(f"--scheduler {address}: Dask's configuration asks for encryption; write tls://")


def _refusal(address: str, error: Exception) -> OptionError:
    """What keeps a scheduler from being reached, in a line; Unreachable only if waiting may help."""
    said = " ".join(str(error).split())
    kind, why = (OptionError if isinstance(error, ValueError) else Unreachable), f"nothing answers there ({said})"
    hung_up, is_secret = isinstance(error, CommClosedError), address.startswith("tls://")
    if is_secret and _answers_openly(address):
        kind, why = OptionError, "what is there does not speak TLS; if it is a scheduler without, write tcp://"
    elif hung_up and is_secret:
        kind = OptionError
        why = f"certificates do not match; check distributed.comm.tls in Dask's configuration ({said})"
    elif hung_up and address.startswith("tcp://"):
        why = f"what is there does not speak this; if it is a scheduler with TLS, write tls:// ({said})"
    return kind(f"--scheduler {address}: {why}")


def _answers_openly(address: str) -> bool:
    """Whether something answers there that is not TLS; what certificates are good for is not asked."""
    there, anybody = urlsplit(address), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((there.hostname, there.port), ANSWER_SECONDS) as connection,
            anybody.wrap_socket(connection),
        ):
            return False
    except ssl.SSLEOFError:  # who hangs up says nothing
        return False
    except ssl.SSLError as error:
        return "ALERT" not in str(error.reason)  # which is how TLS says no
    except OSError:
        return False
