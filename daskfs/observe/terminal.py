"""The terminal: results go to standard output, messages and progress to standard error."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from daskfs.errors import redact

output = Console(highlight=False)
messages = Console(stderr=True, highlight=False)


def printable(text: str) -> str:
    """Text from a file or a dataset, unable to steer the terminal.

    >>> printable("clear the screen: \\x1b[2J")
    'clear the screen: ?[2J'
    """
    return "".join(character if character.isprintable() else "?" for character in text)


_VERSIONS = "VersionMismatchWarning"  # a table of Dask's: of versions that matter, `check_versions` says a line


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Say what a run warns of like everything else that is said here: in a line, without a place in a file."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", UserWarning)
        yield
    ours = [warning for warning in said if warning.category.__name__ != _VERSIONS]
    for remark in dict.fromkeys(str(warning.message) for warning in ours):  # each once
        messages.print(f"note: {printable(redact(remark))}", markup=False, soft_wrap=True)
