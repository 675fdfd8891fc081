"""A job as the TOML that somebody would write; Python reads TOML and does not write it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def toml_text(job: Mapping[str, Any]) -> str:
    """Values first, then every table under its name; tables in tables on a line.

    >>> print(toml_text({"select": {"k": 5, "ridge": {"auto": True}}, "out": "runs"}))
    out = "runs"
    <BLANKLINE>
    [select]
    k = 5
    ridge = {auto = true}
    """
    tables = {name: table for name, table in job.items() if isinstance(table, Mapping)}
    blocks = [_lines({name: value for name, value in job.items() if name not in tables})]
    blocks += [[f"[{_key(name)}]", *_lines(table)] for name, table in tables.items()]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_value(value)}" for name, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(_lines(value))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # which TOML wants so, and JSON does not


def _key(name: str) -> str:
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _value(name)
