"""A table of a page of the docs, which is replaced by one of newer figures."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def replace_table(page: Path, head: str, table: str) -> None:
    """Replace the Markdown table of a page that begins with `head`."""
    before, known, after = page.read_text("utf-8").partition(head)
    if not known:
        raise ValueError(f"{page}: has no table that begins with {head.splitlines()[0]!r}")
    page.write_text(before + table + after[after.index("\n\n") + 1 :], "utf-8")
