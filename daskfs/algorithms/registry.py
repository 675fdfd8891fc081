"""The list of all algorithms, in which a new algorithm is a new line of `ALGORITHMS`.

Commands, job files, reports, `daskfs.NAME` and the estimators of `daskfs.sklearn` read all facts about an algorithm
from its `Registration`. This module imports an algorithm, and numpy, only when the algorithm is requested.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from daskfs.protocol import Algorithm, Kind, Words

ALGORITHMS = {
    "OnlineSubstitution": "daskfs.algorithms.substitution.registration",
    "Mission": "daskfs.algorithms.mission.registration",
    "SparseRandomFeatures": "daskfs.algorithms.random_features.registration",
    "Univariate": "daskfs.algorithms.univariate.registration",
}
"""The class name of every algorithm, and the module with its ``REGISTRATION``."""

MOST_COLUMNS = 1 << 17
"""Sparse data with more features than this are not read column by column, unless the user asks for it."""
MOST_BYTES = 1 << 30
"""The most memory that the selected columns take in an algorithm that is chosen by the data."""

Role = Literal["selector", "transformer", "classifier", "regressor"]


@dataclass(frozen=True, kw_only=True)
class Estimator:
    """One scikit-learn estimator of an algorithm, named after the algorithm and the role, such as `MissionClassifier`.

    The parameters of the estimator are the fields of the algorithm and `random_state`.
    """

    role: Role
    """A selector keeps columns, a transformer computes features, and a classifier or regressor predicts."""
    summary: str
    """The first sentence of the estimator's docstring, without its full stop."""
    example: str = ""
    """Lines of a doctest, in which the estimator has been imported already."""
    loss: str | None = None
    """The default of `loss`, where "auto" depends on the target; None if the loss is squared and not a parameter."""
    omits: tuple[str, ...] = ()
    """Names of fields of the algorithm that are not parameters of this estimator."""
    several_targets: bool = False
    """Whether `fit` takes several numeric targets, the columns of a two-dimensional y."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Names of fields that must keep their default in this estimator, with the reason for every field."""


@dataclass(frozen=True, kw_only=True)
class Registration:
    """The facts about an algorithm that commands, job files, reports and estimators use."""

    name: str
    """The algorithm's name in commands, in job files and of its page ``docs/algorithms/NAME.md``, such as
    ``mission``."""
    algorithm: Callable[..., Algorithm]
    """The frozen dataclass of the algorithm, whose fields become flags, keys of job files and estimator parameters."""
    words: Words
    estimators: tuple[Estimator, ...] = ()
    text_for_losses: tuple[str, ...] = ()
    """Losses that would read three or more numbered classes as real targets, unless the labels are passed as text."""
    batches_refuse: tuple[str, ...] | None = None
    """Fields that `partial_fit` requires to be empty, since they need all rows at once; None for no `partial_fit`."""
    suits: Callable[[Kind, int, int, int], str] = lambda kind, n_samples, n_features, k: ""
    """Return why the algorithm is the choice for k features of data of a kind with n rows and n features, such as "for
    dense columns"; return "" if it is not."""
    nanoseconds: float | None = None
    """CPU time for each stored number in a pass, to read, check and process it; None if it has not been measured."""
    bounds_false: bool = False
    """Whether selections from halves of dense data bound the number of false features: see `Stability.false_bounds`."""

    @property
    def several_targets(self) -> bool:
        """Whether the algorithm takes several numeric targets."""
        return any(estimator.several_targets for estimator in self.estimators)


def registration(class_name: str) -> Registration:
    """Return the registration of an algorithm by its class name, which records of selection runs contain."""
    result: Registration = import_module(ALGORITHMS[class_name]).REGISTRATION
    return result


def registrations() -> dict[str, Registration]:
    """Return all registrations by the algorithm names of commands and job files."""
    return {entry.name: entry for entry in map(registration, ALGORITHMS)}


def classes_that(is_one: Callable[[Registration], bool]) -> str:
    """Return the class names of some algorithms for a message, such as "OnlineSubstitution or Mission"."""
    return " or ".join(name for name in ALGORITHMS if is_one(registration(name)))


def words_of(class_name: str) -> Words | None:
    """Return the texts for reports on an algorithm; return None if the algorithm is not registered."""
    return registration(class_name).words if class_name in ALGORITHMS else None


def fields_of(algorithm: Any) -> dict[str, Field[Any]]:
    """Return the dataclass fields of an algorithm by name."""
    return {entry.name: entry for entry in fields(algorithm)}


def default_of(algorithm: Any, name: str) -> Any:
    """Return the default of an algorithm's field, or `dataclasses.MISSING` if the field has no default."""
    factory = fields_of(algorithm)[name].default_factory
    return fields_of(algorithm)[name].default if factory is MISSING else factory()


@cache
def parameter_docs(documented: Callable[..., Any]) -> dict[str, str]:
    """Return the description of every parameter in the "Parameters" section of a numpydoc docstring, on one line."""
    section = re.search(r"^Parameters\n-+\n(.*?)(\n\S[^\n]*\n---|\Z)", inspect.getdoc(documented) or "", re.M | re.S)
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in section[1].splitlines() if section else ():
        if line[:1].strip():  # not indented: the names that the next lines describe
            names = line.split(", ")
        for name in names if line.startswith(" ") else ():
            texts[name] = f"{texts.get(name, '')} {line.strip()}".lstrip()
    return texts
