"""What the numbers of a table or figure depend on, as a digest: its file, the files it imports, and its algorithm."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import daskfs

HERE = Path(__file__).parent
ALGORITHMS = Path(daskfs.__file__).parent / "algorithms"
_IMPORT = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)


def digest_of(name: str) -> str:
    """Return the digest of the code that measures an exhibit."""
    algorithm = next((folder for folder in _folders() if name.startswith(folder.name)), None)
    files = [*_imported(name), *ALGORITHMS.glob("*.py"), *(algorithm.glob("*.py") if algorithm else [])]
    together = hashlib.sha256()
    for file in sorted(set(files)):
        together.update(file.name.encode() + b"\0" + file.read_bytes())
    return together.hexdigest()[:16]


def _folders() -> list[Path]:
    return [folder for folder in ALGORITHMS.iterdir() if (folder / "__init__.py").exists()]


def _imported(name: str) -> list[Path]:
    """Return the file of a module and those of all modules of this folder that it imports, directly or not."""
    files, left = list[Path](), [name]
    while left:
        file = HERE / f"{left.pop()}.py"
        if file.exists() and file not in files:
            files.append(file)
            left += _IMPORT.findall(file.read_text("utf-8"))
    return files
