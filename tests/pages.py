"""Pages for people as tests: what their examples, commands, job files and links say must be true."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from daskfs.cli import main

ROOT = Path(__file__).parents[1]
_FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_JOB = {
    "out": 'out = "run"\n',
    "data": '[data]\ntrain = "x.zarr"\n',
    "select": '[select]\nalgorithm = "mission"\nk = 1\n',
}


def load_script(path: str) -> ModuleType:
    """A script of the source tree as a module, which imports what is beside it, as a script does."""
    spec = spec_from_file_location(path.replace("/", "_"), ROOT / f"{path}.py")
    assert spec is not None
    assert spec.loader is not None
    module, folder = module_from_spec(spec), str((ROOT / path).parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def blocks(text: str, language: str = "") -> list[str]:
    """The fenced blocks of a page in a language; those without one by default."""
    return [content for tongue, content in _FENCED.findall(text) if tongue == language]


def run_examples(text: str, file: str) -> None:
    """Run the Python of a page from top to bottom: what one block defines, the next may use."""
    names: dict[str, Any] = {}
    for example in blocks(text, "python"):
        exec(compile(example, file, "exec"), names)


def commands(text: str) -> list[str]:
    """The daskfs command lines of a page, without comments and whatever they are piped into."""
    shell = "\n".join([*blocks(text), *blocks(text, "bash"), *blocks(text, "console")]).replace("\\\n", " ")
    lines = re.findall(r"^(?:\$ )?daskfs ([a-z].*)$", shell, re.MULTILINE)
    return [re.split(r" #| \|| >", line)[0].strip() for line in lines]


def parse_command(line: str) -> None:
    """Let click parse a command line as it would before it is run; what it does not know, it refuses."""
    name, *arguments = shlex.split(line)
    group = click.Context(main, info_name="daskfs")
    command = main.get_command(group, name)
    assert command is not None, name
    command.make_context(name, arguments, parent=group)


def completed_job(text: str) -> str:
    """A job file, with what a snippet leaves out because it is about something else."""
    given = tomllib.loads(text)
    missing = [key for key in _JOB if key not in given and not (key == "data" and "ingest" in given)]
    head = [_JOB[key] for key in missing if key == "out"]
    return "".join([*head, text, *(_JOB[key] for key in missing if key != "out")])


def links(text: str) -> list[str]:
    """Where a page's links and pictures lead within the tree: paths, with or without a place in them."""
    outside = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", text))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", outside) if "://" not in link]


def check_link(page: Path, link: str) -> None:
    """AssertionError if a link leads nowhere."""
    path, _, place = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    assert target.exists(), f"{page.name}: {link}"
    if place and target.suffix == ".md":
        assert place in places(target.read_text()), f"{page.name}: {link}"


def places(text: str) -> set[str]:
    """The anchors of a page's headings, as mkdocs and GitHub make them."""
    titles = re.findall(r"^#+ (.+)$", _FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}
