"""The simulations of MISSION (ICML 2018, section 5), beside hard thresholding.

    python pipelines/papers/mission.py table1      # how far the columns that count may be attenuated
    python pipelines/papers/mission.py figure2     # how many columns are recovered from n rows
    python pipelines/papers/mission.py figure3     # how much memory that takes as p grows

Data are the recipe `mission_lagging_gradient` under seeds 0, 1, …: X is n x p, standard normal, the k columns that
count are divided by α, y is their sum, without noise. Everybody chooses k columns; *recovered* means that they are
those that count, all of them.

==================== =================================================================================================
MISSION, active      the product's default
MISSION, paper       the paper's listing with its count-sketch, without the scaling by γ that the paper used for
                     figure 2 only (`mission_figure2.py` has it, too)
IHT, a row a step    equation 3 of the paper, the k largest after every row. On rows without a zero it fails whatever
                     the rate: the largest entries of one row say nothing. The paper's figures for IHT cannot be its
IHT, ITI, PHT        hard thresholding by the whole gradient (`thresholding`), in O(p) memory. Tuned like the others it
                     recovers at α = 1 at least as often as the paper has it
==================== =================================================================================================

Rates: for each method and each column of a table that one of `_recovery.RATES` that does best on draws of their own,
with the same rows, columns and k; then the method is judged on the seeds 0, 1, … Methods that stream see no more than
`--rows-seen` rows, in passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import click
import numpy as np
import thresholding
from _judge import recall
from _problems import Problem, lagging_gradient
from _recovery import Method, in_memory, last_that_holds, recovers_most, streamed, tuned, until_it_fails
from _report import Record, report
from threadpoolctl import threadpool_limits

STEP = 0.25  # between levels of the attenuation α
TUNING = range(10**6, 10**6 + 2)  # seeds of draws that rates are chosen by, and nobody is judged by
WIDTH = 2**14  # of sketches in which 1000 columns hardly collide

WHOLE_GRADIENT: dict[str, Method] = {
    "IHT": in_memory(thresholding.iht),
    "ITI": in_memory(thresholding.iti),
    "PHT": in_memory(thresholding.pht),
}


def missions(rows_seen: int, width: int = WIDTH) -> dict[str, Method]:
    return {f"MISSION, {method}": streamed(rows_seen, method=method, width=width) for method in ("active", "paper")}


@click.group(context_settings={"show_default": True})
def main() -> None:
    """Print the tables of MISSION's simulations."""
    threadpool_limits(1)


json_option = click.option("--json", "as_json", is_flag=True, help="Every trial instead of a table of means.")


def trials_option(default: int) -> Callable[..., Any]:
    return click.option("--trials", type=click.IntRange(min=1), default=default, help="Repetitions, seeds 0, 1, …")


def rows_seen_option(default: int) -> Callable[..., Any]:
    return click.option("--rows-seen", type=click.IntRange(min=1), default=default, help="By methods that stream.")


# ------------------------------------------------------------------------------------------------------------- table 1

PAPER_ROWS = ((100, 2), (100, 3), (100, 4), (200, 5), (200, 6), (200, 7))
TEXT_ROW = (900, 5)  # the text has 900 rows, the table has not


@main.command()
@click.option("--p", type=int, default=1000, help="Columns.")
@click.option("--row", "rows", type=(int, int), multiple=True, default=(*PAPER_ROWS, TEXT_ROW), help="n and k.")
@click.option("--most", type=click.FloatRange(min=1), default=5.0, help="The largest α to try.")
@rows_seen_option(10_000)
@trials_option(5)
@json_option
def table1(p: int, rows: Sequence[tuple[int, int]], most: float, rows_seen: int, trials: int, as_json: bool) -> None:
    """The largest α up to which all columns that count are recovered, at every level of α on the way.

    As in the paper, the mean is over the trials in which all methods recover them at α = 1, but for those methods
    that never do; 0 stands for not even there.
    """
    methods = missions(rows_seen) | {"IHT, a row a step": streamed(rows_seen, method="iht")} | WHOLE_GRADIENT
    levels = np.arange(1, most + STEP / 2, STEP).tolist()
    for n in dict.fromkeys(n for n, _ in rows):
        records = [
            record
            for k in (k for n_of_row, k in rows if n_of_row == n)
            for record in comparable(withstood(n, p, k, levels, methods, trials))
        ]
        report(f"attenuation withstood, p = {p}, n = {n}", records, "k", ["recovered at 1", "α"], as_json)


