"""Draw the tables of docs/scaling.md from docs/scaling.json, and from the model of `daskfs plan`.

    python pipelines/docs/scaling.py

A table follows a line ``<!-- table: NAME -->`` and ends with an empty line.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from daskfs import Mission, OnlineSubstitution
from daskfs.algorithms.registry import registration
from daskfs.job import timing
from daskfs.job.timing import Work
from daskfs.protocol import Algorithm, Meta

DOCS = Path(__file__).parents[2] / "docs"
TERABYTE = 10**12
BLOCK_BYTES = 8_000_000
ENOUGH, MOST_WORKERS = 0.8, 4096
WORKERS = (1, 4, 16, 64, 256, 1024)
BYTES = {"OnlineSubstitution": 4, "Mission": 8}
"""Of a stored number: float32, and an id with a value as lz4 leaves them."""
NAMES = {"OnlineSubstitution": "Online Substitution", "Mission": "MISSION", "substitution": "Online Substitution",
         "mission": "MISSION"}  # fmt: skip
Figures = dict[str, Any]


def terabyte_of(name: str) -> Work:
    """Return the work of a pass of an algorithm over a terabyte."""
    algorithm: Algorithm = {"OnlineSubstitution": OnlineSubstitution(100), "Mission": Mission(1000)}[name]
    kind, axes = ("sparse", ("rows",)) if name == "Mission" else ("dense", ("columns",))
    numbers = TERABYTE // BYTES[name]
    meta = Meta(kind, 10**6, 10**6, numbers, 10**6, None, BLOCK_BYTES, axes=axes)  # type: ignore[arg-type]
    return Work.of(algorithm, meta, 1, TERABYTE, TERABYTE // BLOCK_BYTES)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def numbers(figures: Figures) -> str:
    rows = [
        ["to start (a round figure, not fitted)", f"{timing.START_SECONDS:g} s"],
        *([f"a number, {NAMES[name]}", f"{registration(name).nanoseconds:g} ns of CPU time"] for name in BYTES),
        ["a task in rounds", f"{1000 * timing.ROUND_TASK_SECONDS:g} ms of CPU time of the scheduler"],
        ["a task around a centre", f"{1000 * timing.GROUP_TASK_SECONDS:g} ms of CPU time of the scheduler"],
        ["a round (the same)", f"{1000 * timing.ROUND_SECONDS:g} ms"],
    ]
    return table(["", "in the model"], rows)


def fits(figures: Figures) -> str:
    rows = []
    for of in figures["fits"]:
        seconds = [f"{of[name]:.1f}" for name in ("predicted", "measured")]
        errors = [f"{of['worst']:.0%}", *seconds, f"{of['error']:+.1%}"]
        rows.append([NAMES[of["algorithm"]], f"{of['nanoseconds']:.1f}", *errors])
    return table(["", "ns a number", "worst of the fit", "predicted, CPU s", "measured, CPU s", "error"], rows)


def extrapolated(figures: Figures) -> str:
    rows = []
    for workers in WORKERS:
        row = [f"{workers:,}"]
        for name in BYTES:
            for gigabytes in (0.1, 1.0):
                times = terabyte_of(name).pass_times(workers, gigabytes)
                row.append(f"{times.total:,.0f} s ({times.efficiency:.2f})")
        rows.append(row)
    header = [f"{NAMES[name]}, {gigabytes:g} GB/s" for name in BYTES for gigabytes in (0.1, 1.0)]
    return table(["workers", *header], rows)


def limits(figures: Figures) -> str:
    rows = [
        [f"{gigabytes:g} GB", *(f"{most_workers(name, gigabytes):,}" for name in BYTES)] for gigabytes in (1, 4, 16, 64)
    ]
    return table(["data of each worker", *(NAMES[name] for name in BYTES)], rows)


def most_workers(name: str, gigabytes: float) -> int:
    """Return the largest number of workers that read 1 GB/s each, and so much in a pass, and wait a fifth of it."""

    given = terabyte_of(name)

    def waits(workers: int) -> bool:
        nbytes = round(workers * gigabytes * 1e9)
        work = replace(given, bytes=nbytes, numbers=nbytes // BYTES[name], blocks=nbytes // BLOCK_BYTES)
        return work.pass_times(workers, 1.0).efficiency < ENOUGH

    return bisect_left(range(1, MOST_WORKERS + 1), True, key=waits)


def light(figures: Figures) -> str:
    rows = []
    for of in figures["workers"]:
        row = [of["schedule"], f"{of['workers']:,}", f"{of['work']:g}", f"{of['tasks']:,}"]
        row += [f"{1000 * of['scheduler'] / of['tasks']:.1f}", f"{of['submission']:.2f}", f"{of['merging']:.2f}"]
        if of["pushes"]:
            row += [f"{of['pushes'] / of['seconds']:,.0f}", f"{1000 * of['centre'] / of['pushes']:.1f}"]
        else:
            row += ["", ""]
        rows.append([*row, f"{of['possible']:.2f}"])
    header = ["schedule", "workers", "work of each, s", "tasks of a pass", "scheduler, CPU ms a task", "submission, s",
              "merging, s", "pushes a second", "centre, CPU ms a push", "efficiency by CPU"]  # fmt: skip
    return table(header, rows)


def _stream(name: str) -> str:
    algorithm, _, place = name.partition(", ")
    return NAMES[algorithm] + (f", {place}" if place else "")


def streams(figures: Figures) -> str:
    rows = [
        [_stream(of["algorithm"]), f"{of['pool']:g}", f"{of['gigabytes']:,.1f}", f"{of['blocks']:,}",
         f"{of['found']:.0%}", f"{of['slope']:+.2f}", f"{of['cpu_ratio']:.1f}x"] for of in figures["streams"]
    ]  # fmt: skip
    header = ["", "different chunks, GB", "streamed, GB", "chunks", "planted features found", "memory, MB for a GB",
              "CPU of a pass, by the bare read's"]  # fmt: skip
    return table(header, rows)


def linear(figures: Figures) -> str:
    rows = [
        [of["what"], *(f"{seconds:.2f}" for seconds in of["seconds"]), f"{of['exponent']:.2f}",
         f"{of['of larger']:.2f}", *(f"{of['megabytes'][at]:.0f}" for at in (0, -1))] for of in figures["linear"]
    ]  # fmt: skip
    sizes = [f"{size:g}x" for size in figures["linear"][0]["sizes"]]
    header = ["what grows", *(f"CPU s, {size}" for size in sizes), "exponent", "without the smallest"]
    return table([*header, f"MB, {sizes[0]}", f"MB, {sizes[-1]}"], rows)


def spot(figures: Figures) -> str:
    calm = {of["schedule"]: of["seconds"] for of in figures["spot"] if not of["life"]}
    rows = [
        [of["schedule"], str(of["workers"]), f"{of['life']:g} s" if of["life"] else "the whole run", str(of["kills"]),
         f"{of['seconds']:.0f}", f"{of['seconds'] / calm[of['schedule']]:.2f}x", f"{of['lost']:.1%}",
         f"{of['away']:.1%}", f"{(1 + of['lost']) / (1 - of['away']):.2f}x"] for of in figures["spot"]
    ]  # fmt: skip
    header = ["schedule", "workers", "mean life", "kills", "seconds", "of the calm run", "work done again"]
    return table([*header, "workers away", "both explain"], rows)


TABLES: dict[str, Callable[[Figures], str]] = {
    "numbers": numbers, "fits": fits, "extrapolated": extrapolated, "limits": limits, "light": light,
    "linear": linear, "spot": spot, "streams": streams,
}  # fmt: skip


def drawn(page: str, tables: Mapping[str, str]) -> str:
    """Return the page with tables in the place of those of the same names."""

    def draw(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{tables[found[2]]}\n"

    return re.sub(r"(<!-- table: (\w+) -->)\n\n(?:\|.*\n)*\n?", draw, page)


def page_with(page: str, figures: Figures) -> str:
    """Return the page with all tables drawn anew."""
    return drawn(page, {name: draw(figures) for name, draw in TABLES.items()})


def main() -> None:
    figures = json.loads((DOCS / "scaling.json").read_text())
    page = DOCS / "scaling.md"
    page.write_text(page_with(page.read_text(), figures))


if __name__ == "__main__":
    main()
