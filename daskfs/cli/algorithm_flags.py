"""Flags of `daskfs select` and `daskfs plan` for the parameters of the algorithms, and groups of flags in their help.

Every field of an algorithm's dataclass is a flag. The type of the field determines the values of the flag, and the
"Parameters" section of the dataclass's docstring is the help text of the flag.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING
from enum import EnumMeta
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from daskfs.algorithms.registry import default_of, fields_of, parameter_docs, registrations
from daskfs.cli.types import WordOrValue
from daskfs.errors import OptionError, nearest, nearest_or_some
from daskfs.protocol import Algorithm

SHORT = {"n_select": "-k"}
COMMON = {
    "n_select": ("N", "How many features to select; all there are, if they are fewer."),
    "loss": ("LOSS", "auto, squared, logistic, squared_hinge or softmax.  [default: auto, by the target]"),
    "keep": ("NAME,NAME…", "Features that are in the model in any case, and not counted in -k."),
}
"""Metavars and help texts of the parameters of all algorithms that most people need."""
METAVARS = {
    int: "N",
    float: "X",
    str: "TEXT",
    bool: "true|false",
    tuple[str, ...]: "NAME,NAME…",
    types.NoneType: "none",
}
IN_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    tuple[str, ...]: "names",
    types.NoneType: "none",
}
_BOOLEANS = {"true": True, "false": False}


class FlagOfGroup(click.Option):
    """An option that the help of a `CommandWithGroups` shows below the title `group`."""

    def __init__(self, *arguments: Any, group: str, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.group = group


class CommandWithGroups(click.Command):
    """A command whose help shows the flags that most people need first, and the others in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(option, "group", "Options"), []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def common_options(command: Any) -> Any:
    """Add flags for the parameters in `COMMON` to a click command, each with default None."""
    for field, (metavar, text) in reversed(COMMON.items()):
        words = WordOrValue(_words(field, [*registrations()]))
        command = click.option(*_flags(field), metavar=metavar, type=words, help=text)(command)
    return command


def algorithm_options(command: Any) -> Any:
    """Add flags for all other parameters of the algorithms, each with default None, in groups by algorithm."""
    owners: dict[str, list[str]] = {}
    for name, entry in registrations().items():
        for field in fields_of(entry.algorithm):
            owners.setdefault(field, []).append(name)
    groups = sorted(owners.items(), key=lambda item: (-len(item[1]), item[1]))
    for field, names in reversed([(field, names) for field, names in groups if field not in COMMON]):
        command = _option(field, names)(command)
    return command


def make_algorithm(name: str, flags: Mapping[str, Any]) -> Algorithm:
    """Return the algorithm `name` with parameters converted from the strings of command-line flags.

    >>> from daskfs.cli.algorithm_flags import make_algorithm
    >>> make_algorithm("substitution", {"n_select": "10", "ridge": "0.5"}).ridge
    0.5
    """
    values = field_values(name, flags)
    with names_as_flags(values):
        return registrations()[name].algorithm(**values)


