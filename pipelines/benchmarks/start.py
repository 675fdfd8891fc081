"""How long small selections take to start, and what the first selections on a machine compile.

    python pipelines/benchmarks/start.py small [--rounds 5] [--megabytes 10] [--json docs/mission-speed.json]
    python pipelines/benchmarks/start.py compile [--json docs/mission-speed.json]

`small` runs ``daskfs select`` on files of 10 MB, every run in a process of its own, with kernels in the cache: svmlight
and VW text with MISSION, and a dense CSV file with Online Substitution. It prints the time from the start of the
process to the first rows that are parsed, and the time of the whole command: wall time, and CPU time of all threads,
both the best of several rounds. On a machine with other work, CPU time is the one to look at.

`compile` runs the selections of ``daskfs demo`` with an empty cache, one after another, and a selection of each of the
files of `small` with an empty cache of its own. It prints the seconds of CPU time that every kernel takes to compile,
with the helpers that are compiled for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
from _measure import save, show

TIMED = """
import sys, time
from daskfs.cli import main
import json, resource

times = {}
def now():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"wall": time.time() - float(sys.argv[1]), "cpu": used.ru_utime + used.ru_stime}

def noting(read):
    def noted(*arguments):
        result = read(*arguments)
        times.setdefault("first rows", now())
        return result
    return noted

from daskfs.store.ingest.formats import FORMATS
for kind in FORMATS.values():
    kind.read, kind.read_dense = noting(kind.read), noting(kind.read_dense)
from daskfs.store.ingest.text_parts import PartParser
PartParser.parse = noting(PartParser.parse)
main(sys.argv[3:], standalone_mode=False)
times["all"] = now()
with open(sys.argv[2], "w") as file:
    json.dump(times, file)
"""
COMPILED = """
import json, sys, time
from numba.core import event

class Kernels(event.Listener):
    def __init__(self):
        self.began, self.done = [], []

    def on_start(self, event):
        self.began.append(time.process_time())

    def on_end(self, event):
        seconds = time.process_time() - self.began.pop()
        if not self.began:  # and not a helper that a kernel needs
            function = event.data["dispatcher"].py_func
            self.done.append((seconds, f"{function.__module__}.{function.__name__}"))

kernels = Kernels()
event.register("numba:compile", kernels)
from daskfs.cli import main
main(sys.argv[2:], standalone_mode=False)
with open(sys.argv[1], "w") as file:
    json.dump(kernels.done, file)
