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
    gram, product = 0.0, 0.0
    mean = rows.y.mean()
    for start in range(0, len(rows.X), 4096):
        tile = _with_constant(expand(rows.X[start : start + 4096])).astype(np.float64)
        gram, product = gram + tile.T @ tile, product + tile.T @ (rows.y[start : start + 4096] - mean)
    validation = _with_constant(expand(rows.X_validation))
    models = (
        np.linalg.solve(gram + ridge * len(product) * np.eye(len(product)), product)  # type: ignore[arg-type]
        for ridge in RIDGES
    )
    best = min(models, key=lambda w: loss(rows.y_validation, validation @ w + mean))
    return _predicted(lambda: _with_constant(expand(rows.X_test)) @ best + mean, size)


def _predicted(scores: Callable[[], Floats], size: int) -> Peer:
    start = time.process_time()
    return Peer(scores(), size, time.process_time() - start)


def _with_constant(Phi: Rows) -> Rows:
    return np.hstack([Phi, np.ones((len(Phi), 1), np.float32)])


def kernel_ridge(rows: InMemory, kernel: Kernel, gamma: float, loss: Loss) -> Peer:
    """The exact kernel on all rows: scikit-learn's KernelRidge, with one factor for each ridge and a mean."""
    K, mean = kernel_of(kernel, gamma, rows.X, rows.X), rows.y.mean()
    validation = kernel_of(kernel, gamma, rows.X_validation, rows.X)

    def models() -> Iterator[Floats]:
        for before, ridge in zip((0.0, *RIDGES), RIDGES, strict=False):
            K.flat[:: len(K) + 1] += ridge - before
            yield cho_solve(cho_factor(K, lower=True), rows.y - mean)

    best = min(models(), key=lambda a: loss(rows.y_validation, validation @ a + mean))
    return _predicted(lambda: kernel_of(kernel, gamma, rows.X_test, rows.X) @ best + mean, len(rows.X))


def support_vectors(rows: InMemory, kernel: Kernel, gamma: float, loss: Loss) -> Peer:
    """The exact kernel's support vector machine."""
    K = kernel_of(kernel, gamma, rows.X, rows.X)
    validation = kernel_of(kernel, gamma, rows.X_validation, rows.X)
    models = [SVC(kernel="precomputed", C=cost).fit(K, rows.y) for cost in SVM_COSTS]
    best = min(models, key=lambda model: loss(rows.y_validation, model.decision_function(validation)))
    size = int(best.n_support_.sum())
    return _predicted(lambda: best.decision_function(kernel_of(kernel, gamma, rows.X_test, rows.X)), size)


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
