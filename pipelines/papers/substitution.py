"""The experiments of Online Substitution (KDD 2016, section 5), and what the paper did not try, beside peers.

    python pipelines/papers/substitution.py recall                     # figure 1, p = 2000, 4000, 6000
    python pipelines/papers/substitution.py scales                     # columns of different scales
    python pipelines/papers/substitution.py correlated                 # neighbouring columns alike
    python pipelines/papers/substitution.py classification             # figure 2, p = 1000 … 5000
    python pipelines/papers/substitution.py real --from DIR            # dexter and mnist
    python pipelines/papers/substitution.py workers                    # right column of figures 1 and 2, real processes

Synthetic data are the recipes `os_regression` and `os_classification` under seeds 0, 1, …: s = 100 true columns of p,
n = 1.2 s log2 p rows, standard normal; every method chooses s. Real data: two thirds of the rows, drawn by the seed,
to choose and fit with, and the others to judge by. Whatever chose the columns, they are fitted again in the same way
(`_judge`): least squares, or logistic regression. Peers get standardised columns in memory, daskfs a dataset on disk in
chunks of 128 columns (`workers`: 32), and the seed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import _problems
import click
import numpy as np
import peers
from _judge import balanced_accuracy, error_rate, recall, recovery_error
from _problems import Problem
from _report import Record, report
from distributed import Client, LocalCluster
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import daskfs

TRUE_COLUMNS = 100
SMALL_CHUNK = 32  # columns, so that each of 8 workers has several chunks in a pass, as it has where p is large
Method = Callable[[Problem, str, int, int], NDArray[np.int64]]
"""From a problem, the URL of its dataset, the number of columns to choose, and a seed to their ids."""
Judges = dict[str, Callable[[Problem, NDArray[np.int64]], float]]


def product(client: Client | None = None, **fields: Any) -> Method:
    """Online Substitution as users call it."""

    def choose(problem: Problem, url: str, k: int, seed: int) -> NDArray[np.int64]:
        algorithm = daskfs.OnlineSubstitution(k, **fields)
        selection = daskfs.select(daskfs.open_dataset(url), algorithm, client=client, seed=seed)
        return selection.features.astype(np.int64)

    return choose


def peer(choose: Callable[..., NDArray[np.int64]], **options: Any) -> Method:
    """A function of `peers`, on the standardised columns."""
    return lambda problem, url, k, seed: problem.varying[choose(problem.standardised, problem.y, k, **options)]


def measured(
    problems: Iterable[tuple[Record, Problem]], methods: dict[str, Method], judges: Judges, k: int = TRUE_COLUMNS
) -> list[Record]:
    """Every method on every problem: the record that names the problem, with method, CPU time and judgements."""
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (record, problem) in enumerate(problems):
            url = problem.store(Path(folder) / f"{number}.zarr")
            _ = problem.standardised  # not counted as anybody's time
            for name, choose in methods.items():
                start = time.process_time()
                ids = choose(problem, url, k, record["seed"])
                seconds = time.process_time() - start
                judged = {metric: judge(problem, ids) for metric, judge in judges.items()}
                records.append(record | {"method": name, "cpu seconds": seconds} | judged)
    return records


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Print the tables of Online Substitution."""
    threadpool_limits(1)  # one core for everybody: CPU times are compared


seeds_option = click.option("--seeds", type=click.IntRange(min=1), default=10, help="Repetitions, seeds 0, 1, …")
json_option = click.option("--json", "as_json", is_flag=True, help="Every run instead of a table of means.")


def p_option(*default: int) -> Callable[..., Any]:
    return click.option("--p", "sizes", type=int, multiple=True, default=default, help="Columns; may be repeated.")


BY_PASSES: dict[str, Method] = {
    f"daskfs {method}, {passes} passes": product(method=method, passes=passes)
    for method in ("block", "paper")
    for passes in (1, 2, 3)
}
REGRESSION: Judges = {"recall": recall, "error": recovery_error}


@main.command("recall")
@p_option(2000, 4000, 6000)
@click.option("--grafting", is_flag=True, help="Grafting too, which is slow.")
@seeds_option
@json_option
def recall_command(sizes: tuple[int, ...], grafting: bool, seeds: int, as_json: bool) -> None:
    """Recall and recovery error of sparse regression, over p and passes."""
    methods = BY_PASSES | {
        "OMP": peer(peers.omp),
        "Proj-GD": peer(peers.proj_gd),
        "LASSO": peer(peers.lasso),
        "abess": peer(peers.abess),
        "SelectKBest": peer(peers.select_k_best),
    }
    if grafting:
        methods["Grafting"] = peer(peers.grafting)
    problems = (({"p": p, "seed": seed}, _problems.regression(p, seed)) for p in sizes for seed in range(seeds))
    report("sparse regression", measured(problems, methods, REGRESSION), "p", list(REGRESSION), as_json)


@main.command()
@p_option(2000)
@seeds_option
@json_option
def scales(sizes: tuple[int, ...], seeds: int, as_json: bool) -> None:
    """The same columns as they are, and multiplied with lognormal(0, 1) factors."""
    _variants("scales", ("none", "lognormal"), sizes, seeds, as_json)


