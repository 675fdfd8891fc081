"""An HTTP proxy of ours in front of a real server: it counts requests, and does to them what networks do."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["500", "503", "429", "reset", "stall", "cut", "stalled body", "lost answer"]
REASONS = {"500": "Internal Server Error", "503": "Slow Down", "429": "Too Many Requests"}
DROPPED = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]


@dataclass
class FlakyProxy:
    """Forwards requests; ``fault(request)`` says what happens to one, None for nothing."""

    upstream: str
    fault: Callable[[Request], Fault | None] = lambda request: None
    requests: list[Request] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """What was done so far."""
    endpoint: str = ""
    _stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def first_times(self, kind: Fault, count: int, only: Callable[[Request], bool] = lambda request: True) -> None:
        """The first `count` requests for every path fail so, then all is well."""
        seen: dict[tuple[str, str], int] = {}

        def fault(request: Request) -> Fault | None:
            with self._lock:
                key = request.method, request.path
                seen[key] = seen.get(key, 0) + 1
                return kind if only(request) and seen[key] <= count else None

        self.fault = fault

    def for_seconds(self, kind: Fault, seconds: float) -> None:
        """Everything fails so, for a while from now on."""
        until = time.monotonic() + seconds
        self.fault = lambda request: kind if time.monotonic() < until else None

    def serve(self, listener: socket.socket) -> None:
        while not self._stopped.is_set():
            with suppress(TimeoutError, OSError):
                client, _ = listener.accept()
                threading.Thread(target=self._serve_one, args=(client,), daemon=True).start()

    def _serve_one(self, client: socket.socket) -> None:
        with client, suppress(OSError, http.client.HTTPException):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.settimeout(None)
            incoming = client.makefile("rb")
            while (line := incoming.readline()) and not self._stopped.is_set():
                method, path, _ = line.decode().split(" ", 2)
                headers = dict(_headers(incoming))
                body = incoming.read(int(headers.get("content-length", 0)))
                request = Request(method, path, headers)
                kind = self.fault(request)
                with self._lock:
                    self.requests.append(request)
                    self.faults += [kind] if kind else []
                if not self._answer(client, request, body, kind):
                    return

    def _answer(self, client: socket.socket, request: Request, body: bytes, kind: Fault | None) -> bool:
        """True if the connection may be used again."""
        if kind in REASONS:
            client.sendall(f"HTTP/1.1 {kind} {REASONS[kind]}\r\nContent-Length: 0\r\n\r\n".encode())
            return True
        if kind == "reset":
            _reset(client)
            return False
        if kind == "stall":
            self._stopped.wait(60)
            return False
        head, data = self._forwarded(request, body)
        if kind == "lost answer":
            _reset(client)
            return False
        if kind is None:
            client.sendall(head + data)
            return True
        client.sendall(head + data[: len(data) // 2])
        if kind == "stalled body":
            self._stopped.wait(60)
        return False

    def _forwarded(self, request: Request, body: bytes) -> tuple[bytes, bytes]:
        address = urlsplit(self.upstream)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
        try:
            connection.putrequest(request.method, request.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers.items():
                connection.putheader(name, value)  # the host too: it is part of the signature
            connection.endheaders(body or None)
            answer = connection.getresponse()
            data = answer.read()
            length = answer.headers.get("content-length", "0") if request.method == "HEAD" else str(len(data))
            lines = [f"HTTP/1.1 {answer.status} {answer.reason}", f"Content-Length: {length}"]
            lines += [f"{name}: {value}" for name, value in answer.getheaders() if name.lower() not in DROPPED]
            return ("\r\n".join(lines) + "\r\n\r\n").encode(), data
        finally:
            connection.close()


def _headers(incoming: object) -> Iterator[tuple[str, str]]:
    while line := incoming.readline().strip():  # type: ignore[attr-defined]
        name, _, value = line.decode().partition(":")
        yield name.strip().lower(), value.strip()


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@contextmanager
def flaky_proxy(upstream: str) -> Iterator[FlakyProxy]:
    """A proxy on a port of its own, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        proxy = FlakyProxy(upstream, endpoint=f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread = threading.Thread(target=proxy.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy._stopped.set()
            thread.join()
