"""Types of arguments and flags: paths and words that the shell completes, choices whose errors name the nearest one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import click
from click.shell_completion import CompletionItem

from daskfs.errors import nearest

PATH = click.Path()
"""A path or URL. The shell completes names of files; nothing is checked, since it may be a URL or a glob."""


def with_options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds several options to a command, in this order."""
    return lambda command: reduce(lambda result, option: option(result), reversed(decorators), command)


class Choice(click.Choice[str]):
    """A `click.Choice` whose error names the nearest choice."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        hint = nearest(str(value), self.choices)
        return f"{value!r} is not one of {', '.join(self.choices)}{hint}"


class WordOrValue(click.ParamType[str]):
    """The type of a flag that takes some words or other values, such as "auto" or a number. The words complete."""

    name = "text"

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
