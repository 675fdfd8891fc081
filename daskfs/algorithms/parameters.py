"""A check of the parameters of every algorithm, by the types of its fields."""

from __future__ import annotations

import math
import types
from collections.abc import Collection
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from daskfs.algorithms.keep import names_to_keep
from daskfs.errors import OptionError, check_choice


def check_fields(algorithm: type, params: Any, may_be_zero: Collection[str] = ()) -> None:
    """Raise OptionError, with the name and the allowed values, if a field of an algorithm has a value of another type.

    Whole numbers are at least 1 and other numbers above 0, except for the fields in `may_be_zero`. Numbers of numpy
    become Python's, and lists of names become tuples. Fields that a subclass of the algorithm adds are not checked.

    >>> import daskfs
    >>> daskfs.Mission(5, idf="no")
    Traceback (most recent call last):
    daskfs.errors.OptionError: idf='no': must be True or False
    """
    for name, kinds in _kinds_of(algorithm).items():
        value = getattr(params, name)
        if kinds == (tuple[str, ...],):
            plain: Any = names_to_keep(value)
        elif all(get_origin(kind) is Literal or kind is type(None) for kind in kinds):
            if value is not None or type(None) not in kinds:
                check_choice(name, value, kinds[0])
            continue
        else:
            plain = value.item() if isinstance(value, np.generic) else value
            least = 0 if name in may_be_zero else 1
            if not any(_is_allowed(kind, plain, least) for kind in kinds):
                allowed = ", or ".join(_in_words(kind, least) for kind in kinds)
                raise OptionError(f"{name}={value!r:.40}: must be {allowed}")
        if plain is not value:
            object.__setattr__(params, name, plain)


@cache
def _kinds_of(algorithm: Any) -> dict[str, tuple[Any, ...]]:
    """Return the types of every field of an algorithm, of which a union has several."""
    hints = get_type_hints(algorithm)
    return {
        entry.name: get_args(kind) if get_origin(kind := hints[entry.name]) in (Union, types.UnionType) else (kind,)
        for entry in fields(algorithm)
    }


def _is_allowed(kind: Any, value: Any, least: int) -> bool:
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
    if kind is float:
        is_number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        return is_number and (value > 0 or (value == 0 == least))
    return isinstance(value, kind)


def _in_words(kind: Any, least: int) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    number = "a number above 0" if least else "a number, at least 0"
    words = {int: f"a whole number, at least {least}", float: number, str: "a text", bool: "True or False"}
    return words.get(kind, "None")
