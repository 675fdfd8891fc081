"""Output on the terminal: results go to standard output, messages and progress to standard error."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from daskfs.errors import redact


class PipeConsole(Console):
    """A console that raises BrokenPipeError if the reader of its output has gone away; rich would end the process."""

    def on_broken_pipe(self) -> None:
        raise  # called while a BrokenPipeError is handled


output = PipeConsole(highlight=False)
messages = PipeConsole(stderr=True, highlight=False)


def program() -> str:
    """Return the command that starts this program: ``daskfs``, or its path if it is not on the shell's search path."""
    name = Path(sys.argv[0]).name
    if name != "daskfs":  # a test, or somebody's script
        return "daskfs"
    path = shutil.which(name)
    is_found = path is not None and os.path.realpath(path) == os.path.realpath(sys.argv[0])
    return name if is_found else shlex.quote(sys.argv[0])


def printable(text: str) -> str:
    """Return text with ? in place of control characters, which could steer the terminal.

    >>> printable("clear the screen: \\x1b[2J")
    'clear the screen: ?[2J'
    """
    return "".join(character if character.isprintable() else "?" for character in text)


_VERSIONS = "VersionMismatchWarning"  # Dask's table of versions; `check_versions` reports those that matter


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print every distinct warning of the ``with`` block once, as a line without file and line number."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    ours = [warning for warning in caught if warning.category.__name__ != _VERSIONS]
    for remark in dict.fromkeys(str(warning.message) for warning in ours):  # each once
        messages.print(f"note: {printable(redact(remark))}", markup=False, soft_wrap=True)
