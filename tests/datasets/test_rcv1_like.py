"""Rows like RCV1's: their statistics, their text, and what can be learnt from them."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import daskfs

SMALL = "--rows", 3000, "--vocabulary", 20_000, "--informative", 100


@pytest.fixture
def rcv1(recipe):
    return recipe("rcv1_like")


def stacked(chunks):
    X, y = zip(*chunks, strict=True)
    return scipy.sparse.vstack(X, format="csr"), np.concatenate(y)


def by_word(X, language):
    """The same rows with a column for each word of the language instead of each possible id."""
    word = np.searchsorted(language.ids, X.indices)
    assert np.array_equal(language.ids[word], X.indices)
    return scipy.sparse.csr_array((X.data, word, X.indptr), shape=(X.shape[0], len(language.ids)))


def margins(X, language):
    return by_word(X, language) @ language.weights


@pytest.fixture
def sample(rcv1):
    """20,000 rows of a smaller language."""
    language = rcv1.Language.invent(0, vocabulary=50_000, informative=200)
    return language, *stacked(rcv1.rows(20_000, 0, language))


def test_has_as_many_words_a_row_as_asked_for(sample):
    _, X, _ = sample
    lengths = np.diff(X.indptr)
    assert lengths.mean() == pytest.approx(85, rel=5 * 0.5 / math.sqrt(20_000))
    assert 0.4 < lengths.std() / lengths.mean() < 0.6
    assert lengths.min() >= 1


def test_ids_ascend_and_spread_over_2_to_30(sample):
    language, X, _ = sample
    inside = np.ones(X.nnz, bool)
    inside[X.indptr[:-1]] = False
    assert (np.diff(X.indices)[inside[1:]] > 0).all()
    assert len(np.unique(language.ids)) == 50_000
    share = np.bincount(language.ids >> 27, minlength=8) / 50_000
    assert share == pytest.approx(1 / 8, abs=5 * math.sqrt(1 / 8 / 50_000))


def test_frequencies_follow_zipf(rcv1, sample):
    language, X, _ = sample
    found = np.bincount(np.searchsorted(language.ids, X.indices), minlength=50_000)[language.word_of_rank]
    ranks = np.unique(np.geomspace(200, 20_000, 30).astype(int))
    per_rank = [found[a:b].mean() for a, b in pairwise(ranks)]
    middle = (ranks[:-1] + ranks[1:]) / 2 + rcv1.ZIPF_SHIFT
    slope = np.polyfit(np.log(middle), np.log(per_rank), 1)[0]
    assert slope == pytest.approx(-rcv1.ZIPF_EXPONENT, abs=0.05)
    expected = rcv1.rank_probabilities(50_000)
    assert expected.sum() == pytest.approx(1)
    assert np.array_equal(np.argsort(-expected), np.arange(50_000))


def test_ranks_are_drawn_with_their_probabilities(rcv1):
    u = (np.arange(1_000_000) + 0.5) / 1_000_000  # every share of the draws once
    counts = np.bincount(rcv1.rank_at(u, 1000), minlength=1000)
    assert counts / 1_000_000 == pytest.approx(rcv1.rank_probabilities(1000), abs=2e-6)


def test_rows_have_unit_norm_and_four_decimals(sample):
    language, X, _ = sample
    W = by_word(X, language)
    assert np.allclose(W.multiply(W).sum(axis=1), 1, atol=2e-3)
    digits = X.data.astype(float) * 1e4
    assert np.allclose(digits, np.rint(digits), atol=1e-3)
    assert X.data.min() > 0


def test_informative_words_are_frequent_but_no_stop_words(rcv1, sample):
    language, X, _ = sample
    informative = language.weights != 0
    ranks = np.flatnonzero(informative[language.word_of_rank])
    assert len(ranks) == 200
    assert ranks.min() >= rcv1.STOP_WORDS
    assert ranks.max() < rcv1.STOP_WORDS + 6.5 * 200
    share = informative[np.searchsorted(language.ids, X.indices)].mean()
    assert share == pytest.approx(rcv1.rank_probabilities(50_000)[ranks].sum(), rel=0.1)  # less, for repeated draws


def test_labels_are_logistic_in_the_true_margin(sample):
    language, X, y = sample
    margin = margins(X, language)
    for low, high in [(-4, -1), (-1, 0), (0, 1), (1, 4)]:
        here = (margin > low) & (margin <= high)
        expected = (1 / (1 + np.exp(-margin[here]))).mean()
        assert (y[here] > 0).mean() == pytest.approx(expected, abs=5 * 0.5 / math.sqrt(here.sum()))


def test_true_features_are_what_a_linear_model_needs(rcv1, sample):
    language, X, y = sample
    T, labels = stacked(rcv1.rows(5000, 0, language, rcv1.TEST))
    informative = language.weights != 0
    model = LogisticRegression(C=10, max_iter=300).fit(by_word(X, language)[:, informative].toarray(), y)
    learnt = model.decision_function(by_word(T, language)[:, informative].toarray())
    best = roc_auc_score(labels, margins(T, language))
    assert 0.85 < best < 0.97
    assert best - 0.02 < roc_auc_score(labels, learnt) <= best + 0.005


def test_raw_values_keep_the_size_of_the_effects(rcv1):
    language = rcv1.Language.invent(0, vocabulary=50_000, informative=200, unit_norm=False)
    X, _ = stacked(rcv1.rows(8192, 0, language))
    unit = rcv1.Language.invent(0, vocabulary=50_000, informative=200)
    Z, _ = stacked(rcv1.rows(8192, 0, unit))
    assert np.log(X.data.astype(float)).std() == pytest.approx(0.5, abs=0.01)
    assert margins(X, language).std() == pytest.approx(margins(Z, unit).std(), rel=0.1)


def test_first_rows_do_not_depend_on_how_many_follow(rcv1):
    language = rcv1.Language.invent(3, vocabulary=5000, informative=20)
    few, many = (stacked(rcv1.rows(n, 3, language)) for n in (100, 9000))
    assert np.array_equal(few[0].indices, many[0][:100].indices)
    assert np.array_equal(few[0].data, many[0][:100].data)
    assert np.array_equal(few[1], many[1][:100])
    other = stacked(rcv1.rows(100, 4, language))
    assert not np.array_equal(few[0].indices, other[0].indices)


def test_text_and_datasets_hold_the_same_rows(rcv1, write, open_written, tmp_path):
    train = write("rcv1_like", *SMALL, "--rows-test", 500, "--seed", 5, "--text", tmp_path / "rows.svm")
    language = rcv1.Language.invent(5, vocabulary=20_000, informative=100)
    assert np.array_equal(train.truth[0], language.truth[0])
    assert np.array_equal(train.truth[1], language.truth[1])
    for written, text, part, n in [
        (train, "rows.svm", rcv1.TRAIN, 3000),
        (open_written("out.test"), "rows.test.svm", rcv1.TEST, 500),
    ]:
        X, y = stacked(rcv1.rows(n, 5, language, part))
        stored, labels = written.sparse()
        for Z, target in [(stored, labels), load_svmlight_file(str(tmp_path / text), zero_based=True)]:
            assert Z.shape[0] == n
            assert np.array_equal(Z.indptr, X.indptr)
            assert np.array_equal(Z.indices, X.indices)
            assert np.array_equal(Z.data.astype(np.float32), X.data)
            assert np.array_equal(target, y)
        assert written.dataset.classes == (-1, 1)


@pytest.mark.parametrize(("vocabulary", "informative"), [(150, 10), (1000, 950)])
def test_a_vocabulary_too_small(invoke, tmp_path, vocabulary, informative):
    result = invoke("rcv1_like", tmp_path / "out.zarr", "--vocabulary", vocabulary, "--informative", informative)
    assert result.exit_code == 2
    assert "--vocabulary" in result.output


def test_a_vocabulary_just_large_enough(write):
    options = "--rows", 200, "--vocabulary", 200, "--informative", 100
    X, _ = write("rcv1_like", *options).sparse()
    assert np.diff(X.indptr).mean() == pytest.approx(85, rel=0.1)


class TestText:
    @pytest.fixture
    def text(self, recipe):
        return recipe("_svmlight_text").svmlight_text

    @pytest.mark.parametrize("seed", range(3))
    def test_is_what_a_plain_loop_writes(self, text, seed):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(0, 5, 50)  # rows without entries among them
        ids = np.concatenate([np.sort(rng.integers(0, 10 ** rng.integers(1, 12), n)) for n in lengths])
        values = rng.integers(0, 10**5, len(ids)) / 10**4
        X = scipy.sparse.csr_array((values.astype(np.float32), ids, np.r_[0, lengths.cumsum()]), shape=(50, 10**12))
        y = rng.choice([-1.0, 1.0], 50)
        lines = []
        for row in range(50):
            entries = range(X.indptr[row], X.indptr[row + 1])
            lines.append(" ".join([f"{y[row]:g}", *(f"{ids[e]}:{values[e]:.4f}" for e in entries)]))
        written = text(X, y).decode().splitlines()
        assert written == lines

    def test_every_length_of_an_id(self, text, tmp_path):
        ids = np.array([0, *(10**k + d for k in range(1, 12) for d in (-1, 0)), 10**12 - 1])
        X = scipy.sparse.csr_array((np.ones(len(ids)), ids, [0, len(ids)]), shape=(1, 10**12))
        (tmp_path / "ids.svm").write_bytes(text(X, np.ones(1)))
        ds = daskfs.ingest([tmp_path / "ids.svm"], tmp_path / "ids.zarr", format="svmlight")
        assert ds.read(0).ids.tolist() == ids.tolist()
