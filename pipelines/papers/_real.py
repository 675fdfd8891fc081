"""Real data sets as tasks: rows to learn from, rows to judge by, and how; stored for daskfs, in memory for peers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from _recipes import dataset_of, shuffled
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

import daskfs

TRAIN_COVERAGE, TEST_COVERAGE, STRAINS_COVERAGE = 0.25, 0.25, 1
Scores = NDArray[np.floating[Any]]
"""One of each row for two classes, else one for every class of the training rows."""


@dataclass(frozen=True)
class Task:
    """What every contender gets."""

    title: str
    train: daskfs.Dataset
    tests: dict[str, daskfs.Dataset]
    """By what the score on them is called in the table."""
    judge: Callable[[Task, daskfs.Dataset, Scores], float]
    passes: int

    @property
    def classes(self) -> NDArray[Any]:
        return np.array(self.train.classes)

    @property
    def n_scores(self) -> int:
        return 1 if len(self.classes) == 2 else len(self.classes)


def average_precision(task: Task, test: daskfs.Dataset, scores: Scores) -> float:
    """Of the second class, the larger label."""
    return float(average_precision_score(labels_of(test) == task.classes[1], scores))


def area_under_curve(task: Task, test: daskfs.Dataset, scores: Scores) -> float:
    """Of the ROC curve of the second class."""
    return float(roc_auc_score(labels_of(test) == task.classes[1], scores))


def accuracy(task: Task, test: daskfs.Dataset, scores: Scores) -> float:
    """The share of rows whose highest score is that of their class."""
    return float(np.mean(task.classes[np.argmax(scores, axis=1)] == labels_of(test)))


def clicks(source: Path, work: Path, files: str, passes: int) -> Task:
    """Ads shown, a fifth of the rows to judge by."""
    name = "clicks-" + re.sub(r"\W+", "-", files).strip("-")
    every = dataset_of("criteo", work / f"{name}.zarr", "--from", source, "--files", files)
    train, test = daskfs.split(every, work / f"{name}-train.zarr", work / f"{name}-test.zarr")
    return Task("clicks", train, {"AUC": test}, area_under_curve, passes)


def splice(source: Path, work: Path, split: str, passes: int) -> Task:
    """Splice sites among decoys, as positional k-mers."""
    parts = {
        part: dataset_of("splice", work / f"splice-{split}-{part}.zarr", "--from", source, "--part", part, *how)
        for part in ("train", "test")
        for how in [("--split", split)]
    }
    train = shuffled(parts["train"], work / f"splice-{split}-shuffled.zarr")  # it is sorted by place
    title = f"splice sites, test windows by {split}"
    return Task(title, train, {"average precision": parts["test"]}, average_precision, passes)


def news20(source: Path, work: Path, passes: int, words: str = "1,2", chars: str = "3") -> Task:
    """Messages of 20 newsgroups, later ones to judge by; n-grams of these lengths."""
    name = f"news20-{words.replace(',', '-')}-{chars.replace(',', '-')}"
    grams = ("--words", words, "--chars", chars)
    train, test = (
        dataset_of("news20", work / f"{name}-{part}.zarr", "--from", source, "--part", part, "--shuffle", *grams)
        for part in ("train", "test")
    )
    return Task("20 newsgroups by date", train, {"accuracy": test}, accuracy, passes)


def dna(
    source: Path,
    work: Path,
    k: str,
    passes: int,
    weighting: str = "unit",
    coverage: float = TRAIN_COVERAGE,
    test_coverage: float = TEST_COVERAGE,
    strains_coverage: float = STRAINS_COVERAGE,
) -> Task:
    """Reads of genomes; others of the same genomes, and of strains nobody learned from, to judge by."""

    def reads(part: str, coverage: float, *options: object) -> daskfs.Dataset:
        url = work / f"dna-{k.replace(',', '-')}-{weighting}-{part}-{coverage}.zarr"
        options = ("--coverage", coverage, *options)
        return dataset_of("dna_fragments", url, "--from", source, "--k", k, "--weighting", weighting, *options)

    train = reads("train", coverage, "--shuffle")
    tests = {
        "accuracy": reads("test", test_coverage, "--seed", 1),
        "on strains": reads("strains", strains_coverage, "--folder", "genomes_strains"),
    }
    return Task(f"species of reads, {k}-mers", train, tests, accuracy, passes)


def labels_of(dataset: daskfs.Dataset) -> NDArray[Any]:
    """The label of every row, as the source had it."""
    codes = dataset.meta.class_codes(np.concatenate(list(dataset.targets())))
    return np.array(dataset.classes)[codes]


def ids_of(dataset: daskfs.Dataset) -> NDArray[np.uint64]:
    """The features that occur, ascending."""
    ids = np.empty(0, np.uint64)
    for block in dataset.blocks():
        ids = np.union1d(ids, block.ids)
    return ids


def matrix_of(dataset: daskfs.Dataset, ids: NDArray[np.uint64]) -> scipy.sparse.csr_array:
    """The rows in memory, with a column for each of some features, ascending; others are left out."""
    parts = []
    for block in dataset.blocks():
        columns = np.minimum(np.searchsorted(ids, block.ids), len(ids) - 1)
        known = ids[columns] == block.ids
        starts = np.concatenate([[0], np.cumsum(known)])[block.indptr]
        cells = block.values[known], columns[known].astype(np.int32), starts.astype(np.int32)
        parts.append(scipy.sparse.csr_array(cells, shape=(len(block.y), len(ids))))
    return scipy.sparse.vstack(parts, format="csr")
