"""The command `daskfs select`, which selects features of a dataset.

Every field of an algorithm's dataclass is a flag of the command. The type of the field determines the values of the
flag, and the "Parameters" section of the dataclass's docstring is the help text of the flag.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import MISSING
from enum import EnumMeta
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from distributed import performance_report

from daskfs.algorithms.registry import default_of, fields_of, parameter_docs, registrations
from daskfs.cli.results import print_selection
from daskfs.engine.cluster.start import cluster_for
from daskfs.errors import OptionError, public_url
from daskfs.jit import COMPILING, is_cold
from daskfs.job.execute import announce
from daskfs.job.request import Request
from daskfs.observe.progress import pass_progress
from daskfs.observe.terminal import messages, warnings_as_notes
from daskfs.protocol import Algorithm
from daskfs.store.dataset.dataset import open_dataset
from daskfs.store.places.location import Location

SHORT = {"n_select": "-k"}
METAVARS = {int: "N", float: "X", str: "TEXT", tuple[str, ...]: "NAME,NAME…", types.NoneType: "none"}
IN_WORDS = {int: "a whole number", float: "a number", str: "text", tuple[str, ...]: "names", types.NoneType: "none"}


def algorithm_options(command: Any) -> Any:
    """Add flags for the parameters of all algorithms to a click command, each with default None."""
    owners: dict[str, list[str]] = {}
    for name, entry in registrations().items():
        for field in fields_of(entry.algorithm):
            owners.setdefault(field, []).append(name)
    for field, names in reversed(owners.items()):
        command = _option(field, names)(command)
    return command


def make_algorithm(name: str, flags: Mapping[str, Any]) -> Algorithm:
    """Return the algorithm `name` with parameters converted from the strings of command-line flags.

    >>> from daskfs.cli.select import make_algorithm
    >>> make_algorithm("substitution", {"n_select": "10", "ridge": "0.5"}).ridge
    0.5
    """
    algorithm = registrations()[name].algorithm
    known, kinds = fields_of(algorithm), get_type_hints(algorithm)
    for field in flags:
        if field not in known:
            raise OptionError(f"{_flag(field)}: {name} has no such option; it takes {', '.join(map(_flag, known))}")
    for field in known:
        if field not in flags and default_of(algorithm, field) is MISSING:
            raise OptionError(f"{name} needs {' or '.join(_flags(field))}")
    return algorithm(**{field: _value(_flag(field), kinds[field], word) for field, word in flags.items()})


def _flag(field: str) -> str:
    return "--" + field.replace("_", "-")


def _flags(field: str) -> list[str]:
    return [SHORT[field], _flag(field)] if field in SHORT else [_flag(field)]


def _option(field: str, names: list[str]) -> Any:
    """Return the click option for a parameter `field` that the algorithms `names` have."""
    kinds = {get_type_hints(registrations()[name].algorithm)[field]: None for name in names}
    about = {_help(field, name): None for name in names}
    help_text = " / ".join(about) if len(names) == len(registrations()) else f"{', '.join(names)}: {' / '.join(about)}"
    if bool in kinds:
        return click.option(f"{_flag(field)}/--no-{_flag(field)[2:]}", default=None, help=help_text)
    return click.option(*_flags(field), metavar="|".join(map(_metavar, kinds)), help=help_text)


def _help(field: str, name: str) -> str:
    algorithm = registrations()[name].algorithm
    default = default_of(algorithm, field)
    text = parameter_docs(algorithm).get(field, "").replace("``", "")
    return text if default is MISSING else f"{text}  [default: {default}]".lstrip()


def _alternatives(kind: Any) -> list[Any]:
    """Return the types of a union type, with a separate Literal for each value of a Literal or an Enum."""
    parts = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    words = {part: get_args(part) for part in parts if get_origin(part) is Literal}
    words |= {part: tuple(part) for part in parts if isinstance(part, EnumMeta)}
    return [option for part in parts for option in ([Literal[word] for word in words.get(part, ())] or [part])]


def _metavar(kind: Any) -> str:
    return "|".join(_word_for(option, METAVARS) for option in _alternatives(kind))


def _word_for(kind: Any, words: Mapping[Any, str]) -> str:
    return str(get_args(kind)[0]) if get_origin(kind) is Literal else words[kind]


def _value(flag: str, kind: Any, word: Any) -> Any:
    """Convert the string of a flag to a value of type `kind`, and return a value that is not a string unchanged."""
    if not isinstance(word, str):
        return word
    for option in _alternatives(kind):
        with suppress(ValueError):
            return _read(option, word)
    expected = " or ".join(_word_for(option, IN_WORDS) for option in _alternatives(kind))
    raise OptionError(f"{flag}: {word!r:.80} is not {expected}")


def _read(kind: Any, word: str) -> Any:
    """Convert a string to a simple type (int, float, str, tuple of str, None or Literal), or raise ValueError."""
    if kind == tuple[str, ...]:
        return tuple(filter(None, word.split(",")))
    if kind not in (int, float, str):
        if word != _word_for(kind, METAVARS):
            raise ValueError(word)
        return None if kind is types.NoneType else word
    value = kind(word)
    if kind is float and not math.isfinite(value):
        raise ValueError(word)
    return value


@click.command()
@click.argument("data")
@click.option(
    "--algorithm", "-a", "name", required=True, type=click.Choice(list(registrations())), help="What selects."
)
@click.option("--out", required=True, help="The run's folder or URL: selection, history and, meanwhile, a checkpoint.")
@click.option("--scheduler", help="Run on the Dask cluster at this address, not on one of this machine's cores.")
@click.option("--serial", is_flag=True, help="Run in this process, without a cluster.")
@click.option("--processes", type=click.IntRange(1), help="Of the cluster on this machine; one a core by default.")
@click.option("--synchronous", is_flag=True, help="Let workers wait for each other, so that the run can be repeated.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out; if it is finished, show it.")
@click.option("--overwrite", is_flag=True, help="Replace another run in --out.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="What random choices begin with.")
@click.option("--performance-report", "performance", metavar="FILE", help="Keep Dask's own report of the run as HTML.")
@click.option("--json", "as_json", is_flag=True, help="For machines: what daskfs show --json prints.")
@algorithm_options
def select(
    data: str,
    name: str,
    out: str,
    scheduler: str | None,
    serial: bool,
    processes: int | None,
    synchronous: bool,
    resume: bool,
    overwrite: bool,
    seed: int,
    performance: str | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Select features of the dataset DATA, and store the selection in --out.

    Run the same command again to resume an interrupted selection.
    """
    if resume and overwrite:
        raise OptionError("--resume and --overwrite: choose one of them")
    if performance and serial:
        raise OptionError("--performance-report is of a cluster: leave out --serial")
    algorithm = make_algorithm(name, {field: value for field, value in fields.items() if value is not None})
    request = Request(open_dataset(data), algorithm, Location(out), seed, synchronous)
    request.check()
    if not overwrite and (finished := request.load_finished()) is not None:
        if not resume:
            raise OptionError(f"{out}: holds this run, finished; --resume shows it, --overwrite runs it again")
        print_selection(finished, as_json)
        return
    if messages.is_terminal and is_cold(type(algorithm).__module__):
        messages.print(COMPILING)
    requested_by = {
        "command": ["daskfs", *map(public_url, sys.argv[1:])],
        "performance_report": performance and public_url(performance),
    }
    with warnings_as_notes(), cluster_for(scheduler, serial, processes) as client:
        announce(client, lambda line: messages.print(line, soft_wrap=True, markup=False))
        messages.print(f"memory: {request.plan(client)}", soft_wrap=True)
        if request.is_begun() and not overwrite:
            messages.print("going on with the unfinished run that is there")
        dask_report = performance_report(performance) if performance else nullcontext()
        with pass_progress() as progress, client.as_current() if client else nullcontext(), dask_report:
            selection = request.run(client, requested_by, overwrite, progress)
    print_selection(selection, as_json)
    if not as_json:
        click.echo(f"kept in {public_url(out)}")
