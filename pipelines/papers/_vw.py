"""Vowpal Wabbit as a contender: rows as its text, one of several classes against all others, and a table that fits."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from _contenders import NUMBER, Contender, Model, Setting
from _real import Scores, Task, labels_of

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
            labels = codes + 1 if task.n_scores > 1 else 2 * codes - 1
            with text.open("w") as file:
                file.writelines(f"{label} {row}\n" for label, row in zip(labels, _rows(task.train), strict=True))
            classes = f"--oaa {len(task.classes)}" if task.n_scores > 1 else ""
            options = f"{classes} -b {size} --hash all --loss_function logistic --quiet"
            passes = f"--passes {task.passes} --cache_file {text}.cache --holdout_off"
            model = Workspace(f"-d {text} {options} {passes}")
        return Model(lambda test: _scores(model, task, test), STRIDE * NUMBER << size)

    return learned


def _rows(dataset: daskfs.Dataset) -> Iterator[str]:
    """Rows as VW reads them, without their labels."""
    for block in dataset.blocks():
        tokens = list(map("%d:%.4g".__mod__, zip(block.ids.tolist(), block.values.tolist(), strict=True)))
        for start, stop in zip(block.indptr[:-1].tolist(), block.indptr[1:].tolist(), strict=True):
            yield f"| {' '.join(tokens[start:stop])}"


def _scores(model: object, task: Task, test: daskfs.Dataset) -> Scores:
    """Scores as the judges take them. Of several classes VW says which one, and no scores."""
    predicted = np.array([model.predict(row) for row in _rows(test)])  # type: ignore[attr-defined]
    return predicted if task.n_scores == 1 else np.eye(task.n_scores)[predicted.astype(np.int64) - 1]
