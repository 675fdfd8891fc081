"""Find source files, open source files with decompression, and read whole lines in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import fsspec
import numpy as np
from numpy.typing import NDArray

from daskfs.errors import OptionError, SourceError, StorageError, hide_secrets, public_url
from daskfs.store.ingest.local_sources import is_local, local_file, local_files
from daskfs.store.ingest.object_sources import ObjectFile, find_objects, in_object_store, is_hidden
from daskfs.store.places.local import open_regular
from daskfs.store.places.location import Location
from daskfs.store.places.options import StorageOptions
from daskfs.store.places.retries import mark_answered

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BOM = b"\xef\xbb\xbf"
_LOCAL: Any = fsspec.filesystem("file")


class _GzipFile(gzip.GzipFile):
    """A `gzip.GzipFile` that raises EOFError for an empty file, as gunzip does."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw)
        if not self.peek(1) and raw.tell() == 0:
            raise EOFError("no bytes at all")


_OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": _GzipFile,
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": zstd.ZstdFile,
}
_STAMPS = ("etag", "generation", "contentmd5", "mtime", "lastmodified", "created")
_DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, zstd.ZstdError)


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """How large one line, record or document of a source may be, and how many columns a table of text may have."""

    line_bytes: int = 1 << 28  # 256 MB: a file with a longer "line" is binary
    columns: int = 100_000


@dataclass(frozen=True, slots=True)
class Source:
    """One source file of an ingest, with the size and the fingerprint of the file when the ingest was planned."""

    url: str
    size: int
    fingerprint: str  # differs after the file has changed
    options: StorageOptions = field(default_factory=StorageOptions)
    limits: SourceLimits = field(default_factory=SourceLimits)

    def __repr__(self) -> str:
        return f"<Source {public_url(self.url)}, {self.size} bytes>"  # Dask logs the arguments of tasks that fail

    @property
    def compression(self) -> str | None:
        """The compression suffix of the file name (``".gz"``, ``".bz2"``, ``".xz"`` or ``".zst"``), or None."""
        return next((suffix for suffix in _OPENERS if self.url.endswith(suffix)), None)

    @property
    def name(self) -> str:
        """The name of the file without folders and suffixes."""
        name = self.url.rstrip("/").rsplit("/", 1)[-1]
        if self.compression:
            name = name[: -len(self.compression)]
        return name.rsplit(".", 1)[0] if "." in name.lstrip(".") else name

    @property
    def folder(self) -> str:
        """The name of the folder that contains the source file."""
        return self.url.rsplit("/", 2)[-2] if "/" in self.url else ""

    def check_unchanged(self) -> None:
        """Raise SourceError if the file has changed since the ingest was planned."""
        if _fingerprint(self._info()) != self.fingerprint:
            raise SourceError(f"{self.url}: changed while it was read; run the ingest again")

    def _info(self) -> Mapping[str, Any]:
        """Return the current metadata of the file from the file system or object store."""
        if in_object_store(self.url, self.options):
            return next(find_objects(self.url, self.options))
        if is_local(self.url):
            return local_file(self.url)
        fs, path = fsspec.core.url_to_fs(self.url, **self.options)
        fs.invalidate_cache()
        info: Mapping[str, Any] = fs.info(path)
        return info

    def _raw(self, stop: int | None) -> Any:
        if in_object_store(self.url, self.options):
            mark_answered(self.url)  # or the source would not have been found
            # Buffered, because Arrow expects a read to return all bytes that it asks for.
            return io.BufferedReader(ObjectFile(Location(self.url, self.options), self.size, stop), 1 << 16)
        if is_local(self.url):
            return io.BufferedReader(open_regular(self.url), 1 << 16)
        fs, path = fsspec.core.url_to_fs(self.url, **self.options)
        # fsspec's memory file system has one file object for all readers, so threads would move each other's position.
        return io.BytesIO(fs.cat_file(path)) if fs.protocol == "memory" else fs.open(path, "rb")

    @contextmanager
    def open(self, stop: int | None = None) -> Iterator[IO[bytes]]:
        """Open the file for reading decompressed bytes, and raise SourceError if the compressed data is damaged.

        Bytes beyond `stop` are not requested in advance from an object store.
        """
        try:
            with self._raw(stop) as raw:
                if self.compression is None:
                    yield raw
                else:
                    with _OPENERS[self.compression](raw) as plain:
                        yield plain
        except _DAMAGED as damage:
            raise SourceError(f"{self.url}: the compressed data is damaged or cut short ({damage})") from damage
        except OSError as error:
            if re.search("Invalid data stream|Compressed file ended", str(error)):  # bz2 has no error of its own
                raise SourceError(f"{self.url}: the compressed data is damaged or cut short") from error
            raise SourceError(f"{self.url}: cannot be read: {error}") from error