def withstood(
    n: int, p: int, k: int, levels: Sequence[float], methods: dict[str, Method], trials: int
) -> Iterator[Record]:
    coarse = levels[2::2] or levels  # enough to tell rates apart

    def attenuated(seed: int, alphas: Sequence[float]) -> Iterator[Problem]:
        return (lagging_gradient(n, p, k, seed, alpha) for alpha in alphas)

    def score(choose: Method, rate: float) -> float:
        return sum(sum(until_it_fails(choose, rate, attenuated(seed, coarse))) for seed in TUNING)

    for name, choose in methods.items():
        rate = tuned(partial(score, choose))
        for seed in range(trials):
            recalls = list(until_it_fails(choose, rate, attenuated(seed, levels)))
            largest = max((level for level, share in zip(levels, recalls, strict=False) if share == 1), default=0.0)
            record = {"method": name, "n": n, "k": k, "seed": seed, "rate": rate}
            yield record | {"recovered at 1": float(largest >= 1), "α": largest}


def comparable(records: Iterator[Record]) -> list[Record]:
    """Records with "α" left out for seeds where a method that can recover the columns at α = 1 does not."""
    every = list(records)
    able = {record["method"] for record in every if record["recovered at 1"]}
    failed = {record["seed"] for record in every if record["method"] in able and not record["recovered at 1"]}
    return [{name: r[name] for name in r if name != "α" or r["seed"] not in failed} for r in every]


# ------------------------------------------------------------------------------------------------------------ figure 2


@main.command()
@click.option("--p", type=int, default=1000, help="Columns.")
@click.option("--n", "sizes", type=int, multiple=True, default=(100, 200, 300, 400), help="Rows; may be repeated.")
@rows_seen_option(10_000)
@trials_option(5)
@json_option
def figure2(p: int, sizes: Sequence[int], rows_seen: int, trials: int, as_json: bool) -> None:
    """The largest k at which the columns are recovered in more than half of the trials."""
    methods = missions(rows_seen) | WHOLE_GRADIENT
    records = [record for n in sizes for record in transitions(n, p, methods, range(trials))]
    report(f"phase transition, p = {p}: largest k", records, "n", ["k"], as_json)


def transitions(n: int, p: int, methods: dict[str, Method], seeds: Sequence[int]) -> Iterator[Record]:
    def largest(choose: Method, seeds: Sequence[int], rate: float) -> int:
        def most_at(k: int) -> bool:
            return recovers_most(choose, rate, (lagging_gradient(n, p, k, seed) for seed in seeds), len(seeds))

        return last_that_holds(most_at, most=n // 2)

    for name, choose in methods.items():
        rate = tuned(partial(largest, choose, TUNING))
        yield {"method": name, "n": n, "rate": rate, "k": largest(choose, seeds, rate)}


# ------------------------------------------------------------------------------------------------------------ figure 3


@main.command()
@click.option("--n", type=int, default=100, help="Rows.")
@click.option("--k", type=int, default=5, help="Columns that count.")
@click.option("--p", "sizes", type=int, multiple=True, default=(1000, 3000, 10_000), help="Columns; may be repeated.")
@click.option("--width", "widths", type=int, multiple=True, default=tuple(2**bits for bits in range(6, 15, 2)))
@rows_seen_option(10_000)
@trials_option(5)
@json_option
def figure3(
    n: int, k: int, sizes: Sequence[int], widths: Sequence[int], rows_seen: int, trials: int, as_json: bool
) -> None:
    """Recall by the width of the sketch (0: none), and by p the width at which every trial recovers the columns."""
    needed = []
    for p in sizes:
        records = list(by_memory(n, p, k, widths, rows_seen, range(trials)))
        report(f"memory, n = {n}, k = {k}, p = {p}", records, "width", ["recall"], as_json)
        needed += [record | {"p": p} for record in least_widths(records)]
    report(f"smallest width with every trial recovered, n = {n}, k = {k}", needed, "p", ["width"], as_json)


def by_memory(n: int, p: int, k: int, widths: Sequence[int], rows_seen: int, seeds: Sequence[int]) -> Iterator[Record]:
    def score(choose: Method, rate: float) -> float:
        problems = [lagging_gradient(n, p, k, seed) for seed in TUNING]
        return sum(recall(problem, choose(problem, rate)) for problem in problems)

    by_width = {width: missions(rows_seen, width) for width in widths} | {0: {"IHT": WHOLE_GRADIENT["IHT"]}}
    for width, methods in by_width.items():
        for name, choose in methods.items():
            rate = tuned(partial(score, choose))
            for seed in seeds:
                problem = lagging_gradient(n, p, k, seed)
                share = recall(problem, choose(problem, rate))
                record = {"method": name, "width": width, "seed": seed, "rate": rate}
                yield record | {"recall": share, "recovered": float(share == 1)}


def least_widths(records: Sequence[Record]) -> Iterator[Record]:
    """For each method with a sketch the smallest width at which, and above which, no trial failed; if there is one."""
    for method in dict.fromkeys(record["method"] for record in records if record["width"]):
        own = [record for record in records if record["method"] == method]
        too_small = max((record["width"] for record in own if not record["recovered"]), default=0)
        enough = [record["width"] for record in own if record["width"] > too_small]
        if enough:
            yield {"method": method, "width": min(enough)}


if __name__ == "__main__":
    main()
