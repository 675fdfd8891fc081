"""How rivals are measured: each in a process of its own, at its best settings, with one thread for linear algebra.

A rival is a function from a folder of files and settings to an `Outcome`. Its process first runs on the files of a
small problem, to import and compile; then every setting runs, and the one that does best on validation rows runs once
more, with the clock and the high-water mark of memory begun anew. Reading the files is part of what is measured.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import math
import multiprocessing
import os
import resource
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from _measure import forget_peak, resident

Record = dict[str, Any]
LIMIT = 900  # seconds, after which a rival is stopped and said to have taken longer
MEMORY = 4 << 30  # bytes beyond files that are mapped; a rival that asks for more is said to need it


@dataclass(frozen=True)
class Outcome:
    """How good a rival is on validation rows, which decide on its settings, and what it scores on test rows."""

    validation: float
    scores: dict[str, float]


@dataclass(frozen=True)
class Rival:
    """A way to select features or to predict, and the settings it may choose from."""

    run: Callable[..., Outcome]
    settings: tuple[dict[str, Any], ...] = ({},)


def measured(module: str, name: str, folder: Path, small: Path) -> Record:
    """Run a rival of a module in a process of its own; a record of its name alone where it takes too long or fails."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(theirs, module, name, folder, small))
    process.start()
    theirs.close()
    record: Record = {"note": f"stopped after {LIMIT} s"}
    try:
        if ours.poll(LIMIT):
            record = ours.recv()
    except EOFError:
        record = {"note": f"its process ended, with {MEMORY >> 30} GiB to use"}
    finally:
        process.kill()
        process.join()
        ours.close()
    return {"method": name, **record}


def _child(pipe: Connection, module: str, name: str, folder: Path, small: Path) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))
    warnings.simplefilter("ignore")  # of convergence: settings are a grid, and some of it is bad
    try:
        rival: Rival = importlib.import_module(module).RIVALS[name]
        rival.run(small, **rival.settings[0])
        best = max(rival.settings, key=lambda setting: _validation(rival, folder, setting))
        pipe.send(_timed(rival, folder, best))
    except ImportError as error:
        pipe.send({"note": f"{error.name} is not installed"})
    except MemoryError:
        pipe.send({"note": f"needs more than {MEMORY >> 30} GiB"})


def _validation(rival: Rival, folder: Path, setting: dict[str, Any]) -> float:
    """Return how good a setting is; the worst if its scores are not finite, or it needs too much memory."""
    try:
        return rival.run(folder, **setting).validation
    except (ValueError, MemoryError):
        return -math.inf


def _timed(rival: Rival, folder: Path, setting: dict[str, Any]) -> Record:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    forget_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = rival.run(folder, **setting)
    seconds = {"CPU s": time.process_time() - cpu, "wall s": time.perf_counter() - wall}
    return {**outcome.scores, **seconds, "MiB": (resident("VmHWM") - before) / 2**20, "setting": _said(setting)}


def _said(setting: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that can be written to a file, which a function or a class cannot."""
    return {name: value for name, value in setting.items() if isinstance(value, int | float | str)}
