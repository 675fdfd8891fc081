"""How much memory a run really took, in this process and on workers, to be held against what was promised."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client

_STATUS, _FORGET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True, slots=True)
class Footprint:
    """Memory of every process at the start of a run; `used` is what it rose by at most."""

    here: int | None
    workers: dict[str, int | None]

    @classmethod
    def begin(cls, client: Client | None) -> Footprint:
        """Look at this process and at the workers of a cluster, and forget how large they have been before."""
        return cls(_begin(), {} if client is None else _everywhere(client, _begin))

    def used(self, client: Client | None) -> int | None:
        """The largest rise of any process that takes part since `begin`; None where the system does not tell."""
        if client is None:
            return _rise(self.here, _peak())
        now = _everywhere(client, _peak)
        rises = [_rise(before, now.get(address)) for address, before in self.workers.items()]
        return max((rise for rise in rises if rise is not None), default=None)


def _rise(before: int | None, peak: int | None) -> int | None:
    return None if before is None or peak is None else max(peak - before, 0)


def _everywhere(client: Client, function: Any) -> dict[str, Any]:
    with suppress(Exception):  # a figure for the record is not worth a run that is done
        found: dict[str, Any] = client.run(function, on_error="ignore")
        return found
    return {}


def _begin() -> int | None:
    with suppress(OSError):
        _FORGET_PEAK.write_text("5")
        return _status("VmRSS")
    return None


def _peak() -> int | None:
    with suppress(OSError):
        return _status("VmHWM")
    return None


def _status(field: str) -> int | None:
    found = re.search(rf"^{field}:\s+(\d+) kB", _STATUS.read_text(), re.M)
    return None if found is None else int(found[1]) << 10
