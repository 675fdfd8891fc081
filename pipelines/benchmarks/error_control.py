"""CPU time of a pass in which no column enters any more, with ten permuted targets beside the real one and without.

The data are in memory, and blocks are read from a dataset on disk, warm. CPU seconds, interleaved; the best of some.
``--docs`` writes the table of docs/error-control.md, and what it is made of beside it.

    python pipelines/benchmarks/error_control.py
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import scipy.sparse as sp
from _measure import interleaved, show
from threadpoolctl import threadpool_limits

import daskfs
from daskfs.store.in_memory import InMemory
from daskfs.store.ingest.arrays import encode_target

sys.path.append(str(Path(__file__).parents[1] / "papers"))
from _docs_table import DOCS, replace_table  # which the papers share with us

HEAD = "| columns, loss | in memory | from disk |\n|---|---|---|\n"
SELECTED, DENSITY, RIDGE = 20, 0.1, {"squared": 0.1, "logistic": 0.02}


def run_pass(algorithm: Any, state: Any, dataset: Any) -> None:
    """Fold all blocks into a state, which may change in place."""
    for block in dataset.blocks(axis="columns"):
        algorithm.update(state, block)


def settled(algorithm: Any, dataset: Any, most: int = 12) -> tuple[Any, Any]:
    """Return the resolved algorithm, and its state after a pass in which no column entered."""
    algorithm = algorithm.resolve(dataset.meta)
    state, go_on = algorithm.start(dataset.meta, seed=0), True
    while go_on and state.passes < most:
        run_pass(algorithm, state, dataset)
        state, go_on = algorithm.end_pass(state)
    return algorithm, state


def ratio(dataset: Any, loss: str, rounds: int) -> float:
    """Return how many times as long a settled pass takes with error control."""
    plain = daskfs.OnlineSubstitution(SELECTED, loss=loss, passes=12, ridge=RIDGE[loss])
    controlled = daskfs.OnlineSubstitution(SELECTED, loss=loss, passes=12, error_control="permuted")
    contenders = {
        name: partial(run_pass, *settled(algorithm, dataset), dataset)
        for name, algorithm in {"plain": plain, "controlled": controlled}.items()
    }
    seconds = interleaved(contenders, rounds, time.process_time)
    return seconds["controlled"] / seconds["plain"]


def table_of(times: dict[str, float]) -> str:
    """Return the table of the docs, in Markdown, given the ratio for every case."""
    cases = [f"{kind}, {loss}" for kind in ("dense", "sparse") for loss in RIDGE]
    lines = (f"| {case} | {times[f'{case}, in memory']:.1f} | {times[f'{case}, from disk']:.1f} |\n" for case in cases)
    return HEAD + "".join(lines)


@click.command()
@click.option("--rows", default=5000)
@click.option("--columns", default=6000)
@click.option("--rounds", default=5)
@click.option("--json", "as_json", is_flag=True)
@click.option("--docs", is_flag=True, help="Write the table of the docs, too.")
def main(rows: int, columns: int, rounds: int, as_json: bool, docs: bool) -> None:
    """Print the ratio of CPU times for dense and sparse columns and both losses."""
    rng, ratios = np.random.default_rng(0), {}
    X = rng.standard_normal((rows, columns), dtype=np.float32)
    S = sp.random_array((rows, columns), density=DENSITY, format="csc", rng=rng, dtype=np.float32)
    score = 2 * X[:, :10].sum(axis=1) + 4 * rng.standard_normal(rows)
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, user_api="blas"):
        for kind, cells in (("dense", X), ("sparse", S)):
            for loss, y in (("squared", score), ("logistic", score > 0)):
                here = InMemory(cells, *encode_target(y, None), axis="columns")
                ratios[f"{kind}, {loss}, in memory"] = ratio(here, loss, rounds)
                disk = daskfs.write_dataset(
                    Path(folder) / f"{kind}-{loss}", sp.csr_array(S) if kind == "sparse" else X, y
                )
                if kind == "sparse":
                    disk = daskfs.transpose(disk, Path(folder) / f"columns-{loss}")
                ratios[f"{kind}, {loss}, from disk"] = ratio(disk, loss, rounds)
    if docs:
        measured = {"rows": rows, "columns": columns, "times": {name: round(of, 2) for name, of in ratios.items()}}
        (DOCS / "error-control-cost.json").write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
        replace_table(DOCS / "error-control.md", HEAD, table_of(measured["times"]))
    if as_json:
        click.echo(json.dumps(ratios))
    else:
        show("a settled pass with error control", ["", "times"], [[name, f"{of:.1f}"] for name, of in ratios.items()])


if __name__ == "__main__":
    main()