"""


def write_sparse(path: Path, n_bytes: int, prefix: str, first_id: int) -> None:
    """Write rows of some 60 of a million features, few of them frequent, two classes."""
    rng, weights = np.random.default_rng(0), np.random.default_rng(1).normal(size=1000)
    with open(path, "w") as file:
        while file.tell() < n_bytes:
            ids = np.unique(np.minimum(rng.pareto(0.6, 85) * 3, 10**6).astype(np.int64))
            values = rng.random(len(ids))
            known = ids < len(weights)
            label = 1 if weights[ids[known]] @ values[known] > 0 else -1
            entries = (f"{i + first_id}:{value:.4f}" for i, value in zip(ids.tolist(), values.tolist(), strict=True))
            file.write(f"{label} {prefix}{' '.join(entries)}\n")


def write_table(path: Path, n_bytes: int) -> None:
    """Write a table of 1,000 columns of numbers, five of which decide the class."""
    rng, n_columns = np.random.default_rng(0), 1000
    with open(path, "w") as file:
        file.write(",".join([*(f"x{i}" for i in range(n_columns)), "y"]) + "\n")
        while file.tell() < n_bytes:
            row = rng.normal(size=n_columns)
            file.write(",".join([*(f"{value:.4f}" for value in row), "yes" if row[:5].sum() > 0 else "no"]) + "\n")


FILES: dict[str, tuple[str, Callable[[Path, int], None], str]] = {
    "svmlight, MISSION": ("small.svm", lambda path, size: write_sparse(path, size, "", 1), "-k 50 -a mission"),
    "VW, MISSION": ("small.vw", lambda path, size: write_sparse(path, size, "|f ", 0), "-k 50 -a mission"),
    "CSV, Online Substitution": ("small.csv", write_table, "-k 10 --label y"),
}


def run(code: str, *arguments: str, **environment: str) -> object:
    """Run code in a process of its own, and return what it has written to the file that it got as an argument."""
    with tempfile.TemporaryDirectory() as folder:
        result, first = Path(folder) / "result.json", arguments[: arguments.index("RESULT")]
        rest = arguments[len(first) + 1 :]
        command = [sys.executable, "-c", code, *first, str(result), *rest]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
        if done.returncode:
            raise click.ClickException(done.stderr[-2000:])
        return json.loads(result.read_text())


json_option = click.option(
    "--json", "path", type=click.Path(path_type=Path), help="The file to which figures are added."
)


@click.group()
def main() -> None:
    """Measure the start of small selections, or the compilation of kernels."""


@main.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--megabytes", default=10, show_default=True)
@json_option
def small(rounds: int, megabytes: int, path: Path | None) -> None:
    """Time selections from small files, with compiled kernels."""
    best: dict[tuple[str, str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for file, write, _ in FILES.values():
            write(Path(folder) / file, megabytes * 10**6)
        for number in range(rounds + 1):  # the first compiles, if need be
            for name, (file, _, flags) in FILES.items():
                out = str(Path(folder) / f"out-{number}-{file}")
                source = str(Path(folder) / file)
                began = repr(time.time())
                times = run(TIMED, began, "RESULT", "select", source, *flags.split(), "--out", out)
                for until, values in times.items() if number else ():  # type: ignore[attr-defined]
                    for clock, seconds in values.items():
                        best[name, until, clock] = min(best.get((name, until, clock), seconds), seconds)
    columns = [("first rows", "wall"), ("first rows", "cpu"), ("all", "wall"), ("all", "cpu")]
    rows = [[name, *(f"{best[name, *column]:.2f} s" for column in columns)] for name in FILES]
    figures = {name: {", ".join(column): round(best[name, *column], 3) for column in columns} for name in FILES}
    save(path, f"start.py small --megabytes {megabytes}", {"rounds": rounds, **figures})
    show(f"daskfs select on {megabytes} MB", ["", *(f"{until}, {clock}" for until, clock in columns)], rows)


@main.command("compile")
@click.option("--least", default=0.2, show_default=True, help="Seconds from which on a kernel is listed.")
@json_option
def compile_kernels(least: float, path: Path | None) -> None:
    """Time the compilation of every kernel that first selections need: those of `daskfs demo`, and of each text."""
    from daskfs.cli.demo import TABLES

    seconds_of: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        commands = {}
        for table in TABLES:
            table.write(Path(folder) / table.file)
            commands[table.name] = "demo", table.command(Path(folder))
        for name, (file, write, flags) in FILES.items():
            write(Path(folder) / file, 10**5)
            commands[name] = file, [f"{folder}/{file}", *flags.split(), "--out", f"{folder}/out-{file}"]
        for name, (cache, command) in commands.items():
            kernels = run(COMPILED, "RESULT", "select", *command, DASKFS_CACHE_DIR=f"{folder}/cache-{cache}")
            assert isinstance(kernels, list)
            rows = [
                [kernel, f"{seconds:.2f} s"] for seconds, kernel in sorted(kernels, reverse=True) if seconds >= least
            ]
            total = seconds_of[name] = round(sum(seconds for seconds, _ in kernels), 1)
            show(f"{name}: {len(kernels)} kernels not compiled before, {total:.1f} s", ["kernel", "CPU"], rows)
    save(path, "start.py compile", seconds_of)


if __name__ == "__main__":
    main()
