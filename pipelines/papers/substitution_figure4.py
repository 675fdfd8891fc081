"""Online Substitution, figure 4: an image task; test error over the number of columns, over scans and over workers.

The paper tells private photographs from public ones, 6,914 of them with 7,488 image features, and learns from one in a
hundred. That set is not public. Here the images are fours and nines of MNIST with 1,296 HOG features, and as few rows
to learn from; the others are the test.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from _exhibit import Cells, Claim, Exhibit, Places, View, run
from _judge import error_rate
from _problems import Problem
from _recipes import dataset_of
from _report import Record
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from substitution import Method, measured
from substitution_figure1 import OURS
from substitution_figure2 import METHODS, scanned, simulated

CHUNK_COLUMNS = 128


def cells(
    places: Places,
    images: int,
    share: float,
    s: Sequence[int],
    scans: Sequence[int],
    workers: Sequence[int],
    seeds: int,
) -> Cells:
    middle = s[len(s) // 2]

    def runs(variable: str, value: int, methods: dict[str, Method], k: int, seed: int) -> list[Record]:
        problem = _split(places, images, share, seed)
        return measured([({variable: value, "seed": seed}, problem)], methods, {"test error": error_rate}, k=k)

    every: Cells = {}
    for seed in range(seeds):
        for k in s:
            every[f"s {k}, seed {seed}"] = partial(runs, "s", k, METHODS, k, seed)
        for number in scans:
            every[f"scans {number}, seed {seed}"] = partial(runs, "scans", number, scanned(number), middle, seed)
        for number in workers:
            every[f"workers {number}, seed {seed}"] = partial(runs, "workers", number, simulated(number), middle, seed)
    return every


def _split(places: Places, images: int, share: float, seed: int) -> Problem:
    X, y = _images(places, images)
    X, X_test, y, y_test = train_test_split(X, y, train_size=share, stratify=y, random_state=seed)
    return Problem(X, y, X_test, y_test, chunk_columns=CHUNK_COLUMNS)


@cache
def _images(places: Places, images: int) -> tuple[NDArray[Any], NDArray[np.float64]]:
    url = Path(places.work) / f"mnist-hog-{images}.zarr"
    options = ("--digits", "4,9", "--features", "hog", "--rows", images)
    arrays = dataset_of("mnist", url, "--from", places.source, *options).to_xarray()
    return arrays.X.values, np.where(arrays.y.values == 9, 1.0, -1.0)


ERROR = View("Test error on images", "s", "test error", "lower")
EXHIBIT = Exhibit(
    name="substitution_figure4",
    title="Figure 4: an image task",
    cells=cells,
    quick={"images": 3000, "share": 0.03, "s": [8, 16, 32], "scans": [1, 2, 3], "workers": [1, 2, 4], "seeds": 2},
    full={
        "images": 11_791,
        "share": 0.01,
        "s": [8, 16, 32, 64],
        "scans": [1, 2, 3, 4, 5],
        "workers": [1, 2, 4, 8],
        "seeds": 30,
    },
    views=(
        ERROR,
        View("Test error by scans", "scans", "test error", "lower"),
        View("Test error by workers", "workers", "test error", "lower"),
    ),
    claims=(
        Claim("the L1 batch method has a higher error where s is small", ERROR, OURS, ("L1 hinge",)),
        Claim("OS does as well as its batch counterpart Proj-GD", ERROR, OURS, ("Proj-GD",), 0.02),
    ),
    notes=("Other images and other features than the paper's, whose set is not public: compare curves, not values.",),
    needs="train-images-idx3-ubyte.gz",
)

if __name__ == "__main__":
    run(EXHIBIT)
