"""A folder as Zarr sees it, read-only: reads go through `Location`, with its patience and its errors.

It pickles as a location does: secrets stay out of the graphs that dask makes of lazy arrays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from daskfs.errors import public_url

if TYPE_CHECKING:
    from daskfs.store.places.location import Location


class LocationStore(Store):
    """See the module."""

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, location: Location) -> None:
        super().__init__(read_only=True)
        self._location = location

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocationStore) and self._location == other._location

    def __str__(self) -> str:
        return public_url(self._location.url)

    __repr__ = __str__

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        try:
            return prototype.buffer.from_bytes(await asyncio.to_thread(self._read, key, byte_range))
        except FileNotFoundError:
            return None

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self._location.exists, key)

    async def set(self, key: str, value: Buffer) -> None:
        raise PermissionError("read-only")

    async def delete(self, key: str) -> None:
        raise PermissionError("read-only")

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for name in await asyncio.to_thread(self._location.members, prefix.strip("/")):
            key = f"{prefix.strip('/')}/{name}".strip("/")
            inner = [one async for one in self.list_prefix(key)]
            for one in inner or [key]:
                yield one

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        for name in await asyncio.to_thread(self._location.members, prefix.strip("/")):
            yield name

    def _read(self, key: str, byte_range: ByteRequest | None) -> bytes:
        match byte_range:
            case RangeByteRequest():
                return self._location.read(key, byte_range.start, byte_range.end)
            case OffsetByteRequest():
                return self._location.read(key, byte_range.offset)
            case SuffixByteRequest():
                return self._location.read(key, max(self._location.size(key) - byte_range.suffix, 0))
        return self._location.read(key)
