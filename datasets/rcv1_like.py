"""Sparse rows that look like RCV1's, with labels from a known sparse model: the synthetic set for MISSION.

The design. A row is a bag of words: 85 distinct words on average (the length of a row is negative
binomial, with a coefficient of variation of about a half), drawn from a vocabulary of 1,000,000 with
Zipf–Mandelbrot frequencies, P(rank r) ~ (r + 50)^-1.1. The value of a word in a row is lognormal
(σ = .5); rows are scaled to unit norm; values have four decimals. A word's id is a random number below
2^30. The 100 most frequent words say nothing; among the next 6,500 there are 1,000 informative ones, with
weights 16 times ±U(.2, 1.8), and P(y = 1) = 1 / (1 + exp(-x·w)), otherwise y = -1.

Known truth: the ids and weights of the informative words, in OUT.truth.npz (`ids`, `weights`).
What can be reached with 100,000 rows, seeds 0 … 2: AUC .95 – .96 with the true weights, .94 – .95 with a
logistic regression that is told the true features; MISSION in its paper mode (k = 1,000, 3 x 2^18 cells,
learning rate .5, one pass) .88 – .90, with recall .80 – .83.

Rows come in chunks, memory stays bounded, and the first rows do not depend on how many follow.

    python datasets/rcv1_like.py rcv1.zarr --rows 100000 --rows-test 20000        # and rcv1.test.zarr
    python datasets/rcv1_like.py big.zarr --rows 1500000 --text big.svm           # 2 GB of text
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import scipy.sparse
from _recipe import announce, beside, recipe, save_truth, seed_option
from _svmlight_text import LARGEST, SCALE, svmlight_text
from numpy.typing import NDArray
from scipy.optimize import brentq

import daskfs

ID_SPACE = 1 << 30
ZIPF_EXPONENT, ZIPF_SHIFT = 1.1, 50.0
LENGTH_SHAPE = 4.0  # of the gamma mixture over Poisson row lengths
VALUE_SIGMA = 0.5
STOP_WORDS = 100  # the most frequent words, which say nothing …
FREQUENT = 6.5  # … informative are some of this many times as many that come next in frequency
EFFECT = 16.0
EFFECT_SIZES = 0.2, 1.8  # of the average effect

CHUNK_ROWS = 8192
VOCABULARY, TRAIN, TEST = range(3)  # streams of random numbers, independent of each other


@dataclass(frozen=True)
class Language:
    """The words, their frequencies and their effect on the label: everything that rows have in common.

    A word is its place in `ids`, which ascend. `drawn_length` is the mean number of words drawn for a
    row: more than `nonzeros`, for some are drawn twice.
    """

    ids: NDArray[np.int32]
    word_of_rank: NDArray[np.int32]
    weights: NDArray[np.float64]
    unit_norm: bool
    drawn_length: float

    @classmethod
    def invent(
        cls,
        seed: int,
        vocabulary: int = 1_000_000,
        informative: int = 1000,
        nonzeros: float = 85,
        unit_norm: bool = True,
    ) -> Language:
        """Draw a vocabulary and its informative words."""
        rng = np.random.default_rng([seed, VOCABULARY])
        ids = np.sort(rng.choice(ID_SPACE, vocabulary, replace=False, shuffle=False)).astype(np.int32)
        word_of_rank = rng.permutation(vocabulary).astype(np.int32)
        rarest = min(vocabulary, STOP_WORDS + round(FREQUENT * informative))
        chosen = word_of_rank[STOP_WORDS + rng.choice(rarest - STOP_WORDS, informative, replace=False)]
        typical_norm = math.sqrt(nonzeros * math.exp(2 * VALUE_SIGMA**2))
        effect = EFFECT if unit_norm else EFFECT / typical_norm
        weights = np.zeros(vocabulary)
        weights[chosen] = effect * rng.uniform(*EFFECT_SIZES, informative) * rng.choice([-1, 1], informative)
        return cls(ids, word_of_rank, weights, unit_norm, _drawn_length(vocabulary, nonzeros))

    @property
    def truth(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Ids and weights of the informative words."""
        informative = self.weights != 0
        return self.ids[informative], self.weights[informative]


def rows(
    n: int, seed: int, language: Language, part: int = TRAIN
) -> Iterator[tuple[scipy.sparse.csr_array, NDArray[np.float64]]]:
    """Chunks of rows (CSR, as many columns as there can be ids) and their labels, -1 or 1."""
    for chunk, first in enumerate(range(0, n, CHUNK_ROWS)):
        X, y = _chunk(np.random.default_rng([seed, part, chunk]), language)
        yield X[: n - first], y[: n - first]


def rank_at(u: NDArray[np.float64], vocabulary: int) -> NDArray[np.int64]:
    """The rank below which a share `u` of all drawn words lies: the inverse of the Zipf–Mandelbrot law.

    The law is integrated over [r, r + 1) for rank r, which gives the inverse in closed form.
    """
    power = 1 - ZIPF_EXPONENT
    most, least = ZIPF_SHIFT**power, (ZIPF_SHIFT + vocabulary) ** power
    ranks = (most + u * (least - most)) ** (1 / power) - ZIPF_SHIFT
    return np.minimum(ranks, vocabulary - 1).astype(np.int64)


