"""daskfs select --help: a flag for every field of an algorithm, explained by its docstring."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

import click
import pytest
from click.testing import CliRunner

import daskfs
import daskfs.cli.select  # its flags are those of the algorithms there are now, not of a test's
from daskfs.algorithms.registry import Registration, fields_of, parameter_docs, registrations
from daskfs.cli.algorithm_flags import CommandWithGroups, algorithm_options, common_options, make_algorithm
from daskfs.errors import OptionError
from daskfs.protocol import Words


@dataclass(frozen=True)
class Everything:
    """All kinds of fields.

    Parameters
    ----------
    n_select
        How many, at most
        ``2**63``.
    loss, weighting
        One of
        several.

        And more.
    ridge
        How much.

    Notes
    -----
    ridge
        This is about something else.
    """

    n_select: int
    loss: Literal["squared", "logistic"] = "squared"
    weighting: Literal["none", "unit"] = "none"
    ridge: float | Literal["auto"] = "auto"
    most: int | None = None
    title: str = "untitled"
    screen: bool = True
    lengths: tuple[int, ...] = field(default_factory=lambda: (1, 2))


@dataclass(frozen=True)
class Another:
    """Shares two fields with the other.

    Parameters
    ----------
    loss
        Which.
    width
        How wide.
    """

    loss: Literal["softmax"] = "softmax"
    width: int = 8
    screen: bool = False


@pytest.fixture
def two(monkeypatch) -> Any:
    """A command with the flags of both; it gives back what it is given."""
    monkeypatch.setattr("daskfs.cli.algorithm_flags.METAVARS", {**METAVARS, tuple[int, ...]: "N,N"})
    entries = {
        name: Registration(name=name, algorithm=algorithm, words=Words(name, {}))
        for name, algorithm in {"every": Everything, "other": Another}.items()
    }
    monkeypatch.setattr("daskfs.cli.algorithm_flags.registrations", lambda: entries)

    @click.command(cls=CommandWithGroups)
    @click.option("--algorithm", "name")
    @common_options
    @algorithm_options
    def command(name: str, **fields: Any) -> None:
        try:
            click.echo(repr(make_algorithm(name, {k: v for k, v in fields.items() if v is not None})))
        except OptionError as error:
            click.echo(f"error: {error}")

    return command


METAVARS = {int: "N", float: "X", str: "TEXT", type(None): "none"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("every -k 5", Everything(5)),
        ("every --n-select 5 --loss logistic --ridge 0.25", Everything(5, "logistic", ridge=0.25)),
        ("every -k 5 --ridge auto --most none --title none", Everything(5, title="none")),
        ("every -k 5 --most 7 --title 7 --weighting unit", Everything(5, most=7, title="7", weighting="unit")),
        ("every -k 5 --no-screen", Everything(5, screen=False)),
        ("other --screen --width 3", Another(screen=True, width=3)),
        ("other --loss softmax", Another()),
        ("every", "error: every needs -k or --n-select"),
        ("every -k 5.5", "error: --n-select: '5.5' is not a whole number"),
        ("every -k 5 --ridge nan", "error: --ridge: 'nan' is not a number or auto"),
        ("every -k 5 --ridge inf", "error: --ridge: 'inf' is not a number or auto"),
        ("every -k 5 --most auto", "error: --most: 'auto' is not a whole number or none"),
        (
            "every -k 5 --loss softmax",
            "error: --loss: 'softmax' is not squared or logistic; it is for --algorithm other",
        ),
        ("other --loss squared", "error: --loss: 'squared' is not softmax; it is for --algorithm every"),
        ("other -k 5", "error: --n-select: other has no such option; there are --loss, --width, --screen"),
    ],
)
def test_every_field_is_a_flag(two, arguments, expected):
    done = CliRunner().invoke(two, ["--algorithm", *arguments.split()])
    assert done.stdout.strip() == (expected if isinstance(expected, str) else repr(expected))


def test_help_comes_from_the_docstring(two):
    shown = re.sub(r"\s+", " ", CliRunner().invoke(two, ["--help"]).stdout)
    assert "-k, --n-select N How many features to select; all there are, if they are fewer." in shown
    together, every, other = (shown.index(f"Options of {names}:") for names in ("every and other", "every", "other"))
    assert 0 < together < every < other
    assert "--screen / --no-screen [default: True] / [default: False]" in shown[together:every]
    assert "--weighting none|unit One of several. And more. [default: none]" in shown[every:other]
    assert "--ridge X|auto How much. [default: auto]" in shown[every:other]
    assert "--width N How wide. [default: 8]" in shown[other:]


def test_most_people_need_about_twelve_flags():
    shown = CliRunner().invoke(daskfs.cli.select.select, ["--help"]).stdout
    first = shown.split("\nOptions:\n")[1].split("\n\n")[0]
    flags = re.findall(r"^  (-.*?)(?:  |$)", first, re.MULTILINE)
    assert {"-k, --n-select N", "--label TEXT", "--out PATH"} <= set(flags)
    assert len(flags) <= 13
    assert "daskfs select patients.csv -k 20 --label outcome" in shown.splitlines()[-1]


def test_parameters_of_other_docstrings():
    assert parameter_docs(daskfs.write_dataset)["overwrite"] == "Replace an existing dataset."
    assert parameter_docs(int) == {}


@pytest.mark.parametrize("algorithm", [entry.algorithm for entry in registrations().values()])
def test_every_field_of_our_algorithms_is_explained(algorithm):
    names = set(fields_of(algorithm))
    assert names
    assert names - set(parameter_docs(algorithm)) == set()
