"""python pipelines/docs/links.py SITE: whether every link of built pages leads somewhere, and none leads away.

Links to other files must name one, those with a # a place in it; whatever a page loads must be a file of the site, so
that it can be read without network. Addresses in the text may be of other places.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
NOT_LOADED = {"canonical", "prev", "next", "alternate"}
"""Kinds of ``<link>`` that no browser fetches to show a page."""


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that have a name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.names.update(given[key] for key in ("id", "name") if key in given)
        for key, value in given.items():
            if (tag, key) in LOADED and given.get("rel") not in NOT_LOADED:
                self.loads.append(value)
            elif (tag, key) == ("a", "href"):
                self.links.append(value)


@cache
def read(path: Path) -> Page:
    return Page(path.read_text())


def wrong(site: Path) -> Iterator[str]:
    """What is wrong with the pages, in a line each."""
    for path in sorted(site.rglob("*.html")):
        page, where = read(path), path.relative_to(site)
        for link in page.loads:
            if urlsplit(link).netloc:
                yield f"{where}: loads {link}, from elsewhere"
        if path.name == "404.html":  # shown in place of any page; its links begin at the root of a server
            continue
        for link in [*page.links, *page.loads]:
            if reason := _reason(site, path, link):
                yield f"{where}: {link}: {reason}"


def _reason(site: Path, page: Path, link: str) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
    if not target.is_relative_to(site.resolve()):
        return "leads out of the site"
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return "no such file"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).names:
        return "no such place in it"
    return ""


def main() -> None:
    site = Path(sys.argv[1])
    found = list(wrong(site))
    for line in found:
        print(line, file=sys.stderr)
    pages = len(list(site.rglob("*.html")))
    sys.exit(f"{len(found)} bad links" if found else 0 if pages else f"{site}: there are no pages")


if __name__ == "__main__":
    main()
