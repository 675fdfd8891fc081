"""A real dask-gateway on loopback, with its proxy; schedulers and workers are processes of this machine and user."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from clusters.jobs import free_port, program_at, swept
from dask_processes import said, started

MARK = "DASKFS_TEST_GATEWAY"
# Options have the names of the job file in docs/clusters.md; the image is for gateways that have containers.
CONFIGURATION = """
from dask_gateway_server.options import Integer, Options, String

def configured(options):
    return {{
        "worker_cores": options.worker_cores,
        "worker_memory": f"{{options.worker_memory}} G",
        "environment": {{"DASKFS_TEST_IMAGE": options.image}},
    }}

c.DaskGateway.address = "127.0.0.1:{private_port}"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.SimpleAuthenticator.password = "{password}"
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.UnsafeLocalBackend.clusters_directory = "{folder}/clusters"
c.UnsafeLocalBackend.inherited_environment = ["HOME", "PATH", "PYTHONPATH", "{mark}"]
c.Backend.cluster_options = Options(
    Integer("worker_cores", 1, min=1),
    Integer("worker_memory", 1, min=1, max=8),
    String("image", ""),
    handler=configured,
)
c.ClusterConfig.scheduler_cmd = ["dask", "scheduler"]
c.ClusterConfig.worker_cmd = ["dask", "worker"]
c.Proxy.address = "127.0.0.1:{port}"
"""
PASSWORD = "not-much-of-a-secret"


@dataclass(frozen=True)
class Gateway:
    """Where it is, and what it says."""

    folder: Path
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.folder / "gateway.log").read_text()

    @property
    def mark(self) -> str:
        """What everybody has in the environment whom it has started."""
        return str(self.folder)

    def environment(self, password: str = PASSWORD) -> Mapping[str, str]:
        """Of someone who says who he is, as Dask's configuration lets him."""
        return {**os.environ, "DASK_GATEWAY__AUTH__TYPE": "basic", "DASK_GATEWAY__AUTH__KWARGS__PASSWORD": password}


@contextmanager
def gateway(folder: Path) -> Iterator[Gateway]:
    """A gateway, until the block ends."""
    found = Gateway(folder, free_port())
    configuration = CONFIGURATION.format(
        folder=folder, port=found.port, private_port=free_port(), password=PASSWORD, mark=MARK
    )
    (folder / "configuration.py").write_text(configuration)
    (folder / "clusters").mkdir()
    command = [str(program_at("dask-gateway-server")), "--config", str(folder / "configuration.py")]
    tools = f"{Path(command[0]).parent}{os.pathsep}{os.environ['PATH']}"  # those of this environment come first
    with (
        swept(found.mark),
        started(command, folder / "gateway.log", {"PATH": tools, MARK: found.mark}),
    ):
        said(folder / "gateway.log", "Dask-Gateway server started")
        yield found
