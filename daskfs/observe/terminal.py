"""The terminal: results go to standard output, messages and progress to standard error."""

from __future__ import annotations

from rich.console import Console

output = Console(highlight=False)
messages = Console(stderr=True, highlight=False)


def printable(text: str) -> str:
    """Text from a file or a dataset, unable to steer the terminal.

    >>> printable("clear the screen: \\x1b[2J")
    'clear the screen: ?[2J'
    """
    return "".join(character if character.isprintable() else "?" for character in text)
