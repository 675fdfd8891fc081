"""Whether everybody in a cluster runs the same: tasks, states and numbers travel between them as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributed import Client
from distributed.versions import get_versions

from daskfs.errors import OptionError

Versions = Mapping[str, str | None]

WHOLE = ("daskfs", "dask", "distributed")
"""Of these every number counts: they speak with each other."""
FIRST_TWO = ("python", "numba", "numpy", "scipy", "zarr")
"""Of these the first two: the third is for mistakes put right."""
_PACKAGES = [name for name in (*WHOLE, *FIRST_TWO) if name != "python"]


def versions_here() -> Versions:
    """What this process runs, of what matters; None for what is not installed."""
    return _matter(get_versions(_PACKAGES)["packages"])


def check_versions(client: Client) -> None:
    """OptionError if the scheduler or a worker of a cluster runs something else than this process."""
    found: Any = client.get_versions(packages=_PACKAGES)
    here = versions_here()
    check_same("the Dask scheduler", _matter(found["scheduler"]["packages"]), here)
    for address, worker in sorted(found["workers"].items()):
        check_same(f"worker {address}", _matter(worker["packages"]), here)


def check_same(who: str, there: Versions, here: Versions) -> None:
    """OptionError that names who differs, and in what.

    >>> from daskfs.engine.cluster.versions import check_same
    >>> check_same("worker a", {"numpy": "2.3", "zarr": None}, {"numpy": "2.4", "zarr": "3.1"})
    Traceback (most recent call last):
        ...
    daskfs.errors.OptionError: worker a has numpy 2.3 (here 2.4), no zarr (here 3.1); install the same everywhere
    """
    others = [
        f"{name} {there[name]} (here {version})" if there[name] else f"no {name} (here {version})"
        for name, version in here.items()
        if there[name] != version
    ]
    if others:
        raise OptionError(f"{who} has {', '.join(others)}; install the same everywhere")


def _matter(versions: Versions) -> Versions:
    whole = {name: versions.get(name) for name in WHOLE}
    return {**whole, **{name: _first_two(versions.get(name)) for name in FIRST_TWO}}


def _first_two(version: str | None) -> str | None:
    return version and ".".join(version.split(".")[:2])
