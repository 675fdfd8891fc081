"""daskfs select: features of a dataset."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import click

from daskfs.cli.algorithms import ALGORITHMS, algorithm_options, make_algorithm
from daskfs.cli.show import print_selection
from daskfs.errors import CheckpointError, OptionError
from daskfs.jit import is_cold
from daskfs.observe.progress import pass_progress
from daskfs.observe.terminal import messages, remarks_told
from daskfs.protocol import Algorithm
from daskfs.selection import Selection, load_selection
from daskfs.store.dataset import Dataset, open_dataset
from daskfs.store.layout import ROOT
from daskfs.store.location import Location
from daskfs.store.saved import CHECKPOINT, RECORD
from daskfs.stream.checkpoint import KEY, described
from daskfs.stream.pool import cluster_at
from daskfs.stream.run import memory_plan
from daskfs.stream.run import select as run_select


@click.command(short_help="Select the features of a dataset that matter.")
@click.argument("data")
@click.option("--algorithm", "-a", "name", required=True, type=click.Choice(list(ALGORITHMS)), help="What selects.")
@click.option("--out", required=True, help="The run's folder or URL: selection, history and, meanwhile, a checkpoint.")
@click.option("--scheduler", help="Run on the Dask cluster at this address.")
@click.option("--serial", is_flag=True, help="Run in this process, as without --scheduler.")
@click.option("--synchronous", is_flag=True, help="Let workers wait for each other, so that the run can be repeated.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out; if it is finished, show it.")
@click.option("--overwrite", is_flag=True, help="Replace another run in --out.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="What random choices begin with.")
@algorithm_options
def select(
    data: str,
    name: str,
    out: str,
    scheduler: str | None,
    serial: bool,
    synchronous: bool,
    resume: bool,
    overwrite: bool,
    seed: int,
    **fields: Any,
) -> None:
    """Select features of the dataset DATA, and keep the run in --out.

    An interrupted run goes on where it stopped when the same command is run again.
    """
    if scheduler and serial:
        raise OptionError("--serial and --scheduler: choose one of them")
    if resume and overwrite:
        raise OptionError("--resume and --overwrite: choose one of them")
    algorithm = make_algorithm(name, {field: value for field, value in fields.items() if value is not None})
    dataset, location = open_dataset(data), Location(out)
    _check_axis(dataset, algorithm)
    if location.exists(ROOT):
        raise OptionError(f"{out}: is a dataset; choose another place for the run")
    if location.exists(RECORD) and not overwrite:
        print_selection(_finished(out, dataset, algorithm, seed, resume))
        return
    messages.print(f"memory: {memory_plan(dataset, algorithm)}", soft_wrap=True)
    if is_cold():
        messages.print("compiling, once on this machine: some 15 seconds")
    if location.exists(f"{CHECKPOINT}/{KEY}") and not overwrite:
        messages.print("going on with the unfinished run that is there")
    with remarks_told(), cluster_at(scheduler) as client, pass_progress() as progress:
        run = partial(
            run_select,
            dataset,
            algorithm,
            client=client,
            checkpoint=f"{location.url}/{CHECKPOINT}",
            seed=seed,
            synchronous=synchronous,
            progress=progress,
        )
        try:
            selection = run(resume=True)  # also one that was to replace another, and was interrupted
        except CheckpointError:
            if not overwrite:
                raise
            selection = run()
    selection.save(out)
    location.delete(CHECKPOINT)  # as large as the memory of the run, and of no more use
    print_selection(selection)
    click.echo(f"kept in {out}")


def _check_axis(dataset: Dataset, algorithm: Algorithm) -> None:
    """OptionError, before anything is written, if the dataset cannot be read the way the algorithm reads."""
    if dataset.kind == "sparse" and (algorithm.axis, dataset.layout) == ("columns", "rows"):
        url = dataset.url
        raise OptionError(
            f"{url}: is laid out in rows, and {type(algorithm).__name__} reads columns; "
            f"run daskfs transpose {url} COLUMNS.zarr, and select from that"
        )
    dataset.n_blocks(algorithm.axis)


def _finished(out: str, dataset: Dataset, algorithm: Algorithm, seed: int, resume: bool) -> Selection:
    """The finished run that is there, if it is this one and may be shown in place of running it."""
    kept = load_selection(out)
    then = {**kept.algorithm, "seed": kept.seed, "dataset": kept.source["digest"][:12]}
    now = {**described(algorithm), "seed": seed, "dataset": dataset.digest[:12]}
    changes = [key for key in now if json.dumps(then.get(key)) != json.dumps(now[key])]
    if changes:
        what = ", ".join(f"{key} was {then.get(key)!r:.40}, now {now[key]!r:.40}" for key in changes)
        raise OptionError(f"{out}: holds another run ({what}); choose another --out, or replace it with --overwrite")
    if not resume:
        raise OptionError(f"{out}: holds this run, finished; --resume shows it, --overwrite runs it again")
    return kept