@main.command()
@p_option(2000)
@seeds_option
@json_option
def correlated(sizes: tuple[int, ...], seeds: int, as_json: bool) -> None:
    """Independent columns, and columns where each is correlated with the one before (AR .7)."""
    _variants("correlation", ("0", ".7"), sizes, seeds, as_json)


def _variants(option: str, values: tuple[str, ...], sizes: tuple[int, ...], seeds: int, as_json: bool) -> None:
    """Sparse regression under several values of one option of the recipe."""
    methods = BY_PASSES | {"OMP": peer(peers.omp), "Proj-GD": peer(peers.proj_gd), "LASSO": peer(peers.lasso)}
    for p in sizes:
        problems = (
            ({option: value, "seed": seed}, _problems.regression(p, seed, f"--{option}", value))
            for value in values
            for seed in range(seeds)
        )
        records = measured(problems, methods, {"recall": recall})
        report(f"sparse regression, p = {p}", records, option, ["recall"], as_json)


@main.command()
@p_option(1000, 2000, 3000, 4000, 5000)
@seeds_option
@json_option
def classification(sizes: tuple[int, ...], seeds: int, as_json: bool) -> None:
    """Recall and test error of the signs of a sparse linear function."""
    losses = ("logistic", "squared_hinge", "squared")
    methods = {
        **{f"daskfs block, {loss}": product(loss=loss) for loss in losses},
        "daskfs paper, squared_hinge, 2 passes": product(loss="squared_hinge", method="paper", passes=2),
        **{f"Proj-GD, {loss}": peer(peers.proj_gd, loss=loss) for loss in losses},
        "L1 logistic": peer(peers.l1_logistic),
        "OMP": peer(peers.omp),
    }
    judges: Judges = {"recall": recall, "test error": error_rate}
    problems = (({"p": p, "seed": seed}, _problems.classification(p, seed)) for p in sizes for seed in range(seeds))
    report("signs", measured(problems, methods, judges), "p", list(judges), as_json)


@main.command()
@click.option("--from", "source", metavar="DIR", type=click.Path(path_type=Path), required=True, help="Public files.")
@click.option("--set", "names", type=click.Choice(["dexter", "mnist"]), multiple=True, default=["dexter", "mnist"])
@click.option("--pairs", default="random:5000", help="Pairs of pixels whose products are features of mnist.")
@click.option("-k", "counts", type=int, multiple=True, default=(50, 200), help="Columns to choose.")
@seeds_option
@json_option
def real(source: Path, names: tuple[str, ...], pairs: str, counts: tuple[int, ...], seeds: int, as_json: bool) -> None:
    """Balanced accuracy on held-out rows of real sets, and CPU time."""
    methods = {
        "daskfs block, defaults": product(),
        "daskfs block, logistic": product(loss="logistic"),
        "SelectKBest": peer(peers.select_k_best),
        "LASSO path": peer(peers.lasso),
        "L1 logistic path": peer(peers.l1_logistic),
        "abess": peer(peers.abess),
        "OMP": peer(peers.omp),
    }
    judges: Judges = {"accuracy": balanced_accuracy}
    measured([({"seed": 0}, _problems.classification(500, 0))], methods, {})  # kernels compile on somebody else's time
    for name in names:
        X, y = _problems.dexter(source) if name == "dexter" else _problems.mnist(source, pairs)
        records = []
        for k in counts:
            problems = (({"k": k, "seed": seed}, _problems.split(X, y, seed)) for seed in range(seeds))
            records += measured(problems, methods, judges, k)
        title = f"{name}, {X.shape[0]:,} x {X.shape[1]:,}, {_problems.HELD_OUT:.0%} of the rows held out"
        report(title, records, "k", [*judges, "cpu seconds"], as_json)


@main.command()
@p_option(2000)
@click.option("-q", "processes", type=int, multiple=True, default=(1, 2, 4, 8), help="Worker processes.")
@seeds_option
@json_option
def workers(sizes: tuple[int, ...], processes: tuple[int, ...], seeds: int, as_json: bool) -> None:
    """Recall of sparse regression with q worker processes that do not wait for each other, 3 passes."""
    for p in sizes:
        records = []
        for q in processes:
            with cluster(q) as client:
                methods = {
                    "block, by nomination": product(client),
                    "async, elastic budgets": product(client, method="async", budget="elastic"),
                    "async, s/q each": product(client, method="async", budget="faithful"),
                }
                problems = (
                    ({"q": q, "seed": seed}, replace(_problems.regression(p, seed), chunk_columns=SMALL_CHUNK))
                    for seed in range(seeds)
                )
                records += measured(problems, methods, {"recall": recall})
        report(f"sparse regression, p = {p}, q processes", records, "q", ["recall"], as_json)


@contextmanager
def cluster(q: int) -> Iterator[Client]:
    """A cluster of q processes on this machine."""
    here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=q, threads_per_worker=1, silence_logs=40, **here) as cluster,
        Client(cluster, set_as_default=False) as client,  # recipes, whose modules workers do not have, stay out of it
    ):
        yield client


if __name__ == "__main__":
    main()