def rank_probabilities(vocabulary: int) -> NDArray[np.float64]:
    """How likely a drawn word has each rank."""
    edges = (ZIPF_SHIFT + np.arange(vocabulary + 1)) ** (1 - ZIPF_EXPONENT)
    return np.diff(edges) / (edges[-1] - edges[0])


def _drawn_length(vocabulary: int, nonzeros: float) -> float:
    """The mean number of draws that leaves `nonzeros` distinct words on average."""
    p = rank_probabilities(vocabulary)

    def distinct(length: float) -> float:  # a negative binomial number of draws misses a word with (...)^-shape
        return float(np.sum(1 - (1 + p * length / LENGTH_SHAPE) ** -LENGTH_SHAPE))

    return float(brentq(lambda length: distinct(length) - nonzeros, nonzeros / 2, 100 * nonzeros, xtol=1e-3))


def _chunk(rng: np.random.Generator, language: Language) -> tuple[scipy.sparse.csr_array, NDArray[np.float64]]:
    vocabulary = len(language.ids)
    lengths = rng.poisson(rng.gamma(LENGTH_SHAPE, language.drawn_length / LENGTH_SHAPE, CHUNK_ROWS))
    row = np.repeat(np.arange(CHUNK_ROWS), np.maximum(lengths, 1))
    word = language.word_of_rank[rank_at(rng.random(len(row)), vocabulary)]
    row, word = np.divmod(_sorted_distinct(row * vocabulary + word), vocabulary)
    value = np.exp(VALUE_SIGMA * rng.standard_normal(len(row)))
    if language.unit_norm:
        value /= np.sqrt(np.bincount(row, value**2, CHUNK_ROWS))[row]
    value = np.clip(np.rint(value * SCALE) / SCALE, 1 / SCALE, LARGEST)
    margin = np.bincount(row, value * language.weights[word], CHUNK_ROWS)
    y = np.where(rng.random(CHUNK_ROWS) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
    starts = np.searchsorted(row, np.arange(CHUNK_ROWS + 1))
    entries = value.astype(np.float32), language.ids[word], starts.astype(np.int32)
    return scipy.sparse.csr_array(entries, shape=(CHUNK_ROWS, ID_SPACE)), y


def _sorted_distinct(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """What np.unique gives; it hashes, which takes 70 times as long here."""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])]


def write_text(path: Path, chunks: Iterator[tuple[scipy.sparse.csr_array, NDArray[np.float64]]]) -> None:
    """Stream rows into a file of svmlight text."""
    with path.open("wb") as file:
        for X, y in chunks:
            file.write(svmlight_text(X, y))


def write_part(out: str, text: Path | None, n: int, seed: int, language: Language, part: int, overwrite: bool) -> None:
    """Write rows as text, to keep or not, and ingest it: memory stays bounded whatever `n` is."""
    with tempfile.TemporaryDirectory() as folder:
        path = text or Path(folder) / "rows.svm"
        write_text(path, rows(n, seed, language, part))
        daskfs.ingest([str(path)], out, format="svmlight", overwrite=overwrite)
    announce(out)


@recipe
@click.option("--rows", "n", type=click.IntRange(min=1), default=100_000, help="Training rows.")
@click.option("--rows-test", "n_test", type=click.IntRange(min=0), default=0, help="Test rows, in OUT.test.zarr.")
@click.option("--nonzeros", type=click.FloatRange(min=1), default=85.0, help="Words of a row, on average.")
@click.option("--vocabulary", type=click.IntRange(min=2, max=1 << 26), default=1_000_000, help="Words there are.")
@click.option("--informative", type=click.IntRange(min=1), default=1000, help="Words that make the labels.")
@click.option("--unit-norm/--raw-values", default=True, help="Scale rows to length 1.")
@click.option("--text", type=click.Path(path_type=Path), help="Keep the svmlight text (and FILE.test.svm beside).")
@seed_option
def main(
    out: str,
    n: int,
    n_test: int,
    nonzeros: float,
    vocabulary: int,
    informative: int,
    unit_norm: bool,
    text: Path | None,
    seed: int,
    overwrite: bool,
) -> None:
    """Sparse rows like RCV1's: Zipf words, ids below 2^30, labels from 1,000 of them."""
    if max(STOP_WORDS + informative, 2 * nonzeros) > vocabulary:
        raise click.UsageError(f"--vocabulary {vocabulary} is too small for these rows and informative words")
    language = Language.invent(seed, vocabulary, informative, nonzeros, unit_norm)
    write_part(out, text, n, seed, language, TRAIN, overwrite)
    save_truth(out, *language.truth)
    if n_test:
        test_text = text and text.with_name(f"{text.stem}.test{text.suffix}")
        write_part(beside(out, "test.zarr"), test_text, n_test, seed, language, TEST, overwrite)


if __name__ == "__main__":
    main()
