"""A location as a store of the package zarr, for arrays that zarr or xarray reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from daskfs.errors import public_url
from daskfs.store.places.location import Location


class LocationStore(Store):
    """A location as a read-only Zarr store, which reads with the retries and errors of `Location`.

    A pickle of the store contains no secret, and so the Dask graphs of lazy arrays contain no secret.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, location: Location) -> None:
        super().__init__(read_only=True)
        self.location = location

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.location == other.location

    def __str__(self) -> str:
        return public_url(self.location.url)

    __repr__ = __str__

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        try:
            return prototype.buffer.from_bytes(await asyncio.to_thread(self._read, key, byte_range))
        except FileNotFoundError:
            if "/c/" in key:  # a chunk, which zarr would replace by fill values
                raise
            return None

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self.location.exists, key)

    async def set(self, key: str, value: Buffer) -> None:
        raise PermissionError("read-only")

    async def delete(self, key: str) -> None:
        raise PermissionError("read-only")

    async def list(self) -> AsyncIterator[str]:
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        async for name in self.list_dir(prefix):
            key = f"{prefix.strip('/')}/{name}".strip("/")
            inner = [member async for member in self.list_prefix(key)]
            for member in inner or [key]:
                yield member

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        for name in await asyncio.to_thread(self.location.members, prefix.strip("/")):
            yield name

    def _read(self, key: str, byte_range: ByteRequest | None) -> bytes:
        match byte_range:
            case RangeByteRequest():
                return self.location.read(key, byte_range.start, byte_range.end)
            case OffsetByteRequest():
                return self.location.read(key, byte_range.offset)
            case SuffixByteRequest():
                return self.location.read(key, max(self.location.size(key) - byte_range.suffix, 0))
        return self.location.read(key)
