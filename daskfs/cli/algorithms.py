"""A flag for every field of every algorithm.

Flags, their values and their help come from the algorithm's dataclass: its fields, their types and the "Parameters" of
its docstring.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING
from enum import EnumMeta
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from daskfs.algorithms.registry import default_of, fields_of, parameter_docs, registrations
from daskfs.errors import OptionError
from daskfs.protocol import Algorithm

SHORT = {"n_select": "-k"}
METAVARS = {int: "N", float: "X", str: "TEXT", types.NoneType: "none"}
IN_WORDS = {int: "a whole number", float: "a number", str: "text", types.NoneType: "none"}


def algorithm_options(command: Any) -> Any:
    """Decorate a command with the flags of all algorithms; those not given are None."""
    owners: dict[str, list[str]] = {}
    for name, entry in registrations().items():
        for field in fields_of(entry.algorithm):
            owners.setdefault(field, []).append(name)
    for field, names in reversed(owners.items()):
        command = _option(field, names)(command)
    return command


def make_algorithm(name: str, given: Mapping[str, Any]) -> Algorithm:
    """The algorithm of that name with these of its fields; words from a command line become values.

    >>> make_algorithm("substitution", {"n_select": "10", "ridge": "0.5"}).ridge
    0.5
    """
    algorithm = registrations()[name].algorithm
    known, kinds = fields_of(algorithm), get_type_hints(algorithm)
    for field in given:
        if field not in known:
            raise OptionError(f"{_flag(field)}: {name} has no such option; it takes {', '.join(map(_flag, known))}")
    for field in known:
        if field not in given and default_of(algorithm, field) is MISSING:
            raise OptionError(f"{name} needs {' or '.join(_flags(field))}")
    return algorithm(**{field: _value(_flag(field), kinds[field], word) for field, word in given.items()})


def _flag(field: str) -> str:
    return "--" + field.replace("_", "-")


def _flags(field: str) -> list[str]:
    return [SHORT[field], _flag(field)] if field in SHORT else [_flag(field)]


def _option(field: str, names: list[str]) -> Any:
    """The flag of a field that these algorithms have."""
    kinds = {get_type_hints(registrations()[name].algorithm)[field]: None for name in names}
    about = {_about(field, name): None for name in names}
    help_text = " / ".join(about) if len(names) == len(registrations()) else f"{', '.join(names)}: {' / '.join(about)}"
    if bool in kinds:
        return click.option(f"{_flag(field)}/--no-{_flag(field)[2:]}", default=None, help=help_text)
    return click.option(*_flags(field), metavar="|".join(map(_metavar, kinds)), help=help_text)


def _about(field: str, name: str) -> str:
    algorithm = registrations()[name].algorithm
    default = default_of(algorithm, field)
    text = parameter_docs(algorithm).get(field, "").replace("``", "")
    return text if default is MISSING else f"{text}  [default: {default}]".lstrip()


def _alternatives(kind: Any) -> list[Any]:
    """Return the types of a union, with one Literal for every word of a Literal or member of an enumeration."""
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    words = {part: get_args(part) for part in parts if get_origin(part) is Literal}
    words |= {part: tuple(part) for part in parts if isinstance(part, EnumMeta)}
    return [option for part in parts for option in ([Literal[word] for word in words.get(part, ())] or [part])]


def _metavar(kind: Any) -> str:
    return "|".join(_shown(one, METAVARS) for one in _alternatives(kind))


def _shown(kind: Any, words: Mapping[Any, str]) -> str:
    return str(get_args(kind)[0]) if get_origin(kind) is Literal else words[kind]


def _value(flag: str, kind: Any, word: Any) -> Any:
    """The value a word stands for; what is no word, such as a switch gives, is taken as it is."""
    if not isinstance(word, str):
        return word
    for one in _alternatives(kind):
        with suppress(ValueError):
            return _read(one, word)
    expected = " or ".join(_shown(one, IN_WORDS) for one in _alternatives(kind))
    raise OptionError(f"{flag}: {word!r:.80} is not {expected}")


def _read(kind: Any, word: str) -> Any:
    """The value of one plain type that a word stands for; ValueError if it stands for none."""
    if kind not in (int, float, str):
        if word != _shown(kind, METAVARS):
            raise ValueError(word)
        return None if kind is types.NoneType else word
    value = kind(word)
    if kind is float and not math.isfinite(value):
        raise ValueError(word)
    return value