def field_values(name: str, flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of the algorithm `name`, converted from the strings of command-line flags."""
    algorithm = registrations()[name].algorithm
    known, kinds = fields_of(algorithm), _hints(algorithm)
    for field in flags:
        if field not in known:
            hint = nearest_or_some(_flag(field), map(_flag, known))
            raise OptionError(f"{_flag(field)}: {name} has no such option{hint}")
    for field in known:
        if field not in flags and default_of(algorithm, field) is MISSING:
            raise OptionError(f"{name} needs {' or '.join(_flags(field))}")
    try:
        return {field: _value(_flag(field), kinds[field], word) for field, word in flags.items()}
    except OptionError as error:
        field = next(field for field in flags if not _knows_values(name, {field: flags[field]}))
        others = [other for other in registrations() if _knows_values(other, {field: flags[field]})]
        if not others:
            raise
        raise OptionError(f"{error}; it is for --algorithm {' or '.join(others)}") from error


def algorithms_with(flags: Mapping[str, Any]) -> list[str]:
    """Return the names of the algorithms that have all of the given flags, or raise OptionError if there is none.

    If only some of these algorithms accept the values of the flags, return only those.
    """
    owners = {field: [name for name, entry in registrations().items() if field in fields_of(entry.algorithm)]
              for field in flags}  # fmt: skip
    common = [name for name in registrations() if all(name in names for names in owners.values())]
    if not common:
        special = {field: names for field, names in owners.items() if len(names) < len(registrations())}
        groups = ", ".join(f"{_flag(field)} ({', '.join(names)})" for field, names in special.items())
        raise OptionError(f"no algorithm has all of these flags: {groups}")
    return [name for name in common if _knows_values(name, flags)] or common


def _knows_values(name: str, flags: Mapping[str, Any]) -> bool:
    """Return whether an algorithm has all of the flags and accepts their values."""
    kinds = _hints(registrations()[name].algorithm)
    if not flags.keys() <= kinds.keys():
        return False
    try:
        for field, word in flags.items():
            _value(_flag(field), kinds[field], word)
    except OptionError:
        return False
    return True


@contextmanager
def names_as_flags(fields: Iterable[str]) -> Iterator[None]:
    """Replace names of Python parameters and classes by command-line flags in the message of an OptionError.

    Three patterns are replaced: a parameter at the beginning, as in ``loss: 'x' is none of …``, a parameter with a
    value, as in ``use method='block'``, and a class after the word "use", as in ``use OnlineSubstitution``.
    """
    try:
        yield
    except OptionError as error:
        text = str(error)
        for field in sorted(fields):
            flag = _flags(field)[0]
            text = re.sub(rf"(?<![\w-]){field}=(?:'([^']*)'|([^\s,;:)]+))", rf"{flag} \1\2", text)
            text = re.sub(rf"^{field}(?=[\s:])", flag, text)
        for name, entry in registrations().items():
            text = re.sub(rf"\buse {entry.algorithm.__name__}\b", f"use --algorithm {name}", text)
        if text == str(error):
            raise
        raise OptionError(text) from error


@cache  # dozens of flags ask for those of four algorithms
def _hints(algorithm: Any) -> dict[str, Any]:
    return get_type_hints(algorithm)


def _flag(field: str) -> str:
    return "--" + field.replace("_", "-")


def _flags(field: str) -> list[str]:
    return [SHORT[field], _flag(field)] if field in SHORT else [_flag(field)]


def _option(field: str, names: list[str]) -> Any:
    """Return the click option for a parameter `field` that the algorithms `names` have."""
    kinds = {_hints(registrations()[name].algorithm)[field]: None for name in names}
    settings: dict[str, Any] = {
        "cls": FlagOfGroup,
        "group": f"Options of {' and '.join(names)}",
        "help": " / ".join({_help(field, name): None for name in names}),
    }
    if bool in kinds:
        return click.option(f"{_flag(field)}/--no-{_flag(field)[2:]}", default=None, **settings)
    metavar, words = "|".join(map(_metavar, kinds)), WordOrValue(_words(field, names))
    return click.option(*_flags(field), metavar=metavar, type=words, **settings)


def _words(field: str, names: Iterable[str]) -> list[str]:
    """Return the words that a parameter of the algorithms `names` takes, for completion by the shell."""
    hints = [_hints(registrations()[name].algorithm) for name in names]
    options = [option for hint in hints if field in hint for option in _alternatives(hint[field])]
    words = [_word_for(option, METAVARS) for option in options if _is_word(option)]
    return list(dict.fromkeys(words))


def _is_word(kind: Any) -> bool:
    return get_origin(kind) is Literal or kind is types.NoneType


def _help(field: str, name: str) -> str:
    algorithm = registrations()[name].algorithm
    default = default_of(algorithm, field)
    text = parameter_docs(algorithm).get(field, "").replace("``", "")
    return text if default is MISSING else f"{text}  [default: {default}]".lstrip()


def _alternatives(kind: Any) -> list[Any]:
    """Return the types of a union type, with a separate Literal for each value of a Literal or an Enum."""
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    words = {part: get_args(part) for part in parts if get_origin(part) is Literal}
    words |= {part: tuple(part) for part in parts if isinstance(part, EnumMeta)}
    return [option for part in parts for option in ([Literal[word] for word in words.get(part, ())] or [part])]


def _metavar(kind: Any) -> str:
    return "|".join(_word_for(option, METAVARS) for option in _alternatives(kind))


def _word_for(kind: Any, words: Mapping[Any, str]) -> str:
    return str(get_args(kind)[0]) if get_origin(kind) is Literal else words[kind]


def _value(flag: str, kind: Any, word: Any) -> Any:
    """Convert the string of a flag to a value of type `kind`, and return a value that is not a string unchanged."""
    if not isinstance(word, str):
        return word
    for option in _alternatives(kind):
        with suppress(ValueError):
            return _read(option, word)
    options = _alternatives(kind)
    expected = " or ".join(_word_for(option, IN_WORDS) for option in options)
    hint = nearest(word, [_word_for(option, METAVARS) for option in options if _is_word(option)])
    raise OptionError(f"{flag}: {word!r:.80} is not {expected}{hint}")


def _read(kind: Any, word: str) -> Any:
    """Convert a string to a simple type (bool, int, float, str, tuple of str, None, Literal), or raise ValueError."""
    if kind == tuple[str, ...]:
        return tuple(filter(None, word.split(",")))
    if kind is bool and word in _BOOLEANS:
        return _BOOLEANS[word]
    if kind not in (int, float, str):
        if word != _word_for(kind, METAVARS):
            raise ValueError(word)
        return None if kind is types.NoneType else word
    value = kind(word)
    if kind is float and not math.isfinite(value):
        raise ValueError(word)
    return value
