"""Generation of scikit-learn estimator classes from the registered algorithms.

An estimator class is a dataclass with the fields of the algorithm. The constructor of an estimator class only stores
the arguments, as scikit-learn requires. Parameters before `loss` can be passed by position, all other parameters only
by name.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_type_hints

from daskfs.algorithms.registry import ALGORITHMS, Estimator, Registration, default_of, fields_of, parameter_docs
from daskfs.algorithms.registry import registration as registration_of
from daskfs.sklearn.base import SelectingEstimator
from daskfs.sklearn.batches import BatchEstimator, BatchRegressor
from daskfs.sklearn.roles import Classifier, ColumnSelector, FeatureTransformer, LinearModel, Regressor
from daskfs.store.ingest.gaps import Missing

ROLES: dict[str, type[SelectingEstimator]] = {
    "selector": ColumnSelector,
    "transformer": FeatureTransformer,
    "classifier": Classifier,
    "regressor": Regressor,
}
HOW_MANY = {
    True: "How many features to select: all there are, with a warning, if fewer. By default half, at most 100.",
    False: "How many features to select: all there are, with a warning, if they are fewer. By default all up to 100.",
}
RANDOM_STATE = "What random choices begin with: a whole number, a numpy RandomState, or None for chance."
MISSING_VALUES = (
    'What becomes of NaN in X: "error", or "mean", "median", "indicator", "drop" or "zero" as for `daskfs.ingest`. '
    "Predictions fill new data in the same way."
)
AUTO_LOSS = {
    "classifier": '"auto" is "logistic" for two classes and "softmax" for more; or one of the algorithm\'s.',
    "softmax": '"auto" is "logistic" for two classes, "softmax" for more classes of text, else "squared"; or one of '
    'the algorithm\'s. Three or more numbers are classes only with loss="softmax".',
    "": '"auto" is "logistic" for two classes, else "squared"; or one of the algorithm\'s.',
}
"""Documentation of ``loss="auto"`` for classifiers, for other estimators with a softmax loss, and for the rest."""


def estimator_names() -> dict[str, tuple[str, Estimator]]:
    """Return the name of every estimator class, with the name of its algorithm class and its `Estimator`."""
    return {
        class_name + estimator.role.capitalize(): (class_name, estimator)
        for class_name in ALGORITHMS
        for estimator in registration_of(class_name).estimators
    }


def make_estimator(name: str) -> type[SelectingEstimator]:
    """Create and return the estimator class with a name from `estimator_names`."""
    class_name, estimator = estimator_names()[name]
    registration = registration_of(class_name)
    fields = list(_fields(registration, estimator))
    namespace = {
        "__module__": "daskfs.sklearn",
        "__doc__": _docstring(name, class_name, registration, estimator, [field for field, *_ in fields]),
        "_registration": registration,
        "_estimator": estimator,
    }
    bases = _bases(registration, estimator)
    return dataclasses.make_dataclass(name, fields, bases=bases, namespace=namespace, eq=False, repr=False)


def _bases(registration: Registration, estimator: Estimator) -> tuple[type, ...]:
    bases: list[type] = [ROLES[estimator.role]]
    has_columns = all(each.role != "transformer" for each in registration.estimators)
    if has_columns and estimator.role in ("classifier", "regressor"):
        bases.insert(0, LinearModel)
    if registration.batches_refuse is not None:
        bases.insert(0, BatchRegressor if estimator.role == "regressor" else BatchEstimator)
    return tuple(bases)


def _fields(registration: Registration, estimator: Estimator) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, type and dataclass field of every parameter of an estimator class."""
    algorithm, is_positional = registration.algorithm, True
    kinds = get_type_hints(algorithm)
    for name in fields_of(algorithm):
        is_positional = is_positional and name != "loss"
        default = default_of(algorithm, name)
        if name in estimator.omits or (name == "loss" and estimator.loss is None):
            continue
        if name == "loss":
            default = estimator.loss
            kinds[name] |= Literal["auto"] if default == "auto" else kinds[name]
        elif default is dataclasses.MISSING:  # n_select; scikit-learn wants defaults everywhere
            default, kinds[name] = None, kinds[name] | None
        yield name, kinds[name], dataclasses.field(default=default, kw_only=not is_positional)
    yield "missing", Missing, dataclasses.field(default="error", kw_only=True)
    yield "random_state", Any, dataclasses.field(default=0, kw_only=True)


def _docstring(
    name: str, class_name: str, registration: Registration, estimator: Estimator, parameters: list[str]
) -> str:
    algorithm = registration.algorithm
    texts = parameter_docs(algorithm) | {"random_state": RANDOM_STATE, "missing": MISSING_VALUES}
    if default_of(algorithm, "n_select") is dataclasses.MISSING:
        texts["n_select"] = HOW_MANY[estimator.role == "selector"]
    losses = get_args(get_type_hints(algorithm).get("loss"))
    if estimator.loss == "auto" and (estimator.role == "classifier" or "auto" not in losses):
        knows_softmax = "softmax" in losses
        texts["loss"] = AUTO_LOSS[
            "classifier" if estimator.role == "classifier" else "softmax" if knows_softmax else ""
        ]
    attributes = {"selection_": "The `daskfs.Selection`: features by importance, names, weights, history."}
    if estimator.role == "classifier":
        attributes["classes_"] = "The labels, ascending."
    if LinearModel in _bases(registration, estimator):
        attributes["coef_, intercept_"] = "The linear model over all columns."
    sections = [f"{estimator.summary}; see `daskfs.{class_name}`."]
    sections.append(_section("Parameters", {parameter: texts.get(parameter, "") for parameter in parameters}))
    sections.append(_section("Attributes", attributes))
    if estimator.example:
        sections.append(f"Examples\n--------\n>>> from daskfs.sklearn import {name}\n{estimator.example.strip()}\n")
    return "\n\n".join(sections)


def _section(title: str, texts: dict[str, str]) -> str:
    """Return a section of a numpydoc docstring from a title and a dict of names and descriptions."""
    entries = [f"{name}\n{textwrap.indent(textwrap.fill(text, 110), '    ')}" for name, text in texts.items()]
    return "\n".join([title, "-" * len(title), *entries])
