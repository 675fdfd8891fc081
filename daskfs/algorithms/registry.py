"""The algorithms by the names that commands and job files know them by. A new algorithm is a new line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any

from daskfs.algorithms.mission import Mission
from daskfs.algorithms.random_features import SparseRandomFeatures
from daskfs.algorithms.substitution import OnlineSubstitution
from daskfs.protocol import Algorithm

ALGORITHMS: dict[str, Callable[..., Algorithm]] = {
    "substitution": OnlineSubstitution,
    "mission": Mission,
    "random-features": SparseRandomFeatures,
}


def fields_of(algorithm: Any) -> dict[str, Field[Any]]:
    """What an algorithm takes, by name."""
    return {field.name: field for field in fields(algorithm)}


def default_of(algorithm: Any, field: str) -> Any:
    """What a field is unless told otherwise, MISSING if it must be told."""
    factory = fields_of(algorithm)[field].default_factory
    return fields_of(algorithm)[field].default if factory is MISSING else factory()
