"""The one list of algorithms. A new algorithm is a new line in `ALGORITHMS`.

Commands, job files, reports, `daskfs.NAME` and the estimators of `daskfs.sklearn` learn all they need from the
`Registration` that the line leads to. This module imports no algorithm before it is asked for one, and not even numpy.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from daskfs.protocol import Algorithm, Words

ALGORITHMS = {
    "OnlineSubstitution": "daskfs.algorithms.substitution.registration",
    "Mission": "daskfs.algorithms.mission.registration",
    "SparseRandomFeatures": "daskfs.algorithms.random_features.registration",
}
"""The class of every algorithm, and the module that holds its ``REGISTRATION``."""

Role = Literal["selector", "transformer", "classifier", "regressor"]


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """One scikit-learn estimator of an algorithm, called after both: `MissionClassifier`.

    Its parameters are the fields of the algorithm and `random_state`.
    """

    role: Role
    """A selector keeps columns, a transformer computes features, a classifier and a regressor predict."""
    summary: str
    """The first sentence of the docstring, without its full stop."""
    example: str = ""
    """Lines of a doctest; the estimator is imported already."""
    loss: str | None = None
    """The default of `loss`. "auto" goes by the target; None means that the loss is squared and no parameter."""
    omits: tuple[str, ...] = ()
    """Fields of the algorithm that are no parameters of this estimator."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Fields that must keep their default here, and why."""


@dataclass(frozen=True, kw_only=True)
class Registration:
    """Everything that the rest of the package needs to know of an algorithm."""

    name: str
    """The name in commands and job files, such as ``mission``; its page is ``docs/algorithms/NAME.md``."""
    algorithm: Callable[..., Algorithm]
    """The frozen dataclass: its fields become flags, keys of job files and parameters of estimators."""
    words: Words
    estimators: tuple[Estimator, ...] = ()
    max_classes: int | None = None
    """The most classes that a classifier tells apart; None for any number."""
    text_for_losses: tuple[str, ...] = ()
    """Losses that take three or more numbered classes for numbers, unless the classes are handed over as text."""
    batches_refuse: tuple[str, ...] | None = None
    """Fields that `partial_fit` must find empty, since they need all rows beforehand; None for no `partial_fit`."""


def registration(class_name: str) -> Registration:
    """Return the registration of an algorithm by the name of its class, as records of runs hold it."""
    result: Registration = import_module(ALGORITHMS[class_name]).REGISTRATION
    return result


def registrations() -> dict[str, Registration]:
    """Return all registrations by the names that commands and job files use."""
    return {entry.name: entry for entry in map(registration, ALGORITHMS)}


def words_of(class_name: str) -> Words | None:
    """Return how to speak of an algorithm in a report; None for an algorithm that is not registered."""
    return registration(class_name).words if class_name in ALGORITHMS else None


def fields_of(algorithm: Any) -> dict[str, Field[Any]]:
    """Return the fields of an algorithm by name."""
    return {entry.name: entry for entry in fields(algorithm)}


def default_of(algorithm: Any, name: str) -> Any:
    """Return the default of a field, or `dataclasses.MISSING` if it has none."""
    factory = fields_of(algorithm)[name].default_factory
    return fields_of(algorithm)[name].default if factory is MISSING else factory()


def parameter_docs(documented: Callable[..., Any]) -> dict[str, str]:
    """Return the text on each parameter in the "Parameters" section of a numpydoc docstring, on one line."""
    section = re.search(r"^Parameters\n-+\n(.*?)(\n\S[^\n]*\n---|\Z)", inspect.getdoc(documented) or "", re.M | re.S)
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else ():
        if line[:1].strip():  # not indented: the names that the next lines describe
            names = line.split(", ")
        for name in names if line.startswith(" ") else ():
            texts[name] = f"{texts.get(name, '')} {line.strip()}".lstrip()
    return texts
