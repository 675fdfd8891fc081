"""What Sparse Random Features stand beside: all random features with a ridge, the kernel itself, and a plain ridge.

Rows are in memory, scaled to [0, 1]. Ridges are chosen on validation rows, and models are judged by their scores.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics.pairwise import euclidean_distances, laplacian_kernel, rbf_kernel
from sklearn.svm import SVC

from daskfs.basis import Basis, Kernel

Floats = NDArray[np.float64]
Rows = NDArray[np.float32]
RIDGES = (1e-4, 1e-3, 1e-2)  # of a kernel that is 1 for x = z; as many times as large for as many features
SVM_COSTS = (1.0, 10.0, 100.0)
TILE = 4096  # rows that are expanded at once


@dataclass(frozen=True)
class InMemory:
    """The rows of a task and their targets: −1 and +1 for two classes."""

    X: Rows
    y: Floats
    X_validation: Rows
    y_validation: Floats
    X_test: Rows


@dataclass(frozen=True)
class Peer:
    """Scores of the test rows, how many features or support vectors they are made of, and the CPU time they took."""

    scores: Floats
    size: int
    seconds: float


Loss = Callable[[Floats, Floats], float]
"""Of targets and scores: lower is better."""


def dense_features(rows: InMemory, kernel: Kernel, gamma: float, count: int, loss: Loss) -> Peer:
    """As many random features, all kept, and a ridge."""
    drawn = Basis(kernel, gamma, 0, rows.X.shape[1]).features(np.arange(count, dtype=np.uint64))
    return _ridge(rows, drawn.expand, loss, count)


def linear(rows: InMemory, loss: Loss) -> Peer:
    """The inputs themselves and a ridge."""
    return _ridge(rows, lambda X: X, loss, rows.X.shape[1])


def _ridge(rows: InMemory, expand: Callable[[Rows], Rows], loss: Loss, size: int) -> Peer:
    mean, count = rows.y.mean(), size + 1
    gram, product = np.zeros((count, count)), np.zeros(count)
    for start in range(0, len(rows.X), TILE):
        tile = _with_constant(expand(rows.X[start : start + TILE])).astype(np.float64)
        gram += tile.T @ tile
        product += tile.T @ (rows.y[start : start + TILE] - mean)
    return _best_ridge(rows, lambda X: _with_constant(expand(X)), gram, product, count, loss, size)


def _best_ridge(
    rows: InMemory, expand: Callable[[Rows], Rows], gram: Floats, product: Floats, unit: int, loss: Loss, size: int
) -> Peer:
    """Solve (gram + ridge · unit · I) w = product for every ridge, and predict with the best on validation rows."""
    mean = rows.y.mean()

    def models() -> Iterator[Floats]:
        for before, ridge in zip((0.0, *RIDGES), RIDGES, strict=False):
            gram.flat[:: len(gram) + 1] += (ridge - before) * unit
            yield cho_solve(cho_factor(gram, lower=True), product)

    best = min(
        models(), key=lambda w: loss(rows.y_validation, _in_tiles(rows.X_validation, lambda X: expand(X) @ w) + mean)
    )
    return _predicted(rows, lambda X: expand(X) @ best + mean, size)


def _predicted(rows: InMemory, scores: Callable[[Rows], Floats], size: int) -> Peer:
    start = time.process_time()
    return Peer(_in_tiles(rows.X_test, scores), size, time.process_time() - start)


def _in_tiles(X: Rows, scores: Callable[[Rows], Floats]) -> Floats:
    """Return scores of rows, which for all rows at once would take gigabytes."""
    return np.concatenate([scores(X[start : start + TILE]) for start in range(0, len(X), TILE)])


def _with_constant(Phi: Rows) -> Rows:
    return np.hstack([Phi, np.ones((len(Phi), 1), np.float32)])


def kernel_ridge(rows: InMemory, kernel: Kernel, gamma: float, loss: Loss) -> Peer:
    """The exact kernel on all rows: scikit-learn's KernelRidge, with one factor for each ridge and a mean."""
    K = kernel_of(kernel, gamma, rows.X, rows.X)
    y = rows.y - rows.y.mean()
    return _best_ridge(rows, lambda X: kernel_of(kernel, gamma, X, rows.X), K, y, 1, loss, len(y))


def support_vectors(rows: InMemory, kernel: Kernel, gamma: float, loss: Loss) -> Peer:
    """The exact kernel's support vector machine."""
    K = kernel_of(kernel, gamma, rows.X, rows.X)
    models = [SVC(kernel="precomputed", C=cost).fit(K, rows.y) for cost in SVM_COSTS]

    def scores(model: SVC, X: Rows) -> Floats:
        return _in_tiles(X, lambda some: model.decision_function(kernel_of(kernel, gamma, some, rows.X)))

    best = min(models, key=lambda model: loss(rows.y_validation, scores(model, rows.X_validation)))
    return _predicted(rows, lambda X: scores(best, X), int(best.n_support_.sum()))


def kernel_of(kernel: Kernel, gamma: float, X: Rows, Z: Rows) -> Floats:
    """The mean of φ(x) φ(z) over all features there are, as `daskfs.basis` has it."""
    X, Z = X.astype(np.float64), Z.astype(np.float64)
    if kernel == "gaussian":
        K = rbf_kernel(X, Z, gamma)
    elif kernel == "laplacian":
        K = laplacian_kernel(X, Z, gamma)
    else:
        d = X.shape[1]
        slope = math.exp(math.lgamma(d / 2) - math.lgamma((d + 1) / 2)) / math.sqrt(math.pi)  # the mean of |ω₁|
        K = 1 - gamma * slope * euclidean_distances(X, Z)
    found: Floats = K
    return found
