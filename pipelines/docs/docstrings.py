"""For mkdocstrings: estimators as they are when the package runs, since their classes are generated."""

from __future__ import annotations

from typing import Any

import griffe


class GeneratedEstimators(griffe.Extension):
    """Adds the classes of `daskfs.sklearn`, which a reader of the source does not find."""

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        if mod.path == "daskfs.sklearn":
            running = griffe.inspect("sklearn", filepath=mod.filepath, parent=mod.parent)
            for name, member in running.members.items():
                if isinstance(member, griffe.Class):
                    mod.set_member(name, member)
