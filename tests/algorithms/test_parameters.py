"""Every field of every algorithm refuses values of other types in one line, and takes what its type allows."""

from __future__ import annotations

import types
from dataclasses import MISSING
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from click.testing import CliRunner

import daskfs
from daskfs.algorithms.registry import default_of, fields_of, registrations
from daskfs.cli import main
from daskfs.errors import OptionError

MAY_BE_ZERO = {"refit", "fading", "max_staleness"}
FIELDS = [
    pytest.param(entry.algorithm, field, kind, id=f"{name} {field}")
    for name, entry in registrations().items()
    for field, kind in get_type_hints(entry.algorithm).items()
    if field in fields_of(entry.algorithm)
]
WRONG: list[Any] = [
    "no", "5", "", b"auto", True, 1, 0, -1, 1.5, -0.5, 1e400, float("nan"), None, (), ("age", 3), [5], {"a": 1},
    np.array([1, 2]), np.array(["auto", "x"]), object,
]  # fmt: skip
"""Values of every kind, each of which the test below gives to all fields whose type forbids it."""


def is_allowed(kind: Any, value: Any, may_be_zero: bool) -> bool:
    """Whether a value is one that a type allows, said once more and apart from the code."""
    if get_origin(kind) in (Union, types.UnionType):
        return any(is_allowed(part, value, may_be_zero) for part in get_args(kind))
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in get_args(kind)
    if kind is types.NoneType:
        return value is None
    if kind == tuple[str, ...]:
        return isinstance(value, (tuple, np.ndarray)) and all(isinstance(name, str) for name in value)
    if kind is float and type(value) in (int, float):
        return 0 < value < np.inf or (value == 0 and may_be_zero)
    if kind is int and type(value) is int:
        return value > 0 or (value == 0 and may_be_zero)
    return kind in (str, bool) and type(value) is kind


def make(algorithm: Any, field: str, value: Any) -> Any:
    needed = {name: 5 for name in fields_of(algorithm) if default_of(algorithm, name) is MISSING}
    return algorithm(**needed | {field: value})


@pytest.mark.parametrize(("algorithm", "field", "kind"), FIELDS)
def test_a_field_refuses_what_its_type_forbids(algorithm: Any, field: str, kind: Any):
    for value in WRONG:
        if not is_allowed(kind, value, field in MAY_BE_ZERO):
            with pytest.raises(OptionError, match=rf"^{field}(: |=).* (is none of|must be|give a list) ?.*") as error:
                make(algorithm, field, value)
            assert "\n" not in str(error.value)


@pytest.mark.parametrize(("algorithm", "field", "kind"), FIELDS)
def test_a_field_takes_its_default_and_numbers_of_numpy(algorithm: Any, field: str, kind: Any):
    value = default_of(algorithm, field)
    value = 5 if value is MISSING else value
    for same in [value, np.asarray(value)[()]] if isinstance(value, (bool, int, float)) else [value]:
        parameter = getattr(make(algorithm, field, same), field)
        assert parameter == value
        assert type(parameter) is type(value)


@pytest.mark.parametrize("value", ['"no"', '"nan"', "1"])
def test_job_files_are_checked_in_the_same_way(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    daskfs.write_dataset("d.zarr", np.eye(20), np.arange(20) % 2, layout="rows")
    (tmp_path / "job.toml").write_text(
        f'out = "run"\n[data]\ntrain = "d.zarr"\n[select]\nalgorithm = "mission"\nk = 5\nidf = {value}\n'
    )
    done = CliRunner().invoke(main, ["run", "job.toml"])
    assert done.exit_code == 2
    assert "idf" in done.output
    assert "rue or " in done.output
