"""Gram matrices of random features, against float64: for any slice and tile edge."""

from __future__ import annotations

import numpy as np
import pytest

from daskfs.algorithms.random_features.sums import add_gram, symmetrise

pytestmark = pytest.mark.kernels


def features(r, A):
    return np.random.default_rng(r).uniform(-1.5, 1.5, (r, A)).astype(np.float32)


def gram_slice(Phi, lo=0):
    G = np.zeros((Phi.shape[1] - lo, Phi.shape[1]))
    add_gram(Phi, lo, G)
    return G


@pytest.mark.parametrize("r", [0, 1, 511, 1024, 16_384])
def test_sums_are_those_of_float64(r):
    Phi = features(r, 40)
    exact = Phi.astype(np.float64).T @ Phi
    np.testing.assert_allclose(gram_slice(Phi), np.tril(exact), atol=1e-6 * r)


@pytest.mark.parametrize("lo", [0, 1, 500, 511, 512, 513, 1024, 1099, 1100])
def test_a_slice_is_a_part_of_the_whole_and_nothing_else_is_touched(lo):
    """1,100 features are three slabs, two whole ones and a rest."""
    Phi = features(300, 1100)
    exact = Phi[:, lo:].astype(np.float64).T @ Phi
    np.testing.assert_allclose(gram_slice(Phi, lo), np.tril(exact, lo), atol=1e-3)


def test_slices_put_together_are_the_whole_gram():
    Phi = features(900, 700)
    G = np.zeros((700, 700))
    for lo, hi in ((0, 1), (1, 300), (300, 700)):
        G[lo:hi, :hi] = gram_slice(Phi[:, :hi], lo)  # the rows of a wider array
    np.testing.assert_allclose(symmetrise(G), Phi.astype(np.float64).T @ Phi, atol=2e-3)
    assert np.array_equal(G, G.T)


def test_many_rows_do_not_wear_the_sums_out():
    """A perceptron's square is 1 in every row: a float32 total would stop at 2^24."""
    G = np.full((1, 1), 2.0**24)
    for _ in range(3):
        add_gram(np.ones((1024, 1), np.float32), 0, G)
    assert G[0, 0] == 2**24 + 3 * 1024


@pytest.mark.parametrize("shape", [(40, 39), (39, 40)])
def test_arrays_that_do_not_fit_are_refused(shape):
    with pytest.raises(ValueError, match="G is float64"):
        add_gram(features(9, 40), 0, np.zeros(shape))
