"""Tables 1 and 2 of Sparse Random Features: kernel x method, with size, quality, times and memory."""

from __future__ import annotations

import ctypes
import gc
import re
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _exhibit import Cells, Places, View
from _random_features_peers import dense_features, kernel_ridge, support_vectors
from _report import Record
from random_features import Options, Task, chosen_on_validation, fitted, in_memory, rows_of, sampled, scores_of

import daskfs
from daskfs.basis import KERNELS, Kernel

SPARSE, LITERAL, DENSE, EXACT = "Sparse-RF", "Sparse-RF, paper", "RF", "Kernel"
TITLES = {"gaussian": "Gaussian", "laplacian": "Laplacian", "perceptron": "Perceptron"}
COSTS = (
    View("Size: support vectors, features or weights", "kernel", "size", "lower", plot=False, chosen=(DENSE, EXACT)),
    View("Training, CPU seconds", "kernel", "training", "", plot=False),
    View("Prediction, CPU seconds", "kernel", "prediction", "", plot=False),
    View("Memory of training, MiB", "kernel", "MiB", "", plot=False),
)
"""Times and memory of other machines are no standard for ours: the paper's are shown and not compared."""


def cells_of(task: Callable[[Places], Task], places: Places, rows: int | None, options: dict[str, Any]) -> Cells:
    """A cell for every kernel: all methods with the same gamma, chosen on validation rows."""
    given = Options(kernels=KERNELS, n_select=0, only=(), **options)
    return {kernel: partial(_of_kernel, task, places, kernel, rows, given) for kernel in KERNELS}


def _of_kernel(
    task: Callable[[Places], Task], places: Places, kernel: Kernel, rows: int | None, given: Options
) -> list[Record]:
    data = task(places) if rows is None else shortened(task(places), places, rows)
    best = chosen_on_validation(data, kernel, given)
    return [
        {"method": name, "kernel": TITLES[kernel], **measure(name, data, kernel, best, given)}
        for name in (SPARSE, LITERAL, DENSE, EXACT)
    ]


def shortened(task: Task, places: Places, rows: int) -> Task:
    """The task with at most so many rows to learn from, drawn at random: the first of ijcnn1 are like no others."""
    url = places.work / f"{Path(task.train.url).stem}-{rows}-drawn.zarr"
    if not url.exists():
        X, y = rows_of(task.train)
        names = task.train.names(np.arange(task.train.n_features, dtype=np.uint64))
        drawn = np.sort(np.random.default_rng(task.seed).permutation(len(y))[:rows])
        daskfs.write_dataset(url, X[drawn], y[drawn], feature_names=names, layout="rows", overwrite=True)
    return replace(task, train=daskfs.open_dataset(url))


def measure(name: str, task: Task, kernel: Kernel, best: dict[str, float], given: Options) -> Record:
    """Fit, predict the test rows, and say what that took."""
    rows, y = in_memory(task)
    before, start = _forget_peak(), time.process_time()
    if name in (SPARSE, LITERAL):
        selection = fitted(task, kernel=kernel, rounds=given.rounds, screen=name == SPARSE, **best)
        training, start = time.process_time() - start, time.process_time()
        scores, size = scores_of(selection, task.test), len(selection.features)
        prediction = time.process_time() - start
    else:
        exact = support_vectors if task.metric == "accuracy" else kernel_ridge
        if name == EXACT:
            peer = exact(sampled(rows, given.exact_rows, task.seed), kernel, best["gamma"], task.loss)
        else:
            peer = dense_features(rows, kernel, best["gamma"], given.dense, task.loss)
        scores, size, prediction = peer.scores, peer.size, peer.seconds
        training = time.process_time() - start - prediction
    mib = max(_resident("VmHWM") - before, 0) / 2**20
    costs = {"size": size, "training": training, "prediction": prediction, "MiB": mib}
    return {task.metric: task.measured(y, np.asarray(scores)), **costs, **best}


def printed(table: dict[str, dict[str, tuple[float, ...]]], metric: str) -> tuple[Record, ...]:
    """The paper's cells, by kernel and method: size, quality, seconds to train and to predict, GB.

    Both our default and its algorithm to the letter stand beside the paper's Sparse-RF.
    """
    return tuple(
        {"method": name, "kernel": kernel, "size": size, metric: quality}
        | {"training": train, "prediction": predict, "MiB": 1000 * gigabytes}
        for kernel, of_kernel in table.items()
        for method, (size, quality, train, predict, gigabytes) in of_kernel.items()
        for name in ((SPARSE, LITERAL) if method == LITERAL else (method,))
    )


def _forget_peak() -> int:
    """Give free memory back, let the high-water mark begin anew, and return what is resident."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def _resident(which: str) -> int:
    found = re.search(rf"{which}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found, "needs Linux"
    return int(found[1]) * 1024
