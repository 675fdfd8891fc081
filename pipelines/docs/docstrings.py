"""For mkdocstrings: estimators with the docstrings that they have when they run.

Their parameters are those of the algorithms, and are written down once (`daskfs.sklearn.parameters.documented`); who
only reads the source finds a line in their place.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe


class AtRuntime(griffe.Extension):
    """Replaces the docstrings of estimators."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.docstring is not None and cls.path.startswith("daskfs.sklearn."):
            module, _, name = cls.path.rpartition(".")
            found = getattr(import_module(module), name, None)
            cls.docstring.value = inspect.getdoc(found) or cls.docstring.value
