"""A contract of import-linter: which libraries each folder of `daskfs` imports, by a list in pyproject.toml."""

from __future__ import annotations

import sys
from collections import defaultdict

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class LibrariesContract(Contract):
    """Every folder imports the libraries of its line in the list, and others only from the standard library.

    A folder or module without a line imports no library at all.
    """

    type_name = "libraries"

    rooms = fields.ListField(subfield=fields.StringField())
    """Lines such as ``"daskfs.basis: numba, numpy"``."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        allowed: dict[str, set[str]] = defaultdict(set)
        for line in self.rooms:
            room, _, libraries = line.partition(":")
            allowed[room] = {library.strip() for library in libraries.split(",")}
        own = {module.split(".")[0] for module in allowed}
        links = sorted(
            (importer, library)
            for library in graph.modules
            if library.split(".")[0] not in own | sys.stdlib_module_names
            for importer in graph.find_modules_that_directly_import(library)
            if library.split(".")[0] not in allowed[".".join(importer.split(".")[:2])]
        )
        return ContractCheck(kept=not links, metadata={"links": links})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, library in check.metadata["links"]:
            output.print_error(f"- {importer} -> {library}: no library of this folder", bold=False)
