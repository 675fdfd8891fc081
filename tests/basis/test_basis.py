"""Random features: the published words, the numbers made of them, their laws and kernels, and what they say of rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reference import random_basis as reference
from scipy import stats

from daskfs.basis import KERNELS, Basis, RandomFeatures, multiply
from daskfs.basis.kernels import cosines, philox

pytestmark = pytest.mark.kernels

ALL_ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
KNOWN_ANSWERS = [  # of Random123, kat_vectors
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ALL_ONES,) * 4, (ALL_ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (*PI, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]
# What seed 2^63 + 12345 and γ = ½ stand for in every version to come: id, first five of W, b.
FROZEN_SEED = 2**63 + 12345
FROZEN = {
    "gaussian": [
        (0, [-0.12207415, -0.26041424, 0.05729036, 0.13569452, -0.05224133], 0.27669603),
        (2**63 + 5, [-0.31512678, 0.09561034, 0.22861685, 0.36303455, -0.15919831], 0.3125079),
    ],
    "laplacian": [
        (0, [-0.11293643, 0.05058353, 0.0410681, -0.11997695, 0.08430605], 0.27669603),
        (2**63 + 5, [-0.20554309, -0.01180629, -0.95612884, -0.14415495, -0.01998506], 0.3125079),
    ],
    "perceptron": [
        (0, [-0.37294415, -0.79558176, 0.17502561, 0.41455522, -0.15960053], 1.1067841),
        (2**63 + 5, [-0.55895156, 0.16958746, 0.4055058, 0.6439272, -0.2823757], 1.2500316),
    ],
}


# The same with γ = ½ and two of nine columns for every feature: id, columns, W there, b.
FROZEN_PAIRS = {
    "gaussian": [
        (0, [0, 2], [-0.25895837, -0.55242205], 0.27669603),
        (2**63 + 5, [4, 8], [0.20282017, -0.66848481], 0.3125079),
    ],
    "laplacian": [
        (0, [0, 2], [-0.50821394, 0.22762586], 0.27669603),
        (2**63 + 5, [4, 8], [-0.05312832, -0.92494386], 0.3125079),
    ],
    "perceptron": [
        (0, [0, 2], [-0.42444804, -0.90545231], 0.52174306),
        (2**63 + 5, [4, 8], [0.29033384, -0.95692539], 0.58927053),
    ],
}


def ids_of(*numbers):
    return np.array(numbers, np.uint64)


def directions(ids, d, seed, kernel, gamma):
    features = Basis(kernel, gamma, seed, d).features(ids)
    return features.W, features.b


def rows(r, d=22, seed=0):
    return np.random.default_rng(seed).random((r, d), dtype=np.float32)


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_philox_gives_the_published_answers(counter, key, words):
    assert philox(*map(np.uint32, counter), *map(np.uint32, key)) == words
    assert reference.philox(counter, key) == words


@pytest.mark.parametrize("kernel", FROZEN)
def test_features_are_what_they_were_in_the_first_version(kernel):
    for number, omega, phase in FROZEN[kernel]:
        W, b = directions(ids_of(number), 5, FROZEN_SEED, kernel, 0.5)
        np.testing.assert_allclose(W[0], omega, rtol=1e-6)
        np.testing.assert_allclose(b[0], phase, rtol=1e-6)


@pytest.mark.parametrize("kernel", FROZEN_PAIRS)
def test_features_of_few_columns_are_what_they_were_in_their_first_version(kernel):
    basis = Basis(kernel, 0.5, FROZEN_SEED, 9, (2,))
    for number, columns, omega, phase in FROZEN_PAIRS[kernel]:
        features = basis.features(ids_of(number))
        assert [each.tolist() for each in basis.inputs_of(ids_of(number))] == [columns]
        np.testing.assert_allclose(features.W[0, columns], omega, rtol=1e-6)
        np.testing.assert_allclose(features.b[0], phase, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 22])
def test_features_are_those_of_plain_python(kernel, d):
    numbers = [0, 1, 2, 17, 2**32 - 1, 2**32, 2**63 + 5, 2**64 - 1]
    turn = 1 if kernel == "perceptron" else 2 * math.pi
    for seed in (0, 1, 2**64 - 1):
        W, b = directions(ids_of(*numbers), d, seed, kernel, 0.7)
        for number, omega, phase in zip(numbers, W, b, strict=True):
            expected = reference.feature(number, d, seed, kernel, 0.7)
            np.testing.assert_allclose(turn * omega, expected[0], rtol=2e-7)
            np.testing.assert_allclose(turn * phase, expected[1], rtol=2e-7, atol=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_feature_is_the_same_in_any_company(kernel):
    ids = np.random.default_rng(1).integers(0, 2**64, 300, np.uint64)
    W, b = directions(ids, 7, 3, kernel, 1.0)
    order = np.random.default_rng(2).permutation(300)[:111]
    some_W, some_b = directions(ids[order], 7, 3, kernel, 1.0)
    assert np.array_equal(some_W, W[order])
    assert np.array_equal(some_b, b[order])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 22])
def test_features_of_few_columns_are_those_of_plain_python(kernel, d):
    numbers = [0, 1, 2, 3, 17, 2**32 - 1, 2**32, 2**62 - 1, 2**63 + 5, 2**64 - 1]
    turn, counts = 1 if kernel == "perceptron" else 2 * math.pi, (1, 3, 0, 2)
    for seed in (0, 2**64 - 1):
        basis = Basis(kernel, 0.7, seed, d, counts)
        features, inputs = basis.features(ids_of(*numbers)), basis.inputs_of(ids_of(*numbers))
        for number, omega, phase, columns in zip(numbers, features.W, features.b, inputs, strict=True):
            q = min(counts[number % 4] or d, d)
            if q == d:
                expected = reference.feature(number, d, seed, kernel, 0.7)
                assert columns is None
            else:
                expected = reference.feature_of_few(number, d, seed, kernel, 0.7, q)
                assert columns.tolist() == np.flatnonzero(omega).tolist()
                assert len(columns) == q
            np.testing.assert_allclose(turn * omega, expected[0], rtol=3e-7)
            np.testing.assert_allclose(turn * phase, expected[1], rtol=3e-7, atol=1e-15)


def test_all_pairs_of_columns_are_equally_likely():
    d, A = 6, 30_000
    inputs = np.array(Basis("gaussian", 1.0, 3, d, (2,)).inputs_of(np.arange(A, dtype=np.uint64)))
    counts = np.bincount(inputs[:, 0] * d + inputs[:, 1], minlength=d * d).reshape(d, d)[np.triu_indices(d, 1)]
    assert counts.sum() == A
    assert stats.chisquare(counts).pvalue > 1e-3


def test_rows_are_as_far_apart_for_few_columns_as_for_all():
    X = rows(200, d=40)
    spreads = []
    for counts in ((), (1,), (3,)):
        W = Basis("gaussian", 0.05, 3, 40, counts).features(np.arange(4000, dtype=np.uint64)).W
        spreads.append(np.square(X @ W.T - (X @ W.T).mean(axis=0)).mean())
    np.testing.assert_allclose(spreads, spreads[0], rtol=0.05)


@pytest.mark.parametrize(("kernel", "law"), [("gaussian", stats.norm), ("laplacian", stats.cauchy)])
def test_coordinates_and_phases_have_their_law(kernel, law):
    gamma = 0.8
    scale = math.sqrt(2 * gamma) if kernel == "gaussian" else gamma
    W, b = directions(np.arange(20_000, dtype=np.uint64), 6, 5, kernel, gamma)
    for omega in 2 * math.pi * W.T / scale:
        assert stats.kstest(omega, law.cdf).pvalue > 1e-3
    assert stats.kstest(b + 0.5, "uniform").pvalue > 1e-3


def test_directions_are_independent_of_each_other_of_phases_and_across_ids_and_seeds():
    A, d = 20_000, 6
    columns = [np.column_stack(directions(np.arange(first, first + A, dtype=np.uint64), d, seed, "gaussian", 1.0))
               for first, seed in ((0, 0), (1, 0), (2**32, 0), (0, 1), (0, 2**32))]  # fmt: skip
    numbers = np.hstack(columns).astype(np.float64)
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    for transformed in (numbers, stats.zscore(numbers**2)):
        correlation = transformed.T @ transformed / A - np.eye(numbers.shape[1])
        assert np.abs(correlation).max() < 5 / math.sqrt(A)


def test_perceptrons_are_uniform_on_the_sphere_and_their_thresholds_in_their_range():
    W, b = directions(np.arange(20_000, dtype=np.uint64), 3, 5, "perceptron", 0.25)
    np.testing.assert_allclose(np.linalg.norm(W.astype(np.float64), axis=1), 1, rtol=2e-7)
    for coordinate in W.T:  # on a sphere in three dimensions every coordinate is uniform, as Archimedes knew
        assert stats.kstest((coordinate + 1) / 2, "uniform").pvalue > 1e-3
    assert stats.kstest((b / 4 + 1) / 2, "uniform").pvalue > 1e-3


def angle(x, y):
    return math.acos(min(x @ y / np.linalg.norm(x) / np.linalg.norm(y), 1))


def mean_coordinate(d):
    """The mean of |ω₁| on the unit sphere."""
    return math.gamma(d / 2) / (math.sqrt(math.pi) * math.gamma((d + 1) / 2))


MEANS = {  # of φ(x) φ(y), from the literature
    ("gaussian", 0.7): lambda x, y: math.exp(-0.7 * np.sum((x - y) ** 2)),
    ("laplacian", 0.4): lambda x, y: math.exp(-0.4 * np.abs(x - y).sum()),
    ("perceptron", 1e9): lambda x, y: 1 - 2 / math.pi * angle(x, y),
    ("perceptron", 0.4): lambda x, y: 1 - 0.4 * mean_coordinate(len(x)) * np.linalg.norm(x - y),
}


@pytest.mark.parametrize(("kernel", "gamma"), MEANS)
def test_the_mean_of_products_is_the_kernel(kernel, gamma):
    X, A = rows(12, d=5), 100_000  # |x| ≤ √5 < 1/γ
    W, b = directions(np.arange(A, dtype=np.uint64), 5, 11, kernel, gamma)
    Phi = RandomFeatures(kernel, W, b).expand(X)
    exact = np.array([[MEANS[kernel, gamma](x, y) for y in X.astype(np.float64)] for x in X])
    assert np.abs(Phi.astype(np.float64) @ Phi.T / A - exact).max() < 5 / math.sqrt(A)
    assert exact.min() < 0.8  # there is something to tell apart


def test_cosines_are_right_for_large_arguments():
    radians = np.concatenate([np.linspace(-1e5, 1e5, 600_001), np.linspace(-20, 20, 400_001)])
    z = (radians / (2 * math.pi)).astype(np.float32)
    for phase in (-0.5, -0.3, 0.0, 0.123, 0.5):
        Z, b = z.reshape(1, -1).copy(), np.full(len(z), phase, np.float32)
        cosines(Z, b)
        exact = math.sqrt(2) * np.cos(2 * math.pi * ((z.astype(np.float64) % 1) + b))
        assert np.abs(Z[0] - exact).max() < 4e-7


def test_cosines_of_whole_turns_and_of_what_is_no_number():
    Z = np.array([[0.0, 3.0, -1e30, 0.25, 0.5, np.nan, np.inf]], np.float32)
    with np.errstate(invalid="ignore"):
        cosines(Z, np.zeros(7, np.float32))
    np.testing.assert_allclose(Z[0, :5] / math.sqrt(2), [1, 1, 1, 0, -1], atol=2e-7)
    assert np.isnan(Z[0, 5:]).all()


def expanded(kernel, r):
    """Features of rows, in float64 too; how clear a row is of a hyperplane, and by how much X W' may be off."""
    X = rows(r, d=9) - np.float32(0.5)
    W, b = directions(np.arange(37, dtype=np.uint64), 9, 2, kernel, 0.9)
    Phi = RandomFeatures(kernel, W, b).expand(X)
    rounding = 9 * 2.0**-24 * (np.abs(X).astype(np.float64) @ np.abs(W).T)
    return Phi, reference.expansion(X, W, b, kernel), np.abs(X.astype(np.float64) @ W.T - b), rounding


