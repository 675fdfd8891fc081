"""The parameters of the estimators: one list for every algorithm, which its estimators share.

As dataclasses they have constructors that store and do nothing else, as scikit-learn wants it, and whose signatures
editors know. Names and defaults are those of the algorithm (a test holds them to it), and so is what is said of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, TypeVar

from daskfs.algorithms.mission import Method as MissionMethod
from daskfs.algorithms.mission.pace import SIGHTINGS
from daskfs.algorithms.substitution import Budget, Method
from daskfs.basis import Kernel

Class = TypeVar("Class", bound=type)
RandomState = Any
"""A whole number, a numpy RandomState, or None for another selection every time."""

HALF = "How many features to choose: all there are, if they are fewer. By default half of them, and 100 at most."
_OWN = {
    "n_select": "How many features to choose: all there are, if they are fewer. By default all up to 100.",
    "random_state": "What random choices begin with: a whole number, a numpy RandomState, or None for chance.",
}


@dataclass(eq=False, repr=False)
class SubstitutionParameters:
    """Those of `daskfs.OnlineSubstitution` but for the loss."""

    n_select: int | None = None
    _: KW_ONLY
    passes: int = 3
    method: Method = "block"
    ridge: float | Literal["auto"] = "auto"
    intercept: bool = True
    step: float = 0.9
    budget: Budget = "elastic"
    workers: int = 1
    max_staleness: int = 64
    random_state: RandomState = 0


@dataclass(eq=False, repr=False)
class MissionParameters:
    """Those of `daskfs.Mission` but for the loss."""

    n_select: int | None = None
    _: KW_ONLY
    passes: int = 1
    width: int = 2**18
    depth: int = 3
    learning_rate: float | Literal["auto"] = "auto"
    method: MissionMethod = "active"
    intercept: bool = True
    sightings: float = SIGHTINGS
    refit: int = 0
    idf: bool = False
    interactions: str | None = None
    fading: float = 0.0
    random_state: RandomState = 0


@dataclass(eq=False, repr=False)
class RandomFeaturesParameters:
    """Those of `daskfs.SparseRandomFeatures` but for the loss."""

    kernel: Kernel = "gaussian"
    penalty: float | Literal["auto"] = 1.0
    _: KW_ONLY
    rounds: int = 20
    per_round: int = 500
    gamma: float | Literal["auto"] = "auto"
    screen: bool = True
    n_select: int | None = None
    scaling: Literal["unit", "standard", "none"] = "unit"
    max_features: int = 2500
    tolerance: float = 1e-4
    random_state: RandomState = 0


def documented(algorithm: type, **own: str) -> Callable[[Class], Class]:
    """Decorate an estimator: the line "(those of …)" in its docstring becomes the list of its parameters.

    Parameters
    ----------
    algorithm
        Whose docstring says what parameters mean.
    own
        What is said instead of those that mean something else here.
    """

    def decorate(estimator: Class) -> Class:
        about = _said_of(algorithm) | _OWN | own
        names = [name for name in inspect.signature(estimator).parameters if name in about]
        listed = "\n".join(f"{name}\n    {about[name]}" for name in names)
        text = inspect.getdoc(estimator) or ""
        estimator.__doc__ = re.sub(r"^\(those of .*\)$", lambda _: listed, text, flags=re.M)
        return estimator

    return decorate


def _said_of(algorithm: type) -> dict[str, str]:
    """What the "Parameters" section of a docstring says of each."""
    section = (inspect.getdoc(algorithm) or "").partition("Parameters\n----------\n")[2].partition("\n\nExamples\n")[0]
    return {name: text.strip() for name, text in re.findall(r"^(\w+)\n((?: {4}.*\n?)+)", section, re.M)}
