"""What makes damage visible: a manifest of every chunk, a digest over all of them, and `verify`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskfs.store.dataset.codec import Codec, DamagedChunk, stored_crc, strip_crc
from daskfs.store.dataset.layout import ArraySpec, Attributes
from daskfs.store.places.location import Location

Manifest = NDArray[np.uint64]
"""(chunks, 2): size and crc32c of each chunk file of one array."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One chunk that is not as it was written."""

    key: str
    reason: str


def manifest_spec(array: ArraySpec) -> ArraySpec:
    """Where the manifest of an array is kept, itself a Zarr array."""
    shape = (array.n_chunks, 2)
    chunks = (max(array.n_chunks, 1), 2)
    return ArraySpec(
        f"manifest/{array.name.replace('/', '.')}", shape, chunks, np.dtype(np.uint64), ("chunk", "size_crc")
    )


def record(file: bytes) -> tuple[int, int]:
    """A chunk file's line in the manifest."""
    return len(file), stored_crc(file)


def digest(attributes: Attributes, arrays: Sequence[ArraySpec], manifests: Mapping[str, Manifest]) -> str:
    """One number for the whole content: it changes when any cell, name or label does."""
    total = hashlib.sha256()
    content = {key: attributes[key] for key in sorted(attributes) if key not in ("digest", "made")}
    total.update(json.dumps(content, sort_keys=True).encode())
    for spec in sorted(arrays, key=lambda spec: spec.name):
        total.update(json.dumps([spec.name, spec.metadata()], sort_keys=True).encode())
        total.update(manifests[spec.name].astype("<u8").tobytes())
    return total.hexdigest()


def check_against(manifest: Manifest, number: int, size: int, crc: int) -> None:
    """Raise DamagedChunk unless a chunk file's size and checksum are those of the manifest."""
    if (size, crc) != (int(manifest[number, 0]), int(manifest[number, 1])):
        wanted = int(manifest[number, 0])
        how = f"{size} bytes where {wanted} belong" if size != wanted else "replaced by other data since it was written"
        raise DamagedChunk(how)


def read_manifest(location: Location, array: ArraySpec) -> Manifest:
    """The manifest of one array; DamagedChunk or FileNotFoundError if it is not whole."""
    spec = manifest_spec(array)
    manifest = np.empty(spec.shape, np.uint64)
    if spec.n_chunks:
        Codec().decode(location.read(spec.key(0)), manifest)
    return manifest


def check_chunks(location: Location, array: ArraySpec, first: int, lines: Manifest) -> Iterator[Damage | None]:
    """Read chunk files and compare every byte with checksum and manifest; None for a sound one.

    `lines` is the part of the manifest that begins with chunk `first`.
    """
    for number in range(len(lines)):
        key = array.key(first + number)
        try:
            file = location.read(key)
            check_against(lines, number, *record(file))
            strip_crc(file)
        except FileNotFoundError:
            yield Damage(key, "missing")
        except DamagedChunk as damage:
            yield Damage(key, str(damage))
        except OSError as error:
            yield Damage(key, f"cannot be read: {error}")
        else:
            yield None
