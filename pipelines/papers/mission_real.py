"""MISSION on real data, beside its baselines and what users would otherwise pick, all in equal memory.

    python pipelines/papers/mission_real.py splice --from DIR --work WORK     # average precision, two classes
    python pipelines/papers/mission_real.py news20 --from DIR --work WORK     # accuracy, 20 classes
    python pipelines/papers/mission_real.py dna --from DIR --work WORK        # accuracy, 15 classes

`--from` is where the public files are, of which `datasets/` says more; the recipes write datasets to `--work`, where a
second call finds them. A column of a table stands for a number of features and a budget: every contender gets the
widest sketch that fits, and the bytes it keeps are printed, by the formula of `_contenders`. What stands below "any
memory" keeps as much as it likes. Feature hashing counts all features of the training rows, whatever their number.
With several classes a feature of MISSION has a weight for each; with `per_class`, every class has its own features.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import _real
import _row_peers
import click
from _contenders import MISSION, Contender, Setting, mission
from _real import Task
from _report import Record, report
from _vw import vowpal_wabbit
from threadpoolctl import threadpool_limits

MIB = 2**20
ANY_MEMORY = "any memory"
LARGE_BITS = 26  # weights of the VW that users with memory would take, 1 GiB

OF_MISSION: dict[str, Contender] = {name: mission(**fields) for name, fields in MISSION.items()}


def measured(
    task: Task,
    settings: Sequence[Setting],
    limited: dict[str, Contender],
    others: dict[str, Contender],
    only: Sequence[str] = (),
) -> list[Record]:
    """A record for every contender, or those named `only`, and setting; `others`, which know no budget, once."""
    columns: list[tuple[str, Setting, dict[str, Contender]]] = [
        (str(setting), setting, limited) for setting in settings
    ]
    records = []
    for column, setting, contenders in [*columns, (ANY_MEMORY, settings[-1], others)]:
        for name, contender in contenders.items():
            model = contender(task, setting) if name in (only or contenders) else None
            if model is None:
                continue
            judged = {what: task.judge(task, test, model.scores(test)) for what, test in task.tests.items()}
            records.append({"features": column, "method": name, **judged, "MiB": model.nbytes / MIB})
            click.echo(f"{column}: {name} {judged}", err=True)  # the table comes last, and this takes a while
    return records


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Print the tables of MISSION on real data."""
    threadpool_limits(1)


def task_options(function: Callable[..., None]) -> Callable[..., None]:
    """What every task is told."""
    folder = click.Path(path_type=Path, file_okay=False)
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Every run instead of a table."),
        click.option("--only", multiple=True, help="The name of a contender, as the table has it; repeatable."),
        click.option("--passes", type=click.IntRange(min=1), default=3, help="How often everybody reads the data."),
        click.option("--work", type=folder, required=True, help="Where datasets are written, and found again."),
        click.option("--from", "source", metavar="DIR", type=folder, required=True, help="Public files."),
    ):
        function = option(function)
    return function


def settings_option(*default: tuple[int, float]) -> Callable[..., Any]:
    return click.option(
        "--setting",
        "settings",
        type=(int, float),
        multiple=True,
        default=default,
        help="Features, and MiB; repeatable.",
    )


def _settings(given: Sequence[tuple[int, float]]) -> list[Setting]:
    return [Setting(n_select, int(mib * MIB)) for n_select, mib in given]


def _show(task: Task, records: Sequence[Record], as_json: bool) -> None:
    if not records:
        click.echo(f"{task.title}: none of its contenders goes by a name given with --only", err=True)
        return
    rows, features = task.train.n_samples, task.train.n_features
    title = f"{task.title}: {rows:,} rows x {features:,} features, {task.passes} passes"
    report(title, records, "features", [*task.tests, "MiB"], as_json)


@main.command()
@task_options
@settings_option((1_000, 1.02), (10_000, 0.41))
@click.option("--split", "splits", type=click.Choice(["runs", "position"]), multiple=True, default=["runs", "position"])
def splice(
    source: Path, work: Path, passes: int, only: Any, settings: Any, splits: Sequence[str], as_json: bool
) -> None:
    """Splice sites among decoys: k-mers of 1 … 6 at their positions, 3 % of the windows positive."""
    for split in splits:
        task = _real.splice(source, work, split, passes)
        others = {"SGD, exact weights": _row_peers.exact_sgd}
        _show(task, measured(task, _settings(settings), OF_MISSION, others, only), as_json)


@main.command()
@task_options
@settings_option((1_000, 4), (10_000, 6))
def news20(source: Path, work: Path, passes: int, only: Any, settings: Any, as_json: bool) -> None:
    """Newsgroups: n-grams of words and characters as strings."""
    task = _real.news20(source, work, passes)
    limited = OF_MISSION | {"VW": vowpal_wabbit(), "LinearSVC tf-idf, cut": _row_peers.linear_svc(cut=True)}
    others = {"VW": vowpal_wabbit(LARGE_BITS), "LinearSVC tf-idf": _row_peers.linear_svc(cut=False)}
    _show(task, measured(task, _settings(settings), limited, others, only), as_json)


@main.command()
@task_options
@settings_option((50_000, 16), (10_000, 4))
@click.option("--per-class", "per_class", type=(int, float), multiple=True, default=((10_000, 64), (100_000, 64)))
def dna(source: Path, work: Path, passes: int, only: Any, settings: Any, per_class: Any, as_json: bool) -> None:
    """Species of reads: k-mers of lengths 6, 8 and 10, then of length 12 with features for every class."""
    task = _real.dna(source, work, "6,8,10", passes)
    counts = _real.dna(source, work, "8", passes, weighting="count")
    others = {"naive Bayes, 8-mers": _row_peers.naive_bayes(counts), "VW": vowpal_wabbit(LARGE_BITS)}
    limited = OF_MISSION | {"VW": vowpal_wabbit()}
    _show(task, measured(task, _settings(settings), limited, others, only), as_json)
    if per_class:
        task = _real.dna(source, work, "12", passes)
        _show(task, measured(task, _settings(per_class), PER_CLASS, {}, only), as_json)


PER_CLASS: dict[str, Contender] = {
    f"{name}, per class": mission(**MISSION[name], per_class=True) for name in ("MISSION, paper", "MISSION, active")
}


if __name__ == "__main__":
    main()
