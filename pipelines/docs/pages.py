"""Hooks of mkdocs: fill in pages of algorithms, their reference and the help of commands; treat links to sources."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

import daskfs.sklearn
from daskfs.algorithms.registry import ALGORITHMS, registration, registrations
from daskfs.cli import COMMANDS, main

MARK = "<!-- commands -->"
"""Where the help of all commands goes."""
REPORTS = "<!-- reports -->"
"""Where links to the reports of a page of the gallery go, if `make gallery` has written them."""
DOCS = Path(__file__).parents[2] / "docs"
_WIDTH = 100
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def on_config(config: Any, **_: Any) -> None:
    """Put a page for every registered algorithm into the navigation."""
    pages = [{entry.words.title: f"algorithms/{entry.name}.md"} for entry in registrations().values()]
    config.nav = [{"Algorithms": pages} if "Algorithms" in item else item for item in config.nav]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page as it is to be rendered."""
    return _inside(fill_in(markdown).replace(REPORTS, reports(Path(page.file.src_path))), page.file.src_path)


def fill_in(markdown: str) -> str:
    """Return the text of a page with generated parts in place of their marks."""
    for mark, text in {MARK: commands, "<!-- algorithms -->": algorithms, "<!-- estimators -->": estimators}.items():
        if mark in markdown:
            markdown = markdown.replace(mark, text())
    return markdown


def algorithms() -> str:
    """Return the reference of every registered algorithm, as mkdocstrings reads it."""
    modules = {name: registration(name).algorithm.__module__ for name in ALGORITHMS}
    return "\n".join(f"::: {module}.{name}\n    options: {{members: false}}" for name, module in modules.items())


def estimators() -> str:
    """Return the reference of every estimator, as mkdocstrings reads it."""
    return "\n".join(f"::: daskfs.sklearn.{name}\n    options: {{members: false}}" for name in daskfs.sklearn.__all__)


def commands() -> str:
    """Return a section for every command, with what its ``--help`` prints."""
    return "\n".join(f"## daskfs {name}\n\n```text\n{help_of(name)}\n```\n" for name in COMMANDS)


def reports(page: Path) -> str:
    """Return a line with links to the reports that the commands of a page wrote."""
    files = sorted((DOCS / page.parent / "reports").glob(f"{page.stem}-*.html"))
    links = [f"[{file.stem.partition('-')[2]}](reports/{file.name})" for file in files]
    return f"The report of each selection: {', '.join(links)}." if links else ""


def help_of(name: str) -> str:
    """Return what ``daskfs NAME --help`` prints."""
    group = click.Context(main, info_name="daskfs", **main.context_settings)
    command = main.get_command(group, name)
    assert command is not None
    return command.get_help(click.Context(command, parent=group, info_name=name, max_content_width=_WIDTH))


def _inside(markdown: str, path: str) -> str:
    """Return the text with links into the source tree as plain text: a site has no such files."""

    def plain(link: re.Match[str]) -> str:
        target = (DOCS / path).parent / link[2]
        return link[0] if target.resolve().is_relative_to(DOCS.resolve()) else link[1]

    return _LINK.sub(plain, markdown)