_FIRST_BYTES = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh": ".bz2", b"\xfd7zXZ\0": ".xz"}


def spool(stream: IO[bytes], folder: Path) -> Path:
    """Write a stream to the file ``folder/KEY/stdin``, and return its path.

    KEY is a digest of the bytes, and the file always has the same time, so that the same bytes are recognised as the
    same source later. If the first bytes show a compression, its suffix is added to the name of the file.
    """
    digest, part = hashlib.sha256(), folder / uuid4().hex[:12]
    part.mkdir(parents=True)
    try:
        first = stream.read(1 << 20)
        suffix = next((suffix for magic, suffix in _FIRST_BYTES.items() if first.startswith(magic)), "")
        with open(part / f"stdin{suffix}", "wb") as file:
            while first:
                digest.update(first)
                file.write(first)
                first = stream.read(1 << 20)
        os.utime(file.name, (1, 1))  # 0 would be no time
        whole = folder / digest.hexdigest()[:12]
        shutil.rmtree(whole, ignore_errors=True)  # of an earlier run
        part.rename(whole)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return whole / f"stdin{suffix}"


@dataclass(frozen=True, slots=True)
class SourcePart:
    """A part of one source file: the rows that start in bytes ``start`` to ``stop`` (end of file if None)."""

    source: Source
    start: int = 0
    stop: int | None = None
    size: int | None = None  # in bytes, if start and stop count something else

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes of this part of a source file."""
        if self.size is not None:
            return self.size
        return (self.source.size if self.stop is None else self.stop) - self.start


def total_bytes(sources: Sequence[Source]) -> int:
    """Return the size of all files, counting a byte of a compressed file as four bytes."""
    return sum(source.size * (4 if source.compression else 1) for source in sources)


def find_sources(
    patterns: Sequence[str], options: Mapping[str, Any] | None = None, leave_out: Sequence[str] = ()
) -> list[Source]:
    """Return the source files that match the paths, folders, globs and URLs, without duplicates and in a stable order.

    Files in a folder are ignored if they are hidden or their names begin with ``_``, as other programs name files
    without data. Files below the folders `leave_out` are ignored unless they are named themselves.
    """
    result: dict[str, Source] = {}
    storage_options = StorageOptions(options)
    for pattern in patterns:
        hide_secrets(str(pattern))
        expanded = _expand(str(pattern), storage_options)
        sources = [
            source
            for source in expanded
            if source.url == pattern or not any(_is_below(source.url, folder) for folder in leave_out)
        ]
        if not sources:
            raise SourceError(f"{pattern}: no file matches")
        for source in sorted(sources, key=lambda source: source.url):
            result.setdefault(source.url, source)
    return list(result.values())


def _is_below(url: str, folder: str) -> bool:
    return url.startswith(folder.rstrip("/") + "/") or url.startswith(os.path.abspath(folder) + "/")


def _expand(pattern: str, options: StorageOptions) -> Iterator[Source]:
    try:
        if in_object_store(pattern, options):
            for info in find_objects(pattern, options):
                yield Source(info["name"], int(info["size"]), _fingerprint(info), options)
            return
        if is_local(pattern):
            fs, path, below = _LOCAL, _LOCAL._strip_protocol(pattern), local_files
        else:
            fs, path = fsspec.core.url_to_fs(pattern, **options)
            below = partial(_files_below, fs)
        # A file name may look like a pattern, after the shell has expanded one.
        is_glob = fsspec.core.has_magic(path) and not fs.exists(path)
        infos = [info for p in (fs.glob(path) if is_glob else [path]) for info in below(p)]
    except FileNotFoundError:
        raise SourceError(f"{pattern}: no such file") from None
    except (StorageError, OptionError, SourceError):
        raise
    except Exception as error:  # the errors of file systems have no common base class
        raise SourceError(f"{pattern}: {error}") from error
    for info in infos:
        url = info["name"] if fs is _LOCAL else fs.unstrip_protocol(info["name"])
        yield Source(url, int(info["size"] or 0), _fingerprint(info), options)


def _fingerprint(info: Mapping[str, Any]) -> str:
    """Return the size and a stamp (ETag or modification time) of a file, which change with the file's content."""
    facts = {key.lower().replace("-", "").replace("_", ""): value for key, value in info.items()}
    stamp = next((facts[key] for key in _STAMPS if facts.get(key)), "")
    return f"{info['size']}:{stamp}"


def _files_below(fs: fsspec.AbstractFileSystem, path: str) -> Iterator[dict[str, Any]]:
    info = fs.info(path)
    if info["type"] == "directory":
        for name, member in fs.find(path, detail=True).items():
            if not is_hidden(name.removeprefix(info["name"]).split("/")):
                yield member
    else:
        yield info


