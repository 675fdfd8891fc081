"""Draw the tables of docs/scaling.md from docs/scaling.json, and from the model of `daskfs plan`.

    python pipelines/docs/scaling.py

A table follows a line ``<!-- table: NAME -->`` and ends with an empty line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from daskfs import Mission, OnlineSubstitution
from daskfs.job import timing
from daskfs.job.timing import Work
from daskfs.protocol import Algorithm, Meta

DOCS = Path(__file__).parents[2] / "docs"
TERABYTE = 10**12
BLOCK_BYTES = 8_000_000
WORKERS = (1, 4, 16, 64, 256, 1024)
BYTES = {"OnlineSubstitution": 4, "Mission": 8}
"""Of a stored number: float32, and an id with a value as lz4 leaves them."""
NAMES = {"OnlineSubstitution": "Online Substitution", "Mission": "MISSION", "substitution": "Online Substitution"}
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
        *([f"a number, {NAMES[name]}", f"{value:g} ns of CPU time"] for name, value in timing.NANOSECONDS.items()),
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


def light(figures: Figures) -> str:
    rows = [
        [of["schedule"], f"{of['workers']:,}", f"{of['tasks']:,}", f"{1000 * of['scheduler'] / of['tasks']:.1f}",
         f"{of['submission']:.2f}", f"{of['pushes'] / of['seconds']:,.0f}" if of["pushes"] else "",
         f"{1000 * of['centre'] / of['pushes']:.1f}" if of["pushes"] else "", f"{of['possible']:.2f}"]
        for of in figures["workers"]
    ]  # fmt: skip
    header = ["schedule", "workers", "tasks of a pass", "scheduler, CPU ms a task", "submission, s", "pushes a second",
              "centre, CPU ms a push", "efficiency by CPU"]  # fmt: skip
    return table(header, rows)


def streams(figures: Figures) -> str:
    rows = [
        [NAMES.get(of["algorithm"], "MISSION"), f"{of['pool']:g}", f"{of['gigabytes']:,.1f}", f"{of['blocks']:,}",
         f"{of['found']:.0%}", f"{of['slope']:+.2f}", f"{of['cpu_ratio']:.1f}x"] for of in figures["streams"]
    ]  # fmt: skip
    header = ["", "different chunks, GB", "streamed, GB", "chunks", "planted features found", "memory, MB for a GB",
              "CPU of a pass, by the bare read's"]  # fmt: skip
    return table(header, rows)


TABLES: dict[str, Callable[[Figures], str]] = {
    "numbers": numbers, "fits": fits, "extrapolated": extrapolated, "light": light, "streams": streams,
}  # fmt: skip


def drawn(page: str, figures: Figures) -> str:
    """Return the page with all tables drawn anew."""

    def draw(found: re.Match[str]) -> str:
        return f"{found[1]}\n\n{TABLES[found[2]](figures)}\n"

    return re.sub(r"(<!-- table: (\w+) -->)\n\n(?:\|.*\n)*\n?", draw, page)


def main() -> None:
    figures = json.loads((DOCS / "scaling.json").read_text())
    page = DOCS / "scaling.md"
    page.write_text(drawn(page.read_text(), figures))


if __name__ == "__main__":
    main()
