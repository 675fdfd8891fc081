"""published.json: which run of a job counts. A small file that points to it, replaced in one step.

``{"files": {"selection.json": SHA-256, …}, "job": NAME, "run": "runs/KEY", "version": 1}``: whoever follows it finds
the old run or the new one, whole; with the digests others can tell that nobody has touched it since.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from daskfs.errors import OptionError, SelectionError, public_url
from daskfs.selection.saved import RECORD
from daskfs.store.places.location import Location

PUBLISHED, VERSION = "published.json", 1
_MOST_BYTES = 1 << 16


def publish(pointer: Location, run: Location, files: Iterable[str], job: str) -> bool:
    """Let the file `pointer` stands for point to a run; False if it does so already.

    Parameters
    ----------
    pointer
        The file itself, as a place.
    run
        The folder of the run.
    files
        The run's files that are published, by name.
    job
        Whose run it is.
    """
    folder, key = _split(pointer)
    hashes = {name: hashlib.sha256(run.read(name)).hexdigest() for name in files}
    record = {"files": hashes, "job": job, "run": _address_from(folder, run), "version": VERSION}
    raw = (json.dumps(record, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
    if folder.exists(key) and folder.read(key) == raw:
        return False
    folder.write(key, raw)
    return True


def check_replaceable(pointer: Location) -> None:
    """OptionError if a file is there that points to no run: it is somebody else's."""
    folder, key = _split(pointer)
    try:
        if folder.exists(key):
            _address(folder.read(key, 0, _MOST_BYTES))
    except (ValueError, TypeError, KeyError, RecursionError, IsADirectoryError):
        raise OptionError(f"{pointer.url}: is there already, and points to no run; choose another name") from None


def _address_from(folder: Location, run: Location) -> str:
    """Relative to the pointer's folder if the run lies in it, so that both can be moved together."""
    if not run.is_within(folder):
        return public_url(run.url)
    if run.path is None or folder.path is None:
        return run.url[len(folder.url) + 1 :]
    return run.path.resolve().relative_to(folder.path.resolve()).as_posix()  # "./", ".." and links are other spellings


def followed(location: Location) -> Location:
    """The run that counts, of a job's folder or of the file that points to it; any other place is itself."""
    try:
        if location.url.endswith(".json"):
            folder, key = _split(location)
        elif location.exists(RECORD) or not location.exists(PUBLISHED):
            return location
        else:
            folder, key = location, PUBLISHED
        address = _address(folder.read(key, 0, _MOST_BYTES))
    except OSError as error:
        raise SelectionError(f"{location.url}: cannot be read: {error}") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise SelectionError(f"{folder.url}/{key}: does not point to a run ({error}); run the job again") from error
    return Location(address, location.options) if "://" in address or address[:1] == "/" else folder.below(address)


def _address(raw: bytes) -> str:
    """Where a pointer points to; ValueError, TypeError or KeyError if it is none of ours."""
    record = json.loads(raw)
    if record["version"] != VERSION:
        raise ValueError(f"version {record['version']!r:.20}")
    address = record["run"]
    if not isinstance(address, str) or ".." in address.split("/"):
        raise ValueError(f"run {address!r:.80}")
    return address


def _split(pointer: Location) -> tuple[Location, str]:
    folder, _, key = pointer.url.rpartition("/")
    return Location(folder or ".", pointer.options), key