@dataclass(frozen=True, slots=True)
class Window:
    """Whole lines of a source, ending with a newline, in a buffer that the next window overwrites."""

    text: NDArray[np.uint8]
    offset: int  # of text[0] in the decompressed file


def line_windows(part: SourcePart, window_bytes: int, separator: bytes = b"\n") -> Iterator[Window]:
    """Yield the lines that start in the byte range of a part, in windows of about `window_bytes` bytes.

    A line belongs to the byte range that holds the line's first byte, so that every line belongs to exactly one range.
    `separator` may be longer than a newline, as in ``b"\\n>"``, where the newline ends a record and the rest begins the
    next record.
    """
    with part.source.open(part.stop) as file:
        offset = _first_start(file, part.start, separator) if part.start else 0
        yield from _LineWindows(file, part, offset, window_bytes, separator)


def _first_start(file: IO[bytes], start: int, separator: bytes) -> int:
    """Move the file to the first line that begins at or after byte `start`, and return that position."""
    at = start - 1  # one byte earlier: the line that starts exactly at `start` counts
    tail = b""
    file.seek(at)
    while piece := file.read(1 << 16):
        text = tail + piece
        if (position := text.find(separator)) >= 0:
            at += position + 1
            break
        tail = text[-(len(separator) - 1) :] if len(separator) > 1 else b""
        at += len(text) - len(tail)
    else:
        at += len(tail)
    file.seek(at)
    return at


class _LineWindows:
    """Reads windows of whole lines into one reused buffer, and moves an incomplete last line to the buffer's front."""

    def __init__(self, file: IO[bytes], part: SourcePart, offset: int, window_bytes: int, separator: bytes) -> None:
        self._file, self._part, self._offset, self._separator = file, part, offset, separator
        self._buffer = bytearray(max(window_bytes, 64))
        self._size = 0

    def __iter__(self) -> Iterator[Window]:
        while True:
            at_end = self._fill()
            stop = self._size if self._part.stop is None else self._part.stop - self._offset
            if self._size == 0 or stop <= 0:
                return
            if self._offset == 0:
                self._check_opening()
            end = self._buffer.find(self._separator, stop - 1, self._size) + 1 if stop < self._size else 0
            final = at_end or end > 0
            if end == 0:
                end = self._size if at_end else self._buffer.rfind(self._separator, 0, self._size) + 1
            if end == 0:  # the line continues beyond the buffer
                if self._size == len(self._buffer) - 1:
                    self._grow()
                continue
            yield self._window(end)
            if final:
                return
            rest = self._size - end
            self._buffer[:rest] = self._buffer[end : self._size]  # same length, so the buffer is not reallocated
            self._size = rest
            self._offset += end

    def _fill(self) -> bool:
        """Fill the buffer from the file, and return True at the end of the file.

        The last byte of the buffer stays free, for a newline that is appended if the file does not end with a newline.
        """
        room = len(self._buffer) - 1
        if self._part.stop is not None:  # read little more than the range
            room = min(room, max(self._part.stop - self._offset, 2 * self._size) + (1 << 16))
        with memoryview(self._buffer) as view:
            while self._size < room:
                with view[self._size : room] as free:
                    got = self._file.readinto(free)  # type: ignore[attr-defined]  # every opener's file has it
                if not got:
                    return True
                self._size += got
        return False

    def _window(self, end: int) -> Window:
        begin = len(BOM) if self._offset == 0 and self._buffer.startswith(BOM) else 0
        offset = self._offset + begin
        if self._buffer[end - 1] != 10:
            self._buffer[end] = 10
            end += 1
        return Window(np.frombuffer(self._buffer, np.uint8)[begin:end], offset)

    def _grow(self) -> None:
        longest = self._part.source.limits.line_bytes
        if self._size >= longest:
            raise SourceError(
                f"{self._part.source.url}: no line or record ends within {longest >> 20} MB after byte "
                f"{self._offset}; is this a text file of that format? More --memory allows longer lines"
            )
        larger = bytearray(min(2 * len(self._buffer), longest + 1))
        larger[: self._size] = memoryview(self._buffer)[: self._size]
        self._buffer = larger

    def _check_opening(self) -> None:
        if self._buffer.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise SourceError(f"{self._part.source.url}: UTF-16 text; convert it to UTF-8 first")


def line_number(source: Source, offset: int) -> int:
    """Return the number (from 1) of the line that holds byte `offset`, for an error message."""
    lines, left = 1, offset
    with source.open() as file:
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            lines += piece.count(b"\n")
            left -= len(piece)
    return lines


def first_lines(source: Source, count: int = 100) -> list[bytes]:
    """Return the first `count` lines of a source without line ends."""
    with source.open() as file:
        lines = io.BytesIO(file.read(1 << 20)).readlines()[:count]
    return [line.removeprefix(BOM).rstrip(b"\r\n") for line in lines]
