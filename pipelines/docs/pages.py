"""What mkdocs asks for while it builds the pages: the help of every command, and what to do with links out of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from daskfs.cli import COMMANDS, main

MARK = "<!-- commands -->"
"""Where the help of all commands goes."""
DOCS = Path(__file__).parents[2] / "docs"
_WIDTH = 100
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text of a page as it is to be rendered."""
    return _inside(markdown.replace(MARK, commands()) if MARK in markdown else markdown, page.file.src_path)


def commands() -> str:
    """A section for every command, with what its ``--help`` prints."""
    return "\n".join(f"## daskfs {name}\n\n```text\n{help_of(name)}\n```\n" for name in COMMANDS)


def help_of(name: str) -> str:
    """What ``daskfs NAME --help`` prints."""
    group = click.Context(main, info_name="daskfs", **main.context_settings)
    command = main.get_command(group, name)
    assert command is not None
    return command.get_help(click.Context(command, parent=group, info_name=name, max_content_width=_WIDTH))


def _inside(markdown: str, path: str) -> str:
    """The same with links that lead out of the pages, into the source tree, as plain text: a site has no such files."""

    def plain(link: re.Match[str]) -> str:
        target = (DOCS / path).parent / link[2]
        return link[0] if target.resolve().is_relative_to(DOCS.resolve()) else link[1]

    return _LINK.sub(plain, markdown)
