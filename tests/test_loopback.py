"""What the tests' own guard refuses (see `loopback`): servers that other machines could reach."""

from __future__ import annotations

import socket

import pytest
from loopback import is_loopback


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_servers_on_all_addresses_are_refused(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as server, pytest.raises(PermissionError, match="nothing but loopback"):
        server.bind((host, 0))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_servers_on_loopback_are_not(host):
    with socket.create_server((host, 0)) as server:
        assert is_loopback(server.getsockname()[0])


def test_which_addresses_are_loopback():
    hosts = ("127.0.0.1", "127.0.0.2", "::1", "localhost", "0.0.0.0", "::", "", "10.0.0.5", "example.org")
    assert [host for host in hosts if is_loopback(host)] == ["127.0.0.1", "127.0.0.2", "::1", "localhost"]
