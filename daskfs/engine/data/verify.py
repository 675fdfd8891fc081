"""The function `verify_dataset`, which compares every chunk of a dataset with its checksum, in parallel."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from daskfs.engine.cluster.pool import ProgressCallback, ProgressCounter, pool
from daskfs.store.dataset.codec import DamagedChunk
from daskfs.store.dataset.dataset import open_dataset
from daskfs.store.dataset.layout import ArraySpec
from daskfs.store.dataset.reader import Damage, Manifest, check_chunks, digest, manifest_spec, read_manifest
from daskfs.store.places.location import Location

if TYPE_CHECKING:
    from distributed import Client

BATCH = 16


def verify_dataset(
    url: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
    client: Client | None = None,
    workers: int | None = None,
    progress: ProgressCallback | None = None,
) -> list[Damage]:
    """Read every chunk of a dataset, and compare the chunk with its checksum and the manifest.

    Parameters
    ----------
    url, storage_options
        The location of the dataset and the options of its store, as for `open_dataset`.
    client, workers
        The Dask client or the number of threads to use, as for `ingest`.
    progress
        A function that is called with (chunks checked, chunks in all).

    Returns
    -------
    list of Damage
        One `Damage` for each chunk that is missing or altered, so an empty list if the dataset is intact.

    Examples
    --------
    >>> _ = daskfs.write_dataset("sound.zarr", np.eye(4), [0, 1, 0, 1])
    >>> daskfs.verify_dataset("sound.zarr")
    []
    >>> Path("sound.zarr/X/c/0/0").unlink()
    >>> daskfs.verify_dataset("sound.zarr")
    [Damage(key='X/c/0/0', reason='missing')]
    """
    dataset = open_dataset(url, storage_options)
    damage: list[Damage] = []
    manifests: dict[str, Manifest] = {}
    for spec in dataset.content.values():
        try:
            manifests[spec.name] = read_manifest(dataset.location, spec)
        except (FileNotFoundError, DamagedChunk) as error:
            reason = "missing" if isinstance(error, FileNotFoundError) else str(error)
            damage.append(Damage(manifest_spec(spec).key(0), reason))
    if not damage and digest(dataset.attributes, list(dataset.content.values()), manifests) != dataset.digest:
        damage.append(Damage("zarr.json", "the digest does not match the manifest: metadata was altered"))
    tasks = [
        (dataset.location, spec, start, manifests[spec.name][start : start + BATCH])
        for spec in dataset.content.values()
        if spec.name in manifests
        for start in range(0, spec.n_chunks, BATCH)
    ]
    checked = ProgressCounter(sum(len(manifest) for manifest in manifests.values()), progress)
    for n_chunks, some in pool(client, workers, [dataset.location.options]).unordered("verify", _check, tasks):
        damage += some
        checked.add(n_chunks)
    return sorted(damage, key=lambda chunk: chunk.key)


def _check(location: Location, spec: ArraySpec, first: int, lines: Manifest) -> tuple[int, list[Damage]]:
    return len(lines), check_chunks(location, spec, first, lines)
