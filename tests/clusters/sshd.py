"""A real OpenSSH server for this user alone: on loopback, with keys made for it, gone afterwards."""

from __future__ import annotations

import getpass
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusters.jobs import free_port, program_at, swept
from dask_processes import said, started

PRIVILEGE_SEPARATION = Path("/run/sshd")  # which sshd asks for where root runs it; the system's own service makes it
CONFIGURATION = """
ListenAddress 127.0.0.1:{port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/me.pub
SetEnv DASKFS_TEST_SSHD={folder}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
StrictModes no
UsePAM no
PidFile none
LogLevel VERBOSE
"""


@dataclass(frozen=True)
class Sshd:
    """Where it is, and who may come in with which key."""

    folder: Path
    port: int

    @property
    def log(self) -> str:
        return (self.folder / "sshd.log").read_text()

    @property
    def mark(self) -> str:
        """What everybody has in the environment who was let in."""
        return str(self.folder)

    def connect_options(self) -> dict[str, Any]:
        """For asyncssh."""
        return {
            "username": getpass.getuser(),
            "port": self.port,
            "known_hosts": str(self.folder / "known_hosts"),
            "client_keys": [str(self.folder / "me")],
        }


@contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """A server, until the block ends."""
    server = Sshd(folder, free_port())
    for key in ("host", "me"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True, timeout=60)
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {(folder / 'host.pub').read_text()}")
    configuration = CONFIGURATION.format(port=server.port, folder=folder)
    (folder / "sshd_config").write_text(configuration)
    if os.geteuid() == 0:
        PRIVILEGE_SEPARATION.mkdir(mode=0o755, exist_ok=True)
    command = [str(program_at("sshd")), "-D", "-e", "-f", str(folder / "sshd_config")]
    with swept(server.mark), started(command, folder / "sshd.log"):
        said(folder / "sshd.log", "Server listening")
        yield server
