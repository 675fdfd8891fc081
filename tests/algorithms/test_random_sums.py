"""Sums over rows of random features, against Φ in float64 as a whole: for any cut, panel, weight and tile edge."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from reference import random_features as reference

from daskfs.algorithms import random_sums
from daskfs.algorithms.random_basis import RandomFeatures, directions
from daskfs.algorithms.random_sums import add_gram, add_products, add_sums, scores, whole
from daskfs.protocol import RowBlock, SparseBlock

pytestmark = pytest.mark.kernels

TILE_EDGES = [0, 1, 511, 512, 513, 1023, 1024, 1025, 20_000]


def data(r, d=6, C=2, seed=0):
    """Rows, targets, weights (a third of them 0)."""
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0, 2, r) * (rng.random(r) > 1 / 3)
    return rng.random((r, d), dtype=np.float32), rng.normal(size=(r, C)), weight


def drawn(A, d=6, kind="gaussian", seed=3):
    W, b = directions(np.arange(A, dtype=np.uint64), d, seed, kind, 0.8, "uniform")
    return RandomFeatures(kind, W, b, np.full(d, 0.5), np.full(d, 1.25))


def block_of(X):
    return RowBlock(0, X, np.zeros(len(X)))


def Phi_of(features, X):  # noqa: N802
    """All of Φ in float64."""
    seen = ((X - features.offset) * features.scale).astype(np.float32)
    return reference.expansion(seen, features.W, features.b, features.kind)


def sums(features, blocks, lo=0):
    """ΦᵀDΦ and ΦᵀT of blocks (X, T, weight)."""
    A = len(features)
    G, products = np.zeros((A - lo, A)), np.zeros((A - lo, blocks[0][1].shape[1]))
    for X, T, weight in blocks:
        add_sums(features, block_of(X), T, weight, lo, G, products)
    return G, products


def lower(G, lo):
    """The part of a panel that is promised."""
    return np.tril(G, lo)


@pytest.mark.parametrize("r", TILE_EDGES)
@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_float64(r, weighted):
    features, (X, T, weight) = drawn(40), data(r)
    D = weight if weighted else np.ones(r)
    Phi = Phi_of(features, X)
    G, products = sums(features, [(X, T, weight if weighted else None)])
    np.testing.assert_allclose(lower(G, 0), lower((Phi.T * D) @ Phi, 0), atol=1e-6 * r)
    np.testing.assert_allclose(products, Phi.T @ T, atol=2e-6 * r**0.5 + 1e-7 * r)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lo", [0, 1, 500, 511, 512, 513, 1024, 1099, 1100])
def test_a_panel_is_a_part_of_the_whole_and_nothing_else_is_touched(lo, weighted):
    """1,100 features are three slabs, two whole ones and a rest."""
    features, (X, T, weight) = drawn(1100), data(300)
    D = weight if weighted else np.ones(300)
    Phi = Phi_of(features, X)
    G, products = sums(features, [(X, T, weight if weighted else None)], lo)
    np.testing.assert_allclose(G, np.tril((Phi[:, lo:].T * D) @ Phi, lo), atol=2e-6 * 300)
    np.testing.assert_allclose(products, Phi[:, lo:].T @ T, atol=1e-4)


def test_panels_put_together_are_the_whole_gram():
    features, (X, T, _) = drawn(700), data(900)
    panels = []
    for lo, hi in pairwise((0, 1, 300, 700)):
        some = RandomFeatures(features.kind, features.W[:hi], features.b[:hi], features.offset, features.scale)
        G = np.zeros((700, 700))[: hi - lo]
        G[:, :hi] = sums(some, [(X, T, None)], lo)[0]
        panels.append(G)
    at_once = sums(features, [(X, T, None)])[0]
    G = whole(np.vstack(panels))
    np.testing.assert_allclose(G, whole(at_once), atol=1e-3)
    assert np.array_equal(G, G.T)
    assert np.linalg.eigvalsh(G).min() > -1e-3 * 900


@pytest.mark.parametrize("kind", ["gaussian", "laplacian", "perceptron"])
@pytest.mark.parametrize("seed", range(3))
def test_the_cut_into_blocks_matters_to_rounding_alone(kind, seed):
    features, (X, T, weight) = drawn(30, kind=kind), data(5000, seed=seed)
    edges = np.sort(np.random.default_rng(seed).integers(0, 5000, 7))
    cut = [(X[a:b], T[a:b], weight[a:b]) for a, b in pairwise([0, *edges, 5000])]
    (G, products), (G_whole, products_whole) = sums(features, cut), sums(features, [(X, T, weight)])
    np.testing.assert_allclose(G, G_whole, atol=1e-6 * 5000)
    np.testing.assert_allclose(products, products_whole, atol=1e-6 * 5000)


def test_many_rows_do_not_wear_the_sums_out():
    """A perceptron's square is 1 in every row: a float32 total would stop at 2^24."""
    G = np.full((1, 1), 2.0**24)
    for _ in range(3):
        add_gram(np.ones((random_sums.GRAM_ROWS, 1), np.float32), 0, G)
    add_gram(np.ones((1, 1), np.float32), 0, G)
    assert G[0, 0] == 2**24 + 3 * random_sums.GRAM_ROWS + 1