TILE_EDGES = [0, 1, 511, 512, 513, 1023, 1024, 1025, 20_000]


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize("r", TILE_EDGES)
def test_cosines_of_rows_are_those_of_float64(kernel, r):
    Phi, exact, _, rounding = expanded(kernel, r)
    assert (np.abs(Phi - exact) <= 4e-7 + math.sqrt(2) * 2 * math.pi * rounding).all()


@pytest.mark.parametrize("r", TILE_EDGES)
def test_perceptrons_answer_as_in_float64_but_next_to_their_hyperplane(r):
    Phi, exact, distance, rounding = expanded("perceptron", r)
    clear = distance > rounding + 1e-7
    assert np.array_equal(Phi[clear], exact[clear])
    assert np.sum(~clear) < 5


def test_a_row_that_is_no_number_shows():
    X = np.array([[np.nan, 0.0], [1.0, 0.0]], np.float32)
    for kernel in KERNELS:
        W, b = directions(ids_of(1, 2, 3), 2, 0, kernel, 1.0)
        Phi = RandomFeatures(kernel, W, b).expand(X)
        assert np.isnan(Phi[0]).all()
        assert np.isfinite(Phi[1]).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_basis_draws_and_expands(kernel):
    X, ids = rows(30, d=4), ids_of(5, 2**40)
    W, b = directions(ids, 4, 7, kernel, 0.3)
    Phi = RandomFeatures(kernel, W, b).expand(X, out=np.empty((30, 2), np.float32))
    assert np.array_equal(Basis(kernel, 0.3, 7, 4).features(ids).expand(X), Phi)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_a_changed_column_changes_what_features_see(kernel):
    drawn, X = Basis(kernel, 0.3, 7, 4).features(np.arange(20, dtype=np.uint64)), rows(30, d=4)
    other, change = X.copy(), rows(30, d=1, seed=5)[:, 0]
    other[:, 2] += change
    np.testing.assert_allclose(drawn.expand_changed(X @ drawn.W.T, 2, change), drawn.expand(other), atol=1e-4)


def test_a_flag_that_blas_sets_is_no_warning():
    """OpenBLAS sets it by chance, see `multiply`; here a product of infinities stands for that chance."""
    infinite = np.array([[np.inf, -np.inf]], np.float32)
    with np.errstate(all="raise"):
        assert np.isnan(multiply(infinite, np.ones((2, 1), np.float32))).all()
        with pytest.raises(FloatingPointError, match="overflow"):
            multiply(np.full((3, 2), 3e38, np.float32), np.ones((2, 3), np.float32))
