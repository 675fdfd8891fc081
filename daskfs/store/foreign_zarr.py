"""The Zarr store of a folder that daskfs did not write: the metadata are checked before Zarr sees them.

The module imports Zarr, which takes a fifth of a second. The modules that may do without Zarr import it where needed.
"""

from __future__ import annotations

from typing import Any

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from daskfs.store.dataset.json_checks import parse_json
from daskfs.store.dataset.layout import MOST_METADATA
from daskfs.store.places.zarr_store import LocationStore

_METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


class ForeignStore(LocationStore):
    """A folder of others as a read-only Zarr store, in which a missing chunk has the fill value, as in Zarr.

    Reading raises ValueError for metadata that are no JSON, nested too deeply, or name pickle as a codec, and
    `TooLarge` for metadata of more than `MOST_METADATA` bytes.
    """

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        try:
            return await super().get(key, prototype, byte_range)
        except FileNotFoundError:
            return None

    def _read(self, key: str, byte_range: ByteRequest | None) -> bytes:
        if key.rsplit("/", 1)[-1] not in _METADATA:
            return super()._read(key, byte_range)
        raw = self.location.read(key, most=MOST_METADATA)
        if _names_pickle(parse_json(raw)):
            raise ValueError(f"{key}: is stored as pickles, which can run code; write it without")
        return raw


def _names_pickle(value: Any) -> bool:
    """Return whether an object in a JSON value has the ``id`` of the codec that executes what it decodes."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if value.get("id") == "pickle" or value.get("name") == "numcodecs.pickle":
                return True
            left += value.values()
        elif isinstance(value, list):
            left += value
    return False
