"""Run the commands that a page shows, and compare what they print with what the page says they print.

A block of a page that is marked `console` has commands after `$ `, and below each what it prints, shortened: a line `…`
stands for any number of lines, and `…` within a line for any text. Numbers with a decimal point may differ by two
percent, since processors round differently; the number of spaces does not count.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TOLERANCE = 0.02
COLUMNS = "110"
_BLOCK = re.compile(r"^```console[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_DECIMAL = re.compile(r"[+-]?\d*\.\d+")
_PIECE = re.compile(rf"(…|\s+|{_DECIMAL.pattern})")


class Command(NamedTuple):
    """A command of a page, and the lines that the page shows as its output."""

    line: str
    shown: list[str]


def commands_of(page: str) -> list[Command]:
    """Return the commands in the console blocks of a page, in order."""
    found: list[Command] = []
    for block in _BLOCK.findall(page):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Command(line[2:].split("  #")[0].strip(), []))
            elif line.strip():
                found[-1].shown.append(line)
    return found


def run(command: Command, folder: Path) -> list[str]:
    """Run a command in a folder, and return the lines that it should have printed and did not."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        command.line,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": COLUMNS},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        return [f"exit code {done.returncode}: {command.line}", *done.stdout.splitlines()[-20:]]
    return list(missing(command.shown, done.stdout.splitlines()))


def missing(shown: list[str], printed: list[str]) -> Iterator[str]:
    """Yield the shown lines that were not printed, in the order of the page."""
    at = 0
    for line in shown:
        if line.strip() == "…":
            continue
        found = next((number for number in range(at, len(printed)) if is_alike(line, printed[number])), None)
        if found is None:
            yield line
        else:
            at = found + 1


def is_alike(shown: str, printed: str) -> bool:
    """Return True if a line of a page is what was printed, but for rounding, spaces and what `…` leaves out."""
    pieces = [piece for piece in _PIECE.split(shown.strip()) if piece]
    match = re.fullmatch("".join(map(_pattern, pieces)), printed.strip())
    if match is None:
        return False
    expected = [float(piece) for piece in pieces if _DECIMAL.fullmatch(piece)]
    found = [float(number) for number in match.groups()]
    return all(abs(one - two) <= TOLERANCE * abs(one) for one, two in zip(expected, found, strict=True))


def _pattern(piece: str) -> str:
    if piece == "…":
        return ".*"
    if piece.isspace():
        return r"\s+"
    return f"({_DECIMAL.pattern})" if _DECIMAL.fullmatch(piece) else re.escape(piece)