@pytest.mark.parametrize("r", TILE_EDGES)
@pytest.mark.parametrize("C", [1, 3])
def test_scores_and_gradients_are_those_of_float64(r, C):
    features, (X, T, _) = drawn(40), data(r, C=C)
    w = np.random.default_rng(1).normal(size=(40, C))
    Phi = Phi_of(features, X)
    np.testing.assert_allclose(scores(features, block_of(X), w), Phi @ w, atol=2e-5)
    products = np.ones((40, C))
    add_products(features, block_of(X), T, products)
    np.testing.assert_allclose(products, 1 + Phi.T @ T, atol=2e-6 * r**0.5 + 1e-7 * r)


def test_sparse_blocks_have_the_sums_of_dense_ones():
    features, (X, T, weight) = drawn(40), data(1500)
    X[X < 0.7] = 0
    rows = sp.csr_array(X)
    block = SparseBlock(0, rows.indptr.astype(np.int64), rows.indices.astype(np.uint64), rows.data, np.zeros(1500))
    G, products = np.zeros((40, 40)), np.zeros((40, 2))
    add_sums(features, block, T, weight, 0, G, products)
    expected = sums(features, [(X, T, weight)])
    assert np.array_equal(G, expected[0])
    assert np.array_equal(products, expected[1])
    assert np.array_equal(scores(features, block, T[:40]), scores(features, block_of(X), T[:40]))


def test_blocks_may_be_protected_and_are_not_changed():
    features, arrays = drawn(40), data(1500)
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    sums(features, [arrays])
    assert all(np.array_equal(a, b) for a, b in zip(arrays, before, strict=True))


WARM = """
import numpy as np
from daskfs.algorithms import random_basis, random_basis_kernels, random_sums
from daskfs.protocol import RowBlock, SparseBlock

compiled = [f for f in vars(random_basis_kernels).values() if hasattr(f, "signatures")]
counts = lambda: [len(f.signatures) for f in compiled]
random_basis_kernels._warm_up()
before = counts()
for kind in ("gaussian", "laplacian", "perceptron"):
    W, b = random_basis.directions(np.arange(600, dtype=np.uint64), 2, 7, kind, 1, "uniform")
    features = random_basis.RandomFeatures(kind, W, b, np.zeros(2), np.ones(2))
    blocks = [RowBlock(0, random_basis.frozen(np.ones((5, 2), dtype)), np.ones(5)) for dtype in ("f4", "f8")]
    blocks.append(SparseBlock(0, np.arange(6), np.ones(5, np.uint64), np.ones(5, np.float32), np.ones(5)))
    for block in blocks:
        given = np.ones((5, 2)), np.ones(5), 20, np.zeros((580, 600)), np.zeros((580, 2))
        random_sums.add_sums(features, block, *given)
        random_sums.scores(features, block, np.ones((600, 2)))
assert sum(before) > 0 and counts() == before, (before, counts())
"""


def test_the_warm_up_compiles_all_that_is_met():
    """In a process of its own, where no other test has compiled anything."""
    done = subprocess.run([sys.executable, "-c", WARM], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("A", [3, 300, 3000])
def test_no_more_memory_than_promised(A):
    features, (X, T, weight) = drawn(A), data(20_000 if A < 3000 else 1500)
    G, products = np.zeros((A, A)), np.zeros((A, 2))
    calls = {
        "sums": lambda: add_sums(features, block_of(X), T, weight, 0, G, products),
        "products": lambda: add_products(features, block_of(X), T, products),
        "scores": lambda: scores(features, block_of(X), products),
    }
    for name, call in calls.items():
        call()
        tracemalloc.start()
        call()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        returned = 4 * T.size + 8 * len(X) if name == "scores" else 8 * len(X)  # block_of has a y
        assert peak - returned < random_sums.nbytes(A, 6, 2) + 50_000, name


@pytest.mark.parametrize(
    ("wrong", "shape"), [("G", (40, 39)), ("products", (40, 1)), ("weight", (99,)), ("targets", (99, 2))]
)
def test_arrays_that_do_not_fit_are_refused(wrong, shape):
    features, (X, T, weight) = drawn(40), data(100)
    given = {"targets": T, "weight": weight, "G": np.zeros((40, 40)), "products": np.zeros((40, 2))}
    given[wrong] = np.zeros(shape)
    with pytest.raises(ValueError, match=f"{wrong} is float64"):
        add_sums(features, block_of(X), given["targets"], given["weight"], 0, given["G"], given["products"])
