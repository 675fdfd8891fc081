"""Draw docs/scaling.md from docs/scaling.json and the model of `daskfs plan`, whose CPU times come from the fits.

    python pipelines/docs/scaling.py

What is drawn stands between a line ``<!-- table: NAME -->`` and a line ``<!-- end -->``: a table, and sentences on what
follows from it and on what has not been measured.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from marked_tables import drawn

from daskfs import Mission, OnlineSubstitution
from daskfs.algorithms.registry import ALGORITHMS, registration
from daskfs.job import timing
from daskfs.job.timing import Work
from daskfs.protocol import Algorithm, Meta

DOCS = Path(__file__).parents[2] / "docs"
TERABYTE = 10**12
BLOCK_BYTES = 8_000_000
ENOUGH, MOST_WORKERS = 0.8, 4096
CALM = 1.5  # processes that want to run, for each core; the benchmark itself is up to one
LINEAR = 1.03  # an exponent up to this is that of linear growth
LIGHT_WORKERS = (16, 64, 256, 1024)
WORKERS = (1, 4, 16, 64, 256, 1024)
BYTES = {"OnlineSubstitution": 4, "Mission": 8}
"""Of a stored number: float32, and an id with a value as lz4 leaves them."""
NAMES = {"OnlineSubstitution": "Online Substitution", "Mission": "MISSION", "substitution": "Online Substitution",
         "mission": "MISSION", "random-features": "Sparse Random Features"}  # fmt: skip
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
    rows, busy = [], max(of.get("load", math.inf) for of in figures["fits"])
    for of in figures["fits"]:
        seconds = [f"{of[name]:.1f}" for name in ("predicted", "measured")]
        errors = [f"{of['worst']:.0%}", *seconds, f"{of['error']:+.1%}"]
        rows.append([NAMES[of["algorithm"]], f"{of['nanoseconds']:.1f}", *errors])
    text = table(["", "ns a number", "worst of the fit", "predicted, CPU s", "measured, CPU s", "error"], rows)
    if busy < CALM:
        return f"{text}\nThe machine had nothing else to do.\n"
    return (
        f"{text}\nThe machine was busy with other things, which makes a CPU second do less: the numbers are rather too "
        "large. On a machine that is free: not measured yet.\n"
    )


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
        row = [_schedule(of), f"{of['workers']:,}", f"{of['work']:g}", f"{of['tasks']:,}"]
        row += [f"{1000 * of['scheduler'] / of['tasks']:.1f}", f"{of['submission']:.2f}", f"{of['merging']:.2f}"]
        if of["pushes"]:
            row += [f"{of['pushes'] / of['seconds']:,.0f}", f"{1000 * of['centre'] / of['pushes']:.1f}"]
        else:
            row += ["", ""]
        rows.append([*row, f"{of['possible']:.2f}"])
    header = ["schedule", "workers", "work of each, s", "tasks of a pass", "scheduler, CPU ms a task", "submission, s",
              "merging, s", "pushes a second", "centre, CPU ms a push", "efficiency by CPU"]  # fmt: skip
    return table(header, rows) + "\n" + " ".join(_reached(figures["workers"])) + "\n"


def _schedule(of: Figures) -> str:
    return "around a centre" if of["schedule"] == "centre" else f"in {of['merges']} rounds"


def _reached(records: Sequence[Figures]) -> list[str]:
    """Return for each schedule the largest number of workers above the limit of efficiency, and what is missing."""
    said = []
    for schedule in dict.fromkeys(_schedule(of) for of in records):
        own = [of for of in records if _schedule(of) == schedule]
        good = [of["workers"] for of in own if of["possible"] >= ENOUGH]
        bad = [of["workers"] for of in own if of["possible"] < ENOUGH]
        text = f"{schedule.capitalize()}: {max(good, default=0)} workers at {ENOUGH} or more"
        said.append(f"{text}, {min(bad)} below it." if bad else f"{text}, none of those measured below it.")
        missing = [f"{count:,}" for count in LIGHT_WORKERS if count not in good + bad]
        said += [f"{schedule.capitalize()} with {' and '.join(missing)} workers: not measured yet."] if missing else []
    return said


def _stream(name: str) -> str:
    algorithm, _, place = name.partition(", ")
    return NAMES[algorithm] + (f", {place}" if place else "")


def streams(figures: Figures) -> str:
    rows = []
    for of in figures["streams"]:
        sizes = [f"{of['pool']:g}", f"{of['gigabytes']:,.1f}", f"{of['blocks']:,}", f"{of['found']:.2f}"]
        run = [*sizes, f"{of['peak']:,.0f}", f"{of['bare']:.2f} ({of['bare_cpu']:.2f})"]
        for number, one in enumerate(of["passes"]):
            first = [_stream(of["algorithm"]), *run] if number == 0 else [""] * 7
            ratios = f"{one['ratio']:.1f}x ({one['cpu_ratio']:.1f}x)"
            rows.append([*first, one["what"], f"{one['slope']:+.2f}", ratios])
    header = ["", "different chunks, GB", "streamed, GB", "chunks", "found", "peak, MB", "bare read, GB/s (a CPU s)",
              "pass", "memory, MB for a GB", "time by the bare read's (CPU)"]  # fmt: skip
    return table(header, rows) + _streams_missing(figures["streams"])


def _streams_missing(streams: Sequence[Figures]) -> str:
    """Return which of the three algorithms have streamed a terabyte, and which are not measured at all."""
    names = list(dict.fromkeys(NAMES[key] for key in ("substitution", "mission", "random-features")))
    largest = {name: max((of["gigabytes"] for of in streams if _stream(of["algorithm"]) == name), default=0.0)
               for name in names}  # fmt: skip
    missing = [name for name, size in largest.items() if not size]
    smaller = [f"{name} ({size:,.3g} GB)" for name, size in largest.items() if 0 < size < TERABYTE / 1e9]
    said = [f"Not measured yet: {', '.join(missing)}."] if missing else []
    said += [f"Less than a terabyte so far: {', '.join(smaller)}."] if smaller else []
    if not any(of["algorithm"].endswith("S3") for of in streams):
        said.append("Not measured yet: a stream through an S3 server.")
    return f"\n{' '.join(said)}\n" if said else ""


def linear(figures: Figures) -> str:
    if not figures.get("linear"):
        return "Not measured yet.\n"
    rows = [
        [of["what"], *(f"{seconds:.2f}" for seconds in of["seconds"]), f"{of['exponent']:.2f}",
         f"{of['of larger']:.2f}", *(f"{of['megabytes'][at]:.0f}" for at in (0, -1))] for of in figures["linear"]
    ]  # fmt: skip
    sizes = [f"{size:g}x" for size in figures["linear"][0]["sizes"]]
    header = ["what grows", *(f"CPU s, {size}" for size in sizes), "exponent", "without the smallest"]
    text = table([*header, f"MB, {sizes[0]}", f"MB, {sizes[-1]}"], rows)
    beyond = [of["what"] for of in figures["linear"] if of["of larger"] > LINEAR]
    verdict = (
        f"More than {LINEAR} without the smallest size: {'; '.join(beyond)}."
        if beyond
        else f"None is more than {LINEAR} without the smallest size."
    )
    return f"{text}\n{verdict}\n"


def spot(figures: Figures) -> str:
    calm = {of["schedule"]: of["seconds"] for of in figures.get("spot", []) if not of["life"]}
    rows = [
        [of["schedule"], str(of["workers"]), f"{of['life']:g} s" if of["life"] else "the whole run", str(of["kills"]),
         f"{of['seconds']:.0f}", f"{of['seconds'] / calm[of['schedule']]:.2f}x", f"{of['lost']:.1%}",
         f"{of['away']:.1%}", f"{(1 + of['lost']) / (1 - of['away']):.2f}x"]
        for of in figures.get("spot", []) if of["schedule"] in calm
    ]  # fmt: skip
    if not rows:
        return "Not measured yet.\n"
    header = ["schedule", "workers", "mean life", "kills", "seconds", "of the calm run", "work done again"]
    return table([*header, "workers away", "both explain"], rows)


TABLES: dict[str, Callable[[Figures], str]] = {
    "numbers": numbers, "fits": fits, "extrapolated": extrapolated, "limits": limits, "light": light,
    "linear": linear, "spot": spot, "streams": streams,
}  # fmt: skip


def registration_file(name: str) -> Path:
    """Return the file that states how long an algorithm takes for a number."""
    return Path(str(import_module(ALGORITHMS[name]).__file__))


def with_constant(source: str, nanoseconds: float) -> str:
    """Return the source of a registration with the CPU time of a number."""
    return re.sub(r"^( +nanoseconds=)[\d.]+,$", rf"\g<1>{nanoseconds:.2g},", source, flags=re.MULTILINE)


def page_with(page: str, figures: Figures) -> str:
    """Return the page with all tables drawn anew."""
    return drawn(page, {name: draw(figures) for name, draw in TABLES.items()})


def main() -> None:
    figures = json.loads((DOCS / "scaling.json").read_text())
    for of in figures["fits"]:
        file = registration_file(of["algorithm"])
        file.write_text(with_constant(file.read_text(), of["nanoseconds"]))
    page = DOCS / "scaling.md"  # with the constants of the last run: two runs where they have changed
    page.write_text(page_with(page.read_text(), figures))


if __name__ == "__main__":
    main()
