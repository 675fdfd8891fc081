"""Several hosts on one machine: network namespaces, joined by a bridge in one of their own.

Nothing is visible outside of them, and with the namespaces everything is gone. Their names carry the id of the process
that made them, so that a later run can remove what one that was killed has left.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

PREFIX = "daskfs-test-"
SUBNET = "10.231.77"


def missing() -> str:
    """Why there can be no namespaces here; nothing if there can."""
    if shutil.which("ip") is None:
        return "needs the ip command: install iproute2"
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    name = f"{PREFIX}{os.getpid()}-probe"
    tried = _ip("netns", "add", name, check=False)
    if tried.returncode == 0:
        tried = _ip("-n", name, "link", "add", "probe", "type", "bridge", check=False)
        _ip("netns", "del", name)
    return f"network namespaces are not allowed here: {tried.stderr.strip()}" if tried.returncode else ""


class Network:
    """Hosts by name, each with an address and a cable that can be pulled."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._name = f"{PREFIX}{os.getpid()}"
        self._hosts = list(hosts)

    def build(self) -> None:
        switch = self._space("switch")
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for host in self._hosts:
            space = self._space(host)
            _ip("netns", "add", space)
            _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", host, "netns", switch)
            _ip("-n", switch, "link", "set", host, "master", "bridge", "up")
            _ip("-n", space, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", space, "link", "set", device, "up")

    def address(self, host: str) -> str:
        return f"{SUBNET}.{self._hosts.index(host) + 1}"

    def on(self, host: str, command: Sequence[str]) -> list[str]:
        """A command line that runs on a host."""
        return ["ip", "netns", "exec", self._space(host), *command]

    @contextmanager
    def cut(self, host: str) -> Iterator[None]:
        """Pull a host's cable, and plug it in again."""
        _ip("-n", self._space("switch"), "link", "set", host, "down")
        try:
            yield
        finally:
            _ip("-n", self._space("switch"), "link", "set", host, "up")

    @contextmanager
    def dropped(self, sender: str, receiver: str) -> Iterator[None]:
        """Drop all packets of one host to another, and none in the other direction."""
        route = ("-n", self._space(sender), "route")
        _ip(*route, "add", "blackhole", self.address(receiver))
        try:
            yield
        finally:
            _ip(*route, "del", "blackhole", self.address(receiver))

    def remove(self) -> None:
        """End what runs on the hosts, and take them away."""
        _remove([self._space(host) for host in (*self._hosts, "switch")])

    def _space(self, host: str) -> str:
        return f"{self._name}-{host}"


def sweep() -> None:
    """Remove the hosts of runs that were killed."""
    names = [line.split()[0] for line in _ip("netns", "list").stdout.splitlines() if line.startswith(PREFIX)]
    _remove([name for name in names if not os.path.exists(f"/proc/{_owner(name)}")])


def _owner(name: str) -> str:
    found = re.match(rf"{PREFIX}(\d+)-", name)
    return found[1] if found else "self"


def _remove(spaces: Sequence[str]) -> None:
    for space in spaces:
        for _ in range(50):  # those who are being killed may start others
            pids = _ip("netns", "pids", space, check=False).stdout.split()
            if not pids:
                break
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.1)
        _ip("netns", "del", space, check=False)


def _ip(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=30)
    assert not check or done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
    return done
