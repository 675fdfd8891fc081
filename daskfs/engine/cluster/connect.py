"""Connections to an existing Dask scheduler, with a one-line explanation if the scheduler cannot be reached."""

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
ANSWER_SECONDS = 10  # until a scheduler must have answered


@contextmanager
def connect(address: str) -> Iterator[Client]:
    """Yield a client of the scheduler at `address`."""
    address = _with_scheme(address)
    _check_security(address)
    try:
        identity, client = asyncio.run(_identity(address)), None
        if "workers" in identity:  # only a scheduler has them; workers and nannies have an identity, too
            client = Client(address, timeout=ANSWER_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _refusal(address, error) from error
    if client is None:
        raise OptionError(f"--scheduler {address}: this is a {str(identity.get('type')).lower()}, not a scheduler")
    with client:
        yield client


def _with_scheme(address: str) -> str:
    """Return a scheduler's address, with tcp:// by default. Raise OptionError if the text is not an address."""
    try:
        parts = urlsplit(address if "://" in address else f"tcp://{address}")
        if parts.scheme in _SCHEMES and parts.hostname and parts.port:
            return parts.geturl()
    except ValueError:  # a port that is no number, a bracket that is not closed
        pass
    raise OptionError(f"--scheduler {address}: must be an address such as tcp://127.0.0.1:8786")


async def _identity(address: str) -> dict[str, Any]:
    """Return the identity of a Dask server. Raise OSError if no server answers, where a client would wait forever."""
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            rpc(address, connection_args=Security().get_connection_args("client")) as server,
        ):
            identity: dict[str, Any] = await server.identity()
            return identity
    except TimeoutError:
        raise TimeoutError(f"no answer in {ANSWER_SECONDS} s") from None


def _check_security(address: str) -> None:
    """Raise OptionError for missing or wrong TLS certificates, earlier and more clearly than Dask would."""
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
    """Return an error with the reason why a scheduler cannot be reached, of type `Unreachable` if waiting may help."""
    message = " ".join(str(error).split())
    kind, why = (OptionError if isinstance(error, ValueError) else Unreachable), f"nothing answers there ({message})"
    closed, is_tls = isinstance(error, CommClosedError), address.startswith("tls://")
    if is_tls and _answers_without_tls(address):
        kind, why = OptionError, "what is there does not speak TLS; if it is a scheduler without, write tcp://"
    elif closed and is_tls:
        kind = OptionError
        why = f"certificates do not match; check distributed.comm.tls in Dask's configuration ({message})"
    elif closed and address.startswith("tcp://"):
        why = f"what is there does not speak this; if it is a scheduler with TLS, write tls:// ({message})"
    return kind(f"--scheduler {address}: {why}")


def _answers_without_tls(address: str) -> bool:
    """Return whether a Dask server at an address answers without TLS; certificates are not checked."""
    parts, context = urlsplit(address), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((parts.hostname, parts.port), ANSWER_SECONDS) as connection:
            context.wrap_socket(connection).close()
    except ssl.SSLError as error:  # not if the connection is closed without an answer; an alert is an answer in TLS
        return not isinstance(error, ssl.SSLEOFError) and "ALERT" not in str(error.reason)
    except OSError:
        pass
    return False
