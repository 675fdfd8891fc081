"""Count what `daskfs` is made of: lines, files, folders, names defined twice, words that explain nothing.

    python pipelines/house/figures.py [FOLDER] [--names] [--sample N --seed S]

``--names`` lists type names that are defined in more than one file, with or without an underscore, and values and
attributes called `made`, `found`, `one` or `told`.
``--sample`` prints docstring sentences drawn at random, for somebody who has not seen the code to judge.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

RIDDLES = {"made", "found", "one", "told"}


def modules(folder: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))}


def kinds_of_lines(path: Path, tree: ast.Module) -> Counter[str]:
    """How many lines are code, imports, docstrings, comments and blank."""
    lines = path.read_text(encoding="utf-8").splitlines()
    kinds = ["blank" if not line.strip() else "comment" if line.strip().startswith("#") else "code" for line in lines]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            kinds[node.lineno - 1 : node.end_lineno] = ["import"] * (node.end_lineno - node.lineno + 1)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            kinds[node.lineno - 1 : node.end_lineno] = ["docstring"] * (node.end_lineno - node.lineno + 1)
    return Counter(kinds)


def types_defined_twice(trees: dict[Path, ast.Module]) -> dict[str, list[Path]]:
    """Names of classes and type aliases that more than one file defines, without underscores in front."""
    places: dict[str, list[Path]] = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(path)
        for node in tree.body:  # aliases, such as ``Label = float | str``
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id.lstrip("_")
                if re.fullmatch(r"[A-Z][a-z]+([A-Z][a-z]*)*", name) and not isinstance(node.value, ast.Constant):
                    places[name].append(path)
    return {name: paths for name, paths in sorted(places.items()) if len(set(paths)) > 1}


def riddles(trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Where a value has a name that does not say what it is."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                    if name.lstrip("_") in RIDDLES:
                        yield f"{path}:{node.lineno}: {name}"


def sentences(trees: dict[Path, ast.Module]) -> list[str]:
    """Every sentence of every docstring, without examples and underlines, with the name of what it describes."""
    result = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            text = re.split(r"\n\s*(?:Examples\n|>>>|Parameters\n|Returns\n)", ast.get_docstring(node) or "")[0]
            name = getattr(node, "name", "the module")
            sentences = re.split(r"(?<=[.;:])\s+(?=[A-Z`])", " ".join(text.split()))
            result += [f"{path}, {name}: {sentence}" for sentence in sentences if len(sentence.split()) > 3]
    return result


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[2] / "daskfs")
    arguments.add_argument("--names", action="store_true")
    arguments.add_argument("--sample", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    trees = modules(given.folder)
    if given.sample:
        print(*random.Random(given.seed).sample(sentences(trees), given.sample), sep="\n")
        return
    twice, unclear = types_defined_twice(trees), list(riddles(trees))
    if given.names:
        print(*(f"{name}: {', '.join(map(str, paths))}" for name, paths in twice.items()), sep="\n")
        print(*unclear, sep="\n")
        return
    kinds = sum((kinds_of_lines(path, tree) for path, tree in trees.items()), Counter[str]())
    folder, most = Counter(path.parent for path in trees).most_common(1)[0]
    print(f"lines                     {kinds.total():6,}  ({', '.join(f'{n:,} {kind}' for kind, n in kinds.items())})")
    print(f"files                     {len(trees):6,}")
    print(f"largest folder            {most:6,}  ({folder})")
    print(f"type names defined twice  {len(twice):6,}")
    print(f"made, found, one, told    {len(unclear):6,}")
    print(f"docstring share           {kinds['docstring'] / kinds.total():6.1%}")


if __name__ == "__main__":
    main()
