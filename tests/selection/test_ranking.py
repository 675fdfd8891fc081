"""Areas under curves by an external sort: equal to scikit-learn's wherever runs and ties are cut, in bounded memory."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from daskfs.selection import ranking
from daskfs.selection.ranking import ROW_BYTES, RankQuality, SortedScores, descending_keys, rank_quality

SPECIAL = [-np.inf, -1e300, -1.0, -5e-324, -0.0, 0.0, 5e-324, 0.5, np.nextafter(0.5, 1), 1.0, 1e300, np.inf]


def quality_of(scores: np.ndarray, signed: np.ndarray, length: int, run_rows: int, memory: int) -> RankQuality:
    """The quality of scores that are added in pieces of `length` rows and sorted in runs of `run_rows`."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as file:
        patch.setattr(ranking, "LEAST_ROWS", run_rows)
        ranks = SortedScores(file, 1, 0, memory)
        for start in range(0, len(scores), length):
            here = slice(start, start + length)
            ranks.add(scores[here, None], np.where(signed[here] > 0, 0, 1), np.abs(signed[here]))
        return rank_quality(ranks.merge(0))


def by_hand(scores: np.ndarray, signed: np.ndarray) -> tuple[float, float]:
    """The definitions, over all pairs of rows."""
    weight, member = np.abs(signed.astype(float)), signed > 0
    above = (scores[:, None] > scores).astype(float) + 0.5 * (scores[:, None] == scores)
    pairs = np.outer(np.where(member, weight, 0), np.where(member, 0, weight))
    auc = (above * pairs).sum() / pairs.sum() if pairs.sum() else math.nan
    at_least = scores >= scores[:, None]
    total, true = at_least @ weight, at_least @ np.where(member, weight, 0)
    precision = np.divide(true, total, out=np.zeros_like(true), where=total > 0)
    members = weight * member
    return auc, (members @ precision / members.sum() if members.sum() else math.nan)


@given(
    scores=st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=40),
    seed=st.integers(0, 2**32),
    weighted=st.booleans(),
    run_rows=st.integers(1, 12),
    window=st.integers(1, 5),
    length=st.integers(1, 9),
    batch=st.integers(1, 7),
)
def test_every_way_to_cut_ties(scores, seed, weighted, run_rows, window, length, batch):
    rng = np.random.default_rng(seed)
    found = np.array(scores)
    weight = rng.integers(0, 4, len(found)) if weighted else np.ones(len(found))
    signed = np.where(rng.random(len(found)) < 0.4, weight, -weight).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "LEAST_WINDOW", window)
        patch.setattr(ranking, "BATCH_ROWS", batch)
        quality = quality_of(found, signed, length, run_rows, memory=0)
    np.testing.assert_allclose(quality[:2], by_hand(found, signed), rtol=1e-12)


@pytest.mark.parametrize("distinct", [2, 40, 10**6])
@pytest.mark.parametrize("order", ["mixed", "ascending", "descending"])
@pytest.mark.parametrize("weighted", [False, True])
def test_as_scikit_learn_does(distinct, order, weighted):
    rng = np.random.default_rng(distinct)
    truth = rng.random(20_000) < 0.2
    scores = rng.integers(0, distinct, len(truth)) / 7 + 0.3 * distinct * truth
    if order != "mixed":
        rank = np.argsort(scores if order == "ascending" else -scores)
        truth, scores = truth[rank], scores[rank]
    weight = rng.random(len(truth)).astype(np.float32) if weighted else np.ones(len(truth), np.float32)
    signed = np.where(truth, weight, -weight)
    expected = (
        roc_auc_score(truth, scores, sample_weight=weight),
        average_precision_score(truth, scores, sample_weight=weight),
    )
    for run_rows, memory in ((64, 0), (3001, 100_000), (1 << 19, 1 << 24)):
        np.testing.assert_allclose(quality_of(scores, signed, 999, run_rows, memory)[:2], expected, rtol=1e-9)


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_keys_descend_and_tie_as_scores_do(scores):
    found, keys = np.array(scores), descending_keys(np.array(scores))
    np.testing.assert_array_equal(found[:, None] > found, keys[:, None] < keys)
    np.testing.assert_array_equal(found[:, None] == found, keys[:, None] == keys)


@pytest.mark.parametrize(
    ("signed", "expected"),
    [
        ([], (math.nan, math.nan)),
        ([1], (math.nan, 1.0)),
        ([-1], (math.nan, math.nan)),
        ([1, 1], (math.nan, 1.0)),
        ([1, -1], (0.0, 0.5)),
        ([0, -1], (math.nan, math.nan)),
    ],
)
def test_what_cannot_be_told_is_nan(signed, expected):
    scores = np.arange(len(signed), dtype=np.float64)
    keys = descending_keys(scores[::-1])
    np.testing.assert_array_equal(rank_quality([(keys, np.array(signed[::-1], np.float32))])[:2], expected)


PEAKS = """
import tempfile
import tracemalloc
import numpy as np
from daskfs.selection.ranking import SortedScores, rank_quality

def peak(rows):
    rng = np.random.default_rng(0)
    tracemalloc.start()
    with tempfile.TemporaryFile() as file:
        ranks = SortedScores(file, 1, 1 << 20, 1 << 20)
        for _ in range(0, rows, 1000):
            ranks.add(rng.normal(size=(1000, 1)), rng.integers(0, 2, 1000), None)
        rank_quality(ranks.merge(0))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most

print(*[peak(rows) for rows in (1000, 400_000, 2_000_000)])  # the first warms up
"""


def test_memory_does_not_grow_with_rows():
    """In a process of its own: threads that other tests leave behind allocate, too."""
    done = subprocess.run([sys.executable, "-c", PEAKS], capture_output=True, text=True, timeout=200, check=True)
    _, few, many = map(int, done.stdout.split())
    assert few < 14 << 20  # most of it for the batch that is counted
    assert many < 1.1 * few  # numbers for every run, and windows that are not all equally full
    assert 1.5 * many < 2_000_000 * ROW_BYTES


@pytest.mark.parametrize("length", [1, 700, 5000])
def test_sorted_scores_come_back_by_class(tmp_path, monkeypatch, length):
    monkeypatch.setattr(ranking, "LEAST_WINDOW", 100)
    rng = np.random.default_rng(3)
    scores, numbers = rng.normal(size=(3 * ranking.LEAST_ROWS + 5, 3)), rng.integers(0, 4, 3 * ranking.LEAST_ROWS + 5)
    weights = rng.random(len(scores)).astype(np.float32)
    with open(tmp_path / "runs", "w+b") as file:
        ranks = SortedScores(file, 3, run_bytes=0, merge_bytes=0)
        for start in range(0, len(scores), length):
            here = slice(start, start + length)
            ranks.add(scores[here], numbers[here], weights[here])
        for number in (2, 0, 1):
            keys, signed = (np.concatenate(part) for part in zip(*ranks.merge(number), strict=True))
            order = np.argsort(-scores[:, number])
            np.testing.assert_array_equal(keys, descending_keys(scores[order, number]))
            np.testing.assert_array_equal(signed, np.where(numbers == number, weights, -weights)[order])
    assert os.path.getsize(tmp_path / "runs") == len(scores) * 3 * ROW_BYTES
