"""Results as records, one for each run of a method; shown as a table of means, or as JSON with nothing left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

Record = dict[str, Any]

WIDTH = 200  # where the output is no terminal: tables go into notes


def report(title: str, records: Sequence[Record], across: str, metrics: Sequence[str], as_json: bool) -> None:
    """Print a row for each method and, for each value of `across`, the mean of each metric over the seeds.

    A record has a "method", a value of `across` and numbers for the metrics; of those that agree in the first two, and
    have a "seed" to tell them apart, ± is the standard deviation.
    """
    if as_json:
        click.echo(json.dumps({"title": title, "records": records}))
        return
    columns = [(value, metric) for value in _distinct(records, across) for metric in metrics]
    table = Table("method", title=title, title_justify="left")
    for value, metric in columns:
        table.add_column(f"{metric}\n{across} {value}", justify="right")
    for method in _distinct(records, "method"):
        of_method = [record for record in records if record["method"] == method]
        cells = ([r[metric] for r in of_method if r[across] == value and metric in r] for value, metric in columns)
        table.add_row(method, *map(_cell, cells))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    console.print(table)


def _distinct(records: Sequence[Record], key: str) -> list[Any]:
    return list(dict.fromkeys(record[key] for record in records))


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    largest = max(np.abs(values))
    digits = 4 if largest < 0.1 else 3 if largest < 10 else 1
    spread = f" ±{np.std(values):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"
