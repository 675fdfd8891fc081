"""Vowpal Wabbit as a contender: rows as its text, one class against all others, the largest table that fits."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _contenders import NUMBER, Contender, Model, Setting
from _real import Scores, Task, labels_of
from numpy.typing import NDArray

import daskfs

STRIDE = 4  # numbers that VW keeps for a weight with its default steps
BITS = range(1, 33)


def vowpal_wabbit(bits: int | None = None) -> Contender:
    """VW with a table of 2^bits weights for all classes together, by default what fits; None without the package."""

    def learned(task: Task, setting: Setting) -> Model | None:
        try:
            from vowpalwabbit import Workspace  # optional: only whoever compares with it needs it
        except ImportError:
            return None
        size = bits or max(b for b in BITS if STRIDE * NUMBER << b <= setting.budget)
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "train.vw"
            codes = np.searchsorted(task.classes, labels_of(task.train))
            with text.open("w") as file:
                file.writelines(f"{code + 1} {row}\n" for code, row in zip(codes, _rows(task.train), strict=True))
            options = f"--oaa {len(task.classes)} -b {size} --hash all --loss_function logistic --quiet"
            passes = f"--passes {task.passes} --cache_file {text}.cache --holdout_off"
            model = Workspace(f"-d {text} {options} {passes}")
        return Model(lambda test: _one_hot(_predicted(model, test), len(task.classes)), STRIDE * NUMBER << size)

    return learned


def _rows(dataset: daskfs.Dataset) -> Iterator[str]:
    """Rows as VW reads them, without their labels."""
    for block in dataset.blocks():
        tokens = list(map("%d:%.4g".__mod__, zip(block.ids.tolist(), block.values.tolist(), strict=True)))
        for start, stop in zip(block.indptr[:-1].tolist(), block.indptr[1:].tolist(), strict=True):
            yield f"| {' '.join(tokens[start:stop])}"


def _predicted(model: object, test: daskfs.Dataset) -> NDArray[np.int64]:
    return np.array([model.predict(row) for row in _rows(test)]) - 1


def _one_hot(codes: NDArray[np.int64], n_classes: int) -> Scores:
    """Classes as the judges take them: VW says which one, and no scores."""
    return np.eye(n_classes)[codes]
