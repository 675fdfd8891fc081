"""URLs as others may see them, in errors, logs, events and records: without what opens a store.

That is a user with a password before the host, and a query, which may hold a signature.
"""

from __future__ import annotations

import re

_USER = re.compile(r"://[^/\s]*@")
_QUERY = re.compile(r"(://[^\s?]+)\?\S+?(?=(?::\d+)?:?(?:\s|$))")  # a line's number and a colon may follow it


def public_url(url: str) -> str:
    """A URL without what must not enter a record: user and password, and the query that may hold a signature.

    >>> from daskfs.urls import public_url
    >>> public_url("s3://key:secret@bucket/x.zarr?token=1")
    's3://bucket/x.zarr'
    """
    return re.sub(r"://[^/]*@", "://", url).split("?")[0] if "://" in url else url


def discreet(text: str) -> str:
    """Text that may hold URLs, without the users, passwords and signatures in them.

    >>> from daskfs.urls import discreet
    >>> discreet("https://me:secret@host/x.vw?sig=secret: no such file")
    'https://host/x.vw?…: no such file'
    """
    return _QUERY.sub(r"\1?…", _USER.sub("://", text))
