"""python pipelines/gallery/text.py OUT.txt: which package a piece of documentation comes from.

The documents are real: the docstrings of the public functions and classes of numpy, scipy, scikit-learn and dask as
they are installed, in pieces of a paragraph. Lines are `package<TAB>text`. Names of the packages and lines of code are
left out, since they would give the answer away.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

PACKAGES = {"numpy": ["numpy"], "scipy": ["scipy"], "scikit-learn": ["sklearn"], "dask": ["dask", "distributed"]}
GIVEAWAY = re.compile(r"\b(numpy|np|scipy|sp|sklearn|scikit|learn|dask|da|dd|distributed)\b", re.IGNORECASE)
SHORTEST = 12


def docstrings(package: str) -> Iterator[str]:
    """Yield the documentation of the public names of a package and its public modules."""
    modules = [importlib.import_module(package)]
    for found in pkgutil.iter_modules(modules[0].__path__, f"{package}."):
        if not re.search(r"\._|tests?$|conftest|setup", found.name):
            try:
                modules.append(importlib.import_module(found.name))
            except Exception:  # it needs what is not installed
                continue
    for module in modules:
        members = {name: member for name, member in vars(module).items() if name[0] != "_" and callable(member)}
        for member in members.values():
            if (getattr(member, "__module__", None) or "").startswith(package):
                yield inspect.getdoc(member) or ""
                if inspect.isclass(member):
                    yield from (inspect.getdoc(part) or "" for key, part in vars(member).items() if key[0] != "_")


def paragraphs(package: str) -> list[str]:
    """Return the distinct paragraphs of prose, in words of lower case."""
    found = set()
    for text in docstrings(package):
        for paragraph in re.split(r"\n\s*\n", text):
            prose = " ".join(line for line in paragraph.splitlines() if ">>>" not in line)
            words = re.findall(r"[a-z]{2,}", GIVEAWAY.sub(" ", prose).lower())
            if len(words) >= SHORTEST:
                found.add(" ".join(words))
    return sorted(found)


def main(out: str) -> None:
    warnings.simplefilter("ignore")
    lines = [
        f"{label}\t{text}" for label, names in PACKAGES.items() for package in names for text in paragraphs(package)
    ]
    Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
