"""What an object store's refusal means: it will pass, something is not there, or somebody has to do something.

The errors of obstore share little but their text, which may quote the server's answer; none of it is passed on but
the status, the server's own word for it (``NoSuchBucket``) and the address that was asked.
"""

from __future__ import annotations

import re

from obstore.exceptions import AlreadyExistsError, NotSupportedError, PreconditionError

from daskfs.errors import StorageError, public_url
from daskfs.store.places.retries import TransientError

_STATUS = re.compile(r"status code: (\d{3})([^:\n<]{0,40})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_HOST = re.compile(r"performing \w+ (https?://[^/\s]*)")
_WITHOUT_STATUS = re.compile(r"HTTP error: ([\w ,.'-]{1,100})")
_METADATA_SERVICES = ("169.254.169.254", "metadata.google", "169.254.170.2")
_NO_SUCH_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_PASSING = {408, 409, 425, 429}  # and all from 500 on
_SECONDS_WRONG = {"RequestTimeTooSkewed"}
_RETRIED_CODES = {"RequestTimeout", "SlowDown", "IncompleteBody"}  # of a status that says less


class NotAsExpected(Exception):
    """A conditional write whose condition does not hold."""


class NotConditional(Exception):
    """A store that knows no conditional writes."""


def meaning(error: Exception, where: str, bucket: str) -> Exception:
    """The error to raise in place of one of obstore's."""
    text = str(error).split("Debug source", 1)[0]
    status, code = _STATUS.search(text), _CODE.search(text)
    number, word = int(status[1]) if status else 0, code[1] if code else ""
    if word in _NO_SUCH_BUCKET:
        return StorageError(f"{where}: there is no bucket {bucket!r}; create it, or check the name and the endpoint")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(f"{where}: not there")
    if isinstance(error, AlreadyExistsError | PreconditionError):
        return NotAsExpected(where)
    if isinstance(error, NotSupportedError) or number == 501:
        return NotConditional(where)
    if any(service in text for service in _METADATA_SERVICES):
        return StorageError(f"{where}: no credentials; set AWS_ACCESS_KEY_ID and so on, or give storage_options")
    said = f"{number}{status[2].rstrip()}{f', {word}' if word else ''}" if status else ""
    if word in _SECONDS_WRONG:
        return StorageError(f"{where}: refused ({said}); set the clock of this machine")
    if number in (401, 403):
        return StorageError(f"{where}: refused ({said}); check the credentials and what they allow")
    if number in _PASSING or number >= 500 or word in _RETRIED_CODES:
        return TransientError(f"the store answers {said}")
    if number in (301, 307):
        return StorageError(f"{where}: the bucket is in another region; set AWS_REGION, or the option region")
    if number:
        return StorageError(f"{where}: the store answers {said}; check the address and the options")
    if "builder error" in text:
        return StorageError(f"{where}: the endpoint is no address that can be asked; check the options")
    host, how = _HOST.search(text), _WITHOUT_STATUS.search(text)
    reason = how[1] if how else "the connection was lost"
    return TransientError(f"no answer from {public_url(host[1])} ({reason})" if host else reason)
