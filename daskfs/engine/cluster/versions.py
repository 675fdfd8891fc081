"""Check that all processes of a cluster have the same package versions, since they exchange pickled objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributed import Client
from distributed.versions import get_versions

from daskfs.errors import OptionError

Versions = Mapping[str, str | None]

WHOLE = ("daskfs", "dask", "distributed")
"""Packages whose whole version must be the same in all processes of a cluster."""
FIRST_TWO = ("python", "numba", "numpy", "scipy", "zarr")
"""Packages whose first two version numbers must be the same in all processes of a cluster."""
_PACKAGES = [name for name in (*WHOLE, *FIRST_TWO) if name != "python"]


def versions_here() -> Versions:
    """Return the versions in this process of the packages to compare, with None for packages not installed."""
    return _relevant(get_versions(_PACKAGES)["packages"])


def check_versions(client: Client) -> None:
    """Raise OptionError if the scheduler or a worker of a cluster has other versions than this process."""
    versions: Any = client.get_versions(packages=_PACKAGES)
    here = versions_here()
    check_same("the Dask scheduler", _relevant(versions["scheduler"]["packages"]), here)
    for address, worker in sorted(versions["workers"].items()):
        check_same(f"worker {address}", _relevant(worker["packages"]), here)


def check_same(process: str, there: Versions, here: Versions) -> None:
    """Raise OptionError if the versions in another process (`there`) differ from the versions in this process (`here`).

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
        raise OptionError(f"{process} has {', '.join(others)}; install the same everywhere")


def _relevant(versions: Versions) -> Versions:
    whole = {name: versions.get(name) for name in WHOLE}
    return {**whole, **{name: _first_two(versions.get(name)) for name in FIRST_TWO}}


def _first_two(version: str | None) -> str | None:
    return version and ".".join(version.split(".")[:2])
