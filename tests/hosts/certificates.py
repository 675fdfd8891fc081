"""Certificates as docs/clusters.md makes them, and Dask's configuration as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

DOCUMENT = Path(__file__).parents[2] / "docs" / "clusters.md"

REASONS = {
    "none": "no certificates to show there; set ca-file, client.cert and client.key of distributed.comm.tls",
    "foreign": "certificates do not match; check distributed.comm.tls",
    "foreign certificate": "certificates do not match; check distributed.comm.tls",
    "tcp": "Dask's configuration asks for encryption; write tls://",
    "tcp, none": "if it is a scheduler with TLS, write tls://",
    "no file": "distributed.comm.tls: a certificate or key cannot be read",
}
"""What somebody is told whose certificates or address are wrong in one way or another."""


def made(folder: Path) -> Path:
    """A folder with an authority, and a certificate and key that it has signed."""
    folder.mkdir()
    commands = re.findall(r"^openssl .*$", DOCUMENT.read_text(), re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        subprocess.run(shlex.split(command), cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


def configured(folder: Path, authority: Path, certificate: Path) -> dict[str, str]:
    """An environment in which Dask trusts an authority and shows a certificate."""
    folder.mkdir()
    (yaml,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    yaml = yaml.replace("/etc/dask/tls/ca.pem", str(authority / "ca.pem"))
    (folder / "tls.yaml").write_text(yaml.replace("/etc/dask/tls", str(certificate)))
    return {"DASK_CONFIG": str(folder)}
